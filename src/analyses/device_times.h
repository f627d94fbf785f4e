/* When each device computed, communicated and moved data: the sets of time that
 * overlap, utilisation and idleness are about. */
#ifndef LW_ANALYSES_DEVICE_TIMES_H
#define LW_ANALYSES_DEVICE_TIMES_H

#include "analyses/intervals.h"
#include "analyses/trace_scope.h"
#include "analyses/work_kinds.h"

#define LW_WORK_KINDS 4 /* of enum lw_work_kind */

/* A device of a rank. */
struct lw_device_time {
    uint32_t rank;                           /* index */
    int32_t device;                          /* -1: not told */
    struct lw_intervals sets[LW_WORK_KINDS]; /* by enum lw_work_kind; that of NONE is
                                                of all work */
};

struct lw_device_times {
    struct lw_device_time *list; /* owned; sorted by rank, then device */
    size_t count;
};

/* Of the ranks in SCOPE. TIMES is to be released. */
bool lw_device_times_init(struct lw_device_times *times,
                          const struct lw_trace_scope *scope, struct lw_error *err)
    LW_MUST_CHECK;
void lw_device_times_release(struct lw_device_times *times); /* zeroed is fine */
/* NULL: it did no work. */
const struct lw_device_time *lw_device_times_find(const struct lw_device_times *times,
                                                  uint32_t rank, int32_t device);

/* Kinds as bits of a combination. */
enum lw_work_bit {
    LW_WORK_BIT_COMPUTATION = 1,
    LW_WORK_BIT_COMMUNICATION = 2,
    LW_WORK_BIT_MEMORY = 4,
};
#define LW_WORK_COMBINATIONS 8

/* How long exactly the kinds of each combination of bits ran at once. That of no bit is
 * the time between the first work and the last in which there was none. */
void lw_device_time_combine(const struct lw_device_time *time,
                            int64_t times_ns[LW_WORK_COMBINATIONS]);

#endif
