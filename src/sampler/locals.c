#include "sampler/locals.h"

#include <string.h>

#include "base/alloc.h"

/* Of one frame; no function that a person wrote has as many. */
#define LOCALS_MAX 1000u
#define NAME_BYTES 128

/* Bits of co_localspluskinds; tools/layout_fields.py checks them. */
#define IS_CELL 0x40
#define IS_FREE 0x80

#define TAG_BITS 7u /* of references that are not counted; objects are aligned to 16 */

/* The names of one frame's variables. */
struct names {
    struct lw_entries names; /* str objects */
    uint8_t kinds[LOCALS_MAX];
};

static bool read_tuple(const struct lw_objects *objects, uint64_t field,
                       struct lw_entries *entries)
{
    struct lw_object object;
    uint64_t address;

    return lw_memory_u64(objects->memory, field, &address) &&
           lw_objects_look(objects, address, &object) &&
           object.kind == LW_OBJECT_TUPLE &&
           lw_objects_entries(objects, &object, LOCALS_MAX, entries);
}

/* One tuple for all, and a byte of kind for each. */
static bool read_kinds(const struct lw_objects *objects, uint64_t code,
                       struct names *names)
{
    struct lw_buf kinds;
    uint64_t address, length = 0;
    bool found;

    lw_buf_init(&kinds, 0);
    found =
        lw_memory_u64(objects->memory, code + objects->layout->code_kinds, &address) &&
        lw_objects_bytes(objects, address, LOCALS_MAX, &kinds, &length) &&
        kinds.len >= names->names.count;
    if (found && names->names.count > 0)
        memcpy(names->kinds, kinds.bytes, names->names.count);
    lw_buf_release(&kinds);
    return found;
}

/* Up to 3.10: tuples for each kind, whose variables follow each other. */
static bool add_names(const struct lw_objects *objects, uint64_t field, uint8_t kind,
                      struct names *names)
{
    struct lw_entries more = { 0 };
    struct lw_entries *all = &names->names;
    bool found = read_tuple(objects, field, &more) &&
                 all->count + more.count <= LOCALS_MAX &&
                 lw_grow(&all->entries, &all->capacity, all->count + more.count,
                         sizeof(*all->entries), NULL);

    for (size_t i = 0; found && i < more.count; i++) {
        names->kinds[all->count] = kind;
        all->entries[all->count++] = more.entries[i];
    }
    lw_entries_release(&more);
    return found;
}

static bool read_names(const struct lw_objects *objects, uint64_t code,
                       struct names *names)
{
    const struct lw_py_layout *layout = objects->layout;

    if (!read_tuple(objects, code + layout->code_names, &names->names))
        return false;
    if (layout->code_kinds != LW_NO_FIELD)
        return read_kinds(objects, code, names);
    return add_names(objects, code + layout->code_cells, IS_CELL, names) &&
           add_names(objects, code + layout->code_frees, IS_FREE, names);
}

/* What the variable holds whose slot of the frame is VALUE; 0: nothing. A cell is made
 * when the function begins, so the slot may still hold an argument itself. */
static uint64_t open_cell(const struct lw_objects *objects, uint8_t kind,
                          uint64_t value)
{
    if (!(kind & (IS_CELL | IS_FREE)) || !lw_objects_is(objects, value, "cell"))
        return value;
    if (!lw_memory_u64(objects->memory, value + objects->layout->cell_value, &value))
        return 0;
    return value;
}

static void tell(const struct lw_objects *objects, const struct names *names,
                 const uint64_t *slots, lw_local_found *found, void *context)
{
    for (size_t i = 0; i < names->names.count; i++) {
        uint8_t kind = names->kinds[i];
        char name[NAME_BYTES];
        struct lw_local local = {
            .name = name,
            .kind = kind & IS_FREE   ? LW_LOCAL_FREE
                    : kind & IS_CELL ? LW_LOCAL_CELL
                                     : LW_LOCAL_PLAIN,
            .value = open_cell(objects, kind, slots[i] & ~(uint64_t)TAG_BITS),
        };

        if (local.value &&
            lw_objects_name(objects, names->names.entries[i].value, name, sizeof(name)))
            found(context, &local);
    }
}

bool lw_locals_list(const struct lw_objects *objects, const struct lw_code_cache *codes,
                    const struct lw_walk_frame *frame, lw_local_found *found,
                    void *context)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t code = codes->codes[frame->code].address, code_now = 0;
    uint64_t slots[LOCALS_MAX];
    struct names names = { 0 };
    struct lw_memory_range ranges[] = {
        { frame->address + layout->frame_code, &code_now, sizeof(code_now) },
        { frame->address + layout->frame_locals, slots, 0 },
    };
    size_t count;
    bool done = false;

    if (code && read_names(objects, code, &names)) {
        ranges[1].len = names.names.count * sizeof(slots[0]);
        count = ranges[1].len ? 2 : 1;
        done = lw_memory_read(objects->memory, ranges, count) == count;
        if (layout->code_is_tagged)
            code_now &= ~(uint64_t)TAG_BITS;
        done = done && code_now == code;
    }
    if (done)
        tell(objects, &names, slots, found, context);
    lw_entries_release(&names.names);
    return done;
}
