/* The rare paths of agent/calls.h: a child other than the last, a new node, a full
 * region, a fork, a return that does not fit. */

#include "agent/calls.h"

#include <stdlib.h>
#include <string.h>

#include "agent/ticks.h"

enum {
    FIRST_CHILDREN = 256,  /* slots of a new thread's hash */
    MOST_STARTS = 1 << 20, /* depth to which a timeline keeps start times */
    MOST_SEARCHED = 256,   /* running calls looked through for a return's own */
};

static uint32_t node_function(const struct lw_calls_thread *thread, uint32_t node)
{
    return atomic_load_explicit(&thread->nodes[node].function, memory_order_relaxed);
}

static void put_child(struct lw_calls_thread *thread, uint32_t node)
{
    uint32_t at =
        lw_calls_hash(thread->nodes[node].parent, node_function(thread, node));

    while (thread->children[at & thread->children_mask])
        at++;
    thread->children[at & thread->children_mask] = node;
    thread->child_count++;
}

/* Keep the hash at most half full. False: it is full and cannot grow. */
static bool make_room(struct lw_calls_thread *thread)
{
    uint32_t old_size = thread->children_mask + 1;
    uint32_t *old = thread->children;
    uint32_t *larger;

    if ((thread->child_count + 1) * 2 <= old_size)
        return true;
    larger = calloc((size_t)old_size * 2, sizeof(*larger));
    if (!larger)
        return thread->child_count + 1 < old_size;
    thread->children = larger;
    thread->children_mask = old_size * 2 - 1;
    thread->child_count = 0;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i])
            put_child(thread, old[i]);
    free(old);
    return true;
}

/* A slot that another thread had keeps its nodes: find them again, so that a program
 * which starts a thread a request does not grow a tree a thread. */
static void adopt_nodes(struct lw_calls_thread *thread)
{
    const struct lw_agent_header *header = thread->region->header;
    uint32_t owner = (uint32_t)(thread->slot - thread->region->threads) + 1;
    uint32_t blocks = atomic_load_explicit(&header->blocks_used, memory_order_relaxed);

    for (uint32_t block = 0; block < blocks; block++) {
        uint32_t first = block * header->block_nodes;

        if (atomic_load_explicit(&thread->region->block_owners[block],
                                 memory_order_relaxed) != owner)
            continue;
        for (uint32_t i = 0; i < header->block_nodes; i++) {
            uint32_t function = node_function(thread, first + i);

            if (function == 0 || function == LW_FUNCTION_ROOT || !make_room(thread))
                continue;
            put_child(thread, first + i);
        }
    }
}

static void settle_in(struct lw_calls_thread *thread, struct lw_region *region,
                      struct lw_agent_thread *slot)
{
    uint64_t number = (uint64_t)(slot - region->threads);

    thread->slot = slot;
    thread->region = region;
    thread->nodes = region->nodes;
    thread->ring =
        (struct lw_agent_ring *)(region->rings + number * region->header->ring_bytes);
    thread->ring_mask = region->ring_mask;
    thread->first_ticks = region->header->start_ticks;
}

struct lw_calls_thread *lw_calls_thread_new(struct lw_region *region,
                                            uint64_t min_span_ticks)
{
    struct lw_calls_thread *thread = calloc(1, sizeof(*thread));
    uint32_t *children = calloc(FIRST_CHILDREN, sizeof(*children));
    struct lw_agent_thread *slot = NULL;

    if (thread && children)
        slot = lw_region_take_thread(region);
    else
        lw_region_count_lost(region, LW_LOST_THREADS);
    if (!slot) {
        free(children);
        free(thread);
        return NULL;
    }
    thread->children = children;
    thread->children_mask = FIRST_CHILDREN - 1;
    thread->timeline = region->header->flags & LW_AGENT_TIMELINE;
    thread->min_span_ticks = min_span_ticks;
    settle_in(thread, region, slot);
    adopt_nodes(thread);
    return thread;
}

void lw_calls_thread_free(struct lw_calls_thread *thread, bool end_slot)
{
    if (!thread)
        return;
    if (end_slot)
        lw_region_end_thread(thread->region, thread->slot);
    free(thread->children);
    free(thread->folded);
    free(thread->starts);
    free(thread);
}

uint64_t lw_calls_room(struct lw_calls_thread *thread)
{
    struct lw_agent_ring *ring = thread->ring;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    ring->cached_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return thread->ring_mask + 1 - (head - ring->cached_tail);
}

bool lw_calls_has_room(struct lw_calls_thread *thread)
{
    if (lw_calls_room(thread) > 0)
        return true;
    lw_region_count_lost(thread->region, LW_LOST_RECORDS);
    return false;
}

static uint32_t find_child(const struct lw_calls_thread *thread, uint32_t parent,
                           uint32_t function)
{
    uint32_t at = lw_calls_hash(parent, function);

    for (;; at++) {
        uint32_t node = thread->children[at & thread->children_mask];

        if (node == 0 || lw_calls_is_child(&thread->nodes[node], parent, function))
            return node;
    }
}

/* 0: there is no node left, or no room in the hash. */
static uint32_t new_child(struct lw_calls_thread *thread, uint32_t parent,
                          uint32_t function, bool reserve)
{
    struct lw_agent_thread *slot = thread->slot;
    struct lw_agent_node *node;
    uint32_t number;

    if (!make_room(thread))
        return 0;
    if (slot->free_node == slot->free_end &&
        !lw_region_take_block(thread->region, slot, reserve))
        return 0;
    if (!reserve && lw_region_is_reserve(thread->region, slot->free_node))
        return 0;
    number = slot->free_node++;
    node = &thread->nodes[number];
    node->parent = parent;
    atomic_store_explicit(&node->function, function, memory_order_release);
    put_child(thread, number);
    return number;
}

/* No node is left: the node for FUNCTION under "(more)", or the nameless one there, and
 * remember to come back to PARENT. */
static uint32_t fold(struct lw_calls_thread *thread, uint32_t parent, uint32_t function)
{
    uint32_t more = thread->slot->overflow;
    uint32_t child = find_child(thread, more, function);

    lw_region_count_lost(thread->region, LW_LOST_NODES);
    if (thread->folded_count == thread->folded_capacity) {
        size_t capacity = thread->folded_capacity ? thread->folded_capacity * 2 : 256;
        uint32_t *larger = realloc(thread->folded, capacity * sizeof(*larger));

        if (!larger) {
            lw_region_count_lost(thread->region, LW_LOST_MISMATCH);
            return more + 1; /* its return will land too high */
        }
        thread->folded = larger;
        thread->folded_capacity = capacity;
    }
    thread->folded[thread->folded_count++] = parent;
    if (child == 0)
        child = new_child(thread, more, function, true);
    return child ? child : more + 1;
}

/* Find or make the child for FUNCTION. */
static uint32_t get_child(struct lw_calls_thread *thread, uint32_t parent,
                          uint32_t function)
{
    uint32_t child = find_child(thread, parent, function);

    if (child == 0)
        child = new_child(thread, parent, function, false);
    if (child == 0) /* and never the last child: its return goes elsewhere */
        return fold(thread, parent, function);
    thread->nodes[parent].last_child = child;
    return child;
}

static uint32_t unfold(struct lw_calls_thread *thread)
{
    if (thread->folded_count)
        return thread->folded[--thread->folded_count];
    return thread->slot->root;
}

static void start_span(struct lw_calls_thread *thread, uint64_t now)
{
    size_t depth = thread->slot->depth++;

    if (depth >= thread->starts_capacity) {
        size_t capacity = thread->starts_capacity ? thread->starts_capacity * 2 : 256;
        uint64_t *larger = NULL;

        if (depth < MOST_STARTS)
            larger = realloc(thread->starts, capacity * sizeof(*larger));
        if (!larger)
            return; /* deeper calls are counted but have no span */
        thread->starts = larger;
        thread->starts_capacity = capacity;
    }
    thread->starts[depth] = now;
}

static void end_span(struct lw_calls_thread *thread, uint32_t node, uint64_t now)
{
    struct lw_agent_record record = { .kind = LW_RECORD_SPAN, .id = node };
    size_t depth;

    if (thread->slot->depth == 0)
        return;
    depth = --thread->slot->depth;
    if (depth >= thread->starts_capacity) {
        lw_region_count_lost(thread->region, LW_LOST_RECORDS);
        return;
    }
    record.ticks = thread->starts[depth];
    record.value = now - record.ticks;
    if (record.value >= thread->min_span_ticks)
        lw_calls_add_record(thread, &record);
}

void lw_calls_enter_rarely(struct lw_calls_thread *thread, uint32_t function,
                           uint64_t now)
{
    struct lw_agent_thread *slot = thread->slot;
    uint32_t current = lw_calls_current(thread);
    uint32_t child;

    lw_calls_settle(slot, &thread->nodes[current], now);
    child = get_child(thread, current, function);
    atomic_fetch_add_explicit(&thread->nodes[child].calls, 1, memory_order_relaxed);
    atomic_store_explicit(&slot->current, child, memory_order_relaxed);
    if (thread->timeline)
        start_span(thread, now);
}

void lw_calls_leave_rarely(struct lw_calls_thread *thread, uint64_t now)
{
    struct lw_agent_thread *slot = thread->slot;
    uint32_t current = lw_calls_current(thread);
    uint32_t parent = thread->nodes[current].parent;

    lw_calls_settle(slot, &thread->nodes[current], now);
    if (thread->timeline)
        end_span(thread, current, now);
    if (parent == slot->overflow)
        parent = unfold(thread);
    atomic_store_explicit(&slot->current, parent, memory_order_relaxed);
}

void lw_calls_suspend(struct lw_calls_thread *thread, uint64_t now,
                      struct lw_calls_branch *branch)
{
    struct lw_agent_thread *slot = thread->slot;

    *branch = (struct lw_calls_branch){
        .current = lw_calls_current(thread),
        .depth = slot->depth,
        .moves = thread->moves,
        .folded = thread->folded,
        .folded_count = thread->folded_count,
        .folded_capacity = thread->folded_capacity,
        .starts = thread->starts,
        .starts_capacity = thread->starts_capacity,
    };
    lw_calls_settle(slot, &thread->nodes[branch->current], now);
    thread->folded = NULL;
    thread->folded_count = thread->folded_capacity = 0;
    thread->starts = NULL;
    thread->starts_capacity = 0;
    slot->depth = 0;
    atomic_store_explicit(&slot->current, slot->root, memory_order_relaxed);
}

void lw_calls_resume(struct lw_calls_thread *thread, uint64_t now,
                     struct lw_calls_branch *branch)
{
    struct lw_agent_thread *slot = thread->slot;

    lw_calls_settle(slot, &thread->nodes[lw_calls_current(thread)], now);
    free(thread->folded);
    free(thread->starts);
    thread->folded = branch->folded;
    thread->folded_count = branch->folded_count;
    thread->folded_capacity = branch->folded_capacity;
    thread->starts = branch->starts;
    thread->starts_capacity = branch->starts_capacity;
    slot->depth = branch->depth;
    atomic_store_explicit(&slot->current, branch->current, memory_order_relaxed);
    if (branch->moves != thread->moves) { /* those nodes are the parent's */
        thread->folded_count = 0;
        slot->depth = 0;
        atomic_store_explicit(&slot->current, slot->root, memory_order_relaxed);
    }
}

void lw_calls_branch_release(struct lw_calls_branch *branch)
{
    free(branch->folded);
    free(branch->starts);
}

void lw_calls_leave_all(struct lw_calls_thread *thread, uint64_t now)
{
    while (lw_calls_current(thread) != thread->slot->root)
        lw_calls_leave(thread, now);
}

/* How many running calls are above that of FUNCTION; MOST_SEARCHED: it is not there. */
static unsigned calls_above(const struct lw_calls_thread *thread, uint32_t function)
{
    uint32_t node = lw_calls_current(thread);
    unsigned above = 0;

    while (node_function(thread, node) != function) {
        if (node == thread->slot->root || ++above == MOST_SEARCHED)
            return MOST_SEARCHED;
        node = thread->nodes[node].parent;
    }
    return above;
}

void lw_calls_leave_to(struct lw_calls_thread *thread, uint32_t function, uint64_t now)
{
    unsigned above = calls_above(thread, function);

    while (above != MOST_SEARCHED && above-- > 0)
        lw_calls_leave(thread, now);
}

void lw_calls_leave_through(struct lw_calls_thread *thread, uint32_t function,
                            uint64_t now)
{
    if (calls_above(thread, function) == MOST_SEARCHED) {
        lw_region_count_lost(thread->region, LW_LOST_MISMATCH);
        return;
    }
    lw_calls_leave_to(thread, function, now);
    lw_calls_leave(thread, now);
}

void lw_calls_thread_before_fork(struct lw_calls_thread *thread)
{
    thread->forked_at = lw_calls_current(thread);
    thread->forked_depth = thread->slot->depth;
    thread->forked_ticks =
        atomic_load_explicit(&thread->slot->last_ticks, memory_order_relaxed);
}

bool lw_calls_thread_move(struct lw_calls_thread *thread, struct lw_region *region)
{
    const struct lw_agent_node *old_nodes = thread->nodes; /* links never change */
    uint32_t node = thread->forked_at;
    uint32_t root = thread->slot->root;
    struct lw_agent_thread *slot;
    uint32_t *path = NULL; /* functions from `node` up to the root */
    size_t depth = 0;
    bool moved = false;

    for (uint32_t n = node; n != root; n = old_nodes[n].parent)
        depth++;
    path = malloc((depth + 1) * sizeof(*path));
    if (!path)
        return false;
    depth = 0;
    for (uint32_t n = node; n != root; n = old_nodes[n].parent)
        path[depth++] =
            atomic_load_explicit(&old_nodes[n].function, memory_order_relaxed);

    thread->moves++;
    memset(thread->children, 0, (thread->children_mask + (size_t)1) * sizeof(uint32_t));
    thread->child_count = 0;
    thread->folded_count = 0;
    slot = lw_region_take_thread(region);
    if (slot) {
        uint32_t at = slot->root;

        settle_in(thread, region, slot);
        thread->slot->depth = thread->forked_depth;
        while (depth > 0)
            at = get_child(thread, at, path[--depth]);
        atomic_store(&thread->slot->current, at);
        atomic_store(&thread->slot->last_ticks, thread->forked_ticks);
        moved = true;
    }
    free(path);
    return moved;
}
