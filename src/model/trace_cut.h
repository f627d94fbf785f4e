/* A part of a trace: what was going on in some time, and what that launched. */
#ifndef LW_MODEL_TRACE_CUT_H
#define LW_MODEL_TRACE_CUT_H

#include "model/trace.h"

/* From START_NS up to END_NS; nothing, if that is not later. */
struct lw_trace_window {
    uint64_t start_ns, end_ns;
};

/* The events of TRACE that were running in the window of their rank (WINDOWS has one for
 * each), whole, also where they began before it or ended after it; and what a call
 * launched that was running there. Allocations, marks and values are those of the time
 * itself. It is for writers: details (`ops`, `works` ...) are not in it, arguments are.
 * The caller frees it with lw_trace_free(). NULL: no memory. */
struct lw_trace *lw_trace_cut(const struct lw_trace *trace,
                              const struct lw_trace_window *windows,
                              struct lw_error *err);

#endif
