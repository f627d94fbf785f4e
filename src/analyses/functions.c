/* Which functions took the time, and how often each was called. */

#include "analyses/analysis.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "calls", "calls", LW_UNIT_COUNT, false }, /* these two only where calls were counted */
    { "primitive_calls", "primitive", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "self_share", "share", LW_UNIT_SHARE, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define CALLS_COLUMNS 2

/* Where samples were counted: how many saw the function on top, and how many anywhere. */
/* clang-format off */
static const struct lw_column sample_columns[] = {
    { "self_samples", "samples", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "self_share", "share", LW_UNIT_SHARE, false },
    { "total_samples", "samples", LW_UNIT_COUNT, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};

static const struct lw_column error_columns[] = {
    { "self_samples", "samples", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "self_share", "share", LW_UNIT_SHARE, false },
    { "self_error", "+/-", LW_UNIT_SHARE, false },
    { "total_samples", "samples", LW_UNIT_COUNT, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "total_error", "+/-", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define SAMPLE_COLUMN_COUNT (sizeof(sample_columns) / sizeof(sample_columns[0]))
#define ERROR_COLUMN_COUNT (sizeof(error_columns) / sizeof(error_columns[0]))

/* SAMPLES of it, if they were counted; what they took; and how far off that may be. */
static void add_times(struct lw_table *table, const struct lw_callgraph *graph,
                      double seconds, int64_t samples)
{
    if (graph->samples > 0)
        lw_table_add_integer(table, samples);
    lw_analysis_add_seconds(table, seconds);
    lw_analysis_add_share(table, seconds, graph->total_s);
    if (table->columns == error_columns)
        lw_analysis_add_error(table, samples, graph->samples);
}

static void add_function(struct lw_table *table, const struct lw_callgraph *graph,
                         const struct lw_function *function)
{
    const struct lw_graph_cost *cost = &function->cost;

    lw_table_row(table, 0);
    if (lw_callgraph_has_calls(graph)) {
        lw_table_add_integer(table, cost->calls);
        lw_table_add_integer(table, cost->primitive_calls);
    }
    add_times(table, graph, cost->self_s, cost->self_samples);
    add_times(table, graph, cost->total_s, cost->total_samples);
    lw_table_add_text(table, function->name, function->name_len);
    lw_analysis_add_place(table, function);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_selection selection = { 0 };
    struct lw_callgraph graph;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    done = lw_query_graph(query, profile, &graph, err) &&
           lw_query_select(query, &graph, &selection, err);
    if (done) {
        if (graph.samples > 0 && query->with_error)
            lw_table_init(table, error_columns, ERROR_COLUMN_COUNT);
        else if (graph.samples > 0)
            lw_table_init(table, sample_columns, SAMPLE_COLUMN_COUNT);
        else if (!lw_callgraph_has_calls(&graph))
            lw_table_init(table, columns + CALLS_COLUMNS, COLUMN_COUNT - CALLS_COLUMNS);
        for (size_t i = 0; i < selection.count; i++)
            add_function(table, &graph, &graph.functions[selection.functions[i]]);
        if (table->columns == error_columns)
            lw_table_note(table, "+/-: how far off a share may be, 19 times out of 20, "
                                 "for so many samples.");
        lw_analysis_end_list(query, &graph, &selection, table);
    }
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    return done;
}

const struct lw_analysis lw_analysis_functions = {
    .name = "functions",
    .summary = "which functions took the time, and how often each was called",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .sort = "time",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
