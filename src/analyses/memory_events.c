/* Each allocation: by whom, how much, from when to when. A free whose allocation was not
 * seen is a row, too. The plugin's order is its own: what was freed, in order of that; what
 * was not; frees of what was not seen. */

#include <string.h>

#include "analyses/memory_tb.h"
#include "base/alloc.h"

static const struct lw_column columns[] = {
    { "op", "op", LW_UNIT_TEXT, true },
    { "device", "device", LW_UNIT_TEXT, false },
    { "bytes", "bytes", LW_UNIT_BYTES, false },
    { "allocated_ns", "allocated", LW_UNIT_NS, false },
    { "released_ns", "released", LW_UNIT_NS, false },
    { "duration_ns", "held for", LW_UNIT_NS, false },
    { "category", "for", LW_UNIT_TEXT, false },
    { "shapes", "shapes", LW_UNIT_TEXT, true },
    { "place", "where", LW_UNIT_TEXT, true },
};

struct showing {
    const struct lw_memory_uses *uses;
    const struct lw_memory_tb *tb; /* NULL: our own definitions */
    const uint8_t *categories;     /* of each memory event; NULL: not told */
    struct lw_table *table;
};

static void time_cell(const struct showing *s, uint32_t index)
{
    const struct lw_memory_event *event =
        index == LW_NONE ? NULL : &s->uses->trace->memory[index];

    if (!event || event->kind == LW_MEMORY_BEFORE)
        lw_table_add_none(s->table);
    else
        lw_memory_time_cell(s->uses, event->time_ns, s->table);
}

static void op_cell(const struct showing *s, uint32_t allocation, uint32_t release)
{
    if (allocation == LW_NONE && s->tb)
        lw_table_add_text(s->table, "<unknown>", 9);
    else if (allocation == LW_NONE && s->uses->trace->memory[release].address == 0)
        lw_table_add_text(s->table, "(not known)", 11);
    else if (allocation == LW_NONE)
        lw_table_add_text(s->table, "(before the recording)", 22);
    else if (s->tb)
        lw_memory_tb_op_cell(s->tb, allocation, s->table);
    else
        lw_memory_op_cell(s->uses, allocation, s->table);
}

/* One of the two may be LW_NONE. */
static void show(const struct showing *s, uint32_t allocation, uint32_t release)
{
    const struct lw_memory_event *memory = s->uses->trace->memory;
    uint32_t either = allocation != LW_NONE ? allocation : release;

    lw_table_row(s->table, 0);
    op_cell(s, allocation, release);
    lw_memory_device_cell(s->uses, s->uses->list[either].device, s->table);
    lw_table_add_integer(s->table, either == release || (s->tb && release != LW_NONE)
                                       ? lw_memory_difference(0, memory[release].bytes)
                                       : memory[allocation].bytes);
    time_cell(s, allocation);
    time_cell(s, release);
    if (allocation != LW_NONE && release != LW_NONE &&
        memory[allocation].kind != LW_MEMORY_BEFORE)
        lw_table_add_integer(
            s->table, (int64_t)(memory[release].time_ns - memory[allocation].time_ns));
    else
        lw_table_add_none(s->table);
    if (allocation == LW_NONE)
        return;
    if (s->categories) {
        const char *name = lw_memory_category_name(s->categories[allocation]);

        lw_table_add_text(s->table, name, strlen(name));
    } else {
        lw_table_add_none(s->table);
    }
    lw_memory_shapes_cell(s->uses, allocation, s->table);
    lw_memory_place_cell(s->uses, allocation, s->table);
}

static void show_own(const struct showing *s)
{
    const struct lw_memory_uses *uses = s->uses;

    for (uint32_t i = 0; i < uses->trace->memory_count; i++) {
        const struct lw_memory_event *event = &uses->trace->memory[i];
        uint32_t pair = uses->list[i].pair;

        if (uses->list[i].device == LW_NONE || !lw_memory_is_block(event))
            continue;
        if (event->bytes > 0)
            show(s, i, pair);
        else if (pair == LW_NONE)
            show(s, LW_NONE, i);
    }
}

/* Events without an address it passes over. */
static void show_tb(const struct showing *s)
{
    const struct lw_memory_uses *uses = s->uses;
    const struct lw_memory_event *memory = uses->trace->memory;

    for (uint32_t part = 0; part < 3; part++)
        for (uint32_t i = 0; i < uses->trace->memory_count; i++) {
            uint32_t pair = uses->list[i].pair;

            if (uses->list[i].device == LW_NONE || memory[i].address == 0)
                continue;
            if (part == 0 && memory[i].bytes <= 0 && pair != LW_NONE)
                show(s, pair, i);
            if (part == 1 && memory[i].bytes > 0 && pair == LW_NONE &&
                !uses->list[i].is_lost)
                show(s, i, LW_NONE);
            if (part == 2 && memory[i].bytes <= 0 && pair == LW_NONE)
                show(s, LW_NONE, i);
        }
}

bool lw_memory_by_event(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err)
{
    bool is_tb = query->compat == LW_COMPAT_TB;
    struct lw_memory_tb tb = { 0 };
    struct showing s = { uses, is_tb ? &tb : NULL, NULL, table };
    uint8_t *categories = NULL;
    bool done = true;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    if (is_tb)
        done = lw_memory_tb_init(&tb, uses, err);
    else if (!uses->is_snapshot)
        done = (categories = lw_memory_categories_new(uses, err)) != NULL;
    s.categories = categories;
    if (done && is_tb)
        show_tb(&s);
    else if (done)
        show_own(&s);
    lw_memory_tb_release(&tb);
    lw_free(categories);
    return done && lw_memory_arrange(table, query, is_tb ? NULL : "bytes", err);
}
