/* A step before and after, and each phase of it: the mean, which adds up, and the median,
 * which a slow first step does not move. Phases are paired by name, and the one that
 * changed most is first. All tracks of a side (the ranks of a job) are taken together.
 *
 * Two runs say how much changed and not whether it would again: nothing here claims that a
 * change is more than chance. */

#include "analyses/steps_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/compare.h"
#include "analyses/spread.h"
#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "before_ns", "before", LW_UNIT_NS, false },
    { "after_ns", "after", LW_UNIT_NS, false },
    { "change_ns", "change", LW_UNIT_NS, false },
    { "change_share", "", LW_UNIT_SHARE, false },
    { "median_before_ns", "p50 before", LW_UNIT_NS, false },
    { "median_after_ns", "after", LW_UNIT_NS, false },
    { "action", "action", LW_UNIT_TEXT, true },
};

/* The facts of a run that may be why a step changed. */
static const struct {
    const char *fact, *name;
} reasons[] = {
    { "command", "command" },
    { "parameters", "parameters" },
    { "commit", "commit" },
    { "dirty", "changes that are in no commit" },
    { "python", "Python" },
    { "torch", "torch" },
    { "host", "host" },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

/* What the steps of one kind took on one side, of a phase or in all. */
struct took {
    double mean_ns, median_ns; /* not numbers: there is no step, or no such phase */
};

struct row {
    const char *phase; /* NULL: the step itself */
    struct took sides[LW_SIDES];
};

struct diff {
    const struct lw_query *query;
    struct lw_steps steps[LW_SIDES];
    struct lw_table *table;
};

static size_t count_steps(const struct lw_steps *steps, bool is_eval)
{
    size_t count = 0;

    for (size_t i = 0; i < steps->track_count; i++)
        count += is_eval ? steps->tracks[i].eval_count : steps->tracks[i].train_count;
    return count;
}

/* PHASE: an index, or LW_PHASES_MAX for all of a step. */
static bool measure(const struct lw_steps *steps, bool is_eval, uint16_t phase,
                    struct took *took, struct lw_error *err)
{
    size_t most = count_steps(steps, is_eval), count = 0;
    double *values = lw_alloc(most * sizeof(*values) + 1, err);
    struct lw_spread spread;

    if (!values)
        return false;
    for (size_t t = 0; t < steps->track_count; t++)
        for (size_t i = 0; i < steps->tracks[t].step_count; i++) {
            const struct lw_step *step = &steps->tracks[t].steps[i];

            if (step->is_eval == is_eval && !step->is_cut && count < most)
                values[count++] =
                    (double)(phase == LW_PHASES_MAX ? step->end_ns - step->start_ns
                                                    : step->ns[phase]);
        }
    spread = lw_spread_of(values, count);
    took->mean_ns = spread.mean;
    took->median_ns = count ? spread.median : NAN;
    lw_free(values);
    return true;
}

static uint16_t find_phase(const struct lw_steps *steps, const char *name)
{
    uint16_t i = 0;

    while (i < steps->phase_count && strcmp(steps->phases[i].text, name) != 0)
        i++;
    return i;
}

static bool measure_row(const struct diff *diff, bool is_eval, struct row *row,
                        struct lw_error *err)
{
    for (int side = 0; side < LW_SIDES; side++) {
        const struct lw_steps *steps = &diff->steps[side];
        uint16_t phase = row->phase ? find_phase(steps, row->phase) : LW_PHASES_MAX;

        if (row->phase && phase == steps->phase_count)
            row->sides[side] = (struct took){ NAN, NAN };
        else if (!measure(steps, is_eval, phase, &row->sides[side], err))
            return false;
    }
    return true;
}

static double or_none(double ns)
{
    return isnan(ns) ? 0 : ns;
}

static double change_of(const struct row *row)
{
    return or_none(row->sides[LW_AFTER].mean_ns) -
           or_none(row->sides[LW_BEFORE].mean_ns);
}

/* Not a number: one of them is missing. */
static double change_of_both(const struct row *row)
{
    return row->sides[LW_AFTER].mean_ns - row->sides[LW_BEFORE].mean_ns;
}

static int by_change(const void *x, const void *y)
{
    double a = fabs(change_of(x)), b = fabs(change_of(y));

    return (a < b) - (a > b);
}

static void add_ns(struct lw_table *table, double ns)
{
    if (isnan(ns))
        lw_table_add_none(table);
    else
        lw_table_add_integer(table, llround(ns));
}

static void add_row(struct lw_table *table, const struct row *row, const char *name,
                    uint32_t depth)
{
    const struct took *before = &row->sides[LW_BEFORE], *after = &row->sides[LW_AFTER];
    double change = change_of_both(row);

    lw_table_row(table, depth);
    add_ns(table, before->mean_ns);
    add_ns(table, after->mean_ns);
    add_ns(table, change);
    lw_analysis_add_share(table, change, before->mean_ns);
    add_ns(table, before->median_ns);
    add_ns(table, after->median_ns);
    lw_table_add_text(table, name, strlen(name));
}

/* No step of either side was ever in it. */
static bool is_empty(const struct row *row)
{
    return or_none(row->sides[LW_BEFORE].mean_ns) <= 0 &&
           or_none(row->sides[LW_AFTER].mean_ns) <= 0;
}

static bool add_kind(const struct diff *diff, bool is_eval, struct row *whole,
                     struct lw_error *err)
{
    struct row rows[2 * LW_PHASES_MAX];
    size_t count = 0;

    whole->phase = NULL;
    if (!measure_row(diff, is_eval, whole, err))
        return false;
    for (int side = 0; side < LW_SIDES; side++)
        for (size_t i = 0; i < diff->steps[side].phase_count; i++) {
            const char *name = diff->steps[side].phases[i].text;
            struct row row = { .phase = name };

            if (side == LW_AFTER && find_phase(&diff->steps[LW_BEFORE], name) <
                                        diff->steps[LW_BEFORE].phase_count)
                continue; /* has its row */
            if (!measure_row(diff, is_eval, &row, err))
                return false;
            if (!is_empty(&row))
                rows[count++] = row;
        }
    if (is_empty(whole))
        return true;
    qsort(rows, count, sizeof(rows[0]), by_change);
    add_row(diff->table, whole, is_eval ? "evaluation step" : "training step", 0);
    for (size_t i = 0; i < count; i++)
        add_row(diff->table, &rows[i], rows[i].phase, 1);
    return true;
}

/* "110 training steps before, 98 after: a step took 21.1 ms before, ..." */
static void set_title(const struct diff *diff, const struct row *whole, bool is_eval)
{
    const char *noun = is_eval ? "evaluation step" : "training step";
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_counted(&text, (int64_t)count_steps(&diff->steps[LW_BEFORE], is_eval),
                         noun);
    lw_buf_add_text(&text, " before, ");
    lw_units_add_count(&text, (int64_t)count_steps(&diff->steps[LW_AFTER], is_eval));
    lw_buf_add_text(&text, " after");
    if (!isnan(change_of_both(whole))) {
        lw_buf_add_text(&text, ": a step took ");
        lw_compare_add_change(&text, whole->sides[LW_BEFORE].mean_ns,
                              whole->sides[LW_AFTER].mean_ns);
    }
    lw_table_set_title(diff->table, "%s", lw_analysis_text(diff->table, &text));
    lw_buf_release(&text);
}

static void note_reasons(const struct lw_profile *before,
                         const struct lw_profile *after, struct lw_table *table)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        const char *was = lw_profile_fact(before, reasons[i].fact);
        const char *is = lw_profile_fact(after, reasons[i].fact);

        if (was && is && strcmp(was, is) != 0)
            lw_table_note(table, "%s: %s before, %s after", reasons[i].name, was, is);
    }
}

static void note_meaning(const struct diff *diff, struct lw_table *table)
{
    static const char *const names[] = { "before", "after" };

    lw_table_note(table, "before, after and change are means of a step, which add up; "
                         "p50 is the median, which a slow first step does not move.");
    lw_table_note(table, "Two runs do not say whether a change is more than chance.");
    for (int side = 0; side < LW_SIDES; side++)
        if (diff->steps[side].track_count > 1)
            lw_table_note(table,
                          "The steps %s are those of %zu threads or ranks together; "
                          "--rank chooses one.",
                          names[side], diff->steps[side].track_count);
}

static bool find_steps(struct diff *diff, int side, const struct lw_profile *profile,
                       struct lw_error *err)
{
    const struct lw_query *query = diff->query;
    bool *threads = NULL;
    bool done = lw_query_threads(query, profile, &threads, err) &&
                lw_steps_choose_rank(profile, query, &threads, err) &&
                lw_steps_init(&diff->steps[side], profile, threads, err);

    lw_free(threads);
    if (done && diff->steps[side].track_count == 0)
        done = lw_fail(err, LW_ERR_UNSUPPORTED,
                       "no step was recorded %s: 'lapwing run train.py' records those "
                       "of a training with torch, and lapwing.step() marks others",
                       side == LW_BEFORE ? "before" : "after");
    return done;
}

bool lw_steps_diff(const struct lw_profile *before, const struct lw_profile *after,
                   const struct lw_query *query, struct lw_table *table,
                   struct lw_error *err)
{
    struct diff diff = { .query = query, .table = table };
    struct row train, eval;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    if (!lw_query_is_by(query, "action"))
        return lw_fail(err, LW_ERR_USAGE, "of two runs, steps are compared by action");
    done = find_steps(&diff, LW_BEFORE, before, err) &&
           find_steps(&diff, LW_AFTER, after, err) &&
           add_kind(&diff, false, &train, err) && add_kind(&diff, true, &eval, err);
    if (done) {
        bool is_eval = is_empty(&train); /* nothing was trained */

        set_title(&diff, is_eval ? &eval : &train, is_eval);
        note_reasons(before, after, table);
        note_meaning(&diff, table);
        lw_analysis_note_losses(before, table);
        lw_analysis_note_losses(after, table);
        done = lw_analysis_arrange(table, query, err);
    }
    lw_steps_release(&diff.steps[LW_BEFORE]);
    lw_steps_release(&diff.steps[LW_AFTER]);
    return done;
}
