/* What changed from one trace to another: ops, modules, kernels, steps. */

#include "analyses/compare.h"

#include <math.h>
#include <string.h>

#include "model/units.h"

static void add_side(struct lw_buf *text, const struct lw_compare_side *side)
{
    lw_trace_scope_add_name(&side->scope, text);
    lw_buf_addf(text, " (%llu step%s)", (unsigned long long)side->step_count,
                side->step_count == 1 ? "" : "s");
}

void lw_compare_add_change(struct lw_buf *out, double before, double after)
{
    lw_units_add_ns(out, llround(before));
    lw_buf_add_text(out, " before, ");
    lw_units_add_ns(out, llround(after));
    lw_buf_add_text(out, " after");
    if (before != after) {
        lw_buf_add_text(out, ", ");
        lw_units_add_ns(out, llround(fabs(after - before)));
        lw_buf_add_text(out, after < before ? " less" : " more");
    }
    if (before != after && before > 0) {
        lw_buf_add_text(out, " (");
        lw_units_add_share(out, (after - before) / before);
        lw_buf_add_char(out, ')');
    }
}

/* "a.json (6 steps) and b.json (6 steps): a step took 252 ms before, 105 ms after, 147 ms
 * less (-58.3 %)" */
static void set_title(const struct lw_compare *compare, struct lw_table *table)
{
    double before = lw_compare_step_ns(&compare->sides[LW_BEFORE]);
    double after = lw_compare_step_ns(&compare->sides[LW_AFTER]);
    struct lw_buf text;

    lw_buf_init(&text, 0);
    add_side(&text, &compare->sides[LW_BEFORE]);
    lw_buf_add_text(&text, " and ");
    add_side(&text, &compare->sides[LW_AFTER]);
    lw_buf_add_text(&text, ": a step took ");
    lw_compare_add_change(&text, before, after);
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static bool has_steps(const struct lw_compare_side *side)
{
    for (size_t i = 0; i < side->scope.trace->rank_count; i++)
        if (side->scope.ranks[i] && !side->steps[i].is_marked)
            return false;
    return true;
}

static void note_side(const struct lw_compare *compare, int side,
                      struct lw_table *table)
{
    static const char *const sides[] = { "before", "after" };
    const struct lw_compare_side *s = &compare->sides[side];
    struct lw_buf text;

    if (!has_steps(s))
        lw_table_note(
            table,
            "The trace %s has no steps (profiler.step()), so all of it is taken "
            "for one: only traces of as much work can be compared so.",
            sides[side]);
    if (s->left_out > 0)
        lw_table_note(table, "%zu of the last steps %s %s not whole, and left out.",
                      s->left_out, sides[side], s->left_out == 1 ? "is" : "are");
    if (s->unlinked_count > 0) {
        lw_buf_init(&text, 0);
        lw_units_add_ns(&text, (int64_t)s->unlinked_ns);
        lw_table_note(table,
                      "%llu %s %s (%s) %s left out: what launched %s was not recorded.",
                      (unsigned long long)s->unlinked_count,
                      s->unlinked_count == 1 ? "kernel or copy" : "kernels and copies",
                      sides[side], lw_analysis_text(table, &text),
                      s->unlinked_count == 1 ? "is" : "are",
                      s->unlinked_count == 1 ? "it" : "them");
        lw_buf_release(&text);
    }
    lw_analysis_note_losses(s->scope.profile, table);
}

/* What the numbers are of. */
static void note_meaning(const struct lw_compare *compare, struct lw_table *table)
{
    const struct lw_query *query = compare->query;

    if (lw_query_is_by(query, "op"))
        lw_table_note(table,
                      "Times are of a step: of an op its own on the host, and of "
                      "what it launched. --by module, kernel, step and rank show "
                      "other sides.");
    else if (lw_query_is_by(query, "module"))
        lw_table_note(table, "Times are of a step, with all that is below.");
    else if (lw_query_is_by(query, "kernel"))
        lw_table_note(table, "Times are of a step.");
}

static bool fill(struct lw_compare *compare, struct lw_table *table,
                 struct lw_error *err)
{
    const struct lw_query *query = compare->query;

    if (lw_query_is_by(query, "step"))
        return lw_compare_show_steps(compare, table, err);
    if (lw_query_is_by(query, "rank"))
        return lw_compare_show_ranks(compare, table, err);
    if (lw_query_is_by(query, "kernel"))
        return lw_compare_kernels(compare, err) && lw_compare_show(compare, table, err);
    if (lw_query_is_by(query, "module"))
        return lw_compare_modules(compare, err) && lw_compare_show(compare, table, err);
    return lw_compare_ops(compare, err) && lw_compare_show(compare, table, err);
}

static bool want_steps(const struct lw_compare *compare, struct lw_error *err)
{
    for (int i = 0; i < LW_SIDES; i++)
        if (compare->sides[i].step_count == 0)
            return lw_fail(err, LW_ERR_UNSUPPORTED,
                           "the trace %s has no whole step to compare",
                           i == LW_BEFORE ? "before" : "after");
    return true;
}

static bool run_compare(const struct lw_profile *before, const struct lw_profile *after,
                        const struct lw_query *query, struct lw_table *table,
                        struct lw_error *err)
{
    struct lw_compare compare;
    bool done;

    memset(table, 0, sizeof(*table));
    done = lw_compare_init(&compare, before, after, query, err) &&
           want_steps(&compare, err) && fill(&compare, table, err);
    if (done) {
        set_title(&compare, table);
        note_meaning(&compare, table);
        note_side(&compare, LW_BEFORE, table);
        note_side(&compare, LW_AFTER, table);
        done = lw_analysis_arrange(table, query, err);
    }
    lw_compare_release(&compare);
    return done;
}

const struct lw_analysis lw_analysis_compare = {
    .name = "compare",
    .summary = "two torch traces: what changed in a step",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "op|module|kernel|step|rank",
    .takes_restrictions = true,
    .usual_rows = 20,
    .run_pair = run_compare,
};
