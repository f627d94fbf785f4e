/* Ranges that a person marked (record_function), as the devices saw them: how often, how
 * long, and how busy a device was in them. */
#ifndef LW_ANALYSES_OVERLAP_RANGES_H
#define LW_ANALYSES_OVERLAP_RANGES_H

#include "analyses/trace_scope.h"

void lw_overlap_ranges_columns(struct lw_table *table); /* initialises TABLE */
/* A row for each name, the longest time first. Fails where no device saw a range. */
bool lw_overlap_ranges(const struct lw_trace_scope *scope, const struct lw_query *query,
                       struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

#endif
