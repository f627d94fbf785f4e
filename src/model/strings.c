/* Bytes in an arena, an array of where each string lies, and a map from hash to number.
 *
 * Readers meet the same few long texts (a stack, a kernel's name) a million times. What came
 * lately is found by a few of its bytes, so that it is compared but not hashed. */

#include "model/strings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

struct text {
    const char *bytes; /* in the arena, NUL behind */
    size_t len;
};

#define RECENT 1024 /* a power of two; 8 KB */
#define WAYS 2      /* texts that share a place */

struct lw_strings {
    uint32_t recent[RECENT][WAYS]; /* numbers, by place_of(); 0: none */
    struct text *texts;            /* by number */
    size_t count;
    size_t capacity;
    struct lw_map map; /* all but the empty string */
    struct lw_arena arena;
};

struct lw_strings *lw_strings_new(struct lw_error *err)
{
    struct lw_strings *table = lw_zalloc(1, sizeof(*table), err);

    if (!table)
        return NULL;
    lw_map_init(&table->map);
    lw_arena_init(&table->arena);
    if (!lw_grow(&table->texts, &table->capacity, 1, sizeof(*table->texts), err)) {
        lw_free(table);
        return NULL;
    }
    table->texts[0].bytes = "";
    table->texts[0].len = 0;
    table->count = 1;
    return table;
}

void lw_strings_free(struct lw_strings *table)
{
    if (!table)
        return;
    lw_map_release(&table->map);
    lw_arena_release(&table->arena);
    lw_free(table->texts);
    lw_free(table);
}

static bool is_same(const void *owner, uint32_t number, const void *key)
{
    const struct lw_strings *table = owner;
    const struct text *a = &table->texts[number], *b = key;

    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool intern(struct lw_strings *table, const char *text, size_t len,
                   lw_string_id *id, struct lw_error *err)
{
    struct text key = { text, len };
    uint64_t hash;
    uint32_t number;

    hash = lw_hash_bytes(text, len);
    number = lw_map_find(&table->map, hash, is_same, table, &key);
    if (number) {
        *id = number;
        return true;
    }
    if (table->count >= UINT32_MAX)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory (more than 2^32 names)");
    if (!lw_grow(&table->texts, &table->capacity, table->count + 1,
                 sizeof(*table->texts), err))
        return false;
    key.bytes = lw_arena_copy(&table->arena, text, len, err);
    if (!key.bytes)
        return false;
    number = (uint32_t)table->count;
    if (!lw_map_add(&table->map, hash, number, err))
        return false;
    table->texts[number] = key;
    table->count++;
    *id = number;
    return true;
}

static uint64_t load(const char *text, size_t len)
{
    uint64_t bytes = 0;

    memcpy(&bytes, text, len);
    return bytes;
}

/* By length and ends, of four bytes or eight; of a longer text, which may be a stack that
 * begins and ends as many others do, also by what is in between. */
static size_t place_of(const char *text, size_t len)
{
    uint64_t first, last, sum;

    if (len >= 8) {
        first = load(text, 8);
        last = load(text + len - 8, 8);
    } else if (len >= 4) {
        first = load(text, 4);
        last = load(text + len - 4, 4);
    } else {
        first = (unsigned char)text[0];
        last = load(text + len / 2, 1) << 8 | load(text + len - 1, 1);
    }
    sum = (first ^ len) * 0x9e3779b97f4a7c15u + last;
    for (size_t i = 1; len >= 64 && i < 8; i++)
        sum = (sum ^ load(text + len / 8 * i, 8)) * 0x9e3779b97f4a7c15u;
    return (size_t)(sum * 0xff51afd7ed558ccdu >> 32) % RECENT;
}

bool lw_strings_intern(struct lw_strings *table, const char *text, size_t len,
                       lw_string_id *id, struct lw_error *err)
{
    struct text key = { text, len };
    uint32_t *recent;

    if (len == 0) {
        *id = 0;
        return true;
    }
    recent = table->recent[place_of(text, len)];
    for (size_t i = 0; i < WAYS && recent[i]; i++)
        if (is_same(table, recent[i], &key)) {
            *id = recent[i];
            return true;
        }
    if (!intern(table, text, len, id, err))
        return false;
    memmove(recent + 1, recent, (WAYS - 1) * sizeof(*recent));
    recent[0] = *id;
    return true;
}

const char *lw_strings_text(const struct lw_strings *table, lw_string_id id)
{
    lw_assert(id < table->count);
    return table->texts[id].bytes;
}

size_t lw_strings_len(const struct lw_strings *table, lw_string_id id)
{
    lw_assert(id < table->count);
    return table->texts[id].len;
}

size_t lw_strings_count(const struct lw_strings *table)
{
    return table->count;
}
