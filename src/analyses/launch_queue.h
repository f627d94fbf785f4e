/* How long the queues of streams were: the part of `launch --by stream`. */
#ifndef LW_ANALYSES_LAUNCH_QUEUE_H
#define LW_ANALYSES_LAUNCH_QUEUE_H

#include "analyses/trace_scope.h"

void lw_launch_queue_columns(struct lw_table *table,
                             const struct lw_query *query); /* initialises TABLE */
/* A row for each stream to which something was launched. */
bool lw_launch_queue(const struct lw_trace_scope *scope, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

#endif
