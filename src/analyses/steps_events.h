/* What steps are made of: the phases that one thread announced, as a forest in order of
 * time. Private to the files steps_*.c. */
#ifndef LW_ANALYSES_STEPS_EVENTS_H
#define LW_ANALYSES_STEPS_EVENTS_H

#include "analyses/steps.h"

enum lw_step_role {
    LW_ROLE_STEP_OWN, /* a word of the program's own */
    LW_ROLE_STEP_DATA,
    LW_ROLE_STEP_FETCH,
    LW_ROLE_STEP_COLLATE,
    LW_ROLE_STEP_TRANSFER,
    LW_ROLE_STEP_FORWARD,
    LW_ROLE_STEP_LOSS,
    LW_ROLE_STEP_BACKWARD,
    LW_ROLE_STEP_OPTIMIZER,
    LW_ROLE_STEP_ZERO_GRAD,
    LW_ROLE_STEP_EVAL,
    /* No phases: */
    LW_ROLE_STEP_PASS, /* a pass over a loader begins */
    LW_ROLE_STEP_MARK, /* lapwing.step(): bounds */
};

/* One frame of LW_FRAME_PHASE: what was called, of whom. */
struct lw_step_kind {
    lw_string_id name, of;
    uint16_t phase; /* to which its time goes, unless it is in "data" */
    uint8_t role;   /* enum lw_step_role */
};

struct lw_step_event {
    uint64_t start_ns, end_ns; /* not beyond its parent's */
    uint32_t kind;             /* index */
    uint32_t parent;           /* index of an event of the same thread; LW_NONE: none */
    uint8_t role;
    bool in_data; /* something around it is "data" */
};

/* Of one thread; borrowed from what holds them all. */
struct lw_step_events {
    struct lw_step_event *list; /* by start, the outer one first; phases alone */
    size_t count;
    const struct lw_step_event *passes, *marks; /* by start */
    size_t pass_count, mark_count;
    const struct lw_step_kind *kinds;
    size_t kind_count;
    bool is_killed; /* the process did not end by itself, or has not ended */
    uint64_t hole_start_ns, hole_end_ns; /* spans in there are missing; 0: none */
};

static inline bool lw_step_event_trains(const struct lw_step_event *event)
{
    return !event->in_data && (event->role == LW_ROLE_STEP_BACKWARD ||
                               event->role == LW_ROLE_STEP_OPTIMIZER);
}

/* Where the steps of the thread are, into TRACK: all of them but what phases they have. */
bool lw_steps_find_bounds(struct lw_step_track *track,
                          const struct lw_step_events *events, struct lw_error *err)
    LW_MUST_CHECK;
/* Then its pieces, the times of its steps, and its calls. */
bool lw_steps_find_pieces(struct lw_step_track *track,
                          const struct lw_step_events *events, size_t phase_count,
                          struct lw_error *err) LW_MUST_CHECK;

#endif
