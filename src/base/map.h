/* A hash table of small numbers, for interning.
 *
 * It holds only the numbers (1, 2, 3 ... ; 0 means absent) and a part of each
 * hash; the things themselves live in the owner's array, and the owner says
 * whether number N is the thing looked for. */
#ifndef LW_BASE_MAP_H
#define LW_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lw_map_slot {
    uint32_t number; /* 0: empty */
    uint32_t tag;    /* high half of the hash */
};

struct lw_map {
    struct lw_map_slot *slots; /* owned; a power of two of them */
    size_t capacity;
    size_t count;
};

typedef bool lw_map_same(const void *owner, uint32_t number, const void *key);

void lw_map_init(struct lw_map *map);
void lw_map_release(struct lw_map *map);
void lw_map_reset(struct lw_map *map);

/* The number of the thing equal to KEY, or 0. */
uint32_t lw_map_find(const struct lw_map *map, uint64_t hash, lw_map_same *same,
                     const void *owner, const void *key);
/* Add NUMBER, which is not there yet. Fails only for memory, and then the map is as
 * it was. (The owner's array is not asked: slots keep enough of the hash to move.) */
bool lw_map_add(struct lw_map *map, uint64_t hash, uint32_t number,
                struct lw_error *err) LW_MUST_CHECK;

uint64_t lw_hash_bytes(const void *bytes, size_t len);
static inline uint64_t lw_hash_u64(uint64_t x)
{
    x ^= x >> 32; /* MurmurHash3's finaliser: every bit reaches every bit */
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

#endif
