/* What was sampled of one process, as a profile keeps it: strings, frames, stacks and
 * threads, each with a number, and samples that refer to them. Whoever takes samples adds
 * here; whoever records them takes the samples out and asks for what their numbers
 * mean. */
#ifndef LW_SAMPLER_SAMPLE_LOG_H
#define LW_SAMPLER_SAMPLE_LOG_H

#include "model/profile.h"
#include "sampler/target.h"

/* A thread that was sampled. Its number is its place in the list. */
struct lw_sampled_thread {
    uint64_t tid;
    uint64_t start_ns; /* first seen */
    uint64_t last_ns;  /* last seen */
    uint32_t number;   /* the target's */
    size_t last;       /* place of its last sample, if that was not taken out yet */
    char name[LW_OS_NAME_BYTES];
};

/* An instruction that was seen: what frame it is. */
struct lw_sampled_place {
    uint32_t code;
    int32_t instruction;
    lw_frame_id frame;
};

struct lw_sample_log {
    struct lw_strings *strings;
    struct lw_stacks *stacks;
    struct lw_sampled_place *places; /* from 1 on; owned */
    size_t place_count, place_capacity;
    struct lw_map by_place;
    struct lw_sampled_thread *threads; /* owned */
    size_t thread_count, thread_capacity;
    struct lw_sample *samples; /* `thread` is an index of `threads`; owned */
    size_t sample_count, sample_capacity;
    lw_frame_id *functions; /* of native ones by their number; 0: not yet; owned */
    size_t function_capacity;
    uint64_t dropped; /* samples for which there was no memory */
    lw_frame_id moving_frame, native_frame;
};

bool lw_sample_log_init(struct lw_sample_log *log, struct lw_error *err) LW_MUST_CHECK;
void lw_sample_log_release(struct lw_sample_log *log); /* zeroed is fine */

/* Add TARGET's threads as they were just sampled, each standing for WEIGHT_NS. */
void lw_sample_log_add(struct lw_sample_log *log, const struct lw_target *target,
                       uint64_t now_ns, uint64_t weight_ns);

#endif
