/* Calls in which the host stood until a device was done, and what they waited for.
 *
 *     host     ... [ cudaStreamSynchronize .......... ] ...
 *     stream       [ kernel ][ kernel ][ copy ]             the copy, and the kernel
 *
 * A call that synchronises is one whether it had to wait or not; a copy, or a free, only
 * if the device was still at work in it and done with it before the call was. What it
 * waited for is told by the trace where it has events of "cuda_sync"; else it is the
 * work, launched before, that ended last before the call did. */
#ifndef LW_ANALYSES_WAITS_H
#define LW_ANALYSES_WAITS_H

#include "model/profile.h"

struct lw_wait {
    uint32_t call; /* index of an event, as all here */
    uint32_t work; /* that it waited for; LW_NONE: it had not to wait, or the trace does
                        not show what for */
    uint32_t kernel; /* the last that ended in it: `work`, or what that waited for */
};

struct lw_waits {
    struct lw_wait *list; /* owned; in order of calls */
    size_t count, capacity;
};

/* Of all ranks of PROFILE's trace. Release in any case. */
bool lw_waits_init(struct lw_waits *waits, const struct lw_profile *profile,
                   struct lw_error *err) LW_MUST_CHECK;
void lw_waits_release(struct lw_waits *waits); /* zeroed is fine */

#endif
