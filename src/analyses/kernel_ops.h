/* For which op a kernel counts. */
#ifndef LW_ANALYSES_KERNEL_OPS_H
#define LW_ANALYSES_KERNEL_OPS_H

#include "analyses/askers.h"
#include "analyses/op_tree.h"
#include "analyses/tb_events.h"

/* In place of a name: torch_tb_profiler's "CallTreeRoot", which has what no call of the
 * trace launched. */
#define LW_KERNEL_ROOT LW_NONE

struct lw_kernel_ops {
    const struct lw_trace_scope *scope; /* borrowed */
    bool as_tb;
    struct lw_askers askers; /* ours: the nearest op around the call */
    struct lw_op_tree tree; /* the plugin's: the op that has the call's "External id" */
    struct lw_tb_events tb; /* likewise */
    unsigned *root_times;   /* likewise, owned: of each rank, how often what no call
                                launched is listed */
};

/* SCOPE stays. Release in any case. */
bool lw_kernel_ops_init(struct lw_kernel_ops *ops, const struct lw_trace_scope *scope,
                        enum lw_compat compat, struct lw_error *err) LW_MUST_CHECK;
void lw_kernel_ops_release(struct lw_kernel_ops *ops); /* zeroed is fine */

/* The name of the op of EVENT, which is a kernel's index; 0: none. *TIMES: how often it
 * is to be counted for it. */
lw_string_id lw_kernel_op(struct lw_kernel_ops *ops, uint32_t event, unsigned *times);

#endif
