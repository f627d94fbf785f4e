/* Memory by op as torch_tb_profiler tells it: on its tree of operators, modules and steps
 * (op_tree.h), in which an allocation belongs to the innermost. Totals are added up over
 * nested ones of the same name, and calls are counted only in what allocated or freed
 * anything. */

#include "analyses/memory_tb.h"

#include <string.h>

#include "analyses/memory_ops.h"
#include "base/alloc.h"
#include "base/text.h"

static uint32_t innermost_at(const struct lw_memory_tb *tb, uint32_t track,
                             uint64_t time_ns, uint32_t *next, uint32_t *open)
{
    const struct lw_trace *trace = tb->uses->trace;
    uint32_t end = trace->tracks[track].first + trace->tracks[track].count;

    for (; *next < end && trace->events[*next].start_ns <= time_ns; ++*next)
        if (tb->tree.nodes[*next].is_in)
            *open = *next;
    while (*open != LW_NONE && lw_event_end_ns(&trace->events[*open]) <= time_ns)
        *open = tb->tree.nodes[*open].parent;
    return *open;
}

/* Memory events come in order of time, so each track is gone through once. */
static bool find_nodes(struct lw_memory_tb *tb, struct lw_error *err)
{
    const struct lw_trace *trace = tb->uses->trace;
    uint32_t *nexts = lw_alloc(2 * trace->track_count * sizeof(*nexts) + 1, err);
    uint32_t *opens = nexts + trace->track_count;

    if (!nexts)
        return false;
    for (size_t i = 0; i < trace->track_count; i++) {
        nexts[i] = trace->tracks[i].first;
        opens[i] = LW_NONE;
    }
    for (size_t i = 0; i < trace->memory_count; i++) {
        uint32_t track = trace->memory[i].track;

        tb->nodes[i] = tb->uses->list[i].device == LW_NONE
                           ? LW_NONE
                           : innermost_at(tb, track, trace->memory[i].time_ns,
                                          &nexts[track], &opens[track]);
    }
    lw_free(nexts);
    return true;
}

bool lw_memory_tb_init(struct lw_memory_tb *tb, const struct lw_memory_uses *uses,
                       struct lw_error *err)
{
    memset(tb, 0, sizeof(*tb));
    tb->uses = uses;
    tb->nodes = lw_alloc(uses->trace->memory_count * sizeof(*tb->nodes) + 1, err);
    return tb->nodes && lw_op_tree_init(&tb->tree, &uses->scope, LW_OP_TREE_TB, err) &&
           find_nodes(tb, err);
}

void lw_memory_tb_release(struct lw_memory_tb *tb)
{
    lw_free(tb->nodes);
    lw_op_tree_release(&tb->tree);
    memset(tb, 0, sizeof(*tb));
}

static bool is_listed(const struct lw_memory_tb *tb, uint32_t node)
{
    return lw_op_tree_is_tb_op(&tb->tree, &tb->uses->trace->events[node]);
}

/* Who made the allocation at INDEX. What only allocates is said with what it is in. */
void lw_memory_tb_op_cell(const struct lw_memory_tb *tb, size_t index,
                          struct lw_table *table)
{
    const struct lw_profile *profile = tb->uses->profile;
    const struct lw_event *events = tb->uses->trace->events;
    uint32_t node = tb->nodes[index], parent;
    struct lw_buf text;
    const char *name;

    if (node == LW_NONE || !is_listed(tb, node)) {
        lw_table_add_text(table, "<unknown>", 9);
        return;
    }
    name = lw_profile_text(profile, events[node].name);
    parent = tb->tree.nodes[node].parent;
    lw_buf_init(&text, 0);
    if (lw_text_starts(name, "aten::empty"))
        lw_buf_addf(&text, "%s (%s)",
                    parent == LW_NONE ? "CallTreeRoot"
                                      : lw_profile_text(profile, events[parent].name),
                    name);
    else
        lw_buf_add_text(&text, name);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

/* By op */

struct adding {
    const struct lw_memory_tb *tb;
    struct lw_memory_names names;
    struct lw_memory_cost *self, *total; /* of each event: of the device at hand */
    bool *has_any; /* of each event: anything was allocated or freed in it */
};

/* Up to one that was met before: each is met once. */
static void mark_reached(struct adding *a)
{
    const struct lw_memory_tb *tb = a->tb;

    for (size_t i = 0; i < tb->uses->trace->memory_count; i++)
        for (uint32_t node = tb->nodes[i]; node != LW_NONE && !a->has_any[node];
             node = tb->tree.nodes[node].parent)
            a->has_any[node] = true;
}

static void clear_track(struct adding *a, const struct lw_track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        memset(&a->self[i], 0, sizeof(a->self[i]));
        memset(&a->total[i], 0, sizeof(a->total[i]));
        a->names.calls[a->tb->uses->trace->events[i].name] = 0;
    }
}

static void count_calls(struct adding *a, const struct lw_track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_op_node *node = &a->tb->tree.nodes[i];

        if (node->is_in && (node->parent == LW_NONE || a->has_any[node->parent]) &&
            is_listed(a->tb, i))
            a->names.calls[a->tb->uses->trace->events[i].name]++;
    }
}

static void add_self(struct adding *a, const struct lw_memory_device *device)
{
    const struct lw_memory_tb *tb = a->tb;

    for (uint32_t i = device->first; i < device->first + device->count; i++) {
        uint32_t index = tb->uses->order[i], node = tb->nodes[index];

        if (node != LW_NONE && is_listed(tb, node))
            lw_memory_cost_count(&a->self[node], tb->uses->trace->memory[index].bytes);
    }
}

static void add_total(struct adding *a, const struct lw_track *track)
{
    for (uint32_t i = track->first + track->count; i-- > track->first;) {
        const struct lw_op_node *node = &a->tb->tree.nodes[i];

        if (!node->is_in)
            continue;
        lw_memory_cost_add(&a->total[i], &a->self[i]);
        if (node->parent != LW_NONE)
            lw_memory_cost_add(&a->total[node->parent], &a->total[i]);
    }
}

static bool add_rows(struct adding *a, const struct lw_track *track,
                     struct lw_error *err)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        struct lw_memory_name *row;

        if (!a->tb->tree.nodes[i].is_in || !a->has_any[i] || !is_listed(a->tb, i))
            continue;
        row = lw_memory_names_get(&a->names, a->tb->uses->trace->events[i].name, err);
        if (!row)
            return false;
        lw_memory_cost_add(&row->self, &a->self[i]);
        lw_memory_cost_add(&row->total, &a->total[i]);
    }
    return true;
}

static bool add_device(struct adding *a, uint32_t index, struct lw_table *table,
                       struct lw_error *err)
{
    const struct lw_trace *trace = a->tb->uses->trace;
    const struct lw_memory_device *device = &a->tb->uses->devices[index];

    lw_memory_names_reset(&a->names);
    for (size_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].rank == device->rank)
            clear_track(a, &trace->tracks[i]);
    add_self(a, device);
    for (size_t i = 0; i < trace->track_count; i++) {
        if (trace->tracks[i].rank != device->rank)
            continue;
        count_calls(a, &trace->tracks[i]);
        add_total(a, &trace->tracks[i]);
        if (!add_rows(a, &trace->tracks[i], err))
            return false;
    }
    lw_memory_names_show(&a->names, a->tb->uses, index, table);
    return true;
}

bool lw_memory_by_op_tb(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err)
{
    size_t events = uses->trace->event_count;
    struct lw_memory_tb tb;
    struct adding a = { .tb = &tb };
    bool done;

    lw_table_init(table, lw_memory_op_columns, LW_MEMORY_OP_COLUMNS);
    done = lw_memory_tb_init(&tb, uses, err) &&
           lw_memory_names_init(&a.names, uses, err) &&
           (a.self = lw_alloc(events * sizeof(*a.self) + 1, err)) &&
           (a.total = lw_alloc(events * sizeof(*a.total) + 1, err)) &&
           (a.has_any = lw_zalloc(events + 1, sizeof(*a.has_any), err));
    if (done)
        mark_reached(&a);
    for (uint32_t i = 0; done && i < uses->device_count; i++)
        done = add_device(&a, i, table, err);
    lw_free(a.self);
    lw_free(a.total);
    lw_free(a.has_any);
    lw_memory_names_release(&a.names);
    lw_memory_tb_release(&tb);
    return done && lw_memory_arrange(table, query, "self_increase_bytes", err);
}
