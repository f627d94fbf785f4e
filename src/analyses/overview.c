/* Where a step's time went, and how well the GPUs were used: the first look at a trace. */

#include "analyses/overview.h"

#include <inttypes.h>
#include <string.h>

#include "analyses/work_kinds.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column category_columns[] = {
    { "category", "category", LW_UNIT_TEXT, false },
    { "mean_ns", "a step", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "min_ns", "least", LW_UNIT_NS, false },
    { "max_ns", "most", LW_UNIT_NS, false },
};

static const struct lw_column step_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false }, /* only if there are several */
    { "step", "step", LW_UNIT_TEXT, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "kernel_ns", "Kernel", LW_UNIT_NS, false },
    { "memcpy_ns", "Memcpy", LW_UNIT_NS, false },
    { "memset_ns", "Memset", LW_UNIT_NS, false },
    { "communication_ns", "Communication", LW_UNIT_NS, false },
    { "runtime_ns", "Runtime", LW_UNIT_NS, false },
    { "dataloader_ns", "DataLoader", LW_UNIT_NS, false },
    { "cpu_ns", "CPU", LW_UNIT_NS, false },
    { "other_ns", "Other", LW_UNIT_NS, false },
    { "launched", "launched", LW_UNIT_COUNT, false },
};

static const struct lw_column device_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false }, /* only if there are several */
    { "gpu", "GPU", LW_UNIT_COUNT, false },
    { "busy_share", "busy", LW_UNIT_SHARE, false },
    { "sm_share", "SM eff.", LW_UNIT_SHARE, false },
    { "occupancy_share", "occupancy", LW_UNIT_SHARE, false },
    { "tensor_share", "tensor cores", LW_UNIT_SHARE, false },
    { "kernels", "kernels", LW_UNIT_COUNT, false },
    { "memory_bytes", "memory", LW_UNIT_BYTES, false },
    { "capability", "capability", LW_UNIT_TEXT, false },
    { "name", "name", LW_UNIT_TEXT, true },
};

static const struct lw_column timeline_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false }, /* only if there are several */
    { "gpu", "GPU", LW_UNIT_COUNT, false },
    { "start_ns", "from", LW_UNIT_NS, false },
    { "duration_ns", "for", LW_UNIT_NS, false },
    { "busy_share", "busy", LW_UNIT_SHARE, false },
    { "sm_share", "SM eff.", LW_UNIT_SHARE, false },
};

static const struct lw_column sm_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false }, /* only if there are several */
    { "gpu", "GPU", LW_UNIT_COUNT, false },
    { "start_ns", "from", LW_UNIT_NS, false },
    { "duration_ns", "for", LW_UNIT_NS, false },
    { "sm_share", "SM eff.", LW_UNIT_SHARE, false },
};
/* clang-format on */

struct columns {
    const struct lw_column *list;
    size_t count;
    bool has_rank; /* the first is for that */
};

#define COLUMNS(list, has_rank) \
    { \
        list, sizeof(list) / sizeof(list[0]), has_rank \
    }

static const struct columns by_category = COLUMNS(category_columns, false);
static const struct columns by_step = COLUMNS(step_columns, true);
static const struct columns by_device = COLUMNS(device_columns, true);
static const struct columns by_timeline = COLUMNS(timeline_columns, true);
static const struct columns by_sm = COLUMNS(sm_columns, true);

static const struct columns *columns_of(const struct lw_query *query)
{
    return lw_query_is_by(query, "step")       ? &by_step
           : lw_query_is_by(query, "device")   ? &by_device
           : lw_query_is_by(query, "timeline") ? &by_timeline
           : lw_query_is_by(query, "sm")       ? &by_sm
                                               : &by_category;
}

/* ---- finding it out ----------------------------------------------------------------- */

static bool find_times(struct lw_overview *o, struct lw_overview_rank *rank,
                       const uint8_t *kinds, struct lw_error *err)
{
    struct lw_busy_times busy = { 0 };
    bool done;

    rank->times = lw_zalloc(rank->steps.count + 1, sizeof(*rank->times), err);
    done = rank->times &&
           lw_busy_times_init(&busy, o->scope.profile, kinds, rank->rank, o->compat,
                              err) &&
           lw_step_times_fill(rank->times, &busy, &rank->steps, o->compat, err);
    for (size_t i = 0; i < LW_ROLE_OTHER; i++)
        rank->has[i] = busy.sets[i].count > 0;
    rank->has[LW_ROLE_OTHER] = true;
    lw_busy_times_release(&busy);
    return done;
}

static bool add_rank(struct lw_overview *o, uint32_t index, const uint8_t *kinds,
                     struct lw_error *err)
{
    struct lw_overview_rank *rank = &o->ranks[o->rank_count];
    const struct lw_trace_steps *steps = &rank->steps;

    rank->rank = index;
    o->rank_count++; /* is released from here on */
    if (!lw_trace_steps_init(&rank->steps, o->scope.profile, index, o->compat, err) ||
        !find_times(o, rank, kinds, err))
        return false;
    return steps->count == 0 ||
           lw_gpu_usages_add(&o->gpus, o->scope.profile, index, steps->list[0].start_ns,
                             steps->list[steps->count - 1].end_ns, o->compat, err);
}

static bool find_all(struct lw_overview *o, struct lw_error *err)
{
    const struct lw_trace *trace = o->scope.trace;
    uint8_t *kinds = NULL;
    bool done;

    o->ranks = lw_zalloc(o->scope.rank_count + 1, sizeof(*o->ranks), err);
    done = o->ranks != NULL;
    if (done && o->compat != LW_COMPAT_TB) {
        kinds = lw_work_kinds_new(o->scope.profile, o->compat, err);
        done = kinds != NULL;
    }
    for (uint32_t i = 0; done && i < trace->rank_count; i++)
        if (o->scope.ranks[i])
            done = add_rank(o, i, kinds, err);
    lw_free(kinds);
    return done && (o->compat != LW_COMPAT_TB || lw_overview_tensor_as_tb(o, err));
}

static void release(struct lw_overview *o)
{
    for (size_t i = 0; i < o->rank_count; i++) {
        lw_trace_steps_release(&o->ranks[i].steps);
        lw_free(o->ranks[i].times);
    }
    lw_free(o->ranks);
    lw_gpu_usages_release(&o->gpus);
    lw_trace_scope_release(&o->scope);
}

/* ---- rows that are steps, or parts of them ------------------------------------------ */

/* A part of all steps, or the whole of them. */
struct part {
    uint64_t count;
    double sum_ns;
    uint64_t min_ns, max_ns;
    bool is_there;
};

static void add_to(struct part *part, uint64_t ns)
{
    part->min_ns = part->count == 0 || ns < part->min_ns ? ns : part->min_ns;
    part->max_ns = ns > part->max_ns ? ns : part->max_ns;
    part->sum_ns += (double)ns;
    part->count++;
}

static uint64_t length_ns(const struct lw_trace_step *step)
{
    return step->end_ns - step->start_ns;
}

static void add_category(struct lw_table *table, const char *name,
                         const struct part *part, const struct part *whole)
{
    lw_table_row(table, 0);
    lw_table_add_text(table, name, strlen(name));
    lw_table_add_integer(table, (int64_t)(part->sum_ns / (double)part->count + 0.5));
    lw_analysis_add_share(table, part->sum_ns, whole->sum_ns);
    lw_table_add_integer(table, (int64_t)part->min_ns);
    lw_table_add_integer(table, (int64_t)part->max_ns);
}

static struct part add_categories(const struct lw_overview *o, struct lw_table *table)
{
    struct part parts[LW_ROLE_COUNT] = { 0 }, whole = { 0 };

    for (size_t i = 0; i < o->rank_count; i++) {
        const struct lw_overview_rank *rank = &o->ranks[i];

        for (size_t r = 0; r < LW_ROLE_COUNT; r++)
            parts[r].is_there |= rank->has[r];
        for (size_t s = 0; s < rank->steps.count; s++) {
            add_to(&whole, length_ns(&rank->steps.list[s]));
            for (size_t r = 0; r < LW_ROLE_COUNT; r++)
                add_to(&parts[r], rank->times[s].ns[r]);
        }
    }
    if (whole.count == 0)
        return whole;
    add_category(table, "Step", &whole, &whole);
    for (size_t r = 0; r < LW_ROLE_COUNT; r++)
        if (parts[r].is_there)
            add_category(table, lw_role_names[r], &parts[r], &whole);
    return whole;
}

/* "7"; a trace without steps is one, "all". */
static void add_step_name(struct lw_table *table, const struct lw_overview *o,
                          const struct lw_trace_step *step)
{
    const char *name = lw_profile_text(o->scope.profile, step->name);
    const char *number = strchr(name, '#');

    if (!step->name)
        name = "all";
    else if (number)
        name = number + 1;
    lw_table_add_text(table, name, strlen(name));
}

static void add_steps(const struct lw_overview *o, struct lw_table *table)
{
    for (size_t i = 0; i < o->rank_count; i++) {
        const struct lw_overview_rank *rank = &o->ranks[i];

        for (size_t s = 0; s < rank->steps.count; s++) {
            const struct lw_trace_step *step = &rank->steps.list[s];

            lw_table_row(table, 0);
            if (o->scope.rank_count > 1)
                lw_table_add_integer(table,
                                     lw_trace_rank_number(o->scope.trace, rank->rank));
            add_step_name(table, o, step);
            lw_table_add_integer(table, (int64_t)length_ns(step));
            for (size_t r = 0; r < LW_ROLE_COUNT; r++)
                if (rank->has[r])
                    lw_table_add_integer(table, (int64_t)rank->times[s].ns[r]);
                else
                    lw_table_add_none(table);
            lw_table_add_integer(table, (int64_t)step->work_count);
        }
    }
}

/* ---- what is said of them ----------------------------------------------------------- */

static void set_title(const struct lw_overview *o, const struct lw_query *query,
                      struct lw_table *table)
{
    const char *what = lw_query_is_by(query, "step")     ? "where each step's time went"
                       : lw_query_is_by(query, "device") ? "how the GPUs were used"
                       : lw_query_is_by(query, "timeline") ? "how busy the GPUs were, "
                                                             "over time"
                       : lw_query_is_by(query, "sm")       ? "SM efficiency over time"
                                                           : "where a step's time went";
    size_t steps = 0;
    bool is_marked = false;
    struct lw_buf text;

    for (size_t i = 0; i < o->rank_count; i++) {
        steps += o->ranks[i].steps.count;
        is_marked |= o->ranks[i].steps.is_marked;
    }
    lw_buf_init(&text, 0);
    lw_trace_scope_add_name(&o->scope, &text);
    if (is_marked)
        lw_buf_addf(&text, "%s%zu step%s", text.len ? ", " : "", steps,
                    steps == 1 ? "" : "s");
    lw_table_set_title(table, "%s%s%s", what, text.len ? ": " : "",
                       lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static void note_steps(const struct lw_overview *o, struct lw_table *table)
{
    size_t left_out = 0, unmarked = 0;

    for (size_t i = 0; i < o->rank_count; i++) {
        left_out += o->ranks[i].steps.left_out;
        unmarked += !o->ranks[i].steps.is_marked;
    }
    if (unmarked > 0)
        lw_table_note(table, "No steps are marked (a schedule and profiler.step() do "
                             "that): the whole trace is taken as one.");
    if (left_out > 0)
        lw_table_note(table,
                      "Left out: the last %s; the recording ended before the work was "
                      "done that %s launched.",
                      left_out == 1 ? "step" : "steps", left_out == 1 ? "it" : "they");
}

static void note_all(const struct lw_overview *o, const struct lw_query *query,
                     struct lw_table *table)
{
    note_steps(o, table);
    if (o->gpus.count == 0)
        lw_table_note(table, "No kernels of a GPU are in the trace.");
    else if (lw_query_is_by(query, "category") || lw_query_is_by(query, "step"))
        lw_overview_note_gpus(o, table);
    if (o->scope.rank_count > 1 && lw_query_is_by(query, "category"))
        lw_table_note(table,
                      "The mean over all ranks; one of them: --rank N. What they "
                      "waited for: '%sranks'",
                      query->report);
    if (lw_query_is_by(query, "category"))
        lw_table_note(table, "Step by step: --by step. What ran: '%sops'%s",
                      query->report, o->gpus.count > 0 ? "; also kernels" : "");
    lw_analysis_note_losses(o->scope.profile, table);
}

static bool fill(const struct lw_overview *o, const struct lw_query *query,
                 struct lw_table *table, struct lw_error *err)
{
    bool is_of_gpus =
        !lw_query_is_by(query, "category") && !lw_query_is_by(query, "step");

    if (is_of_gpus && o->gpus.count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there is no GPU in the trace that ran a kernel; 'report "
                       "overview' says where the time went");
    if (lw_query_is_by(query, "timeline"))
        return lw_overview_add_timeline(o, table, err);
    if (lw_query_is_by(query, "sm"))
        return lw_overview_add_sm(o, table, err);
    if (lw_query_is_by(query, "device"))
        lw_overview_add_devices(o, table);
    else if (lw_query_is_by(query, "step"))
        add_steps(o, table);
    else if (add_categories(o, table).count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED, "the trace has no events that last");
    return true;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    const struct columns *columns = columns_of(query);
    struct lw_overview o = { .compat = query->compat };
    bool done;

    if (query->compat == LW_COMPAT_HTA)
        return lw_overview_hta(profile, query, table, err);
    lw_table_init(table, columns->list, columns->count);
    done = lw_trace_scope_init(&o.scope, profile, query, "overview", err) &&
           find_all(&o, err);
    if (done && columns->has_rank && o.scope.rank_count == 1)
        lw_table_init(table, columns->list + 1, columns->count - 1);
    done = done && fill(&o, query, table, err);
    if (done) {
        set_title(&o, query, table);
        note_all(&o, query, table);
        done = lw_analysis_arrange(table, query, err);
    }
    release(&o);
    return done;
}

const struct lw_analysis lw_analysis_overview = {
    .name = "overview",
    .summary = "where a step's time went, and how well the GPUs were used",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "category|step|device|timeline|sm",
    .compat = "tb|hta",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
