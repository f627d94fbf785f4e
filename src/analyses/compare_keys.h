/* Numbers by three numbers: the table in which rows of a comparison are found. */
#ifndef LW_ANALYSES_COMPARE_KEYS_H
#define LW_ANALYSES_COMPARE_KEYS_H

#include "base/map.h"

struct lw_compare_key {
    uint32_t key[3];
    uint32_t value;
};

struct lw_compare_keys {
    struct lw_compare_key *list; /* owned */
    size_t count, capacity;
    struct lw_map map;
};

/* NULL: it is not there. Borrowed until the next add. */
struct lw_compare_key *lw_compare_keys_find(const struct lw_compare_keys *keys,
                                            const uint32_t key[3]);
/* KEY is not there yet. */
bool lw_compare_keys_add(struct lw_compare_keys *keys, const uint32_t key[3],
                         uint32_t value, struct lw_error *err) LW_MUST_CHECK;
void lw_compare_keys_reset(struct lw_compare_keys *keys); /* empty */
void lw_compare_keys_release(struct lw_compare_keys *keys);

#endif
