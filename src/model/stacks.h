/* Frames (a function, or a line of one) and stacks (a path of frames from the root),
 * each known by a small number.
 *
 * Stacks form a tree: a stack is its parent and one more frame on top, so a depth of
 * ten thousand costs ten thousand small entries once, and walking towards the root is
 * following `parent`. A parent's number is always smaller than its children's, so one
 * pass over the numbers from high to low adds children into parents with no recursion.
 * Stack 0 is the empty one, the root, with no frame. Frame 0 is "(unknown)". */
#ifndef LW_MODEL_STACKS_H
#define LW_MODEL_STACKS_H

#include "model/strings.h"

typedef uint32_t lw_frame_id;
typedef uint32_t lw_stack_id;

#define LW_NO_STACK 0u

enum lw_frame_kind {
    LW_FRAME_PYTHON = 0,
    LW_FRAME_C = 1,      /* a builtin or extension function, as seen from Python */
    LW_FRAME_NATIVE = 2, /* machine code, by address or symbol */
    LW_FRAME_MARK = 3,   /* a named range the program announced */
    LW_FRAME_NOTE = 4,   /* ours: "(more)", "(moving)" */
    LW_FRAME_OP = 5,     /* an operator of torch's: "aten::mm" */
    LW_FRAME_PHASE = 6,  /* what a training does: "forward" of `file`, a class */
    LW_FRAME_KINDS = 7,  /* one more than the last */
};

struct lw_frame {
    lw_string_id name;   /* as pstats prints it: "<built-in method time.sleep>" */
    lw_string_id file;   /* as the interpreter gave it; 0: none (pstats says "~") */
    uint32_t first_line; /* of the function; 0: none */
    uint32_t line;       /* being executed; 0: the frame is the whole function */
    /* The part of the source that is being executed, where the interpreter tells: from
     * `column` (from 1; 0: not known) of `line` to before `end_column` of the line
     * `more_lines` further down. */
    uint16_t column, end_column, more_lines;
    uint16_t variant; /* tells apart what prints alike: two lambdas on a line */
    uint8_t kind;     /* enum lw_frame_kind */
};

struct lw_stack {
    lw_stack_id parent;
    lw_frame_id frame;
};

struct lw_stacks;

struct lw_stacks *lw_stacks_new(struct lw_error *err);
void lw_stacks_free(struct lw_stacks *table); /* NULL is fine */

/* Find or add; on failure (LW_ERR_NOMEM, or LW_ERR_LIMIT at 2^32-2) the table is as
 * it was. PARENT must be a stack of this table. */
bool lw_stacks_frame(struct lw_stacks *table, const struct lw_frame *frame,
                     lw_frame_id *id, struct lw_error *err) LW_MUST_CHECK;
bool lw_stacks_push(struct lw_stacks *table, lw_stack_id parent, lw_frame_id frame,
                    lw_stack_id *id, struct lw_error *err) LW_MUST_CHECK;

/* Frame 0 has no name until it is given one: names live in a table of strings, which
 * this one does not know. */
void lw_stacks_name_unknown(struct lw_stacks *table, lw_string_id name);

/* Borrowed arrays, good until the next add. Index them by id. */
const struct lw_frame *lw_stacks_frames(const struct lw_stacks *table, size_t *count);
const struct lw_stack *lw_stacks_list(const struct lw_stacks *table, size_t *count);

#endif
