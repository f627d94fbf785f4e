#include "analyses/hta_events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* Its times are doubles of microseconds since the file's own base before they are
 * rounded, so ours must lose the same digits. */
static double as_us(uint64_t ns)
{
    return (double)(ns / 1000) + (double)(ns % 1000) / 1000.0;
}

static double file_us(const struct lw_hta *hta, const struct lw_event *event)
{
    const struct lw_trace_rank *rank =
        &hta->trace->ranks[hta->trace->tracks[event->track].rank];

    return as_us(event->start_ns + hta->trace->base_ns - rank->base_ns -
                 (uint64_t)rank->clock_ns);
}

int64_t lw_hta_start_us(const struct lw_hta *hta, const struct lw_event *event)
{
    return (int64_t)ceil(file_us(hta, event));
}

int64_t lw_hta_end_us(const struct lw_hta *hta, const struct lw_event *event)
{
    return (int64_t)floor(file_us(hta, event) + as_us(event->duration_ns));
}

int64_t lw_hta_first_us(const struct lw_hta *hta, uint32_t rank)
{
    return (int64_t)ceil(as_us(hta->trace->ranks[rank].first_ns));
}

int64_t lw_hta_stream(const struct lw_trace *trace, const struct lw_event *event)
{
    if ((!lw_event_is_work(event) && event->kind != LW_EVENT_SYNC) ||
        event->detail == LW_NONE)
        return -1;
    return trace->works[event->detail].stream;
}

uint32_t lw_hta_launch(const struct lw_trace *trace, const struct lw_event *event)
{
    if (event->parent == LW_NONE || event->correlation == 0 ||
        trace->events[event->parent].kind != LW_EVENT_RUNTIME)
        return LW_NONE;
    return event->parent;
}

/* What it joins to host events by correlation: with a stream, or a wait of the host. */
static bool is_joined(const struct lw_hta *hta, const struct lw_event *event)
{
    const char *name;

    if (!lw_event_is_on_device(event))
        return false;
    if (lw_hta_stream(hta->trace, event) >= 0 && event->correlation)
        return true;
    name = lw_profile_text(hta->profile, event->name);
    return event->kind == LW_EVENT_SYNC &&
           (strcmp(name, "Event Sync") == 0 || strcmp(name, "Context Sync") == 0);
}

bool lw_hta_keeps(const struct lw_hta *hta, const struct lw_event *event)
{
    uint32_t launch;

    if (!hta->last_step_us)
        return true;
    if (is_joined(hta, event)) {
        launch = lw_hta_launch(hta->trace, event);
        if (launch == LW_NONE)
            return false;
        event = &hta->trace->events[launch];
    }
    return lw_hta_start_us(hta, event) <
           hta->last_step_us[hta->trace->tracks[event->track].rank];
}

/* What a name says: long names of kernels repeat a hundred thousand times. */
enum {
    NAME_KIND = 3, /* a mask: enum lw_work_kind */
    NAME_IS_STEP = 4,
    NAME_IS_JUDGED = 8,
};

/* How many different names of events there are that are steps'. */
static size_t judge_names(struct lw_hta *hta)
{
    size_t steps = 0;

    for (size_t i = 0; i < hta->trace->event_count; i++) {
        uint8_t *says = &hta->names[hta->trace->events[i].name];
        const char *name;

        if (*says)
            continue;
        name = lw_profile_text(hta->profile, hta->trace->events[i].name);
        *says = (uint8_t)(NAME_IS_JUDGED | lw_work_kind_by_hta(name));
        if (strstr(name, "ProfilerStep")) {
            *says |= NAME_IS_STEP;
            steps++;
        }
    }
    return steps;
}

static void find_last_steps(struct lw_hta *hta)
{
    for (size_t i = 0; i < hta->trace->rank_count; i++)
        hta->last_step_us[i] = INT64_MIN; /* without a step, all is dropped */
    for (size_t i = 0; i < hta->trace->event_count; i++) {
        const struct lw_event *event = &hta->trace->events[i];
        int64_t *last = &hta->last_step_us[hta->trace->tracks[event->track].rank];

        if ((hta->names[event->name] & NAME_IS_STEP) && !is_joined(hta, event) &&
            lw_hta_start_us(hta, event) > *last)
            *last = lw_hta_start_us(hta, event);
    }
}

bool lw_hta_init(struct lw_hta *hta, const struct lw_profile *profile,
                 struct lw_error *err)
{
    memset(hta, 0, sizeof(*hta));
    hta->profile = profile;
    hta->trace = profile->trace;
    hta->names = lw_zalloc(lw_strings_count(profile->strings), 1, err);
    if (!hta->names)
        return false;
    if (judge_names(hta) < 2)
        return true;
    hta->last_step_us =
        lw_alloc(hta->trace->rank_count * sizeof(*hta->last_step_us) + 1, err);
    if (!hta->last_step_us)
        return false;
    find_last_steps(hta);
    return true;
}

void lw_hta_release(struct lw_hta *hta)
{
    lw_free(hta->names);
    lw_free(hta->last_step_us);
    memset(hta, 0, sizeof(*hta));
}

static int compare_events(const void *a, const void *b)
{
    const struct lw_hta_event *x = a, *y = b;

    if (x->start_us != y->start_us)
        return x->start_us < y->start_us ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

static bool add_track(struct lw_hta_events *events, const struct lw_hta *hta,
                      const struct lw_track *track, struct lw_error *err)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &hta->trace->events[i];
        struct lw_hta_event added = { .event = i };

        added.stream = lw_hta_stream(hta->trace, event);
        if (added.stream == -1 || !lw_hta_keeps(hta, event))
            continue;
        added.start_us = lw_hta_start_us(hta, event);
        added.end_us = lw_hta_end_us(hta, event);
        added.kind = hta->names[event->name] & NAME_KIND;
        if (!lw_grow(&events->list, &events->capacity, events->count + 1, sizeof(added),
                     err))
            return false;
        events->list[events->count++] = added;
    }
    return true;
}

bool lw_hta_events_init(struct lw_hta_events *events, const struct lw_hta *hta,
                        uint32_t rank, struct lw_error *err)
{
    const struct lw_trace *trace = hta->trace;

    memset(events, 0, sizeof(*events));
    for (size_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].rank == rank &&
            !add_track(events, hta, &trace->tracks[i], err))
            return false;
    if (events->count > 1)
        qsort(events->list, events->count, sizeof(*events->list), compare_events);
    return true;
}

void lw_hta_events_release(struct lw_hta_events *events)
{
    lw_free(events->list);
    memset(events, 0, sizeof(*events));
}

bool lw_hta_visit_ranks(const struct lw_trace_scope *scope, lw_hta_visit *visit,
                        void *context, struct lw_error *err)
{
    struct lw_hta hta;
    bool done = lw_hta_init(&hta, scope->profile, err);

    for (uint32_t i = 0; done && i < scope->trace->rank_count; i++) {
        struct lw_hta_events events;

        if (!scope->ranks[i])
            continue;
        done = lw_hta_events_init(&events, &hta, i, err) &&
               (events.count == 0 || visit(context, &hta, i, &events, err));
        lw_hta_events_release(&events);
    }
    lw_hta_release(&hta);
    return done;
}

static unsigned bit_of(const struct lw_hta_event *event)
{
    static const unsigned bits[] = {
        [LW_WORK_NONE] = 0,
        [LW_WORK_COMPUTATION] = LW_HTA_COMPUTATION,
        [LW_WORK_COMMUNICATION] = LW_HTA_COMMUNICATION,
        [LW_WORK_MEMORY] = LW_HTA_MEMORY,
    };

    return bits[event->kind];
}

/* One after another, what runs together of the events of some kinds. */
struct merging {
    const struct lw_hta_events *events;
    unsigned bits;
    size_t at; /* the next event to look at */
};

static bool is_next(const struct merging *merging)
{
    return merging->bits == 0 ||
           (merging->bits & bit_of(&merging->events->list[merging->at])) != 0;
}

/* The next stretch in which events touch or overlap; false: there is none. */
static bool next_stretch(struct merging *merging, int64_t *start_us, int64_t *end_us)
{
    const struct lw_hta_event *list = merging->events->list;
    size_t count = merging->events->count;

    while (merging->at < count && !is_next(merging))
        merging->at++;
    if (merging->at == count)
        return false;
    *start_us = list[merging->at].start_us;
    *end_us = list[merging->at++].end_us;
    for (; merging->at < count; merging->at++) {
        if (!is_next(merging))
            continue;
        if (list[merging->at].start_us > *end_us)
            break;
        if (list[merging->at].end_us > *end_us)
            *end_us = list[merging->at].end_us;
    }
    return true;
}

int64_t lw_hta_busy_us(const struct lw_hta_events *events, unsigned bits)
{
    struct merging merging = { .events = events, .bits = bits };
    int64_t start_us, end_us, total_us = 0;

    while (next_stretch(&merging, &start_us, &end_us))
        total_us += end_us - start_us;
    return total_us;
}

int64_t lw_hta_span_us(const struct lw_hta_events *events)
{
    int64_t last_us = events->list[0].end_us;

    for (size_t i = 1; i < events->count; i++)
        if (events->list[i].end_us > last_us)
            last_us = events->list[i].end_us;
    return last_us - events->list[0].start_us;
}

struct change {
    int64_t time_us;
    int change; /* of the sum of bits of what runs */
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

/* Starts and ends of stretches of each kind; CHANGES has room for two an event. */
static size_t find_changes(const struct lw_hta_events *events, unsigned bits,
                           struct change *changes)
{
    size_t count = 0;

    for (unsigned bit = 1; bit < LW_HTA_COMBINATIONS; bit <<= 1) {
        struct merging merging = { .events = events, .bits = bit };
        int64_t start_us, end_us;

        while ((bits & bit) && next_stretch(&merging, &start_us, &end_us)) {
            struct change start = { start_us, (int)bit }, end = { end_us, -(int)bit };

            changes[count++] = start;
            changes[count++] = end;
        }
    }
    return count;
}

bool lw_hta_sweep(const struct lw_hta_events *events, unsigned bits,
                  int64_t times_us[LW_HTA_COMBINATIONS], struct lw_error *err)
{
    struct change *changes = lw_alloc(events->count * 2 * sizeof(*changes) + 1, err);
    size_t count;
    int running = 0;

    memset(times_us, 0, LW_HTA_COMBINATIONS * sizeof(*times_us));
    if (!changes)
        return false;
    count = find_changes(events, bits, changes);
    qsort(changes, count, sizeof(*changes), compare_changes);
    for (size_t i = 0; i + 1 < count; i++) {
        running += changes[i].change;
        if (running > 0 && running < LW_HTA_COMBINATIONS)
            times_us[running] += changes[i + 1].time_us - changes[i].time_us;
    }
    lw_free(changes);
    return true;
}
