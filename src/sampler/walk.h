/* From a snapshot to a stack: one walk for every Python, which asks what a layout has
 * and never which version it is.
 *
 * It believes a frame only if both copies agree on it, and a pair of frames only if they
 * lie as the interpreter lays them: on the data stack a frame begins where its caller's
 * ends. A stack that changed while it was copied gives its part that held still, from the
 * root up, and what one copy is known to tell (running.h); if that is not all, it is said
 * to be moving. */
#ifndef LW_SAMPLER_WALK_H
#define LW_SAMPLER_WALK_H

#include "sampler/code_cache.h"
#include "sampler/snapshot.h"

struct lw_walk_frame {
    uint64_t address;
    uint32_t code;       /* number in the target's codes */
    int32_t instruction; /* bytes into its bytecode; -1: not known */
    bool is_entry; /* C called it: there is machine code between it and the next */
};

struct lw_walk {
    struct lw_walk_frame *frames; /* root first; owned */
    size_t count, capacity;
    bool is_moving; /* what ran on top of these is not known */
};

enum lw_walk_result {
    LW_WALK_DONE,
    LW_WALK_AGAIN, /* the snapshot lacked something: read it again */
    LW_WALK_NONE,  /* the thread runs no Python */
};

void lw_walk_release(struct lw_walk *walk);

/* Walk the stack in SNAPSHOT. IS_LAST: take what is there, do not ask again. */
enum lw_walk_result lw_walk_stack(struct lw_walk *walk, struct lw_snapshot *snapshot,
                                  struct lw_code_cache *codes, struct lw_memory *memory,
                                  uint64_t now_ns, bool is_last);

/* The frame at ADDRESS by itself, as it is now: a coroutine's, which may be on no stack.
 * False: there is none. */
bool lw_walk_alone(struct lw_code_cache *codes, struct lw_memory *memory,
                   uint64_t address, uint64_t now_ns, struct lw_walk_frame *found)
    LW_MUST_CHECK;

#endif
