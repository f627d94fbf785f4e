/* The critical path's graph as Holistic Trace Analysis 0.6.1 makes it. What is odd about
 * it, and kept so that its numbers come out:
 *
 *  - Times are its whole µs (analyses/hta_events.h), so an edge may go back in time; it
 *    weighs nothing then, but its time is listed.
 *  - Time of a thread between two ops that are in no other counts nothing.
 *  - That a call waited for the device is known only from events of "cuda_sync", which
 *    few traces have; without, a path hardly ever gets to the device and back.
 *  - Calls that wait weigh nothing, whether they waited or not; but cudaMemcpyAsync is
 *    also one of those that take the runtime's lock, and that edge does weigh.
 *  - Streams are told apart by their number alone, of all devices.
 *
 * Where it would fail itself, there is a sentence. */

#include <stdlib.h>
#include <string.h>

#include "analyses/critical.h"
#include "base/alloc.h"
#include "base/text.h"

/* ---- what is in the window ---------------------------------------------------------- */

/* What a call is, by its name. */
static uint8_t judge_call(const char *name)
{
    static const struct {
        const char *name;
        unsigned flags;
    } calls[] = {
        { "cudaDeviceSynchronize", LW_TAKEN_WAITED },
        { "cudaStreamSynchronize", LW_TAKEN_WAITED },
        { "cudaEventQuery", LW_TAKEN_WAITED },
        { "cudaEventSynchronize", LW_TAKEN_WAITED },
        { "cudaMemcpy", LW_TAKEN_WAITED },
        { "cudaMemcpyAsync", LW_TAKEN_WAITED | LW_TAKEN_LOCKS | LW_TAKEN_LAUNCHES },
        { "cudaHostAlloc", LW_TAKEN_LOCKS },
        { "cudaLaunchKernel", LW_TAKEN_LOCKS | LW_TAKEN_LAUNCHES },
        { "cudaLaunchKernelExC", LW_TAKEN_LAUNCHES },
        { "cuLaunchKernel", LW_TAKEN_LAUNCHES },
        { "cuLaunchKernelEx", LW_TAKEN_LAUNCHES },
        { "cudaMemsetAsync", LW_TAKEN_LAUNCHES },
        { "runFunction - job_prep_and_submit_for_execution", LW_TAKEN_LAUNCHES },
        { "hipLaunchKernel", LW_TAKEN_LAUNCHES },
        { "hipExtModuleLaunchKernel", LW_TAKEN_LAUNCHES },
        { "hipMemsetAsync", LW_TAKEN_LAUNCHES },
        { "hipMemcpyAsync", LW_TAKEN_LAUNCHES },
        { "hipMemcpyWithStream", LW_TAKEN_LAUNCHES },
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(name, calls[i].name) == 0)
            return (uint8_t)(calls[i].flags | LW_TAKEN_HOST); /* judged, too */
    return LW_TAKEN_HOST;
}

/* Of each call the work that it launched: of several the last. */
static void find_works(struct lw_critical *c)
{
    const struct lw_trace *trace = c->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t call =
            lw_event_is_on_device(event) ? lw_hta_launch(trace, event) : LW_NONE;

        if (call != LW_NONE && lw_hta_keeps(&c->hta, event))
            c->works[call] = i;
    }
}

static bool is_within(const struct lw_critical *c, uint32_t event)
{
    int64_t time = c->times[lw_critical_start(event)];

    return time >= c->window.start && time <= c->window.end &&
           lw_critical_duration(c, event) > 0;
}

static bool has_host_points(const struct lw_critical *c, const struct lw_event *event)
{
    const char *category = lw_profile_text(c->profile, event->category);

    return strcmp(category, "cpu_op") == 0 || strcmp(category, "cuda_runtime") == 0 ||
           strcmp(category, "cuda_driver") == 0;
}

static void take_host(struct lw_critical *c, uint32_t index, uint8_t *judgements)
{
    const struct lw_event *event = &c->trace->events[index];
    uint8_t *judgement = &judgements[event->name];

    if (!*judgement)
        *judgement = judge_call(lw_profile_text(c->profile, event->name));
    c->taken[index] = *judgement;
    if (c->works[index] == LW_NONE)
        c->taken[index] &= (uint8_t)~LW_TAKEN_LAUNCHES;
    if (!is_within(c, index)) {
        c->taken[index] &= LW_TAKEN_LAUNCHES; /* for queues, which are of all */
        return;
    }
    if (lw_event_is_on_device(event)) /* a wait of the host; else a range, or nothing */
        c->taken[index] = event->kind == LW_EVENT_SYNC ? LW_TAKEN_DEVICE : 0;
    else if (has_host_points(c, event))
        c->taken[index] |= LW_TAKEN_POINTS;
}

static void take_device(struct lw_critical *c, uint32_t index)
{
    const struct lw_event *event = &c->trace->events[index];
    uint32_t call = lw_hta_launch(c->trace, event);

    if (call != LW_NONE && c->works[call] == index && is_within(c, call))
        c->taken[index] = LW_TAKEN_DEVICE | LW_TAKEN_POINTS;
    else if (event->kind == LW_EVENT_SYNC && event->correlation &&
             lw_critical_is_named(c, index, "Stream Wait Event"))
        c->taken[index] = LW_TAKEN_DEVICE;
}

static bool take(struct lw_critical *c, struct lw_error *err)
{
    uint8_t *judgements = lw_zalloc(lw_strings_count(c->profile->strings), 1, err);

    if (!judgements)
        return false;
    find_works(c);
    for (uint32_t i = 0; i < c->trace->event_count; i++) {
        const struct lw_event *event = &c->trace->events[i];

        if (c->trace->tracks[event->track].rank != c->rank ||
            !lw_hta_keeps(&c->hta, event))
            continue;
        if (lw_hta_stream(c->trace, event) == -1)
            take_host(c, i, judgements);
        else
            take_device(c, i);
    }
    lw_free(judgements);
    return true;
}

/* ---- the runtime's lock ------------------------------------------------------------- */

static int compare_points(const void *x, const void *y, void *context)
{
    const struct lw_critical *c = context;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    if (c->times[a] != c->times[b])
        return c->times[a] < c->times[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Calls that overlap are taken to wait for a lock, and to get it in the order in which
 * they end: every start leads to the next end, and every end to the next. */
static void join_locks(struct lw_critical *c, const uint32_t *points, size_t count,
                       uint32_t *started)
{
    size_t started_count = 0;

    for (size_t i = 0; i < count; i++) {
        struct lw_critical_edge edge = { .to = points[i], .event = LW_NONE };

        if (points[i] % 2 == 0) {
            started[started_count++] = points[i];
            continue;
        }
        while (started_count > 0) {
            bool is_own = started[started_count - 1] == points[i] - 1;

            edge.from = started[--started_count];
            edge.kind = is_own ? LW_CRITICAL_OPERATOR : LW_CRITICAL_DEPENDENCY;
            edge.bound = is_own ? LW_BOUND_HOST : LW_BOUND_NOTHING;
            edge.event = is_own ? points[i] / 2 : LW_NONE;
            edge.is_free = !is_own;
            lw_critical_add(c, &edge);
        }
        if (i > 0 && points[i - 1] % 2 == 1) {
            edge.from = points[i - 1];
            edge.kind = LW_CRITICAL_DEPENDENCY;
            edge.bound = LW_BOUND_NOTHING;
            edge.event = LW_NONE;
            edge.is_free = true;
            lw_critical_add(c, &edge);
        }
    }
}

static bool add_locks(struct lw_critical *c, struct lw_error *err)
{
    const uint8_t both = LW_TAKEN_LOCKS | LW_TAKEN_POINTS;
    uint32_t *points;
    size_t count = 0;

    for (uint32_t i = 0; i < c->trace->event_count; i++)
        count += (c->taken[i] & both) == both;
    points = lw_alloc(3 * count * sizeof(*points) + 1, err);
    if (!points)
        return false;
    count = 0;
    for (uint32_t i = 0; i < c->trace->event_count; i++)
        if ((c->taken[i] & both) == both) {
            points[count++] = lw_critical_start(i);
            points[count++] = lw_critical_end(i);
        }
    qsort_r(points, count, sizeof(*points), compare_points, c);
    join_locks(c, points, count, points + count);
    lw_free(points);
    return !c->failed;
}

/* ---- all of it ---------------------------------------------------------------------- */

bool lw_critical_make_hta(struct lw_critical *c, struct lw_error *err)
{
    uint32_t *groups = NULL;
    bool done = false;

    if (take(c, err)) {
        groups = lw_critical_groups(c, LW_NONE, err);
        done = groups && add_locks(c, err) &&
               lw_critical_add_host(c, groups, LW_NONE, err) &&
               lw_critical_add_hta_device(c, err);
    }
    lw_free(groups);
    return done;
}
