/* Gaps between pieces of work on a device, and why there was nothing to do.
 *
 *     host     [launch 1]              [launch 2]      [launch 3]
 *     stream        [ kernel 1 ]            [ kernel 2 .......... ]   [ kernel 3 ]
 *                              |-host wait-|                      |---|
 *
 * The host came too late if it began to launch what ended the gap when the gap had
 * already begun. Otherwise the work was queued: a short gap is what it takes to start the
 * next kernel, a long one has another reason (it waits for another stream, for memory). */
#ifndef LW_ANALYSES_IDLE_GAPS_H
#define LW_ANALYSES_IDLE_GAPS_H

#include "analyses/hta_events.h"
#include "analyses/trace_scope.h"

enum lw_idle_cause {
    LW_IDLE_HOST,
    LW_IDLE_KERNELS,
    LW_IDLE_OTHER,
    LW_IDLE_UNKNOWN, /* its launch is not in the trace */
    LW_IDLE_CAUSES,
};

/* Gaps shorter than this are taken for the start of the next kernel. Holistic Trace
 * Analysis's default. */
#define LW_IDLE_SHORT_NS 30000

/* A stream, or all streams of a device together. */
struct lw_idle_lane {
    uint32_t rank;  /* index */
    int32_t device; /* -1: not told */
    int64_t stream; /* -1: its track has no number, or there are several */
    uint32_t track; /* index; LW_NONE: several */
    bool is_part;   /* its device has a lane, too */
};

struct lw_idle_gap {
    uint32_t lane;  /* index */
    uint32_t event; /* what ended it: index */
    uint8_t cause;  /* enum lw_idle_cause */
    uint64_t start_ns;
    int64_t duration_ns; /* as Holistic Trace Analysis has it, negative for overlaps */
};

struct lw_idle_gaps {
    struct lw_idle_lane *lanes; /* owned; sorted by rank, device, then stream */
    size_t lane_count, lane_capacity;
    struct lw_idle_gap *gaps; /* owned; sorted by lane, then start */
    size_t gap_count, gap_capacity;
};

/* Of each stream and, where it has several, of each device. */
bool lw_idle_gaps_init(struct lw_idle_gaps *gaps, const struct lw_trace_scope *scope,
                       struct lw_error *err) LW_MUST_CHECK;
/* Of each stream number of a rank, as Holistic Trace Analysis has it. */
bool lw_idle_gaps_init_hta(struct lw_idle_gaps *gaps,
                           const struct lw_trace_scope *scope, struct lw_error *err)
    LW_MUST_CHECK;
void lw_idle_gaps_release(struct lw_idle_gaps *gaps); /* zeroed is fine */

#endif
