/* Matching frees with allocations, and both with ops. */

#include "analyses/memory_uses.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/tb_events.h"
#include "base/alloc.h"
#include "base/text.h"

/* Devices */

static bool is_device(const void *owner, uint32_t number, const void *key)
{
    const struct lw_memory_uses *uses = owner;
    const struct lw_memory_device *a = &uses->devices[number - 1], *b = key;

    return a->rank == b->rank && a->type == b->type && a->id == b->id;
}

static bool find_device(struct lw_memory_uses *uses,
                        const struct lw_memory_event *event, uint32_t *index,
                        struct lw_error *err)
{
    struct lw_memory_device device = { .rank = uses->trace->tracks[event->track].rank,
                                       .type = event->device_type,
                                       .id = event->device,
                                       .is_told = true,
                                       .peak = LW_NONE,
                                       .end_reserved = -1,
                                       .peak_reserved = -1 };
    uint64_t hash =
        lw_hash_u64((uint64_t)device.rank << 32 ^
                    (uint64_t)(uint32_t)device.type << 16 ^ (uint32_t)device.id);
    uint32_t found = lw_map_find(&uses->device_map, hash, is_device, uses, &device);

    if (!found) {
        if (++uses->rank_devices[device.rank] > LW_MEMORY_DEVICES_MAX)
            return lw_fail(err, LW_ERR_LIMIT,
                           "a trace with memory on more than %d devices is damaged",
                           LW_MEMORY_DEVICES_MAX);
        if (!lw_grow(&uses->devices, &uses->device_capacity, uses->device_count + 1,
                     sizeof(*uses->devices), err) ||
            !lw_map_add(&uses->device_map, hash, (uint32_t)uses->device_count + 1, err))
            return false;
        uses->devices[uses->device_count] = device;
        found = (uint32_t)++uses->device_count;
    }
    *index = found - 1;
    return true;
}

static bool find_devices(struct lw_memory_uses *uses, struct lw_error *err)
{
    const struct lw_trace *trace = uses->trace;

    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct lw_memory_event *event = &trace->memory[i];
        struct lw_memory_use *use = &uses->list[i];

        use->device = use->event = use->pair = LW_NONE;
        if (!lw_trace_scope_has_track(&uses->scope, &trace->tracks[event->track]))
            continue;
        if (!find_device(uses, event, &use->device, err))
            return false;
        uses->devices[use->device].is_told &= event->allocated >= 0;
        uses->devices[use->device].count++;
        uses->meant_count++;
        uses->no_address += lw_memory_is_block(event) && event->address == 0;
    }
    return true;
}

int64_t lw_memory_sum(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

int64_t lw_memory_difference(int64_t a, int64_t b)
{
    int64_t difference;

    if (__builtin_sub_overflow(a, b, &difference))
        return b < 0 ? INT64_MAX : INT64_MIN;
    return difference;
}

/* A counting sort, so each device's stay in order of time. */
static bool order_events(struct lw_memory_uses *uses, struct lw_error *err)
{
    uint32_t at = 0;

    uses->order = lw_alloc(uses->meant_count * sizeof(*uses->order) + 1, err);
    if (!uses->order)
        return false;
    for (size_t i = 0; i < uses->device_count; i++) {
        uses->devices[i].first = at;
        at += uses->devices[i].count;
        uses->devices[i].count = 0;
    }
    for (uint32_t i = 0; i < uses->trace->memory_count; i++)
        if (uses->list[i].device != LW_NONE) {
            struct lw_memory_device *device = &uses->devices[uses->list[i].device];

            uses->order[device->first + device->count++] = i;
        }
    return true;
}

static void count_event(struct lw_memory_device *device,
                        const struct lw_memory_event *event)
{
    if (event->kind != LW_MEMORY_BLOCK)
        return;
    if (event->bytes > 0) {
        device->allocation_count++;
        device->allocated_bytes = lw_memory_sum(device->allocated_bytes, event->bytes);
    } else {
        device->free_count++;
        device->freed_bytes = lw_memory_sum(device->freed_bytes, event->bytes);
    }
}

/* What the device has in total behind each event, and the most of it. */
static void add_up(struct lw_memory_uses *uses)
{
    for (uint32_t i = 0; i < uses->trace->memory_count; i++) {
        const struct lw_memory_event *event = &uses->trace->memory[i];
        struct lw_memory_use *use = &uses->list[i];
        struct lw_memory_device *device;
        bool is_first;

        if (use->device == LW_NONE)
            continue;
        device = &uses->devices[use->device];
        is_first = device->peak == LW_NONE;
        count_event(device, event);
        if (device->is_told)
            use->allocated = event->allocated;
        else if (event->kind == LW_MEMORY_SEGMENT || event->kind == LW_MEMORY_FAILED)
            use->allocated = device->end_bytes;
        else
            use->allocated = lw_memory_sum(device->end_bytes, event->bytes);
        use->reserved = event->reserved;
        if (is_first)
            device->start_bytes =
                device->is_told && event->kind == LW_MEMORY_BLOCK
                    ? lw_memory_difference(event->allocated, event->bytes)
                    : use->allocated;
        if (event->kind == LW_MEMORY_BEFORE)
            device->start_bytes = use->allocated;
        device->end_bytes = use->allocated;
        device->end_reserved = use->reserved;
        if (is_first || use->allocated > device->peak_bytes) {
            device->peak = i;
            device->peak_bytes = use->allocated;
        }
        if (use->reserved > device->peak_reserved)
            device->peak_reserved = use->reserved;
    }
}

/* Matching */

struct place {
    uint64_t address;
    uint32_t device;
    uint32_t index;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void match_places(struct lw_memory_uses *uses, const struct place *places,
                         size_t count, bool forgets)
{
    uint32_t open = LW_NONE; /* the last allocation, while it is not freed */

    for (size_t i = 0; i < count; i++) {
        uint32_t index = places[i].index;

        if (i > 0 && (places[i].address != places[i - 1].address ||
                      places[i].device != places[i - 1].device))
            open = LW_NONE;
        if (uses->trace->memory[index].bytes > 0) {
            if (open != LW_NONE)
                uses->list[open].is_lost = forgets;
            open = index;
        } else if (open != LW_NONE) {
            uses->list[open].pair = index;
            uses->list[index].pair = open;
            open = LW_NONE;
        }
    }
}

/* The plugin has one table of addresses for all devices. */
static bool match_frees(struct lw_memory_uses *uses, enum lw_compat compat,
                        struct lw_error *err)
{
    const struct lw_trace *trace = uses->trace;
    struct place *places = lw_alloc(trace->memory_count * sizeof(*places) + 1, err);
    size_t count = 0;

    if (!places)
        return false;
    for (uint32_t i = 0; i < trace->memory_count; i++) {
        const struct lw_memory_event *event = &trace->memory[i];
        uint32_t device = uses->list[i].device;

        if (device != LW_NONE && lw_memory_is_block(event) && event->address != 0) {
            struct place place = { event->address,
                                   compat == LW_COMPAT_TB ? uses->devices[device].rank
                                                          : device,
                                   i };

            places[count++] = place;
        }
    }
    if (count > 0)
        qsort(places, count, sizeof(*places), compare_places);
    match_places(uses, places, count, compat == LW_COMPAT_TB);
    lw_free(places);
    return true;
}

/* Ops */

/* How far a track's events have been followed. */
struct cursor {
    uint32_t next;
    uint32_t open; /* the innermost that has begun and not ended; LW_NONE: none */
};

static uint32_t innermost_at(const struct lw_trace *trace, uint32_t track,
                             uint64_t time_ns, struct cursor *at)
{
    uint32_t end = trace->tracks[track].first + trace->tracks[track].count;

    while (at->next < end && trace->events[at->next].start_ns <= time_ns)
        at->open = at->next++;
    while (at->open != LW_NONE &&
           lw_event_end_ns(&trace->events[at->open]) <= time_ns) {
        uint32_t parent = trace->events[at->open].parent;

        /* The parent of what ran on a device is on another track. */
        at->open = parent != LW_NONE && trace->events[parent].track == track ? parent
                                                                             : LW_NONE;
    }
    return at->open;
}

/* Memory events come in order of time, so each track is gone through once. */
static bool find_events(struct lw_memory_uses *uses, struct lw_error *err)
{
    const struct lw_trace *trace = uses->trace;
    struct cursor *cursors = lw_alloc(trace->track_count * sizeof(*cursors) + 1, err);

    if (!cursors)
        return false;
    for (size_t i = 0; i < trace->track_count; i++) {
        struct cursor start = { trace->tracks[i].first, LW_NONE };

        cursors[i] = start;
    }
    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct lw_memory_event *event = &trace->memory[i];

        if (uses->list[i].device != LW_NONE)
            uses->list[i].event = innermost_at(trace, event->track, event->time_ns,
                                               &cursors[event->track]);
    }
    lw_free(cursors);
    return true;
}

/* The plugin counts time from the first event that it looks at. */
static bool find_times(struct lw_memory_uses *uses, enum lw_compat compat,
                       struct lw_error *err)
{
    const struct lw_trace *trace = uses->trace;
    struct lw_tb_events tb = { 0 };

    if (compat == LW_COMPAT_TB && !lw_tb_events_init(&tb, uses->profile, err))
        return false;
    uses->start_ns = UINT64_MAX;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        if (!lw_trace_scope_has(&uses->scope, event) ||
            (compat == LW_COMPAT_TB && lw_tb_type(&tb, event) == LW_TB_NONE))
            continue;
        if (event->start_ns < uses->start_ns)
            uses->start_ns = event->start_ns;
        if (lw_event_end_ns(event) > uses->end_ns)
            uses->end_ns = lw_event_end_ns(event);
    }
    for (size_t i = 0; i < trace->memory_count; i++) {
        uint64_t time_ns = trace->memory[i].time_ns;

        if (uses->list[i].device == LW_NONE)
            continue;
        if (time_ns < uses->start_ns)
            uses->start_ns = time_ns;
        if (time_ns > uses->end_ns)
            uses->end_ns = time_ns;
    }
    lw_tb_events_release(&tb);
    return true;
}

bool lw_memory_arrange(struct lw_table *table, const struct lw_query *query,
                       const char *column, struct lw_error *err)
{
    struct lw_query ordered = *query; /* what it owns stays the other's */

    if (ordered.column_count == 0 && column)
        ordered.columns[ordered.column_count++] = column;
    return lw_analysis_arrange(table, &ordered, err);
}

/* Making */

static bool fail_empty(const struct lw_profile *profile, struct lw_error *err)
{
    if (!profile->trace || profile->trace->event_count == 0)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "no allocation of torch's was recorded: 'lapwing run --torch=memory "
            "train.py' records them; memory also reads a trace with "
            "profile_memory=True, torch.cuda.memory._dump_snapshot() and "
            "export_memory_timeline()");
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "the trace has no allocations: 'lapwing run --torch=memory' or "
                   "torch.profiler.profile(profile_memory=True) records them");
}

/* A snapshot has no events, but several may be the ranks of a job. */
static bool find_ranks(struct lw_memory_uses *uses, const struct lw_query *query,
                       struct lw_error *err)
{
    struct lw_trace_scope *scope = &uses->scope;
    int64_t number = -1;

    if (uses->trace->event_count > 0)
        return lw_trace_scope_init(scope, uses->profile, query, "memory", err);
    scope->profile = uses->profile;
    scope->trace = uses->trace;
    scope->ranks = lw_zalloc(uses->trace->rank_count + 1, sizeof(*scope->ranks), err);
    if (!scope->ranks)
        return false;
    if (query->rank && !lw_text_i64(query->rank, strlen(query->rank), &number))
        number = -1;
    for (uint32_t i = 0; i < uses->trace->rank_count; i++) {
        scope->ranks[i] =
            !query->rank || lw_trace_rank_number(uses->trace, i) == number;
        scope->rank_count += scope->ranks[i];
    }
    return scope->rank_count > 0 ||
           lw_fail(err, LW_ERR_USAGE, "there is no rank %s", query->rank);
}

bool lw_memory_uses_init(struct lw_memory_uses *uses, const struct lw_profile *profile,
                         const struct lw_query *query, struct lw_error *err)
{
    const struct lw_trace *trace = profile->trace;

    memset(uses, 0, sizeof(*uses));
    if (!trace || (trace->memory_count == 0 && trace->segment_count == 0))
        return fail_empty(profile, err);
    uses->profile = profile;
    uses->trace = trace;
    uses->is_snapshot = trace->segment_count > 0;
    uses->is_timeline = trace->event_count == 0 && !uses->is_snapshot;
    uses->list = lw_zalloc(trace->memory_count + 1, sizeof(*uses->list), err);
    uses->rank_devices =
        lw_zalloc(trace->rank_count + 1, sizeof(*uses->rank_devices), err);
    if (!uses->list || !uses->rank_devices || !find_ranks(uses, query, err) ||
        !find_devices(uses, err) || !order_events(uses, err) ||
        !lw_askers_init(&uses->askers, profile, err) ||
        !lw_memory_find_askers(uses, err) || !match_frees(uses, query->compat, err) ||
        !find_events(uses, err) || !find_times(uses, query->compat, err))
        return false;
    add_up(uses);
    if (uses->meant_count == 0 && !uses->is_snapshot)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no allocations in the trace of rank %s", query->rank);
    return true;
}

void lw_memory_uses_release(struct lw_memory_uses *uses)
{
    lw_free(uses->list);
    lw_free(uses->order);
    lw_free(uses->rank_devices);
    lw_free(uses->devices);
    lw_map_release(&uses->device_map);
    lw_free(uses->stack_places);
    lw_free(uses->stack_ops);
    lw_trace_scope_release(&uses->scope);
    lw_askers_release(&uses->askers);
    memset(uses, 0, sizeof(*uses));
}
