/* Ops of one kind added up: by their names, and maybe by the shapes of their inputs or by
 * where they were called from. */
#ifndef LW_ANALYSES_OP_ROWS_H
#define LW_ANALYSES_OP_ROWS_H

#include "analyses/op_stacks.h"

enum lw_op_rows_by {
    LW_OP_ROWS_BY_NAME,
    LW_OP_ROWS_BY_SHAPE,
    LW_OP_ROWS_BY_STACK,
};

struct lw_op_rows_options {
    enum lw_op_tree_kind kind;
    enum lw_op_rows_by by;
    enum lw_op_stacks_kind stacks;
    size_t stack_depth; /* how many functions of a stack tell rows apart; 0: all */
};

struct lw_op_row {
    lw_string_id name; /* of the first one: "ProfilerStep#3" stands for all steps */
    uint8_t kind;      /* enum lw_event_kind */
    bool is_step;
    bool is_for_tc;
    bool has_stack;     /* any of them */
    lw_string_id place; /* its shapes or stack, in the rows' `texts` */
    uint32_t first;     /* the event that begins first */
    uint64_t calls;
    int64_t host_self_ns;
    uint64_t host_ns;
    double host_us, host_self_us; /* for LW_OP_TREE_TORCH, as torch adds up */
    uint64_t device_self_ns, device_ns;
    uint64_t tc_self_ns, tc_ns; /* of those on tensor cores */
    struct lw_op_memory host_memory, device_memory;
    uint64_t flops;      /* as torch counts them */
    uint64_t more_flops; /* those it does not (op_flops.h) */
};

struct lw_op_rows {
    struct lw_op_tree tree;
    struct lw_strings *texts; /* owned */
    struct lw_op_row *list;   /* owned; in the order of their first events */
    size_t count, capacity;
    bool has_device, has_memory, has_device_memory, has_shapes, has_stacks;
    int64_t host_self_ns;    /* of all */
    uint64_t device_self_ns; /* likewise; of rows that ran on a device, if there are */
};

/* What QUERY asks for. */
enum lw_op_rows_by lw_op_rows_by(const struct lw_query *query);

/* Of SCOPE, which stays. With LW_OP_TREE_TORCH kernels and what else ran on a device are
 * rows, too; with LW_OP_TREE_TB only ops are. Release in any case. */
bool lw_op_rows_init(struct lw_op_rows *rows, const struct lw_trace_scope *scope,
                     const struct lw_op_rows_options *options, struct lw_error *err)
    LW_MUST_CHECK;
void lw_op_rows_release(struct lw_op_rows *rows); /* zeroed is fine */

#endif
