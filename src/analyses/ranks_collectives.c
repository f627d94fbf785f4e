/* report ranks --by collective, --by kind: how long the ranks waited for each other in
 * each collective, or in all of a kind and group, and how fast they were then. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/ranks.h"
#include "base/alloc.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "collective", "collective", LW_UNIT_TEXT, false },
    { "group", "group", LW_UNIT_TEXT, false },
    { "step", "step", LW_UNIT_TEXT, false },
    { "order", "nth", LW_UNIT_COUNT, false },
    { "ranks", "ranks", LW_UNIT_COUNT, false },
    { "size", "of", LW_UNIT_COUNT, false },
    { "bytes", "bytes", LW_UNIT_BYTES, false },
    { "transfer_ns", "transfer", LW_UNIT_NS, false },
    { "mean_wait_ns", "mean wait", LW_UNIT_NS, false },
    { "max_wait_ns", "longest", LW_UNIT_NS, false },
    { "last", "came last", LW_UNIT_COUNT, false },
    { "start_skew_ns", "starts apart", LW_UNIT_NS, false },
    { "end_skew_ns", "ends apart", LW_UNIT_NS, false },
    { "bandwidth", "algorithm", LW_UNIT_BYTES_S, false },
    { "bus_bandwidth", "bus", LW_UNIT_BYTES_S, false },
};

static const struct lw_column kind_columns[] = {
    { "collective", "collective", LW_UNIT_TEXT, false },
    { "group", "group", LW_UNIT_TEXT, false },
    { "size", "ranks", LW_UNIT_COUNT, false },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "bytes", "bytes", LW_UNIT_BYTES, false },
    { "mean_bytes", "a call", LW_UNIT_BYTES, false },
    { "total_ns", "time of a rank", LW_UNIT_NS, false },
    { "transfer_ns", "transfer", LW_UNIT_NS, false },
    { "wait_ns", "wait", LW_UNIT_NS, false },
    { "wait_share", "waiting", LW_UNIT_SHARE, false },
    { "max_wait_ns", "longest", LW_UNIT_NS, false },
    { "bandwidth", "algorithm", LW_UNIT_BYTES_S, false },
    { "bus_bandwidth", "bus", LW_UNIT_BYTES_S, false },
};
/* clang-format on */

static const struct lw_collective_part *first_part(const struct lw_ranks *ranks,
                                                   const struct lw_collective_match *m)
{
    return &ranks->collectives.parts[m->first];
}

/* Who sends to whom in MATCH, by the ranks' numbers in the job; those in the group where
 * only one of the two was seen. */
static void add_pair(const struct lw_ranks *ranks,
                     const struct lw_collective_match *match, struct lw_buf *text)
{
    const struct lw_collective_part *part = first_part(ranks, match);
    int64_t source = part->source, sink = part->sink;

    for (uint32_t i = match->first; match->count == 2 && i < match->first + 2; i++) {
        const struct lw_collective_part *one = &ranks->collectives.parts[i];
        int64_t number = lw_trace_rank_number(ranks->trace, one->rank);

        if (one->role == LW_ROLE_SENDER)
            source = number;
        else
            sink = number;
    }
    lw_buf_addf(text, "send %" PRId64 "->%" PRId64, source, sink);
}

/* "all_reduce"; of a kind that is not known, what the trace calls it. */
static void add_collective(const struct lw_ranks *ranks,
                           const struct lw_collective_match *match,
                           struct lw_table *table)
{
    const struct lw_collective_part *part = first_part(ranks, match);
    const char *kind = lw_collective_kind_name((enum lw_collective_kind)part->kind);
    const char *name = lw_profile_text(ranks->profile, part->name);
    struct lw_buf text;

    lw_buf_init(&text, 0);
    if (!kind)
        lw_buf_add(&text, name, strcspn(name, "(<"));
    else if (part->source >= 0)
        add_pair(ranks, match, &text);
    else
        lw_buf_add_text(&text, kind);
    lw_ranks_add_text(table, lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

/* What people call the group, else its number. */
static void add_group(const struct lw_ranks *ranks,
                      const struct lw_collective_part *part, struct lw_table *table)
{
    const char *said = lw_profile_text(ranks->profile, part->group_text);

    if (*said && strcmp(said, "undefined") != 0)
        lw_ranks_add_text(table, said);
    else
        lw_ranks_add_text(table, lw_profile_text(ranks->profile, part->group));
}

static void add_rate(struct lw_table *table, bool is_known, double rate)
{
    if (is_known && rate >= 0)
        lw_table_add_number(table, rate);
    else
        lw_table_add_none(table);
}

/* How far the parts' starts, and their ends, are apart on one clock. */
static void add_skews(const struct lw_ranks *ranks,
                      const struct lw_collective_match *match, struct lw_table *table)
{
    int64_t starts[2] = { INT64_MAX, INT64_MIN }, ends[2] = { INT64_MAX, INT64_MIN };

    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const struct lw_collective_part *part = &ranks->collectives.parts[i];
        const struct lw_event *event = &ranks->trace->events[part->event];
        const struct lw_clock *clock = &ranks->clocks[part->rank];
        int64_t start = lw_clock_time(clock, event->start_ns);
        int64_t end = lw_clock_time(clock, lw_event_end_ns(event));

        starts[0] = start < starts[0] ? start : starts[0];
        starts[1] = start > starts[1] ? start : starts[1];
        ends[0] = end < ends[0] ? end : ends[0];
        ends[1] = end > ends[1] ? end : ends[1];
    }
    lw_ranks_add_known(table, match->count > 1,
                       (uint64_t)starts[1] - (uint64_t)starts[0]);
    lw_ranks_add_known(table, match->count > 1, (uint64_t)ends[1] - (uint64_t)ends[0]);
}

static bool is_meant(const struct lw_ranks *ranks,
                     const struct lw_collective_match *match)
{
    for (uint32_t i = match->first; i < match->first + match->count; i++)
        if (ranks->scope.ranks[ranks->collectives.parts[i].rank])
            return true;
    return false;
}

/* Nobody came last if nobody waited, or if one may leave before others come. */
static void add_last(const struct lw_ranks *ranks,
                     const struct lw_collective_match *match, struct lw_table *table)
{
    if (lw_ranks_has_last(ranks, match))
        lw_ranks_add_rank(ranks, ranks->collectives.parts[match->last].rank, table);
    else
        lw_table_add_none(table);
}

static void add_match(const struct lw_ranks *ranks,
                      const struct lw_collective_match *match, struct lw_table *table)
{
    const struct lw_collective_part *part = first_part(ranks, match);
    bool is_measured = lw_ranks_is_measured(match);

    lw_table_row(table, 0);
    add_collective(ranks, match, table);
    add_group(ranks, part, table);
    lw_ranks_add_text(table, lw_profile_text(ranks->profile, part->step));
    lw_table_add_integer(table, (int64_t)part->order + 1);
    lw_table_add_integer(table, match->count);
    lw_ranks_add_known(table, match->size > 0, (uint64_t)match->size);
    lw_ranks_add_known(table, match->bytes >= 0, (uint64_t)match->bytes);
    lw_ranks_add_known(table, is_measured, match->transfer_ns);
    lw_ranks_add_known(table, is_measured, match->wait_ns / match->count);
    lw_ranks_add_known(table, is_measured, match->longest_ns - match->transfer_ns);
    add_last(ranks, match, table);
    add_skews(ranks, match, table);
    add_rate(table, is_measured, lw_collective_bandwidth(match));
    add_rate(table, is_measured,
             lw_collective_bus_bandwidth(&ranks->collectives, match));
}

static bool want_collectives(const struct lw_ranks *ranks, struct lw_error *err)
{
    return ranks->collectives.match_count > 0 ||
           lw_fail(err, LW_ERR_UNSUPPORTED,
                   "the trace has no collectives: no kernel of NCCL or another such "
                   "library, and no range of gloo's");
}

static void note_meaning(struct lw_table *table)
{
    lw_table_note(table,
                  "transfer: the least time a rank took; wait: the rest of a rank's "
                  "time. Rates are of the transfer, as nccl-tests has them.");
}

/* A match and what it is sorted by. */
struct ordered {
    uint32_t match;
    uint64_t weight;
};

static int by_weight(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;

    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->match < b->match ? -1 : a->match > b->match;
}

bool lw_ranks_by_collective(const struct lw_ranks *ranks, struct lw_table *table,
                            struct lw_error *err)
{
    const struct lw_collectives *all = &ranks->collectives;
    struct ordered *order;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    if (!want_collectives(ranks, err))
        return false;
    order = lw_alloc(all->match_count * sizeof(*order), err);
    if (!order)
        return false;
    for (uint32_t i = 0; i < all->match_count; i++)
        order[i] = (struct ordered){ i, all->matches[i].wait_ns };
    qsort(order, all->match_count, sizeof(*order), by_weight);
    for (size_t i = 0; i < all->match_count; i++)
        if (is_meant(ranks, &all->matches[order[i].match]))
            add_match(ranks, &all->matches[order[i].match], table);
    lw_free(order);
    lw_ranks_set_title(ranks, table, "%zu collective%s, by the time that ranks waited",
                       all->match_count, all->match_count == 1 ? "" : "s");
    note_meaning(table);
    return true;
}

/* Kinds */

struct kind {
    const struct lw_collective_match *match; /* one of it */
    int64_t size;
    uint64_t calls, measured_calls;
    uint64_t parts, parts_ns; /* of ranks that are meant */
    uint64_t wait_ns;         /* of those */
    uint64_t transfer_ns, max_wait_ns;
    int64_t bytes; /* -1: not known of one */
    double rated_bytes, rated_bus_bytes, rated_s;
};

/* Matches of a kind are found side by side in this order. */
static int by_kind(const void *x, const void *y, void *context)
{
    const struct lw_ranks *ranks = context;
    const struct lw_collective_match *m = ranks->collectives.matches;
    const struct ordered *left = x, *right = y;
    const struct lw_collective_part *a = first_part(ranks, &m[left->match]);
    const struct lw_collective_part *b = first_part(ranks, &m[right->match]);
    const int64_t keys[][2] = {
        { a->kind, b->kind },
        { a->kind == LW_COLLECTIVE_OTHER ? a->name : 0,
          b->kind == LW_COLLECTIVE_OTHER ? b->name : 0 },
        { a->group, b->group },
        { a->group_ranks, b->group_ranks },
        { a->source, b->source },
        { a->sink, b->sink },
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static void add_to_kind(const struct lw_ranks *ranks, struct kind *kind,
                        const struct lw_collective_match *match)
{
    const struct lw_collectives *all = &ranks->collectives;
    double rate = lw_collective_bandwidth(match);

    kind->calls++;
    if (match->size > kind->size)
        kind->size = match->size;
    if (match->bytes < 0 || kind->bytes < 0 ||
        __builtin_add_overflow(kind->bytes, match->bytes, &kind->bytes))
        kind->bytes = -1;
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        if (!ranks->scope.ranks[all->parts[i].rank])
            continue;
        kind->parts++;
        kind->parts_ns += lw_collective_part_ns(all, &all->parts[i]);
        if (lw_ranks_is_measured(match))
            kind->wait_ns += lw_collective_wait_ns(all, match, &all->parts[i]);
    }
    if (!lw_ranks_is_measured(match))
        return;
    kind->measured_calls++;
    kind->transfer_ns += match->transfer_ns;
    if (match->longest_ns - match->transfer_ns > kind->max_wait_ns)
        kind->max_wait_ns = match->longest_ns - match->transfer_ns;
    if (rate >= 0) {
        double seconds = (double)match->transfer_ns / 1e9;

        kind->rated_s += seconds;
        kind->rated_bytes += rate * seconds;
        kind->rated_bus_bytes += lw_collective_bus_bandwidth(all, match) * seconds;
    }
}

/* Times of a rank: of all that are meant in the mean. */
static void add_kind(const struct lw_ranks *ranks, const struct kind *kind,
                     struct lw_table *table)
{
    uint64_t count = kind->size > 0 && (uint64_t)kind->size < ranks->scope.rank_count
                         ? (uint64_t)kind->size
                         : ranks->scope.rank_count;
    bool is_measured = kind->measured_calls > 0;

    lw_table_row(table, 0);
    add_collective(ranks, kind->match, table);
    add_group(ranks, first_part(ranks, kind->match), table);
    lw_ranks_add_known(table, kind->size > 0, (uint64_t)kind->size);
    lw_table_add_integer(table, (int64_t)kind->calls);
    lw_ranks_add_known(table, kind->bytes >= 0, (uint64_t)kind->bytes);
    lw_ranks_add_known(table, kind->bytes >= 0, (uint64_t)kind->bytes / kind->calls);
    lw_table_add_integer(table, (int64_t)(kind->parts_ns / count));
    lw_ranks_add_known(table, is_measured, kind->transfer_ns);
    lw_ranks_add_known(table, is_measured, kind->wait_ns / count);
    if (is_measured)
        lw_analysis_add_share(table, (double)kind->wait_ns, (double)kind->parts_ns);
    else
        lw_table_add_none(table);
    lw_ranks_add_known(table, is_measured, kind->max_wait_ns);
    add_rate(table, kind->rated_s > 0, kind->rated_bytes / kind->rated_s);
    add_rate(table, kind->rated_s > 0, kind->rated_bus_bytes / kind->rated_s);
}

static int by_time(const void *x, const void *y)
{
    const struct kind *a = x, *b = y;

    return a->parts_ns > b->parts_ns ? -1 : a->parts_ns < b->parts_ns;
}

static size_t find_kinds(const struct lw_ranks *ranks, struct ordered *order,
                         struct kind *kinds)
{
    const struct lw_collectives *all = &ranks->collectives;
    size_t count = 0, kind_count = 0;

    for (uint32_t i = 0; i < all->match_count; i++)
        if (is_meant(ranks, &all->matches[i]))
            order[count++] = (struct ordered){ i, 0 };
    if (count > 0)
        qsort_r(order, count, sizeof(*order), by_kind, (void *)ranks);
    for (size_t i = 0; i < count; i++) {
        const struct lw_collective_match *match = &all->matches[order[i].match];

        if (i == 0 || by_kind(&order[i - 1], &order[i], (void *)ranks) != 0)
            kinds[kind_count++] = (struct kind){ .match = match };
        add_to_kind(ranks, &kinds[kind_count - 1], match);
    }
    if (kind_count > 0)
        qsort(kinds, kind_count, sizeof(*kinds), by_time);
    return kind_count;
}

bool lw_ranks_by_kind(const struct lw_ranks *ranks, struct lw_table *table,
                      struct lw_error *err)
{
    size_t count = ranks->collectives.match_count;
    struct ordered *order = NULL;
    struct kind *kinds = NULL;

    lw_table_init(table, kind_columns, sizeof(kind_columns) / sizeof(kind_columns[0]));
    if (!want_collectives(ranks, err))
        return false;
    order = lw_alloc(count * sizeof(*order), err);
    kinds = order ? lw_alloc(count * sizeof(*kinds), err) : NULL;
    if (kinds) {
        size_t kind_count = find_kinds(ranks, order, kinds);

        for (size_t i = 0; i < kind_count; i++)
            add_kind(ranks, &kinds[i], table);
        lw_ranks_set_title(
            ranks, table,
            "%zu collective%s, by kind and group; times of a rank in the mean", count,
            count == 1 ? "" : "s");
        note_meaning(table);
    }
    lw_free(order);
    lw_free(kinds);
    return kinds != NULL;
}
