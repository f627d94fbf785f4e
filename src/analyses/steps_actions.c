/* The table of actions: what a step takes, of which phase, for which call of it. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "action", "action", LW_UNIT_TEXT, true },
    { "step_ns", "a step", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "call_ns", "a call", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "p50_ns", "p50", LW_UNIT_NS, false },
    { "p90_ns", "p90", LW_UNIT_NS, false },
    { "p99_ns", "p99", LW_UNIT_NS, false },
    { "max_ns", "max", LW_UNIT_NS, false },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

#define OTHER_ROWS 3     /* functions below "other"; --by other shows all */
#define OTHER_SHARE 0.01 /* of the training; less is not worth a row */
#define OTHER_SAMPLES 3  /* fewer may be chance */
#define SLOW_STEPS 3     /* that are named */
#define SLOW_TIMES 1.5   /* the median: what others took, and half of that again */
#define SLOW_MIN_STEPS 5 /* of fewer there is no usual */

/* The steps of one kind of a track. */
struct part {
    struct lw_steps_view *view;
    const struct lw_step_track *track;
    bool is_eval;
    size_t count;
    uint64_t ns;
};

/* ---- rows --------------------------------------------------------------------------- */

static void add_row(struct part *part, uint32_t depth, const char *name, uint64_t calls,
                    uint64_t ns)
{
    struct lw_table *table = part->view->table;

    lw_table_row(table, depth);
    lw_table_add_text(table, name, strlen(name));
    lw_table_add_integer(table, (int64_t)(ns / part->count));
    lw_analysis_add_share(table, (double)ns, (double)part->ns);
    if (calls > 0) {
        lw_table_add_integer(table, (int64_t)calls);
        lw_table_add_integer(table, (int64_t)(ns / calls));
    } else {
        lw_table_add_none(table);
        lw_table_add_none(table);
    }
    lw_table_add_integer(table, (int64_t)ns);
}

static bool add_spread(struct part *part, uint16_t phase, struct lw_error *err)
{
    size_t count;
    double *sorted = lw_steps_sorted_ns(part->track, part->is_eval, phase, &count, err);

    if (!sorted)
        return false;
    lw_steps_add_spread(part->view->table, sorted, count);
    lw_free(sorted);
    return true;
}

/* Is CALL one of the phase itself? Zeroing gradients is the optimizer's time, and no step
 * of it; what fetches a batch is in the loader's. */
static bool is_phase_itself(const struct part *part, const struct lw_step_call *call)
{
    const char *name = lw_profile_text(part->view->profile, call->name);

    return call->phase >= LW_PHASE_OWN ||
           strcmp(name, part->view->steps.phases[call->phase].text) == 0 ||
           (call->phase == LW_PHASE_FORWARD && strcmp(name, "eval") == 0);
}

/* One row for each class that was called, where there are several. */
static void add_calls(struct part *part, uint16_t phase)
{
    const struct lw_step_track *track = part->track;
    const struct lw_profile *profile = part->view->profile;
    size_t kinds = 0;
    struct lw_buf text;

    for (size_t i = 0; i < track->call_count; i++)
        kinds +=
            track->calls[i].phase == phase && track->calls[i].is_eval == part->is_eval;
    if (kinds < 2)
        return;
    lw_buf_init(&text, 0);
    for (size_t i = 0; i < track->call_count; i++) {
        const struct lw_step_call *call = &track->calls[i];
        const char *name = lw_profile_text(profile, call->name);
        const char *of = lw_profile_text(profile, call->of);

        if (call->phase != phase || call->is_eval != part->is_eval)
            continue;
        lw_buf_reset(&text);
        if (!is_phase_itself(part, call) || !*of)
            lw_buf_addf(&text, "%s%s", name, *of ? " " : "");
        lw_buf_add_text(&text, of);
        if (!part->is_eval && strcmp(name, "eval") == 0)
            lw_buf_add_text(&text, " (no grad)");
        add_row(part, 2, lw_analysis_text(part->view->table, &text), call->count,
                call->ns);
    }
    lw_buf_release(&text);
}

static bool add_other(struct part *part, struct lw_error *err)
{
    struct lw_called_list calls = { 0 };
    struct lw_buf text;
    bool done = lw_steps_find_other(&calls, &part->view->steps, part->track,
                                    part->is_eval, err);

    lw_buf_init(&text, 0);
    for (size_t i = 0; done && i < calls.count && i < OTHER_ROWS; i++) {
        const struct lw_called *call = &calls.list[i];

        if ((double)call->ns < OTHER_SHARE * (double)part->ns ||
            call->samples < OTHER_SAMPLES)
            break;
        lw_buf_reset(&text);
        lw_called_add_name(&calls, call, &text);
        add_row(part, 2, lw_analysis_text(part->view->table, &text), 0, call->ns);
    }
    lw_buf_release(&text);
    lw_called_release(&calls);
    return done;
}

static uint64_t phase_ns(const struct lw_step_track *track, bool is_eval,
                         uint16_t phase)
{
    uint64_t ns = 0;

    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];

        if (step->is_eval == is_eval && !step->is_cut)
            ns += step->ns[phase];
    }
    return ns;
}

static uint64_t phase_calls(const struct part *part, uint16_t phase)
{
    uint64_t count = 0;

    for (size_t i = 0; i < part->track->call_count; i++) {
        const struct lw_step_call *call = &part->track->calls[i];

        if (call->phase == phase && call->is_eval == part->is_eval &&
            is_phase_itself(part, call))
            count += call->count;
    }
    return count;
}

static bool add_phase(struct part *part, uint16_t phase, struct lw_error *err)
{
    uint64_t ns = phase_ns(part->track, part->is_eval, phase),
             calls = phase_calls(part, phase);

    if (ns == 0 && calls == 0)
        return true;
    add_row(part, 1, part->view->steps.phases[phase].text, calls, ns);
    if (!add_spread(part, phase, err))
        return false;
    add_calls(part, phase);
    return phase != LW_PHASE_OTHER || add_other(part, err);
}

static bool add_part(struct part *part, struct lw_error *err)
{
    const struct lw_steps *steps = &part->view->steps;
    struct lw_buf name;

    if (part->count == 0)
        return true;
    lw_buf_init(&name, 0);
    lw_steps_add_who(&part->view->steps, part->track, &name);
    lw_buf_addf(&name, "%s%s", name.len ? ": " : "",
                part->is_eval ? "evaluation" : "training");
    add_row(part, 0, lw_analysis_text(part->view->table, &name), part->count, part->ns);
    lw_buf_release(&name);
    if (!add_spread(part, LW_PHASES_MAX, err))
        return false;
    for (uint16_t i = 0; i < LW_PHASE_OTHER; i++)
        if (!add_phase(part, i, err))
            return false;
    for (uint16_t i = LW_PHASE_OWN; i < steps->phase_count; i++)
        if (!add_phase(part, i, err))
            return false;
    return add_phase(part, LW_PHASE_OTHER, err);
}

/* What is between steps, such as after the last batch of an epoch, has a time and no
 * more. */
static void add_between(struct lw_steps_view *view, const struct lw_step_track *track)
{
    uint64_t ns = 0;
    struct lw_buf name;

    for (size_t i = 0; i + 1 < track->piece_count; i++)
        if (track->pieces[i].step == LW_NONE)
            ns += track->pieces[i + 1].start_ns - track->pieces[i].start_ns;
    if (ns == 0)
        return;
    lw_buf_init(&name, 0);
    lw_steps_add_who(&view->steps, track, &name);
    lw_buf_addf(&name, "%sbetween steps", name.len ? ": " : "");
    lw_table_row(view->table, 0);
    lw_table_add_text(view->table, lw_analysis_text(view->table, &name), name.len);
    for (size_t i = 1; i < 5; i++)
        lw_table_add_none(view->table);
    lw_table_add_integer(view->table, (int64_t)ns);
    lw_buf_release(&name);
}

/* ---- what is said of them ----------------------------------------------------------- */

/* Three digits: "41.5", "1,234". */
static void add_rate(struct lw_buf *out, double rate)
{
    if (rate >= 1000)
        lw_units_add_count(out, llround(rate));
    else
        lw_buf_addf(out, "%.3g", rate);
}

static void add_count(struct lw_buf *out, uint64_t count, const char *one,
                      const char *many)
{
    lw_units_add_count(out, (int64_t)count);
    lw_buf_addf(out, " %s", count == 1 ? one : many);
}

void lw_steps_add_pace(struct lw_buf *out, const struct lw_step_track *track)
{
    bool trains = track->train_count > 0;
    size_t count = trains ? track->train_count : track->eval_count;
    uint64_t ns = trains ? track->train_ns : track->eval_ns;

    if (count == 0) {
        lw_buf_add_text(out, "no step is whole");
        return;
    }
    add_count(out, count, trains ? "training step" : "step of evaluation",
              trains ? "training steps" : "steps of evaluation");
    if (ns == 0)
        return;
    lw_buf_add_text(out, " of ");
    lw_units_add_ns(out, (int64_t)(ns / count));
    lw_buf_add_text(out, ", ");
    add_rate(out, (double)count * 1e9 / (double)ns);
    lw_buf_add_text(out, " steps/s");
    if (track->update_count > 0) {
        lw_buf_add_text(out, ", ");
        add_rate(out, (double)track->update_count * 1e9 / (double)ns);
        lw_buf_add_text(out, " updates/s");
    }
    if (track->epoch_count > 0) {
        lw_buf_add_text(out, ", ");
        add_count(out, track->epoch_count, "epoch", "epochs");
    }
}

void lw_steps_add_split(struct lw_buf *out, const struct lw_steps *steps,
                        const struct lw_step_track *track)
{
    bool is_eval = track->train_count == 0;
    uint64_t all_ns = is_eval ? track->eval_ns : track->train_ns;
    const char *before = "";

    for (size_t i = 0; i < steps->phase_count; i++) {
        /* "other" is the last, after the program's own. */
        size_t phase = i < LW_PHASE_OTHER           ? i
                       : i + 1 < steps->phase_count ? i + 1
                                                    : LW_PHASE_OTHER;
        uint64_t ns = phase_ns(track, is_eval, (uint16_t)phase);

        if (ns == 0)
            continue;
        lw_buf_addf(out, "%s%s ", before, steps->phases[phase].text);
        lw_units_add_share(out, (double)ns / (double)all_ns);
        before = ", ";
    }
}

static void set_title(struct lw_steps_view *view)
{
    const struct lw_steps *steps = &view->steps;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    if (steps->track_count == 1) {
        lw_steps_add_pace(&text, &steps->tracks[0]);
    } else {
        uint64_t count = 0;

        for (size_t i = 0; i < steps->track_count; i++)
            count += steps->tracks[i].train_count;
        add_count(&text, count, "training step", "training steps");
        lw_buf_addf(&text, " of %zu threads", steps->track_count);
    }
    lw_table_set_title(view->table, "where a step's time went: %s",
                       lw_analysis_text(view->table, &text));
    lw_buf_release(&text);
}

/* The slowest, if some are much slower than others, with what they spent it on. */
static bool note_slow(struct lw_steps_view *view, const struct lw_step_track *track,
                      struct lw_buf *text, struct lw_error *err)
{
    const struct lw_step *slowest[SLOW_STEPS] = { 0 };
    uint64_t medians[LW_PHASES_MAX + 1];

    if (track->train_count < SLOW_MIN_STEPS)
        return true;
    if (!lw_steps_medians(&view->steps, track, false, medians, err))
        return false;
    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];
        uint64_t ns = step->end_ns - step->start_ns;
        size_t at = SLOW_STEPS;

        if (step->is_eval || step->is_cut ||
            (double)ns < SLOW_TIMES * (double)medians[LW_PHASES_MAX])
            continue;
        while (at > 0 && (!slowest[at - 1] ||
                          ns > slowest[at - 1]->end_ns - slowest[at - 1]->start_ns)) {
            if (at < SLOW_STEPS)
                slowest[at] = slowest[at - 1];
            at--;
        }
        if (at < SLOW_STEPS)
            slowest[at] = step;
    }
    lw_buf_reset(text);
    lw_steps_add_who(&view->steps, track, text);
    lw_buf_addf(text, "%sSlowest: ", text->len ? ": " : "");
    for (size_t i = 0; i < SLOW_STEPS && slowest[i]; i++) {
        struct lw_slow_step slow = lw_steps_explain(&view->steps, slowest[i], medians);

        lw_buf_addf(text, "%sstep %u took ", i ? "; " : "", slowest[i]->index);
        lw_units_add_ns(text, (int64_t)slow.ns);
        lw_buf_add_text(text, ", ");
        lw_units_add_ns(text, (int64_t)slow.more_ns);
        lw_buf_addf(text, " more than usual in %s",
                    view->steps.phases[slow.phase].text);
        if (slowest[i]->is_first)
            lw_buf_addf(text, " (first of epoch %u)", slowest[i]->epoch);
    }
    if (slowest[0])
        lw_table_note(view->table, "%s.", lw_analysis_text(view->table, text));
    return true;
}

static void note_pace(struct lw_steps_view *view, const struct lw_step_track *track,
                      struct lw_buf *text)
{
    if (view->steps.track_count == 1)
        return;
    lw_buf_reset(text);
    lw_steps_add_who(&view->steps, track, text);
    lw_buf_add_text(text, ": ");
    lw_steps_add_pace(text, track);
    lw_table_note(view->table, "%s.", lw_analysis_text(view->table, text));
}

static void note_bound(struct lw_steps_view *view, const struct lw_step_track *track)
{
    static const char *const sentences[] = {
        [LW_BOUND_MARKS] = "A step goes from one lapwing.step() to the next.",
        [LW_BOUND_DATA] = "A step goes from one batch of the loader to the next.",
        [LW_BOUND_OPTIMIZER] =
            ("No loader gave the batches: a step ends with the optimizer, or with the "
             "last of several that take turns."),
        [LW_BOUND_BACKWARD] =
            "Neither a loader nor an optimizer was seen: a step ends with backward.",
        [LW_BOUND_CALLS] = "Nothing was trained: each call of a model is a step.",
    };

    lw_table_note(view->table, "%s", sentences[track->bound]);
}

static bool note_all(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_steps *steps = &view->steps;
    size_t cut = 0, fewest = SIZE_MAX;
    struct lw_buf text;
    bool done = true;

    lw_buf_init(&text, 0);
    for (size_t i = 0; done && i < steps->track_count; i++) {
        const struct lw_step_track *track = &steps->tracks[i];

        note_pace(view, track, &text);
        done = note_slow(view, track, &text, err);
        cut += track->cut_count;
        if (track->train_count > 0 && track->train_count < fewest)
            fewest = track->train_count;
        if (track->eval_count > 0 && track->eval_count < fewest)
            fewest = track->eval_count;
    }
    lw_buf_release(&text);
    if (fewest < LW_P99_STEPS)
        lw_table_note(
            view->table,
            "p90 is shown from %d steps on, p99 from %d: the fewest here are %zu.",
            LW_P90_STEPS, LW_P99_STEPS, fewest);
    if (cut > 0)
        lw_table_note(view->table,
                      "Left out: %zu %s of which only a part is in the recording.", cut,
                      cut == 1 ? "step" : "steps");
    note_bound(view, &steps->tracks[0]);
    lw_table_note(view->table,
                  "Step by step: --by step --sort total. Functions in other time: --by "
                  "other. Who made the batches: --by worker.");
    return done;
}

bool lw_steps_by_action(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_steps *steps = &view->steps;

    lw_table_init(view->table, columns, COLUMN_COUNT);
    for (size_t i = 0; i < steps->track_count; i++) {
        const struct lw_step_track *track = &steps->tracks[i];
        struct part train = { .view = view,
                              .track = track,
                              .count = track->train_count,
                              .ns = track->train_ns };
        struct part eval = { .view = view,
                             .track = track,
                             .is_eval = true,
                             .count = track->eval_count,
                             .ns = track->eval_ns };

        if (!add_part(&train, err) || !add_part(&eval, err))
            return false;
        add_between(view, track);
    }
    set_title(view);
    return note_all(view, err);
}
