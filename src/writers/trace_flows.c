/* Counted first, then put where the counts say: as many ends as there are, no more. */

#include "writers/trace_flows.h"

#include <string.h>

#include "base/alloc.h"

typedef void take_end(struct lw_trace_flows *flows, uint32_t event, uint64_t id);

static void count_end(struct lw_trace_flows *flows, uint32_t event, uint64_t id)
{
    (void)id;
    flows->starts[event + 2]++;
}

static void put_end(struct lw_trace_flows *flows, uint32_t event, uint64_t id)
{
    flows->ends[flows->starts[event + 1]++] = (struct lw_trace_flow_end){ event, id };
}

static void for_each_end(struct lw_trace_flows *flows, const struct lw_trace *trace,
                         take_end *take)
{
    uint64_t id = 1;

    for (uint32_t i = 0; i < trace->event_count; i++)
        if (lw_trace_is_launched(trace, i)) {
            take(flows, trace->events[i].parent, id);
            take(flows, i, id++);
        }
    for (size_t i = 0; i < trace->flow_count; i++) {
        take(flows, trace->flows[i].forward, id);
        take(flows, trace->flows[i].backward, id++);
    }
}

bool lw_trace_flows_init(struct lw_trace_flows *flows, const struct lw_trace *trace,
                         struct lw_error *err)
{
    size_t count = trace->event_count;

    memset(flows, 0, sizeof(*flows));
    flows->starts = lw_zalloc(count + 2, sizeof(*flows->starts), err);
    if (!flows->starts)
        return false;
    for_each_end(flows, trace, count_end);
    for (size_t i = 2; i < count + 2; i++)
        flows->starts[i] += flows->starts[i - 1];
    flows->ends = lw_zalloc(flows->starts[count + 1], sizeof(*flows->ends), err);
    if (!flows->ends)
        return false;
    for_each_end(flows, trace, put_end);
    return true;
}

void lw_trace_flows_release(struct lw_trace_flows *flows)
{
    lw_free(flows->ends);
    lw_free(flows->starts);
    memset(flows, 0, sizeof(*flows));
}
