/* Functions and caller-callee pairs with call counts and times, as pstats thinks.
 *
 * Made from a profile's call tree, its samples, or the graph it was given. Totals are
 * counted once a recursion: the tree's node of function f counts towards f's total (and
 * is a primitive call) only where no ancestor is f; a pair's total likewise counts only
 * where no ancestor pair is the same, as cProfile's subentries do. Several threads are
 * computed apart and added. */
#ifndef LW_MODEL_CALLGRAPH_H
#define LW_MODEL_CALLGRAPH_H

#include "model/profile.h"

struct lw_callgraph {
    const struct lw_profile *profile; /* borrowed: strings and frames */
    struct lw_graph_function *functions;
    size_t function_count;
    struct lw_graph_edge *edges; /* sorted by callee; of one callee in order of meeting */
    size_t edge_count;
    uint32_t *callers_start;  /* callee index -> first edge; function_count + 1 of them */
    struct lw_frame *frames;  /* by function: stripped or as they were; names in `extra` */
    struct lw_strings *extra; /* strings made here (stripped paths); NULL: none */
    double total_s;           /* sum of self times, as pstats' total_tt */
    int64_t total_calls;
    int64_t primitive_calls;
};

#endif
