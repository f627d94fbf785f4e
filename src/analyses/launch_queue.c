/* A queue's length changes at launches and starts. Ours is over time: a length that lasts
 * longer counts more. Holistic Trace Analysis's is over changes. */

#include "analyses/launch_queue.h"

#include <math.h>
#include <stdlib.h>

#include "analyses/launches.h"
#include "analyses/spread.h"
#include "base/alloc.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "device", "device", LW_UNIT_COUNT, false },
    { "stream", "stream", LW_UNIT_COUNT, false },
    { "launches", "launches", LW_UNIT_COUNT, false },
    { "mean", "mean queue", LW_UNIT_NUMBER, false },
    { "median", "median", LW_UNIT_COUNT, false },
    { "max", "max", LW_UNIT_COUNT, false },
    { "empty_share", "empty", LW_UNIT_SHARE, false },
    { "full_ns", "full", LW_UNIT_NS, false },
    { "span_ns", "in", LW_UNIT_NS, false },
};
static const struct lw_column hta_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "stream", "stream", LW_UNIT_COUNT, false },
    { "changes", "changes", LW_UNIT_COUNT, false },
    { "mean", "mean queue", LW_UNIT_NUMBER, false },
    { "sd", "sd", LW_UNIT_NUMBER, false },
    { "min", "min", LW_UNIT_NUMBER, false },
    { "quarter", "25 %", LW_UNIT_NUMBER, false },
    { "median", "50 %", LW_UNIT_NUMBER, false },
    { "three_quarters", "75 %", LW_UNIT_NUMBER, false },
    { "max", "max", LW_UNIT_NUMBER, false },
    { "ties", "ties", LW_UNIT_COUNT, false },
};
/* clang-format on */

/* CUDA's queues hold so many launches; then a launch waits. As Holistic Trace Analysis
 * has it. */
#define FULL 1024

void lw_launch_queue_columns(struct lw_table *table, const struct lw_query *query)
{
    if (query->compat == LW_COMPAT_HTA)
        lw_table_init(table, hta_columns, sizeof(hta_columns) / sizeof(hta_columns[0]));
    else
        lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
}

/* A length, and how long it was so. */
struct stretch {
    int64_t length;
    uint64_t time_ns;
};

static int compare_stretches(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    return x->length < y->length ? -1 : x->length > y->length;
}

static bool is_same_stream(const struct lw_queue_change *a,
                           const struct lw_queue_change *b)
{
    return a->rank == b->rank && a->device == b->device && a->stream == b->stream;
}

static void add_known(struct lw_table *table, int64_t value)
{
    if (value >= 0)
        lw_table_add_integer(table, value);
    else
        lw_table_add_none(table);
}

/* The COUNT changes at CHANGES are all of a stream. STRETCHES has room for them. */
static void add_queue(struct lw_table *table, const struct lw_trace *trace,
                      const struct lw_queue_change *changes, size_t count,
                      struct stretch *stretches)
{
    uint64_t span_ns = changes[count - 1].time_ns - changes[0].time_ns;
    uint64_t seen_ns = 0, empty_ns = 0, full_ns = 0;
    int64_t length = 0, median = 0;
    double sum = 0;

    for (size_t i = 0; i + 1 < count; i++) {
        length += changes[i].change;
        stretches[i].length = length;
        stretches[i].time_ns = changes[i + 1].time_ns - changes[i].time_ns;
        sum += (double)length * (double)stretches[i].time_ns;
        empty_ns += length <= 0 ? stretches[i].time_ns : 0;
        full_ns += length >= FULL ? stretches[i].time_ns : 0;
    }
    qsort(stretches, count - 1, sizeof(*stretches), compare_stretches);
    for (size_t i = 0; i + 1 < count && seen_ns <= span_ns / 2; i++) {
        seen_ns += stretches[i].time_ns;
        median = stretches[i].length;
    }
    lw_table_row(table, 0);
    lw_table_add_integer(table, lw_trace_rank_number(trace, changes->rank));
    add_known(table, changes->device);
    add_known(table, changes->stream);
    lw_table_add_integer(table, (int64_t)(count / 2));
    if (span_ns > 0)
        lw_table_add_number(table, sum / (double)span_ns);
    else
        lw_table_add_none(table);
    lw_table_add_integer(table, median);
    lw_table_add_integer(table, stretches[count - 2].length);
    lw_analysis_add_share(table, (double)empty_ns, (double)span_ns);
    lw_table_add_integer(table, (int64_t)full_ns);
    lw_table_add_integer(table, (int64_t)span_ns);
}

static void add_number(struct lw_table *table, double number)
{
    if (isnan(number))
        lw_table_add_none(table);
    else
        lw_table_add_number(table, number);
}

/* Pairs of a launch and a start in the same microsecond. */
static int64_t count_ties(const struct lw_queue_change *changes, size_t count)
{
    int64_t ties = 0, launches = 0;

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && changes[i].time_ns != changes[i - 1].time_ns)
            launches = 0;
        if (changes[i].change > 0)
            launches++;
        else
            ties += launches;
    }
    return ties;
}

/* It sorts by time alone and leaves to chance what of the same microsecond comes first;
 * here, launches do. */
static void add_queue_as_hta(struct lw_table *table, const struct lw_trace *trace,
                             const struct lw_queue_change *changes, size_t count,
                             double *lengths)
{
    struct lw_spread spread;
    int64_t length = 0;

    for (size_t i = 0; i < count; i++) {
        length += changes[i].change;
        lengths[i] = (double)length;
    }
    spread = lw_spread_of(lengths, count);
    lw_table_row(table, 0);
    lw_table_add_integer(table, lw_trace_rank_number(trace, changes->rank));
    lw_table_add_integer(table, changes->stream);
    lw_table_add_integer(table, (int64_t)count);
    add_number(table, spread.mean);
    add_number(table, spread.sd);
    add_number(table, spread.min);
    add_number(table, spread.quarter);
    add_number(table, spread.median);
    add_number(table, spread.three_quarters);
    add_number(table, spread.max);
    lw_table_add_integer(table, count_ties(changes, count));
}

bool lw_launch_queue(const struct lw_trace_scope *scope, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err)
{
    bool as_hta = query->compat == LW_COMPAT_HTA;
    struct lw_queue_changes changes;
    void *room = NULL;
    bool done = as_hta ? lw_queue_changes_init_hta(&changes, scope, err)
                       : lw_queue_changes_init(&changes, scope, err);

    if (done) {
        room = lw_alloc(changes.count * sizeof(struct stretch) + 1, err);
        done = room != NULL;
    }
    for (size_t i = 0, next; done && i < changes.count; i = next) {
        const struct lw_queue_change *first = &changes.list[i];

        for (next = i;
             next < changes.count && is_same_stream(first, &changes.list[next]);)
            next++;
        if (as_hta)
            add_queue_as_hta(table, scope->trace, first, next - i, room);
        else
            add_queue(table, scope->trace, first, next - i, room);
    }
    if (done && !as_hta && table->row_count > 0)
        lw_table_note(table, "Queue: launched, but not started; empty: the stream had "
                             "nothing to start; full: 1,024 or more, when a launch has "
                             "to wait.");
    if (done && as_hta && table->row_count > 0)
        lw_table_note(table,
                      "ties: pairs of a launch and a start in the same "
                      "microsecond, whose order HTA leaves to its sort; each may "
                      "make the sum of the lengths smaller by 2.");
    lw_free(room);
    lw_queue_changes_release(&changes);
    return done;
}
