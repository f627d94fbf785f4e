/* Looking at what a pickle holds. */

#include <string.h>

#include "readers/snapshot_pickle.h"

#define NO_CHUNK UINT32_MAX

bool lw_pickle_integer(const struct lw_pickle *pickle, lw_pickle_value value,
                       int64_t *integer)
{
    switch (lw_pickle_kind(value)) {
    case LW_PICKLE_INT: *integer = (int64_t)value >> 4; return true;
    case LW_PICKLE_BIG: *integer = pickle->bigs[value >> 4]; return true;
    default: return false;
    }
}

bool lw_pickle_text(const struct lw_pickle *pickle, lw_pickle_value value,
                    const char **text, size_t *len)
{
    if (lw_pickle_kind(value) != LW_PICKLE_TEXT)
        return false;
    *text = (const char *)pickle->bytes + pickle->texts[value >> 4].offset;
    *len = pickle->texts[value >> 4].len;
    return true;
}

static bool is_container(lw_pickle_value value)
{
    return lw_pickle_kind(value) == LW_PICKLE_LIST ||
           lw_pickle_kind(value) == LW_PICKLE_DICT;
}

size_t lw_pickle_count(const struct lw_pickle *pickle, lw_pickle_value value)
{
    return is_container(value) ? pickle->containers[lw_pickle_number(value)].count : 0;
}

struct lw_pickle_walk lw_pickle_walk(const struct lw_pickle *pickle,
                                     lw_pickle_value value)
{
    struct lw_pickle_walk walk = { NO_CHUNK, 0 };

    if (is_container(value))
        walk.chunk = pickle->containers[lw_pickle_number(value)].first;
    return walk;
}

bool lw_pickle_next(const struct lw_pickle *pickle, struct lw_pickle_walk *walk,
                    lw_pickle_value *item)
{
    const struct lw_pickle_chunk *chunk;

    if (walk->chunk == NO_CHUNK)
        return false;
    chunk = &pickle->chunks[walk->chunk];
    *item = pickle->items[chunk->first + walk->at++];
    if (walk->at == chunk->count) {
        walk->chunk = chunk->next;
        walk->at = 0;
    }
    return true;
}

lw_pickle_value lw_pickle_find(const struct lw_pickle *pickle, lw_pickle_value dict,
                               const char *key)
{
    struct lw_pickle_walk walk = lw_pickle_walk(pickle, dict);
    lw_pickle_value found = LW_PICKLE_NONE, name, value;
    size_t key_len = strlen(key), len;
    const char *text;

    if (lw_pickle_kind(dict) != LW_PICKLE_DICT ||
        lw_pickle_count(pickle, dict) > 2 * LW_PICKLE_KEYS_MAX)
        return found;
    while (lw_pickle_next(pickle, &walk, &name) &&
           lw_pickle_next(pickle, &walk, &value))
        if (lw_pickle_text(pickle, name, &text, &len) && len == key_len &&
            memcmp(text, key, len) == 0)
            found = value; /* the last one counts */
    return found;
}
