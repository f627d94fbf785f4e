/* What the allocator did, from the trace of each device in a snapshot. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "readers/snapshot.h"

/* The trace of a device */

static bool add_event(struct lw_snapshot *s, const struct lw_memory_event *event,
                      struct lw_error *err)
{
    struct lw_trace *trace = s->trace;

    if (trace->memory_count >= LW_NONE)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 allocations and frees");
    if (!lw_grow(&trace->memory, &trace->memory_capacity, trace->memory_count + 1,
                 sizeof(*event), err))
        return false;
    trace->memory[trace->memory_count++] = *event;
    return true;
}

struct action {
    const char *name;
    enum lw_memory_kind kind;
    int sign;
};

/* What was asked to be freed is held until it is: a stream may still use it. */
static const struct action actions[] = {
    { "alloc", LW_MEMORY_BLOCK, 1 },
    { "free_completed", LW_MEMORY_BLOCK, -1 },
    { "free_requested", LW_MEMORY_BLOCK, 0 },
    { "segment_alloc", LW_MEMORY_SEGMENT, 1 },
    { "segment_free", LW_MEMORY_SEGMENT, -1 },
    { "segment_map", LW_MEMORY_SEGMENT, 1 }, /* of segments that can grow */
    { "segment_unmap", LW_MEMORY_SEGMENT, -1 },
    { "oom", LW_MEMORY_FAILED, 1 },
    { "snapshot", LW_MEMORY_BLOCK, 0 },
    { "user_defined", LW_MEMORY_BLOCK, 0 },
};

static const struct action *find_action(const struct lw_snapshot *s,
                                        lw_pickle_value dict)
{
    lw_pickle_value value = lw_pickle_find(&s->pickle, dict, "action");
    const char *text;
    size_t len;

    if (!lw_pickle_text(&s->pickle, value, &text, &len))
        return NULL;
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strlen(actions[i].name) == len && memcmp(actions[i].name, text, len) == 0)
            return &actions[i];
    return NULL;
}

static bool read_entry(struct lw_snapshot *s, lw_pickle_value dict, int32_t device,
                       struct lw_error *err)
{
    const struct action *action = find_action(s, dict);
    struct lw_memory_event event = {
        .address = (uint64_t)lw_snapshot_integer(s, dict, "addr", 0),
        .device_type = LW_SNAPSHOT_CUDA,
        .device = device,
        .allocated = -1,
        .reserved = -1,
    };
    int64_t size = lw_snapshot_integer(s, dict, "size", -1);
    int64_t time_us = lw_snapshot_integer(s, dict, "time_us", -1);

    if (!lw_snapshot_spend(s, err))
        return false;
    if (action && action->sign == 0)
        return true;
    if (!action || size < 0 || time_us > INT64_MAX / 1000) {
        s->odd++;
        return true;
    }
    s->has_times |= time_us >= 0;
    event.time_ns = time_us >= 0 ? (uint64_t)time_us * 1000 : s->trace->memory_count;
    event.kind = (uint8_t)action->kind;
    event.bytes = action->sign * size;
    if (event.time_ns < s->start_ns)
        s->start_ns = event.time_ns;
    return lw_snapshot_frames(s, dict, &event.stack, err) && add_event(s, &event, err);
}

/* What was before */

static bool is_active(const struct lw_snapshot *s, lw_string_id state)
{
    return strcmp(lw_profile_text(lw_builder_profile(s->out), state), "inactive") != 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct lw_snapshot_place *x = a, *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The first place of ADDRESS or above. */
static size_t lower_bound(const struct lw_snapshot *s, uint64_t address)
{
    size_t low = 0, high = s->place_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (s->places[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool find_places(struct lw_snapshot *s, size_t first, struct lw_error *err)
{
    const struct lw_trace *trace = s->trace;

    s->place_count = 0;
    if (!lw_grow(&s->places, &s->place_capacity, trace->memory_count - first + 1,
                 sizeof(*s->places), err))
        return false;
    for (size_t i = first; i < trace->memory_count; i++)
        if (trace->memory[i].kind == LW_MEMORY_BLOCK) {
            struct lw_snapshot_place place = { .address = trace->memory[i].address,
                                               .index = (uint32_t)i };

            s->places[s->place_count++] = place;
        }
    if (s->place_count > 0)
        qsort(s->places, s->place_count, sizeof(*s->places), compare_places);
    return true;
}

static bool add_before(struct lw_snapshot *s, int32_t device, uint64_t address,
                       int64_t bytes, lw_stack_id stack, struct lw_error *err)
{
    struct lw_memory_event event = { .time_ns = s->start_ns,
                                     .address = address,
                                     .bytes = bytes,
                                     .allocated = -1,
                                     .reserved = -1,
                                     .device_type = LW_SNAPSHOT_CUDA,
                                     .device = device,
                                     .stack = stack,
                                     .kind = LW_MEMORY_BEFORE };

    return add_event(s, &event, err);
}

/* What the trace frees without having allocated it. */
static bool add_freed(struct lw_snapshot *s, int32_t device, struct lw_error *err)
{
    for (size_t i = 0; i < s->place_count; i++) {
        const struct lw_memory_event *event = &s->trace->memory[s->places[i].index];

        if ((i == 0 || s->places[i - 1].address != s->places[i].address) &&
            event->bytes < 0 &&
            !add_before(s, device, event->address, -event->bytes, LW_NO_STACK, err))
            return false;
    }
    return true;
}

/* A block in use: what the trace says nothing of was there before. The trace has what was
 * asked for; the block that was given may be larger, which shows while it is held. */
static bool add_kept(struct lw_snapshot *s, int32_t device,
                     const struct lw_memory_block *block, struct lw_error *err)
{
    size_t end = block->address == UINT64_MAX ? s->place_count
                                              : lower_bound(s, block->address + 1);
    struct lw_memory_event *last;

    if (end == 0 || s->places[end - 1].address != block->address)
        return add_before(s, device, block->address, block->bytes, block->stack, err);
    last = &s->trace->memory[s->places[end - 1].index];
    if (last->bytes > 0 && last->bytes < block->bytes)
        last->bytes = block->bytes;
    return true;
}

static bool add_all_kept(struct lw_snapshot *s, int32_t device, struct lw_error *err)
{
    const struct lw_trace *trace = s->trace;

    for (size_t i = 0; i < trace->segment_count; i++) {
        const struct lw_memory_segment *segment = &trace->segments[i];

        for (uint32_t b = 0; segment->device == device && b < segment->block_count;
             b++) {
            const struct lw_memory_block *block =
                &trace->blocks[segment->first_block + b];

            if (is_active(s, block->state) && block->bytes > 0 &&
                !add_kept(s, device, block, err))
                return false;
        }
    }
    return true;
}

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* What the device had reserved before the trace: what it has now, less what came since. */
static int64_t reserved_before(const struct lw_snapshot *s, int32_t device,
                               size_t first)
{
    const struct lw_trace *trace = s->trace;
    int64_t reserved = 0;

    for (size_t i = 0; i < trace->segment_count; i++)
        if (trace->segments[i].device == device)
            reserved = add(reserved, trace->segments[i].bytes);
    for (size_t i = first; i < trace->memory_count; i++)
        if (trace->memory[i].kind == LW_MEMORY_SEGMENT)
            reserved = add(reserved, -trace->memory[i].bytes);
    return reserved;
}

/* Events of the device at hand are from FIRST on, those from before it from BEFORE on. */
static void add_up(struct lw_snapshot *s, int32_t device, size_t first, size_t before)
{
    struct lw_trace *trace = s->trace;
    int64_t reserved = reserved_before(s, device, first), allocated = 0;
    size_t count = trace->memory_count - first;

    for (size_t i = 0; i < count; i++) {
        size_t early = trace->memory_count - before;
        struct lw_memory_event *event =
            &trace->memory[i < early ? before + i : first + i - early];

        if (event->kind == LW_MEMORY_SEGMENT)
            reserved = add(reserved, event->bytes);
        else if (event->kind != LW_MEMORY_FAILED)
            allocated = add(allocated, event->bytes);
        event->allocated = allocated < 0 ? 0 : allocated;
        event->reserved = reserved < 0 ? -1 : reserved;
    }
}

/* Those from before come first, also where the trace's own first is of the same time. */
static bool move_before(struct lw_snapshot *s, size_t first, size_t before,
                        struct lw_error *err)
{
    struct lw_memory_event *memory = s->trace->memory;
    size_t early = s->trace->memory_count - before, late = before - first;
    struct lw_memory_event *spare;

    if (early == 0 || late == 0)
        return true;
    if (!(spare = lw_alloc(early * sizeof(*spare), err)))
        return false;
    memcpy(spare, memory + before, early * sizeof(*spare));
    memmove(memory + first + early, memory + first, late * sizeof(*memory));
    memcpy(memory + first, spare, early * sizeof(*spare));
    lw_free(spare);
    return true;
}

bool lw_snapshot_device(struct lw_snapshot *s, lw_pickle_value list, int32_t device,
                        struct lw_error *err)
{
    struct lw_pickle_walk walk = lw_pickle_walk(&s->pickle, list);
    size_t first = s->trace->memory_count, before;
    lw_pickle_value entry;

    while (lw_pickle_next(&s->pickle, &walk, &entry))
        if (!read_entry(s, entry, device, err))
            return false;
    before = s->trace->memory_count;
    if (!find_places(s, first, err) || !add_freed(s, device, err) ||
        !add_all_kept(s, device, err))
        return false;
    add_up(s, device, first, before);
    return move_before(s, first, before, err);
}
