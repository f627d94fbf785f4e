/* Kernels that are alike, added up: of one name; of one name that one op launched; or of
 * these that were launched in the same shape. */
#ifndef LW_ANALYSES_KERNEL_GROUPS_H
#define LW_ANALYSES_KERNEL_GROUPS_H

#include "analyses/trace_scope.h"
#include "base/map.h"

/* What makes kernels alike; what is not asked for is 0. No padding: it is hashed. */
struct lw_kernel_key {
    uint64_t rank; /* index; only if ranks are kept apart */
    int64_t registers;
    int64_t shared_bytes;
    lw_string_id name;
    lw_string_id op; /* 0: none */
    uint32_t grid[3];
    uint32_t block[3];
};

struct lw_kernel_group {
    struct lw_kernel_key key;
    uint64_t calls;
    int64_t total_ns;
    int64_t min_ns, max_ns;   /* may be negative as Holistic Trace Analysis has it */
    double mean_ns, squares;  /* the sum of squares of differences to the mean */
    double blocks, occupancy; /* for each ns of those that tell */
    double blocks_ns, occupancy_ns; /* how many ns these are of */
    uint8_t kind;                   /* enum lw_work_kind */
    bool on_tensor_cores;
};

struct lw_kernel_groups {
    struct lw_kernel_group *list; /* owned; as they were met */
    size_t count, capacity;
    struct lw_map map;
};

void lw_kernel_groups_release(struct lw_kernel_groups *groups); /* zeroed is fine */

/* The group of KEY, made if there is none. NULL: no memory. */
struct lw_kernel_group *lw_kernel_groups_get(struct lw_kernel_groups *groups,
                                             const struct lw_kernel_key *key,
                                             struct lw_error *err);
/* Add TIMES calls of DURATION_NS each, of which DETAIL (NULL: nothing) is known. */
void lw_kernel_group_add(struct lw_kernel_group *group, int64_t duration_ns,
                         const struct lw_work_detail *detail, unsigned times);
/* The standard deviation of a sample, in ns; 0 for one call. */
double lw_kernel_group_sd(const struct lw_kernel_group *group);

/* The longest first. */
void lw_kernel_groups_sort(struct lw_kernel_groups *groups);

#endif
