#include "test.h"

#include "base/alloc.h"
#include "sampler/awaits.h"
#include "sampler/locals.h"
#include "sampler/repr.h"
#include "sampler/tasks.h"

#include "image.h"

/* The layout of Python NUMBER of those whose images are recorded. */
static const struct lw_py_layout *layout_of(size_t number)
{
    static struct lw_py_layout layouts[IMAGE_COUNT];
    static struct image image;
    struct lw_py_layout *layout = &layouts[number];
    struct lw_memory memory;
    char path[1024];

    if (layout->minor > 0)
        return layout;
    snprintf(path, sizeof(path), "%s/tests/unit/images/%s.gz", getenv("SRCDIR"),
             image_names[number]);
    CHECK(image_open(&image, path));
    lw_memory_image(&memory, image.pieces, image.piece_count);
    CHECK(lw_layout_find(layout, &memory, image.runtime, image.version, NULL));
    image_release(&image);
    return layout;
}

/* ---- objects that are made up ------------------------------------------------------- */

#define BASE 0x100000u
#define WORLD_BYTES 65536u

/* A process's memory, filled from its start on. */
struct world {
    unsigned char bytes[WORLD_BYTES];
    size_t used;
    struct lw_memory_piece piece;
    struct lw_memory memory;
    struct lw_py_layout layout;
    struct lw_objects objects;
};

static void make_world(struct world *world, size_t python)
{
    memset(world, 0, sizeof(*world));
    world->piece = (struct lw_memory_piece){ BASE, world->bytes, sizeof(world->bytes) };
    lw_memory_image(&world->memory, &world->piece, 1);
    world->layout = *layout_of(python);
    world->objects = (struct lw_objects){ &world->memory, &world->layout };
}

static uint64_t make_room(struct world *world, size_t len)
{
    uint64_t address = BASE + world->used;

    world->used += (len + 15) / 16 * 16;
    CHECK(world->used <= sizeof(world->bytes));
    return address;
}

static void put(struct world *world, uint64_t address, const void *bytes, size_t len)
{
    CHECK(address >= BASE && address - BASE + len <= sizeof(world->bytes));
    memcpy(world->bytes + (address - BASE), bytes, len);
}

static void put_u64(struct world *world, uint64_t address, uint64_t value)
{
    put(world, address, &value, sizeof(value));
}

static uint64_t make_type(struct world *world, const char *name, uint64_t flags)
{
    uint64_t type = make_room(world, world->layout.heaptype_bytes);
    uint64_t text = make_room(world, strlen(name) + 1);

    put(world, text, name, strlen(name) + 1);
    put_u64(world, type + world->layout.type_name, text);
    put_u64(world, type + world->layout.type_flags, flags);
    return type;
}

static uint64_t make_object(struct world *world, const char *type, unsigned bit,
                            size_t len)
{
    uint64_t object = make_room(world, len);

    put_u64(world, object + world->layout.object_type,
            make_type(world, type, bit ? 1ull << bit : 0));
    return object;
}

static uint64_t make_int(struct world *world, int64_t value)
{
    const struct lw_py_layout *layout = &world->layout;
    uint64_t object = make_object(world, "int", 24, layout->int_bytes + 16);
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value, count = 0;

    for (; left; left >>= 30) {
        uint32_t digit = left & 0x3fffffff;

        put(world, object + layout->int_digits + 4 * count++, &digit, sizeof(digit));
    }
    if (layout->int_tag == LW_NO_FIELD)
        put_u64(world, object + layout->sized_size, value < 0 ? -count : count);
    else
        put_u64(world, object + layout->int_tag,
                count << 3 | (value < 0    ? 2u
                              : value == 0 ? 1u
                                           : 0u));
    return object;
}

static uint64_t make_text(struct world *world, const char *text)
{
    const struct lw_py_layout *layout = &world->layout;
    uint64_t object =
        make_object(world, "str", 28, layout->unicode_ascii_size + strlen(text) + 1);
    uint32_t state = (1u | 1u << 3 | 1u << 4) << layout->unicode_kind_shift;

    put_u64(world, object + layout->unicode_length, strlen(text));
    put(world, object + layout->unicode_state, &state, sizeof(state));
    put(world, object + layout->unicode_ascii_size, text, strlen(text));
    return object;
}

static uint64_t make_list(struct world *world, const uint64_t *items, size_t count)
{
    const struct lw_py_layout *layout = &world->layout;
    uint64_t object = make_object(world, "list", 25, layout->list_bytes);
    uint64_t start = make_room(world, count * 8);

    put_u64(world, object + layout->sized_size, count);
    put_u64(world, object + layout->list_items, start);
    put(world, start, items, count * 8);
    return object;
}

/* A table of keys with room for 8, whose entries have hashes. */
static uint64_t make_keys(struct world *world, const struct lw_entry *entries,
                          size_t count)
{
    const struct lw_py_layout *layout = &world->layout;
    uint64_t keys = make_room(world, layout->keys_bytes + 8 + 24 * count);
    unsigned char log2 = 3;

    if (layout->keys_index_bytes != LW_NO_FIELD)
        put(world, keys + layout->keys_index_bytes, &log2, 1);
    else
        put_u64(world, keys + layout->keys_slots, 8);
    put_u64(world, keys + layout->keys_count, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t words[] = { 99, entries[i].key, entries[i].value };

        put(world, keys + layout->keys_bytes + 8 + 24 * i, words, sizeof(words));
    }
    return keys;
}

static uint64_t make_dict(struct world *world, uint64_t keys, uint64_t values,
                          size_t used)
{
    const struct lw_py_layout *layout = &world->layout;
    uint64_t object = make_object(world, "dict", 29, layout->dict_bytes);

    put_u64(world, object + layout->dict_used, used);
    put_u64(world, object + layout->dict_keys, keys);
    put_u64(world, object + layout->dict_values, values);
    return object;
}

static void check_repr(const struct world *world, uint64_t address, const char *want)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    lw_repr_add(&world->objects, address, 40, &out);
    CHECK(lw_buf_check(&out, NULL));
    CHECK_STR(out.bytes, want);
    lw_buf_release(&out);
}

TEST(values_are_shown_as_python_shows_them)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        static struct world world;
        uint64_t items[20];

        make_world(&world, i);
        check_repr(&world, make_int(&world, 0), "0");
        check_repr(&world, make_int(&world, -1000000000000000000),
                   "-1000000000000000000");
        check_repr(&world, make_text(&world, "it's"), "\"it's\"");
        check_repr(&world, make_text(&world, ""), "''");
        check_repr(&world,
                   make_text(&world, "0123456789012345678901234567890123456789+"),
                   "'0123456789012345678901234567890123456789'\xe2\x80\xa6 1 more");
        for (int64_t j = 0; j < 20; j++)
            items[j] = make_int(&world, j * 1000);
        check_repr(&world, make_list(&world, items, 2), "[0, 1000]");
        check_repr(
            &world, make_list(&world, items, 20),
            "[0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, \xe2\x80\xa6 12 more]");
    }
}

TEST(dicts_have_their_values_with_the_keys_or_apart)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        static struct world world;
        struct lw_entry entries[3];
        uint64_t keys, values;

        make_world(&world, i);
        entries[0] = (struct lw_entry){ make_text(&world, "a"), make_int(&world, 1) };
        entries[1] = (struct lw_entry){ make_text(&world, "b"), 0 }; /* was removed */
        entries[2] = (struct lw_entry){ make_int(&world, 7), make_int(&world, 3) };
        keys = make_keys(&world, entries, 3);
        check_repr(&world, make_dict(&world, keys, 0, 2), "{'a': 1, 7: 3}");
        values = make_room(&world, world.layout.values_items + 24);
        put_u64(&world, values + world.layout.values_items + 8, make_int(&world, 5));
        check_repr(&world, make_dict(&world, keys, values, 1), "{'b': 5}");
        CHECK_EQ(lw_objects_item(&world.objects, make_dict(&world, keys, 0, 2), "a"),
                 entries[0].value);
        CHECK_EQ(lw_objects_item(&world.objects, make_dict(&world, keys, 0, 2), "b"),
                 0);
    }
}

TEST(a_list_in_itself_ends)
{
    static struct world world;
    uint64_t list, item = 0;

    make_world(&world, 2);
    list = make_list(&world, &item, 1);
    CHECK(lw_memory_u64(&world.memory, list + world.layout.list_items, &item));
    put_u64(&world, item, list);
    check_repr(&world, list, "[[[\xe2\x80\xa6 1 more]]]");
}

TEST(what_is_broken_is_unreadable)
{
    static struct world world;
    uint64_t text, list, dict, lost;
    uint32_t no_kind = 3u << 2;

    make_world(&world, 2);
    check_repr(&world, 0, "<unreadable>");
    check_repr(&world, 0x10, "<unreadable>");
    text = make_text(&world, "x");
    put(&world, text + world.layout.unicode_state, &no_kind, sizeof(no_kind));
    check_repr(&world, text, "<unreadable>");
    list = make_list(&world, &text, 1);
    check_repr(&world, list, "[<unreadable>]");
    put_u64(&world, list + world.layout.list_items, 0x10);
    check_repr(&world, list, "<unreadable>");
    put_u64(&world, list + world.layout.sized_size, UINT64_MAX);
    check_repr(&world, list, "<unreadable>");
    dict = make_dict(&world, make_keys(&world, NULL, 0), 0, 1);
    check_repr(&world, dict, "{\xe2\x80\xa6 1 more}");
    CHECK(lw_memory_u64(&world.memory, dict + world.layout.dict_keys, &lost));
    put_u64(&world, lost + world.layout.keys_count, 1ull << 40);
    check_repr(&world, dict, "<unreadable>");
    CHECK_EQ(lw_objects_item(&world.objects, dict, "a"), 0);
    CHECK_EQ(lw_objects_attribute(&world.objects, 0x10, "a"), 0);
}

/* ---- anything at all ---------------------------------------------------------------- */

/* Memory in which every address can be read, and leads to others: the word at each is
 * made from its address. */
static uint64_t seed;

static uint64_t word_at(uint64_t address)
{
    uint64_t hash = lw_hash_u64(address ^ seed), pick = hash >> 56;
    uint64_t pointer = 0x1000 + (hash & 0xfff) * 16;

    if (pick < 64)
        return pick < 32 ? 0 : hash & 0x3f;
    if (pick < 80)
        return hash;
    return pointer | (pick < 96 ? 1 : 0);
}

static size_t read_anything(struct lw_memory *memory,
                            const struct lw_memory_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char *bytes = ranges[i].bytes;

        memory->calls++;
        for (size_t j = 0; j < ranges[i].len; j++) {
            uint64_t address = ranges[i].address + j;
            uint64_t word = word_at(address & ~7ull);

            bytes[j] = (unsigned char)(word >> (address % 8 * 8));
        }
    }
    return count;
}

static void check_local(void *context, const struct lw_local *local)
{
    unsigned *count = context;

    CHECK(local->value != 0 && local->name != NULL);
    CHECK(++*count <= 1000);
}

TEST(whatever_is_there_is_read_within_bounds)
{
    for (size_t i = 0; i < IMAGE_COUNT * 300; i++) {
        struct lw_memory memory = { .read = read_anything, .fd = -1 };
        const struct lw_py_layout *layout = layout_of(i % IMAGE_COUNT);
        struct lw_objects objects = { &memory, layout };
        struct lw_code_cache codes;
        struct lw_py_code code = { .address = 0x2000 };
        struct lw_walk_frame frame = { .address = 0x3000 };
        unsigned count = 0;
        struct lw_buf out;

        seed = i;
        lw_buf_init(&out, 0);
        lw_repr_add(&objects, 0x1000 + i * 16, 100, &out);
        CHECK(lw_buf_check(&out, NULL) && out.len > 0 && out.len < 20000);
        CHECK(memory.calls < 500000);
        lw_buf_release(&out);

        lw_code_cache_init(&codes, layout, word_at(0x2000 + layout->object_type));
        for (uint64_t at = 0x1000; at < 0x1400; at += 16)
            lw_await_look(&objects, &codes, at, 1);
        lw_code_cache_release(&codes);
        codes.codes = &code;
        if (lw_locals_list(&objects, &codes, &frame, check_local, &count)) {
            /* It may hold together by chance. */
        }
    }
}

TEST(tasks_that_are_anything_end)
{
    for (size_t i = 0; i < IMAGE_COUNT * 8; i++) {
        struct lw_target target = { .memory = { .read = read_anything, .fd = -1 },
                                    .interpreters = { 0x1000 },
                                    .interpreter_count = 1 };
        struct lw_error err = { LW_OK, "" };
        struct lw_tasks tasks;

        seed = i;
        target.layout = *layout_of(i % IMAGE_COUNT);
        lw_code_cache_init(&target.codes, &target.layout, 0x2000);
        if (lw_tasks_read(&tasks, &target, 1, &err))
            lw_tasks_release(&tasks);
        else
            CHECK(err.text[0] != '\0');
        lw_target_name_threads(&target, true);
        CHECK(target.memory.calls < 3000000);
        lw_code_cache_release(&target.codes);
    }
}
