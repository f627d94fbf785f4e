#include "sampler/edges.h"

#include "base/alloc.h"

void lw_edges_init(struct lw_edges *edges)
{
    *edges = (struct lw_edges){ .edges = NULL };
    lw_map_init(&edges->map);
}

void lw_edges_release(struct lw_edges *edges)
{
    lw_free(edges->edges);
    lw_map_release(&edges->map);
}

static uint64_t hash(struct lw_edge edge)
{
    uint64_t codes = (uint64_t)edge.caller << 32 | edge.callee;

    return lw_hash_u64(lw_hash_u64(codes) + (uint32_t)edge.instruction);
}

static bool is_edge(const void *owner, uint32_t number, const void *key)
{
    const struct lw_edge *known = &((const struct lw_edges *)owner)->edges[number - 1];
    const struct lw_edge *wanted = key;

    return known->caller == wanted->caller && known->callee == wanted->callee &&
           known->instruction == wanted->instruction;
}

bool lw_edges_has(const struct lw_edges *edges, struct lw_edge edge)
{
    return lw_map_find(&edges->map, hash(edge), is_edge, edges, &edge) != 0;
}

void lw_edges_add(struct lw_edges *edges, struct lw_edge edge)
{
    if (edges->count == LW_EDGES_MAX || lw_edges_has(edges, edge) ||
        !lw_grow(&edges->edges, &edges->capacity, edges->count + 1,
                 sizeof(*edges->edges), NULL) ||
        !lw_map_add(&edges->map, hash(edge), (uint32_t)edges->count + 1, NULL))
        return;
    edges->edges[edges->count++] = edge;
}
