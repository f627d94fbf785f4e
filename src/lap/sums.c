/* Rows in an array, found by a map of their numbers (index + 1). */

#include "lap/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void lw_sums_init(struct lw_sums *sums)
{
    memset(sums, 0, sizeof(*sums));
    lw_map_init(&sums->by_key);
}

void lw_sums_release(struct lw_sums *sums)
{
    lw_free(sums->rows);
    lw_map_release(&sums->by_key);
    lw_sums_init(sums);
}

void lw_sums_reset(struct lw_sums *sums)
{
    lw_map_reset(&sums->by_key);
    sums->count = sums->last = 0;
}

static bool same_key(const struct lw_sum *a, const struct lw_sum *b)
{
    return a->stack == b->stack && a->thread == b->thread && a->state == b->state;
}

static bool same(const void *owner, uint32_t number, const void *key)
{
    const struct lw_sums *sums = owner;

    return same_key(&sums->rows[number - 1], key);
}

static void add_to(struct lw_sum *sum, const struct lw_sum *row)
{
    sum->count += row->count;
    sum->ns += row->ns;
    if (row->first_ns < sum->first_ns)
        sum->first_ns = row->first_ns;
}

bool lw_sums_add(struct lw_sums *sums, const struct lw_sum *row, struct lw_error *err)
{
    uint64_t hash;
    uint32_t number;

    /* A waiting thread is sampled in the same place again and again. */
    if (sums->count && same_key(&sums->rows[sums->last], row)) {
        add_to(&sums->rows[sums->last], row);
        return true;
    }
    hash = lw_hash_u64(((uint64_t)row->thread << 32 | row->stack) +
                       ((uint64_t)row->state << 56));
    number = lw_map_find(&sums->by_key, hash, same, sums, row);
    if (number) {
        sums->last = number - 1;
        add_to(&sums->rows[sums->last], row);
        return true;
    }
    if (sums->count >= UINT32_MAX - 1)
        return lw_fail(err, LW_ERR_LIMIT, "more than 4 billion stacks");
    if (!lw_grow(&sums->rows, &sums->capacity, sums->count + 1, sizeof(*sums->rows),
                 err) ||
        !lw_map_add(&sums->by_key, hash, (uint32_t)sums->count + 1, err))
        return false;
    sums->last = sums->count;
    sums->rows[sums->count++] = *row;
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct lw_sum *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (x->state > y->state) - (x->state < y->state);
}

void lw_sums_sort(struct lw_sums *sums)
{
    if (sums->count)
        qsort(sums->rows, sums->count, sizeof(*sums->rows), compare);
}
