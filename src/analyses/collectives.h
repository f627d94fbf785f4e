/* The collectives of a job: what each rank did of each, and which belong together.
 *
 *     rank 0   [ wait ............ | transfer ]     came first
 *     rank 1              [ wait . | transfer ]
 *     rank 2                       [ transfer ]     came last: the others waited for it
 *                                             ^     they end together
 *
 * A part is one kernel of a communication library (of gloo and MPI, which have none, the
 * range on the host). Parts of several ranks are one collective if they are the n-th of
 * their kind in their group in the same step; without steps, in the trace. What was
 * launched before the first step is counted backwards from there, since that is what the
 * ranks have in common. A send belongs to the receive of the same two ranks.
 *
 * The transfer is the least time that a rank took, the rest is waiting. No clocks are
 * compared for that. */
#ifndef LW_ANALYSES_COLLECTIVES_H
#define LW_ANALYSES_COLLECTIVES_H

#include "analyses/collective_names.h"
#include "model/profile.h"

enum lw_collective_role { LW_ROLE_PEER, LW_ROLE_SENDER, LW_ROLE_RECEIVER };

/* What one rank did of a collective. */
struct lw_collective_part {
    uint32_t event; /* index: the kernel or range */
    uint32_t rank;  /* index */
    uint8_t kind;   /* enum lw_collective_kind */
    uint8_t role;   /* enum lw_collective_role */
    lw_string_id name;
    lw_string_id group; /* name of its group; 0: not told */
    lw_string_id group_text;
    lw_string_id group_ranks;
    int64_t group_size;   /* -1: not told */
    int64_t source, sink; /* in the group, of a send or receive; -1: not told */
    int64_t bytes;        /* of the whole message; -1: not told */
    uint32_t when;        /* in which step, see collectives.c */
    lw_string_id step;    /* its name; 0: none */
    uint32_t order;       /* which of its like in that step */
};

/* Parts that belong together. */
struct lw_collective_match {
    uint32_t first, count; /* its parts, by rank */
    uint32_t last;         /* index of the part that took the least time */
    uint64_t transfer_ns;  /* that time */
    uint64_t longest_ns;
    uint64_t wait_ns; /* of all its parts together */
    int64_t size;     /* how many ranks take part, in the trace or not; 0: not known */
    int64_t bytes;    /* the largest message of them; -1: not told */
};

struct lw_collectives {
    const struct lw_trace *trace; /* borrowed */
    struct lw_collective_part *parts;
    size_t part_count, part_capacity;
    struct lw_collective_match *matches; /* in order of their first parts' end */
    size_t match_count, match_capacity;
    size_t ungrouped_count; /* parts of which the trace does not say the group */
};

/* Release in any case. */
bool lw_collectives_init(struct lw_collectives *all, const struct lw_profile *profile,
                         struct lw_error *err) LW_MUST_CHECK;
void lw_collectives_release(struct lw_collectives *all);

static inline uint64_t lw_collective_part_ns(const struct lw_collectives *all,
                                             const struct lw_collective_part *part)
{
    return all->trace->events[part->event].duration_ns;
}
/* How long it waited for others of MATCH. */
static inline uint64_t lw_collective_wait_ns(const struct lw_collectives *all,
                                             const struct lw_collective_match *match,
                                             const struct lw_collective_part *part)
{
    return lw_collective_part_ns(all, part) - match->transfer_ns;
}

/* Bytes a second that MATCH moved, and what every rank's link then carried, as nccl-tests
 * counts them; negative: not known. */
double lw_collective_bandwidth(const struct lw_collective_match *match);
double lw_collective_bus_bandwidth(const struct lw_collectives *all,
                                   const struct lw_collective_match *match);

#endif
