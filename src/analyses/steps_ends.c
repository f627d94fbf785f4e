/* Steps without a loader: they end when an optimizer does, or, where several take turns,
 * the last of them. What was evaluated in between is apart. */

#include "analyses/steps_slices.h"
#include "base/alloc.h"

#define CYCLE_MAX 16    /* optimizers of one step: a GAN's critic may have ten */
#define CYCLE_SHARE 0.9 /* of the slices have to be as those a cycle before */

static bool slice_by_end(struct lw_step_slices *slices,
                         const struct lw_step_events *events, enum lw_step_role role,
                         struct lw_error *err)
{
    uint64_t end_ns = 0; /* of the last one that ended a slice */
    bool is_over = true;

    for (size_t i = 0; i < events->count; i++) {
        const struct lw_step_event *event = &events->list[i];
        struct lw_step_slice *slice;

        if (is_over && event->start_ns >= end_ns) {
            if (!lw_step_slices_add(slices, end_ns ? end_ns : event->start_ns,
                                    (uint32_t)i, err))
                return false;
            is_over = false;
        }
        slice = &slices->list[slices->count - 1];
        lw_slice_add_event(slice, event, &events->kinds[event->kind]);
        if (event->role == role && !event->in_data && !is_over) {
            end_ns = slice->end_ns = event->end_ns;
            slice->is_ended = true;
            is_over = true;
        }
    }
    return true;
}

/* Gradients are zeroed before a step or after it. If not even the first step has that
 * before it, it is the last thing that a step does. */
static void end_with_zeroing(struct lw_step_slices *slices)
{
    if (slices->count < 2 || slices->list[0].zeroed_ns)
        return;
    for (size_t i = 1; i < slices->count; i++)
        if (slices->list[i].zeroed_ns) {
            slices->list[i].start_ns = slices->list[i].zeroed_ns;
            slices->list[i - 1].end_ns = slices->list[i].zeroed_ns;
        }
}

/* After how many slices the same is called again: a GAN's two optimizers make one step. */
static size_t find_cycle(const struct lw_step_slice *slices, size_t slice_count)
{
    for (size_t cycle = 1; cycle <= CYCLE_MAX && 2 * cycle <= slice_count; cycle++) {
        size_t same = 0, count = slice_count - cycle;

        for (size_t i = 0; i < count; i++)
            same += slices[i].signature == slices[i + cycle].signature;
        if ((double)same >= CYCLE_SHARE * (double)count)
            return cycle;
    }
    return 1;
}

/* Steps that are bounded by the ends of optimizers, or of backwards. */
struct by_end {
    struct lw_step_track *track;
    const struct lw_step_events *events;
    const struct lw_step_slice *first;
    bool carves; /* calls of models without gradients, before a step, are evaluation */
};

/* Evaluation before a step: each batch of it from its data, or from the call that was the
 * first of the first batch, to the next. What was logged before it is the last step's. */
static bool add_lead(struct by_end *b, const struct lw_step_slice *slice,
                     struct lw_error *err)
{
    struct lw_step step = { .is_eval = true, .is_first = true };
    struct lw_step_track *track = b->track;
    bool is_open = false, has_call = false;
    uint32_t first_kind = LW_NONE;

    for (uint32_t i = 0; i < slice->lead_count; i++) {
        const struct lw_step_event *event = &b->events->list[slice->first_event + i];
        bool is_data = event->role == LW_ROLE_STEP_DATA;

        if (event->in_data || (!is_data && event->role != LW_ROLE_STEP_EVAL))
            continue;
        if (!is_data && first_kind == LW_NONE)
            first_kind = event->kind;
        if (has_call && (is_data || event->kind == first_kind)) {
            step.end_ns = event->start_ns;
            if (!lw_steps_add_step(track, &step, err))
                return false;
            step.is_first = is_open = has_call = false;
        }
        if (!is_open)
            step.start_ns = event->start_ns;
        if (step.is_first && !is_open && slice != b->first)
            track->steps[track->step_count - 1].end_ns = event->start_ns;
        is_open = true;
        has_call |= !is_data;
    }
    step.end_ns = slice->lead_end_ns;
    return lw_steps_add_step(track, &step, err);
}

/* The COUNT slices at SLICE are a step; what was evaluated before it is apart. */
static bool add_end_step(struct by_end *b, const struct lw_step_slice *slice,
                         size_t count, bool is_start, bool is_cut, struct lw_error *err)
{
    bool is_carved = b->carves && slice->lead_evals > 0;
    uint64_t begin_ns = slice->lead_evals ? slice->lead_start_ns : slice->begin_ns;
    struct lw_step step = {
        .start_ns = is_carved  ? slice->lead_end_ns
                    : is_start ? begin_ns
                               : slice->start_ns,
        .is_first = is_start,
        .is_cut = is_cut,
    };

    if (is_carved && !add_lead(b, slice, err))
        return false;
    if (lw_slice_class_of(slice) != LW_SLICE_TRAIN && slice->forwards == 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        step.updates += slice[i].updates;
        step.end_ns = is_cut ? slice[i].last_ns : slice[i].end_ns;
    }
    return lw_steps_add_step(b->track, &step, err);
}

bool lw_steps_bound_by_end(struct lw_step_track *track,
                           const struct lw_step_events *events, enum lw_step_role role,
                           struct lw_error *err)
{
    struct lw_step_slices slices = { 0 };
    struct by_end b = { .track = track, .events = events };
    bool done = slice_by_end(&slices, events, role, err);
    size_t with_evals = 0, step_count = 0, whole = slices.count, cycle;

    track->bound =
        role == LW_ROLE_STEP_OPTIMIZER ? LW_BOUND_OPTIMIZER : LW_BOUND_BACKWARD;
    if (done)
        end_with_zeroing(&slices);
    if (whole > 0 && !slices.list[whole - 1].is_ended)
        whole--;
    b.first = slices.list;
    cycle = find_cycle(slices.list, whole);
    for (size_t i = 0; i < whole; i += cycle, step_count++)
        with_evals += slices.list[i].lead_evals > 0;
    b.carves = step_count < 2 || 2 * with_evals <= step_count;
    for (size_t i = 0; done && i < whole; i += cycle) {
        size_t count = whole - i < cycle ? whole - i : cycle;

        done = add_end_step(&b, &slices.list[i], count, i == 0, count < cycle, err);
    }
    if (done && whole < slices.count)
        done = add_end_step(&b, &slices.list[whole], 1, whole == 0, true, err);
    lw_free(slices.list);
    return done;
}
