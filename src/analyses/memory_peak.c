/* Who held memory when most of it was taken.
 *
 * Alike allocations are one row: of the same op, for the same shapes, from the same line.
 * What was there before the recording began is a row of its own. */

#include <string.h>

#include "analyses/memory_tb.h"
#include "base/alloc.h"
#include "base/map.h"

static const struct lw_column columns[] = {
    { "op", "op", LW_UNIT_TEXT, true },
    { "device", "device", LW_UNIT_TEXT, false },
    { "bytes", "bytes", LW_UNIT_BYTES, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "blocks", "blocks", LW_UNIT_COUNT, false },
    { "allocated_ns", "first at", LW_UNIT_NS, false },
    { "shapes", "shapes", LW_UNIT_TEXT, true },
    { "place", "where", LW_UNIT_TEXT, true },
};

struct holder {
    lw_string_id op, outer, shapes, line;
    lw_stack_id stack;
    bool is_before;
    uint32_t index; /* of the first such allocation */
    uint64_t blocks;
    int64_t bytes;
};

struct holding {
    const struct lw_memory_uses *uses;
    const struct lw_memory_tb *tb; /* NULL: our own definitions */
    struct lw_map map;             /* index + 1 */
    struct holder *holders;
    size_t count, capacity;
};

static bool is_holder(const void *owner, uint32_t number, const void *key)
{
    const struct holding *h = owner;
    const struct holder *a = &h->holders[number - 1], *b = key;

    return a->op == b->op && a->outer == b->outer && a->shapes == b->shapes &&
           a->line == b->line && a->stack == b->stack && a->is_before == b->is_before;
}

static lw_string_id name_of(const struct lw_memory_uses *uses, uint32_t event)
{
    return event == LW_NONE ? 0 : uses->trace->events[event].name;
}

/* What tells it from others. */
static struct holder describe(const struct holding *h, uint32_t index)
{
    const struct lw_memory_uses *uses = h->uses;
    const struct lw_trace *trace = uses->trace;
    uint32_t event = uses->list[index].event;
    uint32_t op = h->tb ? h->tb->nodes[index] : lw_memory_op(uses, index);
    struct holder key = { .op = name_of(uses, op),
                          .stack = trace->memory[index].stack,
                          .is_before = trace->memory[index].kind == LW_MEMORY_BEFORE &&
                                       trace->memory[index].stack == LW_NO_STACK,
                          .index = index };

    if (event != LW_NONE)
        key.line = name_of(uses, uses->askers.lines[event]);
    if (op == LW_NONE)
        return key;
    if (trace->events[op].parent != LW_NONE)
        key.outer = name_of(uses, uses->askers.ops[trace->events[op].parent]);
    if (trace->events[op].kind == LW_EVENT_OP && trace->events[op].detail != LW_NONE) {
        key.shapes = trace->ops[trace->events[op].detail].shapes;
        if (!key.line)
            key.line = trace->ops[trace->events[op].detail].stack;
    }
    return key;
}

static uint64_t hash_of(const struct holder *key)
{
    uint64_t hash = lw_hash_u64((uint64_t)key->op << 32 | key->outer);

    hash = lw_hash_u64(hash ^ ((uint64_t)key->shapes << 32 | key->line));
    return lw_hash_u64(hash ^ ((uint64_t)key->stack << 1 | key->is_before));
}

static bool hold(struct holding *h, uint32_t index, struct lw_error *err)
{
    struct holder key = describe(h, index);
    uint64_t hash = hash_of(&key);
    uint32_t number = lw_map_find(&h->map, hash, is_holder, h, &key);
    struct holder *holder;

    if (!number) {
        if (!lw_grow(&h->holders, &h->capacity, h->count + 1, sizeof(*h->holders),
                     err) ||
            !lw_map_add(&h->map, hash, (uint32_t)h->count + 1, err))
            return false;
        h->holders[h->count] = key;
        number = (uint32_t)++h->count;
    }
    holder = &h->holders[number - 1];
    holder->blocks++;
    holder->bytes = lw_memory_sum(holder->bytes, h->uses->trace->memory[index].bytes);
    return true;
}

static void show(const struct holding *h, const struct holder *holder, uint32_t device,
                 struct lw_table *table)
{
    const struct lw_memory_uses *uses = h->uses;

    lw_table_row(table, 0);
    if (holder->is_before)
        lw_table_add_text(table, "(before the recording)", 22);
    else if (h->tb)
        lw_memory_tb_op_cell(h->tb, holder->index, table);
    else
        lw_memory_op_cell(uses, holder->index, table);
    lw_memory_device_cell(uses, device, table);
    lw_table_add_integer(table, holder->bytes);
    lw_analysis_add_share(table, (double)holder->bytes,
                          (double)uses->devices[device].peak_bytes);
    lw_table_add_integer(table, (int64_t)holder->blocks);
    lw_memory_time_cell(uses, uses->trace->memory[holder->index].time_ns, table);
    lw_memory_shapes_cell(uses, holder->index, table);
    lw_memory_place_cell(uses, holder->index, table);
}

/* What the profiler counts but nobody was seen to allocate. */
static void show_rest(const struct holding *h, int64_t bytes, uint32_t device,
                      struct lw_table *table)
{
    lw_table_row(table, 0);
    lw_table_add_text(table, "(before the recording)", 22);
    lw_memory_device_cell(h->uses, device, table);
    lw_table_add_integer(table, bytes);
    lw_analysis_add_share(table, (double)bytes,
                          (double)h->uses->devices[device].peak_bytes);
}

static bool add_device(struct holding *h, uint32_t index, struct lw_table *table,
                       struct lw_error *err)
{
    const struct lw_memory_uses *uses = h->uses;
    const struct lw_memory_device *device = &uses->devices[index];
    int64_t rest = device->peak_bytes;

    lw_map_reset(&h->map);
    h->count = 0;
    for (uint32_t i = device->first; i < device->first + device->count; i++) {
        uint32_t at = uses->order[i];

        if (at > device->peak)
            break;
        if (!lw_memory_is_allocation(&uses->trace->memory[at]) ||
            uses->trace->memory[at].address == 0 || uses->list[at].is_lost ||
            uses->list[at].pair <= device->peak)
            continue;
        if (!hold(h, at, err))
            return false;
        rest = lw_memory_difference(rest, uses->trace->memory[at].bytes);
    }
    for (size_t i = 0; i < h->count; i++)
        show(h, &h->holders[i], index, table);
    if (rest > 0 && device->is_told)
        show_rest(h, rest, index, table);
    return true;
}

bool lw_memory_by_peak(const struct lw_memory_uses *uses, const struct lw_query *query,
                       struct lw_table *table, struct lw_error *err)
{
    struct lw_memory_tb tb = { 0 };
    struct holding h = { .uses = uses };
    bool done = true;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    if (query->compat == LW_COMPAT_TB) {
        done = lw_memory_tb_init(&tb, uses, err);
        h.tb = &tb;
    }
    for (uint32_t i = 0; done && i < uses->device_count; i++)
        done = add_device(&h, i, table, err);
    lw_map_release(&h.map);
    lw_free(h.holders);
    lw_memory_tb_release(&tb);
    return done && lw_memory_arrange(table, query, "bytes", err);
}
