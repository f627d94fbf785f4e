/* Every array of a profile refers to others by number, so adding one is a matter of
 * knowing what its numbers become. */

#include "model/merge.h"

#include <string.h>

#include "base/alloc.h"
#include "model/trace_ranks.h"

/* One profile on its way into another: what each of its numbers is there. */
struct adding {
    const struct lw_profile *from;
    struct lw_builder *out;
    lw_string_id *strings;  /* owned, by string */
    lw_frame_id *frames;    /* owned, by frame */
    lw_stack_id *stacks;    /* owned, by stack */
    uint32_t first_process; /* what process 0 is there; the others follow it */
    uint32_t first_thread;  /* the same for threads */
    uint64_t shift_ns;      /* added to its times, round 2^64 */
};

static bool add_strings(struct adding *a, struct lw_error *err)
{
    const struct lw_strings *strings = a->from->strings;
    size_t count = lw_strings_count(strings);

    a->strings = lw_alloc(count * sizeof(*a->strings), err);
    if (!a->strings)
        return false;
    for (lw_string_id i = 0; i < count; i++)
        if (!lw_builder_string(a->out, lw_strings_text(strings, i),
                               lw_strings_len(strings, i), &a->strings[i], err))
            return false;
    return true;
}

static bool add_frames(struct adding *a, struct lw_error *err)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(a->from->stacks, &count);

    a->frames = lw_alloc(count * sizeof(*a->frames), err);
    if (!a->frames)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct lw_frame frame = frames[i];

        frame.name = a->strings[frame.name];
        frame.file = a->strings[frame.file];
        if (!lw_builder_frame(a->out, &frame, &a->frames[i], err))
            return false;
    }
    return true;
}

/* A parent's number is smaller than its children's, so it is always known. */
static bool add_stacks(struct adding *a, struct lw_error *err)
{
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(a->from->stacks, &count);

    a->stacks = lw_alloc(count * sizeof(*a->stacks), err);
    if (!a->stacks)
        return false;
    a->stacks[LW_NO_STACK] = LW_NO_STACK;
    for (size_t i = 1; i < count; i++)
        if (!lw_builder_push(a->out, a->stacks[stacks[i].parent],
                             a->frames[stacks[i].frame], &a->stacks[i], err))
            return false;
    return true;
}

/* 0 says "not known", and stays. */
static uint64_t move_time(const struct adding *a, uint64_t time_ns)
{
    return time_ns ? time_ns + a->shift_ns : 0;
}

static bool add_processes(struct adding *a, struct lw_error *err)
{
    const struct lw_profile *from = a->from;
    uint32_t index;

    a->first_process = (uint32_t)lw_builder_profile(a->out)->process_count;
    a->first_thread = (uint32_t)lw_builder_profile(a->out)->thread_count;
    for (size_t i = 0; i < from->process_count; i++) {
        struct lw_process process = from->processes[i];

        process.command = a->strings[process.command];
        process.python = a->strings[process.python];
        process.start_ns = move_time(a, process.start_ns);
        process.end_ns = move_time(a, process.end_ns);
        if (!lw_builder_process(a->out, &process, &index, err))
            return false;
    }
    for (size_t i = 0; i < from->thread_count; i++) {
        struct lw_thread thread = from->threads[i];

        thread.process += a->first_process;
        thread.name = a->strings[thread.name];
        thread.start_ns = move_time(a, thread.start_ns);
        thread.end_ns = move_time(a, thread.end_ns);
        if (!lw_builder_thread(a->out, &thread, &index, err))
            return false;
    }
    return true;
}

static bool add_calls(struct adding *a, struct lw_error *err)
{
    for (size_t i = 0; i < a->from->call_count; i++) {
        struct lw_call_row row = a->from->calls[i];

        row.thread += a->first_thread;
        row.stack = a->stacks[row.stack];
        if (!lw_builder_calls(a->out, &row, err))
            return false;
    }
    return true;
}

static bool add_samples(struct adding *a, struct lw_error *err)
{
    for (size_t i = 0; i < a->from->sample_count; i++) {
        struct lw_sample sample = a->from->samples[i];

        sample.thread += a->first_thread;
        sample.stack = a->stacks[sample.stack];
        sample.time_ns = move_time(a, sample.time_ns);
        if (!lw_builder_samples(a->out, &sample, 1, err))
            return false;
    }
    return true;
}

static bool add_spans(struct adding *a, struct lw_error *err)
{
    for (size_t i = 0; i < a->from->span_count; i++) {
        struct lw_span span = a->from->spans[i];

        span.thread += a->first_thread;
        span.stack = a->stacks[span.stack];
        span.start_ns = move_time(a, span.start_ns);
        if (!lw_builder_spans(a->out, &span, 1, err))
            return false;
    }
    return true;
}

static bool add_origins(struct adding *a, struct lw_error *err)
{
    for (size_t i = 0; i < a->from->origin_count; i++) {
        struct lw_origin origin = a->from->origins[i];

        origin.thread += a->first_thread;
        origin.function = a->frames[origin.function];
        origin.start_ns = move_time(a, origin.start_ns);
        if (!lw_builder_origins(a->out, &origin, 1, err))
            return false;
    }
    return true;
}

static bool add_counters(struct adding *a, struct lw_error *err)
{
    for (size_t i = 0; i < a->from->counter_count; i++) {
        struct lw_counter_point point = a->from->counters[i];

        point.process += a->first_process;
        point.name = a->strings[point.name];
        point.time_ns = move_time(a, point.time_ns);
        if (!lw_builder_counter(a->out, &point, err))
            return false;
    }
    return true;
}

static bool add_allocations(struct adding *a, struct lw_error *err)
{
    for (size_t i = 0; i < a->from->allocation_count; i++) {
        struct lw_allocation allocation = a->from->allocations[i];

        allocation.thread += a->first_thread;
        allocation.stack = a->stacks[allocation.stack];
        allocation.time_ns = move_time(a, allocation.time_ns);
        if (!lw_builder_allocation(a->out, &allocation, err))
            return false;
    }
    return true;
}

static bool add_given(struct adding *a, struct lw_error *err)
{
    uint32_t first = (uint32_t)lw_builder_profile(a->out)->function_count;
    uint32_t index;

    for (size_t i = 0; i < a->from->function_count; i++) {
        struct lw_graph_function function = a->from->functions[i];

        function.frame = a->frames[function.frame];
        if (!lw_builder_function(a->out, &function, &index, err))
            return false;
    }
    for (size_t i = 0; i < a->from->edge_count; i++) {
        struct lw_graph_edge edge = a->from->edges[i];

        edge.caller += first;
        edge.callee += first;
        if (!lw_builder_edge(a->out, &edge, err))
            return false;
    }
    return true;
}

static bool add_measured(struct adding *a, struct lw_error *err)
{
    return add_strings(a, err) && add_frames(a, err) && add_stacks(a, err) &&
           add_processes(a, err) && add_calls(a, err) && add_samples(a, err) &&
           add_spans(a, err) && add_origins(a, err) && add_counters(a, err) &&
           add_allocations(a, err) && add_given(a, err);
}

/* Instead: nothing but the graph that PROFILE's measurements make. */
static bool add_as_graph(struct adding *a, struct lw_error *err)
{
    struct lw_callgraph graph;
    bool done = lw_callgraph_init(&graph, a->from, LW_GRAPH_ANY, NULL, err) &&
                lw_builder_add_graph(a->out, &graph, err);

    lw_callgraph_release(&graph);
    return done;
}

/* The frame that FUNCTION's name, file and line are in OUT. */
static bool add_function_frame(struct lw_builder *out, const struct lw_callgraph *graph,
                               const struct lw_function *function, lw_frame_id *id,
                               struct lw_error *err)
{
    struct lw_frame frame = { .first_line = function->line };
    bool has_file =
        function->file_len != 1 || function->file[0] != '~' || function->line != 0;

    frame.kind = lw_profile_frame(graph->profile, function->frame)->kind;
    return lw_builder_string(out, function->name, function->name_len, &frame.name,
                             err) &&
           (!has_file || lw_builder_string(out, function->file, function->file_len,
                                           &frame.file, err)) &&
           lw_builder_frame(out, &frame, id, err);
}

bool lw_builder_add_graph(struct lw_builder *builder, const struct lw_callgraph *graph,
                          struct lw_error *err)
{
    uint32_t first = (uint32_t)lw_builder_profile(builder)->function_count;
    uint32_t index;

    for (size_t i = 0; i < graph->function_count; i++) {
        const struct lw_function *from = &graph->functions[i];
        struct lw_graph_function function = { .cost = from->cost };

        if (!add_function_frame(builder, graph, from, &function.frame, err) ||
            !lw_builder_function(builder, &function, &index, err))
            return false;
    }
    for (size_t i = 0; i < graph->edge_count; i++) {
        struct lw_graph_edge edge = graph->edges[i];

        edge.caller += first;
        edge.callee += first;
        if (!lw_builder_edge(builder, &edge, err))
            return false;
    }
    return true;
}

static bool add_trace(struct adding *a, struct lw_error *err)
{
    if (!a->from->trace)
        return true;
    return (a->strings || add_strings(a, err)) &&
           lw_trace_ranks_add(a->out, a->from->trace, a->strings, a->stacks, err);
}

static bool add_losses(const struct adding *a, bool as_graph, struct lw_error *err)
{
    const struct lw_profile *from = a->from;

    for (size_t i = 0; i < from->loss_count; i++) {
        const struct lw_loss *loss = &from->losses[i];
        uint32_t process = loss->process == LW_NONE || as_graph
                               ? LW_NONE
                               : loss->process + a->first_process;

        if (!lw_builder_loss(a->out, lw_profile_text(from, loss->cause),
                             lw_profile_text(from, loss->unit), process, loss->count,
                             err))
            return false;
    }
    return true;
}

/* Is VALUE one of those that LIST, parted by ", ", already has? */
static bool lists(const char *list, const char *value)
{
    size_t len = strlen(value);

    if (len == 0)
        return true; /* it says nothing new */
    for (const char *p = list; (p = strstr(p, value)) != NULL; p++)
        if ((p == list || (p - list >= 2 && memcmp(p - 2, ", ", 2) == 0)) &&
            (p[len] == '\0' || memcmp(p + len, ", ", 2) == 0))
            return true;
    return false;
}

/* The folder a program ran in is no list: the first one stays. */
static bool add_fact(struct lw_builder *out, const char *key, const char *value,
                     struct lw_error *err)
{
    const char *old = lw_profile_fact(lw_builder_profile(out), key);
    struct lw_buf text;
    bool done;

    if (old && (lists(old, value) || strcmp(key, "cwd") == 0))
        return true;
    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "%s%s%s", old ? old : "", old ? ", " : "", value);
    done = lw_buf_check(&text, err) &&
           lw_builder_fact(out, key, text.bytes, text.len, err);
    lw_buf_release(&text);
    return done;
}

/* Times and weights together are measured in neither: once both were added, "measure" says
 * "count, time", which is no unit, or is left out (model/measure.h). */
static bool add_facts(const struct adding *a, struct lw_error *err)
{
    const struct lw_profile *from = a->from, *so_far = lw_builder_profile(a->out);
    bool has_weights = lw_profile_fact(so_far, "measure") != NULL;
    bool has_times = !has_weights && lw_profile_fact(so_far, "format") != NULL;

    for (size_t i = 0; i < from->fact_count; i++) {
        const char *key = lw_profile_text(from, from->facts[i].key);

        if (has_times && strcmp(key, "measure") == 0)
            continue;
        if (!add_fact(a->out, key, lw_profile_text(from, from->facts[i].value), err))
            return false;
    }
    return !has_weights || lw_profile_fact(from, "measure") ||
           add_fact(a->out, "measure", "time", err);
}

/* From the beginning of the first to the end of the longest. */
static void add_times(const struct adding *a)
{
    const struct lw_profile *so_far = lw_builder_profile(a->out);
    uint64_t start_ns = so_far->start_ns ? so_far->start_ns : a->from->start_ns;
    uint64_t end_ns = move_time(a, a->from->end_ns);
    uint64_t wall_ns =
        so_far->wall_start_ns ? so_far->wall_start_ns : a->from->wall_start_ns;

    lw_builder_set_times(a->out, start_ns,
                         end_ns > so_far->end_ns ? end_ns : so_far->end_ns, wall_ns);
    lw_builder_set_c_calls(a->out, so_far->has_c_calls || a->from->has_c_calls);
}

static bool add_profile(struct lw_builder *out, const struct lw_profile *from,
                        bool as_graph, struct lw_error *err)
{
    struct adding a = { .from = from, .out = out };
    uint64_t start_ns = lw_builder_profile(out)->start_ns;
    bool done;

    if (start_ns && from->start_ns)
        a.shift_ns = start_ns - from->start_ns;
    done = (as_graph ? add_as_graph(&a, err) : add_measured(&a, err)) &&
           add_trace(&a, err) && add_losses(&a, as_graph, err) && add_facts(&a, err);
    if (done)
        add_times(&a);
    lw_free(a.strings);
    lw_free(a.frames);
    lw_free(a.stacks);
    return done;
}

static bool is_measured_alike(const struct lw_profile *const *profiles, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (lw_callgraph_source(profiles[i]) != lw_callgraph_source(profiles[0]))
            return false;
    return true;
}

struct lw_profile *lw_profile_merge(const struct lw_profile *const *profiles,
                                    size_t count, struct lw_error *err)
{
    bool as_graphs = !is_measured_alike(profiles, count);
    struct lw_builder *builder = lw_builder_new(err);
    bool done = builder && lw_builder_fact(builder, "merged", "yes", 3, err);

    for (size_t i = 0; done && i < count; i++)
        done = add_profile(builder, profiles[i], as_graphs, err);
    if (done && lw_builder_profile(builder)->trace)
        done = lw_trace_ranks_check(builder, err);
    if (done)
        return lw_builder_finish(builder, err);
    lw_builder_free(builder);
    return NULL;
}

static void negate(struct lw_graph_cost *cost)
{
    cost->primitive_calls = lw_calls_negate(cost->primitive_calls);
    cost->calls = lw_calls_negate(cost->calls);
    cost->self_samples = lw_calls_negate(cost->self_samples);
    cost->total_samples = lw_calls_negate(cost->total_samples);
    cost->self_s = -cost->self_s;
    cost->total_s = -cost->total_s;
}

static void negate_graph(struct lw_callgraph *graph)
{
    for (size_t i = 0; i < graph->function_count; i++)
        negate(&graph->functions[i].cost);
    for (size_t i = 0; i < graph->edge_count; i++)
        negate(&graph->edges[i].cost);
}

/* Calls of which the other side has none to subtract would look like a change. */
static void forget_calls(struct lw_callgraph *graph)
{
    for (size_t i = 0; i < graph->function_count; i++)
        graph->functions[i].cost.calls = graph->functions[i].cost.primitive_calls = 0;
    for (size_t i = 0; i < graph->edge_count; i++)
        graph->edges[i].cost.calls = graph->edges[i].cost.primitive_calls = 0;
}

static bool add_difference(struct lw_builder *out, struct lw_callgraph *before,
                           struct lw_callgraph *after, struct lw_error *err)
{
    if (!lw_callgraph_has_calls(before) || !lw_callgraph_has_calls(after)) {
        forget_calls(before);
        forget_calls(after);
    }
    negate_graph(before);
    return lw_builder_add_graph(out, after, err) &&
           lw_builder_add_graph(out, before, err);
}

struct lw_profile *lw_profile_subtract(const struct lw_profile *before,
                                       const struct lw_profile *after,
                                       struct lw_error *err)
{
    struct lw_callgraph from = { 0 }, to = { 0 };
    struct lw_builder *builder = lw_builder_new(err);
    struct adding a = { .from = after, .out = builder };
    struct adding b = { .from = before, .out = builder };
    const char *file = lw_profile_fact(before, "file");
    const char *run = lw_profile_fact(before, "run");
    const char *name = file ? file : run ? run : "another";
    bool done;

    done = builder && lw_callgraph_init(&from, before, LW_GRAPH_ANY, NULL, err) &&
           lw_callgraph_init(&to, after, LW_GRAPH_ANY, NULL, err) &&
           add_difference(builder, &from, &to, err) && add_facts(&a, err) &&
           add_losses(&a, true, err) && add_losses(&b, true, err) &&
           lw_builder_fact(builder, "before", name, strlen(name), err);
    lw_callgraph_release(&from);
    lw_callgraph_release(&to);
    if (done)
        return lw_builder_finish(builder, err);
    lw_builder_free(builder);
    return NULL;
}
