/* What the counters of `lapwing run` say of the time in which a program trained; and how
 * many processors it could use, and how many were in use meanwhile: what a change may
 * promise. */
#ifndef LW_ANALYSES_ADVICE_MACHINE_H
#define LW_ANALYSES_ADVICE_MACHINE_H

#include "analyses/steps.h"

struct lw_advice_window {
    const struct lw_profile *profile;
    uint64_t start_ns, end_ns;
};

/* The time of TRACK's steps. */
struct lw_advice_window lw_advice_window_of(const struct lw_profile *profile,
                                            const struct lw_step_track *track);

/* The mean of counter NAME in the window, of PROCESS or, with LW_NONE, whoever's series it
 * lies in; NAN: nobody counted it. */
double lw_advice_mean(const struct lw_advice_window *window, const char *name,
                      uint32_t process);
/* The largest that NAME was, and when; NAN: nobody counted it. */
double lw_advice_peak(const struct lw_advice_window *window, const char *name,
                      uint64_t *when_ns);

/* What NAME was of PROCESS at a time, and since when; NAN: it was not counted yet. */
double lw_advice_at(const struct lw_profile *profile, const char *name,
                    uint32_t process, uint64_t time_ns, uint64_t *since_ns);

struct lw_advice_machine {
    double cpus; /* of the machine, or what its container may use; NAN: not recorded */
    double own;  /* in use by the training's process, on average; NAN likewise */
    double family; /* and by its children too */
    double others; /* and by all that is neither */
};

/* In the time of TRACK's steps. */
struct lw_advice_machine lw_advice_machine_of(const struct lw_profile *profile,
                                              const struct lw_step_track *track);

#endif
