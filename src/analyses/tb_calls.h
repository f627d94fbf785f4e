/* Which op a call into a device's runtime belongs to, as torch_tb_profiler has it: the one
 * with the same "External id". (Up to torch 2.2 a call carries its correlation there,
 * which is no op's: it belongs to nobody then, or to the wrong one.) */
#ifndef LW_ANALYSES_TB_CALLS_H
#define LW_ANALYSES_TB_CALLS_H

#include "analyses/op_tree.h"
#include "base/map.h"

struct lw_tb_calls {
    const struct lw_op_tree *tree; /* borrowed: whose events it is about */
    struct lw_map externals;       /* which of them has an id; its index + 1 */
    uint32_t *without_id; /* owned: of each rank, the first event without an id */
};

/* The events of TREE are nested. Release in any case. */
bool lw_tb_calls_init(struct lw_tb_calls *calls, const struct lw_op_tree *tree,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_tb_calls_release(struct lw_tb_calls *calls); /* zeroed is fine */

/* LW_NONE: nobody. */
uint32_t lw_tb_calls_owner(const struct lw_tb_calls *calls, uint32_t call);

#endif
