/* How well each GPU was used: by its kernels, copies being no use of it.
 *
 *  - busy: the share of the time in which any kernel ran.
 *  - SM efficiency: the share of its multiprocessors that had a block, as far as the
 *    number of blocks tells: 1 if all running kernels have together a block for each.
 *  - occupancy: of the warps that a multiprocessor can hold, the mean over kernels' time.
 *  - tensor cores: the share of kernels' time in kernels that are known to use them.
 *
 * All are estimates, made by the profiler from how the kernels were launched. (The
 * definitions are torch_tb_profiler's, who made them; its tensor cores are of what its
 * ops launched, and it knows the names of fewer GPUs.) */
#ifndef LW_ANALYSES_GPU_USAGE_H
#define LW_ANALYSES_GPU_USAGE_H

#include "analyses/trace_scope.h"

/* A kernel that ran. */
struct lw_gpu_kernel {
    uint64_t start_ns, end_ns;
    uint32_t event; /* index */
    int32_t device; /* -1: not told */
};

/* Some time in which the same kernels ran, and their SM efficiency. */
struct lw_sm_range {
    uint64_t start_ns, end_ns;
    double efficiency; /* over 0, at most 1 */
};

struct lw_gpu_usage {
    uint32_t rank;                  /* index */
    int32_t device;                 /* -1: not told */
    const struct lw_trace_gpu *gpu; /* what is known of it; NULL: nothing */
    size_t first, count;            /* of its kernels */
    double busy_share;
    double sm_share; /* not a number: the trace does not tell, as all here */
    double occupancy_share;
    double tensor_share;
};

struct lw_gpu_usages {
    struct lw_gpu_kernel *kernels; /* owned: by rank, device and start */
    size_t kernel_count, kernel_capacity;
    struct lw_gpu_usage *list; /* owned: by rank and device */
    size_t count, capacity;
};

/* Add the GPUs of RANK, used from START_NS to END_NS. Nothing is added if it has no
 * kernels. USAGES is zeroed at first, and to be released. */
bool lw_gpu_usages_add(struct lw_gpu_usages *usages, const struct lw_profile *profile,
                       uint32_t rank, uint64_t start_ns, uint64_t end_ns,
                       enum lw_compat compat, struct lw_error *err) LW_MUST_CHECK;
void lw_gpu_usages_release(struct lw_gpu_usages *usages);

/* The SM efficiency of one of them over time; *RANGES is NULL if it is not told. Caller
 * frees. */
bool lw_gpu_sm_ranges(const struct lw_gpu_usages *usages,
                      const struct lw_gpu_usage *usage, const struct lw_trace *trace,
                      struct lw_sm_range **ranges, size_t *count, struct lw_error *err)
    LW_MUST_CHECK;

#endif
