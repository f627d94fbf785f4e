/* Two ideas of whose a piece of memory is. Ours: of the innermost op that its thread was
 * in. torch's: of every op of the rank that ran at the time, on whatever thread. */

#include "analyses/op_tree_memory.h"

#include "base/alloc.h"

/* Which of the two, as torch tells them apart; NULL: neither. */
static struct lw_op_memory *memory_of(const struct lw_op_tree *tree,
                                      const struct lw_memory_event *event)
{
    switch (event->device_type) {
    case 0: /* CPU */
    case 2: /* MKLDNN */
    case 5: /* IDEEP */ return tree->host_memory;
    case -1: return NULL;
    default: return tree->device_memory;
    }
}

/* What is allocated or freed belongs to the innermost that its thread was in. */
static void add_memory_of_track(struct lw_op_tree *tree, const struct lw_track *track,
                                const uint32_t *list, size_t count)
{
    uint32_t next = track->first, end = track->first + track->count;
    uint32_t open = LW_NONE;

    for (size_t m = 0; m < count; m++) {
        const struct lw_memory_event *event = &tree->scope->trace->memory[list[m]];
        struct lw_op_memory *memory = memory_of(tree, event);

        for (;
             next < end && tree->scope->trace->events[next].start_ns <= event->time_ns;
             next++)
            if (tree->nodes[next].is_in)
                open = next;
        while (open != LW_NONE &&
               lw_event_end_ns(&tree->scope->trace->events[open]) < event->time_ns)
            open = tree->nodes[open].parent;
        if (open != LW_NONE && memory)
            memory[open].self_bytes = lw_op_plus(memory[open].self_bytes, event->bytes);
    }
}

static bool is_block(const struct lw_op_tree *tree, const struct lw_memory_event *event)
{
    return event->kind == LW_MEMORY_BLOCK &&
           tree->scope->ranks[tree->scope->trace->tracks[event->track].rank];
}

/* Indexes of the memory events, track by track, in order of time; FIRSTS has where each
 * track's begin, and one more. */
static bool sort_memory(const struct lw_op_tree *tree, uint32_t **list, size_t **firsts,
                        struct lw_error *err)
{
    const struct lw_trace *trace = tree->scope->trace;
    size_t at = 0;

    *list = lw_alloc(trace->memory_count * sizeof(**list) + 1, err);
    *firsts = *list ? lw_zalloc(trace->track_count + 2, sizeof(**firsts), err) : NULL;
    if (!*firsts)
        return false;
    for (size_t i = 0; i < trace->memory_count; i++)
        if (is_block(tree, &trace->memory[i]))
            (*firsts)[trace->memory[i].track + 2]++;
    for (size_t i = 2; i < trace->track_count + 2; i++)
        (*firsts)[i] = at += (*firsts)[i];
    for (uint32_t i = 0; i < trace->memory_count; i++)
        if (is_block(tree, &trace->memory[i]))
            (*list)[(*firsts)[trace->memory[i].track + 1]++] = i;
    return true;
}

static void sum_memory(const struct lw_op_tree *tree, struct lw_op_memory *memory)
{
    for (size_t i = tree->scope->trace->event_count; i-- > 0;) {
        const struct lw_op_node *node = &tree->nodes[i];

        if (!node->is_in)
            continue;
        memory[i].total_bytes = lw_op_plus(memory[i].total_bytes, memory[i].self_bytes);
        if (node->parent != LW_NONE)
            memory[node->parent].total_bytes =
                lw_op_plus(memory[node->parent].total_bytes, memory[i].total_bytes);
    }
}

static bool add_own_memory(struct lw_op_tree *tree, struct lw_error *err)
{
    uint32_t *list = NULL;
    size_t *firsts = NULL;
    bool done = sort_memory(tree, &list, &firsts, err);

    for (size_t i = 0; done && i < tree->scope->trace->track_count; i++)
        add_memory_of_track(tree, &tree->scope->trace->tracks[i], list + firsts[i],
                            firsts[i + 1] - firsts[i]);
    if (done) {
        sum_memory(tree, tree->host_memory);
        sum_memory(tree, tree->device_memory);
    }
    lw_free(list);
    lw_free(firsts);
    return done;
}

/* For torch's idea of it: the memory of one rank, added up over time. */
struct running {
    uint64_t *times_ns;
    int64_t *host_bytes, *device_bytes; /* before each time, and after the last */
    size_t count;
};

/* How many are before TIME_NS, or not after it. */
static size_t count_until(const struct running *sums, uint64_t time_ns, bool inclusive)
{
    size_t low = 0, high = sums->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (sums->times_ns[middle] < time_ns ||
            (inclusive && sums->times_ns[middle] == time_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_running(const struct lw_op_tree *tree, uint32_t rank,
                         struct running *sums)
{
    const struct lw_trace *trace = tree->scope->trace;

    sums->count = 0;
    sums->host_bytes[0] = sums->device_bytes[0] = 0;
    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct lw_memory_event *event = &trace->memory[i];
        struct lw_op_memory *memory = memory_of(tree, event);
        size_t at = sums->count;

        if (!is_block(tree, event) || trace->tracks[event->track].rank != rank)
            continue;
        sums->times_ns[at] = event->time_ns;
        sums->host_bytes[at + 1] = lw_op_plus(
            sums->host_bytes[at], memory == tree->host_memory ? event->bytes : 0);
        sums->device_bytes[at + 1] = lw_op_plus(
            sums->device_bytes[at], memory == tree->device_memory ? event->bytes : 0);
        sums->count++;
    }
}

/* Of one event, from sums before it and after it. */
static void take_memory(const struct lw_op_tree *tree, struct lw_op_memory *memory,
                        uint32_t index, int64_t before, int64_t after)
{
    uint32_t parent = tree->nodes[index].parent;
    int64_t bytes = lw_op_minus(after, before);

    memory[index].total_bytes = bytes;
    memory[index].self_bytes = lw_op_plus(memory[index].self_bytes, bytes);
    if (parent != LW_NONE)
        memory[parent].self_bytes = lw_op_minus(memory[parent].self_bytes, bytes);
}

static void take_running(struct lw_op_tree *tree, uint32_t index,
                         const struct running *sums)
{
    const struct lw_event *event = &tree->scope->trace->events[index];
    size_t from = count_until(sums, event->start_ns, false);
    size_t to = count_until(sums, lw_event_end_ns(event), true);

    take_memory(tree, tree->host_memory, index, sums->host_bytes[from],
                sums->host_bytes[to]);
    take_memory(tree, tree->device_memory, index, sums->device_bytes[from],
                sums->device_bytes[to]);
}

/* torch counts what any thread allocates while an op runs, both ends included. */
static bool add_torch_memory(struct lw_op_tree *tree, struct lw_error *err)
{
    size_t count = tree->scope->trace->memory_count + 1;
    struct running sums = {
        .times_ns = lw_alloc(count * sizeof(*sums.times_ns), err),
        .host_bytes = lw_alloc(count * sizeof(*sums.host_bytes), err),
        .device_bytes = lw_alloc(count * sizeof(*sums.device_bytes), err),
    };
    bool done = sums.times_ns && sums.host_bytes && sums.device_bytes;

    for (uint32_t rank = 0; done && rank < tree->scope->trace->rank_count; rank++) {
        if (!tree->scope->ranks[rank])
            continue;
        fill_running(tree, rank, &sums);
        for (uint32_t i = 0; i < tree->scope->trace->event_count; i++)
            if (tree->nodes[i].is_in &&
                tree->scope->trace->tracks[tree->scope->trace->events[i].track].rank ==
                    rank)
                take_running(tree, i, &sums);
    }
    lw_free(sums.times_ns);
    lw_free(sums.host_bytes);
    lw_free(sums.device_bytes);
    return done;
}

bool lw_op_tree_add_memory(struct lw_op_tree *tree, struct lw_error *err)
{
    size_t count = tree->scope->trace->event_count + 1;
    size_t blocks = 0;

    for (size_t i = 0; i < tree->scope->trace->memory_count; i++)
        blocks += is_block(tree, &tree->scope->trace->memory[i]);
    if (blocks == 0 || tree->kind == LW_OP_TREE_TB)
        return true;
    tree->host_memory = lw_zalloc(count, sizeof(*tree->host_memory), err);
    tree->device_memory =
        tree->host_memory ? lw_zalloc(count, sizeof(*tree->device_memory), err) : NULL;
    if (!tree->device_memory)
        return false;
    return tree->kind == LW_OP_TREE_TORCH ? add_torch_memory(tree, err)
                                          : add_own_memory(tree, err);
}
