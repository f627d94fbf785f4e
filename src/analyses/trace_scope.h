/* Which ranks of a trace a question is about, and how its answer names them. */
#ifndef LW_ANALYSES_TRACE_SCOPE_H
#define LW_ANALYSES_TRACE_SCOPE_H

#include "analyses/analysis.h"

struct lw_trace_scope {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    bool *ranks;       /* owned: of each rank of the trace, whether it is meant */
    size_t rank_count; /* how many are */
};

/* What QUERY asks of PROFILE's trace in VIEW. Fails where there is no trace, or not the
 * rank that was asked for (LW_ERR_USAGE, and the sentence says which there are). */
bool lw_trace_scope_init(struct lw_trace_scope *scope, const struct lw_profile *profile,
                         const struct lw_query *query, const char *view,
                         struct lw_error *err) LW_MUST_CHECK;
void lw_trace_scope_release(struct lw_trace_scope *scope); /* zeroed is fine */

static inline bool lw_trace_scope_has_track(const struct lw_trace_scope *scope,
                                            const struct lw_track *track)
{
    return scope->ranks[track->rank];
}
static inline bool lw_trace_scope_has(const struct lw_trace_scope *scope,
                                      const struct lw_event *event)
{
    return scope->ranks[scope->trace->tracks[event->track].rank];
}

/* The number of a rank in its job; the index where the file does not tell. */
int64_t lw_trace_rank_number(const struct lw_trace *trace, uint32_t rank);

/* Is NAME that of a step of torch.profiler's schedule? */
bool lw_trace_is_step(const char *name);

/* Append what the answer is of: "worker0.json: rank 0 of 8", or "8 ranks"; and with the
 * steps that are marked: ", 6 steps", ", 6 steps each". */
void lw_trace_scope_add_name(const struct lw_trace_scope *scope, struct lw_buf *out);
void lw_trace_scope_add_text(const struct lw_trace_scope *scope, struct lw_buf *out);

/* Fails with a sentence for VIEW if nothing ran on a device in the ranks that are
 * meant. */
bool lw_trace_scope_wants_device(const struct lw_trace_scope *scope, const char *view,
                                 struct lw_error *err) LW_MUST_CHECK;

#endif
