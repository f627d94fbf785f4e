/* The ranks of a distributed job side by side: what each did in a step, which waited for
 * which, and in which collective. Every rank is a file; several files or their folder are
 * named. What is missing is said, and the rest is shown. */

#include "analyses/ranks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/units.h"

/* Ends of one collective are this far apart on one clock (see clocks.c). */
#define ONE_MOMENT_NS 10000
/* More than this are counted, not listed. */
#define LISTED_MAX 16

bool lw_ranks_has_last(const struct lw_ranks *ranks,
                       const struct lw_collective_match *match)
{
    unsigned kind = ranks->collectives.parts[match->first].kind;

    return match->count > 1 &&
           lw_collective_kind_waits((enum lw_collective_kind)kind) &&
           match->longest_ns - match->transfer_ns > ONE_MOMENT_NS;
}

void lw_ranks_set_title(const struct lw_ranks *ranks, struct lw_table *table,
                        const char *format, ...)
{
    struct lw_buf text;
    va_list args;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(&ranks->scope, &text);
    lw_buf_add_text(&text, ": ");
    va_start(args, format);
    lw_buf_addv(&text, format, args);
    va_end(args);
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

void lw_ranks_add_known(struct lw_table *table, bool is_known, uint64_t value)
{
    if (is_known)
        lw_table_add_integer(table, (int64_t)value);
    else
        lw_table_add_none(table);
}

void lw_ranks_add_text(struct lw_table *table, const char *text)
{
    if (*text)
        lw_table_add_text(table, text, strlen(text));
    else
        lw_table_add_none(table);
}

void lw_ranks_add_rank(const struct lw_ranks *ranks, uint32_t rank,
                       struct lw_table *table)
{
    lw_table_add_integer(table, lw_trace_rank_number(ranks->trace, rank));
}

/* What is missing */

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The numbers of all ranks, sorted; caller frees. */
static int64_t *sorted_numbers(const struct lw_trace *trace, struct lw_error *err)
{
    int64_t *numbers = lw_alloc(trace->rank_count * sizeof(*numbers) + 1, err);

    if (!numbers)
        return NULL;
    for (uint32_t i = 0; i < trace->rank_count; i++)
        numbers[i] = lw_trace_rank_number(trace, i);
    qsort(numbers, trace->rank_count, sizeof(*numbers), compare_numbers);
    return numbers;
}

static int64_t world_size(const struct lw_trace *trace)
{
    int64_t size = -1;

    for (size_t i = 0; i < trace->rank_count; i++)
        if (trace->ranks[i].world_size > size)
            size = trace->ranks[i].world_size;
    return size;
}

static void add_listed(struct lw_buf *text, size_t count, int64_t number)
{
    if (count < LISTED_MAX)
        lw_buf_addf(text, "%s%" PRId64, count ? ", " : "", number);
    else if (count == LISTED_MAX)
        lw_buf_add_text(text, " ...");
}

/* Ranks of the job that are in no file, and those that are in several. */
static bool note_ranks(const struct lw_ranks *ranks, struct lw_table *table,
                       struct lw_error *err)
{
    size_t count = ranks->trace->rank_count, missing = 0, again = 0;
    int64_t *numbers = sorted_numbers(ranks->trace, err);
    int64_t size = world_size(ranks->trace), next = 0;
    struct lw_buf absent, twice;

    if (!numbers)
        return false;
    lw_buf_init(&absent, 0);
    lw_buf_init(&twice, 0);
    for (size_t i = 0; i < count; i++) {
        for (; next < numbers[i] && next < size && missing <= LISTED_MAX; next++)
            add_listed(&absent, missing++, next);
        if (i > 0 && numbers[i] == numbers[i - 1])
            add_listed(&twice, again++, numbers[i]);
        next = numbers[i] < INT64_MAX ? numbers[i] + 1 : INT64_MAX;
    }
    for (; next < size && missing <= LISTED_MAX; next++)
        add_listed(&absent, missing++, next);
    if (missing > 0)
        lw_table_note(table,
                      "The job has %" PRId64 " ranks, but %s %s not here: what only %s "
                      "saw is missing, and who waited for %s.",
                      size, lw_analysis_text(table, &absent),
                      missing == 1 ? "is" : "are", missing == 1 ? "it" : "they",
                      missing == 1 ? "it" : "them");
    if (again > 0)
        lw_table_note(table,
                      "Several files say that they are rank %s: each is taken for a "
                      "rank of its own.",
                      lw_analysis_text(table, &twice));
    lw_buf_release(&absent);
    lw_buf_release(&twice);
    lw_free(numbers);
    return true;
}

/* How many collectives were seen in fewer ranks of those here than in others. */
static void note_unmatched(const struct lw_ranks *ranks, struct lw_table *table)
{
    const struct lw_collectives *all = &ranks->collectives;
    int64_t here = (int64_t)ranks->trace->rank_count;
    size_t count = 0;

    for (size_t i = 0; i < all->match_count; i++) {
        int64_t size = all->matches[i].size < here ? all->matches[i].size : here;

        count += all->matches[i].count < size;
    }
    if (count > 0)
        lw_table_note(table,
                      "%zu of %zu collectives %s not seen in all the ranks that take "
                      "part in %s: the ranks' recordings began or ended elsewhere, or "
                      "some are not here.",
                      count, all->match_count, count == 1 ? "was" : "were",
                      count == 1 ? "it" : "them");
    if (all->ungrouped_count > 0 && ranks->trace->rank_count > 1)
        lw_table_note(
            table,
            "%zu of %zu parts of collectives %s not say their group: %s taken to be of "
            "all ranks.",
            all->ungrouped_count, all->part_count,
            all->ungrouped_count == 1 ? "does" : "do",
            all->ungrouped_count == 1 ? "it is" : "they are");
}

/* "2 by -2.00 ms (half of the ends within 1.20 us)" */
static void add_moved(struct lw_buf *text, size_t count, int64_t number,
                      const struct lw_clock *clock)
{
    add_listed(text, count, number);
    if (count >= LISTED_MAX)
        return;
    lw_buf_add_text(text, " by ");
    lw_units_add_ns(text, clock->offset_ns);
    lw_buf_add_text(text, " (half of the ends within ");
    lw_units_add_ns(text, (int64_t)clock->spread_ns);
    lw_buf_add_char(text, ')');
}

static void note_clocks(const struct lw_ranks *ranks, struct lw_table *table)
{
    struct lw_buf moved;
    uint64_t apart = 0, spread = 0;
    size_t count = 0, unknown = 0;

    if (ranks->trace->rank_count < 2 || ranks->collectives.match_count == 0)
        return;
    lw_buf_init(&moved, 0);
    for (uint32_t i = 0; i < ranks->trace->rank_count; i++) {
        const struct lw_clock *clock = &ranks->clocks[i];
        uint64_t size = (uint64_t)clock->measured_ns;

        size = clock->measured_ns < 0 ? 0 - size : size;
        unknown += i > 0 && clock->count == 0;
        if (clock->offset_ns)
            add_moved(&moved, count++, lw_trace_rank_number(ranks->trace, i), clock);
        else if (size > apart)
            apart = size;
        if (clock->spread_ns > spread)
            spread = clock->spread_ns;
    }
    if (count > 0)
        lw_table_note(table,
                      "Clocks were moved, so that collectives end together: rank %s.",
                      lw_analysis_text(table, &moved));
    lw_buf_reset(&moved);
    lw_units_add_ns(&moved, (int64_t)apart);
    lw_buf_add_text(&moved, " (half of them within ");
    lw_units_add_ns(&moved, (int64_t)spread);
    if (count == 0 && unknown + 1 < ranks->trace->rank_count)
        lw_table_note(
            table,
            "Clocks are as recorded: collectives end together to within %s of "
            "that).",
            lw_analysis_text(table, &moved));
    if (unknown > 0)
        lw_table_note(table,
                      "%zu of %zu other ranks %s no collective with the first that "
                      "would show how far apart their clocks are.",
                      unknown, ranks->trace->rank_count - 1,
                      unknown == 1 ? "shares" : "share");
    lw_buf_release(&moved);
}

static bool note_all(const struct lw_ranks *ranks, struct lw_table *table,
                     struct lw_error *err)
{
    if (ranks->trace->rank_count == 1)
        lw_table_note(table,
                      "One rank alone does not show who waited for whom: name the "
                      "folder of all ranks, or their files.");
    if (!note_ranks(ranks, table, err))
        return false;
    if (ranks->query->compat == LW_COMPAT_NONE) {
        note_unmatched(ranks, table);
        note_clocks(ranks, table);
    }
    lw_analysis_note_losses(ranks->profile, table);
    return true;
}

/* Which answer */

struct answer {
    const char *by;
    enum lw_compat compat;
    bool (*fill)(const struct lw_ranks *ranks, struct lw_table *table,
                 struct lw_error *err);
};

static const struct answer answers[] = {
    { "rank", LW_COMPAT_NONE, lw_ranks_by_rank },
    { "collective", LW_COMPAT_NONE, lw_ranks_by_collective },
    { "kind", LW_COMPAT_NONE, lw_ranks_by_kind },
    { "straggler", LW_COMPAT_NONE, lw_ranks_by_straggler },
    { "rank", LW_COMPAT_TB, lw_ranks_tb_by_rank },
    { "kind", LW_COMPAT_TB, lw_ranks_tb_by_kind },
    { "rank", LW_COMPAT_HTA, lw_ranks_hta_by_rank },
    { "straggler", LW_COMPAT_HTA, lw_ranks_hta_by_straggler },
};

static const struct answer *find_answer(const struct lw_query *query,
                                        struct lw_error *err)
{
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (answers[i].compat == query->compat && lw_query_is_by(query, answers[i].by))
            return &answers[i];
    if (query->compat == LW_COMPAT_TB)
        lw_fail(err, LW_ERR_USAGE,
                "torch_tb_profiler has no such table: --compat tb goes with --by rank "
                "and --by kind");
    else
        lw_fail(
            err, LW_ERR_USAGE,
            "Holistic Trace Analysis has no such table: --compat hta goes with --by "
            "rank and --by straggler");
    return NULL;
}

static int by_number(const void *x, const void *y, void *trace)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    int64_t first = lw_trace_rank_number(trace, a);
    int64_t second = lw_trace_rank_number(trace, b);

    if (first != second)
        return first < second ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool order_ranks(struct lw_ranks *ranks, struct lw_error *err)
{
    size_t count = 0;

    ranks->order = lw_alloc(ranks->scope.rank_count * sizeof(*ranks->order) + 1, err);
    if (!ranks->order)
        return false;
    for (uint32_t i = 0; i < ranks->trace->rank_count; i++)
        if (ranks->scope.ranks[i])
            ranks->order[count++] = i;
    qsort_r(ranks->order, count, sizeof(*ranks->order), by_number,
            (void *)ranks->trace);
    return true;
}

/* Other tools' definitions have their own idea of what communicates. */
static bool prepare(struct lw_ranks *ranks, struct lw_error *err)
{
    if (!order_ranks(ranks, err))
        return false;
    if (ranks->query->compat != LW_COMPAT_NONE)
        return true;
    if (!lw_collectives_init(&ranks->collectives, ranks->profile, err))
        return false;
    ranks->clocks = lw_clocks_new(&ranks->collectives, err);
    return ranks->clocks != NULL;
}

static bool run_ranks(const struct lw_profile *profile, const struct lw_query *query,
                      struct lw_table *table, struct lw_error *err)
{
    struct lw_ranks ranks = { .profile = profile, .query = query };
    const struct answer *answer = find_answer(query, err);
    bool done;

    memset(table, 0, sizeof(*table));
    if (!answer)
        return false;
    done = lw_trace_scope_init(&ranks.scope, profile, query, "ranks", err);
    ranks.trace = ranks.scope.trace;
    done = done && prepare(&ranks, err) && answer->fill(&ranks, table, err) &&
           note_all(&ranks, table, err) && lw_analysis_arrange(table, query, err);
    lw_free(ranks.clocks);
    lw_free(ranks.order);
    lw_collectives_release(&ranks.collectives);
    lw_trace_scope_release(&ranks.scope);
    return done;
}

const struct lw_analysis lw_analysis_ranks = {
    .name = "ranks",
    .summary = "torch traces of a job: what each rank did, and who waited for whom",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "rank|collective|kind|straggler",
    .compat = "tb|hta",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run_ranks,
};
