/* What the parts of a walk share: its state, and the frames in the two copies. */
#ifndef LW_SAMPLER_WALKING_H
#define LW_SAMPLER_WALKING_H

#include "sampler/py_frame.h"
#include "sampler/walk.h"

/* Bounds a broken or hostile target. */
#define LW_WALK_DEPTH_MAX 200000u

struct lw_walking {
    struct lw_walk *walk;
    struct lw_snapshot *snapshot;
    struct lw_code_cache *codes;
    const struct lw_py_layout *layout;
    struct lw_memory *memory;
    uint64_t now_ns;
    struct lw_thread_words words[2];
};

/* The frame at ADDRESS as copy WHICH has it. */
bool lw_walking_get(const struct lw_walking *at, int which, uint64_t address,
                    struct lw_py_frame *frame);
/* Whether both copies have the same frame at ADDRESS. The instruction may differ: a
 * frame that runs is still the same frame. */
enum lw_agreement { LW_MISSING, LW_CHANGED, LW_SAME };
enum lw_agreement lw_walking_get_same(const struct lw_walking *at, uint64_t address,
                                      struct lw_py_frame *frame);
/* Are the LEN bytes of the frame at ADDRESS the same in both copies? Those of one that
 * waits for its callee are, its variables too; one that returned and was called anew at
 * the same place differs in something. */
bool lw_walking_held_still(const struct lw_walking *at, uint64_t address, size_t len);
/* Can FRAME have called another in the same run of the interpreter's loop? One that runs
 * itself has not; nor has one that was only just made, though its stack is as saved: no
 * function calls with its first instruction. What the interpreter puts around __init__
 * stands at its first all the time. */
bool lw_walking_can_call(struct lw_walking *at, const struct lw_py_frame *frame);

/* The number of its code; 0: it has none. */
uint32_t lw_walking_code(struct lw_walking *at, const struct lw_py_frame *frame);
/* Is it the interpreter's own, which is not shown? */
bool lw_walking_is_made_up(const struct lw_walking *at, uint32_t code);

/* Append FRAME, unless it is not shown. */
bool lw_walking_push(struct lw_walking *at, uint64_t address,
                     const struct lw_py_frame *frame, uint32_t code);
/* Push what lies between the frames at CALLER and ADDRESS, as copy WHICH has it:
 * generators that run on somebody else's stack. *IS_ENTRY is set if C called the frame
 * that ADDRESS is the caller of. False: the links do not lead from the one to the other. */
bool lw_walking_push_between(struct lw_walking *at, int which, uint64_t address,
                             uint64_t caller, bool *is_entry);
/* The frames from FIRST on, root first. */
void lw_walking_reverse(struct lw_walk *walk, size_t first);

#endif
