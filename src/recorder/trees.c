/* Finds what changed in the calling-context trees, and each node's stack. */

#include "recorder/trees.h"

#include <string.h>

#include "base/alloc.h"

#define STACK_UNKNOWN LW_NO_STACK
#define STACK_IN_CHAIN UINT32_MAX /* its stack is being looked for right now */

void lw_trees_init(struct lw_trees *trees)
{
    memset(trees, 0, sizeof(*trees));
    trees->self_most = UINT64_MAX;
}

void lw_trees_release(struct lw_trees *trees)
{
    for (size_t block = 0; block < trees->block_capacity; block++) {
        lw_free(trees->blocks[block].told);
        lw_free(trees->blocks[block].stacks);
    }
    lw_free(trees->blocks);
    lw_free(trees->chain);
    lw_free(trees->changes);
    memset(trees, 0, sizeof(*trees));
}

/* BLOCK is one that the region has. */
static bool open_block(struct lw_trees *trees, const struct lw_shared *shared,
                       uint32_t block, struct lw_error *err)
{
    size_t before = trees->block_capacity;
    struct lw_tree_block *opened;

    if (!lw_grow(&trees->blocks, &trees->block_capacity, (size_t)block + 1,
                 sizeof(*trees->blocks), err))
        return false;
    if (trees->block_capacity > before)
        memset(&trees->blocks[before], 0,
               (trees->block_capacity - before) * sizeof(*trees->blocks));
    opened = &trees->blocks[block];
    if (!opened->told)
        opened->told = lw_zalloc(shared->block_nodes, sizeof(*opened->told), err);
    if (!opened->stacks)
        opened->stacks = lw_zalloc(shared->block_nodes, sizeof(*opened->stacks), err);
    return opened->told && opened->stacks;
}

static lw_stack_id *stack_place(const struct lw_trees *trees,
                                const struct lw_shared *shared, uint32_t node)
{
    return &trees->blocks[node / shared->block_nodes]
                .stacks[node % shared->block_nodes];
}

static uint32_t function_of(const struct lw_shared *shared, uint32_t node)
{
    return atomic_load_explicit(&lw_shared_node(shared, node)->function,
                                memory_order_acquire);
}

/* Climb from NODE towards the root and note the nodes without a known stack in
 * `chain`, topmost caller last. *BASE becomes the stack above them. Every node is in
 * the chain at most once, so a circle of parents ends the climb. */
static bool climb(struct lw_trees *trees, const struct lw_shared *shared, uint32_t node,
                  size_t *count, lw_stack_id *base, struct lw_error *err)
{
    *count = 0;
    *base = LW_NO_STACK;
    for (;;) {
        uint32_t function = 0;
        lw_stack_id *place;

        if (node < shared->node_count) {
            if (!lw_shared_reach_node(shared, node, err))
                return false;
            function = function_of(shared, node);
        }
        if (function == LW_FUNCTION_ROOT)
            return true;
        if (function == 0) {
            trees->damaged_nodes++;
            return true;
        }
        if (!open_block(trees, shared, node / shared->block_nodes, err))
            return false;
        place = stack_place(trees, shared, node);
        if (*place == STACK_IN_CHAIN) {
            trees->damaged_nodes++;
            return true;
        }
        if (*place != STACK_UNKNOWN) {
            *base = *place;
            return true;
        }
        if (!lw_grow(&trees->chain, &trees->chain_capacity, *count + 1,
                     sizeof(*trees->chain), err))
            return false;
        trees->chain[(*count)++] = node;
        *place = STACK_IN_CHAIN;
        node = lw_shared_node(shared, node)->parent;
    }
}

static bool find_stack(struct lw_trees *trees, const struct lw_tree_context *context,
                       uint32_t node, lw_stack_id *stack, struct lw_error *err)
{
    const struct lw_shared *shared = context->shared;
    size_t left;
    bool done = climb(trees, shared, node, &left, stack, err);

    while (done && left > 0) {
        uint32_t at = trees->chain[left - 1];
        lw_frame_id frame;

        done = lw_name_log_frame(context->log, shared, context->writer,
                                 function_of(shared, at), &frame, err) &&
               lw_lap_writer_push(context->writer, *stack, frame, stack, err);
        if (done) {
            *stack_place(trees, shared, at) = *stack;
            left--;
        }
    }
    while (left > 0) /* not done: the next try starts from here */
        *stack_place(trees, shared, trees->chain[--left]) = STACK_UNKNOWN;
    return done;
}

bool lw_trees_stack(struct lw_trees *trees, const struct lw_tree_context *context,
                    uint32_t node, lw_stack_id *stack, struct lw_error *err)
{
    const struct lw_shared *shared = context->shared;
    size_t block = node / shared->block_nodes;

    if (node < shared->node_count && block < trees->block_capacity &&
        trees->blocks[block].stacks) {
        *stack = *stack_place(trees, shared, node);
        if (*stack != STACK_UNKNOWN)
            return true;
    }
    return find_stack(trees, context, node, stack, err);
}

static struct lw_told *told_place(const struct lw_trees *trees,
                                  const struct lw_shared *shared, uint32_t node)
{
    return &trees->blocks[node / shared->block_nodes].told[node % shared->block_nodes];
}

/* Told from now on, unless lw_trees_abandon() takes it back. */
static bool add_change(struct lw_trees *trees, const struct lw_tree_context *context,
                       struct lw_tree_change change, struct lw_error *err)
{
    struct lw_told *told = told_place(trees, context->shared, change.node);

    if (!lw_trees_stack(trees, context, change.node, &change.stack, err) ||
        !lw_grow(&trees->changes, &trees->change_capacity, trees->change_count + 1,
                 sizeof(*trees->changes), err))
        return false;
    trees->changes[trees->change_count++] = change;
    told->calls += change.calls;
    told->self_ticks += change.self_ticks;
    return true;
}

/* What A counts beyond B. Both may have passed 2^64, where a counter jumped back. */
static uint64_t beyond(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) > 0 ? a - b : 0;
}

/* Did NODE get, or lose, more time than has passed since it had TOLD ticks? One whose
 * running call was told ahead may be behind by any time. */
static bool has_jumped(const struct lw_trees *trees, uint32_t node, uint64_t self,
                       uint64_t told)
{
    uint64_t most = trees->self_most;

    if (most == UINT64_MAX)
        return false;
    return beyond(self, told) > most ||
           (beyond(told, self) > most && node != trees->ahead);
}

bool lw_trees_scan(struct lw_trees *trees, const struct lw_tree_context *context,
                   uint32_t block, uint32_t thread, struct lw_error *err)
{
    const struct lw_shared *shared = context->shared;
    uint32_t first = block * shared->block_nodes;
    const struct lw_agent_node *nodes;
    struct lw_told *told;

    if (!lw_shared_reach_node(shared, first + shared->block_nodes - 1, err) ||
        !open_block(trees, shared, block, err))
        return false;
    nodes = lw_shared_node(shared, first);
    told = trees->blocks[block].told;
    for (uint32_t i = first == 0 ? 1 : 0; i < shared->block_nodes; i++) {
        uint32_t function =
            atomic_load_explicit(&nodes[i].function, memory_order_acquire);
        uint64_t calls = atomic_load_explicit(&nodes[i].calls, memory_order_relaxed);
        uint64_t self =
            atomic_load_explicit(&nodes[i].self_ticks, memory_order_relaxed);
        struct lw_tree_change change = { .node = first + i, .thread = thread };

        if (function == 0)
            break; /* nodes are taken in order: the rest of the block is unused */
        if (has_jumped(trees, first + i, self, told[i].self_ticks))
            told[i].self_ticks = self; /* its time since the last round is not told */
        if (calls <= told[i].calls && beyond(self, told[i].self_ticks) == 0)
            continue;
        if (function == LW_FUNCTION_ROOT)
            continue; /* time in no recorded function */
        change.calls = calls > told[i].calls ? calls - told[i].calls : 0;
        change.self_ticks = beyond(self, told[i].self_ticks);
        if (!add_change(trees, context, change, err))
            return false;
    }
    return true;
}

bool lw_trees_run_ahead(struct lw_trees *trees, const struct lw_tree_context *context,
                        uint32_t node, uint32_t thread, uint64_t self_ticks,
                        struct lw_error *err)
{
    struct lw_tree_change change = { .node = node, .thread = thread };

    if (!open_block(trees, context->shared, node / context->shared->block_nodes, err))
        return false;
    change.self_ticks =
        beyond(self_ticks, told_place(trees, context->shared, node)->self_ticks);
    return change.self_ticks == 0 || add_change(trees, context, change, err);
}

bool lw_trees_pass_over(struct lw_trees *trees, const struct lw_shared *shared,
                        uint32_t node, uint64_t ticks, struct lw_error *err)
{
    if (!open_block(trees, shared, node / shared->block_nodes, err))
        return false;
    told_place(trees, shared, node)->self_ticks += ticks;
    return true;
}

void lw_trees_commit(struct lw_trees *trees)
{
    trees->change_count = 0;
}

void lw_trees_abandon(struct lw_trees *trees, const struct lw_shared *shared)
{
    for (size_t i = 0; i < trees->change_count; i++) {
        const struct lw_tree_change *change = &trees->changes[i];
        struct lw_told *told = told_place(trees, shared, change->node);

        told->calls -= change->calls;
        told->self_ticks -= change->self_ticks;
    }
    trees->change_count = 0;
}
