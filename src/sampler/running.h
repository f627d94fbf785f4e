/* What one copy of a stack tells: the functions on top that run for less time than it takes
 * to look twice. */
#ifndef LW_SAMPLER_RUNNING_H
#define LW_SAMPLER_RUNNING_H

#include "sampler/walking.h"

/* Note who was called by whom in a stack that held still. */
void lw_running_note(struct lw_walking *at);

/* Push the frames on top of those that held still, as copy WHICH has them. False: what was
 * on top is not known.
 *
 * A copy is not made in an instant, and what has returned is still there above the top. So
 * a frame counts if the one below waits at a call that is known to be of that function,
 * and the highest such is the one that runs, or has run a moment ago. One that is not
 * known to be called may be of a later moment: then it is not known who runs. */
bool lw_running_push(struct lw_walking *at, int which);

#endif
