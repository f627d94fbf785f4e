#include "readers/trace_keys.h"

#include "base/map.h" /* lw_hash_bytes() */

static bool is_same(const struct lw_trace_key *a, const struct lw_trace_key *b)
{
    return a->len == b->len && a->use == b->use &&
           memcmp(a->text, b->text, a->len) == 0;
}

/* Where KEY is among the places, or where it would be. */
static uint8_t *find(struct lw_trace_keys *keys, const struct lw_trace_key *key)
{
    size_t at = (size_t)lw_hash_bytes(key->text, key->len) + key->use;

    while (keys->places[at % LW_TRACE_PLACES] &&
           !is_same(&keys->list[keys->places[at % LW_TRACE_PLACES]], key))
        at++;
    return &keys->places[at % LW_TRACE_PLACES];
}

unsigned lw_trace_keys_add(struct lw_trace_keys *keys, unsigned before,
                           const struct lw_trace_key *key)
{
    uint8_t *place = find(keys, key), *next = keys->list[before].next;

    if (keys->count == 0)
        keys->count = LW_KEY_FIRST;
    if (!*place) {
        if (keys->count == LW_TRACE_KEYS)
            return LW_KEY_NONE;
        keys->list[keys->count] = *key;
        keys->list[keys->count].others = key->len < 32 ? UINT32_MAX << key->len : 0;
        *place = (uint8_t)keys->count++;
    }
    next[1] = next[0];
    next[0] = *place;
    return *place;
}
