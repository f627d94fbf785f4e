/* Memory by op: what each op allocated, and by how much memory grew in it, in its own code
 * and with what it called.
 *
 * An allocation is its op's own, the nearest on the thread. For a name it counts once in
 * the total, however often ops of that name are in each other. */

#include <string.h>

#include "analyses/memory_ops.h"
#include "analyses/op_tree.h"
#include "base/alloc.h"

const struct lw_column lw_memory_op_columns[] = {
    { "op", "op", LW_UNIT_TEXT, true },
    { "device", "device", LW_UNIT_TEXT, false },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "self_allocations", "own allocs", LW_UNIT_COUNT, false },
    { "self_allocated_bytes", "own bytes", LW_UNIT_BYTES, false },
    { "self_increase_bytes", "own growth", LW_UNIT_BYTES, false },
    { "allocations", "allocs", LW_UNIT_COUNT, false },
    { "allocated_bytes", "bytes", LW_UNIT_BYTES, false },
    { "increase_bytes", "growth", LW_UNIT_BYTES, false },
};

void lw_memory_cost_add(struct lw_memory_cost *cost, const struct lw_memory_cost *more)
{
    cost->allocations += more->allocations;
    cost->allocated_bytes = lw_memory_sum(cost->allocated_bytes, more->allocated_bytes);
    cost->increase_bytes = lw_memory_sum(cost->increase_bytes, more->increase_bytes);
}

void lw_memory_cost_count(struct lw_memory_cost *cost, int64_t bytes)
{
    struct lw_memory_cost one = { bytes > 0, bytes > 0 ? bytes : 0, bytes };

    lw_memory_cost_add(cost, &one);
}

/* Rows */

bool lw_memory_names_init(struct lw_memory_names *names,
                          const struct lw_memory_uses *uses, struct lw_error *err)
{
    size_t count = lw_strings_count(uses->profile->strings);

    memset(names, 0, sizeof(*names));
    names->slots = lw_zalloc(count, sizeof(*names->slots), err);
    names->calls = names->slots ? lw_zalloc(count, sizeof(*names->calls), err) : NULL;
    return names->calls != NULL;
}

void lw_memory_names_release(struct lw_memory_names *names)
{
    lw_free(names->slots);
    lw_free(names->calls);
    lw_free(names->rows);
    memset(names, 0, sizeof(*names));
}

struct lw_memory_name *lw_memory_names_get(struct lw_memory_names *names,
                                           lw_string_id name, struct lw_error *err)
{
    struct lw_memory_name row = { .name = name };

    if (!names->slots[name]) {
        if (!lw_grow(&names->rows, &names->capacity, names->count + 1,
                     sizeof(*names->rows), err))
            return NULL;
        names->rows[names->count] = row;
        names->slots[name] = (uint32_t)++names->count;
    }
    return &names->rows[names->slots[name] - 1];
}

void lw_memory_names_reset(struct lw_memory_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        names->slots[names->rows[i].name] = 0;
    names->count = 0;
}

static void cost_cells(struct lw_table *table, const struct lw_memory_cost *cost)
{
    lw_table_add_integer(table, (int64_t)cost->allocations);
    lw_table_add_integer(table, cost->allocated_bytes);
    lw_table_add_integer(table, cost->increase_bytes);
}

static bool is_zero(const struct lw_memory_cost *cost)
{
    return !cost->allocations && !cost->allocated_bytes && !cost->increase_bytes;
}

void lw_memory_names_show(const struct lw_memory_names *names,
                          const struct lw_memory_uses *uses, uint32_t device,
                          struct lw_table *table)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct lw_memory_name *row = &names->rows[i];

        if (is_zero(&row->self) && is_zero(&row->total))
            continue;
        lw_table_row(table, 0);
        lw_table_add_text(table, lw_profile_text(uses->profile, row->name),
                          lw_strings_len(uses->profile->strings, row->name));
        lw_memory_device_cell(uses, device, table);
        lw_table_add_integer(table, (int64_t)names->calls[row->name]);
        cost_cells(table, &row->self);
        cost_cells(table, &row->total);
    }
}

/* Adding up */

struct adding {
    const struct lw_memory_uses *uses;
    struct lw_op_tree tree; /* for calls: those in the op of the same name are one */
    struct lw_memory_names names;
    struct lw_memory_cost *costs; /* of each event: of the device at hand */
    uint32_t *ends;               /* of each event: behind the last that is in it */
    uint32_t *outer; /* of each name: its op that was met last outside of itself, + 1 */
    struct lw_memory_cost nobody; /* in no op */
};

/* An op whose name is one: not a step of the schedule, which old profilers write so. */
static bool is_op(const struct adding *a, uint32_t event)
{
    const struct lw_trace *trace = a->uses->trace;

    return trace->events[event].kind == LW_EVENT_OP &&
           !lw_trace_is_step(
               lw_profile_text(a->uses->profile, trace->events[event].name));
}

/* The nearest op around EVENT that is one. Steps are not in each other. */
static uint32_t op_of(const struct adding *a, uint32_t event)
{
    uint32_t op = event == LW_NONE ? LW_NONE : a->uses->askers.ops[event];

    return op != LW_NONE && is_op(a, op) ? op : LW_NONE;
}

/* On one thread what is in an event lies behind it, with nothing else between. */
static void find_ends(const struct adding *a)
{
    const struct lw_trace *trace = a->uses->trace;

    for (uint32_t i = 0; i < trace->event_count; i++)
        a->ends[i] = i + 1;
    for (size_t i = trace->event_count; i-- > 0;) {
        uint32_t parent = trace->events[i].parent;

        if (parent != LW_NONE && parent < i && a->ends[parent] < a->ends[i] &&
            trace->events[parent].track == trace->events[i].track)
            a->ends[parent] = a->ends[i];
    }
}

static void clear_track(struct adding *a, const struct lw_track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        lw_string_id name = a->uses->trace->events[i].name;

        memset(&a->costs[i], 0, sizeof(a->costs[i]));
        a->names.calls[name] = 0;
        a->outer[name] = 0;
    }
}

static void count_calls(struct adding *a, const struct lw_track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++)
        if (a->tree.nodes[i].is_in && is_op(a, i))
            a->names.calls[a->uses->trace->events[i].name]++;
}

static void add_costs(struct adding *a, const struct lw_memory_device *device)
{
    const struct lw_memory_uses *uses = a->uses;

    memset(&a->nobody, 0, sizeof(a->nobody));
    for (uint32_t i = device->first; i < device->first + device->count; i++) {
        uint32_t index = uses->order[i], op;

        if (uses->trace->memory[index].kind != LW_MEMORY_BLOCK)
            continue;
        op = op_of(a, uses->list[index].event);
        lw_memory_cost_count(op == LW_NONE ? &a->nobody : &a->costs[op],
                             uses->trace->memory[index].bytes);
    }
}

static bool add_self(struct adding *a, const struct lw_track *track,
                     struct lw_error *err)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        struct lw_memory_name *row;

        if (is_zero(&a->costs[i]))
            continue;
        row = lw_memory_names_get(&a->names, a->uses->trace->events[i].name, err);
        if (!row)
            return false;
        lw_memory_cost_add(&row->self, &a->costs[i]);
    }
    return true;
}

/* To what is each event's own, what is in it is added: children lie behind. */
static bool add_total(struct adding *a, const struct lw_track *track,
                      struct lw_error *err)
{
    const struct lw_event *events = a->uses->trace->events;

    for (uint32_t i = track->first + track->count; i-- > track->first;) {
        uint32_t parent = events[i].parent;

        if (parent != LW_NONE && parent < i && events[parent].track == events[i].track)
            lw_memory_cost_add(&a->costs[parent], &a->costs[i]);
    }
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        lw_string_id name = events[i].name;
        struct lw_memory_name *row;

        if (is_zero(&a->costs[i]) || !is_op(a, i) ||
            (a->outer[name] && i < a->ends[a->outer[name] - 1]))
            continue;
        a->outer[name] = i + 1;
        if (!(row = lw_memory_names_get(&a->names, name, err)))
            return false;
        lw_memory_cost_add(&row->total, &a->costs[i]);
    }
    return true;
}

static void show_nobody(const struct adding *a, uint32_t device, struct lw_table *table)
{
    if (is_zero(&a->nobody))
        return;
    lw_table_row(table, 0);
    lw_table_add_text(table, "(in no op)", 10);
    lw_memory_device_cell(a->uses, device, table);
    lw_table_add_none(table);
    cost_cells(table, &a->nobody);
    cost_cells(table, &a->nobody);
}

static bool add_device(struct adding *a, uint32_t index, struct lw_table *table,
                       struct lw_error *err)
{
    const struct lw_trace *trace = a->uses->trace;
    const struct lw_memory_device *device = &a->uses->devices[index];

    lw_memory_names_reset(&a->names);
    for (size_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].rank == device->rank)
            clear_track(a, &trace->tracks[i]);
    add_costs(a, device);
    for (size_t i = 0; i < trace->track_count; i++) {
        if (trace->tracks[i].rank != device->rank)
            continue;
        count_calls(a, &trace->tracks[i]);
        if (!add_self(a, &trace->tracks[i], err) ||
            !add_total(a, &trace->tracks[i], err))
            return false;
    }
    lw_memory_names_show(&a->names, a->uses, index, table);
    show_nobody(a, index, table);
    return true;
}

bool lw_memory_by_op(const struct lw_memory_uses *uses, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err)
{
    size_t events = uses->trace->event_count;
    size_t strings = lw_strings_count(uses->profile->strings);
    struct adding a = { .uses = uses };
    bool done;

    lw_table_init(table, lw_memory_op_columns, LW_MEMORY_OP_COLUMNS);
    done = lw_op_tree_init(&a.tree, &uses->scope, LW_OP_TREE_OWN, err) &&
           lw_memory_names_init(&a.names, uses, err) &&
           (a.costs = lw_alloc(events * sizeof(*a.costs) + 1, err)) &&
           (a.ends = lw_alloc(events * sizeof(*a.ends) + 1, err)) &&
           (a.outer = lw_alloc(strings * sizeof(*a.outer), err));
    if (done)
        find_ends(&a);
    for (uint32_t i = 0; done && i < uses->device_count; i++)
        done = add_device(&a, i, table, err);
    lw_free(a.costs);
    lw_free(a.ends);
    lw_free(a.outer);
    lw_memory_names_release(&a.names);
    lw_op_tree_release(&a.tree);
    return done && lw_memory_arrange(table, query, "self_allocated_bytes", err);
}
