/* Each operation is one pass over sorted lists. */

#include "analyses/intervals.h"

#include <stdlib.h>

#include "base/alloc.h"

void lw_intervals_release(struct lw_intervals *set)
{
    lw_free(set->list);
    set->list = NULL;
    set->count = set->capacity = 0;
}

bool lw_intervals_add(struct lw_intervals *set, uint64_t start_ns, uint64_t end_ns,
                      struct lw_error *err)
{
    struct lw_interval added = { start_ns, end_ns };

    if (end_ns <= start_ns)
        return true;
    if (!lw_grow(&set->list, &set->capacity, set->count + 1, sizeof(added), err))
        return false;
    set->list[set->count++] = added;
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct lw_interval *x = a, *y = b;

    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool is_sorted(const struct lw_intervals *set)
{
    for (size_t i = 1; i < set->count; i++)
        if (set->list[i].start_ns < set->list[i - 1].start_ns)
            return false;
    return true;
}

void lw_intervals_merge(struct lw_intervals *set)
{
    size_t kept = 0;

    if (set->count == 0)
        return;
    if (!is_sorted(set))
        qsort(set->list, set->count, sizeof(*set->list), compare);
    for (size_t i = 1; i < set->count; i++) {
        struct lw_interval *last = &set->list[kept];

        if (set->list[i].start_ns > last->end_ns)
            set->list[++kept] = set->list[i];
        else if (set->list[i].end_ns > last->end_ns)
            last->end_ns = set->list[i].end_ns;
    }
    set->count = kept + 1;
}

uint64_t lw_intervals_total(const struct lw_intervals *set)
{
    uint64_t total = 0;

    for (size_t i = 0; i < set->count; i++)
        total += set->list[i].end_ns - set->list[i].start_ns;
    return total;
}

/* The first interval that ends after TIME_NS. */
static size_t first_after(const struct lw_intervals *set, uint64_t time_ns)
{
    size_t low = 0, count = set->count;

    while (count > 0) {
        size_t half = count / 2;

        if (set->list[low + half].end_ns <= time_ns) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

uint64_t lw_intervals_within(const struct lw_intervals *set, uint64_t start_ns,
                             uint64_t end_ns)
{
    uint64_t total = 0;

    for (size_t i = first_after(set, start_ns);
         i < set->count && set->list[i].start_ns < end_ns; i++) {
        const struct lw_interval *one = &set->list[i];
        uint64_t from = one->start_ns > start_ns ? one->start_ns : start_ns;
        uint64_t to = one->end_ns < end_ns ? one->end_ns : end_ns;

        total += to - from;
    }
    return total;
}

void lw_intervals_sum(const struct lw_intervals *set, uint64_t *before)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < set->count; i++) {
        before[i] = sum;
        sum += set->list[i].end_ns - set->list[i].start_ns;
    }
}

uint64_t lw_intervals_before(const struct lw_intervals *set, const uint64_t *before,
                             uint64_t time_ns)
{
    size_t at = first_after(set, time_ns); /* it may have begun */
    const struct lw_interval *last;

    if (at < set->count && set->list[at].start_ns < time_ns)
        return before[at] + (time_ns - set->list[at].start_ns);
    if (at == 0)
        return 0;
    last = &set->list[at - 1];
    return before[at - 1] + (last->end_ns - last->start_ns);
}

bool lw_intervals_intersect(const struct lw_intervals *a, const struct lw_intervals *b,
                            struct lw_intervals *out, struct lw_error *err)
{
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const struct lw_interval *x = &a->list[i], *y = &b->list[j];
        uint64_t from = x->start_ns > y->start_ns ? x->start_ns : y->start_ns;
        uint64_t to = x->end_ns < y->end_ns ? x->end_ns : y->end_ns;

        if (!lw_intervals_add(out, from, to, err))
            return false;
        if (x->end_ns < y->end_ns)
            i++;
        else
            j++;
    }
    return true;
}

bool lw_intervals_subtract(const struct lw_intervals *a, const struct lw_intervals *b,
                           struct lw_intervals *out, struct lw_error *err)
{
    size_t j = 0;

    for (size_t i = 0; i < a->count; i++) {
        uint64_t from = a->list[i].start_ns, end = a->list[i].end_ns;

        while (j < b->count && b->list[j].end_ns <= from)
            j++;
        for (size_t k = j; k < b->count && b->list[k].start_ns < end; k++) {
            if (!lw_intervals_add(out, from, b->list[k].start_ns, err))
                return false;
            if (b->list[k].end_ns > from)
                from = b->list[k].end_ns;
        }
        if (!lw_intervals_add(out, from, end, err))
            return false;
    }
    return true;
}
