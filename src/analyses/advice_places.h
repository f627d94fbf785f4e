/* Lines of code in advice: which has the most of something, and how it is named. */
#ifndef LW_ANALYSES_ADVICE_PLACES_H
#define LW_ANALYSES_ADVICE_PLACES_H

#include "analyses/advice.h"

/* A line, and how much of something lies in it. */
struct lw_advice_place {
    lw_frame_id frame; /* 0: not known */
    double share;      /* of the time that was looked at, in that frame's function */
};

/* Of the function with the most of NS (one a frame; that of frame 0 does not count), the
 * line with the most. */
struct lw_advice_place lw_advice_find_most(const struct lw_profile *profile,
                                           const uint64_t *ns);

/* Where the time goes that TRACK's steps, of training or of evaluation, spend below
 * FUNCTION in no phase: in which line of the person's own code, else in which. */
bool lw_advice_find_hot(const struct lw_advice *advice,
                        const struct lw_step_track *track, bool is_eval,
                        lw_frame_id function, struct lw_advice_place *hot,
                        struct lw_error *err) LW_MUST_CHECK;

/* Which share of that time is spent below a function whose file IS_MEANT. */
bool lw_advice_share_in(const struct lw_advice *advice,
                        const struct lw_step_track *track, bool is_eval,
                        lw_frame_id function, bool (*is_meant)(const char *file),
                        double *share, struct lw_error *err) LW_MUST_CHECK;

/* "augment (data.py:45)" */
void lw_advice_add_place(struct lw_buf *out, const struct lw_profile *profile,
                         lw_frame_id frame);
/* Name FRAME's line as the one to change; 0: none. */
void lw_advice_set_place(struct lw_finding *finding, const struct lw_profile *profile,
                         lw_frame_id frame);

/* Add FINDING with EVIDENCE, which is released in any case, and FRAME's line as the one to
 * change; 0: none. */
bool lw_advice_add_at(struct lw_advice *advice, struct lw_finding *finding,
                      struct lw_buf *evidence, lw_frame_id frame, struct lw_error *err)
    LW_MUST_CHECK;

#endif
