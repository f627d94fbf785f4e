/* The GPUs of an overview: as rows, as sentences, and over time. */

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyses/op_tree.h"
#include "analyses/overview.h"
#include "analyses/tb_events.h"
#include "analyses/tensor_cores.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

#define NOTED_GPUS 8      /* more do not fit a screen; --by device has all */
#define MOST_BUCKETS 100u /* of a timeline; torch_tb_profiler's */

/* ---- tensor cores, as the plugin has them ------------------------------------------- */

/* The share of tensor cores in the time of kernels that ops launched on one GPU; not a
 * number if none did. KNOWN has for each string 1 no, 2 yes, 0 not asked yet. */
static double tensor_share(const struct lw_overview *o, const struct lw_op_tree *tree,
                           const struct lw_gpu_usage *usage, uint8_t *known)
{
    const struct lw_trace *trace = o->scope.trace;
    double all_ns = 0, tensor_ns = 0;

    for (size_t i = usage->first; i < usage->first + usage->count; i++) {
        const struct lw_gpu_kernel *kernel = &o->gpus.kernels[i];
        lw_string_id name = trace->events[kernel->event].name;
        uint32_t owner = tree->nodes[kernel->event].owner;
        double ns = (double)(kernel->end_ns - kernel->start_ns);

        if (owner == LW_NONE || !lw_op_tree_is_tb_op(tree, &trace->events[owner]))
            continue;
        if (!known[name])
            known[name] =
                1 + lw_tensor_core_kernel(lw_profile_text(o->scope.profile, name),
                                          LW_COMPAT_TB);
        all_ns += ns;
        tensor_ns += known[name] == 2 ? ns : 0;
    }
    return all_ns > 0 ? tensor_ns / all_ns : NAN;
}

/* It has a number for every GPU if it has one for any. */
bool lw_overview_tensor_as_tb(struct lw_overview *o, struct lw_error *err)
{
    uint8_t *known = lw_zalloc(lw_strings_count(o->scope.profile->strings), 1, err);
    struct lw_op_tree tree = { 0 };
    bool done = known && lw_op_tree_init(&tree, &o->scope, LW_OP_TREE_TB, err);
    bool is_any = false;

    for (size_t i = 0; done && i < o->gpus.count; i++) {
        struct lw_gpu_usage *usage = &o->gpus.list[i];

        usage->tensor_share = tensor_share(o, &tree, usage, known);
        is_any |= !isnan(usage->tensor_share);
    }
    for (size_t i = 0; done && is_any && i < o->gpus.count; i++)
        if (isnan(o->gpus.list[i].tensor_share))
            o->gpus.list[i].tensor_share = 0;
    lw_op_tree_release(&tree);
    lw_free(known);
    return done;
}

/* ---- as rows ------------------------------------------------------------------------ */

static void start_row(const struct lw_overview *o, struct lw_table *table,
                      const struct lw_gpu_usage *usage)
{
    lw_table_row(table, 0);
    if (o->scope.rank_count > 1)
        lw_table_add_integer(table, lw_trace_rank_number(o->scope.trace, usage->rank));
    if (usage->device >= 0)
        lw_table_add_integer(table, usage->device);
    else
        lw_table_add_none(table);
}

static void add_gpu(struct lw_table *table, const struct lw_profile *profile,
                    const struct lw_trace_gpu *gpu)
{
    struct lw_buf text;

    if (gpu && gpu->memory_bytes >= 0)
        lw_table_add_integer(table, gpu->memory_bytes);
    else
        lw_table_add_none(table);
    lw_buf_init(&text, 0);
    if (gpu && gpu->compute_major >= 0 && gpu->compute_minor >= 0) {
        lw_buf_addf(&text, "%" PRId64 ".%" PRId64, gpu->compute_major,
                    gpu->compute_minor);
        lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    } else {
        lw_table_add_none(table);
    }
    lw_buf_release(&text);
    if (gpu && gpu->name)
        lw_table_add_text(table, lw_profile_text(profile, gpu->name),
                          lw_strings_len(profile->strings, gpu->name));
    else
        lw_table_add_none(table);
}

void lw_overview_add_devices(const struct lw_overview *o, struct lw_table *table)
{
    for (size_t i = 0; i < o->gpus.count; i++) {
        const struct lw_gpu_usage *usage = &o->gpus.list[i];

        start_row(o, table, usage);
        lw_analysis_add_share(table, usage->busy_share, 1);
        lw_analysis_add_share(table, usage->sm_share, 1);
        lw_analysis_add_share(table, usage->occupancy_share, 1);
        lw_analysis_add_share(table, usage->tensor_share, 1);
        lw_table_add_integer(table, (int64_t)usage->count);
        add_gpu(table, o->scope.profile, usage->gpu);
    }
}

/* ---- as sentences ------------------------------------------------------------------- */

static void add_told(struct lw_buf *text, const char *what, double share)
{
    if (!isfinite(share))
        return;
    lw_buf_add_text(text, what);
    lw_units_add_share(text, share);
}

void lw_overview_note_gpus(const struct lw_overview *o, struct lw_table *table)
{
    const struct lw_profile *profile = o->scope.profile;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    for (size_t i = 0; i < o->gpus.count && i < NOTED_GPUS; i++) {
        const struct lw_gpu_usage *usage = &o->gpus.list[i];

        lw_buf_reset(&text);
        if (o->scope.rank_count > 1)
            lw_buf_addf(&text, "Rank %" PRId64 ", ",
                        lw_trace_rank_number(o->scope.trace, usage->rank));
        lw_buf_add_text(&text, "GPU");
        if (usage->device >= 0)
            lw_buf_addf(&text, " %" PRId32, usage->device);
        if (usage->gpu && usage->gpu->name) {
            lw_buf_add_text(&text, " (");
            lw_text_add_printable(&text, lw_profile_text(profile, usage->gpu->name),
                                  lw_strings_len(profile->strings, usage->gpu->name));
            lw_buf_add_char(&text, ')');
        }
        add_told(&text, ": busy ", usage->busy_share);
        add_told(&text, ", SM efficiency ", usage->sm_share);
        add_told(&text, ", occupancy ", usage->occupancy_share);
        add_told(&text, ", tensor cores ", usage->tensor_share);
        lw_table_note(table, "%s", lw_analysis_text(table, &text));
    }
    if (o->gpus.count > NOTED_GPUS)
        lw_table_note(table, "%zu GPUs more: --by device", o->gpus.count - NOTED_GPUS);
    lw_buf_release(&text);
}

/* ---- over time ---------------------------------------------------------------------- */

/* What a timeline is as long as, and who says so. */
struct range {
    struct lw_interval span;
    bool is_said; /* by the profiler itself: "PyTorch Profiler (0)" */
};

/* The plugin leaves out what it does not know; we what is no event but a mark. */
static void stretch(const struct lw_overview *o, struct lw_tb_events *names,
                    const struct lw_track *track, struct range *range)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &o->scope.trace->events[i];
        enum lw_tb_type type = lw_tb_type(names, event);
        struct lw_interval span = { event->start_ns, lw_event_end_ns(event) };

        if (o->compat == LW_COMPAT_TB)
            span = lw_tb_span(event);
        if (type == LW_TB_TRACE &&
            strcmp(lw_profile_text(o->scope.profile, event->name),
                   "PyTorch Profiler (0)") == 0) {
            range->span = span;
            range->is_said = true;
            return;
        }
        if (o->compat == LW_COMPAT_TB ? type == LW_TB_NONE
                                      : event->kind == LW_EVENT_OTHER)
            continue;
        if (span.start_ns < range->span.start_ns)
            range->span.start_ns = span.start_ns;
        if (span.end_ns > range->span.end_ns)
            range->span.end_ns = span.end_ns;
    }
}

/* From when to when a profiler recorded RANK, with what lies outside of its steps. */
static bool find_range(const struct lw_overview *o, uint32_t rank,
                       struct lw_interval *found, struct lw_error *err)
{
    const struct lw_trace *trace = o->scope.trace;
    struct range range = { .span = { UINT64_MAX, 0 } };
    struct lw_tb_events names = { 0 };
    bool done = lw_tb_events_init(&names, o->scope.profile, err);

    for (size_t t = 0; done && !range.is_said && t < trace->track_count; t++)
        if (trace->tracks[t].rank == rank)
            stretch(o, &names, &trace->tracks[t], &range);
    lw_tb_events_release(&names);
    *found = range.span;
    return done;
}

/* A power of ten of µs, of which at most MOST_BUCKETS make up LENGTH_NS. */
static uint64_t bucket_ns(uint64_t length_ns)
{
    uint64_t ns = 1000;

    while (length_ns / ns > MOST_BUCKETS ||
           (length_ns / ns == MOST_BUCKETS && length_ns % ns > 0))
        ns *= 10;
    return ns;
}

/* What of RANGES from *FIRST on is between the times, each with its efficiency; ns. */
static double efficiency_within(const struct lw_sm_range *ranges, size_t count,
                                const struct lw_interval *bucket, size_t *first)
{
    double sum = 0;

    while (*first < count && ranges[*first].end_ns <= bucket->start_ns)
        ++*first;
    for (size_t i = *first; i < count && ranges[i].start_ns < bucket->end_ns; i++) {
        uint64_t from = ranges[i].start_ns > bucket->start_ns ? ranges[i].start_ns
                                                              : bucket->start_ns;
        uint64_t to =
            ranges[i].end_ns < bucket->end_ns ? ranges[i].end_ns : bucket->end_ns;

        sum += ranges[i].efficiency * (double)(to - from);
    }
    return sum;
}

static bool add_buckets(const struct lw_overview *o, const struct lw_gpu_usage *usage,
                        const struct lw_interval *range, struct lw_table *table,
                        struct lw_error *err)
{
    uint64_t size_ns = bucket_ns(range->end_ns - range->start_ns);
    uint64_t count = (range->end_ns - range->start_ns) / size_ns;
    struct lw_intervals busy = { 0 };
    struct lw_sm_range *ranges = NULL;
    size_t range_count = 0, first = 0;
    bool done = true;

    for (size_t i = usage->first; done && i < usage->first + usage->count; i++)
        done = lw_intervals_add(&busy, o->gpus.kernels[i].start_ns,
                                o->gpus.kernels[i].end_ns, err);
    done = done && lw_gpu_sm_ranges(&o->gpus, usage, o->scope.trace, &ranges,
                                    &range_count, err);
    lw_intervals_merge(&busy);
    for (uint64_t i = 0; done && i < count; i++) {
        struct lw_interval bucket = { range->start_ns + i * size_ns,
                                      range->start_ns + (i + 1) * size_ns };

        if (i + 1 == count)
            bucket.end_ns = range->end_ns;
        start_row(o, table, usage);
        lw_table_add_integer(table, (int64_t)(i * size_ns));
        lw_table_add_integer(table, (int64_t)(bucket.end_ns - bucket.start_ns));
        lw_analysis_add_share(
            table, (double)lw_intervals_within(&busy, bucket.start_ns, bucket.end_ns),
            (double)(bucket.end_ns - bucket.start_ns));
        lw_analysis_add_share(
            table,
            ranges ? efficiency_within(ranges, range_count, &bucket, &first) : NAN,
            (double)(bucket.end_ns - bucket.start_ns));
    }
    lw_intervals_release(&busy);
    lw_free(ranges);
    return done;
}

static bool add_ranges(const struct lw_overview *o, const struct lw_gpu_usage *usage,
                       const struct lw_interval *range, struct lw_table *table,
                       struct lw_error *err)
{
    struct lw_sm_range *ranges;
    size_t count;

    if (!lw_gpu_sm_ranges(&o->gpus, usage, o->scope.trace, &ranges, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        start_row(o, table, usage);
        lw_table_add_integer(table, (int64_t)(ranges[i].start_ns - range->start_ns));
        lw_table_add_integer(table, (int64_t)(ranges[i].end_ns - ranges[i].start_ns));
        lw_table_add_number(table, ranges[i].efficiency);
    }
    lw_free(ranges);
    return true;
}

typedef bool add_over_time(const struct lw_overview *o,
                           const struct lw_gpu_usage *usage,
                           const struct lw_interval *range, struct lw_table *table,
                           struct lw_error *err);

static bool add_all(const struct lw_overview *o, add_over_time *add,
                    struct lw_table *table, struct lw_error *err)
{
    struct lw_interval range = { 0, 0 };
    uint32_t rank = LW_NONE;

    for (size_t i = 0; i < o->gpus.count; i++) {
        const struct lw_gpu_usage *usage = &o->gpus.list[i];

        if (usage->rank != rank && !find_range(o, usage->rank, &range, err))
            return false;
        rank = usage->rank;
        if (!add(o, usage, &range, table, err))
            return false;
    }
    lw_table_note(table, "Times are since the start of the recording.");
    return true;
}

bool lw_overview_add_timeline(const struct lw_overview *o, struct lw_table *table,
                              struct lw_error *err)
{
    return add_all(o, add_buckets, table, err);
}

bool lw_overview_add_sm(const struct lw_overview *o, struct lw_table *table,
                        struct lw_error *err)
{
    return add_all(o, add_ranges, table, err);
}
