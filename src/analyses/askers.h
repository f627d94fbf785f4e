/* Who asked for an event: the op it is part of, and the line of the person's code.
 *
 * Found for all events in one pass from parents to children, since a stack in a hostile
 * file may be as deep as the file is long. */
#ifndef LW_ANALYSES_ASKERS_H
#define LW_ANALYSES_ASKERS_H

#include "model/profile.h"

struct lw_askers {
    const struct lw_profile *profile;
    uint32_t *ops;   /* owned: of each event the nearest op that it is, or that it or
                        its launch is in; LW_NONE: none */
    uint32_t *lines; /* owned: likewise the nearest Python function of the person's own
                        code, else of any */
};

/* PROFILE has a trace, and stays. */
bool lw_askers_init(struct lw_askers *askers, const struct lw_profile *profile,
                    struct lw_error *err) LW_MUST_CHECK;
void lw_askers_release(struct lw_askers *askers); /* zeroed is fine */

/* "train.py(12): step" for EVENT, from Python functions in the trace or the stack that
 * its op carries: *TEXT is borrowed. The length; 0: not known. */
size_t lw_askers_line(const struct lw_askers *askers, uint32_t event,
                      const char **text);

#endif
