/* The events of a thread, cut into slices at what bounds its steps. Private to the files
 * steps_*.c. */
#ifndef LW_ANALYSES_STEPS_SLICES_H
#define LW_ANALYSES_STEPS_SLICES_H

#include "analyses/steps_events.h"

struct lw_step_slice {
    uint64_t start_ns, end_ns;
    uint64_t begin_ns; /* of the first event that may be of a training; 0: none */
    uint64_t last_ns;  /* when the last of its events ended, the program's own apart */
    uint64_t lead_start_ns, lead_end_ns; /* of evaluation before any training */
    uint64_t
        pass_ns; /* when a pass over a loader began, since the slice before; 0: none
                         did */
    uint64_t zeroed_ns;   /* when gradients were zeroed before any of these; 0: not */
    uint64_t signature;   /* of what was called for the training, in order */
    uint32_t first_event; /* index */
    uint32_t event_count;
    uint32_t backwards, updates, forwards, evals;
    uint32_t lead_evals; /* before any training in it */
    uint32_t lead_count; /* of its events: as far as the last of those */
    bool is_ended;       /* by what bounds it, not by the last event */
};

struct lw_step_slices {
    struct lw_step_slice *list; /* owned */
    size_t count, capacity;
};

/* What was done in it. */
enum lw_slice_class { LW_SLICE_EMPTY, LW_SLICE_TRAIN, LW_SLICE_EVAL };

/* Begin one at START_NS, whose first event has the index FIRST_EVENT. */
bool lw_step_slices_add(struct lw_step_slices *slices, uint64_t start_ns,
                        uint32_t first_event, struct lw_error *err) LW_MUST_CHECK;
void lw_slice_add_event(struct lw_step_slice *slice, const struct lw_step_event *event,
                        const struct lw_step_kind *kind);
enum lw_slice_class lw_slice_class_of(const struct lw_step_slice *slice);

/* Add GIVEN, which gets its index, to TRACK. */
bool lw_steps_add_step(struct lw_step_track *track, const struct lw_step *given,
                       struct lw_error *err) LW_MUST_CHECK;

/* Steps that end with each event of ROLE, or with the last of a cycle of them. */
bool lw_steps_bound_by_end(struct lw_step_track *track,
                           const struct lw_step_events *events, enum lw_step_role role,
                           struct lw_error *err) LW_MUST_CHECK;

#endif
