#include "analyses/device_times.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int compare(const void *a, const void *b)
{
    const struct lw_device_time *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

/* One for each device of a rank that a track is of. */
static bool list_devices(struct lw_device_times *times,
                         const struct lw_trace_scope *scope, struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;
    size_t count = 0, kept = 0;

    times->list = lw_zalloc(trace->track_count + 1, sizeof(*times->list), err);
    if (!times->list)
        return false;
    for (size_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].is_device &&
            lw_trace_scope_has_track(scope, &trace->tracks[i])) {
            times->list[count].rank = trace->tracks[i].rank;
            times->list[count++].device = trace->tracks[i].device;
        }
    qsort(times->list, count, sizeof(*times->list), compare);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare(&times->list[kept - 1], &times->list[i]) != 0)
            times->list[kept++] = times->list[i];
    times->count = kept;
    return true;
}

const struct lw_device_time *lw_device_times_find(const struct lw_device_times *times,
                                                  uint32_t rank, int32_t device)
{
    struct lw_device_time key = { .rank = rank, .device = device };

    return bsearch(&key, times->list, times->count, sizeof(key), compare);
}

static bool add_track(struct lw_device_times *times, const struct lw_trace *trace,
                      const struct lw_track *track, const uint8_t *kinds,
                      struct lw_error *err)
{
    struct lw_device_time key = { .rank = track->rank, .device = track->device };
    struct lw_device_time *time =
        bsearch(&key, times->list, times->count, sizeof(key), compare);

    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint64_t start_ns = event->start_ns, end_ns = lw_event_end_ns(event);

        if (kinds[i] != LW_WORK_NONE &&
            (!lw_intervals_add(&time->sets[kinds[i]], start_ns, end_ns, err) ||
             !lw_intervals_add(&time->sets[LW_WORK_NONE], start_ns, end_ns, err)))
            return false;
    }
    return true;
}

/* Devices on which nothing took time are not listed. */
static void drop_idle(struct lw_device_times *times)
{
    size_t kept = 0;

    for (size_t i = 0; i < times->count; i++) {
        for (size_t k = 0; k < LW_WORK_KINDS; k++)
            lw_intervals_merge(&times->list[i].sets[k]);
        if (times->list[i].sets[LW_WORK_NONE].count > 0)
            times->list[kept++] = times->list[i];
    }
    times->count = kept;
}

bool lw_device_times_init(struct lw_device_times *times,
                          const struct lw_trace_scope *scope, struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;
    uint8_t *kinds;
    bool done;

    memset(times, 0, sizeof(*times));
    kinds = lw_work_kinds_new(scope->profile, LW_COMPAT_NONE, err);
    done = kinds && list_devices(times, scope, err);
    for (size_t i = 0; done && i < trace->track_count; i++)
        if (trace->tracks[i].is_device &&
            lw_trace_scope_has_track(scope, &trace->tracks[i]))
            done = add_track(times, trace, &trace->tracks[i], kinds, err);
    if (done)
        drop_idle(times);
    lw_free(kinds);
    return done;
}

void lw_device_times_release(struct lw_device_times *times)
{
    for (size_t i = 0; i < times->count; i++)
        for (size_t k = 0; k < LW_WORK_KINDS; k++)
            lw_intervals_release(&times->list[i].sets[k]);
    lw_free(times->list);
    memset(times, 0, sizeof(*times));
}

/* Where a walk through a set is. */
struct place {
    const struct lw_intervals *set;
    size_t at; /* the first interval that is not over */
};

/* Is the time in the set? *NEXT becomes the time at which that changes, if it does so
 * earlier. */
static bool is_in(struct place *place, uint64_t time_ns, uint64_t *next_ns)
{
    const struct lw_interval *here;
    uint64_t change_ns;

    while (place->at < place->set->count &&
           place->set->list[place->at].end_ns <= time_ns)
        place->at++;
    if (place->at == place->set->count)
        return false;
    here = &place->set->list[place->at];
    change_ns = here->start_ns <= time_ns ? here->end_ns : here->start_ns;
    if (change_ns < *next_ns)
        *next_ns = change_ns;
    return here->start_ns <= time_ns;
}

void lw_device_time_combine(const struct lw_device_time *time,
                            int64_t times_ns[LW_WORK_COMBINATIONS])
{
    const struct lw_intervals *all = &time->sets[LW_WORK_NONE];
    struct place computation = { .set = &time->sets[LW_WORK_COMPUTATION] };
    struct place communication = { .set = &time->sets[LW_WORK_COMMUNICATION] };
    struct place memory = { .set = &time->sets[LW_WORK_MEMORY] };
    uint64_t end_ns = all->count ? all->list[all->count - 1].end_ns : 0;
    uint64_t next_ns;

    memset(times_ns, 0, LW_WORK_COMBINATIONS * sizeof(*times_ns));
    for (uint64_t at = all->count ? all->list[0].start_ns : 0; at < end_ns;
         at = next_ns) {
        unsigned bits = 0;

        next_ns = end_ns;
        bits |= is_in(&computation, at, &next_ns) ? LW_WORK_BIT_COMPUTATION : 0;
        bits |= is_in(&communication, at, &next_ns) ? LW_WORK_BIT_COMMUNICATION : 0;
        bits |= is_in(&memory, at, &next_ns) ? LW_WORK_BIT_MEMORY : 0;
        times_ns[bits] += (int64_t)(next_ns - at);
    }
}
