/* The sampler: a thread of ours that looks at every process it was given, at times that
 * no loop of theirs can keep step with.
 *
 * The times are random (half the period, and on top of it an exponential half), on an
 * absolute schedule; a sample stands for the time since the one before it. One that is
 * taken late still stands for its real gap, so nothing is under-counted; how many were
 * late, and how many could not be taken at all because the one before took too long, is
 * counted. */
#ifndef LW_SAMPLER_SAMPLER_H
#define LW_SAMPLER_SAMPLER_H

#include "sampler/sample_log.h"

struct lw_sampler_options {
    double rate; /* samples a second */
    bool pause;  /* stop Python threads while they are read */
    bool native; /* machine code too; stops one thread at a time */
};

struct lw_sampler_counts {
    uint64_t taken;
    uint64_t late;   /* of those: more than a period after they were due */
    uint64_t missed; /* not taken: a period after, the one before was not done */
    /* Of the late and the missed: those due while the sampler only waited for their time
     * and its processor was taken away, where it can tell (rates at which it looks at the
     * clock instead of sleeping). */
    uint64_t interrupted;

    /* Where threads are stopped (sampler/pause.h): how often one was, did not stop in
     * time, or may not be; and how long some stood at most. */
    uint64_t stops, stop_misses, stop_refusals, longest_stop_ns;
};

struct lw_sampler;
struct lw_sampled; /* one process; belongs to the sampler */

struct lw_sampler *lw_sampler_start(const struct lw_sampler_options *options,
                                    struct lw_error *err);
/* Ends the thread; everything it sampled is gone. NULL is fine. */
void lw_sampler_stop(struct lw_sampler *sampler);

/* Sample TARGET from now on; it is the sampler's. NULL: no memory, TARGET is freed. */
struct lw_sampled *lw_sampler_add(struct lw_sampler *sampler, struct lw_target *target,
                                  struct lw_error *err);
/* No more samples of it; what was not taken out is lost. */
void lw_sampler_remove(struct lw_sampler *sampler, struct lw_sampled *sampled);

/* Is there still somebody to sample? False: the process ended, or is another program. */
bool lw_sampled_lives(struct lw_sampler *sampler, const struct lw_sampled *sampled);

struct lw_sampler_counts lw_sampler_counts(struct lw_sampler *sampler);

/* What a target counted (target.h): stacks, how many of them were moving, how many
 * could not be read. */
struct lw_sampled_counts {
    uint64_t samples, stacks, moving, unreadable, dropped, system_calls;
    /* Of machine code (sampler/native.h): stacks merged with Python's, those that would
     * not fit, threads that could not be caught, stacks whose outer part is missing. */
    uint64_t merged, mismatched, uncaught, cut;
};
struct lw_sampled_counts lw_sampled_counts(struct lw_sampler *sampler,
                                           const struct lw_sampled *sampled);

/* Look into the log of SAMPLED while the sampler keeps its hands off: between these two,
 * take out what is new, and be quick. */
struct lw_sample_log *lw_sampled_lock(struct lw_sampler *sampler,
                                      struct lw_sampled *sampled);
void lw_sampled_unlock(struct lw_sampler *sampler);

#endif
