#include "analyses/overlap_ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/device_times.h"
#include "analyses/hta_events.h"
#include "analyses/spread.h"
#include "base/alloc.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "device", "device", LW_UNIT_COUNT, false },
    { "range", "range", LW_UNIT_TEXT, true },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "mean_ns", "mean", LW_UNIT_NS, false },
    { "sd_ns", "sd", LW_UNIT_NS, false },
    { "min_ns", "min", LW_UNIT_NS, false },
    { "max_ns", "max", LW_UNIT_NS, false },
    { "busy_ns", "busy", LW_UNIT_NS, false },
    { "busy_share", "of it", LW_UNIT_SHARE, false },
};
/* clang-format on */

void lw_overlap_ranges_columns(struct lw_table *table)
{
    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
}

struct range {
    uint32_t rank;
    int32_t device; /* -1: not told, or all */
    lw_string_id name;
    uint64_t start_ns;
    int64_t duration_ns;
};

/* All of one name, on a device. */
struct group {
    const struct range *first;
    struct lw_spread spread;
    int64_t busy_ns; /* in any of them, once; -1: not asked */
    int64_t whole_ns;
};

struct ranges {
    const struct lw_trace_scope *scope;
    const struct lw_hta *hta; /* NULL: by our own definitions */
    struct range *list;       /* owned; sorted by rank, device, name, start */
    size_t count, capacity;
    struct group *groups; /* owned */
    size_t group_count;
    double *durations;                   /* owned; room for all of a group */
    struct lw_device_times times;        /* of our own definitions only */
    const struct lw_device_time *device; /* at hand */
    uint64_t *before_ns; /* owned: of each busy stretch of it, the time busy before */
    size_t before_capacity;
};

static bool is_same(const struct range *a, const struct range *b)
{
    return a->rank == b->rank && a->device == b->device && a->name == b->name;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool list_ranges(struct ranges *r, struct lw_error *err)
{
    const struct lw_trace *trace = r->scope->trace;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        const struct lw_track *track = &trace->tracks[event->track];
        struct range range = { track->rank, track->device, event->name, event->start_ns,
                               (int64_t)event->duration_ns };

        if (event->kind != LW_EVENT_DEVICE_RANGE ||
            !lw_trace_scope_has(r->scope, event))
            continue;
        if (r->hta) {
            if (!lw_hta_keeps(r->hta, event))
                continue;
            range.device = -1;
            range.duration_ns =
                (lw_hta_end_us(r->hta, event) - lw_hta_start_us(r->hta, event)) * 1000;
        }
        if (!lw_grow(&r->list, &r->capacity, r->count + 1, sizeof(range), err))
            return false;
        r->list[r->count++] = range;
    }
    if (r->count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the trace has no ranges on a device: torch.profiler writes "
                       "them (gpu_user_annotation) from torch 2.3 on, for "
                       "record_function() around GPU work");
    qsort(r->list, r->count, sizeof(*r->list), compare_ranges);
    return true;
}

/* Sums of the busy stretches of the device at hand, so that a range that spans them all
 * is as quick as one that spans none. */
static bool use_device(struct ranges *r, const struct range *range,
                       struct lw_error *err)
{
    const struct lw_intervals *busy;

    if (r->device && r->device->rank == range->rank &&
        r->device->device == range->device)
        return true;
    r->device = lw_device_times_find(&r->times, range->rank, range->device);
    if (!r->device)
        return true;
    busy = &r->device->sets[LW_WORK_NONE];
    if (!lw_grow(&r->before_ns, &r->before_capacity, busy->count, sizeof(*r->before_ns),
                 err))
        return false;
    lw_intervals_sum(busy, r->before_ns);
    return true;
}

/* How long the device at hand was busy before TIME_NS. */
static uint64_t busy_before(const struct ranges *r, uint64_t time_ns)
{
    return lw_intervals_before(&r->device->sets[LW_WORK_NONE], r->before_ns, time_ns);
}

/* Of the ranges of GROUP, which are sorted by start, what is in any: its length and how
 * busy the device was. */
static void measure_group(const struct ranges *r, struct group *group)
{
    uint64_t done_ns = group->first->start_ns, busy_ns = 0, whole_ns = 0;

    for (size_t i = 0; i < group->spread.count; i++) {
        uint64_t start_ns = group->first[i].start_ns;
        uint64_t end_ns = start_ns + (uint64_t)group->first[i].duration_ns;

        if (start_ns < done_ns)
            start_ns = done_ns;
        if (end_ns <= start_ns)
            continue;
        if (r->device)
            busy_ns += busy_before(r, end_ns) - busy_before(r, start_ns);
        whole_ns += end_ns - start_ns;
        done_ns = end_ns;
    }
    group->busy_ns = (int64_t)busy_ns;
    group->whole_ns = (int64_t)whole_ns;
}

static bool make_groups(struct ranges *r, struct lw_error *err)
{
    r->groups = lw_zalloc(r->count, sizeof(*r->groups), err);
    r->durations = r->groups ? lw_alloc(r->count * sizeof(*r->durations), err) : NULL;
    if (!r->durations)
        return false;
    for (size_t i = 0, next; i < r->count; i = next) {
        struct group *group = &r->groups[r->group_count++];

        for (next = i; next < r->count && is_same(&r->list[i], &r->list[next]); next++)
            r->durations[next - i] = (double)r->list[next].duration_ns;
        group->first = &r->list[i];
        group->spread = lw_spread_of(r->durations, next - i);
        group->busy_ns = -1;
        if (r->hta)
            continue;
        if (!use_device(r, group->first, err))
            return false;
        measure_group(r, group);
    }
    return true;
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    if (x->first->rank != y->first->rank)
        return x->first->rank < y->first->rank ? -1 : 1;
    if (x->spread.total != y->spread.total)
        return x->spread.total > y->spread.total ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void add_ns(struct lw_table *table, double ns)
{
    if (isnan(ns))
        lw_table_add_none(table);
    else
        lw_table_add_integer(table, llround(ns));
}

static void add_group(struct lw_table *table, const struct ranges *r,
                      const struct group *group)
{
    const struct lw_profile *profile = r->scope->profile;
    const struct range *range = group->first;

    lw_table_row(table, 0);
    lw_table_add_integer(table, lw_trace_rank_number(r->scope->trace, range->rank));
    if (range->device >= 0)
        lw_table_add_integer(table, range->device);
    else
        lw_table_add_none(table);
    lw_table_add_text(table, lw_profile_text(profile, range->name),
                      lw_strings_len(profile->strings, range->name));
    lw_table_add_integer(table, (int64_t)group->spread.count);
    add_ns(table, group->spread.total);
    add_ns(table, group->spread.mean);
    /* It says 0 where one number has no deviation. */
    add_ns(table, r->hta && group->spread.count == 1 ? 0 : group->spread.sd);
    add_ns(table, group->spread.min);
    add_ns(table, group->spread.max);
    if (group->busy_ns < 0)
        return;
    lw_table_add_integer(table, group->busy_ns);
    lw_analysis_add_share(table, (double)group->busy_ns, (double)group->whole_ns);
}

bool lw_overlap_ranges(const struct lw_trace_scope *scope, const struct lw_query *query,
                       struct lw_table *table, struct lw_error *err)
{
    struct ranges r = { .scope = scope };
    struct lw_hta hta = { 0 };
    bool done = true;

    if (query->compat == LW_COMPAT_HTA) {
        done = lw_hta_init(&hta, scope->profile, err);
        r.hta = &hta;
    } else {
        done = lw_device_times_init(&r.times, scope, err);
    }
    done = done && list_ranges(&r, err) && make_groups(&r, err);
    if (done)
        qsort(r.groups, r.group_count, sizeof(*r.groups), compare_groups);
    for (size_t i = 0; done && i < r.group_count; i++)
        add_group(table, &r, &r.groups[i]);
    if (done && !r.hta)
        lw_table_note(table, "busy: in any range of the name while the device worked, "
                             "on whatever stream; on the host: the view ops.");
    lw_free(r.list);
    lw_free(r.groups);
    lw_free(r.durations);
    lw_free(r.before_ns);
    lw_device_times_release(&r.times);
    lw_hta_release(&hta);
    return done;
}
