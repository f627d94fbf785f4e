#include "analyses/ended.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static uint32_t rank_of(const struct lw_trace *trace, uint32_t event)
{
    return trace->tracks[trace->events[event].track].rank;
}

static int compare(const void *x, const void *y, void *context)
{
    const struct lw_trace *trace = context;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t p = rank_of(trace, a), q = rank_of(trace, b);
    uint64_t s = lw_event_end_ns(&trace->events[a]);
    uint64_t t = lw_event_end_ns(&trace->events[b]);

    if (p != q)
        return p < q ? -1 : 1;
    if (s != t)
        return s < t ? -1 : 1;
    return a < b ? -1 : a > b;
}

bool lw_ended_init(struct lw_ended *ended, const struct lw_trace *trace,
                   struct lw_error *err)
{
    memset(ended, 0, sizeof(*ended));
    ended->trace = trace;
    ended->works = lw_alloc(trace->event_count * sizeof(*ended->works) + 1, err);
    if (!ended->works)
        return false;
    for (uint32_t i = 0; i < trace->event_count; i++)
        if (lw_event_is_work(&trace->events[i]))
            ended->works[ended->count++] = i;
    qsort_r(ended->works, ended->count, sizeof(*ended->works), compare, (void *)trace);
    return true;
}

void lw_ended_release(struct lw_ended *ended)
{
    lw_free(ended->works);
    memset(ended, 0, sizeof(*ended));
}

size_t lw_ended_by(const struct lw_ended *ended, uint32_t rank, uint64_t time_ns)
{
    const struct lw_trace *trace = ended->trace;
    size_t low = 0, high = ended->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t work = ended->works[middle], at = rank_of(trace, work);

        if (at < rank ||
            (at == rank && lw_event_end_ns(&trace->events[work]) <= time_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
