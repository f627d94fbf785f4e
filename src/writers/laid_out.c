/* Parents are numbered before children, so one pass hands out the places. */

#include "writers/laid_out.h"

#include <string.h>

#include "base/alloc.h"

static bool place_nodes(struct lw_laid_out *laid, struct lw_error *err)
{
    const struct lw_calltree *tree = &laid->tree;
    uint64_t *next_ns = lw_zalloc(tree->node_count, sizeof(*next_ns), err);

    laid->starts_ns = lw_zalloc(tree->node_count, sizeof(*laid->starts_ns), err);
    if (next_ns && laid->starts_ns)
        for (size_t i = 1; i < tree->node_count; i++) {
            const struct lw_calltree_node *node = &tree->nodes[i];

            laid->starts_ns[i] = next_ns[node->parent];
            next_ns[i] = next_ns[node->parent];
            next_ns[node->parent] += node->total_ns;
        }
    lw_free(next_ns);
    return next_ns && laid->starts_ns;
}

bool lw_laid_out_init(struct lw_laid_out *laid, const struct lw_profile *profile,
                      uint32_t thread, struct lw_error *err)
{
    bool *threads = lw_zalloc(profile->thread_count, sizeof(bool), err);
    bool done = false;

    memset(laid, 0, sizeof(*laid));
    if (threads) {
        threads[thread] = true;
        done = lw_calltree_init(&laid->tree, profile, LW_GRAPH_ANY, threads, err) &&
               place_nodes(laid, err);
    }
    lw_free(threads);
    return done;
}

void lw_laid_out_release(struct lw_laid_out *laid)
{
    lw_calltree_release(&laid->tree);
    lw_free(laid->starts_ns);
    memset(laid, 0, sizeof(*laid));
}

bool lw_trace_has_any(const struct lw_profile *profile, struct lw_error *err)
{
    if (profile->span_count || profile->counter_count || profile->call_count ||
        profile->sample_count)
        return true;
    if (profile->function_count)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "there is nothing to draw: such a file holds who called whom, but "
            "neither when nor along which paths");
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "there are no calls, samples or spans to write");
}
