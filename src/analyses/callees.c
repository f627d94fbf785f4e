/* What each function calls, and how its total time divides among that. */

#include "analyses/neighbours.h"

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    return lw_neighbours_run(profile, query, false, table, err);
}

const struct lw_analysis lw_analysis_callees = {
    .name = "callees",
    .summary = "what each function calls, and what these calls take",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .sort = "cumulative",
    .takes_restrictions = true,
    .usual_rows = 15,
    .run = run,
};
