/* Calls that launch work on a device, with the work: how long the call took, how long
 * the work, and how long it was from the one to the other; and how much lay in the queue
 * of a stream.
 *
 *     host      [call ....]
 *     stream               |--- delay ---|[ kernel ....... ]
 *     queue     1 .......................  0 */
#ifndef LW_ANALYSES_LAUNCHES_H
#define LW_ANALYSES_LAUNCHES_H

#include "analyses/hta_events.h"
#include "analyses/trace_scope.h"

/* Holistic Trace Analysis's bounds for what stands out. */
#define LW_LAUNCH_SLOW_NS 50000  /* a call that takes longer */
#define LW_LAUNCH_LATE_NS 100000 /* work that starts later after its call */

struct lw_launch {
    uint32_t call; /* index, as the next */
    uint32_t work;
    int64_t call_ns;
    int64_t work_ns;
    int64_t
        delay_ns; /* from the end of the call to the start of the work; at least 0 */
};

static inline bool lw_launch_is_slow(const struct lw_launch *launch)
{
    return launch->call_ns > LW_LAUNCH_SLOW_NS;
}
static inline bool lw_launch_is_late(const struct lw_launch *launch)
{
    return launch->delay_ns > LW_LAUNCH_LATE_NS;
}
/* It took the host longer to ask for it than the device to do it. */
static inline bool lw_launch_is_short(const struct lw_launch *launch)
{
    return !lw_launch_is_slow(launch) && launch->work_ns < launch->call_ns;
}

struct lw_launches {
    struct lw_launch *list; /* owned */
    size_t count, capacity;
    size_t unknown_count; /* pieces of work whose call is not in the trace */
    size_t later_count;   /* and those of a call that are not its first (of a graph) */
};

/* Every call with the first work that it launched. */
bool lw_launches_init(struct lw_launches *launches, const struct lw_trace_scope *scope,
                      struct lw_error *err) LW_MUST_CHECK;
/* As Holistic Trace Analysis: of some calls of CUDA's, in its microseconds. */
bool lw_launches_init_hta(struct lw_launches *launches,
                          const struct lw_trace_scope *scope, struct lw_error *err)
    LW_MUST_CHECK;
void lw_launches_release(struct lw_launches *launches); /* zeroed is fine */

/* The queue of a stream grew or shrank by one. */
struct lw_queue_change {
    uint32_t rank;  /* index */
    int32_t device; /* -1: not told, or all */
    int64_t stream; /* -1: not a number */
    uint64_t time_ns;
    int8_t change;
};

struct lw_queue_changes {
    struct lw_queue_change *list; /* owned; by rank, device, stream, then time: what
                                     grows before what shrinks */
    size_t count, capacity;
};

bool lw_queue_changes_init(struct lw_queue_changes *changes,
                           const struct lw_trace_scope *scope, struct lw_error *err)
    LW_MUST_CHECK;
/* As Holistic Trace Analysis: some calls of CUDA's and HIP's, its microseconds. */
bool lw_queue_changes_init_hta(struct lw_queue_changes *changes,
                               const struct lw_trace_scope *scope, struct lw_error *err)
    LW_MUST_CHECK;
void lw_queue_changes_release(struct lw_queue_changes *changes); /* zeroed is fine */

#endif
