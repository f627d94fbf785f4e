/* The steps of a rank: "ProfilerStep#7", as torch.profiler's step() marks them.
 *
 * A step begins on the host and ends when all is done that it launched, which may be long
 * after the host has gone on; the next one begins there:
 *
 *     host       [ step 5 ........ ][ step 6 ........ ]
 *     device          [ of 5 ............ ][ of 6 ........... ]
 *     steps      [ 5 .....................][ 6 ...............]
 *
 * The last ones are left out if the recording ended before their work did: if they
 * launched nothing that was seen, or less than 0.8 of what the step before did. A trace
 * without steps is one step. (torch_tb_profiler's idea, which others follow: bounds of
 * the whole trace, then, are of its host.) */
#ifndef LW_ANALYSES_TRACE_STEPS_H
#define LW_ANALYSES_TRACE_STEPS_H

#include "model/profile.h"
#include "model/query.h"

struct lw_trace_step {
    lw_string_id name; /* "ProfilerStep#7"; 0: the trace has none, and this is all */
    int64_t number;    /* 7; -1: none */
    uint64_t host_start_ns, host_end_ns;
    uint64_t start_ns, end_ns; /* with what it launched */
    uint64_t latest_ns;        /* host_end_ns of it or of one before it, the latest */
    uint64_t work_count;       /* of kernels, copies and memsets that it launched */
};

struct lw_trace_steps {
    struct lw_trace_step *list; /* owned; sorted by host_start_ns */
    size_t count;               /* of those that are whole */
    size_t left_out;            /* of those behind them in the list */
    size_t capacity;
    bool is_marked; /* false: there are no steps, and the list has one */
};

/* The steps of RANK, which is an index. Release in any case. */
bool lw_trace_steps_init(struct lw_trace_steps *steps, const struct lw_profile *profile,
                         uint32_t rank, enum lw_compat compat, struct lw_error *err)
    LW_MUST_CHECK;
void lw_trace_steps_release(struct lw_trace_steps *steps); /* zeroed is fine */

/* The first step, of those left out too, that ends on the host after TIME_NS, if it has
 * begun by then; NULL: none. */
struct lw_trace_step *lw_trace_steps_at(const struct lw_trace_steps *steps,
                                        uint64_t time_ns);

#endif
