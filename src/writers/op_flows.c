/* Both ends of every link, sorted; see writers/op_flows.h. */

#include "writers/op_flows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int compare_ends(const void *a, const void *b)
{
    const struct lw_op_flow_end *x = a, *y = b;

    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

bool lw_op_flows_init(struct lw_op_flows *flows, const struct lw_profile *profile,
                      struct lw_error *err)
{
    memset(flows, 0, sizeof(*flows));
    if (!lw_op_links_init(&flows->links, profile, err))
        return false;
    if (flows->links.count == 0)
        return true;
    flows->ends = lw_zalloc(2 * flows->links.count, sizeof(*flows->ends), err);
    if (!flows->ends)
        return false;
    for (uint32_t i = 0; i < flows->links.count; i++) {
        const struct lw_op_link *link = &flows->links.list[i];

        flows->ends[flows->count++] =
            (struct lw_op_flow_end){ link->forward, i + 1, true };
        flows->ends[flows->count++] =
            (struct lw_op_flow_end){ link->backward, i + 1, false };
    }
    qsort(flows->ends, flows->count, sizeof(*flows->ends), compare_ends);
    return true;
}

void lw_op_flows_release(struct lw_op_flows *flows)
{
    lw_op_links_release(&flows->links);
    lw_free(flows->ends);
    memset(flows, 0, sizeof(*flows));
}

const struct lw_op_flow_end *lw_op_flows_of(const struct lw_op_flows *flows,
                                            uint32_t span, size_t *count)
{
    size_t low = 0, high = flows->count;

    while (low < high) { /* the first that is not before it */
        size_t middle = low + (high - low) / 2;

        if (flows->ends[middle].span < span)
            low = middle + 1;
        else
            high = middle;
    }
    for (*count = 0;
         low + *count < flows->count && flows->ends[low + *count].span == span;)
        ++*count;
    return *count ? &flows->ends[low] : NULL;
}

void lw_op_flows_add_line(const struct lw_op_flows *flows,
                          const struct lw_profile *profile,
                          const struct lw_op_flow_end *end, struct lw_buf *out)
{
    const struct lw_op_link *link = &flows->links.list[end->id - 1];
    const struct lw_frame *frame = lw_profile_frame(profile, link->function);

    if (link->function != 0)
        lw_buf_addf(out, "%s:%" PRIu32 "(%s)", lw_profile_text(profile, frame->file),
                    link->line, lw_profile_text(profile, frame->name));
}
