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

/* Where NODE is in the hash, or the free place where it would be. */
static struct lw_region_node **child_place(const struct lw_region_tree *tree,
                                           const struct lw_region_node *parent,
                                           uint32_t function)
{
    uint32_t at = lw_calls_hash(parent->number, function);

    for (;; at++) {
        struct lw_region_node **place = &tree->children[at & tree->children_mask];

        if (!*place || lw_calls_is_child(*place, parent, function))
            return place;
    }
}

static void put_child(struct lw_region_tree *tree, struct lw_region_node *node)
{
    *child_place(tree, node->parent, node->function) = node;
    tree->child_count++;
}

/* Keep the hash at most half full. False: it is full and cannot grow. */
static bool make_room(struct lw_calls_thread *thread)
{
    struct lw_region_tree *tree = thread->tree;
    struct lw_region_node **old = tree->children, **larger;
    uint32_t old_size = tree->children_mask + 1;

    if ((tree->child_count + 1) * 2 <= old_size)
        return true;
    larger = calloc((size_t)old_size * 2, sizeof(struct lw_region_node *));
    if (!larger)
        return tree->child_count + 1 < old_size;
    tree->children = larger;
    tree->children_mask = old_size * 2 - 1;
    tree->child_count = 0;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i])
            put_child(tree, old[i]);
    thread->children = tree->children;
    thread->children_mask = tree->children_mask;
    free(old);
    return true;
}

/* The hash of a tree that nobody has used yet, with the nodes it was made with. */
static bool make_children(struct lw_region_tree *tree)
{
    tree->children = calloc(FIRST_CHILDREN, sizeof(struct lw_region_node *));
    if (!tree->children)
        return false;
    tree->children_mask = FIRST_CHILDREN - 1;
    put_child(tree, tree->more);
    put_child(tree, tree->more + 1);
    return true;
}

/* False: there is no memory for the hash, and SLOT is nobody's again. */
static bool settle_in(struct lw_calls_thread *thread, struct lw_region *region,
                      struct lw_agent_thread *slot)
{
    struct lw_region_slot *own = lw_region_slot(region, slot);

    if (!own->tree.children && !make_children(&own->tree)) {
        lw_region_end_thread(region, slot);
        lw_region_count_lost(region, LW_LOST_THREADS);
        return false;
    }
    thread->slot = slot;
    thread->region = region;
    thread->tree = &own->tree;
    thread->current = own->tree.root;
    thread->more = own->tree.more;
    thread->children = own->tree.children;
    thread->children_mask = own->tree.children_mask;
    thread->generation = own->generation;
    thread->ring_mask = region->ring_mask;
    thread->first_ticks = region->own->start_ticks;
    thread->ring = NULL;
    if (own->ring_is_whole)
        thread->ring = (struct lw_agent_ring *)(void *)own->ring;
    thread->head = thread->ring ? own->ring_head : thread->ring_mask + 1;
    thread->cached_tail = 0; /* asked for with the first record that finds no room */
    return true;
}

struct lw_calls_thread *lw_calls_thread_new(struct lw_region *region,
                                            uint64_t min_span_ticks)
{
    struct lw_calls_thread *thread = calloc(1, sizeof(*thread));
    struct lw_agent_thread *slot = NULL;

    if (thread)
        slot = lw_region_take_thread(region);
    else
        lw_region_count_lost(region, LW_LOST_THREADS);
    if (!slot || !settle_in(thread, region, slot)) {
        free(thread);
        return NULL;
    }
    thread->timeline = region->own->flags & LW_AGENT_TIMELINE;
    thread->min_span_ticks = min_span_ticks;
    return thread;
}

void lw_calls_thread_free(struct lw_calls_thread *thread, bool end_slot)
{
    if (!thread)
        return;
    if (thread->ring)
        lw_region_slot(thread->region, thread->slot)->ring_head = thread->head;
    if (end_slot)
        lw_region_end_thread(thread->region, thread->slot);
    free(thread->folded);
    free(thread->starts);
    free(thread);
}

uint64_t lw_calls_room(struct lw_calls_thread *thread)
{
    uint64_t waiting;

    if (!thread->ring)
        return 0;
    thread->cached_tail =
        atomic_load_explicit(&thread->ring->tail, memory_order_acquire);
    waiting = thread->head - thread->cached_tail;
    return waiting <= thread->ring_mask ? thread->ring_mask + 1 - waiting : 0;
}

bool lw_calls_has_room(struct lw_calls_thread *thread)
{
    if (lw_calls_room(thread) > 0)
        return true;
    lw_region_count_lost(thread->region, thread->ring ? LW_LOST_RECORDS : LW_LOST_ROOM);
    return false;
}

/* NULL: there is no node left, or no room in the hash. */
static struct lw_region_node *new_child(struct lw_calls_thread *thread,
                                        struct lw_region_node *parent,
                                        uint32_t function, bool reserve)
{
    struct lw_region_node *node;

    if (!make_room(thread))
        return NULL;
    node = lw_region_add_node(thread->region,
                              lw_region_slot_number(thread->region, thread->slot),
                              parent, function, reserve);
    if (node)
        put_child(thread->tree, node);
    return node;
}

/* No node is left: the node for FUNCTION under "(more)", or the nameless one there, and
 * remember to come back to PARENT. */
static struct lw_region_node *fold(struct lw_calls_thread *thread,
                                   struct lw_region_node *parent, uint32_t function)
{
    struct lw_region_node *more = thread->more;
    struct lw_region_node *child = *child_place(thread->tree, more, function);

    lw_region_count_lost(thread->region, LW_LOST_NODES);
    if (thread->folded_count == thread->folded_capacity) {
        size_t capacity = thread->folded_capacity ? thread->folded_capacity * 2 : 256;
        struct lw_region_node **larger =
            realloc(thread->folded, capacity * sizeof(struct lw_region_node *));

        if (!larger) {
            lw_region_count_lost(thread->region, LW_LOST_MISMATCH);
            return more + 1; /* its return will land too high */
        }
        thread->folded = larger;
        thread->folded_capacity = capacity;
    }
    thread->folded[thread->folded_count++] = parent;
    if (!child)
        child = new_child(thread, more, function, true);
    return child ? child : more + 1;
}

/* Find or make the child for FUNCTION. */
static struct lw_region_node *get_child(struct lw_calls_thread *thread,
                                        struct lw_region_node *parent,
                                        uint32_t function)
{
    struct lw_region_node *child = *child_place(thread->tree, parent, function);

    if (!child)
        child = new_child(thread, parent, function, false);
    if (!child) /* and never the last child: its return goes elsewhere */
        return fold(thread, parent, function);
    parent->last_child = child;
    return child;
}

static struct lw_region_node *unfold(struct lw_calls_thread *thread)
{
    if (thread->folded_count)
        return thread->folded[--thread->folded_count];
    return thread->tree->root;
}

static void start_span(struct lw_calls_thread *thread, uint64_t now)
{
    size_t depth = thread->depth++;

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

    if (thread->depth == 0)
        return;
    depth = --thread->depth;
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
    struct lw_region_node *child;

    lw_calls_settle(thread, now);
    child = get_child(thread, thread->current, function);
    lw_calls_count(child);
    lw_calls_stand_on(thread, child);
    if (thread->timeline)
        start_span(thread, now);
}

void lw_calls_leave_rarely(struct lw_calls_thread *thread, uint64_t now)
{
    struct lw_region_node *parent = thread->current->parent;

    lw_calls_settle(thread, now);
    if (thread->timeline)
        end_span(thread, lw_calls_current(thread), now);
    if (parent == thread->more)
        parent = unfold(thread);
    lw_calls_stand_on(thread, parent);
}

void lw_calls_leave_all(struct lw_calls_thread *thread, uint64_t now)
{
    while (thread->current != thread->tree->root)
        lw_calls_leave(thread, now);
}

/* How many running calls are above that of FUNCTION; MOST_SEARCHED: it is not there. */
static unsigned calls_above(const struct lw_calls_thread *thread, uint32_t function)
{
    const struct lw_region_node *node = thread->current;
    unsigned above = 0;

    while (node->function != function) {
        if (node == thread->tree->root || ++above == MOST_SEARCHED)
            return MOST_SEARCHED;
        node = node->parent;
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
    thread->forked_ticks =
        atomic_load_explicit(&thread->slot->last_ticks, memory_order_relaxed);
}

/* The functions of the path from the root to NODE, the last one first; NULL: no memory. */
static uint32_t *path_to(const struct lw_region_node *node, size_t *count)
{
    uint32_t *path;

    *count = 0;
    for (const struct lw_region_node *n = node; n->parent != n; n = n->parent)
        ++*count;
    path = malloc((*count + 1) * sizeof(*path));
    for (size_t i = 0; path && i < *count; i++, node = node->parent)
        path[i] = node->function;
    return path;
}

bool lw_calls_thread_move(struct lw_calls_thread *thread, struct lw_region *region)
{
    struct lw_region_tree *old = thread->tree;
    size_t depth;
    uint32_t *path = path_to(thread->current, &depth);
    struct lw_agent_thread *slot = path ? lw_region_take_thread(region) : NULL;
    bool moved = slot && settle_in(thread, region, slot);

    thread->folded_count = 0;
    if (moved) {
        struct lw_region_node *at = thread->current;

        while (depth > 0)
            at = get_child(thread, at, path[--depth]);
        lw_calls_stand_on(thread, at);
        atomic_store(&slot->last_ticks, thread->forked_ticks);
        lw_region_tree_release(old);
    }
    free(path);
    return moved;
}
