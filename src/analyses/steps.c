/* Where the time of a training goes, step by step, from what the program itself did. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/spread.h"
#include "analyses/steps_diff.h"
#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "base/text.h"

void lw_steps_add_who(const struct lw_steps *steps, const struct lw_step_track *track,
                      struct lw_buf *out)
{
    const struct lw_process *process = &steps->profile->processes[track->process];
    const struct lw_thread *thread = &steps->profile->threads[track->thread];
    size_t beside = 0; /* tracks of the same process */

    if (steps->track_count < 2)
        return;
    for (size_t i = 0; i < steps->track_count; i++)
        beside += steps->tracks[i].process == track->process;
    if (process->rank >= 0)
        lw_buf_addf(out, "rank %" PRId64, process->rank);
    else if (beside < steps->track_count)
        lw_buf_addf(out, "process %" PRIu64, process->pid);
    if (beside > 1)
        lw_buf_addf(out, "%sthread %" PRIu64, out->len ? ", " : "", thread->tid);
}

/* ---- how steps are spread ----------------------------------------------------------- */

static uint64_t length_ns(const struct lw_step *step)
{
    return step->end_ns - step->start_ns;
}

double *lw_steps_sorted_ns(const struct lw_step_track *track, bool is_eval,
                           uint16_t phase, size_t *count, struct lw_error *err)
{
    double *values = lw_alloc(track->step_count * sizeof(*values) + 1, err);

    *count = 0;
    for (size_t i = 0; values && i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];

        if (step->is_eval == is_eval && !step->is_cut)
            values[(*count)++] =
                (double)(phase == LW_PHASES_MAX ? length_ns(step) : step->ns[phase]);
    }
    if (values)
        lw_spread_of(values, *count); /* sorts them */
    return values;
}

static void add_quantile(struct lw_table *table, const double *sorted, size_t count,
                         double share, size_t needed)
{
    if (count > 0 && count >= needed)
        lw_table_add_integer(table,
                             (int64_t)(lw_spread_quantile(sorted, count, share) + 0.5));
    else
        lw_table_add_none(table);
}

void lw_steps_add_spread(struct lw_table *table, const double *sorted, size_t count)
{
    add_quantile(table, sorted, count, 0.5, 1);
    add_quantile(table, sorted, count, 0.9, LW_P90_STEPS);
    add_quantile(table, sorted, count, 0.99, LW_P99_STEPS);
    add_quantile(table, sorted, count, 1, 1);
}

bool lw_steps_medians(const struct lw_steps *steps, const struct lw_step_track *track,
                      bool is_eval, uint64_t medians[LW_PHASES_MAX + 1],
                      struct lw_error *err)
{
    memset(medians, 0, (LW_PHASES_MAX + 1) * sizeof(*medians));
    for (uint16_t i = 0; i <= LW_PHASES_MAX; i++) {
        double *sorted;
        size_t count;

        if (i >= steps->phase_count && i < LW_PHASES_MAX)
            continue;
        sorted = lw_steps_sorted_ns(track, is_eval, i, &count, err);
        if (!sorted)
            return false;
        if (count > 0)
            medians[i] = (uint64_t)lw_spread_quantile(sorted, count, 0.5);
        lw_free(sorted);
    }
    return true;
}

struct lw_slow_step lw_steps_explain(const struct lw_steps *steps,
                                     const struct lw_step *step,
                                     const uint64_t medians[LW_PHASES_MAX + 1])
{
    struct lw_slow_step slow = { .step = step, .ns = length_ns(step) };

    for (uint16_t i = 0; i < steps->phase_count; i++)
        if (step->ns[i] > medians[i] && step->ns[i] - medians[i] > slow.more_ns) {
            slow.phase = i;
            slow.more_ns = step->ns[i] - medians[i];
        }
    return slow;
}

/* ---- the view ----------------------------------------------------------------------- */

bool lw_steps_choose_rank(const struct lw_profile *profile,
                          const struct lw_query *query, bool **threads,
                          struct lw_error *err)
{
    bool is_there = false;
    int64_t rank;

    if (!query->rank)
        return true;
    if (!lw_text_i64(query->rank, strlen(query->rank), &rank) || rank < 0)
        return lw_fail(err, LW_ERR_USAGE, "--rank takes a number, not '%s'",
                       query->rank);
    if (!*threads) {
        *threads = lw_alloc(profile->thread_count + 1, err);
        if (!*threads)
            return false;
        memset(*threads, 1, profile->thread_count);
    }
    for (size_t i = 0; i < profile->thread_count; i++) {
        (*threads)[i] &= profile->processes[profile->threads[i].process].rank == rank;
        is_there |= (*threads)[i];
    }
    return is_there || lw_fail(err, LW_ERR_USAGE, "no process of this run was rank %s",
                               query->rank);
}

static bool fail_without_steps(const struct lw_steps_view *view, struct lw_error *err)
{
    const char *format = lw_profile_fact(view->profile, "format");

    if (format && strcmp(format, "lap") != 0)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "steps is a view of what 'lapwing run' records of a training, and "
            "this file is not a run; of a torch trace, '%soverview --by step' shows "
            "the steps",
            view->query->report);
    if (view->steps.span_count > 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "no step was recorded: of a DataLoader's batches, backward, "
                       "optimizers, calls of models and lapwing.step() there is too "
                       "little to tell one from another");
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "no step was recorded: neither a torch DataLoader's batches, nor "
                   "backward, nor an optimizer, nor a call of a model, nor "
                   "lapwing.step() was seen");
}

static bool fill(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_query *query = view->query;

    if (lw_query_is_by(query, "worker"))
        return lw_steps_by_worker(view, err);
    if (view->steps.track_count == 0)
        return fail_without_steps(view, err);
    if (lw_query_is_by(query, "step"))
        return lw_steps_by_step(view, err);
    if (lw_query_is_by(query, "other"))
        return lw_steps_by_other(view, err);
    return lw_steps_by_action(view, err);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    /* Until it is known what the rows are. */
    static const struct lw_column none = { "step", "step", LW_UNIT_COUNT, false };
    struct lw_steps_view view = { .profile = profile, .query = query, .table = table };
    bool *threads = NULL;
    bool done;

    lw_table_init(table, &none, 1);
    done = lw_query_threads(query, profile, &threads, err) &&
           lw_steps_choose_rank(profile, query, &threads, err) &&
           lw_steps_init(&view.steps, profile, threads, err) && fill(&view, err);
    if (done) {
        lw_analysis_note_losses(profile, table);
        done = lw_analysis_arrange(table, query, err);
    }
    lw_steps_release(&view.steps);
    lw_free(threads);
    return done;
}

const struct lw_analysis lw_analysis_steps = {
    .name = "steps",
    .summary = "how long a training step takes, and where that time goes",
    .want = LW_WANT_PHASES | LW_WANT_SAMPLES,
    .sorts_columns = true,
    .by = "action|step|other|worker",
    .takes_restrictions = true,
    .usual_rows = 40,
    .run = run,
    .run_pair = lw_steps_diff,
};
