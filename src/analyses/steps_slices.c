#include "analyses/steps_slices.h"

#include "base/alloc.h"
#include "base/map.h"

bool lw_step_slices_add(struct lw_step_slices *slices, uint64_t start_ns,
                        uint32_t first_event, struct lw_error *err)
{
    struct lw_step_slice slice = { .start_ns = start_ns,
                                   .end_ns = start_ns,
                                   .last_ns = start_ns,
                                   .first_event = first_event };

    if (!lw_grow(&slices->list, &slices->capacity, slices->count + 1, sizeof(slice),
                 err))
        return false;
    slices->list[slices->count++] = slice;
    return true;
}

static bool trains_model(uint8_t role)
{
    return role == LW_ROLE_STEP_FORWARD || role == LW_ROLE_STEP_LOSS ||
           role == LW_ROLE_STEP_BACKWARD || role == LW_ROLE_STEP_OPTIMIZER;
}

void lw_slice_add_event(struct lw_step_slice *slice, const struct lw_step_event *event,
                        const struct lw_step_kind *kind)
{
    slice->event_count++;
    if (event->in_data || event->role == LW_ROLE_STEP_OWN)
        return;
    if (event->end_ns > slice->last_ns)
        slice->last_ns = event->end_ns;
    slice->backwards += event->role == LW_ROLE_STEP_BACKWARD;
    slice->updates += event->role == LW_ROLE_STEP_OPTIMIZER;
    slice->forwards +=
        event->role == LW_ROLE_STEP_FORWARD || event->role == LW_ROLE_STEP_LOSS;
    slice->evals += event->role == LW_ROLE_STEP_EVAL;
    if (event->role == LW_ROLE_STEP_EVAL &&
        slice->forwards + slice->backwards + slice->updates == 0) {
        if (slice->lead_evals++ == 0)
            slice->lead_start_ns = event->start_ns;
        slice->lead_count = slice->event_count;
        slice->lead_end_ns = event->end_ns;
        slice->begin_ns = 0;
    }
    if (event->role == LW_ROLE_STEP_ZERO_GRAD &&
        slice->forwards + slice->backwards + slice->updates + slice->evals == 0)
        slice->zeroed_ns = event->end_ns;
    if (!slice->begin_ns &&
        (trains_model(event->role) || event->role == LW_ROLE_STEP_ZERO_GRAD ||
         event->role == LW_ROLE_STEP_TRANSFER))
        slice->begin_ns = event->start_ns;
    if (trains_model(event->role))
        slice->signature =
            lw_hash_u64(slice->signature ^ ((uint64_t)event->role << 32 | kind->of));
}

enum lw_slice_class lw_slice_class_of(const struct lw_step_slice *slice)
{
    if (slice->backwards + slice->updates > 0)
        return LW_SLICE_TRAIN;
    return slice->evals + slice->forwards > 0 ? LW_SLICE_EVAL : LW_SLICE_EMPTY;
}

bool lw_steps_add_step(struct lw_step_track *track, const struct lw_step *given,
                       struct lw_error *err)
{
    struct lw_step step = *given;

    if (!lw_grow(&track->steps, &track->step_capacity, track->step_count + 1,
                 sizeof(step), err))
        return false;
    for (size_t i = track->step_count; i-- > 0;)
        if (track->steps[i].is_eval == step.is_eval) {
            step.index = track->steps[i].index + 1;
            break;
        }
    track->steps[track->step_count++] = step;
    return true;
}
