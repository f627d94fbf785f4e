/* report ranks --compat tb: the Distributed page of torch_tb_profiler. Where the ranks'
 * collectives do not match it shows nothing; we show what is left. */

#include <math.h>
#include <string.h>

#include "analyses/ranks.h"
#include "analyses/ranks_tb.h"
#include "base/text.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "step", "step", LW_UNIT_TEXT, false },
    { "computation_ns", "computation", LW_UNIT_NS, false },
    { "overlapping_ns", "overlapping", LW_UNIT_NS, false },
    { "communication_ns", "communication", LW_UNIT_NS, false },
    { "other_ns", "other", LW_UNIT_NS, false },
    { "transfer_ns", "data transfer", LW_UNIT_NS, false },
    { "synchronizing_ns", "synchronizing", LW_UNIT_NS, false },
    { "file", "file", LW_UNIT_TEXT, true },
};

static const struct lw_column kind_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "name", "name", LW_UNIT_TEXT, false },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "bytes", "total size", LW_UNIT_BYTES, false },
    { "mean_bytes", "mean size", LW_UNIT_BYTES, false },
    { "latency_ns", "total latency", LW_UNIT_NS, false },
    { "mean_latency_ns", "mean latency", LW_UNIT_NS, false },
    { "transfer_ns", "data transfer", LW_UNIT_NS, false },
    { "mean_transfer_ns", "mean transfer", LW_UNIT_NS, false },
};
/* clang-format on */

struct page {
    const struct lw_ranks *ranks;
    struct lw_tb_ranks tb;
};

/* Adding up */

struct times {
    uint64_t all_ns, transfer_ns;
    uint64_t calls;
};

/* Which nodes: of a step (LW_NONE: of none), or of a name. */
struct wanted {
    uint32_t step;
    lw_string_id name; /* 0: any, of the step */
};

static bool is_wanted(const struct page *page, const struct lw_tb_node *node,
                      const struct wanted *wanted)
{
    return wanted->name ? page->ranks->trace->events[node->event].name == wanted->name
                        : node->step == wanted->step;
}

/* From and to which node they may be: those of a step are where it is. */
static void find_nodes(const struct lw_tb_rank *rank, const struct wanted *wanted,
                       size_t *from, size_t *to)
{
    *from = 0;
    *to = rank->node_count;
    if (wanted->name || wanted->step == LW_NONE)
        return;
    *from = lw_tb_rank_node_at(rank, rank->steps.list[wanted->step].start_ns);
    *to = lw_tb_rank_node_at(rank, rank->steps.list[wanted->step].end_ns + 1);
}

/* The ranges of the nodes that are WANTED, and of their transfers; each moment once. */
static bool add_up(const struct page *page, const struct lw_tb_rank *rank,
                   const struct wanted *wanted, struct times *times,
                   struct lw_error *err)
{
    struct lw_intervals all = { 0 }, transfer = { 0 };
    size_t from, to;
    bool done = true;

    memset(times, 0, sizeof(*times));
    find_nodes(rank, wanted, &from, &to);
    for (size_t n = from; done && n < to; n++) {
        const struct lw_tb_node *node = &rank->nodes[n];

        if (!is_wanted(page, node, wanted))
            continue;
        times->calls++;
        for (size_t i = node->first; done && i < node->first + node->count; i++) {
            const struct lw_tb_range *range = &rank->ranges[i];

            done =
                lw_intervals_add(&all, range->span.start_ns, range->span.end_ns, err) &&
                lw_intervals_add(&transfer, range->span.end_ns - range->transfer_ns,
                                 range->span.end_ns, err);
        }
    }
    lw_intervals_merge(&all);
    lw_intervals_merge(&transfer);
    times->all_ns = lw_intervals_total(&all);
    times->transfer_ns = lw_intervals_total(&transfer);
    lw_intervals_release(&all);
    lw_intervals_release(&transfer);
    return done;
}

/* What a row shows; `has_wait` is false where there are no collectives to match. */
struct row {
    uint64_t computation_ns, overlap_ns, communication_ns, other_ns;
    uint64_t transfer_ns, wait_ns;
    bool has_wait;
};

static bool measure_step(const struct page *page, const struct lw_tb_rank *rank,
                         uint32_t index, struct row *row, struct lw_error *err)
{
    const struct lw_intervals *computing =
        rank->kernels.count ? &rank->kernels : &rank->host;
    struct wanted wanted = { .step = index };
    struct times times;

    memset(row, 0, sizeof(*row));
    if (index != LW_NONE) {
        const struct lw_trace_step *step = &rank->steps.list[index];
        uint64_t from = step->start_ns, to = step->end_ns;
        uint64_t computation = lw_intervals_within(computing, from, to);
        uint64_t communication = lw_intervals_within(&rank->communication, from, to);

        row->overlap_ns = lw_intervals_within(&rank->overlap, from, to);
        row->computation_ns = computation - row->overlap_ns;
        row->communication_ns = communication - row->overlap_ns;
        row->other_ns = to - from + row->overlap_ns - computation - communication;
    }
    if (!add_up(page, rank, &wanted, &times, err))
        return false;
    row->has_wait = page->tb.is_matched && times.calls > 0;
    if (!row->has_wait)
        return true;
    row->transfer_ns = times.transfer_ns;
    row->wait_ns = times.all_ns - times.transfer_ns;
    return true;
}

/* Its means are cut to whole microseconds. */
static uint64_t mean_us(uint64_t sum_ns, size_t count)
{
    return count ? (uint64_t)((double)sum_ns / 1000 / (double)count) * 1000 : 0;
}

static void add_row(struct lw_table *table, const struct row *row, const char *file)
{
    lw_table_add_integer(table, (int64_t)row->computation_ns);
    lw_table_add_integer(table, (int64_t)row->overlap_ns);
    lw_table_add_integer(table, (int64_t)row->communication_ns);
    lw_table_add_integer(table, (int64_t)row->other_ns);
    lw_ranks_add_known(table, row->has_wait, row->transfer_ns);
    lw_ranks_add_known(table, row->has_wait, row->wait_ns);
    lw_ranks_add_text(table, file);
}

static bool sum_steps(const struct page *page, const struct lw_tb_rank *rank,
                      struct row *sum, struct lw_error *err)
{
    size_t count = rank->steps.count, waits = 0;
    struct row row;

    memset(sum, 0, sizeof(*sum));
    for (size_t i = 0; i <= count; i++) { /* what is in no step is one more of them */
        if (!measure_step(page, rank, i < count ? (uint32_t)i : LW_NONE, &row, err))
            return false;
        sum->computation_ns += row.computation_ns;
        sum->overlap_ns += row.overlap_ns;
        sum->communication_ns += row.communication_ns;
        sum->other_ns += row.other_ns;
        sum->transfer_ns += row.transfer_ns;
        sum->wait_ns += row.wait_ns;
        waits += row.has_wait;
    }
    sum->computation_ns = mean_us(sum->computation_ns, count);
    sum->overlap_ns = mean_us(sum->overlap_ns, count);
    sum->communication_ns = mean_us(sum->communication_ns, count);
    sum->other_ns = mean_us(sum->other_ns, count);
    sum->transfer_ns = mean_us(sum->transfer_ns, waits);
    sum->wait_ns = mean_us(sum->wait_ns, waits);
    sum->has_wait = page->tb.is_matched;
    return true;
}

static bool add_rank(const struct page *page, uint32_t index, struct lw_table *table,
                     struct lw_error *err)
{
    const struct lw_ranks *ranks = page->ranks;
    const struct lw_tb_rank *rank = &page->tb.list[index];
    struct row row;

    if (!sum_steps(page, rank, &row, err))
        return false;
    lw_table_row(table, 0);
    lw_ranks_add_rank(ranks, index, table);
    lw_table_add_text(table, "all", 3);
    add_row(table, &row,
            lw_text_basename(
                lw_profile_text(ranks->profile, ranks->trace->ranks[index].file)));
    for (uint32_t i = 0; i < rank->steps.count; i++) {
        const char *name = lw_profile_text(ranks->profile, rank->steps.list[i].name);

        if (!measure_step(page, rank, i, &row, err))
            return false;
        lw_table_row(table, 1);
        lw_ranks_add_rank(ranks, index, table);
        lw_table_add_text(table, name, strlen(name));
        add_row(table, &row, "");
    }
    return true;
}

static void end_table(const struct page *page, const char *what, struct lw_table *table)
{
    lw_ranks_set_title(page->ranks, table, "%s, as torch_tb_profiler has it", what);
    if (!page->tb.is_matched)
        lw_table_note(table,
                      "torch_tb_profiler shows nothing here: the ranks do not all have "
                      "the same number of collectives that it knows, or have none.");
}

bool lw_ranks_tb_by_rank(const struct lw_ranks *ranks, struct lw_table *table,
                         struct lw_error *err)
{
    struct page page = { .ranks = ranks };
    bool done;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    done = lw_tb_ranks_init(&page.tb, ranks->profile, err);
    for (size_t i = 0; done && i < ranks->scope.rank_count; i++)
        done = add_rank(&page, ranks->order[i], table, err);
    if (done)
        end_table(&page, "computation, communication and waiting", table);
    lw_tb_ranks_release(&page.tb);
    return done;
}

/* Ops */

/* The types that it knows; others count as nothing. */
static int64_t element_bytes(const char *type, size_t len)
{
    static const char *const known[] = {
        "long int", "float", "int", "c10::Half", "c10::BFloat16", "unsigned char",
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i]) == len && memcmp(known[i], type, len) == 0)
            return lw_collective_element_bytes(type, len);
    return 0;
}

static int64_t bytes_of(const struct page *page, const struct lw_tb_node *node)
{
    const struct lw_trace *trace = page->ranks->trace;
    const struct lw_event *event = &trace->events[node->event];
    const struct lw_profile *profile = page->ranks->profile;
    const struct lw_op_detail *op;
    int64_t bytes;

    if ((event->kind != LW_EVENT_OP && event->kind != LW_EVENT_RANGE) ||
        event->detail == LW_NONE)
        return 0;
    op = &trace->ops[event->detail];
    bytes =
        lw_collective_tensor_bytes(lw_profile_text(profile, op->shapes),
                                   lw_profile_text(profile, op->types), element_bytes);
    return bytes < 0 ? 0 : bytes;
}

/* Python's round(), in microseconds. */
static int64_t rounded_us(uint64_t ns, uint64_t count)
{
    return (int64_t)((uint64_t)nearbyint((double)ns / 1000 / (double)count) * 1000);
}

static bool add_op(const struct page *page, uint32_t index, lw_string_id name,
                   struct lw_table *table, struct lw_error *err)
{
    const struct lw_tb_rank *rank = &page->tb.list[index];
    const char *text = lw_profile_text(page->ranks->profile, name);
    struct wanted wanted = { .name = name };
    uint64_t bytes = 0;
    struct times times;

    if (!add_up(page, rank, &wanted, &times, err))
        return false;
    for (size_t n = 0; n < rank->node_count; n++)
        if (is_wanted(page, &rank->nodes[n], &wanted))
            bytes += (uint64_t)bytes_of(page, &rank->nodes[n]);
    lw_table_row(table, 0);
    lw_ranks_add_rank(page->ranks, index, table);
    lw_table_add_text(table, text, strlen(text));
    lw_table_add_integer(table, (int64_t)times.calls);
    lw_table_add_integer(table, (int64_t)bytes);
    lw_table_add_integer(table,
                         (int64_t)nearbyint((double)bytes / (double)times.calls));
    lw_table_add_integer(table, (int64_t)times.all_ns);
    lw_table_add_integer(table, rounded_us(times.all_ns, times.calls));
    lw_table_add_integer(table, (int64_t)times.transfer_ns);
    lw_table_add_integer(table, rounded_us(times.transfer_ns, times.calls));
    return true;
}

/* It knows ten names, so that each is looked for among those before it. */
static bool add_ops(const struct page *page, uint32_t index, struct lw_table *table,
                    struct lw_error *err)
{
    const struct lw_tb_rank *rank = &page->tb.list[index];
    lw_string_id names[10];
    size_t count = 0;

    for (size_t n = 0; n < rank->node_count; n++) {
        lw_string_id name = page->ranks->trace->events[rank->nodes[n].event].name;
        size_t i = 0;

        while (i < count && names[i] != name)
            i++;
        if (i < count || count == sizeof(names) / sizeof(names[0]))
            continue;
        names[count++] = name;
        if (!add_op(page, index, name, table, err))
            return false;
    }
    return true;
}

bool lw_ranks_tb_by_kind(const struct lw_ranks *ranks, struct lw_table *table,
                         struct lw_error *err)
{
    struct page page = { .ranks = ranks };
    bool done;

    lw_table_init(table, kind_columns, sizeof(kind_columns) / sizeof(kind_columns[0]));
    done = lw_tb_ranks_init(&page.tb, ranks->profile, err);
    if (done && !page.tb.is_matched)
        done = lw_fail(err, LW_ERR_UNSUPPORTED,
                       "torch_tb_profiler has no table of this: the ranks do not all "
                       "have the same number of collectives that it knows, or have "
                       "none; without --compat they are matched");
    for (size_t i = 0; done && i < ranks->scope.rank_count; i++)
        done = add_ops(&page, ranks->order[i], table, err);
    if (done)
        end_table(&page, "communication operations", table);
    lw_tb_ranks_release(&page.tb);
    return done;
}
