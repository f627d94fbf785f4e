/* Time in which a GPU had nothing to do because the host came too late with the next
 * work, by what the host did instead.
 *
 *     host     [ __next__ .... ][ op ]     python     [ op ][launch]
 *     device   [ kernel ]                                        [ kernel ]
 *                        |loader|op..|.. python ......|op ........|
 *
 * Each moment of such a gap (idle_gaps.h, of a device as a whole) belongs to the innermost
 * that is open on the thread that launched what ended it. Where that thread does nothing
 * that the trace shows, as autograd's while the main one is at work and the other way
 * round, it is asked of the other of the two that launch most. Only gaps inside of steps
 * count. */
#ifndef LW_ANALYSES_LATE_HOST_H
#define LW_ANALYSES_LATE_HOST_H

#include "analyses/advice_trace.h"
#include "analyses/askers.h"
#include "analyses/idle_gaps.h"
#include "analyses/waits.h"
#include "base/map.h"

#define LW_LATE_LONG_NS 500000 /* a launch takes 5 us, the slowest usual op 100 */

enum lw_late_cause {
    LW_LATE_LOADER, /* in a DataLoader, whatever it did there */
    LW_LATE_WAIT,   /* in a call that waits for a device, which is done (waits.h) */
    LW_LATE_MEMORY, /* in a call that takes or gives back memory: cudaMalloc */
    LW_LATE_OPS,    /* in ops, or between their calls and the work */
    LW_LATE_LONG,   /* in one op or call for LW_LATE_LONG_NS or more without a break: it
                       computes on the host, or loads kernels for the first time */
    LW_LATE_PYTHON, /* in none of these */
    LW_LATE_CAUSES,
};

/* What the host did, added up. */
struct lw_late_group {
    uint8_t cause;     /* enum lw_late_cause */
    lw_string_id name; /* of the loader, the call, the op; of Python: of the function of
                          the person's own, else the range; 0: not known */
    uint64_t ns, count;
    uint64_t longest_ns; /* without a break, in one gap */
    uint32_t event;      /* index: what has that name, in the longest */
    uint32_t late;       /* index: the work that ended the longest */
};

struct lw_late_host {
    const struct lw_advice_trace *trace; /* borrowed */
    struct lw_idle_gaps gaps;
    struct lw_askers askers;
    struct lw_waits waits;
    uint32_t *ranges; /* owned: of each event the range, not a step's, that it is or is
                         in; LW_NONE */
    struct lw_late_group *groups; /* owned: by cause, the longest first */
    size_t group_count, group_capacity;
    struct lw_map map;
    uint64_t ns[LW_LATE_CAUSES];
    uint64_t optimizer_ns; /* of that of ops, what is inside of an optimizer's step */
    size_t device_count;   /* lanes that are devices */
    uint64_t lane_ns;      /* time of steps, once for each device of a rank: what all
                              times here are of */
};

/* TRACE stays. Release in any case. */
bool lw_late_host_init(struct lw_late_host *late, const struct lw_advice_trace *trace,
                       struct lw_error *err) LW_MUST_CHECK;
void lw_late_host_release(struct lw_late_host *late); /* zeroed is fine */

/* A rule's look(): FIND looks at what is found of ADVICE's trace. */
bool lw_late_host_look(struct lw_advice *advice,
                       bool (*find)(const struct lw_late_host *late,
                                    struct lw_error *err),
                       struct lw_error *err) LW_MUST_CHECK;

/* The share of CAUSE in the time of steps. */
static inline double lw_late_host_share(const struct lw_late_host *late,
                                        enum lw_late_cause cause)
{
    return late->lane_ns > 0 ? (double)late->ns[cause] / (double)late->lane_ns : 0;
}
/* NS of all gaps as what it was in the mean of a step, of one device. */
static inline int64_t lw_late_host_each(const struct lw_late_host *late, uint64_t ns)
{
    double steps_ns = (double)late->trace->step_ns / (double)late->trace->step_count;

    return (int64_t)((double)ns / (double)late->lane_ns * steps_ns);
}
/* The group of CAUSE with the most time; NULL: there is none. */
const struct lw_late_group *lw_late_host_most(const struct lw_late_host *late,
                                              enum lw_late_cause cause);

#endif
