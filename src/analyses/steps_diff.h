/* What changed in the steps of a training from one run to another: `report --diff A B
 * steps`. */
#ifndef LW_ANALYSES_STEPS_DIFF_H
#define LW_ANALYSES_STEPS_DIFF_H

#include "model/query.h"
#include "model/table.h"

/* As lw_analysis.run_pair. */
bool lw_steps_diff(const struct lw_profile *before, const struct lw_profile *after,
                   const struct lw_query *query, struct lw_table *table,
                   struct lw_error *err) LW_MUST_CHECK;

#endif
