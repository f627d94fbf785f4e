/* Our own graph of the critical path.
 *
 * Of what a piece of work may have waited for (its launch, the work before it in its
 * stream, an event of another stream) only that leads to it which came last: it is what
 * it waited for. So along the path the time goes on without a break, and the main
 * thread's ends where the trace does. Where a call stood still because of the device, its
 * time is the device's, up to the end of the work; from there on it is the host's
 * again.
 *
 * Not in it: locks of the runtime, which a trace does not show. */

#include <string.h>

#include "analyses/critical.h"
#include "analyses/ended.h"
#include "analyses/waits.h"
#include "base/alloc.h"

/* Work that begins later than this behind all that it is known to have waited for has
 * waited for something that the trace does not show, an event of another stream or room
 * on the device: a launch takes about 10 us. What ended last on the device is taken for
 * it then. */
#define DELAY_MAX_NS 100000
/* And where nothing ended there either, it has not waited for the work before it in its
 * stream. (Holistic Trace Analysis has this bound.) */
#define GAP_MAX_NS 1500000
/* So many works are looked at for it, from the last back: more have not run at once on
 * other devices. */
#define LOOKED_AT 64

/* ---- what is in the window ---------------------------------------------------------- */

static bool is_host_event(const struct lw_event *event, bool is_main)
{
    return event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE ||
           event->kind == LW_EVENT_RUNTIME ||
           (is_main && event->kind == LW_EVENT_PYTHON);
}

static void take(struct lw_critical *c, uint32_t main_track)
{
    const struct lw_trace *trace = c->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        const struct lw_track *track = &trace->tracks[event->track];

        if (track->rank == c->rank && !track->is_device && event->duration_ns > 0 &&
            is_host_event(event, event->track == main_track) &&
            c->times[lw_critical_start(i)] >= c->window.start &&
            c->times[lw_critical_start(i)] <= c->window.end)
            c->taken[i] = LW_TAKEN_HOST | LW_TAKEN_POINTS;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t call = event->parent;

        if (!lw_event_is_work(event) || trace->tracks[event->track].rank != c->rank)
            continue;
        if (call != LW_NONE && trace->events[call].kind == LW_EVENT_RUNTIME) {
            c->works[call] = i;
            c->taken[call] |= LW_TAKEN_LAUNCHES;
        }
        if (call == LW_NONE ? c->window.start == INT64_MIN
                            : lw_critical_has(c, call, LW_TAKEN_HOST))
            c->taken[i] = LW_TAKEN_DEVICE | LW_TAKEN_POINTS;
    }
}

/* ---- the device --------------------------------------------------------------------- */

/* What streams waited for in others: of each work the one that ended last; LW_NONE. */
static bool find_sources(struct lw_critical *c, uint32_t *sources, struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    struct lw_critical_syncs syncs;
    bool done = lw_critical_syncs_init(&syncs, c, err);

    memset(sources, 0xff, trace->event_count * sizeof(*sources)); /* LW_NONE */
    for (uint32_t i = 0; done && i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t source, work;

        if (event->kind != LW_EVENT_SYNC || event->parent == LW_NONE ||
            trace->tracks[event->track].rank != c->rank)
            continue;
        if (!lw_critical_is_named(c, i, "Stream Wait Event"))
            continue;
        source = lw_critical_syncs_source(&syncs, i);
        work = source == LW_NONE ? LW_NONE
                                 : lw_critical_syncs_next(&syncs, i, event->parent);
        if (work != LW_NONE &&
            (sources[work] == LW_NONE || c->times[lw_critical_end(sources[work])] <
                                             c->times[lw_critical_end(source)]))
            sources[work] = source;
    }
    lw_critical_syncs_release(&syncs);
    return done;
}

/* Can WORK have waited for SOURCE? Of two that take no time at one time the first. */
static bool is_before(const struct lw_critical *c, uint32_t source, uint32_t work)
{
    int64_t start = c->times[lw_critical_start(work)];

    return lw_critical_has(c, source, LW_TAKEN_POINTS) &&
           c->times[lw_critical_end(source)] <= start &&
           (c->times[lw_critical_start(source)] < start || source < work);
}

/* The work on WORK's device that ended last before it began, and after FROM; LW_NONE:
 * none. */
static uint32_t hidden_source(const struct lw_critical *c, const struct lw_ended *ended,
                              uint32_t work, uint32_t from)
{
    const struct lw_trace *trace = c->trace;
    const struct lw_event *event = &trace->events[work];
    size_t at = lw_ended_by(ended, c->rank, event->start_ns);

    for (size_t looked = 0; at > 0 && looked < LOOKED_AT; looked++) {
        uint32_t source = ended->works[--at];
        const struct lw_track *track = &trace->tracks[trace->events[source].track];

        if (track->rank != c->rank ||
            (from != LW_NONE && c->times[lw_critical_end(source)] <= c->times[from]))
            break;
        if (source != work && is_before(c, source, work) &&
            track->device == trace->tracks[event->track].device)
            return source;
    }
    return LW_NONE;
}

/* EDGE leads to the start of a work: let it come from FROM, if that is later. */
static void consider(const struct lw_critical *c, struct lw_critical_edge *edge,
                     uint32_t from, enum lw_critical_kind kind)
{
    if (edge->from != LW_NONE && c->times[from] < c->times[edge->from])
        return;
    edge->from = from;
    edge->kind = (uint8_t)kind;
    edge->bound = kind == LW_CRITICAL_LAUNCH ? LW_BOUND_LAUNCH : LW_BOUND_GAP;
}

/* What WORK waited for. LAST: the work before it in its stream; SOURCE: what it waited
 * for in another; each may be LW_NONE. */
static void add_begin(struct lw_critical *c, const struct lw_ended *ended,
                      uint32_t work, uint32_t last, uint32_t source)
{
    struct lw_critical_edge edge = { .from = LW_NONE,
                                     .to = lw_critical_start(work),
                                     .event = work };
    uint32_t call = c->trace->events[work].parent;
    int64_t start = c->times[edge.to];

    if (last != LW_NONE && is_before(c, last, work))
        consider(c, &edge, lw_critical_end(last), LW_CRITICAL_GAP);
    if (source != LW_NONE && is_before(c, source, work))
        consider(c, &edge, lw_critical_end(source), LW_CRITICAL_SYNC);
    if (call != LW_NONE && lw_critical_has(c, call, LW_TAKEN_POINTS) &&
        c->times[lw_critical_start(call)] <= start)
        consider(c, &edge, lw_critical_start(call), LW_CRITICAL_LAUNCH);
    if (edge.from == LW_NONE || start - c->times[edge.from] > DELAY_MAX_NS) {
        source = hidden_source(c, ended, work, edge.from);
        if (source != LW_NONE)
            consider(c, &edge, lw_critical_end(source), LW_CRITICAL_SYNC);
    }
    if (edge.from != LW_NONE &&
        (edge.kind == LW_CRITICAL_LAUNCH || start - c->times[edge.from] <= GAP_MAX_NS))
        lw_critical_add(c, &edge);
}

static void add_work(struct lw_critical *c, uint32_t work)
{
    struct lw_critical_edge edge = { .from = lw_critical_start(work),
                                     .to = lw_critical_end(work),
                                     .event = work,
                                     .kind = LW_CRITICAL_OPERATOR,
                                     .bound = LW_BOUND_COMPUTATION };

    lw_critical_add(c, &edge);
}

static bool add_streams(struct lw_critical *c, struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    uint32_t *sources = lw_alloc(trace->event_count * sizeof(*sources) + 1, err);
    struct lw_ended ended = { 0 };
    bool done =
        sources && find_sources(c, sources, err) && lw_ended_init(&ended, trace, err);

    for (uint32_t t = 0; done && t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];
        uint32_t last = LW_NONE; /* of those so far the one that ended last */

        for (uint32_t i = track->first; i < track->first + track->count; i++) {
            if (!lw_critical_has(c, i, LW_TAKEN_DEVICE))
                continue;
            add_work(c, i);
            add_begin(c, &ended, i, last, sources[i]);
            if (last == LW_NONE ||
                c->times[lw_critical_end(i)] >= c->times[lw_critical_end(last)])
                last = i;
        }
    }
    lw_ended_release(&ended);
    lw_free(sources);
    return done && !c->failed;
}

/* From the end of what they waited for the host goes on to their own end. */
static void add_waits(struct lw_critical *c, const struct lw_waits *waits)
{
    for (size_t i = 0; i < waits->count; i++) {
        const struct lw_wait *wait = &waits->list[i];
        struct lw_critical_edge edge = { .to = lw_critical_end(wait->call),
                                         .event = wait->call,
                                         .kind = LW_CRITICAL_SYNC,
                                         .bound = LW_BOUND_HOST };

        if (wait->work == LW_NONE || !lw_critical_has(c, wait->call, LW_TAKEN_POINTS) ||
            !lw_critical_has(c, wait->work, LW_TAKEN_POINTS))
            continue;
        c->taken[wait->call] |= LW_TAKEN_WAITED;
        edge.from = lw_critical_end(wait->work);
        lw_critical_add(c, &edge);
    }
}

bool lw_critical_make_own(struct lw_critical *c, struct lw_error *err)
{
    uint32_t main_track = lw_critical_main(c);
    uint32_t *groups = lw_critical_groups(c, main_track, err);
    struct lw_waits waits = { 0 };
    bool done = groups && lw_waits_init(&waits, c->profile, err);

    if (done) {
        take(c, main_track);
        add_waits(c, &waits);
        done = lw_critical_add_host(c, groups, main_track, err) && add_streams(c, err);
    }
    lw_waits_release(&waits);
    lw_free(groups);
    return done;
}
