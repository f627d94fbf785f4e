/* Trace events as spans, calls and counters: what every view and writer can show of any
 * program's trace. (As what torch's profiler means by them: kineto.h.)
 *
 * X, and B with its E, are spans; i, I and R are spans of no length; C are counters; M
 * names processes and threads. Flows (s, t, f) only join spans for the eye and are passed
 * over; all other kinds (asynchronous ones, objects, dumps) are counted as not read. An
 * event's members come in any order, and so do events. */
#ifndef LW_READERS_TRACE_SPANS_H
#define LW_READERS_TRACE_SPANS_H

#include "model/builder.h"
#include "readers/trace_events.h"

struct lw_trace_spans;

/* WANT is enum lw_want; RANK is of the processes, -1: none. What cannot be taken is
 * counted in LOSSES (borrowed). */
struct lw_trace_spans *lw_trace_spans_new(struct lw_builder *out, unsigned want,
                                          int64_t rank, struct lw_trace_losses *losses,
                                          struct lw_error *err);
void lw_trace_spans_free(struct lw_trace_spans *spans); /* NULL is fine */

bool lw_trace_spans_add(struct lw_trace_spans *spans,
                        const struct lw_trace_event *event, struct lw_error *err)
    LW_MUST_CHECK;
/* All was told: which span is in which. */
bool lw_trace_spans_finish(struct lw_trace_spans *spans, struct lw_error *err)
    LW_MUST_CHECK;

#endif
