/* The part of op_tree.c that says how much memory each op took. */
#ifndef LW_ANALYSES_OP_TREE_MEMORY_H
#define LW_ANALYSES_OP_TREE_MEMORY_H

#include "analyses/op_tree.h"

/* Fill the memory of TREE, whose events are nested and merged, if any was recorded. */
bool lw_op_tree_add_memory(struct lw_op_tree *tree, struct lw_error *err) LW_MUST_CHECK;

#endif
