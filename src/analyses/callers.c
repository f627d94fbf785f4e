/* Who calls each function, and how much of its time is on whose account. */

#include "analyses/neighbours.h"

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    return lw_neighbours_run(profile, query, true, table, err);
}

const struct lw_analysis lw_analysis_callers = {
    .name = "callers",
    .summary = "who calls each function, and what these calls take",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .sort = "cumulative",
    .takes_restrictions = true,
    .usual_rows = 15,
    .run = run,
};
