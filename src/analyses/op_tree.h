/* What ran on the host's threads, as a tree: what each op took itself and in all, on the
 * host, on devices, and of memory.
 *
 *     aten::linear  [......................................]   self: what no child has
 *     aten::addmm      [.............................]         child
 *     cudaLaunchKernel      [.....]                            child of it, and
 *     (stream)                        [sgemm .........]        aten::addmm's own work
 *
 * Whose definition it is says which events are in it. Of two that overlap but do not
 * nest neither is in the other (torch_tb_profiler drops the later one). An op that is the
 * only child of one of its own name is merged into it, as torch does. */
#ifndef LW_ANALYSES_OP_TREE_H
#define LW_ANALYSES_OP_TREE_H

#include "analyses/trace_scope.h"

enum lw_op_tree_kind {
    LW_OP_TREE_OWN,   /* ops, ranges, and calls into the runtime of a device */
    LW_OP_TREE_TORCH, /* all that torch's key_averages() counts: Python functions and the
                         profiler's overhead, too; memory of whatever thread */
    LW_OP_TREE_TB,    /* ops, steps, modules, DataLoaders, optimizers; a call belongs to
                         the op whose "External id" it has, its time to nobody */
    LW_OP_TREE_MODULES, /* ops and modules, nothing between them */
};

struct lw_op_memory {
    int64_t self_bytes;
    int64_t total_bytes;
};

/* Of one event. */
struct lw_op_node {
    bool is_in;      /* the tree; false: as little as if it were not there */
    bool is_for_tc;  /* an op that could run on tensor cores (lw_tensor_core_op()) */
    uint32_t parent; /* event; LW_NONE: none. Of a merged one: what it became part of */
    uint32_t
        owner; /* the nearest op, range (or module, if they are in the tree instead)
                        that it is or is in, or that a device's work is of; LW_NONE:
                        none */
    uint32_t child_count;
    int64_t host_self_ns; /* negative: its children overlap */
    uint64_t host_ns;
    uint64_t device_self_ns;
    uint64_t device_ns;
};

struct lw_op_tree {
    const struct lw_trace_scope *scope; /* borrowed */
    enum lw_op_tree_kind kind;
    bool is_lightning;                /* for LW_OP_TREE_TB, as in struct lw_tb_events */
    struct lw_op_node *nodes;         /* owned: one for each event */
    struct lw_op_memory *host_memory; /* owned, likewise; NULL: none was recorded */
    struct lw_op_memory *device_memory; /* likewise */
    uint64_t *tc_self_ns, *tc_ns;   /* owned, likewise: of device_*_ns on tensor cores;
                                           NULL: nothing ran on a device */
    double *host_us, *host_self_us; /* owned, likewise, for LW_OP_TREE_TORCH: as torch's
                                       doubles have it, to the last digit */
    uint64_t work_count;            /* of kernels, copies and memsets */
    uint64_t unlinked_count;        /* of those that belong to no op or range */
    uint64_t unlinked_ns;
};

/* Sums of numbers that a hostile file made up wrap around; they are wrong, but no more. */
static inline int64_t lw_op_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t lw_op_minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Is an op of that name the profiler's own doing, which torch leaves out? */
bool lw_op_tree_is_hidden(const char *name);

/* What is known of EVENT, if it is an op or range; NULL: nothing. */
static inline const struct lw_op_detail *lw_op_detail(const struct lw_trace *trace,
                                                      uint32_t event)
{
    const struct lw_event *e = &trace->events[event];

    return (e->kind == LW_EVENT_OP || e->kind == LW_EVENT_RANGE) && e->detail != LW_NONE
               ? &trace->ops[e->detail]
               : NULL;
}

/* SCOPE stays until the tree is released, which is to be done in any case. */
bool lw_op_tree_init(struct lw_op_tree *tree, const struct lw_trace_scope *scope,
                     enum lw_op_tree_kind kind, struct lw_error *err) LW_MUST_CHECK;
void lw_op_tree_release(struct lw_op_tree *tree); /* zeroed is fine */

/* Is EVENT a call of an nn.Module, as Python or as Lightning ("[pl][module]...") tells it?
 */
bool lw_op_tree_is_module(const struct lw_op_tree *tree, const struct lw_event *event);
/* Is EVENT an op as torch_tb_profiler lists them? */
bool lw_op_tree_is_tb_op(const struct lw_op_tree *tree, const struct lw_event *event);

#endif
