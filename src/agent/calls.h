/* Exact calls: one step in a calling-context tree for each call and each return.
 *
 * A thread stands on a node of its tree. Entering function f moves to the child for f
 * (made when first met) and counts it; leaving moves to the parent. Each event first
 * gives the time since the one before to the node it leaves, so nodes hold self times,
 * no start times are kept, and a tree read at any moment is right up to its last event.
 * Totals, callers and recursion are all in the tree's shape and worked out later.
 *
 * The child entered last is tried first; the others are found in a hash of
 * (parent, function). When the region has no node left, calls are folded under one
 * "(more)" node, flat by function: counts and self times stay exact, the path is lost. */
#ifndef LW_AGENT_CALLS_H
#define LW_AGENT_CALLS_H

#include "agent/region.h"

/* What runs a few times a step of a training, which has emptied the caches in between: such
 * functions lie together, on as few pages as they fill. */
#define LW_HOT __attribute__((hot))
/* And what those seldom need lies elsewhere. */
#define LW_SELDOM __attribute__((noinline, cold))

/* One thread's place in one region: private memory beside its shared slot. What a call
 * needs comes first, then what a record does. */
struct lw_calls_thread {
    struct lw_agent_thread *slot; /* written, never believed */
    struct lw_region_node *current;
    struct lw_region_node **children; /* of `tree` */
    uint32_t children_mask;
    bool timeline;
    struct lw_region_node *more; /* of `tree` */

    struct lw_agent_ring
        *ring;            /* its records follow it; NULL: there was no room for it */
    uint64_t head;        /* records ever put there */
    uint64_t cached_tail; /* and taken, when last looked; at most `head` */
    uint64_t ring_mask;   /* records of it - 1 */
    uint32_t generation;  /* of the slot */

    uint32_t depth;              /* calls between root and `current`; timeline only */
    struct lw_region_tree *tree; /* of the slot */
    uint64_t first_ticks;        /* when the region's recording began */
    struct lw_region *region;    /* borrowed */

    struct lw_region_node **folded; /* to return to from calls under "(more)"; owned */
    size_t folded_count;
    size_t folded_capacity;

    uint64_t min_span_ticks; /* of a timeline */
    uint64_t *starts; /* of the calls now running, by depth; timeline only; owned */
    size_t starts_capacity;

    /* The slot's last_ticks when fork began: the child must not look at the slot, which
     * is the parent's and moves on. */
    uint64_t forked_ticks;
};

/* NULL, counted in the region, when there is no slot or no memory. */
struct lw_calls_thread *lw_calls_thread_new(struct lw_region *region,
                                            uint64_t min_span_ticks);
/* END_SLOT: the thread is gone, say so in the region too. */
void lw_calls_thread_free(struct lw_calls_thread *thread, bool end_slot);

/* Before fork, in the thread that calls it. */
void lw_calls_thread_before_fork(struct lw_calls_thread *thread);
/* After fork, in the child: the thread goes on in REGION, a new one, at the same path
 * with all counts zero. False: it could not be made, and THREAD must not be used. */
bool lw_calls_thread_move(struct lw_calls_thread *thread, struct lw_region *region);

/* How many records the thread's ring has room for now. */
uint64_t lw_calls_room(struct lw_calls_thread *thread);
/* Whether the thread's ring, which seemed full, has room meanwhile; else a record is lost. */
LW_SELDOM bool lw_calls_has_room(struct lw_calls_thread *thread);

/* Append RECORD to the thread's ring, or count it as lost. */
static inline void lw_calls_add_record(struct lw_calls_thread *thread,
                                       const struct lw_agent_record *record)
{
    uint64_t head = thread->head;
    struct lw_agent_ring *ring;
    struct lw_agent_record *place;

    if (__builtin_expect(head - thread->cached_tail > thread->ring_mask, 0) &&
        !lw_calls_has_room(thread))
        return;
    ring = thread->ring;
    place = (struct lw_agent_record *)(ring + 1) + (head & thread->ring_mask);
    /* One by one: gcc 12 puts a struct together in memory before it copies it. */
    place->kind = record->kind;
    place->id = record->id;
    place->ticks = record->ticks;
    place->value = record->value;
    place->node = record->node;
    place->generation = thread->generation;
    thread->head = head + 1;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* What ends NOW and began at START: was that before the region's recording? By how long ago
 * it was, for the counter may have started again from 0 since. */
static inline bool lw_calls_is_older(const struct lw_calls_thread *thread,
                                     uint64_t start, uint64_t now)
{
    return now - start > now - thread->first_ticks;
}

/* The number of the node the thread stands on. */
static inline uint32_t lw_calls_current(const struct lw_calls_thread *thread)
{
    return thread->current->number;
}

/* The function of the node the thread stands on; LW_FUNCTION_ROOT at the root. */
static inline uint32_t lw_calls_function(const struct lw_calls_thread *thread)
{
    return thread->current->function;
}

static inline uint32_t lw_calls_hash(uint32_t parent, uint32_t function)
{
    return (uint32_t)(((uint64_t)parent << 32 | function) * 0x9e3779b97f4a7c15ull >>
                      32);
}

static inline bool lw_calls_is_child(const struct lw_region_node *node,
                                     const struct lw_region_node *parent,
                                     uint32_t function)
{
    return node->parent == parent && node->function == function;
}

/* The thread stands on NODE now; the recorder is to know. */
static inline void lw_calls_stand_on(struct lw_calls_thread *thread,
                                     struct lw_region_node *node)
{
    atomic_store_explicit(&thread->slot->current, node->number, memory_order_relaxed);
    thread->current = node;
}

/* Give the time since the last event to the node the thread stands on. */
static inline void lw_calls_settle(struct lw_calls_thread *thread, uint64_t now)
{
    struct lw_agent_thread *slot = thread->slot;
    struct lw_agent_node *here = thread->current->counts;
    uint64_t last = atomic_load_explicit(&slot->last_ticks, memory_order_relaxed);
    uint64_t self = atomic_load_explicit(&here->self_ticks, memory_order_relaxed);

    atomic_store_explicit(&here->self_ticks, self + (now - last), memory_order_relaxed);
    atomic_store_explicit(&slot->last_ticks, now, memory_order_relaxed);
}

static inline void lw_calls_count(struct lw_region_node *node)
{
    uint64_t calls = atomic_load_explicit(&node->counts->calls, memory_order_relaxed);

    atomic_store_explicit(&node->counts->calls, calls + 1, memory_order_relaxed);
}

/* The common half of lw_calls_enter(): the child is the one entered last, or first in its
 * place of the hash. False: it is neither, or there is a timeline, and nothing was done.
 * It calls nobody, so that a hook which has no other calls on its common path saves few
 * registers there. Always inline: gcc 12 thinks it too large. */
static inline __attribute__((always_inline)) bool lw_calls_try_enter(
    struct lw_calls_thread *thread, uint32_t function, uint64_t now)
{
    struct lw_region_node *here = thread->current;
    struct lw_region_node *child = here->last_child;

    if (__builtin_expect(thread->timeline, 0))
        return false;
    if (child->function != function) {
        child = thread->children[lw_calls_hash(here->number, function) &
                                 thread->children_mask];
        if (__builtin_expect(!child || !lw_calls_is_child(child, here, function), 0))
            return false;
        here->last_child = child;
    }
    lw_calls_settle(thread, now);
    lw_calls_count(child);
    lw_calls_stand_on(thread, child);
    return true;
}

/* Likewise of lw_calls_leave(): no timeline, and the parent is where it says. */
static inline __attribute__((always_inline)) bool lw_calls_try_leave(
    struct lw_calls_thread *thread, uint64_t now)
{
    struct lw_region_node *parent = thread->current->parent;

    if (__builtin_expect(thread->timeline || parent == thread->more, 0))
        return false;
    lw_calls_settle(thread, now);
    lw_calls_stand_on(thread, parent);
    return true;
}

/* What those two leave; only to be called where they do. */
void lw_calls_enter_rarely(struct lw_calls_thread *thread, uint32_t function,
                           uint64_t now);
void lw_calls_leave_rarely(struct lw_calls_thread *thread, uint64_t now);

static inline void lw_calls_enter(struct lw_calls_thread *thread, uint32_t function,
                                  uint64_t now)
{
    if (__builtin_expect(!lw_calls_try_enter(thread, function, now), 0))
        lw_calls_enter_rarely(thread, function, now);
}

/* At the root it stays there: returns from calls made before recording began. */
static inline void lw_calls_leave(struct lw_calls_thread *thread, uint64_t now)
{
    if (__builtin_expect(!lw_calls_try_leave(thread, now), 0))
        lw_calls_leave_rarely(thread, now);
}

/* Return to the root, from wherever: recording stops for this thread. */
void lw_calls_leave_all(struct lw_calls_thread *thread, uint64_t now);

/* Leave calls until FUNCTION is the running one, if it is among the last 256. */
void lw_calls_leave_to(struct lw_calls_thread *thread, uint32_t function, uint64_t now);

/* Leave calls until FUNCTION itself has been left, if it is among the last 256 that
 * are running; else count a return that fits no call and stay. */
void lw_calls_leave_through(struct lw_calls_thread *thread, uint32_t function,
                            uint64_t now);

#endif
