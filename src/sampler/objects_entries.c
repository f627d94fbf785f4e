/* Objects that hold others: tuples, lists, dicts, sets, and the attributes of instances.
 *
 * A dict's keys are a header, a table of indices by hash, and the entries in the order in
 * which they were put in:
 *
 *     keys:  header | indices (1, 2, 4 or 8 bytes each) | entry, entry, ...
 *     entry: [hash] key value
 *
 * Only the entries are of use here. Where the values are apart (a table shared by all
 * instances of a class), `value` of an entry is not theirs, and entry i has the i-th of
 * them. Attributes may be in such a table with no dict made yet. */
#include "sampler/objects.h"

#include <string.h>

#include "base/alloc.h"

/* Bits of tp_flags; tools/layout_fields.py checks them against the headers. */
#define HAS_MANAGED_DICT (1ull << 4)
#define HAS_INLINE_VALUES (1ull << 2)

/* More than this many entries are not believed, or looked at. */
#define ENTRIES_MAX (1u << 22)
#define AT_ONCE 128u
/* What a search by name goes through. */
#define SEARCH_MAX (1u << 17)
#define NAME_MAX_BYTES 64

void lw_entries_release(struct lw_entries *entries)
{
    lw_free(entries->entries);
    memset(entries, 0, sizeof(*entries));
}

static bool get_u64(const struct lw_objects *objects, uint64_t address, uint64_t *value)
{
    return lw_memory_u64(objects->memory, address, value);
}

static bool add(struct lw_entries *entries, uint64_t key, uint64_t value)
{
    if (!lw_grow(&entries->entries, &entries->capacity, entries->count + 1,
                 sizeof(*entries->entries), NULL))
        return false;
    entries->entries[entries->count++] = (struct lw_entry){ key, value };
    return true;
}

/* ---- tables of keys ----------------------------------------------------------------- */

struct table {
    uint64_t start; /* of the entries */
    uint64_t count;
    bool has_hashes;
};

static bool find_table(const struct lw_objects *objects, uint64_t keys,
                       struct table *table)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t indices;
    uint8_t log2 = 0, kind = 0;

    if (keys == 0 || !get_u64(objects, keys + layout->keys_count, &table->count))
        return false;
    if (layout->keys_index_bytes != LW_NO_FIELD) {
        if (!lw_memory_get(objects->memory, keys + layout->keys_index_bytes, &log2,
                           1) ||
            !lw_memory_get(objects->memory, keys + layout->keys_kind, &kind, 1) ||
            log2 > 40)
            return false;
        indices = 1ull << log2;
    } else {
        uint64_t slots;

        if (!get_u64(objects, keys + layout->keys_slots, &slots) || slots > 1ull << 40)
            return false;
        indices = slots <= 0xff         ? slots
                  : slots <= 0xffff     ? slots * 2
                  : slots <= 0xffffffff ? slots * 4
                                        : slots * 8;
    }
    table->start = keys + layout->keys_bytes + indices;
    table->has_hashes = kind == 0;
    return table->count <= ENTRIES_MAX;
}

/* The entries of KEYS; VALUES, if not 0, is where their values are. */
static bool read_table(const struct lw_objects *objects, uint64_t keys, uint64_t values,
                       size_t limit, struct lw_entries *entries)
{
    uint64_t words[AT_ONCE * 3], apart[AT_ONCE];
    struct table table;
    size_t width;

    if (!find_table(objects, keys, &table))
        return false;
    width = table.has_hashes ? 3 : 2;
    for (uint64_t done = 0; done < table.count && entries->count < limit;) {
        uint64_t left = table.count - done;
        size_t part = left < AT_ONCE ? (size_t)left : AT_ONCE;
        struct lw_memory_range ranges[] = {
            { table.start + done * width * 8, words, part * width * 8 },
            { values + objects->layout->values_items + done * 8, apart, part * 8 },
        };

        if (lw_memory_read(objects->memory, ranges, values ? 2 : 1) != (values ? 2 : 1))
            return false;
        for (size_t i = 0; i < part && entries->count < limit; i++) {
            uint64_t key = words[i * width + width - 2];
            uint64_t value = values ? apart[i] : words[i * width + width - 1];

            if (key && value && !add(entries, key, value))
                return false;
        }
        done += part;
    }
    return true;
}

/* ---- containers --------------------------------------------------------------------- */

static bool read_items(const struct lw_objects *objects, uint64_t start, size_t limit,
                       struct lw_entries *entries)
{
    uint64_t words[AT_ONCE];
    uint64_t count = entries->total < limit ? entries->total : limit;

    for (uint64_t done = 0; done < count;) {
        size_t part = count - done < AT_ONCE ? (size_t)(count - done) : AT_ONCE;

        if (!lw_memory_get(objects->memory, start + done * 8, words, part * 8))
            return false;
        for (size_t i = 0; i < part; i++) {
            if (!add(entries, 0, words[i]))
                return false;
        }
        done += part;
    }
    return true;
}

static bool read_dict(const struct lw_objects *objects, uint64_t address, size_t limit,
                      struct lw_entries *entries)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t keys = 0, values = 0;
    const struct lw_memory_range ranges[] = {
        { address + layout->dict_used, &entries->total, 8 },
        { address + layout->dict_keys, &keys, 8 },
        { address + layout->dict_values, &values, 8 },
    };

    return lw_memory_read(objects->memory, ranges, 3) == 3 &&
           read_table(objects, keys, values, limit, entries);
}

/* A set is a table of pairs of key and hash, those in use between others that are empty
 * or were removed; of the latter the key is one object of the interpreter's own, and the
 * hash -1. */
static bool read_set(const struct lw_objects *objects, uint64_t address, size_t limit,
                     struct lw_entries *entries)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t words[AT_ONCE * 2], mask = 0, table = 0;
    const struct lw_memory_range ranges[] = {
        { address + layout->set_used, &entries->total, 8 },
        { address + layout->set_mask, &mask, 8 },
        { address + layout->set_table, &table, 8 },
    };

    if (lw_memory_read(objects->memory, ranges, 3) != 3 || mask >= ENTRIES_MAX)
        return false;
    for (uint64_t done = 0; done <= mask && entries->count < limit;) {
        size_t part = mask + 1 - done < AT_ONCE ? (size_t)(mask + 1 - done) : AT_ONCE;

        if (!lw_memory_get(objects->memory, table + done * 16, words, part * 16))
            return false;
        for (size_t i = 0; i < part && entries->count < limit; i++) {
            if (words[2 * i] && words[2 * i + 1] != UINT64_MAX &&
                !add(entries, words[2 * i], 0))
                return false;
        }
        done += part;
    }
    return true;
}

bool lw_objects_entries(const struct lw_objects *objects,
                        const struct lw_object *object, size_t limit,
                        struct lw_entries *entries)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t items;

    entries->count = 0;
    entries->total = 0;
    switch (object->kind) {
    case LW_OBJECT_TUPLE:
        return get_u64(objects, object->address + layout->sized_size,
                       &entries->total) &&
               read_items(objects, object->address + layout->tuple_items, limit,
                          entries);
    case LW_OBJECT_LIST:
        return get_u64(objects, object->address + layout->sized_size,
                       &entries->total) &&
               get_u64(objects, object->address + layout->list_items, &items) &&
               read_items(objects, items, limit, entries);
    case LW_OBJECT_DICT: return read_dict(objects, object->address, limit, entries);
    case LW_OBJECT_SET: return read_set(objects, object->address, limit, entries);
    default: return false;
    }
}

/* ---- attributes --------------------------------------------------------------------- */

/* Where the attributes of an object are: in a dict, or in values named by its type. */
struct attributes {
    uint64_t dict;
    uint64_t values;
};

static bool find_managed(const struct lw_objects *objects,
                         const struct lw_object *object, struct attributes *found)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t size;
    uint8_t is_valid;

    if (!get_u64(objects, object->address - layout->managed_dict, &found->dict))
        return false;
    if (layout->managed_dict_or_values && found->dict & 1) {
        found->values = found->dict + 1;
        found->dict = 0;
    }
    if (found->dict || found->values)
        return true;
    if (layout->managed_values)
        return get_u64(objects, object->address - layout->managed_values,
                       &found->values);
    if (!layout->has_inline_values || !(object->flags & HAS_INLINE_VALUES))
        return true;
    if (!get_u64(objects, object->type + layout->type_basicsize, &size) ||
        !lw_memory_get(objects->memory, object->address + size + layout->values_valid,
                       &is_valid, 1))
        return false;
    if (is_valid)
        found->values = object->address + size;
    return true;
}

bool lw_objects_attributes(const struct lw_objects *objects,
                           const struct lw_object *object, size_t limit,
                           struct lw_entries *entries)
{
    const struct lw_py_layout *layout = objects->layout;
    struct attributes found = { 0 };
    uint64_t offset, keys;

    entries->count = 0;
    entries->total = 0;
    if (layout->managed_dict && object->flags & HAS_MANAGED_DICT) {
        if (!find_managed(objects, object, &found))
            return false;
    } else if (!get_u64(objects, object->type + layout->type_dictoffset, &offset) ||
               offset == 0 || offset >> 63 || /* counts from an end that varies */
               !get_u64(objects, object->address + offset, &found.dict))
        return false;
    if (found.dict)
        return lw_objects_is(objects, found.dict, "dict") &&
               read_dict(objects, found.dict, limit, entries);
    if (found.values == 0)
        return true;
    if (!get_u64(objects, object->type + layout->heaptype_keys, &keys) ||
        !read_table(objects, keys, found.values, limit, entries))
        return false;
    entries->total = entries->count;
    return true;
}

/* ---- by name ------------------------------------------------------------------------ */

/* Is the str at ADDRESS the text NAME, of LEN ASCII characters? */
static bool is_text(const struct lw_objects *objects, uint64_t address,
                    const char *name, size_t len)
{
    char text[NAME_MAX_BYTES];

    return len < sizeof(text) &&
           lw_objects_name(objects, address, text, sizeof(text)) &&
           strcmp(text, name) == 0;
}

uint64_t lw_objects_find(const struct lw_objects *objects,
                         const struct lw_entries *entries, const char *name)
{
    uint64_t lengths[AT_ONCE];
    struct lw_memory_range ranges[AT_ONCE];
    size_t len = strlen(name);

    /* The lengths of many keys at once; few of them are that of NAME. */
    for (size_t done = 0; done < entries->count;) {
        size_t left = entries->count - done, part = left < AT_ONCE ? left : AT_ONCE;
        size_t got;

        for (size_t i = 0; i < part; i++)
            ranges[i] = (struct lw_memory_range){ entries->entries[done + i].key +
                                                      objects->layout->unicode_length,
                                                  &lengths[i], sizeof(lengths[i]) };
        got = lw_memory_read(objects->memory, ranges, part);
        for (size_t i = 0; i < got; i++) {
            const struct lw_entry *entry = &entries->entries[done + i];

            if (lengths[i] == len && is_text(objects, entry->key, name, len))
                return entry->value;
        }
        done += got < part ? got + 1 : part; /* one that is gone is passed over */
    }
    return 0;
}

uint64_t lw_objects_attribute(const struct lw_objects *objects, uint64_t address,
                              const char *name)
{
    struct lw_entries entries = { 0 };
    struct lw_object object;
    uint64_t value = 0;

    if (lw_objects_look(objects, address, &object) &&
        lw_objects_attributes(objects, &object, SEARCH_MAX, &entries))
        value = lw_objects_find(objects, &entries, name);
    lw_entries_release(&entries);
    return value;
}

uint64_t lw_objects_item(const struct lw_objects *objects, uint64_t address,
                         const char *name)
{
    struct lw_entries entries = { 0 };
    struct lw_object object;
    uint64_t value = 0;

    if (lw_objects_look(objects, address, &object) && object.kind == LW_OBJECT_DICT &&
        lw_objects_entries(objects, &object, SEARCH_MAX, &entries))
        value = lw_objects_find(objects, &entries, name);
    lw_entries_release(&entries);
    return value;
}
