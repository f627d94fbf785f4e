/* Stacks are numbered parents first, so two passes do it: upwards, to see which stacks
 * are used, and downwards, to give each the node that its parent's node has for its
 * function. A last pass from the end adds children into parents. */

#include "model/calltree.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "model/codes.h"

struct making {
    struct lw_calltree *tree;
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    size_t stack_count;
    struct lw_codes codes;
    struct lw_map map; /* of nodes, by parent and code */
    size_t capacity;   /* of the tree's nodes */
    uint32_t *node_of; /* by stack */
    bool *is_used;     /* by stack */
    bool has_lines;    /* several frames are one function */
};

struct place {
    uint32_t parent, code;
};

static bool same_node(const void *owner, uint32_t number, const void *key)
{
    const struct making *making = owner;
    const struct lw_calltree_node *node = &making->tree->nodes[number];
    const struct place *place = key;

    return node->parent == place->parent &&
           making->codes.code_of[node->frame] == place->code;
}

static bool add_node(struct making *making, const struct place *place, uint32_t *number,
                     struct lw_error *err)
{
    struct lw_calltree *tree = making->tree;

    if (!lw_grow(&tree->nodes, &making->capacity, tree->node_count + 1,
                 sizeof(*tree->nodes), err))
        return false;
    *number = (uint32_t)tree->node_count++;
    tree->nodes[*number] = (struct lw_calltree_node){
        .parent = place->parent,
        .depth = tree->nodes[place->parent].depth + 1,
        .frame = making->codes.first[place->code],
    };
    return true;
}

/* Where every frame is a function of its own, so is every stack a node. */
static bool find_node(struct making *making, lw_stack_id stack, struct lw_error *err)
{
    struct place place = { making->node_of[making->stacks[stack].parent],
                           making->codes.code_of[making->stacks[stack].frame] };
    uint64_t hash = lw_hash_u64((uint64_t)place.parent << 32 | place.code);
    uint32_t number = 0;

    if (making->has_lines)
        number = lw_map_find(&making->map, hash, same_node, making, &place);
    if (!number) {
        if (!add_node(making, &place, &number, err) ||
            (making->has_lines && !lw_map_add(&making->map, hash, number, err)))
            return false;
    }
    making->node_of[stack] = number;
    return true;
}

static void use_stack(struct making *making, lw_stack_id stack)
{
    while (!making->is_used[stack]) {
        making->is_used[stack] = true;
        stack = making->stacks[stack].parent;
    }
}

/* Which stacks there are in the rows, and in those of no other thread. */
static void mark_rows(struct making *making, const bool *threads)
{
    const struct lw_profile *profile = making->profile;

    making->is_used[LW_NO_STACK] = true;
    if (making->tree->source == LW_GRAPH_CALLS) {
        for (size_t i = 0; i < profile->call_count; i++)
            if (!threads || threads[profile->calls[i].thread])
                use_stack(making, profile->calls[i].stack);
    } else {
        for (size_t i = 0; i < profile->sample_count; i++)
            if (!threads || threads[profile->samples[i].thread])
                use_stack(making, profile->samples[i].stack);
    }
}

static void add_rows(struct making *making, const bool *threads)
{
    const struct lw_profile *profile = making->profile;
    struct lw_calltree_node *nodes = making->tree->nodes;

    if (making->tree->source == LW_GRAPH_CALLS) {
        for (size_t i = 0; i < profile->call_count; i++) {
            const struct lw_call_row *row = &profile->calls[i];

            if (threads && !threads[row->thread])
                continue;
            nodes[making->node_of[row->stack]].calls += row->calls;
            nodes[making->node_of[row->stack]].self_ns += row->self_ns;
        }
    } else {
        for (size_t i = 0; i < profile->sample_count; i++) {
            const struct lw_sample *sample = &profile->samples[i];

            if (threads && !threads[sample->thread])
                continue;
            nodes[making->node_of[sample->stack]].self_ns += sample->weight_ns;
            nodes[making->node_of[sample->stack]].samples += sample->count;
        }
    }
    for (size_t i = making->tree->node_count; i-- > 0;) {
        nodes[i].total_ns += nodes[i].self_ns;
        if (i == 0)
            break;
        nodes[nodes[i].parent].total_ns += nodes[i].total_ns;
        nodes[nodes[i].parent].samples += nodes[i].samples;
    }
}

static bool make_tree(struct making *making, const bool *threads, struct lw_error *err)
{
    struct lw_calltree *tree = making->tree;
    size_t frame_count;

    if (!lw_codes_init(&making->codes, making->profile, LW_ALIKE_NAME, err) ||
        !(making->node_of = lw_zalloc(making->stack_count, sizeof(uint32_t), err)) ||
        !(making->is_used = lw_zalloc(making->stack_count, sizeof(bool), err)) ||
        !lw_grow(&tree->nodes, &making->capacity, 1, sizeof(*tree->nodes), err))
        return false;
    lw_stacks_frames(making->profile->stacks, &frame_count);
    making->has_lines = making->codes.count < frame_count;
    memset(&tree->nodes[0], 0, sizeof(tree->nodes[0]));
    tree->node_count = 1;
    mark_rows(making, threads);
    for (size_t i = 1; i < making->stack_count; i++)
        if (making->is_used[i] && !find_node(making, (lw_stack_id)i, err))
            return false;
    add_rows(making, threads);
    return true;
}

bool lw_calltree_init(struct lw_calltree *tree, const struct lw_profile *profile,
                      enum lw_graph_source source, const bool *threads,
                      struct lw_error *err)
{
    struct making making = { .tree = tree, .profile = profile };
    bool done;

    memset(tree, 0, sizeof(*tree));
    tree->source = source == LW_GRAPH_ANY ? lw_callgraph_source(profile) : source;
    if (tree->source == LW_GRAPH_GIVEN && profile->function_count == 0)
        tree->source = LW_GRAPH_CALLS; /* nothing was recorded: the root alone */
    if (tree->source == LW_GRAPH_GIVEN)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "there is no tree: such a file holds who called whom, but not "
            "along which paths; functions, callers and callees can be shown");
    making.stacks = lw_stacks_list(profile->stacks, &making.stack_count);
    lw_map_init(&making.map);
    done = make_tree(&making, threads, err);
    lw_codes_release(&making.codes);
    lw_map_release(&making.map);
    lw_free(making.node_of);
    lw_free(making.is_used);
    return done;
}

void lw_calltree_release(struct lw_calltree *tree)
{
    lw_free(tree->nodes);
    memset(tree, 0, sizeof(*tree));
}
