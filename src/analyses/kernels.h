/* The parts of `kernels` that have files of their own. */
#ifndef LW_ANALYSES_KERNELS_H
#define LW_ANALYSES_KERNELS_H

#include "analyses/kernel_groups.h"

/* --by copy: copies and memsets by direction, with bytes and bandwidth. */
bool lw_kernels_by_copy(const struct lw_trace_scope *scope,
                        const struct lw_query *query, struct lw_table *table,
                        struct lw_error *err) LW_MUST_CHECK;

/* What Holistic Trace Analysis counts, by rank and name. */
bool lw_kernels_add_hta(const struct lw_trace_scope *scope,
                        struct lw_kernel_groups *groups, struct lw_error *err)
    LW_MUST_CHECK;

#endif
