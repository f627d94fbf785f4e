/* Where in the person's code each op comes from.
 *
 * An op carries the stack of Python functions that called it. One of the backward pass
 * was called by the engine, so its own stack only says where backward() was: what a person
 * wants is that of the op it is the gradient of.
 *
 *     conv2d  (model.py(12): forward ...)    <-- flow --   ConvolutionBackward0
 *                                                            aten::convolution_backward
 *
 * The trace has such flows. torch's own table goes by the first op that has the same
 * sequence number, which may be any op that needs no gradient: LW_OP_STACKS_TORCH. */
#ifndef LW_ANALYSES_OP_STACKS_H
#define LW_ANALYSES_OP_STACKS_H

#include "analyses/op_tree.h"

enum lw_op_stacks_kind {
    LW_OP_STACKS_OWN,
    LW_OP_STACKS_TORCH,
};

struct lw_op_stacks {
    const struct lw_op_tree *tree; /* borrowed */
    uint32_t *sources; /* owned: of each event, the one whose stack it has: itself, or
                          what it is the gradient of; LW_NONE: it has none */
};

/* TREE stays. Release in any case. */
bool lw_op_stacks_init(struct lw_op_stacks *stacks, const struct lw_op_tree *tree,
                       enum lw_op_stacks_kind kind, struct lw_error *err) LW_MUST_CHECK;
void lw_op_stacks_release(struct lw_op_stacks *stacks); /* zeroed is fine */

/* Append the innermost COUNT functions of EVENT's stack, leaf first, each with a newline
 * behind it but the last; 0: all. What only belongs to autograd's own calls is left out, as
 * torch does. */
void lw_op_stacks_add_text(const struct lw_op_stacks *stacks, uint32_t event,
                           size_t count, struct lw_buf *out);

#endif
