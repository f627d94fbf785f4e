/* Which work of one stream had to wait for which of another.
 *
 *     thread     [launch A] [record E]        [wait for E] [launch B]
 *     stream 7        [ A .................... ]
 *     stream 20                                 [ B ]       B is after A
 *
 * The trace has a "Stream Wait Event" that names the call which recorded E, and E's
 * stream: what is meant is the last work launched into it before. */

#include <stdlib.h>
#include <string.h>

#include "analyses/critical.h"
#include "base/alloc.h"
#include "base/map.h"

/* ---- sorted lists ------------------------------------------------------------------- */

static int compare_entries(const void *x, const void *y)
{
    const struct lw_critical_entry *a = x, *b = y;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->change != b->change)
        return a->change > b->change ? -1 : 1;
    return a->event < b->event ? -1 : a->event > b->event;
}

bool lw_critical_entries_add(struct lw_critical_entries *entries,
                             const struct lw_critical_entry *entry,
                             struct lw_error *err)
{
    if (!lw_grow(&entries->list, &entries->capacity, entries->count + 1, sizeof(*entry),
                 err))
        return false;
    entries->list[entries->count++] = *entry;
    return true;
}

void lw_critical_entries_sort(struct lw_critical_entries *entries)
{
    if (entries->count > 1)
        qsort(entries->list, entries->count, sizeof(*entries->list), compare_entries);
}

/* How many are before KEY at TIME, those at TIME among them if WITH_EQUAL. */
static size_t count_before(const struct lw_critical_entries *entries, uint64_t key,
                           int64_t time, bool with_equal)
{
    size_t low = 0, high = entries->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct lw_critical_entry *entry = &entries->list[middle];

        if (entry->key < key ||
            (entry->key == key &&
             (entry->time < time || (with_equal && entry->time == time))))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- streams ------------------------------------------------------------------------ */

/* A stream of a device, or of a thread: both are told by a number and a place. */
static uint64_t stream_key(uint32_t where, int64_t stream)
{
    return lw_hash_u64((uint64_t)stream) ^ lw_hash_u64((uint64_t)where << 32);
}

static int64_t stream_of(const struct lw_trace *trace, uint32_t event)
{
    uint32_t detail = trace->events[event].detail;

    return detail == LW_NONE ? -1 : trace->works[detail].stream;
}

static bool is_record(const struct lw_critical *c, uint32_t call)
{
    const char *name = lw_profile_text(c->profile, c->trace->events[call].name);

    return strcmp(name, "cudaEventRecord") == 0 ||
           (!c->is_hta && (strcmp(name, "cudaEventRecordWithFlags") == 0 ||
                           strcmp(name, "hipEventRecord") == 0));
}

static bool list_call(struct lw_critical_syncs *syncs, uint32_t call,
                      struct lw_error *err)
{
    const struct lw_critical *c = syncs->c;
    const struct lw_event *event = &c->trace->events[call];
    struct lw_critical_entry entry = { event->correlation,
                                       c->times[lw_critical_start(call)], call, 0 };
    uint32_t work = c->works[call];
    int64_t stream;

    if (is_record(c, call))
        return lw_critical_entries_add(&syncs->records, &entry, err);
    if (!lw_critical_has(c, call, LW_TAKEN_LAUNCHES))
        return true;
    stream = stream_of(c->trace, work);
    entry.key = stream_key(c->trace->tracks[c->trace->events[work].track].pid, stream);
    if (!lw_critical_entries_add(&syncs->by_stream, &entry, err))
        return false;
    entry.key = stream_key(event->track, stream);
    return lw_critical_entries_add(&syncs->by_thread, &entry, err);
}

/* The lists are for waits alone, which most traces have not. */
bool lw_critical_syncs_init(struct lw_critical_syncs *syncs,
                            const struct lw_critical *c, struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    bool has_waits = false;

    memset(syncs, 0, sizeof(*syncs));
    syncs->c = c;
    for (size_t i = 0; i < trace->event_count && !has_waits; i++)
        has_waits = trace->events[i].kind == LW_EVENT_SYNC;
    for (uint32_t i = 0; has_waits && i < trace->event_count; i++)
        if (trace->events[i].kind == LW_EVENT_RUNTIME &&
            trace->tracks[trace->events[i].track].rank == c->rank &&
            !list_call(syncs, i, err))
            return false;
    lw_critical_entries_sort(&syncs->by_stream);
    lw_critical_entries_sort(&syncs->by_thread);
    lw_critical_entries_sort(&syncs->records);
    return true;
}

void lw_critical_syncs_release(struct lw_critical_syncs *syncs)
{
    lw_free(syncs->by_stream.list);
    lw_free(syncs->by_thread.list);
    lw_free(syncs->records.list);
    memset(syncs, 0, sizeof(*syncs));
}

uint32_t lw_critical_syncs_source(const struct lw_critical_syncs *syncs, uint32_t wait)
{
    const struct lw_trace *trace = syncs->c->trace;
    const struct lw_event *event = &trace->events[wait];
    const struct lw_work_detail *detail;
    uint64_t key;
    size_t at;

    if (event->detail == LW_NONE)
        return LW_NONE;
    detail = &trace->works[event->detail];
    at = count_before(&syncs->records, detail->wait_correlation, INT64_MIN, false);
    if (detail->wait_stream < 0 || at == syncs->records.count ||
        syncs->records.list[at].key != detail->wait_correlation)
        return LW_NONE;
    key = stream_key(trace->tracks[event->track].pid, detail->wait_stream);
    at = count_before(&syncs->by_stream, key, syncs->records.list[at].time, true);
    if (at == 0 || syncs->by_stream.list[at - 1].key != key)
        return LW_NONE;
    return syncs->c->works[syncs->by_stream.list[at - 1].event];
}

uint32_t lw_critical_syncs_next(const struct lw_critical_syncs *syncs, uint32_t wait,
                                uint32_t call)
{
    const struct lw_critical *c = syncs->c;
    uint64_t key = stream_key(c->trace->events[call].track, stream_of(c->trace, wait));
    size_t at =
        count_before(&syncs->by_thread, key, c->times[lw_critical_start(call)], false);

    if (at == syncs->by_thread.count || syncs->by_thread.list[at].key != key)
        return LW_NONE;
    return c->works[syncs->by_thread.list[at].event];
}
