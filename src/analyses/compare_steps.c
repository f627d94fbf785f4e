/* report compare --by step, --by rank: the n-th step of one trace beside the n-th of the
 * other, rank by rank and then together; and what changed most in each rank. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/compare.h"
#include "analyses/intervals.h"
#include "base/alloc.h"
#include "base/text.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "before_ns", "before", LW_UNIT_NS, false },
    { "after_ns", "after", LW_UNIT_NS, false },
    { "change_ns", "change", LW_UNIT_NS, false },
    { "device_before_ns", "on devices", LW_UNIT_NS, false },
    { "device_after_ns", "after", LW_UNIT_NS, false },
    { "device_change_ns", "change", LW_UNIT_NS, false },
    { "name", "name", LW_UNIT_TEXT, true },
};
/* clang-format on */

/* How many ops are listed below a rank. */
#define LISTED_OPS 3

/* A pair of ranks, as indexes; LW_NONE: it is in the other trace only. */
struct pair {
    int64_t number;
    uint32_t ranks[LW_SIDES];
};

struct showing {
    struct lw_compare *compare;
    struct lw_table *table;
    struct pair *pairs; /* owned; by number */
    size_t pair_count;
    struct lw_intervals *busy[LW_SIDES]; /* owned: of each rank, when a device worked */
};

/* Time and work of a step, or the mean of some; not numbers: there is none. */
struct times {
    double step_ns, busy_ns;
};

static void showing_release(struct showing *s)
{
    for (int i = 0; i < LW_SIDES; i++) {
        size_t count = s->compare->sides[i].scope.trace->rank_count;

        for (size_t r = 0; s->busy[i] && r < count; r++)
            lw_intervals_release(&s->busy[i][r]);
        lw_free(s->busy[i]);
    }
    lw_free(s->pairs);
}

static bool find_busy(struct showing *s, int side, struct lw_error *err)
{
    const struct lw_trace *trace = s->compare->sides[side].scope.trace;
    struct lw_intervals *sets = lw_zalloc(trace->rank_count + 1, sizeof(*sets), err);

    s->busy[side] = sets;
    if (!sets)
        return false;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        if (lw_event_is_work(event) &&
            !lw_intervals_add(&sets[trace->tracks[event->track].rank], event->start_ns,
                              lw_event_end_ns(event), err))
            return false;
    }
    for (size_t i = 0; i < trace->rank_count; i++)
        lw_intervals_merge(&sets[i]);
    return true;
}

static int by_number(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;

    return a->number < b->number ? -1 : a->number > b->number;
}

/* Pairs of equal numbers; one rank of each side is a pair whatever its number. */
static bool find_pairs(struct showing *s, struct lw_error *err)
{
    const struct lw_compare_side *sides = s->compare->sides;
    size_t most = sides[LW_BEFORE].scope.trace->rank_count +
                  sides[LW_AFTER].scope.trace->rank_count;
    bool is_one =
        sides[LW_BEFORE].scope.rank_count == 1 && sides[LW_AFTER].scope.rank_count == 1;
    size_t kept = 0;

    s->pairs = lw_alloc(most * sizeof(*s->pairs) + 1, err);
    if (!s->pairs)
        return false;
    for (int side = 0; side < LW_SIDES; side++) {
        const struct lw_trace *trace = sides[side].scope.trace;

        for (uint32_t i = 0; i < trace->rank_count; i++) {
            struct pair pair = { .ranks = { LW_NONE, LW_NONE } };

            if (!sides[side].scope.ranks[i])
                continue;
            pair.number = is_one ? -1 : lw_trace_rank_number(trace, i);
            pair.ranks[side] = i;
            s->pairs[s->pair_count++] = pair;
        }
    }
    qsort(s->pairs, s->pair_count, sizeof(*s->pairs), by_number);
    for (size_t i = 1; i < s->pair_count; i++) {
        struct pair *last = &s->pairs[kept];
        const struct pair *next = &s->pairs[i];

        if (last->number == next->number)
            for (int side = 0; side < LW_SIDES; side++)
                if (next->ranks[side] != LW_NONE)
                    last->ranks[side] = next->ranks[side];
        if (last->number != next->number)
            s->pairs[++kept] = *next;
    }
    s->pair_count = s->pair_count ? kept + 1 : 0;
    return true;
}

static bool showing_init(struct showing *s, struct lw_error *err)
{
    return find_busy(s, LW_BEFORE, err) && find_busy(s, LW_AFTER, err) &&
           find_pairs(s, err);
}

static void add_times(struct lw_table *table, double before, double after)
{
    double cells[] = { before, after, after - before };

    for (size_t i = 0; i < 3; i++) {
        if (isnan(cells[i]))
            lw_table_add_none(table);
        else
            lw_table_add_integer(table, llround(cells[i]));
    }
}

static void add_row(struct showing *s, uint32_t depth, const struct times *times,
                    const char *name)
{
    lw_table_row(s->table, depth);
    add_times(s->table, times[LW_BEFORE].step_ns, times[LW_AFTER].step_ns);
    add_times(s->table, times[LW_BEFORE].busy_ns, times[LW_AFTER].busy_ns);
    lw_table_add_text(s->table, name, strlen(name));
}

/* NULL: RANK has no step N. */
static const struct lw_trace_step *step_of(const struct showing *s, int side,
                                           uint32_t rank, size_t n)
{
    const struct lw_trace_steps *steps;

    if (rank == LW_NONE)
        return NULL;
    steps = &s->compare->sides[side].steps[rank];
    return n < steps->count ? &steps->list[n] : NULL;
}

static struct times times_of(const struct showing *s, int side, uint32_t rank,
                             const struct lw_trace_step *step)
{
    struct times times = { NAN, NAN };

    if (step) {
        const struct lw_intervals *busy = &s->busy[side][rank];

        times.step_ns = (double)(step->end_ns - step->start_ns);
        if (busy->count > 0)
            times.busy_ns =
                (double)lw_intervals_within(busy, step->start_ns, step->end_ns);
    }
    return times;
}

/* Add the steps of RANK to SUM, and their number to *COUNT. */
static void sum_rank(const struct showing *s, int side, uint32_t rank,
                     struct times *sum, size_t *count)
{
    const struct lw_trace_step *step;

    for (size_t n = 0; (step = step_of(s, side, rank, n)) != NULL; n++) {
        struct times times = times_of(s, side, rank, step);

        sum->step_ns += times.step_ns;
        sum->busy_ns += times.busy_ns;
        (*count)++;
    }
}

/* The mean of all steps of a pair; NULL: of all pairs. */
static void mean_of(const struct showing *s, const struct pair *pair,
                    struct times means[LW_SIDES])
{
    for (int side = 0; side < LW_SIDES; side++) {
        struct times sum = { 0, 0 };
        size_t count = 0;

        for (size_t i = 0; !pair && i < s->pair_count; i++)
            sum_rank(s, side, s->pairs[i].ranks[side], &sum, &count);
        if (pair)
            sum_rank(s, side, pair->ranks[side], &sum, &count);
        means[side].step_ns = count ? sum.step_ns / (double)count : NAN;
        means[side].busy_ns = count ? sum.busy_ns / (double)count : NAN;
    }
}

/* "ProfilerStep#3", and the other's name where it has another. */
static void add_step(struct showing *s, const struct pair *pair, size_t n,
                     uint32_t depth)
{
    const char *names[LW_SIDES] = { "", "" };
    struct times times[LW_SIDES];
    struct lw_buf text;

    for (int side = 0; side < LW_SIDES; side++) {
        const struct lw_trace_step *step = step_of(s, side, pair->ranks[side], n);

        times[side] = times_of(s, side, pair->ranks[side], step);
        if (step)
            names[side] =
                lw_profile_text(s->compare->sides[side].scope.profile, step->name);
    }
    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, names[LW_BEFORE]);
    if (*names[LW_AFTER] && strcmp(names[LW_BEFORE], names[LW_AFTER]) != 0)
        lw_buf_addf(&text, "%s%s", *names[LW_BEFORE] ? " and " : "", names[LW_AFTER]);
    if (text.len == 0)
        lw_buf_add_text(&text, "all of the trace");
    add_row(s, depth, times, lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

static void add_steps(struct showing *s, const struct pair *pair, uint32_t depth)
{
    for (size_t n = 0; step_of(s, LW_BEFORE, pair->ranks[LW_BEFORE], n) ||
                       step_of(s, LW_AFTER, pair->ranks[LW_AFTER], n);
         n++)
        add_step(s, pair, n, depth);
}

static void add_mean(struct showing *s, const struct pair *pair)
{
    struct times means[LW_SIDES];
    char name[32]; /* "rank -9223372036854775808" */

    snprintf(name, sizeof(name), "rank %" PRId64, pair ? pair->number : 0);
    mean_of(s, pair, means);
    add_row(s, 0, means,
            pair                ? name
            : s->pair_count > 1 ? "mean of all ranks' steps"
                                : "mean");
}

static void note_alone(const struct showing *s)
{
    size_t alone = 0;

    for (size_t i = 0; i < s->pair_count; i++)
        alone += s->pairs[i].ranks[LW_BEFORE] == LW_NONE ||
                 s->pairs[i].ranks[LW_AFTER] == LW_NONE;
    if (alone > 0)
        lw_table_note(s->table, "%zu of %zu ranks %s in one of the two only.", alone,
                      s->pair_count, alone == 1 ? "is" : "are");
}

bool lw_compare_show_steps(struct lw_compare *compare, struct lw_table *table,
                           struct lw_error *err)
{
    struct showing s = { .compare = compare, .table = table };
    bool done;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    done = showing_init(&s, err);
    for (size_t i = 0; done && i < s.pair_count; i++) {
        if (s.pair_count > 1)
            add_mean(&s, &s.pairs[i]);
        add_steps(&s, &s.pairs[i], s.pair_count > 1 ? 1 : 0);
    }
    if (done) {
        add_mean(&s, NULL);
        note_alone(&s);
    }
    showing_release(&s);
    return done;
}

/* Ranks */

/* The ops that changed most, of the ranks that are chosen now. */
static bool add_ops(struct showing *s, struct lw_error *err)
{
    const struct lw_compare *compare = s->compare;
    const struct lw_compare_side *sides = compare->sides;
    uint32_t largest[LISTED_OPS];
    size_t count = 0;

    if (!lw_compare_ops(s->compare, err))
        return false;
    for (uint32_t i = 0; i < compare->row_count; i++) {
        double size = lw_compare_size(compare, &compare->rows[i]);
        size_t at = count < LISTED_OPS ? count++ : LISTED_OPS;

        for (;
             at > 0 && size > lw_compare_size(compare, &compare->rows[largest[at - 1]]);
             at--)
            if (at < LISTED_OPS)
                largest[at] = largest[at - 1];
        if (at < LISTED_OPS)
            largest[at] = i;
    }
    for (size_t i = 0; i < count; i++) {
        const struct lw_compare_row *row = &compare->rows[largest[i]];
        struct times times[LW_SIDES];

        for (int side = 0; side < LW_SIDES; side++) {
            const struct lw_compare_figures *figures = &row->sides[side];

            times[side].step_ns =
                lw_compare_a_step(&sides[side], (double)figures->host_ns);
            times[side].busy_ns =
                lw_compare_a_step(&sides[side], (double)figures->device_ns);
        }
        add_row(s, 1, times, lw_compare_name(compare, row));
    }
    return true;
}

bool lw_compare_show_ranks(struct lw_compare *compare, struct lw_table *table,
                           struct lw_error *err)
{
    struct showing s = { .compare = compare, .table = table };
    bool done;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    done = showing_init(&s, err);
    for (size_t i = 0; done && s.pair_count > 1 && i < s.pair_count; i++) {
        const struct pair *pair = &s.pairs[i];

        add_mean(&s, pair);
        if (pair->ranks[LW_BEFORE] == LW_NONE || pair->ranks[LW_AFTER] == LW_NONE)
            continue;
        lw_compare_choose(compare, pair->number);
        done = add_ops(&s, err);
    }
    if (done) {
        lw_compare_choose(compare, -1);
        add_mean(&s, NULL);
        done = add_ops(&s, err);
        note_alone(&s);
        lw_table_note(
            table, "Below each: the ops that changed most, with their own time on the "
                   "host and on devices.");
    }
    showing_release(&s);
    return done;
}
