/* The part of a callgraph's making that walks trees; for callgraph.c alone. */
#ifndef LW_MODEL_CALLGRAPH_TREE_H
#define LW_MODEL_CALLGRAPH_TREE_H

#include "model/callgraph.h"

/* Fill GRAPH's functions and edges (neither merged nor sorted yet) from its profile's
 * calls or samples. On failure what was filled is the graph's to release. */
bool lw_callgraph_walk(struct lw_callgraph *graph, const bool *threads,
                       struct lw_error *err) LW_MUST_CHECK;

#endif
