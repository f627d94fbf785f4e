/* Every function, with file and line in columns of their own, so that a spreadsheet can
 * sort by them. */

#include "writers/function_table.h"

#include <math.h>

#include "model/losses.h"
#include "model/measure.h"
#include "model/query.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "calls", "calls", LW_UNIT_COUNT, false }, /* these two only where calls were counted */
    { "primitive_calls", "primitive", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "function", "function", LW_UNIT_TEXT, false },
    { "file", "file", LW_UNIT_TEXT, false },
    { "line", "line", LW_UNIT_COUNT, false },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define CALLS_COLUMNS 2

static void add_seconds(struct lw_table *table, double seconds)
{
    double ns = seconds * 1e9;

    if (fabs(ns) < 9e18) /* not NaN either */
        lw_table_add_integer(table, (int64_t)llround(ns));
    else
        lw_table_add_none(table);
}

static void add_function(struct lw_table *table, const struct lw_function *function,
                         bool has_file, bool has_calls)
{
    lw_table_row(table, 0);
    if (has_calls) {
        lw_table_add_integer(table, function->cost.calls);
        lw_table_add_integer(table, function->cost.primitive_calls);
    }
    add_seconds(table, function->cost.self_s);
    add_seconds(table, function->cost.total_s);
    lw_table_add_text(table, function->name, function->name_len);
    if (has_file)
        lw_table_add_text(table, function->file, function->file_len);
    else
        lw_table_add_none(table);
    if (function->line)
        lw_table_add_integer(table, function->line);
    else
        lw_table_add_none(table);
}

static void note_losses(const struct lw_profile *profile, struct lw_table *table)
{
    const char *sentence = lw_measure_sentence(profile);
    struct lw_buf text;

    if (sentence && profile->loss_count == 0) {
        lw_table_note(table, "%s", sentence);
        return;
    }
    lw_buf_init(&text, 0);
    lw_losses_add_line(profile, &text);
    if (text.failure)
        table->failure = text.failure;
    else if (text.len > 0)
        lw_table_note(table, "%s", text.bytes);
    lw_buf_release(&text);
}

static bool fill(struct lw_table *table, const struct lw_callgraph *graph,
                 const struct lw_selection *selection, struct lw_error *err)
{
    bool has_calls = lw_callgraph_has_calls(graph);
    size_t first = has_calls ? 0 : CALLS_COLUMNS;

    if (selection->count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no calls and no samples to write");
    lw_table_init(table, columns + first, COLUMN_COUNT - first);
    for (size_t i = 0; i < selection->count; i++) {
        const struct lw_function *function = &graph->functions[selection->functions[i]];
        lw_string_id file = lw_profile_frame(graph->profile, function->frame)->file;

        add_function(table, function, file != 0, has_calls);
    }
    note_losses(graph->profile, table);
    lw_measure_table(graph->profile, table);
    return lw_table_check(table, err);
}

bool lw_function_table_init(struct lw_table *table, const struct lw_profile *profile,
                            struct lw_error *err)
{
    struct lw_selection selection = { 0 };
    struct lw_callgraph graph = { 0 };
    struct lw_query query;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    lw_query_init(&query);
    done = lw_query_add_key(&query, "time", err) &&
           lw_query_graph(&query, profile, &graph, err) &&
           lw_query_select(&query, &graph, &selection, err) &&
           fill(table, &graph, &selection, err);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    lw_query_release(&query);
    return done;
}
