/* Who is known to call whom, and where: seen in a stack that held still, or noted by the
 * interpreter with the call itself.
 *
 * A copy of a stack that runs on may show a frame on top of one that never called it: the
 * lower was read before its function returned, the upper after another took its place. Such
 * pairs are recognised by not being among these. */
#ifndef LW_SAMPLER_EDGES_H
#define LW_SAMPLER_EDGES_H

#include "base/map.h"

struct lw_edge {
    uint32_t caller;     /* number of its code object */
    int32_t instruction; /* of the caller's, that calls */
    uint32_t callee;     /* likewise, or one of these: */
};

/* No code object has these numbers. */
#define LW_CALLS_ANY 0u            /* it calls somebody */
#define LW_CALLS_FROM_C UINT32_MAX /* it calls somebody by way of C */

/* No program has as many; one that makes functions without end may. */
#define LW_EDGES_MAX 250000u

struct lw_edges {
    struct lw_edge *edges; /* numbered from 1; owned */
    size_t count, capacity;
    struct lw_map map;
};

void lw_edges_init(struct lw_edges *edges);
void lw_edges_release(struct lw_edges *edges);

/* Without memory, or with very many, it is not noted. */
void lw_edges_add(struct lw_edges *edges, struct lw_edge edge);
bool lw_edges_has(const struct lw_edges *edges, struct lw_edge edge);

#endif
