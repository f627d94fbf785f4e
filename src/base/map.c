/* Open addressing, linear probing, at most three quarters full.
 *
 * A slot's place comes from its tag alone, so growing moves slots without the things
 * they stand for. Nothing is ever taken out, so there are no tombstones. */

#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

#define FIRST_CAPACITY 16
#define LARGEST_CAPACITY ((size_t)1 << 32) /* the tag has no more bits for a place */

void lw_map_init(struct lw_map *map)
{
    memset(map, 0, sizeof(*map));
}

void lw_map_release(struct lw_map *map)
{
    lw_free(map->slots);
    lw_map_init(map);
}

void lw_map_reset(struct lw_map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->capacity * sizeof(*map->slots));
    map->count = 0;
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

uint32_t lw_map_find(const struct lw_map *map, uint64_t hash, lw_map_same *same,
                     const void *owner, const void *key)
{
    uint32_t tag = tag_of(hash);
    size_t mask = map->capacity - 1;

    if (!map->capacity)
        return 0;
    for (size_t i = tag & mask; map->slots[i].number; i = (i + 1) & mask) {
        const struct lw_map_slot *slot = &map->slots[i];

        if (slot->tag == tag && same(owner, slot->number, key))
            return slot->number;
    }
    return 0;
}

static void put(struct lw_map_slot *slots, size_t mask, struct lw_map_slot slot)
{
    size_t i = slot.tag & mask;

    while (slots[i].number)
        i = (i + 1) & mask;
    slots[i] = slot;
}

static bool grow(struct lw_map *map, struct lw_error *err)
{
    size_t capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY;
    struct lw_map_slot *slots;

    if (capacity > LARGEST_CAPACITY)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory (a table of %zu numbers)",
                       map->count);
    slots = lw_zalloc(capacity, sizeof(*slots), err);
    if (!slots)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].number)
            put(slots, capacity - 1, map->slots[i]);
    lw_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return true;
}

bool lw_map_add(struct lw_map *map, uint64_t hash, uint32_t number,
                struct lw_error *err)
{
    struct lw_map_slot slot = { number, tag_of(hash) };

    lw_assert(number != 0);
    if (map->count >= map->capacity / 4 * 3 && !grow(map, err))
        return false;
    put(map->slots, map->capacity - 1, slot);
    map->count++;
    return true;
}

/* The two halves of a 64 by 64 bit product, folded: the mixing step of wyhash. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load(const unsigned char *bytes, size_t len)
{
    uint64_t value = 0;

    memcpy(&value, bytes, len);
    return value;
}

uint64_t lw_hash_bytes(const void *bytes, size_t len)
{
    /* Odd numbers with no pattern: the first digits of pi, e and the golden ratio. */
    const uint64_t pi = 0x243f6a8885a308d3u, e = 0xadf85458a2bb4a9bu;
    const uint64_t phi = 0x9e3779b97f4a7c15u;
    const unsigned char *p = bytes;
    uint64_t hash = phi ^ len;

    for (; len > 16; len -= 16, p += 16)
        hash = fold(hash ^ load(p, 8) ^ pi, load(p + 8, 8) ^ e);
    if (len > 8)
        hash = fold(hash ^ load(p, 8) ^ pi, load(p + 8, len - 8) ^ e);
    else if (len)
        hash = fold(hash ^ load(p, len) ^ pi, e);
    return lw_hash_u64(hash);
}
