/* Several ranks in one trace: on one clock, in order, and whether they belong together. */
#ifndef LW_MODEL_TRACE_RANKS_H
#define LW_MODEL_TRACE_RANKS_H

#include "model/builder.h"

/* Before the builder is finished, when all ranks were read: their times, each since its
 * own base_ns, are from now on since the smallest of these, which becomes the trace's.
 * Ranks are put in order. What does not fit (a rank twice, ranks that are not here, jobs
 * of two sizes) is told as a loss. */
bool lw_trace_ranks_align(struct lw_builder *builder, struct lw_error *err)
    LW_MUST_CHECK;

/* Add all of FROM, which is finished, to the trace of OUT, as further ranks on the same
 * clock. STRINGS and STACKS say what its numbers are in OUT; STACKS may be NULL. */
bool lw_trace_ranks_add(struct lw_builder *out, const struct lw_trace *from,
                        const lw_string_id *strings, const lw_stack_id *stacks,
                        struct lw_error *err) LW_MUST_CHECK;
/* When all were added: as above, but for the times. */
bool lw_trace_ranks_check(struct lw_builder *builder, struct lw_error *err)
    LW_MUST_CHECK;

#endif
