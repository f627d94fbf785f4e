/* report ops --by forward of a recording: what the backward pass of each op took. */
#ifndef LW_ANALYSES_OPS_FORWARD_H
#define LW_ANALYSES_OPS_FORWARD_H

#include "analyses/analysis.h"

/* Fill TABLE. PROFILE is a recording with ops, and its origins were read. */
bool lw_ops_forward(const struct lw_profile *profile, const struct lw_query *query,
                    struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

#endif
