/* Makes, merges and indexes callgraphs. The walk over a tree is in callgraph_tree.c. */

#include "model/callgraph.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "model/callgraph_tree.h"

int64_t lw_calls_add(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

void lw_graph_cost_add(struct lw_graph_cost *cost, const struct lw_graph_cost *more)
{
    cost->primitive_calls = lw_calls_add(cost->primitive_calls, more->primitive_calls);
    cost->calls = lw_calls_add(cost->calls, more->calls);
    cost->self_samples = lw_calls_add(cost->self_samples, more->self_samples);
    cost->total_samples = lw_calls_add(cost->total_samples, more->total_samples);
    cost->self_s += more->self_s;
    cost->total_s += more->total_s;
}

/* "~" is how pstats spells "no file"; a Python file may have the empty name. */
static bool has_no_file(const struct lw_profile *profile, const struct lw_frame *frame)
{
    if (frame->file == 0)
        return frame->kind != LW_FRAME_PYTHON;
    return frame->first_line == 0 &&
           strcmp(lw_profile_text(profile, frame->file), "~") == 0;
}

void lw_function_init(struct lw_function *function, const struct lw_profile *profile,
                      lw_frame_id frame_id)
{
    const struct lw_frame *frame = lw_profile_frame(profile, frame_id);
    bool no_file = has_no_file(profile, frame);

    function->frame = frame_id;
    function->line = frame->first_line;
    function->file = no_file ? "~" : lw_profile_text(profile, frame->file);
    function->file_len = no_file ? 1 : lw_strings_len(profile->strings, frame->file);
    function->name = lw_profile_text(profile, frame->name);
    function->name_len = lw_strings_len(profile->strings, frame->name);
}

void lw_function_strip(struct lw_function *function)
{
    const char *slash = memrchr(function->file, '/', function->file_len);

    if (slash) {
        function->file_len -= (size_t)(slash + 1 - function->file);
        function->file = slash + 1;
    }
}

/* UTF-8 sorts by bytes as Python sorts by characters. */
static int compare_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order ? order : (a_len > b_len) - (a_len < b_len);
}

int lw_function_compare(const struct lw_function *a, const struct lw_function *b)
{
    int order = compare_text(a->file, a->file_len, b->file, b->file_len);

    if (order == 0)
        order = (a->line > b->line) - (a->line < b->line);
    if (order == 0)
        order = compare_text(a->name, a->name_len, b->name, b->name_len);
    return order;
}

void lw_function_add_text(const struct lw_function *function, struct lw_buf *out)
{
    const char *name = function->name;
    size_t len = function->name_len;

    if (function->line != 0 || function->file_len != 1 || function->file[0] != '~') {
        lw_buf_add(out, function->file, function->file_len);
        lw_buf_addf(out, ":%u(", function->line);
        lw_buf_add(out, name, len);
        lw_buf_add_char(out, ')');
    } else if (len > 0 && name[0] == '<' && name[len - 1] == '>') {
        lw_buf_add_char(out, '{');
        lw_buf_add(out, name + 1, len - 2);
        lw_buf_add_char(out, '}');
    } else {
        lw_buf_add(out, name, len);
    }
}

/* Sort the edges by callee, or the numbers of edges by caller: a counting sort, so the
 * order of meeting stays within each. START gets a place a function and one more. */
static void count_starts(const struct lw_graph_edge *edges, size_t edge_count,
                         bool by_caller, uint32_t *start, size_t function_count)
{
    memset(start, 0, (function_count + 1) * sizeof(*start));
    for (size_t i = 0; i < edge_count; i++)
        start[by_caller ? edges[i].caller : edges[i].callee]++;
    for (uint32_t i = 0, sum = 0, count; i <= function_count; i++) {
        count = start[i];
        start[i] = sum;
        sum += count;
    }
}

/* Filling moves each start to the next one's; move them back. */
static void rewind_starts(uint32_t *start, size_t function_count)
{
    memmove(start + 1, start, function_count * sizeof(*start));
    start[0] = 0;
}

static bool sort_by_callee(struct lw_callgraph *graph, struct lw_error *err)
{
    uint32_t *start = lw_alloc((graph->function_count + 1) * sizeof(*start), err);
    struct lw_graph_edge *sorted =
        lw_alloc((graph->edge_count + 1) * sizeof(*sorted), err);

    if (!start || !sorted) {
        lw_free(start);
        lw_free(sorted);
        return false;
    }
    count_starts(graph->edges, graph->edge_count, false, start, graph->function_count);
    for (size_t i = 0; i < graph->edge_count; i++)
        sorted[start[graph->edges[i].callee]++] = graph->edges[i];
    lw_free(start);
    lw_free(graph->edges);
    graph->edges = sorted;
    return true;
}

/* Of edges sorted by callee, make those of one callee that have the same caller one. */
static bool join_edges(struct lw_callgraph *graph, bool last_replaces,
                       struct lw_error *err)
{
    struct lw_graph_edge *edges = graph->edges;
    size_t kept = 0, first = 0; /* `first` edge of the callee at hand */
    /* by caller: 1 + the edge it was last met in */
    uint32_t *met = lw_zalloc(graph->function_count + 1, sizeof(*met), err);

    if (!met)
        return false;
    for (size_t i = 0; i < graph->edge_count; i++) {
        struct lw_graph_edge edge = edges[i];

        if (kept > 0 && edges[kept - 1].callee != edge.callee)
            first = kept;
        if (met[edge.caller] <= first) {
            edges[kept++] = edge;
            met[edge.caller] = (uint32_t)kept;
        } else if (last_replaces) {
            edges[met[edge.caller] - 1].cost = edge.cost;
        } else {
            lw_graph_cost_add(&edges[met[edge.caller] - 1].cost, &edge.cost);
        }
    }
    graph->edge_count = kept;
    lw_free(met);
    return true;
}

static bool same_function(const void *owner, uint32_t number, const void *key)
{
    const struct lw_function *functions = owner;

    return lw_function_compare(&functions[number - 1], key) == 0;
}

/* Make functions that are alike one, in place, and say in BECOMES which each is now. */
static bool join_functions(struct lw_callgraph *graph, uint32_t *becomes,
                           struct lw_error *err)
{
    struct lw_function *functions = graph->functions;
    size_t count = graph->function_count, listed_count = graph->listed_count;
    struct lw_map map;
    bool done = false;

    graph->function_count = graph->listed_count = 0;
    lw_map_init(&map);
    for (size_t i = 0; i < count; i++) {
        struct lw_function function = functions[i];
        uint64_t hash = lw_hash_u64(lw_hash_bytes(function.file, function.file_len) ^
                                    function.line) ^
                        lw_hash_bytes(function.name, function.name_len);
        uint32_t number = lw_map_find(&map, hash, same_function, functions, &function);

        if (!number) {
            number = (uint32_t)(graph->function_count + 1);
            if (!lw_map_add(&map, hash, number, err))
                goto out;
            functions[graph->function_count++] = function;
            if (i < listed_count)
                graph->listed_count = graph->function_count;
        } else if (i < listed_count) {
            lw_graph_cost_add(&functions[number - 1].cost, &function.cost);
        }
        becomes[i] = number - 1;
    }
    done = true;
out:
    lw_map_release(&map);
    return done;
}

/* Make the indexes by callee and by caller; the edges are sorted by callee. */
static bool index_graph(struct lw_callgraph *graph, struct lw_error *err)
{
    size_t starts_bytes = (graph->function_count + 1) * sizeof(uint32_t);

    graph->callers_start = lw_alloc(starts_bytes, err);
    graph->callees_start = lw_alloc(starts_bytes, err);
    graph->callees = lw_alloc((graph->edge_count + 1) * sizeof(uint32_t), err);
    if (!graph->callers_start || !graph->callees_start || !graph->callees)
        return false;

    count_starts(graph->edges, graph->edge_count, false, graph->callers_start,
                 graph->function_count);
    count_starts(graph->edges, graph->edge_count, true, graph->callees_start,
                 graph->function_count);
    for (size_t i = 0; i < graph->edge_count; i++)
        graph->callees[graph->callees_start[graph->edges[i].caller]++] = (uint32_t)i;
    rewind_starts(graph->callees_start, graph->function_count);
    return true;
}

/* Make one of functions that are alike, and of edges with the same ends, and index what
 * is left. The edges must be sorted by callee. On failure the graph is only good to be
 * released. */
static bool join_graph(struct lw_callgraph *graph, enum lw_strip how,
                       struct lw_error *err)
{
    uint32_t *becomes = lw_alloc((graph->function_count + 1) * sizeof(*becomes), err);
    bool done = becomes && join_functions(graph, becomes, err);

    for (size_t i = 0; done && i < graph->edge_count; i++)
        graph->edges[i].caller = becomes[graph->edges[i].caller];
    done = done && join_edges(graph, how == LW_STRIP_AS_PSTATS, err);
    for (size_t i = 0; done && i < graph->edge_count; i++)
        graph->edges[i].callee = becomes[graph->edges[i].callee];
    done = done && sort_by_callee(graph, err) && join_edges(graph, false, err) &&
           index_graph(graph, err);
    lw_free(becomes);
    return done;
}

bool lw_callgraph_strip(struct lw_callgraph *graph, enum lw_strip how,
                        struct lw_error *err)
{
    struct lw_callgraph stripped = *graph;

    stripped.callers_start = stripped.callees_start = stripped.callees = NULL;
    stripped.functions =
        lw_alloc((graph->function_count + 1) * sizeof(*stripped.functions), err);
    stripped.edges = lw_alloc((graph->edge_count + 1) * sizeof(*stripped.edges), err);
    if (!stripped.functions || !stripped.edges)
        goto failed;
    for (size_t i = 0; i < graph->function_count; i++) {
        stripped.functions[i] = graph->functions[i];
        lw_function_strip(&stripped.functions[i]);
    }
    for (size_t i = 0; i < graph->edge_count; i++)
        stripped.edges[i] = graph->edges[i];
    if (!join_graph(&stripped, how, err))
        goto failed;
    lw_callgraph_release(graph);
    *graph = stripped;
    return true;

failed:
    lw_callgraph_release(&stripped);
    return false;
}

enum lw_graph_source lw_callgraph_source(const struct lw_profile *profile)
{
    if (profile->call_count > 0)
        return LW_GRAPH_CALLS;
    if (profile->sample_count > 0)
        return LW_GRAPH_SAMPLES;
    return LW_GRAPH_GIVEN;
}

/* The graph that the profile holds; functions without figures go to the end. */
static bool take_given(struct lw_callgraph *graph, struct lw_error *err)
{
    const struct lw_profile *profile = graph->profile;
    size_t count = profile->function_count;
    uint32_t *becomes = lw_alloc((count + 1) * sizeof(*becomes), err);

    graph->functions = lw_alloc((count + 1) * sizeof(*graph->functions), err);
    graph->edges = lw_alloc((profile->edge_count + 1) * sizeof(*graph->edges), err);
    if (!becomes || !graph->functions || !graph->edges) {
        lw_free(becomes);
        return false;
    }
    for (int listed = 1; listed >= 0; listed--) {
        for (size_t i = 0; i < count; i++) {
            const struct lw_graph_function *given = &profile->functions[i];
            struct lw_function *function = &graph->functions[graph->function_count];

            if (lw_graph_cost_is_known(&given->cost) != (listed == 1))
                continue;
            lw_function_init(function, profile, given->frame);
            function->cost = given->cost;
            becomes[i] = (uint32_t)graph->function_count++;
        }
        if (listed)
            graph->listed_count = graph->function_count;
    }
    for (size_t i = 0; i < profile->edge_count; i++) {
        graph->edges[i] = profile->edges[i];
        graph->edges[i].caller = becomes[profile->edges[i].caller];
        graph->edges[i].callee = becomes[profile->edges[i].callee];
    }
    graph->edge_count = profile->edge_count;
    lw_free(becomes);
    return true;
}

static void sum_graph(struct lw_callgraph *graph)
{
    bool is_difference = lw_profile_fact(graph->profile, "before") != NULL;

    for (size_t i = 0; i < graph->listed_count; i++) {
        const struct lw_graph_cost *cost = &graph->functions[i].cost;

        graph->calls = lw_calls_add(graph->calls, cost->calls);
        graph->primitive_calls =
            lw_calls_add(graph->primitive_calls, cost->primitive_calls);
        graph->samples = lw_calls_add(graph->samples, cost->self_samples);
        graph->total_s += cost->self_s;
        graph->has_changed_calls |= is_difference && cost->calls != 0;
    }
}

/* Of a graph that says its profile, source and kind. */
static bool make_graph(struct lw_callgraph *graph, const bool *threads,
                       struct lw_error *err)
{
    if (!(graph->source == LW_GRAPH_GIVEN ? take_given(graph, err)
                                          : lw_callgraph_walk(graph, threads, err)))
        return false;
    if (!sort_by_callee(graph, err) || !join_graph(graph, LW_STRIP_ADD, err))
        return false;
    sum_graph(graph);
    return true;
}

bool lw_callgraph_init(struct lw_callgraph *graph, const struct lw_profile *profile,
                       enum lw_graph_source source, const bool *threads,
                       struct lw_error *err)
{
    memset(graph, 0, sizeof(*graph));
    graph->profile = profile;
    graph->source = source == LW_GRAPH_ANY ? lw_callgraph_source(profile) : source;
    return make_graph(graph, threads, err);
}

bool lw_callgraph_init_lines(struct lw_callgraph *graph,
                             const struct lw_profile *profile, const bool *threads,
                             struct lw_error *err)
{
    memset(graph, 0, sizeof(*graph));
    graph->profile = profile;
    graph->source = LW_GRAPH_SAMPLES;
    graph->by_line = true;
    return make_graph(graph, threads, err);
}

void lw_callgraph_release(struct lw_callgraph *graph)
{
    lw_free(graph->functions);
    lw_free(graph->edges);
    lw_free(graph->callers_start);
    lw_free(graph->callees);
    lw_free(graph->callees_start);
    memset(graph, 0, sizeof(*graph));
}
