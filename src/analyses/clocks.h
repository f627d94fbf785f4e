/* How far the clocks of a job's ranks are apart, by collectives: nobody leaves one before
 * the last has come, so it ends for all at about the same moment.
 *
 * A rank's difference is the median over the collectives that it shares with the first
 * rank, or with one whose difference is known. Ends are some microseconds apart on one
 * clock, too, and what is within that is no difference: those ranks stay as they are. */
#ifndef LW_ANALYSES_CLOCKS_H
#define LW_ANALYSES_CLOCKS_H

#include "analyses/collectives.h"

struct lw_clock {
    int64_t offset_ns;   /* to be added to its times */
    int64_t measured_ns; /* the median, which may be too small to be believed */
    uint64_t spread_ns;  /* how far from that the half of the ends is, at most */
    size_t count;        /* of collectives; 0: it shares none, nothing is known */
};

/* One for each rank of the trace; caller frees. NULL: no memory. */
struct lw_clock *lw_clocks_new(const struct lw_collectives *all, struct lw_error *err);

/* The time TIME_NS of a rank with CLOCK, as the first rank has it. */
static inline int64_t lw_clock_time(const struct lw_clock *clock, uint64_t time_ns)
{
    return (int64_t)(time_ns + (uint64_t)clock->offset_ns);
}

#endif
