/* The works of a trace's devices in the order in which they ended: what was the last to
 * end by a time. */
#ifndef LW_ANALYSES_ENDED_H
#define LW_ANALYSES_ENDED_H

#include "model/profile.h"

struct lw_ended {
    const struct lw_trace *trace;
    uint32_t *works; /* owned: indexes of events, by rank, then by end */
    size_t count;
};

bool lw_ended_init(struct lw_ended *ended, const struct lw_trace *trace,
                   struct lw_error *err) LW_MUST_CHECK;
void lw_ended_release(struct lw_ended *ended); /* zeroed is fine */

/* The last that ended by TIME_NS on RANK (an index) is in `works` before this place, if
 * it is of that rank; from there on back they ended ever earlier. */
size_t lw_ended_by(const struct lw_ended *ended, uint32_t rank, uint64_t time_ns);

#endif
