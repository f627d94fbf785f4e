/* The device's half of Holistic Trace Analysis's graph.
 *
 * Work begins because of its launch if its stream was idle then, else because of the work
 * before it, if that is less than 1.5 ms ago; what a stream waited for in another is
 * known from "Stream Wait Event", by the last launch before the event was recorded. */

#include <stdlib.h>
#include <string.h>

#include "analyses/critical.h"
#include "base/alloc.h"
#include "base/map.h"

#define GAP_MAX_US 1500

struct stream {
    int64_t number;
    uint32_t last; /* the work that came last */
};

struct device {
    struct lw_critical *c;
    const struct lw_trace *trace;
    uint32_t *rows; /* owned: works and waits, in order */
    size_t row_count;
    uint32_t *sources; /* owned: of each work what it has to wait for; LW_NONE */
    struct stream *streams;
    size_t stream_count, stream_capacity;
    struct lw_map stream_map;
    struct lw_critical_syncs syncs;
};

static int64_t launch_time(const struct device *d, uint32_t call)
{
    return d->c->times[lw_critical_start(call)];
}

/* ---- queues ------------------------------------------------------------------------- */

/* How many launches of a stream have not begun: one more at a launch, one less at the
 * start of the work. */
static bool find_queues(struct device *d, struct lw_error *err)
{
    struct lw_critical_entries changes = { 0 };
    int64_t length = 0;
    bool done = true;

    for (uint32_t i = 0; done && i < d->trace->event_count; i++) {
        const struct lw_event *event = &d->trace->events[i];
        uint32_t call =
            lw_event_is_on_device(event) ? lw_hta_launch(d->trace, event) : LW_NONE;
        int64_t stream = lw_hta_stream(d->trace, event);
        struct lw_critical_entry launch = { (uint64_t)stream, 0, call, 1 };
        struct lw_critical_entry start = { (uint64_t)stream, launch_time(d, i), i, -1 };

        if (call == LW_NONE || stream == -1 ||
            !lw_critical_has(d->c, call, LW_TAKEN_LAUNCHES) ||
            d->trace->tracks[event->track].rank != d->c->rank)
            continue;
        launch.time = launch_time(d, call);
        done = lw_critical_entries_add(&changes, &launch, err) &&
               lw_critical_entries_add(&changes, &start, err);
    }
    lw_critical_entries_sort(&changes);
    for (size_t i = 0; done && i < changes.count; i++) {
        const struct lw_critical_entry *change = &changes.list[i];

        if (i == 0 || change->key != changes.list[i - 1].key)
            length = 0;
        length += change->change;
        if (length == (change->change > 0 ? 1 : 0))
            d->c->taken[change->event] |= LW_TAKEN_QUEUE;
    }
    lw_free(changes.list);
    return done;
}

/* ---- waits -------------------------------------------------------------------------- */

/* The host goes on when WORK has ended. */
static void add_wait(struct device *d, uint32_t work, uint32_t call)
{
    struct lw_critical_edge edge = { .from = lw_critical_end(work),
                                     .to = lw_critical_end(call),
                                     .event = LW_NONE,
                                     .kind = LW_CRITICAL_SYNC,
                                     .is_free = true };

    if (lw_critical_has(d->c, call, LW_TAKEN_POINTS) &&
        lw_critical_has(d->c, work, LW_TAKEN_POINTS))
        lw_critical_add(d->c, &edge);
}

static bool same_stream(const void *owner, uint32_t number, const void *key)
{
    const struct device *d = owner;

    return d->streams[number - 1].number == *(const int64_t *)key;
}

/* NULL: nothing has run in it yet. */
static struct stream *find_stream(const struct device *d, int64_t number)
{
    uint32_t found = lw_map_find(&d->stream_map, lw_hash_u64((uint64_t)number),
                                 same_stream, d, &number);

    return found ? &d->streams[found - 1] : NULL;
}

static void add_sync(struct device *d, uint32_t wait)
{
    uint32_t call = lw_hta_launch(d->trace, &d->trace->events[wait]);
    uint32_t source, work;
    const struct stream *stream;

    if (call == LW_NONE)
        return;
    if (lw_critical_is_named(d->c, wait, "Context Sync")) {
        for (size_t i = 0; i < d->stream_count; i++)
            add_wait(d, d->streams[i].last, call);
        return;
    }
    if (lw_critical_is_named(d->c, wait, "Stream Sync")) {
        stream = find_stream(d, lw_hta_stream(d->trace, &d->trace->events[wait]));
        if (stream)
            add_wait(d, stream->last, call);
        return;
    }
    source = lw_critical_syncs_source(&d->syncs, wait);
    if (source == LW_NONE)
        return;
    if (lw_critical_is_named(d->c, wait, "Event Sync")) {
        add_wait(d, source, call);
        return;
    }
    work = lw_critical_syncs_next(&d->syncs, wait, call);
    if (work != LW_NONE)
        d->sources[work] = source;
}

/* ---- works -------------------------------------------------------------------------- */

/* HTA stops at work whose launch it has no points for. */
static bool fail_launch(const struct device *d, uint32_t call, struct lw_error *err)
{
    const struct lw_event *event = &d->trace->events[call];

    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "Holistic Trace Analysis finds no path here: it does not know the "
                   "category '%.40s' of launches; leave out --compat",
                   lw_profile_text(d->c->profile, event->category));
}

static bool add_begin(struct device *d, uint32_t work, const struct stream *stream,
                      struct lw_error *err)
{
    struct lw_critical *c = d->c;
    uint32_t call = lw_hta_launch(d->trace, &d->trace->events[work]);
    uint32_t source = d->sources[work];
    int64_t launched = launch_time(d, call);
    struct lw_critical_edge edge = { .to = lw_critical_start(work), .event = LW_NONE };
    int64_t last = stream ? c->times[lw_critical_end(stream->last)] : 0, ended = 0;

    if (source != LW_NONE && lw_critical_has(c, source, LW_TAKEN_POINTS)) {
        edge.from = lw_critical_end(source);
        edge.kind = LW_CRITICAL_SYNC;
        edge.is_free = true;
        lw_critical_add(c, &edge);
        ended = c->times[edge.from];
    } else {
        source = LW_NONE;
    }
    edge.is_free = false;
    if (lw_critical_has(c, call, LW_TAKEN_QUEUE) &&
        lw_critical_has(c, work, LW_TAKEN_QUEUE) && (!stream || last < launched) &&
        (source == LW_NONE || ended < launched)) {
        if (!lw_critical_has(c, call, LW_TAKEN_POINTS))
            return fail_launch(d, call, err);
        edge.from = lw_critical_start(call);
        edge.kind = LW_CRITICAL_LAUNCH;
        edge.bound = LW_BOUND_LAUNCH;
        lw_critical_add(c, &edge);
    } else if (stream && c->times[edge.to] - last < GAP_MAX_US &&
               (source == LW_NONE || ended < last)) {
        edge.from = lw_critical_end(stream->last);
        edge.kind = LW_CRITICAL_GAP;
        edge.bound = LW_BOUND_GAP;
        edge.event = stream->last;
        lw_critical_add(c, &edge);
    }
    return true;
}

static bool add_work(struct device *d, uint32_t work, struct lw_error *err)
{
    int64_t number = lw_hta_stream(d->trace, &d->trace->events[work]);
    struct stream *stream = find_stream(d, number);
    struct stream first = { number, work };
    struct lw_critical_edge edge = { .from = lw_critical_start(work),
                                     .to = lw_critical_end(work),
                                     .event = work,
                                     .kind = LW_CRITICAL_OPERATOR,
                                     .bound = LW_BOUND_COMPUTATION };

    lw_critical_add(d->c, &edge);
    if (!add_begin(d, work, stream, err))
        return false;
    if (stream) {
        stream->last = work;
        return true;
    }
    if (!lw_grow(&d->streams, &d->stream_capacity, d->stream_count + 1, sizeof(first),
                 err))
        return false;
    d->streams[d->stream_count++] = first;
    return lw_map_add(&d->stream_map, lw_hash_u64((uint64_t)number),
                      (uint32_t)d->stream_count, err);
}

/* Work by its start, waits by their end: what they waited for is before them then. */
static int compare_rows(const void *x, const void *y, void *context)
{
    const struct device *d = context;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t p = 2 * a + (d->trace->events[a].kind == LW_EVENT_SYNC);
    uint32_t q = 2 * b + (d->trace->events[b].kind == LW_EVENT_SYNC);

    if (d->c->times[p] != d->c->times[q])
        return d->c->times[p] < d->c->times[q] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool list_rows(struct device *d, struct lw_error *err)
{
    size_t size = d->trace->event_count * sizeof(uint32_t) + 1;

    d->rows = lw_alloc(size, err);
    d->sources = d->rows ? lw_alloc(size, err) : NULL;
    if (!d->sources)
        return false;
    memset(d->sources, 0xff, size); /* LW_NONE */
    for (uint32_t i = 0; i < d->trace->event_count; i++)
        if (lw_critical_has(d->c, i, LW_TAKEN_DEVICE))
            d->rows[d->row_count++] = i;
    qsort_r(d->rows, d->row_count, sizeof(*d->rows), compare_rows, d);
    return true;
}

bool lw_critical_add_hta_device(struct lw_critical *c, struct lw_error *err)
{
    struct device d = { .c = c, .trace = c->trace };
    bool done = list_rows(&d, err) && find_queues(&d, err) &&
                lw_critical_syncs_init(&d.syncs, d.c, err);

    for (size_t i = 0; done && i < d.row_count; i++) {
        if (d.trace->events[d.rows[i]].kind == LW_EVENT_SYNC)
            add_sync(&d, d.rows[i]);
        else
            done = add_work(&d, d.rows[i], err);
    }
    lw_map_release(&d.stream_map);
    lw_free(d.rows);
    lw_free(d.sources);
    lw_free(d.streams);
    lw_critical_syncs_release(&d.syncs);
    return done && !d.c->failed;
}
