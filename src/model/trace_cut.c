/* One pass marks what stays, by giving each event its new number; a second copies. */

#include "model/trace_cut.h"

#include <string.h>

#include "base/alloc.h"

struct cutting {
    const struct lw_trace *trace;
    const struct lw_trace_window *windows;
    struct lw_trace *out;
    uint32_t *numbers; /* owned: by event, its number in `out`; LW_NONE: left out */
};

static bool is_in(const struct cutting *c, uint32_t rank, uint64_t time_ns)
{
    const struct lw_trace_window *window = &c->windows[rank];

    return time_ns >= window->start_ns && time_ns < window->end_ns;
}

static bool is_running(const struct cutting *c, const struct lw_event *event)
{
    uint32_t rank = c->trace->tracks[event->track].rank;
    const struct lw_trace_window *window = &c->windows[rank];

    return is_in(c, rank, event->start_ns) ||
           (event->start_ns < window->start_ns &&
            lw_event_end_ns(event) > window->start_ns &&
            window->end_ns > window->start_ns);
}

static bool stays(const struct cutting *c, uint32_t index)
{
    const struct lw_event *event = &c->trace->events[index];

    return is_running(c, event) || (lw_trace_is_launched(c->trace, index) &&
                                    is_running(c, &c->trace->events[event->parent]));
}

static bool cut_events(struct cutting *c, struct lw_error *err)
{
    const struct lw_trace *from = c->trace;
    struct lw_trace *out = c->out;
    uint32_t count = 0;

    c->numbers = lw_alloc(from->event_count * sizeof(*c->numbers) + 1, err);
    if (!c->numbers)
        return false;
    for (uint32_t i = 0; i < from->event_count; i++)
        c->numbers[i] = stays(c, i) ? count++ : LW_NONE;
    out->events = lw_zalloc(count, sizeof(*out->events), err);
    out->args = from->args ? lw_zalloc(count, sizeof(*out->args), err) : NULL;
    if (!out->events || (from->args && !out->args))
        return false;
    out->event_count = out->event_capacity = out->args_capacity = count;
    for (uint32_t i = 0; i < from->event_count; i++) {
        struct lw_event event = from->events[i];
        uint32_t to = c->numbers[i];

        if (to == LW_NONE)
            continue;
        event.detail = LW_NONE;
        if (event.parent != LW_NONE)
            event.parent = c->numbers[event.parent];
        out->events[to] = event;
        if (out->args)
            out->args[to] = from->args[i];
        if (out->tracks[event.track].count++ == 0)
            out->tracks[event.track].first = to;
    }
    return true;
}

static bool cut_flows(struct cutting *c, struct lw_error *err)
{
    const struct lw_trace *from = c->trace;
    struct lw_trace *out = c->out;

    for (size_t i = 0; i < from->flow_count; i++) {
        struct lw_flow flow = { c->numbers[from->flows[i].forward],
                                c->numbers[from->flows[i].backward] };

        if (flow.forward == LW_NONE || flow.backward == LW_NONE)
            continue;
        if (!lw_grow(&out->flows, &out->flow_capacity, out->flow_count + 1,
                     sizeof(flow), err))
            return false;
        out->flows[out->flow_count++] = flow;
    }
    return true;
}

static bool cut_instants(struct cutting *c, struct lw_error *err)
{
    const struct lw_trace *from = c->trace;
    struct lw_trace *out = c->out;

    for (size_t i = 0; i < from->memory_count; i++) {
        const struct lw_memory_event *memory = &from->memory[i];

        if (!is_in(c, from->tracks[memory->track].rank, memory->time_ns))
            continue;
        if (!lw_grow(&out->memory, &out->memory_capacity, out->memory_count + 1,
                     sizeof(*memory), err))
            return false;
        out->memory[out->memory_count++] = *memory;
    }
    for (size_t i = 0; i < from->mark_count; i++) {
        const struct lw_trace_mark *mark = &from->marks[i];

        if (!is_in(c, from->tracks[mark->track].rank, mark->time_ns))
            continue;
        if (!lw_grow(&out->marks, &out->mark_capacity, out->mark_count + 1,
                     sizeof(*mark), err))
            return false;
        out->marks[out->mark_count++] = *mark;
    }
    for (size_t i = 0; i < from->point_count; i++) {
        const struct lw_trace_point *point = &from->points[i];

        if (!is_in(c, point->rank, point->time_ns))
            continue;
        if (!lw_grow(&out->points, &out->point_capacity, out->point_count + 1,
                     sizeof(*point), err))
            return false;
        out->points[out->point_count++] = *point;
    }
    return true;
}

static void *copy(const void *from, size_t count, size_t size, struct lw_error *err)
{
    void *to = lw_alloc(count * size + 1, err);

    if (to && count)
        memcpy(to, from, count * size);
    return to;
}

static bool copy_places(struct cutting *c, struct lw_error *err)
{
    const struct lw_trace *from = c->trace;
    struct lw_trace *out = c->out;

    out->base_ns = from->base_ns;
    out->tracks = copy(from->tracks, from->track_count, sizeof(*from->tracks), err);
    out->ranks = copy(from->ranks, from->rank_count, sizeof(*from->ranks), err);
    out->gpus = copy(from->gpus, from->gpu_count, sizeof(*from->gpus), err);
    if (!out->tracks || !out->ranks || !out->gpus)
        return false;
    out->track_count = out->track_capacity = from->track_count;
    out->rank_count = out->rank_capacity = from->rank_count;
    out->gpu_count = out->gpu_capacity = from->gpu_count;
    for (size_t i = 0; i < out->track_count; i++)
        out->tracks[i].first = out->tracks[i].count = 0;
    return true;
}

struct lw_trace *lw_trace_cut(const struct lw_trace *trace,
                              const struct lw_trace_window *windows,
                              struct lw_error *err)
{
    struct cutting c = { .trace = trace, .windows = windows };
    bool done;

    c.out = lw_zalloc(1, sizeof(*c.out), err);
    done = c.out && copy_places(&c, err) && cut_events(&c, err) && cut_flows(&c, err) &&
           cut_instants(&c, err);
    lw_free(c.numbers);
    if (!done) {
        lw_trace_free(c.out);
        return NULL;
    }
    return c.out;
}
