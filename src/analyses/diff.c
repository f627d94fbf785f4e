/* Both graphs are merged into one, so that a function is found by what it is called and
 * not by its number; then each function's figures are looked up in the two. Selecting
 * and sorting is the query's business as ever: the merged graph is made to hold the
 * sizes of the changes before it is asked. */

#include "analyses/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "model/measure.h"
#include "model/merge.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "calls_before", "calls", LW_UNIT_COUNT, false }, /* these three only where calls */
    { "calls_after", "after", LW_UNIT_COUNT, false },  /* were counted */
    { "calls_change", "change", LW_UNIT_COUNT, false },
    { "self_before_ns", "self", LW_UNIT_NS, false },
    { "self_after_ns", "after", LW_UNIT_NS, false },
    { "self_change_ns", "change", LW_UNIT_NS, false },
    { "total_before_ns", "total", LW_UNIT_NS, false },
    { "total_after_ns", "after", LW_UNIT_NS, false },
    { "total_change_ns", "change", LW_UNIT_NS, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define CALLS_COLUMNS 3

/* One of the two, and its functions by name. */
struct side {
    struct lw_callgraph graph;
    const struct lw_function **sorted; /* owned: the listed ones */
};

struct diff {
    struct side before;
    struct side after;
    struct lw_profile *profile;        /* owned: both graphs */
    struct lw_callgraph graph;         /* of that; costs are the sizes of changes */
    const struct lw_profile *measured; /* borrowed: it says what the figures are */
};

static int compare_places(const void *a, const void *b)
{
    return lw_function_compare(*(const struct lw_function *const *)a,
                               *(const struct lw_function *const *)b);
}

static bool sort_side(struct side *side, struct lw_error *err)
{
    size_t count = side->graph.listed_count;

    side->sorted = lw_alloc((count + 1) * sizeof(*side->sorted), err);
    if (!side->sorted)
        return false;
    for (size_t i = 0; i < count; i++)
        side->sorted[i] = &side->graph.functions[i];
    qsort(side->sorted, count, sizeof(*side->sorted), compare_places);
    return true;
}

/* NULL: the function is not in that profile. */
static const struct lw_graph_cost *find_cost(const struct side *side,
                                             const struct lw_function *function)
{
    const struct lw_function **found =
        bsearch(&function, side->sorted, side->graph.listed_count,
                sizeof(*side->sorted), compare_places);

    return found ? &(*found)->cost : NULL;
}

static struct lw_graph_cost cost_or_zero(const struct lw_graph_cost *cost)
{
    return cost ? *cost : (struct lw_graph_cost){ 0 };
}

/* AFTER - BEFORE, at the ends of their range if they are that far apart. */
static int64_t change_of_calls(int64_t before, int64_t after)
{
    return lw_calls_add(after, lw_calls_negate(before));
}

static struct lw_graph_cost change_of(const struct diff *diff,
                                      const struct lw_function *function)
{
    struct lw_graph_cost before = cost_or_zero(find_cost(&diff->before, function));
    struct lw_graph_cost after = cost_or_zero(find_cost(&diff->after, function));

    return (struct lw_graph_cost){
        .primitive_calls =
            change_of_calls(before.primitive_calls, after.primitive_calls),
        .calls = change_of_calls(before.calls, after.calls),
        .self_s = after.self_s - before.self_s,
        .total_s = after.total_s - before.total_s,
    };
}

static int64_t size_of_calls(int64_t calls)
{
    return calls < 0 ? lw_calls_negate(calls) : calls;
}

/* With the folder in which AFTER ran, by which a person's own code is known. */
static bool merge_sides(struct diff *diff, struct lw_error *err)
{
    const char *cwd = lw_profile_fact(diff->after.graph.profile, "cwd");
    struct lw_builder *builder = lw_builder_new(err);

    if (!builder)
        return false;
    if (!lw_builder_add_graph(builder, &diff->before.graph, err) ||
        !lw_builder_add_graph(builder, &diff->after.graph, err) ||
        (cwd && !lw_builder_fact(builder, "cwd", cwd, strlen(cwd), err))) {
        lw_builder_free(builder);
        return false;
    }
    diff->profile = lw_builder_finish(builder, err);
    return diff->profile != NULL;
}

/* Threads are chosen in each profile, folders left out only once both are merged: who
 * owns a function is seen by its folder. */
static bool make_diff(struct diff *diff, const struct lw_profile *before,
                      const struct lw_profile *after, const struct lw_query *query,
                      struct lw_error *err)
{
    struct lw_query each = *query, both = *query;

    each.strip = false;
    both.source = LW_GRAPH_GIVEN;
    both.thread = both.process = NULL;
    if (!lw_query_graph(&each, before, &diff->before.graph, err) ||
        !lw_query_graph(&each, after, &diff->after.graph, err) ||
        !merge_sides(diff, err) ||
        !lw_query_graph(&both, diff->profile, &diff->graph, err))
        return false;
    if (query->strip &&
        (!lw_callgraph_strip(&diff->before.graph, query->how_strip, err) ||
         !lw_callgraph_strip(&diff->after.graph, query->how_strip, err)))
        return false;
    if (!sort_side(&diff->before, err) || !sort_side(&diff->after, err))
        return false;
    for (size_t i = 0; i < diff->graph.listed_count; i++) {
        struct lw_graph_cost *cost = &diff->graph.functions[i].cost;

        *cost = change_of(diff, &diff->graph.functions[i]);
        cost->primitive_calls = size_of_calls(cost->primitive_calls);
        cost->calls = size_of_calls(cost->calls);
        cost->self_s = fabs(cost->self_s);
        cost->total_s = fabs(cost->total_s);
    }
    return true;
}

static void diff_release(struct diff *diff)
{
    lw_callgraph_release(&diff->graph);
    lw_callgraph_release(&diff->before.graph);
    lw_callgraph_release(&diff->after.graph);
    lw_profile_free(diff->profile);
    lw_free(diff->before.sorted);
    lw_free(diff->after.sorted);
}

static bool has_calls(const struct diff *diff)
{
    return lw_callgraph_has_calls(&diff->before.graph) &&
           lw_callgraph_has_calls(&diff->after.graph);
}

static void add_calls(struct lw_table *table, const struct lw_graph_cost *cost)
{
    if (cost)
        lw_table_add_integer(table, cost->calls);
    else
        lw_table_add_none(table);
}

static void add_function(struct lw_table *table, const struct diff *diff,
                         const struct lw_function *function)
{
    const struct lw_graph_cost *before = find_cost(&diff->before, function);
    const struct lw_graph_cost *after = find_cost(&diff->after, function);
    struct lw_graph_cost change = change_of(diff, function);

    lw_table_row(table, 0);
    if (has_calls(diff)) {
        add_calls(table, before);
        add_calls(table, after);
        add_calls(table, &change);
    }
    lw_analysis_add_seconds(table, before ? before->self_s : NAN);
    lw_analysis_add_seconds(table, after ? after->self_s : NAN);
    lw_analysis_add_seconds(table, change.self_s);
    lw_analysis_add_seconds(table, before ? before->total_s : NAN);
    lw_analysis_add_seconds(table, after ? after->total_s : NAN);
    lw_analysis_add_seconds(table, change.total_s);
    lw_table_add_text(table, function->name, function->name_len);
    lw_analysis_add_place(table, function);
}

/* "12 functions: 10.0 s before, 8.20 s after, 1.80 s less; by change of internal time" */
static void set_title(struct lw_table *table, const struct diff *diff,
                      const struct lw_query *query)
{
    double before_s = diff->before.graph.total_s, after_s = diff->after.graph.total_s;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)diff->graph.listed_count);
    lw_buf_add_text(&text,
                    diff->graph.listed_count == 1 ? " function: " : " functions: ");
    lw_measure_add(&text, diff->measured, lw_analysis_ns(before_s));
    lw_buf_add_text(&text, " before, ");
    lw_measure_add(&text, diff->measured, lw_analysis_ns(after_s));
    lw_buf_add_text(&text, " after");
    if (after_s != before_s) {
        lw_buf_add_text(&text, ", ");
        lw_measure_add(&text, diff->measured, lw_analysis_ns(fabs(after_s - before_s)));
        lw_buf_add_text(&text, after_s < before_s ? " less" : " more");
    }
    for (size_t i = 0; i < query->key_count; i++)
        lw_buf_addf(&text, "%s%s%s", i ? ", " : "; by ",
                    query->keys[i]->is_descending ? "change of " : "",
                    query->keys[i]->title);
    if (query->key_count > 0 && query->reverse)
        lw_buf_add_text(&text, ", reversed");
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

bool lw_diff_run(const struct lw_profile *before, const struct lw_profile *after,
                 const struct lw_query *query, struct lw_table *table,
                 struct lw_error *err)
{
    struct lw_selection selection = { 0 };
    struct diff diff = { 0 };
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    done = make_diff(&diff, before, after, query, err) &&
           lw_query_select(query, &diff.graph, &selection, err);
    if (done) {
        diff.measured = lw_measure_unit(before) == lw_measure_unit(after)
                            ? before
                            : diff.profile; /* which does not say: times */
        if (!has_calls(&diff))
            lw_table_init(table, columns + CALLS_COLUMNS, COLUMN_COUNT - CALLS_COLUMNS);
        for (size_t i = 0; i < selection.count; i++)
            add_function(table, &diff, &diff.graph.functions[selection.functions[i]]);
        set_title(table, &diff, query);
        lw_analysis_note_cut(query, &diff.graph, &selection, table);
        lw_analysis_note_losses(before, table);
        lw_analysis_note_losses(after, table);
        lw_measure_table(diff.measured, table);
    }
    lw_selection_release(&selection);
    diff_release(&diff);
    return done;
}
