#include "analyses/kernel_ops.h"

#include <string.h>

#include "base/alloc.h"

/* The plugin puts what no call launched under the tree of each thread that has a step;
 * and a stream has one, too, where the device saw the steps (its bug 3). */
static bool find_roots(struct lw_kernel_ops *ops, struct lw_error *err)
{
    const struct lw_trace *trace = ops->scope->trace;

    ops->root_times = lw_zalloc(trace->rank_count + 1, sizeof(*ops->root_times), err);
    if (!ops->root_times || !lw_tb_events_init(&ops->tb, ops->scope->profile, err))
        return false;
    for (size_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];

        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (lw_tb_type(&ops->tb, &trace->events[i]) == LW_TB_STEP) {
                ops->root_times[track->rank]++;
                break;
            }
    }
    return true;
}

bool lw_kernel_ops_init(struct lw_kernel_ops *ops, const struct lw_trace_scope *scope,
                        enum lw_compat compat, struct lw_error *err)
{
    memset(ops, 0, sizeof(*ops));
    ops->scope = scope;
    ops->as_tb = compat == LW_COMPAT_TB;
    if (!ops->as_tb)
        return lw_askers_init(&ops->askers, scope->profile, err);
    return find_roots(ops, err) &&
           lw_op_tree_init(&ops->tree, scope, LW_OP_TREE_TB, err);
}

void lw_kernel_ops_release(struct lw_kernel_ops *ops)
{
    lw_askers_release(&ops->askers);
    lw_op_tree_release(&ops->tree);
    lw_tb_events_release(&ops->tb);
    lw_free(ops->root_times);
    memset(ops, 0, sizeof(*ops));
}

static bool is_launched(struct lw_kernel_ops *ops, uint32_t event)
{
    const struct lw_event *events = ops->scope->trace->events;

    return events[event].parent != LW_NONE &&
           lw_tb_type(&ops->tb, &events[events[event].parent]) == LW_TB_RUNTIME;
}

lw_string_id lw_kernel_op(struct lw_kernel_ops *ops, uint32_t event, unsigned *times)
{
    const struct lw_trace *trace = ops->scope->trace;
    uint32_t op;

    *times = 1;
    if (!ops->as_tb) {
        op = ops->askers.ops[event];
        return op == LW_NONE ? 0 : trace->events[op].name;
    }
    if (!is_launched(ops, event)) {
        *times = ops->root_times[trace->tracks[trace->events[event].track].rank];
        return LW_KERNEL_ROOT;
    }
    op = ops->tree.nodes[event].owner;
    if (op == LW_NONE)
        *times = 0;
    return op == LW_NONE ? 0 : trace->events[op].name;
}
