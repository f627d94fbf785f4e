/* Whose allocations are, as torch_tb_profiler tells it. */
#ifndef LW_ANALYSES_MEMORY_TB_H
#define LW_ANALYSES_MEMORY_TB_H

#include "analyses/memory_uses.h"
#include "analyses/op_tree.h"

struct lw_memory_tb {
    const struct lw_memory_uses *uses; /* borrowed */
    struct lw_op_tree tree;
    uint32_t *nodes; /* of each memory event: what of the tree it is in; LW_NONE */
};

/* Release in any case. */
bool lw_memory_tb_init(struct lw_memory_tb *tb, const struct lw_memory_uses *uses,
                       struct lw_error *err) LW_MUST_CHECK;
void lw_memory_tb_release(struct lw_memory_tb *tb); /* zeroed is fine */

/* The cell of who made the allocation at INDEX. */
void lw_memory_tb_op_cell(const struct lw_memory_tb *tb, size_t index,
                          struct lw_table *table);

#endif
