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
#include "analyses/waits.h"
#include "base/alloc.h"

/* A gap longer than this is waiting for something that the trace does not show: delays
 * between kernels are of about 10 us, of communication about 1 ms. (Holistic Trace
 * Analysis has the same bound.) */
#define GAP_MAX_NS 1500000

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

/* Of the points that WORK's start may have waited for, is FROM a later one than BEST? */
static bool is_later(const struct lw_critical *c, uint32_t from, uint32_t best,
                     uint32_t work)
{
    return c->times[from] <= c->times[lw_critical_start(work)] &&
           (best == LW_NONE || c->times[from] >= c->times[best]);
}

/* LAST: the work before it in its stream; SOURCE: what it waited for in another; each
 * may be LW_NONE. */
static void add_work(struct lw_critical *c, uint32_t work, uint32_t last,
                     uint32_t source)
{
    struct lw_critical_edge run = { .from = lw_critical_start(work),
                                    .to = lw_critical_end(work),
                                    .event = work,
                                    .kind = LW_CRITICAL_OPERATOR,
                                    .bound = LW_BOUND_COMPUTATION };
    struct lw_critical_edge begin = { .from = LW_NONE,
                                      .to = lw_critical_start(work),
                                      .event = work };
    uint32_t call = c->trace->events[work].parent;

    lw_critical_add(c, &run);
    if (last != LW_NONE && is_later(c, lw_critical_end(last), begin.from, work)) {
        begin.from = lw_critical_end(last);
        begin.kind = LW_CRITICAL_GAP;
        begin.bound = LW_BOUND_GAP;
    }
    if (source != LW_NONE && lw_critical_has(c, source, LW_TAKEN_POINTS) &&
        is_later(c, lw_critical_end(source), begin.from, work)) {
        begin.from = lw_critical_end(source);
        begin.kind = LW_CRITICAL_SYNC;
        begin.bound = LW_BOUND_GAP;
    }
    if (begin.from != LW_NONE && c->times[begin.to] - c->times[begin.from] > GAP_MAX_NS)
        begin.from = LW_NONE;
    if (call != LW_NONE && lw_critical_has(c, call, LW_TAKEN_POINTS) &&
        is_later(c, lw_critical_start(call), begin.from, work)) {
        begin.from = lw_critical_start(call);
        begin.kind = LW_CRITICAL_LAUNCH;
        begin.bound = LW_BOUND_LAUNCH;
    }
    if (begin.from != LW_NONE)
        lw_critical_add(c, &begin);
}

static bool add_streams(struct lw_critical *c, struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    uint32_t *sources = lw_alloc(trace->event_count * sizeof(*sources) + 1, err);
    bool done = sources && find_sources(c, sources, err);

    for (uint32_t t = 0; done && t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];
        uint32_t last = LW_NONE; /* of those so far the one that ended last */

        for (uint32_t i = track->first; i < track->first + track->count; i++) {
            if (!lw_critical_has(c, i, LW_TAKEN_DEVICE))
                continue;
            add_work(c, i, last, sources[i]);
            if (last == LW_NONE ||
                c->times[lw_critical_end(i)] >= c->times[lw_critical_end(last)])
                last = i;
        }
    }
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
