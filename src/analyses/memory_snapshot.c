/* What only an allocator's snapshot has: who allocated, by stack, and the segments with
 * their blocks, which tell how much of what is reserved is in use. */

#include <inttypes.h>
#include <string.h>

#include "analyses/memory_uses.h"
#include "base/alloc.h"
#include "base/map.h"
#include "model/units.h"

static const struct lw_column columns[] = {
    { "op", "op", LW_UNIT_TEXT, true },
    { "device", "device", LW_UNIT_TEXT, false },
    { "alive_bytes", "held now", LW_UNIT_BYTES, false },
    { "alive_blocks", "blocks", LW_UNIT_COUNT, false },
    { "peak_bytes", "at the peak", LW_UNIT_BYTES, false },
    { "allocated_bytes", "allocated", LW_UNIT_BYTES, false },
    { "allocations", "allocs", LW_UNIT_COUNT, false },
    { "place", "where", LW_UNIT_TEXT, true },
};

/* Those who ask by the same op from the same line. */
struct asker {
    lw_frame_id op, place;
    uint32_t device;
    lw_stack_id stack; /* of the first */
    uint64_t allocations, alive_blocks;
    int64_t allocated, alive, at_peak;
};

struct asking {
    const struct lw_memory_uses *uses;
    struct lw_map map; /* index + 1 */
    struct asker *askers;
    size_t count, capacity;
};

static bool is_asker(const void *owner, uint32_t number, const void *key)
{
    const struct asking *asking = owner;
    const struct asker *a = &asking->askers[number - 1], *b = key;

    return a->op == b->op && a->place == b->place && a->device == b->device;
}

static lw_frame_id frame_of(const struct lw_memory_uses *uses, lw_stack_id stack)
{
    size_t count;

    return lw_stacks_list(uses->profile->stacks, &count)[stack].frame;
}

static struct asker *find_asker(struct asking *asking, uint32_t device,
                                lw_stack_id stack, struct lw_error *err)
{
    const struct lw_memory_uses *uses = asking->uses;
    struct asker key = { .op = frame_of(uses, uses->stack_ops[stack]),
                         .place = frame_of(uses, uses->stack_places[stack]),
                         .device = device,
                         .stack = stack };
    uint64_t hash =
        lw_hash_u64(((uint64_t)key.op << 32 | key.place) ^ lw_hash_u64(device));
    uint32_t number = lw_map_find(&asking->map, hash, is_asker, asking, &key);

    if (!number) {
        if (!lw_grow(&asking->askers, &asking->capacity, asking->count + 1, sizeof(key),
                     err) ||
            !lw_map_add(&asking->map, hash, (uint32_t)asking->count + 1, err))
            return NULL;
        asking->askers[asking->count] = key;
        number = (uint32_t)++asking->count;
    }
    return &asking->askers[number - 1];
}

static bool add_event(struct asking *asking, uint32_t index, struct lw_error *err)
{
    const struct lw_memory_uses *uses = asking->uses;
    const struct lw_memory_event *event = &uses->trace->memory[index];
    const struct lw_memory_use *use = &uses->list[index];
    uint32_t peak = uses->devices[use->device].peak;
    struct asker *asker = find_asker(asking, use->device, event->stack, err);

    if (!asker)
        return false;
    if (event->kind == LW_MEMORY_BLOCK) {
        asker->allocations++;
        asker->allocated = lw_memory_sum(asker->allocated, event->bytes);
    }
    if (use->pair == LW_NONE) {
        asker->alive_blocks++;
        asker->alive = lw_memory_sum(asker->alive, event->bytes);
    }
    if (index <= peak && use->pair > peak)
        asker->at_peak = lw_memory_sum(asker->at_peak, event->bytes);
    return true;
}

static void show_asker(const struct lw_memory_uses *uses, const struct asker *asker,
                       struct lw_table *table)
{
    lw_table_row(table, 0);
    if (asker->stack == LW_NO_STACK)
        lw_table_add_text(table, "(before the recording)", 22);
    else
        lw_memory_stack_op_cell(uses, asker->stack, table);
    lw_memory_device_cell(uses, asker->device, table);
    lw_table_add_integer(table, asker->alive);
    lw_table_add_integer(table, (int64_t)asker->alive_blocks);
    lw_table_add_integer(table, asker->at_peak);
    lw_table_add_integer(table, asker->allocated);
    lw_table_add_integer(table, (int64_t)asker->allocations);
    lw_memory_stack_place_cell(uses, asker->stack, table);
}

bool lw_memory_by_stack(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err)
{
    struct asking asking = { .uses = uses };
    bool done = true;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; done && i < uses->trace->memory_count; i++)
        if (uses->list[i].device != LW_NONE &&
            lw_memory_is_allocation(&uses->trace->memory[i]))
            done = add_event(&asking, i, err);
    for (size_t i = 0; done && i < asking.count; i++)
        show_asker(uses, &asking.askers[i], table);
    lw_map_release(&asking.map);
    lw_free(asking.askers);
    return done && lw_memory_arrange(table, query, "alive_bytes", err);
}

/* Segments */

static const struct lw_column segment_columns[] = {
    { "address", "address", LW_UNIT_TEXT, false },
    { "device", "device", LW_UNIT_TEXT, false },
    { "kind", "kind", LW_UNIT_TEXT, false },
    { "bytes", "bytes", LW_UNIT_BYTES, false },
    { "used_bytes", "in use", LW_UNIT_BYTES, false },
    { "requested_bytes", "asked for", LW_UNIT_BYTES, false },
    { "blocks", "blocks", LW_UNIT_COUNT, false },
    { "stream", "stream", LW_UNIT_COUNT, false },
    { "op", "op", LW_UNIT_TEXT, true },
    { "place", "where", LW_UNIT_TEXT, true },
};

/* Held by a tensor, or freed but still awaited by a stream. */
static bool is_active(const struct lw_memory_uses *uses,
                      const struct lw_memory_block *block)
{
    return strcmp(lw_profile_text(uses->profile, block->state), "inactive") != 0;
}

static void address_cell(struct lw_table *table, uint64_t address)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "0x%" PRIx64, address);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

static void segment_device_cell(const struct lw_memory_uses *uses,
                                const struct lw_memory_segment *segment,
                                struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_memory_add_name(uses, segment->rank, segment->device_type, segment->device,
                       &text);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

static void told_cell(struct lw_table *table, int64_t bytes)
{
    if (bytes < 0)
        lw_table_add_none(table);
    else
        lw_table_add_integer(table, bytes);
}

static void word_cell(const struct lw_memory_uses *uses, lw_string_id word,
                      struct lw_table *table)
{
    lw_table_add_text(table, lw_profile_text(uses->profile, word),
                      lw_strings_len(uses->profile->strings, word));
}

static void show_segment(const struct lw_memory_uses *uses,
                         const struct lw_memory_segment *segment,
                         struct lw_table *table)
{
    lw_table_row(table, 0);
    address_cell(table, segment->address);
    segment_device_cell(uses, segment, table);
    word_cell(uses, segment->pool, table);
    lw_table_add_integer(table, segment->bytes);
    lw_table_add_integer(table, segment->active_bytes);
    told_cell(table, segment->requested_bytes);
    lw_table_add_integer(table, segment->block_count);
    lw_table_add_integer(table, segment->stream);
    lw_memory_stack_op_cell(uses, segment->stack, table);
    lw_memory_stack_place_cell(uses, segment->stack, table);
}

static void show_block(const struct lw_memory_uses *uses,
                       const struct lw_memory_segment *segment,
                       const struct lw_memory_block *block, struct lw_table *table)
{
    lw_table_row(table, 1);
    address_cell(table, block->address);
    segment_device_cell(uses, segment, table);
    word_cell(uses, block->state, table);
    lw_table_add_integer(table, block->bytes);
    lw_table_add_integer(table, is_active(uses, block) ? block->bytes : 0);
    told_cell(table, is_active(uses, block) ? block->requested_bytes : -1);
    lw_table_add_none(table);
    lw_table_add_integer(table, segment->stream);
    lw_memory_stack_op_cell(uses, block->stack, table);
    lw_memory_stack_place_cell(uses, block->stack, table);
}

/* A person who set no limit of their own sees segments only. */
static bool has_limit(const struct lw_query *query)
{
    for (size_t i = 0; i < query->restriction_count; i++)
        if (query->restrictions[i].kind == LW_RESTRICT_COUNT)
            return true;
    return false;
}

bool lw_memory_by_segment(const struct lw_memory_uses *uses,
                          const struct lw_query *query, struct lw_table *table,
                          struct lw_error *err)
{
    const struct lw_trace *trace = uses->trace;
    bool with_blocks = !has_limit(query);

    lw_table_init(table, segment_columns,
                  sizeof(segment_columns) / sizeof(segment_columns[0]));
    for (size_t i = 0; i < trace->segment_count; i++) {
        const struct lw_memory_segment *segment = &trace->segments[i];

        if (!uses->scope.ranks[segment->rank])
            continue;
        show_segment(uses, segment, table);
        for (uint32_t b = 0; with_blocks && b < segment->block_count; b++)
            show_block(uses, segment, &trace->blocks[segment->first_block + b], table);
    }
    if (!with_blocks)
        lw_table_note(table, "-n 0 shows the blocks in them, too.");
    return lw_memory_arrange(table, query, "bytes", err);
}

/* "GPU0: 4.24 GB in 96 segments, 3.07 GB of it in use (72.5 %); the largest free block is
 * 155 MB" */
void lw_memory_note_segments(const struct lw_memory_uses *uses, uint32_t index,
                             struct lw_table *table)
{
    const struct lw_trace *trace = uses->trace;
    const struct lw_memory_device *device = &uses->devices[index];
    int64_t bytes = 0, used = 0, largest = 0;
    uint64_t count = 0;
    struct lw_buf text;

    for (size_t i = 0; i < trace->segment_count; i++) {
        const struct lw_memory_segment *segment = &trace->segments[i];

        if (segment->device_type != device->type || segment->device != device->id ||
            segment->rank != device->rank)
            continue;
        count++;
        bytes = lw_memory_sum(bytes, segment->bytes);
        used = lw_memory_sum(used, segment->active_bytes);
        for (uint32_t b = 0; b < segment->block_count; b++) {
            const struct lw_memory_block *block =
                &trace->blocks[segment->first_block + b];

            if (!is_active(uses, block) && block->bytes > largest)
                largest = block->bytes;
        }
    }
    if (count == 0)
        return;
    lw_buf_init(&text, 0);
    lw_memory_add_device(uses, index, &text);
    lw_buf_add_text(&text, ": ");
    lw_units_add_bytes(&text, bytes);
    lw_buf_addf(&text, " in %" PRIu64 " segment%s, ", count, count == 1 ? "" : "s");
    lw_units_add_bytes(&text, used);
    lw_buf_add_text(&text, " of it in use");
    if (bytes > 0) {
        lw_buf_add_text(&text, " (");
        lw_units_add_share(&text, (double)used / (double)bytes);
        lw_buf_add_char(&text, ')');
    }
    lw_buf_add_text(&text, "; the largest free block is ");
    lw_units_add_bytes(&text, largest);
    lw_table_note(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}
