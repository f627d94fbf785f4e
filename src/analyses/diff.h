/* What changed from one profile to another: a table that needs two profiles, and so is
 * no row of analyses.def. */
#ifndef LW_ANALYSES_DIFF_H
#define LW_ANALYSES_DIFF_H

#include "model/query.h"
#include "model/table.h"

/* For each function of either profile its calls, self and total time in both, and how
 * much more it is in AFTER; functions that are in one only have no figures for the
 * other. QUERY selects from all of them. Its keys sort by the size of the change, in
 * either direction: by `time` what changed most in self time comes first.
 *
 * As lw_analysis.run: TABLE is not initialised yet, and always to be released. */
bool lw_diff_run(const struct lw_profile *before, const struct lw_profile *after,
                 const struct lw_query *query, struct lw_table *table,
                 struct lw_error *err) LW_MUST_CHECK;

#endif
