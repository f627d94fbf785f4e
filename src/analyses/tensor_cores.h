/* Which kernels ran on tensor cores, and which ops could have: by their names, since no
 * profiler tells. */
#ifndef LW_ANALYSES_TENSOR_CORES_H
#define LW_ANALYSES_TENSOR_CORES_H

#include "model/query.h"

/* Did the kernel NAME use tensor cores? torch_tb_profiler (LW_COMPAT_TB) knows those of
 * Volta to Ampere; ours, too, what Hopper, Blackwell and attention kernels are called. */
bool lw_tensor_core_kernel(const char *name, enum lw_compat compat);

/* Is the op NAME one that autocast runs in half precision, and so on tensor cores? (The
 * list is torch_tb_profiler's; an op that calls one of these is one, too.) */
bool lw_tensor_core_op(const char *name);

#endif
