/* From a calling-context tree to functions and caller-callee pairs, in one walk.
 *
 * Whether a node's function (or pair) is already active above it is asked once a node.
 * Looking at the ancestors would be quadratic in the depth, so the walk keeps a counter
 * a function and a counter a pair, raised on the way down and lowered on the way up, as
 * cProfile does while the program runs. The walk goes along child, sibling and parent
 * links, so it needs no stack of its own at any depth.
 *
 *     frame --(without its line)--> code --(without its variant)--> function
 *
 * A code is what the interpreter would call one function: activations are counted by
 * code. A function is what prints as one: costs are added by function at the end. */

#include "model/callgraph_tree.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "model/codes.h"

#define ROOT 1u /* number of the root's node; 0: none */

struct sums {
    uint64_t calls, primitive_calls;
    uint64_t self_ns, total_ns;
    uint64_t self_samples, total_samples;
};

struct code {
    uint32_t active;    /* calls of it that are open where the walk is */
    uint32_t last_pair; /* pair met last with this callee; 0: none */
    uint32_t function;  /* index in the graph, given at the end */
    bool is_used;
    struct sums sums;
};

struct pair {
    uint32_t caller, callee; /* codes */
    uint32_t active;
    struct sums sums;
};

/* A stack of one thread. Nodes of a thread lie densely, whatever their stacks' ids. */
struct node {
    lw_stack_id stack;
    uint32_t code;
    uint32_t parent, first_child, next_sibling; /* nodes */
    uint32_t pair;                              /* 0: called by nobody */
    uint64_t calls;
    uint64_t self_ns;
    uint64_t samples;
    uint64_t total_ns; /* while walking: of the children so far */
    uint64_t total_samples;
};

struct walk {
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    size_t stack_count;

    struct lw_codes numbers;
    struct code *codes; /* by number */

    struct pair *pairs; /* from 1 */
    size_t pair_count, pair_capacity;
    struct lw_map pair_map;

    struct node *nodes; /* of the thread being walked, from ROOT */
    size_t node_count, node_capacity;
    uint32_t *node_of; /* by stack; 0: none yet */
};

static void walk_release(struct walk *walk)
{
    lw_codes_release(&walk->numbers);
    lw_free(walk->codes);
    lw_free(walk->pairs);
    lw_map_release(&walk->pair_map);
    lw_free(walk->nodes);
    lw_free(walk->node_of);
}

static uint64_t hash_pair(uint32_t a, uint32_t b)
{
    return lw_hash_u64((uint64_t)a << 32 | b);
}

static bool add_node(struct walk *walk, lw_stack_id stack, struct lw_error *err)
{
    struct node *node;

    if (!lw_grow(&walk->nodes, &walk->node_capacity, walk->node_count + 1,
                 sizeof(*walk->nodes), err))
        return false;
    node = &walk->nodes[walk->node_count];
    memset(node, 0, sizeof(*node));
    node->stack = stack;
    node->code = walk->numbers.code_of[walk->stacks[stack].frame];
    walk->node_of[stack] = (uint32_t)walk->node_count++;
    return true;
}

/* The node of STACK, made with all nodes above it if it is not there yet. */
static bool reach_node(struct walk *walk, lw_stack_id stack, uint32_t *number,
                       struct lw_error *err)
{
    uint32_t below = 0;

    for (lw_stack_id s = stack;; s = walk->stacks[s].parent) {
        bool was_there = walk->node_of[s] != 0;
        uint32_t here;

        if (!was_there && !add_node(walk, s, err))
            return false;
        here = walk->node_of[s];
        if (below) {
            walk->nodes[below].parent = here;
            walk->nodes[below].next_sibling = walk->nodes[here].first_child;
            walk->nodes[here].first_child = below;
        }
        if (was_there)
            break;
        below = here;
    }
    *number = walk->node_of[stack];
    return true;
}

static bool same_pair(const void *owner, uint32_t number, const void *key)
{
    const struct pair *a = &((const struct walk *)owner)->pairs[number];
    const struct pair *b = key;

    return a->caller == b->caller && a->callee == b->callee;
}

static bool find_pair(struct walk *walk, uint32_t caller, uint32_t callee,
                      uint32_t *number, struct lw_error *err)
{
    const struct pair key = { .caller = caller, .callee = callee };
    uint32_t *last = &walk->codes[callee].last_pair;
    uint64_t hash;

    if (*last && walk->pairs[*last].caller == caller) {
        *number = *last;
        return true;
    }
    hash = hash_pair(caller, callee);
    *number = lw_map_find(&walk->pair_map, hash, same_pair, walk, &key);
    if (!*number) {
        if (!lw_grow(&walk->pairs, &walk->pair_capacity, walk->pair_count + 1,
                     sizeof(*walk->pairs), err) ||
            !lw_map_add(&walk->pair_map, hash, (uint32_t)walk->pair_count, err))
            return false;
        *number = (uint32_t)walk->pair_count++;
        walk->pairs[*number] = key;
    }
    *last = *number;
    return true;
}

static bool enter_node(struct walk *walk, uint32_t number, struct lw_error *err)
{
    struct node *node = &walk->nodes[number];

    __builtin_prefetch(&walk->nodes[node->next_sibling]);
    walk->codes[node->code].is_used = true;
    walk->codes[node->code].active++;
    if (node->parent == ROOT)
        return true;
    if (!find_pair(walk, walk->nodes[node->parent].code, node->code, &node->pair, err))
        return false;
    walk->pairs[node->pair].active++;
    return true;
}

static void add_to_sums(struct sums *sums, const struct node *node, bool is_outermost)
{
    sums->calls += node->calls;
    sums->self_ns += node->self_ns;
    sums->self_samples += node->samples;
    if (is_outermost) {
        sums->primitive_calls += node->calls;
        sums->total_ns += node->total_ns;
        sums->total_samples += node->total_samples;
    }
}

static void leave_node(struct walk *walk, uint32_t number)
{
    struct node *node = &walk->nodes[number];
    struct code *code = &walk->codes[node->code];

    node->total_ns += node->self_ns;
    node->total_samples += node->samples;
    walk->nodes[node->parent].total_ns += node->total_ns;
    walk->nodes[node->parent].total_samples += node->total_samples;
    add_to_sums(&code->sums, node, --code->active == 0);
    if (node->pair) {
        struct pair *pair = &walk->pairs[node->pair];

        add_to_sums(&pair->sums, node, --pair->active == 0);
    }
}

static bool walk_nodes(struct walk *walk, struct lw_error *err)
{
    uint32_t at = walk->nodes[ROOT].first_child;

    while (at) {
        if (!enter_node(walk, at, err))
            return false;
        if (walk->nodes[at].first_child) {
            at = walk->nodes[at].first_child;
            continue;
        }
        for (;;) {
            const struct node *node = &walk->nodes[at];

            leave_node(walk, at);
            at = node->next_sibling ? node->next_sibling : node->parent;
            if (node->next_sibling)
                break;
            if (at == ROOT)
                return true;
        }
    }
    return true;
}

/* The rows of one thread: indexes of calls or samples, COUNT of them. The last comes
 * first, which leaves the children of a node in the order of the rows. */
static bool walk_thread(struct walk *walk, enum lw_graph_source source,
                        const uint32_t *rows, size_t count, struct lw_error *err)
{
    bool done = false;

    walk->node_count = ROOT;
    if (!add_node(walk, LW_NO_STACK, err))
        goto out;
    for (size_t i = count; i-- > 0;) {
        const struct lw_call_row *call = NULL;
        const struct lw_sample *sample = NULL;
        uint32_t number;

        if (source == LW_GRAPH_CALLS)
            call = &walk->profile->calls[rows[i]];
        else
            sample = &walk->profile->samples[rows[i]];
        if (!reach_node(walk, call ? call->stack : sample->stack, &number, err))
            goto out;
        walk->nodes[number].calls += call ? call->calls : 0;
        walk->nodes[number].samples += sample ? sample->count : 0;
        walk->nodes[number].self_ns += call ? call->self_ns : sample->weight_ns;
    }
    done = walk_nodes(walk, err);
out:
    for (size_t i = ROOT; i < walk->node_count; i++)
        walk->node_of[walk->nodes[i].stack] = 0;
    return done;
}

static uint32_t thread_of(const struct lw_profile *profile, enum lw_graph_source source,
                          size_t row)
{
    return source == LW_GRAPH_CALLS ? profile->calls[row].thread
                                    : profile->samples[row].thread;
}

/* Sort the rows by thread (counting sort) and walk each thread that is wanted. */
static bool walk_threads(struct walk *walk, enum lw_graph_source source,
                         const bool *threads, struct lw_error *err)
{
    const struct lw_profile *profile = walk->profile;
    size_t row_count =
        source == LW_GRAPH_CALLS ? profile->call_count : profile->sample_count;
    size_t thread_count = profile->thread_count;
    uint32_t *order = lw_alloc((row_count + 1) * sizeof(*order), err);
    size_t *start = lw_zalloc(thread_count + 2, sizeof(*start), err);
    bool done = false;

    if (!order || !start)
        goto out;
    if (row_count > UINT32_MAX) {
        lw_fail(err, LW_ERR_LIMIT, "%zu rows are more than can be added up", row_count);
        goto out;
    }
    /* start[t + 1] is where t begins, and after the second loop where it ends. */
    for (size_t i = 0; i < row_count; i++)
        start[thread_of(profile, source, i) + 2]++;
    for (size_t t = 2; t < thread_count + 2; t++)
        start[t] += start[t - 1];
    for (size_t i = 0; i < row_count; i++)
        order[start[thread_of(profile, source, i) + 1]++] = (uint32_t)i;

    for (size_t t = 0; t < thread_count; t++)
        if ((!threads || threads[t]) && start[t + 1] > start[t] &&
            !walk_thread(walk, source, order + start[t], start[t + 1] - start[t], err))
            goto out;
    done = true;
out:
    lw_free(order);
    lw_free(start);
    return done;
}

static struct lw_graph_cost cost_of(const struct sums *sums)
{
    struct lw_graph_cost cost = {
        .calls = (int64_t)sums->calls,
        .primitive_calls = (int64_t)sums->primitive_calls,
        .self_s = (double)sums->self_ns / 1e9,
        .total_s = (double)sums->total_ns / 1e9,
        .self_samples = (int64_t)sums->self_samples,
        .total_samples = (int64_t)sums->total_samples,
    };

    return cost;
}

/* One function for each code that was met, in the order of their frames, and one edge
 * for each pair. */
static bool fill_graph(struct walk *walk, struct lw_callgraph *graph,
                       struct lw_error *err)
{
    graph->functions = lw_zalloc(walk->numbers.count, sizeof(*graph->functions), err);
    graph->edges = lw_zalloc(walk->pair_count, sizeof(*graph->edges), err);
    if (!graph->functions || !graph->edges)
        return false;

    for (size_t i = 0; i < walk->numbers.count; i++) {
        struct code *code = &walk->codes[i];
        struct lw_function *function = &graph->functions[graph->function_count];

        if (!code->is_used)
            continue;
        lw_function_init(function, walk->profile, walk->numbers.first[i]);
        if (graph->by_line)
            function->line = lw_profile_frame(walk->profile, function->frame)->line;
        function->cost = cost_of(&code->sums);
        code->function = (uint32_t)graph->function_count++;
    }
    graph->listed_count = graph->function_count;

    for (size_t i = 1; i < walk->pair_count; i++) {
        const struct pair *pair = &walk->pairs[i];
        struct lw_graph_edge *edge = &graph->edges[graph->edge_count++];

        edge->caller = walk->codes[pair->caller].function;
        edge->callee = walk->codes[pair->callee].function;
        edge->cost = cost_of(&pair->sums);
    }
    return true;
}

bool lw_callgraph_walk(struct lw_callgraph *graph, const bool *threads,
                       struct lw_error *err)
{
    struct walk walk = { .profile = graph->profile, .pair_count = 1 };
    bool done;

    walk.stacks = lw_stacks_list(graph->profile->stacks, &walk.stack_count);
    lw_map_init(&walk.pair_map);
    done = lw_codes_init(&walk.numbers, graph->profile,
                         graph->by_line ? LW_ALIKE_LINE : LW_ALIKE_FUNCTION, err) &&
           (walk.codes = lw_zalloc(walk.numbers.count, sizeof(*walk.codes), err)) &&
           (walk.node_of = lw_zalloc(walk.stack_count, sizeof(*walk.node_of), err)) &&
           walk_threads(&walk, graph->source, threads, err) &&
           fill_graph(&walk, graph, err);
    walk_release(&walk);
    return done;
}
