/* A row for each function, and under it a row for each function at the other end of its
 * edges. */

#include "analyses/neighbours.h"

#include <stdlib.h>

#include "base/alloc.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "calls", "calls", LW_UNIT_COUNT, false }, /* these two only where calls were counted */
    { "primitive_calls", "primitive", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define CALLS_COLUMNS 2

/* clang-format off */
static const struct lw_column sample_columns[] = {
    { "total_samples", "samples", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define SAMPLE_COLUMN_COUNT (sizeof(sample_columns) / sizeof(sample_columns[0]))

struct listing {
    const struct lw_callgraph *graph;
    struct lw_table *table;
    bool callers;
    uint32_t *edges; /* owned: scratch, those of one function */
};

/* WHOLE: what the row's total is a share of. */
static void add_row(struct listing *listing, uint32_t depth,
                    const struct lw_function *function,
                    const struct lw_graph_cost *cost, double whole)
{
    struct lw_table *table = listing->table;

    lw_table_row(table, depth);
    if (lw_callgraph_has_calls(listing->graph)) {
        lw_table_add_integer(table, cost->calls);
        lw_table_add_integer(table, cost->primitive_calls);
    } else if (listing->graph->samples > 0) {
        lw_table_add_integer(table, cost->total_samples);
    }
    lw_analysis_add_seconds(table, cost->self_s);
    lw_analysis_add_seconds(table, cost->total_s);
    lw_analysis_add_share(table, cost->total_s, whole);
    lw_table_add_text(table, function->name, function->name_len);
    lw_analysis_add_place(table, function);
}

/* The longest first; where times are not known, what was called most. */
static int compare_edges(const void *a_number, const void *b_number, void *context)
{
    const struct lw_graph_edge *edges = context;
    uint32_t a = *(const uint32_t *)a_number, b = *(const uint32_t *)b_number;
    const struct lw_graph_cost *x = &edges[a].cost, *y = &edges[b].cost;

    if (!lw_graph_cost_is_known(x) || !lw_graph_cost_is_known(y))
        return x->calls != y->calls ? (x->calls < y->calls) - (x->calls > y->calls)
                                    : (a > b) - (a < b);
    if (x->total_s != y->total_s)
        return (x->total_s < y->total_s) - (x->total_s > y->total_s);
    return (a > b) - (a < b);
}

static void add_function(struct listing *listing, uint32_t index)
{
    const struct lw_callgraph *graph = listing->graph;
    const struct lw_function *function = &graph->functions[index];
    const uint32_t *start =
        listing->callers ? graph->callers_start : graph->callees_start;
    size_t count = start[index + 1] - start[index];

    add_row(listing, 0, function, &function->cost, graph->total_s);
    for (size_t i = 0; i < count; i++)
        listing->edges[i] = listing->callers ? start[index] + (uint32_t)i
                                             : graph->callees[start[index] + i];
    if (count > 0)
        qsort_r(listing->edges, count, sizeof(*listing->edges), compare_edges,
                graph->edges);
    for (size_t i = 0; i < count; i++) {
        const struct lw_graph_edge *edge = &graph->edges[listing->edges[i]];

        add_row(listing, 1,
                &graph->functions[listing->callers ? edge->caller : edge->callee],
                &edge->cost, function->cost.total_s);
    }
}

bool lw_neighbours_run(const struct lw_profile *profile, const struct lw_query *query,
                       bool callers, struct lw_table *table, struct lw_error *err)
{
    struct lw_callgraph graph;
    struct lw_selection selection = { 0 };
    struct listing listing = { .graph = &graph, .table = table, .callers = callers };
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    done = lw_query_graph(query, profile, &graph, err) &&
           lw_query_select(query, &graph, &selection, err) &&
           (listing.edges = lw_alloc((graph.edge_count + 1) * sizeof(uint32_t), err));
    if (done) {
        if (graph.samples > 0)
            lw_table_init(table, sample_columns, SAMPLE_COLUMN_COUNT);
        else if (!lw_callgraph_has_calls(&graph))
            lw_table_init(table, columns + CALLS_COLUMNS, COLUMN_COUNT - CALLS_COLUMNS);
        for (size_t i = 0; i < selection.count; i++)
            add_function(&listing, selection.functions[i]);
        lw_table_note(table, callers ? "Below each function: who calls it, and the "
                                       "share of its total time in these calls."
                                     : "Below each function: what it calls, and the "
                                       "share of its total time in these calls.");
        lw_analysis_end_list(query, &graph, &selection, table);
    }
    lw_free(listing.edges);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    return done;
}
