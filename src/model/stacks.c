/* Two arrays, each with a map from content to number.
 *
 * A map cannot hold number 0. Frame 0 is compared apart, and stack 0 is no stack's
 * child, so it is never looked for. */

#include "model/stacks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

struct lw_stacks {
    struct lw_frame *frames; /* by number */
    size_t frame_count;
    size_t frame_capacity;
    struct lw_map frame_map;
    struct lw_stack *stacks; /* by number */
    size_t stack_count;
    size_t stack_capacity;
    struct lw_map stack_map;
};

struct lw_stacks *lw_stacks_new(struct lw_error *err)
{
    struct lw_stacks *table = lw_zalloc(1, sizeof(*table), err);

    if (!table)
        return NULL;
    if (!lw_grow(&table->frames, &table->frame_capacity, 1, sizeof(*table->frames),
                 err) ||
        !lw_grow(&table->stacks, &table->stack_capacity, 1, sizeof(*table->stacks),
                 err)) {
        lw_stacks_free(table);
        return NULL;
    }
    memset(&table->frames[0], 0, sizeof(table->frames[0]));
    table->frames[0].kind = LW_FRAME_NOTE;
    table->frame_count = 1;
    memset(&table->stacks[0], 0, sizeof(table->stacks[0]));
    table->stack_count = 1;
    return table;
}

void lw_stacks_free(struct lw_stacks *table)
{
    if (!table)
        return;
    lw_map_release(&table->frame_map);
    lw_map_release(&table->stack_map);
    lw_free(table->frames);
    lw_free(table->stacks);
    lw_free(table);
}

void lw_stacks_name_unknown(struct lw_stacks *table, lw_string_id name)
{
    table->frames[0].name = name;
}

static bool frames_are_equal(const struct lw_frame *a, const struct lw_frame *b)
{
    return a->name == b->name && a->file == b->file && a->first_line == b->first_line &&
           a->line == b->line && a->column == b->column &&
           a->end_column == b->end_column && a->more_lines == b->more_lines &&
           a->variant == b->variant && a->kind == b->kind;
}

static bool is_frame(const void *owner, uint32_t number, const void *key)
{
    const struct lw_stacks *table = owner;

    return frames_are_equal(&table->frames[number], key);
}

static uint64_t hash_frame(const struct lw_frame *frame)
{
    uint64_t hash = lw_hash_u64((uint64_t)frame->name << 32 | frame->file);

    hash = lw_hash_u64(hash ^ ((uint64_t)frame->first_line << 32 | frame->line));
    hash = lw_hash_u64(hash + ((uint64_t)frame->variant << 8 | frame->kind));
    if (frame->column == 0)
        return hash;
    return lw_hash_u64(hash ^ ((uint64_t)frame->column << 32 |
                               (uint32_t)frame->end_column << 16 | frame->more_lines));
}

bool lw_stacks_frame(struct lw_stacks *table, const struct lw_frame *frame,
                     lw_frame_id *id, struct lw_error *err)
{
    uint64_t hash = hash_frame(frame);
    uint32_t number = lw_map_find(&table->frame_map, hash, is_frame, table, frame);

    if (number || frames_are_equal(frame, &table->frames[0])) {
        *id = number;
        return true;
    }
    if (table->frame_count >= UINT32_MAX)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 frames");
    number = (uint32_t)table->frame_count;
    if (!lw_grow(&table->frames, &table->frame_capacity, table->frame_count + 1,
                 sizeof(*table->frames), err) ||
        !lw_map_add(&table->frame_map, hash, number, err))
        return false;
    table->frames[number] = *frame;
    table->frame_count++;
    *id = number;
    return true;
}

static bool is_stack(const void *owner, uint32_t number, const void *key)
{
    const struct lw_stacks *table = owner;
    const struct lw_stack *a = &table->stacks[number], *b = key;

    return a->parent == b->parent && a->frame == b->frame;
}

bool lw_stacks_push(struct lw_stacks *table, lw_stack_id parent, lw_frame_id frame,
                    lw_stack_id *id, struct lw_error *err)
{
    struct lw_stack key = { parent, frame };
    uint64_t hash = lw_hash_u64((uint64_t)parent << 32 | frame);
    uint32_t number = lw_map_find(&table->stack_map, hash, is_stack, table, &key);

    if (number) {
        *id = number;
        return true;
    }
    lw_assert(parent < table->stack_count && frame < table->frame_count);
    if (table->stack_count >= UINT32_MAX)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 stacks");
    number = (uint32_t)table->stack_count;
    if (!lw_grow(&table->stacks, &table->stack_capacity, table->stack_count + 1,
                 sizeof(*table->stacks), err) ||
        !lw_map_add(&table->stack_map, hash, number, err))
        return false;
    table->stacks[number] = key;
    table->stack_count++;
    *id = number;
    return true;
}

const struct lw_frame *lw_stacks_frames(const struct lw_stacks *table, size_t *count)
{
    *count = table->frame_count;
    return table->frames;
}

const struct lw_stack *lw_stacks_list(const struct lw_stacks *table, size_t *count)
{
    *count = table->stack_count;
    return table->stacks;
}
