/* Rank by rank, from the first: a round looks at all collectives and measures those ranks
 * that share one with a rank that is known already. One round is enough where a group
 * holds all ranks; grids of groups take two or three. */

#include "analyses/clocks.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Ends of a collective that are this close are one moment: a ring hands on the last piece
 * from rank to rank (eight V100s were up to 5 us apart). */
#define ONE_MOMENT_NS 10000
/* A difference counts if it is so many times its spread. */
#define SPREADS 3
/* More rounds than this are a chain of ranks that nobody's job is. */
#define ROUNDS_MAX 64

/* An end of a rank that is not known, against one of a rank that is. */
struct difference {
    uint32_t rank;
    int64_t ns; /* to be added to that rank's times */
};

struct aligning {
    const struct lw_collectives *all;
    struct lw_clock *clocks;
    bool *is_known;
    struct difference *list;
    size_t count, capacity;
};

static uint64_t end_of(const struct aligning *a, uint32_t part)
{
    return lw_event_end_ns(&a->all->trace->events[a->all->parts[part].event]);
}

static bool add_differences(struct aligning *a, const struct lw_collective_match *match,
                            struct lw_error *err)
{
    const struct lw_collective_part *parts = a->all->parts;
    uint32_t known = match->first, end = match->first + match->count;
    uint64_t moment; /* wraps where a hostile file has times that are none */

    while (known < end && !a->is_known[parts[known].rank])
        known++;
    if (known == end)
        return true;
    moment = end_of(a, known) + (uint64_t)a->clocks[parts[known].rank].offset_ns;
    for (uint32_t i = match->first; i < end; i++) {
        struct difference one = { parts[i].rank, (int64_t)(moment - end_of(a, i)) };

        if (a->is_known[one.rank])
            continue;
        if (!lw_grow(&a->list, &a->capacity, a->count + 1, sizeof(one), err))
            return false;
        a->list[a->count++] = one;
    }
    return true;
}

static int by_rank_and_size(const void *x, const void *y)
{
    const struct difference *a = x, *b = y;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->ns < b->ns ? -1 : a->ns > b->ns;
}

static int by_size(const void *x, const void *y)
{
    const struct difference *a = x, *b = y;

    return a->ns < b->ns ? -1 : a->ns > b->ns;
}

static uint64_t distance(int64_t a, int64_t b)
{
    return a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
}

/* Of the COUNT differences of one rank, sorted; they are changed. */
static void measure(struct lw_clock *clock, struct difference *list, size_t count)
{
    int64_t median = list[count / 2].ns;
    uint64_t size = distance(median, 0);

    for (size_t i = 0; i < count; i++) {
        uint64_t off = distance(list[i].ns, median);

        list[i].ns = off > INT64_MAX ? INT64_MAX : (int64_t)off;
    }
    qsort(list, count, sizeof(*list), by_size);
    clock->measured_ns = median;
    clock->spread_ns = (uint64_t)list[count / 2].ns;
    clock->count = count;
    if (size > ONE_MOMENT_NS && size / SPREADS > clock->spread_ns)
        clock->offset_ns = median;
}

/* Measure what can be; false: nothing new. */
static bool take_round(struct aligning *a)
{
    bool found = false;

    if (a->count > 0)
        qsort(a->list, a->count, sizeof(*a->list), by_rank_and_size);
    for (size_t first = 0, end; first < a->count; first = end) {
        uint32_t rank = a->list[first].rank;

        for (end = first; end < a->count && a->list[end].rank == rank;)
            end++;
        measure(&a->clocks[rank], a->list + first, end - first);
        a->is_known[rank] = found = true;
    }
    a->count = 0;
    return found;
}

static bool align(struct aligning *a, struct lw_error *err)
{
    bool more = true;

    for (int round = 0; more && round < ROUNDS_MAX; round++) {
        for (size_t i = 0; i < a->all->match_count; i++) {
            const struct lw_collective_match *match = &a->all->matches[i];
            unsigned kind = a->all->parts[match->first].kind;

            if (lw_collective_kind_waits((enum lw_collective_kind)kind) &&
                !add_differences(a, match, err))
                return false;
        }
        more = take_round(a);
    }
    return true;
}

struct lw_clock *lw_clocks_new(const struct lw_collectives *all, struct lw_error *err)
{
    size_t count = all->trace->rank_count;
    struct aligning a = { .all = all };
    bool done;

    a.clocks = lw_zalloc(count + 1, sizeof(*a.clocks), err);
    a.is_known = a.clocks ? lw_zalloc(count + 1, sizeof(*a.is_known), err) : NULL;
    done = a.is_known != NULL;
    if (done) {
        a.is_known[0] = true;
        done = align(&a, err);
    }
    lw_free(a.list);
    lw_free(a.is_known);
    if (!done) {
        lw_free(a.clocks);
        return NULL;
    }
    return a.clocks;
}
