/* All memory of the program comes from here, so that tests can make the n-th
 * request fail (environment LAPWING_TEST_FAIL_ALLOC=n) and see a clean sentence.
 *
 * Everything handed out is freed with lw_free(). */
#ifndef LW_BASE_ALLOC_H
#define LW_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

void *lw_alloc(size_t size, struct lw_error *err); /* bytes are not set */
void *lw_zalloc(size_t count, size_t size, struct lw_error *err); /* zeroed */
void lw_free(void *memory);                                       /* NULL is fine */
char *lw_copy_text(const char *text, size_t len, struct lw_error *err);

/* Make room for at least NEED items of ITEM_SIZE bytes in *ITEMS, whose capacity
 * is *CAPACITY items; grows by half again and checks for overflow. On failure
 * *ITEMS and *CAPACITY are as they were. *ITEMS may be NULL with capacity 0.
 *
 *     if (!lw_grow(&rows, &cap, count + 1, sizeof(*rows), err)) return false; */
bool lw_grow_bytes(void *items, size_t *capacity, size_t need, size_t item_size,
                   struct lw_error *err) LW_MUST_CHECK;
#define lw_grow(items, capacity, need, item_size, err) \
    lw_grow_bytes((void *)(items), capacity, need, item_size, err)

/* Set the request (1 is the next one) that shall fail; 0: none. For tests. */
void lw_alloc_fail_in(uint64_t requests);

#endif
