/* The calling-context trees of a watched process: what changed since the last look.
 *
 * The agent only ever adds to a node's counts, so the recorder keeps its own copy of
 * what it has told the recording and each look tells the difference. Nothing is lost
 * between looks, whenever they come and however the process ends.
 *
 *     region                     ours, a block at a time
 *     node 513: calls 70         told: calls 64        -> row: 6 calls, 1.2 ms
 *               self 9.3 ms            self 8.1 ms
 *               parent 77        stack: 41 (77's stack and the function's frame)
 *
 * The time of a call that still runs is in no node yet: it is told ahead (added to what
 * was told of its node), and when the agent adds it at last, there is no difference
 * left to tell. */
#ifndef LW_RECORDER_TREES_H
#define LW_RECORDER_TREES_H

#include "lap/writer.h"
#include "recorder/name_log.h"
#include "recorder/shared.h"

struct lw_told {
    uint64_t calls;
    uint64_t self_ticks; /* may be ahead of the node, by time of a running call */
};

/* A row on its way to the recording, and what to take back if it cannot get there. */
struct lw_tree_change {
    uint32_t node;
    uint32_t thread; /* its number in the recording */
    lw_stack_id stack;
    uint64_t calls;      /* added since the last look */
    uint64_t self_ticks; /* likewise */
};

/* What is known of the nodes of a block; the arrays are owned, NULL until it is used. */
struct lw_tree_block {
    struct lw_told *told;
    lw_stack_id *stacks; /* 0: not known yet */
};

struct lw_trees {
    struct lw_tree_block *blocks; /* as many as were used, and a few; owned */
    size_t block_capacity;
    uint32_t *chain; /* scratch for finding a node's stack; owned */
    size_t chain_capacity;
    struct lw_tree_change *changes; /* of this look; owned */
    size_t change_count;
    size_t change_capacity;
    uint64_t damaged_nodes; /* whose parents made no sense; shown without callers */
    uint64_t self_most; /* once the counter has jumped: ticks that a node can have got
                               since it was last read; UINT64_MAX: it never has */
    uint32_t ahead;     /* the node whose running call is told ahead; 0: none */
};

void lw_trees_init(struct lw_trees *trees);
void lw_trees_release(struct lw_trees *trees);

/* Where names come from and where stacks go to, which every function below needs. */
struct lw_tree_context {
    const struct lw_shared *shared;
    struct lw_name_log *log;
    struct lw_lap_writer *writer;
};

/* The stack of NODE, which may be any number; LW_NO_STACK for a thread's root and for
 * what is no node. */
bool lw_trees_stack(struct lw_trees *trees, const struct lw_tree_context *context,
                    uint32_t node, lw_stack_id *stack, struct lw_error *err)
    LW_MUST_CHECK;

/* Append to `changes` what was added to the nodes of BLOCK, which belong to THREAD (its
 * number in the recording). */
bool lw_trees_scan(struct lw_trees *trees, const struct lw_tree_context *context,
                   uint32_t block, uint32_t thread, struct lw_error *err) LW_MUST_CHECK;

/* Append that NODE (below node_count) has a self time of SELF_TICKS when the time of its
 * running call is counted, as far as that was not told before. */
bool lw_trees_run_ahead(struct lw_trees *trees, const struct lw_tree_context *context,
                        uint32_t node, uint32_t thread, uint64_t self_ticks,
                        struct lw_error *err) LW_MUST_CHECK;

/* TICKS of the time that NODE (below node_count) is about to get, or has just got, are of a
 * jump of the counter: they will not be told. */
bool lw_trees_pass_over(struct lw_trees *trees, const struct lw_shared *shared,
                        uint32_t node, uint64_t ticks, struct lw_error *err)
    LW_MUST_CHECK;

/* The changes are in the recording. */
void lw_trees_commit(struct lw_trees *trees);
/* They are not: take them back, so that the next look finds them again. */
void lw_trees_abandon(struct lw_trees *trees, const struct lw_shared *shared);

#endif
