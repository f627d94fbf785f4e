/* What the rules of `report advice` that look at a torch profiler's trace share: the steps
 * of each rank, and how a finding is said. */
#ifndef LW_ANALYSES_ADVICE_TRACE_H
#define LW_ANALYSES_ADVICE_TRACE_H

#include "analyses/advice.h"
#include "analyses/intervals.h"
#include "analyses/trace_scope.h"
#include "analyses/trace_steps.h"

/* A copy to a device of so many bytes takes longer than the calls for it, at the 5 to 10
 * GB/s that pageable memory has: where it lies is worth a thought. What is smaller only
 * costs a wait. */
#define LW_ADVICE_LARGE_COPY_BYTES (64 * 1024)

/* Whole steps of a rank; a trace in which none are marked is one. */
struct lw_advice_rank {
    struct lw_trace_steps steps;
    struct lw_intervals set; /* of them */
    uint64_t ns;             /* in all */
};

struct lw_advice_trace {
    struct lw_advice *advice; /* borrowed */
    struct lw_trace_scope scope;
    struct lw_advice_rank *ranks; /* owned: one for each rank of the trace; empty for
                                     those that are not meant */
    uint64_t step_count;          /* of all ranks, as the next */
    uint64_t step_ns;
    bool is_marked; /* in every rank */
};

/* Release in any case. No step at all is no failure. */
bool lw_advice_trace_init(struct lw_advice_trace *trace, struct lw_advice *advice,
                          struct lw_error *err) LW_MUST_CHECK;
void lw_advice_trace_release(struct lw_advice_trace *trace); /* zeroed is fine */

/* How much of the time from START_NS to END_NS is in steps of RANK. */
static inline uint64_t lw_advice_in_steps(const struct lw_advice_trace *trace,
                                          uint32_t rank, uint64_t start_ns,
                                          uint64_t end_ns)
{
    return lw_intervals_within(&trace->ranks[rank].set, start_ns, end_ns);
}

/* What is known of DEVICE of RANK; NULL: nothing. */
const struct lw_trace_gpu *lw_advice_gpu(const struct lw_trace *trace, uint32_t rank,
                                         int32_t device);

/* NS of all steps as a share of them. */
static inline double lw_advice_share(const struct lw_advice_trace *trace, double ns)
{
    return trace->step_ns > 0 ? ns / (double)trace->step_ns : 0;
}

/* Two texts that a rule writes, and the rest of what it found. */
struct lw_advice_words {
    struct lw_buf change, evidence;
    struct lw_finding finding; /* but for `change` and `evidence` */
};

void lw_advice_words_init(struct lw_advice_words *words,
                          const struct lw_advice_rule *rule);
void lw_advice_words_release(struct lw_advice_words *words);
/* "train.py(30): log" becomes the finding's file and line; what has no such form nothing.
 * LEN may be 0. */
bool lw_advice_words_place(struct lw_advice_words *words, struct lw_advice *advice,
                           const char *text, size_t len, struct lw_error *err)
    LW_MUST_CHECK;
/* The same of the line that EVENT (an index) comes from, where the trace says that. */
bool lw_advice_words_place_of(struct lw_advice_words *words, struct lw_advice *advice,
                              uint32_t event, struct lw_error *err) LW_MUST_CHECK;
/* Append NS of all steps as "4.2 ms of a step of 12.3 ms", or of a trace without steps
 * "4.2 ms of 12.3 ms". */
void lw_advice_words_add_part(struct lw_buf *out, const struct lw_advice_trace *trace,
                              uint64_t ns);
/* Append COUNT of all steps as "41 times a step". */
void lw_advice_words_add_times(struct lw_buf *out, const struct lw_advice_trace *trace,
                               uint64_t count);
bool lw_advice_words_add(struct lw_advice_words *words, struct lw_advice *advice,
                         struct lw_error *err) LW_MUST_CHECK;

#endif
