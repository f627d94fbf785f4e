#include "model/trace_ranks.h"

#include <string.h>

#include "base/alloc.h"

/* Clocks */

/* Add SHIFT_NS[rank] to every time of a rank. */
static void shift(struct lw_trace *trace, const uint64_t *shift_ns)
{
    const struct lw_track *tracks = trace->tracks;

    for (size_t i = 0; i < trace->event_count; i++)
        trace->events[i].start_ns += shift_ns[tracks[trace->events[i].track].rank];
    for (size_t i = 0; i < trace->memory_count; i++)
        trace->memory[i].time_ns += shift_ns[tracks[trace->memory[i].track].rank];
    for (size_t i = 0; i < trace->flow_end_count; i++)
        trace->flow_ends[i].time_ns += shift_ns[tracks[trace->flow_ends[i].track].rank];
    for (size_t i = 0; i < trace->mark_count; i++)
        trace->marks[i].time_ns += shift_ns[tracks[trace->marks[i].track].rank];
    for (size_t i = 0; i < trace->point_count; i++)
        trace->points[i].time_ns += shift_ns[trace->points[i].rank];
}

static bool align(struct lw_trace *trace, struct lw_error *err)
{
    uint64_t base_ns = trace->ranks[0].base_ns;
    uint64_t *shift_ns;
    bool is_same = true;

    for (size_t i = 1; i < trace->rank_count; i++) {
        is_same &= trace->ranks[i].base_ns == trace->ranks[0].base_ns;
        if (trace->ranks[i].base_ns < base_ns)
            base_ns = trace->ranks[i].base_ns;
    }
    trace->base_ns = base_ns;
    if (is_same)
        return true;
    shift_ns = lw_zalloc(trace->rank_count, sizeof(*shift_ns), err);
    if (!shift_ns)
        return false;
    for (size_t i = 0; i < trace->rank_count; i++)
        shift_ns[i] = trace->ranks[i].base_ns - base_ns;
    shift(trace, shift_ns);
    lw_free(shift_ns);
    return true;
}

/* Order */

/* Where each rank goes: NUMBERS[i] is what rank i becomes. By number, those that have none
 * behind the others, equal ones as they came: an insertion sort, as jobs have thousands of
 * ranks at the most and their files are nearly in order. */
static void order_ranks(const struct lw_trace *trace, uint32_t *order)
{
    for (uint32_t i = 0; i < trace->rank_count; i++) {
        uint64_t rank = (uint64_t)trace->ranks[i].rank; /* -1 is the largest */
        uint32_t at = i;

        for (; at > 0 && (uint64_t)trace->ranks[order[at - 1]].rank > rank; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void renumber(struct lw_trace *trace, const uint32_t *becomes)
{
    for (size_t i = 0; i < trace->track_count; i++)
        trace->tracks[i].rank = becomes[trace->tracks[i].rank];
    for (size_t i = 0; i < trace->gpu_count; i++)
        trace->gpus[i].rank = becomes[trace->gpus[i].rank];
    for (size_t i = 0; i < trace->point_count; i++)
        trace->points[i].rank = becomes[trace->points[i].rank];
    for (size_t i = 0; i < trace->segment_count; i++)
        trace->segments[i].rank = becomes[trace->segments[i].rank];
}

static bool sort_ranks(struct lw_trace *trace, struct lw_error *err)
{
    size_t count = trace->rank_count;
    uint32_t *order = lw_alloc(2 * count * sizeof(*order), err);
    struct lw_trace_rank *ranks = order ? lw_alloc(count * sizeof(*ranks), err) : NULL;
    uint32_t *becomes = order ? order + count : NULL;

    if (!ranks) {
        lw_free(order);
        return false;
    }
    order_ranks(trace, order);
    for (uint32_t i = 0; i < count; i++) {
        becomes[order[i]] = i;
        ranks[i] = trace->ranks[order[i]];
    }
    memcpy(trace->ranks, ranks, count * sizeof(*ranks));
    renumber(trace, becomes);
    lw_free(order);
    lw_free(ranks);
    return true;
}

/* Do they belong together? Ranks are in order. */
bool lw_trace_ranks_check(struct lw_builder *builder, struct lw_error *err)
{
    struct lw_trace *trace = lw_builder_trace(builder, err);
    uint64_t twice = 0, misfits = 0, absent = 0, unnamed = 0;
    int64_t world_size = -1;

    if (!trace || trace->rank_count < 2)
        return trace != NULL;
    if (!sort_ranks(trace, err))
        return false;
    for (size_t i = 0; i < trace->rank_count; i++) {
        const struct lw_trace_rank *rank = &trace->ranks[i];

        if (world_size < 0)
            world_size = rank->world_size;
        unnamed += rank->rank < 0;
        twice += i > 0 && rank->rank >= 0 && rank->rank == rank[-1].rank;
        misfits += world_size >= 0 &&
                   ((rank->world_size >= 0 && rank->world_size != world_size) ||
                    rank->rank >= world_size);
    }
    if (world_size >= 0 && !misfits && !unnamed &&
        (uint64_t)world_size > trace->rank_count - twice)
        absent = (uint64_t)world_size - (trace->rank_count - twice);
    return (!twice || lw_builder_loss(builder, "of a rank that is here already",
                                      "traces", LW_NONE, twice, err)) &&
           (!misfits || lw_builder_loss(builder, "of a job of another size", "traces",
                                        LW_NONE, misfits, err)) &&
           (!absent || lw_builder_loss(builder, "of the job that have no trace here",
                                       "ranks", LW_NONE, absent, err)) &&
           (!unnamed || lw_builder_loss(builder, "of which nothing says the rank",
                                        "traces", LW_NONE, unnamed, err));
}

bool lw_trace_ranks_align(struct lw_builder *builder, struct lw_error *err)
{
    struct lw_trace *trace = lw_builder_trace(builder, err);

    return trace && (trace->rank_count == 0 || align(trace, err)) &&
           lw_trace_ranks_check(builder, err);
}

/* Adding */

struct adding {
    const struct lw_trace *from;
    struct lw_trace *to;
    const lw_string_id *strings;
    const lw_stack_id *stacks; /* NULL: stacks are not known there */
    uint64_t shift_ns;         /* to the times of `from` */
    uint32_t rank, track, op, python, work, collective, block; /* what 0 becomes */
};

/* The COUNT items of FROM behind those of *ITEMS; where they lie, if there are any, goes to
 * *ADDED. */
static bool add_items(void *items, size_t *count, size_t *capacity, const void *from,
                      size_t from_count, size_t size, void *added, struct lw_error *err)
{
    char *array;

    if (from_count >= LW_NONE - *count)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 events");
    if (!lw_grow_bytes(items, capacity, *count + from_count, size, err))
        return false;
    memcpy(&array, items, sizeof(array));
    if (from_count) {
        array += *count * size;
        memcpy(array, from, from_count * size);
    }
    memcpy(added, &array, sizeof(array));
    *count += from_count;
    return true;
}
#define ADD(a, items, count, capacity, added, err) \
    add_items(&(a)->to->items, &(a)->to->count, &(a)->to->capacity, (a)->from->items, \
              (a)->from->count, sizeof(*(a)->from->items), &(added), err)

static uint32_t move(uint32_t index, uint32_t first)
{
    return index == LW_NONE ? LW_NONE : index + first;
}

static lw_stack_id stack_of(const struct adding *a, lw_stack_id stack)
{
    return a->stacks ? a->stacks[stack] : LW_NO_STACK;
}

static bool add_ranks(const struct adding *a, struct lw_error *err)
{
    struct lw_trace_rank *ranks;
    struct lw_trace_gpu *gpus;
    struct lw_track *tracks;

    if (!ADD(a, ranks, rank_count, rank_capacity, ranks, err) ||
        !ADD(a, gpus, gpu_count, gpu_capacity, gpus, err) ||
        !ADD(a, tracks, track_count, track_capacity, tracks, err))
        return false;
    for (size_t i = 0; i < a->from->rank_count; i++) {
        ranks[i].file = a->strings[ranks[i].file];
        ranks[i].backend = a->strings[ranks[i].backend];
        ranks[i].host = a->strings[ranks[i].host];
        ranks[i].info = a->strings[ranks[i].info];
    }
    for (size_t i = 0; i < a->from->gpu_count; i++) {
        gpus[i].rank += a->rank;
        gpus[i].name = a->strings[gpus[i].name];
    }
    for (size_t i = 0; i < a->from->track_count; i++) {
        tracks[i].rank += a->rank;
        tracks[i].pid = a->strings[tracks[i].pid];
        tracks[i].tid = a->strings[tracks[i].tid];
        tracks[i].name = a->strings[tracks[i].name];
        tracks[i].process_name = a->strings[tracks[i].process_name];
        tracks[i].process_labels = a->strings[tracks[i].process_labels];
    }
    return true;
}

static bool add_details(const struct adding *a, struct lw_error *err)
{
    struct lw_python_detail *pythons;
    struct lw_op_detail *ops;
    struct lw_work_detail *works;
    struct lw_collective *collectives;

    if (!ADD(a, pythons, python_count, python_capacity, pythons, err) ||
        !ADD(a, ops, op_count, op_capacity, ops, err) ||
        !ADD(a, works, work_count, work_capacity, works, err) ||
        !ADD(a, collectives, collective_count, collective_capacity, collectives, err))
        return false;
    for (size_t i = 0; i < a->from->op_count; i++) {
        ops[i].shapes = a->strings[ops[i].shapes];
        ops[i].types = a->strings[ops[i].types];
        ops[i].strides = a->strings[ops[i].strides];
        ops[i].values = a->strings[ops[i].values];
        ops[i].stack = a->strings[ops[i].stack];
        ops[i].collective = move(ops[i].collective, a->collective);
    }
    for (size_t i = 0; i < a->from->work_count; i++)
        works[i].collective = move(works[i].collective, a->collective);
    for (size_t i = 0; i < a->from->collective_count; i++) {
        struct lw_collective *c = &collectives[i];

        c->name = a->strings[c->name];
        c->dtype = a->strings[c->dtype];
        c->group = a->strings[c->group];
        c->group_text = a->strings[c->group_text];
        c->ranks = a->strings[c->ranks];
        c->in_split = a->strings[c->in_split];
        c->out_split = a->strings[c->out_split];
    }
    return true;
}

static uint32_t first_detail(const struct adding *a, const struct lw_event *event)
{
    switch (event->kind) {
    case LW_EVENT_OP:
    case LW_EVENT_RANGE: return a->op;
    case LW_EVENT_PYTHON: return a->python;
    default: return a->work;
    }
}

/* Of all events, or of none: where one side has none, they are empty. */
static bool add_args(const struct adding *a, size_t before, struct lw_error *err)
{
    struct lw_trace *to = a->to;

    if (!a->from->args && !to->args)
        return true;
    if (!to->args)
        to->args_capacity = 0;
    if (!lw_grow(&to->args, &to->args_capacity, to->event_count, sizeof(*to->args),
                 err))
        return false;
    for (size_t i = before; i < to->event_count; i++)
        to->args[i] = a->from->args ? a->strings[a->from->args[i - before]] : 0;
    return true;
}

static bool add_events(const struct adding *a, struct lw_error *err)
{
    size_t before = a->to->event_count;
    bool had_args = a->to->args != NULL;
    struct lw_event *events;

    if (!ADD(a, events, event_count, event_capacity, events, err) ||
        !add_args(a, before, err))
        return false;
    if (!had_args && a->to->args)
        memset(a->to->args, 0, before * sizeof(*a->to->args));
    for (size_t i = 0; i < a->from->event_count; i++) {
        struct lw_event *event = &events[i];

        event->start_ns += a->shift_ns;
        event->track += a->track;
        event->name = a->strings[event->name];
        event->category = a->strings[event->category];
        event->detail = move(event->detail, first_detail(a, event));
        event->parent = LW_NONE;
    }
    return true;
}

static bool add_memory(const struct adding *a, struct lw_error *err)
{
    struct lw_memory_event *memory;
    struct lw_memory_segment *segments;
    struct lw_memory_block *blocks;

    if (!ADD(a, memory, memory_count, memory_capacity, memory, err) ||
        !ADD(a, segments, segment_count, segment_capacity, segments, err) ||
        !ADD(a, blocks, block_count, block_capacity, blocks, err))
        return false;
    for (size_t i = 0; i < a->from->memory_count; i++) {
        memory[i].time_ns += a->shift_ns;
        memory[i].track += a->track;
        memory[i].stack = stack_of(a, memory[i].stack);
    }
    for (size_t i = 0; i < a->from->segment_count; i++) {
        segments[i].rank += a->rank;
        segments[i].stack = stack_of(a, segments[i].stack);
        segments[i].pool = a->strings[segments[i].pool];
        segments[i].first_block += a->block;
    }
    for (size_t i = 0; i < a->from->block_count; i++) {
        blocks[i].stack = stack_of(a, blocks[i].stack);
        blocks[i].state = a->strings[blocks[i].state];
    }
    return true;
}

static bool add_points(const struct adding *a, struct lw_error *err)
{
    struct lw_trace_point *points;
    struct lw_trace_mark *marks;

    if (!ADD(a, points, point_count, point_capacity, points, err) ||
        !ADD(a, marks, mark_count, mark_capacity, marks, err))
        return false;
    for (size_t i = 0; i < a->from->point_count; i++) {
        points[i].time_ns += a->shift_ns;
        points[i].rank += a->rank;
        points[i].name = a->strings[points[i].name];
    }
    for (size_t i = 0; i < a->from->mark_count; i++) {
        marks[i].time_ns += a->shift_ns;
        marks[i].track += a->track;
        marks[i].name = a->strings[marks[i].name];
        marks[i].category = a->strings[marks[i].category];
        marks[i].args = a->strings[marks[i].args];
    }
    return true;
}

/* Joined flows become ends again: sorting anew moves the events that they are of. */
static bool add_flows(const struct adding *a, struct lw_error *err)
{
    struct lw_trace *to = a->to;
    size_t count = to->flow_end_count;

    if (!lw_grow(&to->flow_ends, &to->flow_end_capacity,
                 count + 2 * a->from->flow_count, sizeof(*to->flow_ends), err))
        return false;
    for (size_t i = 0; i < 2 * a->from->flow_count; i++) {
        const struct lw_flow *flow = &a->from->flows[i / 2];
        const struct lw_event *event =
            &a->from->events[i % 2 ? flow->backward : flow->forward];
        struct lw_flow_end end = { .id = i / 2,
                                   .time_ns = event->start_ns + a->shift_ns,
                                   .track = event->track + a->track,
                                   .is_backward = i % 2 };

        to->flow_ends[count + i] = end;
    }
    to->flow_end_count = count + 2 * a->from->flow_count;
    return true;
}

/* Put what is there and what comes on one clock: the earlier base. */
static bool join_clocks(struct adding *a, struct lw_error *err)
{
    uint64_t *back_ns;

    if (a->to->rank_count == 0)
        a->to->base_ns = a->from->base_ns;
    a->shift_ns = a->from->base_ns - a->to->base_ns;
    if (a->from->base_ns >= a->to->base_ns)
        return true;
    back_ns = lw_alloc(a->to->rank_count * sizeof(*back_ns), err);
    if (!back_ns)
        return false;
    for (size_t i = 0; i < a->to->rank_count; i++)
        back_ns[i] = a->to->base_ns - a->from->base_ns;
    shift(a->to, back_ns);
    lw_free(back_ns);
    a->to->base_ns = a->from->base_ns;
    a->shift_ns = 0;
    return true;
}

bool lw_trace_ranks_add(struct lw_builder *out, const struct lw_trace *from,
                        const lw_string_id *strings, const lw_stack_id *stacks,
                        struct lw_error *err)
{
    struct lw_trace *to = lw_builder_trace(out, err);
    struct adding a = { .from = from, .to = to, .strings = strings, .stacks = stacks };

    if (!to || !join_clocks(&a, err))
        return false;
    a.rank = (uint32_t)to->rank_count;
    a.track = (uint32_t)to->track_count;
    a.op = (uint32_t)to->op_count;
    a.python = (uint32_t)to->python_count;
    a.work = (uint32_t)to->work_count;
    a.collective = (uint32_t)to->collective_count;
    a.block = (uint32_t)to->block_count;
    return add_ranks(&a, err) && add_details(&a, err) && add_events(&a, err) &&
           add_memory(&a, err) && add_points(&a, err) && add_flows(&a, err);
}
