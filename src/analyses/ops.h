/* torch's key_averages() of a trace, beyond what a view of it shows. */
#ifndef LW_ANALYSES_OPS_H
#define LW_ANALYSES_OPS_H

#include "analyses/trace_scope.h"

/* How many functions of a stack tell ops apart if nobody says. */
#define LW_OPS_STACK_DEPTH 5

/* Fill TABLE with what key_averages() yields, under its own names and in its units (times
 * are doubles of µs), in the order of QUERY's columns or else of the first events; but for
 * sorting, nothing of it is left out. With IS_EXACT stacks of backward ops are those
 * that torch finds, which may be any op's (pytorch 2.13, EventList._set_backward_stacktraces
 * takes the first op of a sequence number); else the right ones. There is a column of
 * memory, of FLOPs or of a device only if torch would print one. */
bool lw_ops_torch(const struct lw_profile *profile, const struct lw_query *query,
                  bool is_exact, struct lw_table *table, struct lw_error *err)
    LW_MUST_CHECK;

#endif
