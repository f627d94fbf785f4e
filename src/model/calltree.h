/* The calling-context tree of a profile: each way in which a function was reached, with
 * its calls and times, all chosen threads added up.
 *
 * The stacks of a profile are nearly that, but theirs may stand for lines: here a node's
 * children are distinct functions. A parent's number is smaller than its children's. */
#ifndef LW_MODEL_CALLTREE_H
#define LW_MODEL_CALLTREE_H

#include "model/callgraph.h"

struct lw_calltree_node {
    uint32_t parent;   /* node; the root's is itself */
    uint32_t depth;    /* 0: the root */
    lw_frame_id frame; /* of the function; one of those that were added up */
    uint64_t calls;    /* 0 in a tree of samples */
    uint64_t self_ns;
    uint64_t total_ns; /* with all below it */
    uint64_t samples;  /* likewise with all below; 0: of calls, or not counted */
};

struct lw_calltree {
    enum lw_graph_source source;    /* LW_GRAPH_CALLS or LW_GRAPH_SAMPLES */
    struct lw_calltree_node *nodes; /* owned; number 0 is the root, with no frame */
    size_t node_count;
};

/* From calls or samples (LW_GRAPH_ANY: the first of them that PROFILE has); a given
 * graph has no tree: LW_ERR_UNSUPPORTED. THREADS as for lw_callgraph_init. Release in
 * any case. */
bool lw_calltree_init(struct lw_calltree *tree, const struct lw_profile *profile,
                      enum lw_graph_source source, const bool *threads,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_calltree_release(struct lw_calltree *tree); /* zeroed is fine */

#endif
