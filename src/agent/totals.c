/* The walk; see agent/totals.h. */

#include "agent/totals.h"

#include <stdlib.h>
#include <string.h>

#include "agent/calls.h"

enum { FIRST_TOTALS = 256 };

/* What the walk keeps of a node beside the node itself. */
struct mark {
    uint32_t first_child; /* 0: none */
    uint32_t next;        /* of the same parent; 0: last */
    uint64_t total_ticks;
};

static uint32_t node_function(const struct lw_region *region, uint32_t node)
{
    return atomic_load_explicit(&lw_region_node(region, node)->function,
                                memory_order_relaxed);
}

static uint32_t node_parent(const struct lw_region *region, uint32_t node)
{
    return lw_region_node(region, node)->parent;
}

static void put_slot(struct lw_totals *totals, uint32_t index)
{
    const struct lw_total *total = &totals->list[index];
    uint32_t at = lw_calls_hash(total->caller, total->function);

    while (totals->slots[at & totals->slot_mask])
        at++;
    totals->slots[at & totals->slot_mask] = index + 1;
}

/* Room for one more, with the slots at most half full. */
static bool make_room(struct lw_totals *totals)
{
    uint32_t capacity = totals->capacity ? totals->capacity * 2 : FIRST_TOTALS;
    struct lw_total *list;
    uint32_t *slots;

    if (totals->count < totals->capacity)
        return true;
    list = realloc(totals->list, capacity * sizeof(*list));
    if (!list)
        return false;
    totals->list = list;
    slots = calloc((size_t)capacity * 2, sizeof(*slots));
    if (!slots)
        return false;
    free(totals->slots);
    totals->slots = slots;
    totals->slot_mask = capacity * 2 - 1;
    totals->capacity = capacity;
    for (uint32_t i = 0; i < totals->count; i++)
        put_slot(totals, i);
    return true;
}

/* Found or made; NULL: no memory. Good until the next one is asked for. */
static struct lw_total *get_total(struct lw_totals *totals, uint32_t caller,
                                  uint32_t function)
{
    uint32_t at = lw_calls_hash(caller, function);

    for (; totals->count; at++) {
        uint32_t index = totals->slots[at & totals->slot_mask];

        if (index == 0)
            break;
        if (totals->list[index - 1].caller == caller &&
            totals->list[index - 1].function == function)
            return &totals->list[index - 1];
    }
    if (!make_room(totals))
        return NULL;
    totals->list[totals->count] =
        (struct lw_total){ .caller = caller, .function = function };
    put_slot(totals, totals->count);
    return &totals->list[totals->count++];
}

static bool enter(struct lw_totals *totals, uint32_t caller,
                  const struct lw_region *region, uint32_t node, uint64_t total_ticks)
{
    const struct lw_agent_node *entered = lw_region_node(region, node);
    struct lw_total *total = get_total(totals, caller, node_function(region, node));
    uint64_t calls;

    if (!total)
        return false;
    calls = atomic_load_explicit(&entered->calls, memory_order_relaxed);
    total->calls += calls;
    total->self_ticks +=
        atomic_load_explicit(&entered->self_ticks, memory_order_relaxed);
    if (total->running++ == 0) {
        total->primitive_calls += calls;
        total->total_ticks += total_ticks;
    }
    return true;
}

/* The function that calls NODE; 0: it is a thread's first. */
static uint32_t caller_of(const struct lw_region *region, uint32_t node)
{
    uint32_t caller = node_function(region, node_parent(region, node));

    return caller == LW_FUNCTION_ROOT ? 0 : caller;
}

static void leave(struct lw_totals *totals, const struct lw_region *region,
                  uint32_t node)
{
    uint32_t function = node_function(region, node);
    uint32_t caller = caller_of(region, node);

    get_total(totals, 0, function)->running--;
    if (caller)
        get_total(totals, caller, function)->running--;
}

/* Down to the first child, else across, else up: no recursion, however deep it is. */
static bool walk(struct lw_totals *totals, const struct lw_region *region,
                 const struct mark *marks, uint32_t root)
{
    uint32_t node = marks[root].first_child;

    while (node) {
        uint32_t caller = caller_of(region, node);
        uint64_t ticks = marks[node].total_ticks;

        if (!enter(totals, 0, region, node, ticks) ||
            (caller && !enter(totals, caller, region, node, ticks)))
            return false;
        if (marks[node].first_child) {
            node = marks[node].first_child;
            continue;
        }
        leave(totals, region, node);
        while (!marks[node].next) {
            node = node_parent(region, node);
            if (node == root)
                return true;
            leave(totals, region, node);
        }
        node = marks[node].next;
    }
    return true;
}

bool lw_totals_read(struct lw_totals *totals, const struct lw_region *region)
{
    uint32_t limit = lw_region_blocks_used(region) * LW_REGION_BLOCK_NODES;
    struct mark *marks = calloc((size_t)limit + 1, sizeof(*marks));
    bool done = marks != NULL;

    memset(totals, 0, sizeof(*totals));
    /* A parent's number is smaller than its children's. */
    for (uint32_t node = limit; done && node-- > 1;) {
        uint32_t function = node_function(region, node);
        uint32_t parent = node_parent(region, node);

        marks[node].total_ticks += atomic_load_explicit(
            &lw_region_node(region, node)->self_ticks, memory_order_relaxed);
        if (function == 0 || function == LW_FUNCTION_ROOT)
            continue;
        marks[parent].total_ticks += marks[node].total_ticks;
        marks[node].next = marks[parent].first_child;
        marks[parent].first_child = node;
    }
    for (uint32_t node = 1; done && node < limit; node++)
        if (node_function(region, node) == LW_FUNCTION_ROOT)
            done = walk(totals, region, marks, node);
    free(marks);
    if (!done)
        lw_totals_release(totals);
    return done;
}

void lw_totals_release(struct lw_totals *totals)
{
    free(totals->list);
    free(totals->slots);
    memset(totals, 0, sizeof(*totals));
}
