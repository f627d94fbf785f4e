/* Several profiles as one.
 *
 * What is measured alike is put side by side: processes and threads stay apart, equal
 * strings, frames and stacks become one, and so trees and graphs add up when somebody
 * asks. Where the measurements differ (a run's calls and a .prof, which holds no tree),
 * all that can be added is the graph of functions and pairs, so each becomes that.
 *
 *     A.prof + B.prof     one graph: calls and times of equal functions and pairs added
 *     run + run           the processes of both; one tree, as all threads make it
 *     run + A.prof        one graph
 *
 * Runs may be of different hosts and days, whose clocks have nothing in common: every
 * profile's times are moved so that it begins with the first. */
#ifndef LW_MODEL_MERGE_H
#define LW_MODEL_MERGE_H

#include "model/builder.h"
#include "model/callgraph.h"

/* The COUNT profiles as one, which the caller frees; they are only looked at. Sums are
 * made in this order, and functions listed in the order of meeting. A fact that is not
 * the same everywhere lists its values; the fact "merged" is set. NULL: failed. */
struct lw_profile *lw_profile_merge(const struct lw_profile *const *profiles,
                                    size_t count, struct lw_error *err);

/* What AFTER has more than BEFORE of each function and pair (less: below zero), which the
 * caller frees. It is a graph: the paths, threads and times of two runs have nothing in
 * common. Calls are 0 unless both counted them. Facts are those of AFTER, and "before"
 * names the other. NULL: failed. */
struct lw_profile *lw_profile_subtract(const struct lw_profile *before,
                                       const struct lw_profile *after,
                                       struct lw_error *err);

/* Add the functions and pairs of GRAPH, as it names them: a stripped one adds files
 * without folders. */
bool lw_builder_add_graph(struct lw_builder *builder, const struct lw_callgraph *graph,
                          struct lw_error *err) LW_MUST_CHECK;

#endif
