/* The arrows of a trace, by the event that they leave or come to: from a call to each thing
 * that it launched, from a forward op to the backward op that answers it. */
#ifndef LW_WRITERS_TRACE_FLOWS_H
#define LW_WRITERS_TRACE_FLOWS_H

#include "model/trace.h"

struct lw_trace_flow_end {
    uint32_t event; /* index */
    uint64_t id;    /* not 0; both ends of an arrow have it, and no other */
};

struct lw_trace_flows {
    struct lw_trace_flow_end *ends; /* owned; by event */
    size_t *starts; /* owned: in `ends`, by event, and behind the last one the end */
};

/* Release in any case. */
bool lw_trace_flows_init(struct lw_trace_flows *flows, const struct lw_trace *trace,
                         struct lw_error *err) LW_MUST_CHECK;
void lw_trace_flows_release(struct lw_trace_flows *flows);

static inline const struct lw_trace_flow_end *lw_trace_flows_of(
    const struct lw_trace_flows *flows, uint32_t event, size_t *count)
{
    *count = flows->starts[event + 1] - flows->starts[event];
    return flows->ends + flows->starts[event];
}

#endif
