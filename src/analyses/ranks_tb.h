/* What torch_tb_profiler's Distributed page is made from, for --compat tb.
 *
 * It knows ten names of ranges on the host as collectives, and takes for their kernels
 * what carries the range's own "External id", which nothing does that newer profilers
 * write: so its communication is mostly the time to launch some collectives, and their
 * kernels are computation. Matched are the n-th collectives of all ranks; if one rank has
 * fewer, it gives up. */
#ifndef LW_ANALYSES_RANKS_TB_H
#define LW_ANALYSES_RANKS_TB_H

#include "analyses/intervals.h"
#include "analyses/tb_events.h"
#include "analyses/trace_steps.h"

/* A collective, as it has them. */
struct lw_tb_node {
    uint64_t external;
    struct lw_interval span; /* on the host */
    uint32_t event;          /* index */
    uint32_t step;           /* index of a step; LW_NONE: in none */
    size_t first, count;     /* of its ranges */
};

/* When a node was at work: its span, and its kernels. */
struct lw_tb_range {
    struct lw_interval span;
    uint64_t transfer_ns; /* its end, but for waiting */
    uint64_t external;
    uint32_t node; /* index */
};

struct lw_tb_rank {
    struct lw_tb_node *nodes; /* owned, as all here; by start at the end */
    size_t node_count, node_capacity;
    struct lw_tb_range *ranges;
    size_t range_count, range_capacity;
    struct lw_intervals kernels, host, communication;
    struct lw_intervals overlap; /* of communication with kernels or, without any, with
                                    the host's work */
    struct lw_trace_steps steps;
    bool has_nccl, has_gloo;
};

struct lw_tb_ranks {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_tb_events events;
    struct lw_tb_rank *list; /* owned: of each rank */
    bool is_matched;         /* all ranks have the same collectives */
};

/* Release in any case. */
bool lw_tb_ranks_init(struct lw_tb_ranks *ranks, const struct lw_profile *profile,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_tb_ranks_release(struct lw_tb_ranks *ranks);

/* Index of the first node of RANK that starts at TIME_NS or later. */
size_t lw_tb_rank_node_at(const struct lw_tb_rank *rank, uint64_t time_ns);

#endif
