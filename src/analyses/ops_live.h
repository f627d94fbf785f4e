/* report ops of a recording: ops that the agent saw, without torch's profiler. */
#ifndef LW_ANALYSES_OPS_LIVE_H
#define LW_ANALYSES_OPS_LIVE_H

#include "analyses/analysis.h"

/* Is PROFILE a recording of ours, with no window of torch's profiler in it? */
bool lw_ops_are_live(const struct lw_profile *profile);

/* Then fill TABLE. */
bool lw_ops_live(const struct lw_profile *profile, const struct lw_query *query,
                 struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

#endif
