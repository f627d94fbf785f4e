/* Callers and callees are one table, seen from its two sides. */
#ifndef LW_ANALYSES_NEIGHBOURS_H
#define LW_ANALYSES_NEIGHBOURS_H

#include "analyses/analysis.h"

/* Each selected function, and below it those that call it (or that it calls), with the
 * calls and times of just these calls, the longest first. */
bool lw_neighbours_run(const struct lw_profile *profile, const struct lw_query *query,
                       bool callers, struct lw_table *table, struct lw_error *err)
    LW_MUST_CHECK;

#endif
