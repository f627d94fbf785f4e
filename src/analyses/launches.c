#include "analyses/launches.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* The call that launched EVENT, which is work; LW_NONE: not in the trace. */
static uint32_t call_of(const struct lw_trace *trace, const struct lw_event *event)
{
    if (event->parent == LW_NONE ||
        trace->events[event->parent].kind != LW_EVENT_RUNTIME)
        return LW_NONE;
    return event->parent;
}

static bool add_launch(struct lw_launches *launches, const struct lw_launch *launch,
                       struct lw_error *err)
{
    if (!lw_grow(&launches->list, &launches->capacity, launches->count + 1,
                 sizeof(*launch), err))
        return false;
    launches->list[launches->count] = *launch;
    if (launch->delay_ns < 0)
        launches->list[launches->count].delay_ns = 0;
    launches->count++;
    return true;
}

/* FIRST: of each event that is a call the first work that it launched; LW_NONE: none. */
static void find_first(struct lw_launches *launches, const struct lw_trace_scope *scope,
                       uint32_t *first)
{
    const struct lw_trace *trace = scope->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t call = lw_event_is_work(event) ? call_of(trace, event) : LW_NONE;

        if (!lw_event_is_work(event) || !lw_trace_scope_has(scope, event))
            continue;
        if (call == LW_NONE) {
            launches->unknown_count++;
            continue;
        }
        if (first[call] != LW_NONE)
            launches->later_count++;
        if (first[call] == LW_NONE ||
            event->start_ns < trace->events[first[call]].start_ns)
            first[call] = i;
    }
}

bool lw_launches_init(struct lw_launches *launches, const struct lw_trace_scope *scope,
                      struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;
    uint32_t *first = lw_alloc(trace->event_count * sizeof(*first) + 1, err);
    bool done = first != NULL;

    memset(launches, 0, sizeof(*launches));
    if (!first)
        return false;
    memset(first, 0xff, trace->event_count * sizeof(*first)); /* LW_NONE */
    find_first(launches, scope, first);
    for (uint32_t i = 0; done && i < trace->event_count; i++) {
        const struct lw_event *call = &trace->events[i], *work;
        struct lw_launch launch = { .call = i, .work = first[i] };

        if (first[i] == LW_NONE)
            continue;
        work = &trace->events[first[i]];
        launch.call_ns = (int64_t)call->duration_ns;
        launch.work_ns = (int64_t)work->duration_ns;
        launch.delay_ns = (int64_t)(work->start_ns - lw_event_end_ns(call));
        done = add_launch(launches, &launch, err);
    }
    lw_free(first);
    return done;
}

/* Which calls it knows; what they are not has no launch for it. */
static const char *const hta_calls[] = {
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
    /* In queues, these too: */
    "cuLaunchKernel",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemsetAsync",
    "hipMemcpyAsync",
    "hipMemcpyWithStream",
};
#define HTA_LAUNCHES 5
#define HTA_QUEUES (sizeof(hta_calls) / sizeof(hta_calls[0]))

/* The call that launched EVENT, if it is one of the first KNOWN; else LW_NONE. */
static uint32_t hta_call_of(const struct lw_hta *hta, const struct lw_hta_event *event,
                            size_t known)
{
    uint32_t call = lw_hta_launch(hta->trace, &hta->trace->events[event->event]);
    const char *name;

    if (call == LW_NONE)
        return LW_NONE;
    name = lw_profile_text(hta->profile, hta->trace->events[call].name);
    for (size_t i = 0; i < known; i++)
        if (strcmp(name, hta_calls[i]) == 0)
            return call;
    return LW_NONE;
}

static bool add_rank_as_hta(void *context, const struct lw_hta *hta, uint32_t rank,
                            struct lw_hta_events *events, struct lw_error *err)
{
    struct lw_launches *launches = context;
    bool done = true;

    (void)rank;
    for (size_t i = 0; done && i < events->count; i++) {
        const struct lw_hta_event *work = &events->list[i];
        uint32_t call = hta_call_of(hta, work, HTA_LAUNCHES);
        struct lw_launch launch = { .call = call, .work = work->event };
        int64_t end_us;

        if (call == LW_NONE) {
            launches->unknown_count++;
            continue;
        }
        end_us = lw_hta_end_us(hta, &hta->trace->events[call]);
        launch.call_ns =
            (end_us - lw_hta_start_us(hta, &hta->trace->events[call])) * 1000;
        launch.work_ns = (work->end_us - work->start_us) * 1000;
        launch.delay_ns = (work->start_us - end_us) * 1000;
        done = add_launch(launches, &launch, err);
    }
    return done;
}

bool lw_launches_init_hta(struct lw_launches *launches,
                          const struct lw_trace_scope *scope, struct lw_error *err)
{
    memset(launches, 0, sizeof(*launches));
    return lw_hta_visit_ranks(scope, add_rank_as_hta, launches, err);
}

void lw_launches_release(struct lw_launches *launches)
{
    lw_free(launches->list);
    memset(launches, 0, sizeof(*launches));
}

/* Queues */

static int compare_changes(const void *a, const void *b)
{
    const struct lw_queue_change *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return y->change - x->change;
}

/* One piece of work is launched at CALL_NS, and starts at WORK_NS. */
static bool add_changes(struct lw_queue_changes *changes, struct lw_queue_change change,
                        uint64_t call_ns, uint64_t work_ns, struct lw_error *err)
{
    if (!lw_grow(&changes->list, &changes->capacity, changes->count + 2, sizeof(change),
                 err))
        return false;
    change.time_ns = call_ns;
    change.change = 1;
    changes->list[changes->count++] = change;
    change.time_ns = work_ns;
    change.change = -1;
    changes->list[changes->count++] = change;
    return true;
}

static void sort_changes(struct lw_queue_changes *changes)
{
    if (changes->count > 1)
        qsort(changes->list, changes->count, sizeof(*changes->list), compare_changes);
}

bool lw_queue_changes_init(struct lw_queue_changes *changes,
                           const struct lw_trace_scope *scope, struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;

    memset(changes, 0, sizeof(*changes));
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *work = &trace->events[i];
        const struct lw_track *track = &trace->tracks[work->track];
        struct lw_queue_change change = { .rank = track->rank,
                                          .device = track->device,
                                          .stream = track->number };
        uint32_t call = lw_event_is_work(work) ? call_of(trace, work) : LW_NONE;

        if (call != LW_NONE && lw_trace_scope_has(scope, work) &&
            !add_changes(changes, change, trace->events[call].start_ns, work->start_ns,
                         err))
            return false;
    }
    sort_changes(changes);
    return true;
}

static bool add_queues_as_hta(void *context, const struct lw_hta *hta, uint32_t rank,
                              struct lw_hta_events *events, struct lw_error *err)
{
    struct lw_queue_changes *changes = context;
    bool done = true;

    for (size_t i = 0; done && i < events->count; i++) {
        const struct lw_hta_event *work = &events->list[i];
        uint32_t call = hta_call_of(hta, work, HTA_QUEUES);
        struct lw_queue_change change = { .rank = rank,
                                          .device = -1,
                                          .stream = work->stream };
        int64_t call_us;

        if (call == LW_NONE)
            continue;
        call_us = lw_hta_start_us(hta, &hta->trace->events[call]);
        done = add_changes(changes, change, (uint64_t)call_us * 1000,
                           (uint64_t)work->start_us * 1000, err);
    }
    return done;
}

bool lw_queue_changes_init_hta(struct lw_queue_changes *changes,
                               const struct lw_trace_scope *scope, struct lw_error *err)
{
    memset(changes, 0, sizeof(*changes));
    if (!lw_hta_visit_ranks(scope, add_queues_as_hta, changes, err))
        return false;
    sort_changes(changes);
    return true;
}

void lw_queue_changes_release(struct lw_queue_changes *changes)
{
    lw_free(changes->list);
    memset(changes, 0, sizeof(*changes));
}
