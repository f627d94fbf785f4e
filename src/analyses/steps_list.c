/* Each step as a row; and each function that the loop called in other time. */

#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column step_columns[] = {
    { "who", "who", LW_UNIT_TEXT, false }, /* only if there are several */
    { "kind", "kind", LW_UNIT_TEXT, false },
    { "step", "step", LW_UNIT_COUNT, false },
    { "epoch", "epoch", LW_UNIT_COUNT, false },
    { "start_ns", "after", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "data_ns", "data", LW_UNIT_NS, false },
    { "transfer_ns", "transfer", LW_UNIT_NS, false },
    { "forward_ns", "forward", LW_UNIT_NS, false },
    { "loss_ns", "loss", LW_UNIT_NS, false },
    { "backward_ns", "backward", LW_UNIT_NS, false },
    { "optimizer_ns", "optimizer", LW_UNIT_NS, false },
    { "eval_ns", "eval", LW_UNIT_NS, false },
    { "other_ns", "other", LW_UNIT_NS, false },
    { "own_ns", "own phases", LW_UNIT_NS, false },
    { "updates", "updates", LW_UNIT_COUNT, false },
    { "why", "", LW_UNIT_TEXT, true },
};

static const struct lw_column other_columns[] = {
    { "who", "who", LW_UNIT_TEXT, false }, /* only if there are several */
    { "function", "called by the loop", LW_UNIT_TEXT, true },
    { "other_ns", "time", LW_UNIT_NS, false },
    { "training_share", "of training", LW_UNIT_SHARE, false },
    { "share", "of other", LW_UNIT_SHARE, false },
    { "error", "+-", LW_UNIT_SHARE, false },
    { "samples", "samples", LW_UNIT_COUNT, false },
};
/* clang-format on */

#define STEP_COLUMN_COUNT (sizeof(step_columns) / sizeof(step_columns[0]))
#define OTHER_COLUMN_COUNT (sizeof(other_columns) / sizeof(other_columns[0]))

#define SLOWER 1.2 /* than the median: worth a reason */

/* The cell "who", in a table that has one. */
static void add_who(struct lw_steps_view *view, const struct lw_step_track *track)
{
    struct lw_buf text;

    if (view->steps.track_count < 2)
        return;
    lw_buf_init(&text, 0);
    lw_steps_add_who(&view->steps, track, &text);
    lw_table_add_text(view->table, lw_analysis_text(view->table, &text), text.len);
    lw_buf_release(&text);
}

static void init_table(struct lw_steps_view *view, const struct lw_column *list,
                       size_t count)
{
    bool has_who = view->steps.track_count > 1;

    lw_table_init(view->table, has_who ? list : list + 1, has_who ? count : count - 1);
}

/* ---- steps -------------------------------------------------------------------------- */

/* "+78.1 ms data, first of its epoch" */
static void add_why(struct lw_steps_view *view, const struct lw_step *step,
                    const uint64_t *medians)
{
    struct lw_slow_step slow = lw_steps_explain(&view->steps, step, medians);
    struct lw_buf text;

    lw_buf_init(&text, 0);
    if (step->is_cut) {
        lw_buf_add_text(&text, "cut");
    } else if ((double)slow.ns > SLOWER * (double)medians[LW_PHASES_MAX]) {
        lw_buf_add_char(&text, '+');
        lw_units_add_ns(&text, (int64_t)slow.more_ns);
        lw_buf_addf(&text, " %s", view->steps.phases[slow.phase].text);
    }
    if (step->is_first)
        lw_buf_addf(&text, "%s%s", text.len ? ", " : "",
                    step->is_eval ? "first" : "first of its epoch");
    lw_table_add_text(view->table, lw_analysis_text(view->table, &text), text.len);
    lw_buf_release(&text);
}

/* A phase that no step has is not shown as one that took no time. */
static void find_phases(const struct lw_steps *steps, bool has[LW_PHASES_MAX])
{
    for (size_t t = 0; t < steps->track_count; t++)
        for (size_t i = 0; i < steps->tracks[t].step_count; i++)
            for (size_t p = 0; p < steps->phase_count; p++)
                has[p < LW_PHASE_OWN ? p : LW_PHASE_OWN] |=
                    steps->tracks[t].steps[i].ns[p] > 0;
}

static void add_phases(struct lw_steps_view *view, const struct lw_step *step,
                       const bool has[LW_PHASES_MAX])
{
    uint64_t own_ns = 0;

    for (size_t i = 0; i < LW_PHASE_OWN; i++)
        if (has[i])
            lw_table_add_integer(view->table, (int64_t)step->ns[i]);
        else
            lw_table_add_none(view->table);
    for (size_t i = LW_PHASE_OWN; i < view->steps.phase_count; i++)
        own_ns += step->ns[i];
    if (has[LW_PHASE_OWN])
        lw_table_add_integer(view->table, (int64_t)own_ns);
    else
        lw_table_add_none(view->table);
}

static bool add_steps(struct lw_steps_view *view, const struct lw_step_track *track,
                      const bool has[LW_PHASES_MAX], struct lw_error *err)
{
    uint64_t medians[2][LW_PHASES_MAX + 1]; /* of training, and of evaluation */
    uint64_t run_ns = view->profile->start_ns;
    struct lw_table *table = view->table;

    if (!lw_steps_medians(&view->steps, track, false, medians[0], err) ||
        !lw_steps_medians(&view->steps, track, true, medians[1], err))
        return false;
    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];
        const char *kind = step->is_eval ? "evaluation" : "training";

        lw_table_row(table, 0);
        add_who(view, track);
        lw_table_add_text(table, kind, strlen(kind));
        lw_table_add_integer(table, step->index);
        if (track->bound == LW_BOUND_DATA)
            lw_table_add_integer(table, step->epoch);
        else
            lw_table_add_none(table);
        if (run_ns && step->start_ns >= run_ns)
            lw_table_add_integer(table, (int64_t)(step->start_ns - run_ns));
        else
            lw_table_add_none(table);
        lw_table_add_integer(table, (int64_t)(step->end_ns - step->start_ns));
        add_phases(view, step, has);
        lw_table_add_integer(table, step->updates);
        add_why(view, step, medians[step->is_eval]);
    }
    return true;
}

bool lw_steps_by_step(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_steps *steps = &view->steps;
    bool has[LW_PHASES_MAX] = { false };
    size_t trains = 0, evals = 0, cut = 0;

    init_table(view, step_columns, STEP_COLUMN_COUNT);
    find_phases(steps, has);
    for (size_t i = 0; i < steps->track_count; i++) {
        if (!add_steps(view, &steps->tracks[i], has, err))
            return false;
        trains += steps->tracks[i].train_count;
        evals += steps->tracks[i].eval_count;
        cut += steps->tracks[i].cut_count;
    }
    lw_table_set_title(view->table, "each step: %zu of training, %zu of evaluation%s",
                       trains, evals, cut ? ", and what is cut" : "");
    if (view->query->column_count == 0)
        lw_table_note(view->table, "The slowest first: --sort total.");
    return true;
}

/* ---- other time --------------------------------------------------------------------- */

static bool add_others(struct lw_steps_view *view, const struct lw_step_track *track,
                       uint64_t *sampled, uint64_t *ns, struct lw_error *err)
{
    struct lw_called_list calls = { 0 };
    struct lw_table *table = view->table;
    struct lw_buf text;
    bool done = lw_steps_find_other(&calls, &view->steps, track, false, err);

    lw_buf_init(&text, 0);
    for (size_t i = 0; done && i < calls.count; i++) {
        const struct lw_called *call = &calls.list[i];

        lw_buf_reset(&text);
        lw_called_add_name(&calls, call, &text);
        lw_table_row(table, 0);
        add_who(view, track);
        lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
        lw_table_add_integer(table, (int64_t)call->ns);
        lw_analysis_add_share(table, (double)call->ns, (double)track->train_ns);
        lw_analysis_add_share(table, (double)call->ns, (double)calls.ns);
        lw_analysis_add_error(table, (int64_t)call->samples, (int64_t)calls.samples);
        lw_table_add_integer(table, (int64_t)call->samples);
    }
    *sampled += calls.samples;
    *ns += calls.ns;
    lw_buf_release(&text);
    lw_called_release(&calls);
    return done;
}

bool lw_steps_by_other(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_steps *steps = &view->steps;
    uint64_t sampled = 0, ns = 0;
    struct lw_buf text;

    init_table(view, other_columns, OTHER_COLUMN_COUNT);
    for (size_t i = 0; i < steps->track_count; i++)
        if (!add_others(view, &steps->tracks[i], &sampled, &ns, err))
            return false;
    lw_buf_init(&text, 0);
    lw_units_add_ns(&text, (int64_t)ns);
    lw_buf_add_text(&text, ", from ");
    lw_units_add_count(&text, (int64_t)sampled);
    lw_table_set_title(view->table,
                       "what the training did in no phase: %s sample%s of it",
                       lw_analysis_text(view->table, &text), sampled == 1 ? "" : "s");
    lw_buf_release(&text);
    if (sampled == 0)
        lw_table_note(
            view->table,
            "No sample was taken in that time; 'lapwing run --rate' says how often "
            "they are.");
    return true;
}
