/* How many floating-point operations an op is, from the shapes of its inputs.
 *
 * torch counts those of conv2d, mm, addmm, bmm, baddbmm, add and mul (with_flops=True).
 * What it leaves out is counted apart, with the formulas of its own
 * torch.utils.flop_counter: backward convolutions, attention (forward and backward; all of
 * the scores, as if no mask were causal), convolutions of one and three dimensions, and
 * scaled mm. */
#ifndef LW_ANALYSES_OP_FLOPS_H
#define LW_ANALYSES_OP_FLOPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum lw_flops_formula {
    LW_FLOPS_NONE, /* there is none for such an op */
    LW_FLOPS_CONV2D,
    LW_FLOPS_MM,
    LW_FLOPS_ADDMM,
    LW_FLOPS_BMM,
    LW_FLOPS_BADDBMM,
    LW_FLOPS_EACH, /* add, mul: one for each element of the first input */
    LW_FLOPS_MORE, /* those that torch does not count follow */
    LW_FLOPS_CONV_BACKWARD = LW_FLOPS_MORE,
    LW_FLOPS_CONV, /* of any number of dimensions */
    LW_FLOPS_ATTENTION,
    LW_FLOPS_ATTENTION_BACKWARD,
    LW_FLOPS_FLASH, /* the same, but heads are the third dimension, not the second */
    LW_FLOPS_FLASH_BACKWARD,
    LW_FLOPS_SCALED_MM,
};

/* The formula for ops called NAME. */
enum lw_flops_formula lw_op_flops_formula(const char *name);

/* By FORMULA, for inputs of SHAPES ("[[64,3,224,224],[]]"), of which those that are no
 * tensors have VALUES ("[\"\",\"[1, 1]\"]"; may be empty). 0: it cannot be said. */
uint64_t lw_op_flops(enum lw_flops_formula formula, const char *shapes,
                     size_t shapes_len, const char *values, size_t values_len);

#endif
