#include "analyses/compare_keys.h"

#include <string.h>

#include "base/alloc.h"

static uint64_t hash_key(const uint32_t key[3])
{
    return lw_hash_u64(lw_hash_u64((uint64_t)key[0] << 32 | key[1]) ^ key[2]);
}

static bool is_key(const void *owner, uint32_t number, const void *key)
{
    const struct lw_compare_keys *keys = owner;

    return memcmp(keys->list[number - 1].key, key, sizeof(keys->list[0].key)) == 0;
}

struct lw_compare_key *lw_compare_keys_find(const struct lw_compare_keys *keys,
                                            const uint32_t key[3])
{
    uint32_t found = lw_map_find(&keys->map, hash_key(key), is_key, keys, key);

    return found ? &keys->list[found - 1] : NULL;
}

bool lw_compare_keys_add(struct lw_compare_keys *keys, const uint32_t key[3],
                         uint32_t value, struct lw_error *err)
{
    struct lw_compare_key *added;

    if (!lw_grow(&keys->list, &keys->capacity, keys->count + 1, sizeof(*keys->list),
                 err) ||
        !lw_map_add(&keys->map, hash_key(key), (uint32_t)keys->count + 1, err))
        return false;
    added = &keys->list[keys->count++];
    memcpy(added->key, key, sizeof(added->key));
    added->value = value;
    return true;
}

void lw_compare_keys_reset(struct lw_compare_keys *keys)
{
    keys->count = 0;
    lw_map_reset(&keys->map);
}

void lw_compare_keys_release(struct lw_compare_keys *keys)
{
    lw_free(keys->list);
    lw_map_release(&keys->map);
}
