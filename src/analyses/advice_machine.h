/* How many processors a program could use, and how many were in use meanwhile: what a
 * change may promise. */
#ifndef LW_ANALYSES_ADVICE_MACHINE_H
#define LW_ANALYSES_ADVICE_MACHINE_H

#include "analyses/steps.h"

struct lw_advice_machine {
    double cpus; /* of the machine, or what its container may use; NAN: not recorded */
    double own;  /* in use by the training's process, on average; NAN likewise */
    double family; /* and by its children too */
    double others; /* and by all that is neither */
};

/* From the counters that `lapwing run` keeps, in the time of TRACK's steps. */
struct lw_advice_machine lw_advice_machine_of(const struct lw_profile *profile,
                                              const struct lw_step_track *track);

#endif
