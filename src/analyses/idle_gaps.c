#include "analyses/idle_gaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Work, in a lane. That of a stream is in the lane of its device too. */
struct piece {
    uint32_t lane;
    uint32_t event; /* index */
    uint64_t start_ns;
};

struct pieces {
    struct piece *list; /* owned */
    size_t count, capacity;
};

static int compare_pieces(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

static bool add_piece(struct pieces *pieces, uint32_t lane, uint32_t event,
                      uint64_t start_ns, struct lw_error *err)
{
    struct piece piece = { lane, event, start_ns };

    if (!lw_grow(&pieces->list, &pieces->capacity, pieces->count + 1, sizeof(piece),
                 err))
        return false;
    pieces->list[pieces->count++] = piece;
    return true;
}

static bool add_lane(struct lw_idle_gaps *gaps, const struct lw_idle_lane *lane,
                     struct lw_error *err)
{
    if (!lw_grow(&gaps->lanes, &gaps->lane_capacity, gaps->lane_count + 1,
                 sizeof(*lane), err))
        return false;
    gaps->lanes[gaps->lane_count++] = *lane;
    return true;
}

static bool add_gap(struct lw_idle_gaps *gaps, const struct lw_idle_gap *gap,
                    struct lw_error *err)
{
    if (!lw_grow(&gaps->gaps, &gaps->gap_capacity, gaps->gap_count + 1, sizeof(*gap),
                 err))
        return false;
    gaps->gaps[gaps->gap_count++] = *gap;
    return true;
}

/* Our own */

static int compare_lanes(const void *a, const void *b)
{
    const struct lw_idle_lane *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return x->track < y->track ? -1 : x->track > y->track;
}

static bool has_work(const struct lw_trace *trace, const struct lw_track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++)
        if (lw_event_is_work(&trace->events[i]))
            return true;
    return false;
}

/* STREAMS: a lane for each track with work, sorted. */
static bool list_streams(struct lw_idle_gaps *streams,
                         const struct lw_trace_scope *scope, struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;

    for (uint32_t i = 0; i < trace->track_count; i++) {
        const struct lw_track *track = &trace->tracks[i];
        struct lw_idle_lane lane = {
            .rank = track->rank,
            .device = track->device,
            .stream = track->number,
            .track = i,
        };

        if (track->is_device && lw_trace_scope_has_track(scope, track) &&
            has_work(trace, track) && !add_lane(streams, &lane, err))
            return false;
    }
    if (streams->lane_count > 1)
        qsort(streams->lanes, streams->lane_count, sizeof(*streams->lanes),
              compare_lanes);
    return true;
}

static bool is_same_device(const struct lw_idle_lane *a, const struct lw_idle_lane *b)
{
    return a->rank == b->rank && a->device == b->device;
}

/* The work of LANE, which is of one track, into it and, if there is one, into WHOLE, the
 * lane of its device. */
static bool add_track(struct pieces *pieces, struct lw_idle_gaps *gaps,
                      const struct lw_trace *trace, uint32_t lane, uint32_t whole,
                      struct lw_error *err)
{
    const struct lw_track *track = &trace->tracks[gaps->lanes[lane].track];

    gaps->lanes[lane].is_part = whole != LW_NONE;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        uint64_t start_ns = trace->events[i].start_ns;

        if (lw_event_is_work(&trace->events[i]) &&
            (!add_piece(pieces, lane, i, start_ns, err) ||
             (whole != LW_NONE && !add_piece(pieces, whole, i, start_ns, err))))
            return false;
    }
    return true;
}

/* Lanes of devices with several streams come before those of their streams. */
static bool make_lanes(struct lw_idle_gaps *gaps, const struct lw_idle_gaps *streams,
                       const struct lw_trace *trace, struct pieces *pieces,
                       struct lw_error *err)
{
    for (size_t i = 0, next; i < streams->lane_count; i = next) {
        struct lw_idle_lane device = streams->lanes[i];
        uint32_t whole = LW_NONE;

        for (next = i + 1; next < streams->lane_count &&
                           is_same_device(&device, &streams->lanes[next]);)
            next++;
        if (next > i + 1) {
            whole = (uint32_t)gaps->lane_count;
            device.stream = -1;
            device.track = LW_NONE;
            if (!add_lane(gaps, &device, err))
                return false;
        }
        for (size_t s = i; s < next; s++)
            if (!add_lane(gaps, &streams->lanes[s], err) ||
                !add_track(pieces, gaps, trace, (uint32_t)gaps->lane_count - 1, whole,
                           err))
                return false;
    }
    return true;
}

static enum lw_idle_cause cause_of(const struct lw_trace *trace,
                                   const struct lw_idle_gap *gap)
{
    uint32_t launch = trace->events[gap->event].parent;

    if (launch == LW_NONE || trace->events[launch].kind != LW_EVENT_RUNTIME)
        return LW_IDLE_UNKNOWN;
    if (trace->events[launch].start_ns > gap->start_ns)
        return LW_IDLE_HOST;
    return gap->duration_ns < LW_IDLE_SHORT_NS ? LW_IDLE_KERNELS : LW_IDLE_OTHER;
}

static bool find_gaps(struct lw_idle_gaps *gaps, const struct lw_trace *trace,
                      const struct pieces *pieces, struct lw_error *err)
{
    uint64_t end_ns = 0;

    for (size_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        bool is_first = i == 0 || pieces->list[i - 1].lane != piece->lane;
        uint64_t until_ns = lw_event_end_ns(&trace->events[piece->event]);

        if (!is_first && piece->start_ns > end_ns) {
            struct lw_idle_gap gap = {
                .lane = piece->lane,
                .event = piece->event,
                .start_ns = end_ns,
                .duration_ns = (int64_t)(piece->start_ns - end_ns),
            };

            gap.cause = (uint8_t)cause_of(trace, &gap);
            if (!add_gap(gaps, &gap, err))
                return false;
        }
        if (is_first || until_ns > end_ns)
            end_ns = until_ns;
    }
    return true;
}

bool lw_idle_gaps_init(struct lw_idle_gaps *gaps, const struct lw_trace_scope *scope,
                       struct lw_error *err)
{
    struct lw_idle_gaps streams = { 0 };
    struct pieces pieces = { 0 };
    bool done;

    memset(gaps, 0, sizeof(*gaps));
    done = list_streams(&streams, scope, err) &&
           make_lanes(gaps, &streams, scope->trace, &pieces, err);
    if (done && pieces.count > 0) {
        qsort(pieces.list, pieces.count, sizeof(*pieces.list), compare_pieces);
        done = find_gaps(gaps, scope->trace, &pieces, err);
    }
    lw_free(pieces.list);
    lw_idle_gaps_release(&streams);
    return done;
}

/* As Holistic Trace Analysis */

static int compare_streams(const void *a, const void *b)
{
    const struct lw_hta_event *x = a, *y = b;

    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->start_us != y->start_us)
        return x->start_us < y->start_us ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* When it takes EVENT to have been launched. It joins work whose call is not in the trace
 * to the event that comes first in the file, whatever that is. INT64_MIN: not at all. */
static int64_t launched_us(const struct lw_hta *hta, const struct lw_event *event)
{
    uint32_t launch = lw_hta_launch(hta->trace, event);

    if (launch != LW_NONE)
        return lw_hta_start_us(hta, &hta->trace->events[launch]);
    return event->correlation
               ? lw_hta_first_us(hta, hta->trace->tracks[event->track].rank)
               : INT64_MIN;
}

/* Each event's distance from the end of the one that started before it, also where that
 * is negative. */
static bool add_event_as_hta(struct lw_idle_gaps *gaps, const struct lw_hta *hta,
                             const struct lw_hta_event *before,
                             const struct lw_hta_event *event, struct lw_error *err)
{
    struct lw_idle_gap gap = {
        .lane = (uint32_t)gaps->lane_count - 1,
        .event = event->event,
        .cause = LW_IDLE_OTHER,
        .start_ns = lw_event_end_ns(&hta->trace->events[before->event]),
        .duration_ns = (event->start_us - before->end_us) * 1000,
    };

    if (launched_us(hta, &hta->trace->events[event->event]) > before->end_us)
        gap.cause = LW_IDLE_HOST;
    else if (gap.duration_ns < LW_IDLE_SHORT_NS)
        gap.cause = LW_IDLE_KERNELS;
    return add_gap(gaps, &gap, err);
}

static bool add_rank_as_hta(void *context, const struct lw_hta *hta, uint32_t rank,
                            struct lw_hta_events *events, struct lw_error *err)
{
    struct lw_idle_gaps *gaps = context;
    struct lw_idle_lane lane = { .rank = rank, .device = -1, .track = LW_NONE };
    const struct lw_hta_event *before = NULL;
    bool done = true;

    qsort(events->list, events->count, sizeof(*events->list), compare_streams);
    for (size_t i = 0; done && i < events->count; i++) {
        const struct lw_hta_event *event = &events->list[i];

        if (!lw_event_is_work(&hta->trace->events[event->event]))
            continue;
        if (!before || before->stream != event->stream) {
            lane.stream = event->stream;
            done = add_lane(gaps, &lane, err);
        } else {
            done = add_event_as_hta(gaps, hta, before, event, err);
        }
        before = event;
    }
    return done;
}

bool lw_idle_gaps_init_hta(struct lw_idle_gaps *gaps,
                           const struct lw_trace_scope *scope, struct lw_error *err)
{
    memset(gaps, 0, sizeof(*gaps));
    return lw_hta_visit_ranks(scope, add_rank_as_hta, gaps, err);
}

void lw_idle_gaps_release(struct lw_idle_gaps *gaps)
{
    lw_free(gaps->lanes);
    lw_free(gaps->gaps);
    memset(gaps, 0, sizeof(*gaps));
}
