/* report ranks --by straggler: who came last to collectives that nobody can leave before,
 * how often, and how much the others waited for it. */

#include <stdlib.h>

#include "analyses/ranks.h"
#include "base/alloc.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "last", "came last", LW_UNIT_COUNT, false },
    { "collectives", "of", LW_UNIT_COUNT, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "made_wait_ns", "others waited", LW_UNIT_NS, false },
    { "wait_share", "of all waiting", LW_UNIT_SHARE, false },
    { "behind_ns", "behind the next", LW_UNIT_NS, false },
    { "max_wait_ns", "longest", LW_UNIT_NS, false },
    { "waited_ns", "itself waited", LW_UNIT_NS, false },
    { "worst", "longest in", LW_UNIT_TEXT, false },
    { "step", "step", LW_UNIT_TEXT, false },
};
/* clang-format on */

struct straggler {
    uint32_t rank;
    uint64_t last, collectives;
    uint64_t made_wait_ns; /* all others together */
    uint64_t behind_ns;    /* how much sooner the next to last was there, added up */
    uint64_t max_wait_ns;
    uint64_t waited_ns;
    uint32_t worst; /* the match with that wait; LW_NONE: none */
};

static void add_match(const struct lw_ranks *ranks, struct straggler *list,
                      uint32_t index)
{
    const struct lw_collectives *all = &ranks->collectives;
    const struct lw_collective_match *match = &all->matches[index];
    struct straggler *late = &list[all->parts[match->last].rank];
    uint64_t next_ns = UINT64_MAX;

    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const struct lw_collective_part *part = &all->parts[i];
        uint64_t wait = lw_collective_wait_ns(all, match, part);

        list[part->rank].collectives++;
        list[part->rank].waited_ns += wait;
        if (i != match->last && wait < next_ns)
            next_ns = wait;
    }
    if (!lw_ranks_has_last(ranks, match))
        return;
    late->last++;
    late->made_wait_ns += match->wait_ns;
    late->behind_ns += next_ns;
    if (match->longest_ns - match->transfer_ns >= late->max_wait_ns) {
        late->max_wait_ns = match->longest_ns - match->transfer_ns;
        late->worst = index;
    }
}

static int by_wait(const void *x, const void *y)
{
    const struct straggler *a = x, *b = y;

    if (a->made_wait_ns != b->made_wait_ns)
        return a->made_wait_ns > b->made_wait_ns ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void add_worst(const struct lw_ranks *ranks, const struct straggler *one,
                      struct lw_table *table)
{
    const struct lw_collectives *all = &ranks->collectives;
    const struct lw_collective_part *part;
    const char *kind, *step;

    if (one->worst == LW_NONE) {
        lw_table_add_none(table);
        lw_table_add_none(table);
        return;
    }
    part = &all->parts[all->matches[one->worst].first];
    kind = lw_collective_kind_name((enum lw_collective_kind)part->kind);
    step = lw_profile_text(ranks->profile, part->step);
    lw_ranks_add_text(table, kind);
    lw_ranks_add_text(table, step);
}

static void add_straggler(const struct lw_ranks *ranks, const struct straggler *one,
                          uint64_t all_wait_ns, struct lw_table *table)
{
    lw_table_row(table, 0);
    lw_ranks_add_rank(ranks, one->rank, table);
    lw_table_add_integer(table, (int64_t)one->last);
    lw_table_add_integer(table, (int64_t)one->collectives);
    lw_analysis_add_share(table, (double)one->last, (double)one->collectives);
    lw_table_add_integer(table, (int64_t)one->made_wait_ns);
    lw_analysis_add_share(table, (double)one->made_wait_ns, (double)all_wait_ns);
    lw_table_add_integer(table, (int64_t)one->behind_ns);
    lw_table_add_integer(table, (int64_t)one->max_wait_ns);
    lw_table_add_integer(table, (int64_t)one->waited_ns);
    add_worst(ranks, one, table);
}

struct tally {
    size_t counted, even, free, alone;
    uint64_t wait_ns;
};

static void count_match(const struct lw_ranks *ranks, struct straggler *list,
                        uint32_t index, struct tally *tally)
{
    const struct lw_collective_match *match = &ranks->collectives.matches[index];
    unsigned kind = ranks->collectives.parts[match->first].kind;

    if (!lw_collective_kind_waits((enum lw_collective_kind)kind)) {
        tally->free++;
    } else if (match->count < 2) {
        tally->alone++;
    } else {
        tally->counted++;
        tally->even += !lw_ranks_has_last(ranks, match);
        tally->wait_ns += match->wait_ns;
        add_match(ranks, list, index);
    }
}

static void end_table(const struct lw_ranks *ranks, const struct tally *tally,
                      struct lw_table *table)
{
    lw_ranks_set_title(ranks, table, "who came last to %zu collective%s",
                       tally->counted, tally->counted == 1 ? "" : "s");
    if (tally->even > 0)
        lw_table_note(table,
                      "In %zu of them nobody waited longer than 10 us: %s for nobody.",
                      tally->even, tally->even == 1 ? "it counts" : "they count");
    if (tally->free > 0)
        lw_table_note(
            table,
            "%zu other%s (broadcast, reduce, send and the like) %s not show who "
            "was late: one may leave %s before others come.",
            tally->free, tally->free == 1 ? "" : "s", tally->free == 1 ? "does" : "do",
            tally->free == 1 ? "it" : "them");
    if (tally->alone > 0)
        lw_table_note(table, "%zu other%s seen in one rank only.", tally->alone,
                      tally->alone == 1 ? " was" : "s were");
}

bool lw_ranks_by_straggler(const struct lw_ranks *ranks, struct lw_table *table,
                           struct lw_error *err)
{
    size_t count = ranks->trace->rank_count;
    struct tally tally = { 0 };
    struct straggler *list;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    list = lw_zalloc(count + 1, sizeof(*list), err);
    if (!list)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        list[i].rank = i;
        list[i].worst = LW_NONE;
    }
    for (uint32_t i = 0; i < ranks->collectives.match_count; i++)
        count_match(ranks, list, i, &tally);
    if (tally.counted == 0) {
        lw_free(list);
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "no collective that all wait in was seen in two ranks, so nobody "
            "can be told to be late: name the folder of all ranks");
    }
    qsort(list, count, sizeof(*list), by_wait);
    for (size_t i = 0; i < count; i++)
        if (ranks->scope.ranks[list[i].rank])
            add_straggler(ranks, &list[i], tally.wait_ns, table);
    end_table(ranks, &tally, table);
    lw_free(list);
    return true;
}
