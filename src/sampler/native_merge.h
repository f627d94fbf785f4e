/* One stack out of two: the machine's, on which the interpreter's loop is one function
 * like any other, and Python's, on which C is not seen.
 *
 *     machine      _start main ... loop   PyObject_Call qsort compare loop   nanosleep
 *     Python                       main train *                       less
 *     together                     main train               qsort compare less nanosleep
 *
 * Each run of the loop stands for the Python frames from one that C called (`is_entry`) up
 * to the next such one. What only leads from one run of the loop to the next, and what
 * comes before the first, is left out. */
#ifndef LW_SAMPLER_NATIVE_MERGE_H
#define LW_SAMPLER_NATIVE_MERGE_H

#include "sampler/walk.h"

enum lw_native_kind {
    LW_NATIVE_PLAIN,
    LW_NATIVE_LOOP,    /* the interpreter's loop */
    LW_NATIVE_HANDLER, /* an instruction of it that is a function of its own (3.14+) */
    LW_NATIVE_INNER,   /* how the interpreter calls, and what of it has no name */
};

#define LW_NATIVE_LOOP_NAME "_PyEval_EvalFrameDefault"

/* What the function NAME of the interpreter is. A compiler's suffix (".cold", ".part.0")
 * does not matter. */
enum lw_native_kind lw_native_kind_of(const char *name);

struct lw_native_frame {
    uint32_t function; /* its number, for the caller's use */
    uint8_t kind;      /* enum lw_native_kind */
};

/* Root first: an index of the walk's frames, or with this bit a native function. */
#define LW_MERGED_FUNCTION 0x80000000u

struct lw_merged {
    uint32_t *entries; /* owned */
    size_t count, capacity;
};

/* Merge the COUNT machine FRAMES, innermost first, with WALK into OUT. IS_WHOLE: the
 * machine frames reach to where the thread began; else they are counted from the inner
 * end, and Python frames further out stand for themselves. False: the two do not belong
 * together (or no memory), and OUT is empty. */
bool lw_native_merge(struct lw_merged *out, const struct lw_native_frame *frames,
                     size_t count, bool is_whole, const struct lw_walk *walk)
    LW_MUST_CHECK;

#endif
