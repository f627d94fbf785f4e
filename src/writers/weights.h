/* A profile as weighted stacks: for each thread and stack the calls made there and the
 * time spent there itself.
 *
 * Calls and samples both become this, which is all that formats of stacks can say. */
#ifndef LW_WRITERS_WEIGHTS_H
#define LW_WRITERS_WEIGHTS_H

#include "model/callgraph.h"

struct lw_weights {
    enum lw_graph_source source; /* LW_GRAPH_CALLS or LW_GRAPH_SAMPLES */
    struct lw_call_row *rows;    /* owned; by thread, then stack, each pair once */
    size_t count;                /* `calls` of samples are 0 */
};

/* From calls, or else samples. A profile that has neither is LW_ERR_UNSUPPORTED; so is
 * a mere graph, which does not know its paths. Release in any case. */
bool lw_weights_init(struct lw_weights *weights, const struct lw_profile *profile,
                     struct lw_error *err) LW_MUST_CHECK;
void lw_weights_release(struct lw_weights *weights); /* zeroed is fine */

/* The row behind the last of the thread that row FIRST is of. */
size_t lw_weights_thread_end(const struct lw_weights *weights, size_t first);

#endif
