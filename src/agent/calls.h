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
 * or a record needs comes first, in one cache line. */
struct lw_calls_thread {
    struct lw_agent_thread *slot;
    struct lw_agent_node *nodes; /* of the region */
    uint32_t *children; /* hash of (parent, function): node numbers, 0: empty; owned */
    uint32_t children_mask;
    bool timeline;
    struct lw_agent_ring *ring; /* the slot's own; its records follow it */
    uint64_t ring_mask;         /* records of it - 1 */
    uint64_t first_ticks;       /* when the region's recording began */
    struct lw_region *region;   /* borrowed */

    uint32_t child_count;

    uint32_t *folded; /* nodes to return to from calls under "(more)"; owned */
    size_t folded_count;
    size_t folded_capacity;

    uint64_t min_span_ticks; /* of a timeline */
    uint64_t *starts; /* of the calls now running, by depth; timeline only; owned */
    size_t starts_capacity;

    /* Where the slot stood when fork began: the child must not look at the slot, which
     * is the parent's and moves on. */
    uint32_t moves; /* by forks: how often the nodes became others */
    uint32_t forked_at;
    uint32_t forked_depth;
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
    struct lw_agent_ring *ring = thread->ring;
    struct lw_agent_record *place = (struct lw_agent_record *)(ring + 1);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (__builtin_expect(head - ring->cached_tail > thread->ring_mask, 0) &&
        !lw_calls_has_room(thread))
        return;
    place += head & thread->ring_mask;
    /* One by one: gcc 12 puts a struct together in memory before it copies it. */
    place->kind = record->kind;
    place->id = record->id;
    place->ticks = record->ticks;
    place->value = record->value;
    place->node = record->node;
    place->generation =
        atomic_load_explicit(&thread->slot->generation, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

static inline uint32_t lw_calls_current(const struct lw_calls_thread *thread)
{
    return atomic_load_explicit(&thread->slot->current, memory_order_relaxed);
}

/* The function of the node the thread stands on; LW_FUNCTION_ROOT at the root. */
static inline uint32_t lw_calls_function(const struct lw_calls_thread *thread)
{
    return atomic_load_explicit(&thread->nodes[lw_calls_current(thread)].function,
                                memory_order_relaxed);
}

static inline uint32_t lw_calls_hash(uint32_t parent, uint32_t function)
{
    return (uint32_t)(((uint64_t)parent << 32 | function) * 0x9e3779b97f4a7c15ull >>
                      32);
}

static inline bool lw_calls_is_child(const struct lw_agent_node *node, uint32_t parent,
                                     uint32_t function)
{
    return node->parent == parent &&
           atomic_load_explicit(&node->function, memory_order_relaxed) == function;
}

static inline void lw_calls_settle(struct lw_agent_thread *slot,
                                   struct lw_agent_node *here, uint64_t now)
{
    uint64_t last = atomic_load_explicit(&slot->last_ticks, memory_order_relaxed);
    uint64_t self = atomic_load_explicit(&here->self_ticks, memory_order_relaxed);

    atomic_store_explicit(&here->self_ticks, self + (now - last), memory_order_relaxed);
    atomic_store_explicit(&slot->last_ticks, now, memory_order_relaxed);
}

/* The common half of lw_calls_enter(): the child is the one entered last, or first in its
 * place of the hash. False: it is neither, or there is a timeline, and nothing was done.
 * It calls nobody, so that a hook which has no other calls on its common path saves few
 * registers there. Always inline: gcc 12 thinks it too large. */
static inline __attribute__((always_inline)) bool lw_calls_try_enter(
    struct lw_calls_thread *thread, uint32_t function, uint64_t now)
{
    struct lw_agent_thread *slot = thread->slot;
    struct lw_agent_node *nodes = thread->nodes;
    uint32_t current = atomic_load_explicit(&slot->current, memory_order_relaxed);
    struct lw_agent_node *here = &nodes[current];
    uint32_t child = here->last_child;
    uint64_t calls;

    if (__builtin_expect(thread->timeline, 0))
        return false;
    if (atomic_load_explicit(&nodes[child].function, memory_order_relaxed) !=
        function) {
        child =
            thread->children[lw_calls_hash(current, function) & thread->children_mask];
        if (__builtin_expect(!lw_calls_is_child(&nodes[child], current, function), 0))
            return false;
        here->last_child = child;
    }
    lw_calls_settle(slot, here, now);
    calls = atomic_load_explicit(&nodes[child].calls, memory_order_relaxed);
    atomic_store_explicit(&nodes[child].calls, calls + 1, memory_order_relaxed);
    atomic_store_explicit(&slot->current, child, memory_order_relaxed);
    return true;
}

/* Likewise of lw_calls_leave(): no timeline, and the parent is where it says. */
static inline __attribute__((always_inline)) bool lw_calls_try_leave(
    struct lw_calls_thread *thread, uint64_t now)
{
    struct lw_agent_thread *slot = thread->slot;
    uint32_t current = atomic_load_explicit(&slot->current, memory_order_relaxed);
    struct lw_agent_node *here = &thread->nodes[current];
    uint32_t parent = here->parent;

    if (__builtin_expect(thread->timeline || parent == slot->overflow, 0))
        return false;
    lw_calls_settle(slot, here, now);
    atomic_store_explicit(&slot->current, parent, memory_order_relaxed);
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

/* Where a thread stands, while another stack of calls runs in it (a greenlet's). */
struct lw_calls_branch {
    uint32_t current;
    uint32_t depth;
    uint32_t moves;   /* of the thread: a fork since makes the rest void */
    uint32_t *folded; /* as struct lw_calls_thread has them; owned */
    size_t folded_count;
    size_t folded_capacity;
    uint64_t *starts;
    size_t starts_capacity;
};

/* Note where the thread stands in BRANCH, and let it go on from the root. */
void lw_calls_suspend(struct lw_calls_thread *thread, uint64_t now,
                      struct lw_calls_branch *branch);
/* Let it go on there, and release BRANCH. */
void lw_calls_resume(struct lw_calls_thread *thread, uint64_t now,
                     struct lw_calls_branch *branch);
void lw_calls_branch_release(struct lw_calls_branch *branch);

/* Return to the root, from wherever: recording stops for this thread. */
void lw_calls_leave_all(struct lw_calls_thread *thread, uint64_t now);

/* Leave calls until FUNCTION is the running one, if it is among the last 256. */
void lw_calls_leave_to(struct lw_calls_thread *thread, uint32_t function, uint64_t now);

/* Leave calls until FUNCTION itself has been left, if it is among the last 256 that
 * are running; else count a return that fits no call and stay. */
void lw_calls_leave_through(struct lw_calls_thread *thread, uint32_t function,
                            uint64_t now);

#endif
