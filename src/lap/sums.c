/* Rows in an array, found by a hash table of their keys.
 *
 * It is not base/map.h because of its one hot use: summing millions of samples while
 * reading, where comparing whole keys in the table takes a third of the time of asking
 * the owner of the rows. */

#include "lap/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

#define FIRST_SLOTS 64
#define THREADS_MAX (1u << 24) /* so that a key has 64 bits */
#define ROWS_MAX (1u << 31)

void lw_sums_init(struct lw_sums *sums)
{
    memset(sums, 0, sizeof(*sums));
}

void lw_sums_release(struct lw_sums *sums)
{
    lw_free(sums->rows);
    lw_free(sums->slots);
    lw_sums_init(sums);
}

static uint64_t key_of(const struct lw_sum *row)
{
    return (uint64_t)row->thread << 40 | (uint64_t)row->state << 32 | row->stack;
}

/* After one burst the table is large for good, and the writer empties it 20 times a
 * second: so few rows are taken out one by one. */
void lw_sums_reset(struct lw_sums *sums)
{
    if (sums->count > sums->slot_count / 16) {
        memset(sums->slots, 0, sums->slot_count * sizeof(*sums->slots));
    } else {
        for (size_t row = 0; row < sums->count; row++) {
            size_t i = lw_hash_u64(key_of(&sums->rows[row]));

            while (sums->slots[i & (sums->slot_count - 1)].number != row + 1)
                i++; /* empty ones too: what was before it may be gone already */
            sums->slots[i & (sums->slot_count - 1)].number = 0;
        }
    }
    memset(sums->recent, 0, sizeof(sums->recent));
    sums->count = 0;
}

/* The slot that has KEY, or the empty one where it belongs. */
static struct lw_sum_slot *slot_of(struct lw_sum_slot *slots, size_t count,
                                   uint64_t key)
{
    size_t i = lw_hash_u64(key) & (count - 1);

    while (slots[i].number && slots[i].key != key)
        i = (i + 1) & (count - 1);
    return &slots[i];
}

static bool grow_slots(struct lw_sums *sums, struct lw_error *err)
{
    size_t count = sums->slot_count ? sums->slot_count * 2 : FIRST_SLOTS;
    struct lw_sum_slot *slots = lw_zalloc(count, sizeof(*slots), err);

    if (!slots)
        return false;
    for (size_t i = 0; i < sums->slot_count; i++)
        if (sums->slots[i].number)
            *slot_of(slots, count, sums->slots[i].key) = sums->slots[i];
    lw_free(sums->slots);
    sums->slots = slots;
    sums->slot_count = count;
    return true;
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
    uint32_t *recent = &sums->recent[row->thread % LW_SUMS_RECENT];
    uint64_t key = key_of(row);
    struct lw_sum_slot *slot;

    if (row->thread >= THREADS_MAX || sums->count >= ROWS_MAX)
        return lw_fail(err, LW_ERR_LIMIT,
                       "more threads or stacks than can be added up");
    /* Most threads are most of the time where they were when last sampled. */
    if (*recent && key_of(&sums->rows[*recent - 1]) == key) {
        add_to(&sums->rows[*recent - 1], row);
        return true;
    }
    if (sums->count >= sums->slot_count / 2 && !grow_slots(sums, err))
        return false;
    slot = slot_of(sums->slots, sums->slot_count, key);
    if (slot->number) {
        *recent = slot->number;
        add_to(&sums->rows[slot->number - 1], row);
        return true;
    }
    if (!lw_grow(&sums->rows, &sums->capacity, sums->count + 1, sizeof(*sums->rows),
                 err))
        return false;
    sums->rows[sums->count++] = *row;
    *recent = (uint32_t)sums->count;
    *slot = (struct lw_sum_slot){ key, *recent };
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = key_of(a), y = key_of(b);

    return (x > y) - (x < y);
}

void lw_sums_sort(struct lw_sums *sums)
{
    if (sums->count)
        qsort(sums->rows, sums->count, sizeof(*sums->rows), compare);
}
