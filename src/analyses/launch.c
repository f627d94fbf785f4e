/* Launches: how long work lay in a queue, work that is shorter than the call for it, calls
 * and delays that stand out. By kernel, single calls, by stream (queues), by op. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/askers.h"
#include "analyses/launch_queue.h"
#include "analyses/launches.h"
#include "analyses/spread.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
#define GROUP_COLUMNS(name, title) \
    { name, title, LW_UNIT_TEXT, true }, \
    { "launches", "launches", LW_UNIT_COUNT, false }, \
    { "delay_mean_ns", "mean delay", LW_UNIT_NS, false }, \
    { "delay_median_ns", "median", LW_UNIT_NS, false }, \
    { "delay_max_ns", "max", LW_UNIT_NS, false }, \
    { "call_mean_ns", "mean call", LW_UNIT_NS, false }, \
    { "work_mean_ns", "mean work", LW_UNIT_NS, false }, \
    { "short", "short", LW_UNIT_COUNT, false }, \
    { "late", "late", LW_UNIT_COUNT, false }, \
    { "slow", "slow calls", LW_UNIT_COUNT, false }

static const struct lw_column kernel_columns[] = { GROUP_COLUMNS("kernel", "kernel") };
static const struct lw_column op_columns[] = {
    GROUP_COLUMNS("op", "op"),
    { "before_mean_ns", "mean before", LW_UNIT_NS, false },
};
static const struct lw_column call_columns[] = {
    { "kernel", "kernel", LW_UNIT_TEXT, true },
    { "call", "call", LW_UNIT_TEXT, false },
    { "correlation", "correlation", LW_UNIT_COUNT, false },
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "stream", "stream", LW_UNIT_COUNT, false },
    { "delay_ns", "delay", LW_UNIT_NS, false },
    { "call_ns", "call took", LW_UNIT_NS, false },
    { "work_ns", "work took", LW_UNIT_NS, false },
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct view {
    const struct lw_trace_scope *scope;
    const struct lw_askers *askers; /* NULL: not by op */
    struct lw_launches launches;
    struct lw_table *table;
};

static const struct lw_event *event_of(const struct view *view, uint32_t index)
{
    return &view->scope->trace->events[index];
}

static void add_name(const struct view *view, lw_string_id name)
{
    const struct lw_profile *profile = view->scope->profile;

    lw_table_add_text(view->table, lw_profile_text(profile, name),
                      lw_strings_len(profile->strings, name));
}

/* Single calls, the longest delay first. */

static int compare_delays(const void *a, const void *b)
{
    const struct lw_launch *x = a, *y = b;

    if (x->delay_ns != y->delay_ns)
        return x->delay_ns > y->delay_ns ? -1 : 1;
    return x->call < y->call ? -1 : x->call > y->call;
}

static void run_calls(struct view *view)
{
    const struct lw_trace *trace = view->scope->trace;
    struct lw_table *table = view->table;

    if (view->launches.count > 1)
        qsort(view->launches.list, view->launches.count, sizeof(*view->launches.list),
              compare_delays);
    for (size_t i = 0; i < view->launches.count; i++) {
        const struct lw_launch *launch = &view->launches.list[i];
        const struct lw_event *call = event_of(view, launch->call);
        const struct lw_event *work = event_of(view, launch->work);

        lw_table_row(table, 0);
        add_name(view, work->name);
        add_name(view, call->name);
        lw_table_add_integer(table, (int64_t)call->correlation);
        lw_table_add_integer(
            table, lw_trace_rank_number(trace, trace->tracks[work->track].rank));
        if (trace->tracks[work->track].number >= 0)
            lw_table_add_integer(table, trace->tracks[work->track].number);
        else
            lw_table_add_none(table);
        lw_table_add_integer(table, launch->delay_ns);
        lw_table_add_integer(table, launch->call_ns);
        lw_table_add_integer(table, launch->work_ns);
    }
}

/* By kernel, or by op */

struct group {
    lw_string_id name;
    bool has_name;
    struct lw_spread delays;
    double call_ns, work_ns, before_ns; /* sums */
    size_t short_count, late_count, slow_count;
};

struct keyed {
    lw_string_id name;
    bool has_name;
    const struct lw_launch *launch;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;

    if (x->has_name != y->has_name)
        return x->has_name - y->has_name;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->launch < y->launch ? -1 : x->launch > y->launch;
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    if (x->delays.total != y->delays.total)
        return x->delays.total > y->delays.total ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

static void add_to_group(const struct view *view, struct group *group,
                         const struct lw_launch *launch)
{
    uint32_t op = view->askers ? view->askers->ops[launch->call] : LW_NONE;

    group->call_ns += (double)launch->call_ns;
    group->work_ns += (double)launch->work_ns;
    group->short_count += lw_launch_is_short(launch);
    group->late_count += lw_launch_is_late(launch);
    group->slow_count += lw_launch_is_slow(launch);
    if (op != LW_NONE)
        group->before_ns += (double)(event_of(view, launch->call)->start_ns -
                                     event_of(view, op)->start_ns);
}

static void add_group(const struct view *view, const struct group *group)
{
    double count = (double)group->delays.count;
    struct lw_table *table = view->table;

    lw_table_row(table, 0);
    if (group->has_name)
        add_name(view, group->name);
    else
        lw_table_add_text(table, "(no op)", strlen("(no op)"));
    lw_table_add_integer(table, (int64_t)group->delays.count);
    lw_table_add_integer(table, llround(group->delays.mean));
    lw_table_add_integer(table, llround(group->delays.median));
    lw_table_add_integer(table, llround(group->delays.max));
    lw_table_add_integer(table, llround(group->call_ns / count));
    lw_table_add_integer(table, llround(group->work_ns / count));
    lw_table_add_integer(table, (int64_t)group->short_count);
    lw_table_add_integer(table, (int64_t)group->late_count);
    lw_table_add_integer(table, (int64_t)group->slow_count);
    if (view->askers && group->has_name)
        lw_table_add_integer(table, llround(group->before_ns / count));
}

static void fill_keys(const struct view *view, struct keyed *keys)
{
    for (size_t i = 0; i < view->launches.count; i++) {
        const struct lw_launch *launch = &view->launches.list[i];
        uint32_t of = view->askers ? view->askers->ops[launch->call] : launch->work;

        keys[i].launch = launch;
        keys[i].has_name = of != LW_NONE;
        keys[i].name = of != LW_NONE ? event_of(view, of)->name : 0;
    }
    if (view->launches.count > 1)
        qsort(keys, view->launches.count, sizeof(*keys), compare_keyed);
}

static size_t make_groups(const struct view *view, const struct keyed *keys,
                          double *delays, struct group *groups)
{
    size_t count = view->launches.count, made = 0;

    for (size_t i = 0, next; i < count; i = next) {
        struct group *group = &groups[made++];

        group->name = keys[i].name;
        group->has_name = keys[i].has_name;
        for (next = i; next < count && keys[next].name == keys[i].name &&
                       keys[next].has_name == keys[i].has_name;
             next++) {
            delays[next - i] = (double)keys[next].launch->delay_ns;
            add_to_group(view, group, keys[next].launch);
        }
        group->delays = lw_spread_of(delays, next - i);
    }
    if (made > 1)
        qsort(groups, made, sizeof(*groups), compare_groups);
    return made;
}

static bool run_groups(const struct view *view, struct lw_error *err)
{
    size_t count = view->launches.count, made;
    struct keyed *keys = lw_zalloc(count + 1, sizeof(*keys), err);
    double *delays = keys ? lw_zalloc(count + 1, sizeof(*delays), err) : NULL;
    struct group *groups = delays ? lw_zalloc(count + 1, sizeof(*groups), err) : NULL;

    if (groups) {
        fill_keys(view, keys);
        made = make_groups(view, keys, delays, groups);
        for (size_t i = 0; i < made; i++)
            add_group(view, &groups[i]);
    }
    lw_free(keys);
    lw_free(delays);
    lw_free(groups);
    return groups != NULL;
}

/* "2,501 launches: 83 short, 12 late, 3 slow calls". */
static void set_title(const struct view *view, bool by_stream, bool as_hta)
{
    size_t shorts = 0, lates = 0, slows = 0;
    struct lw_buf text;

    for (size_t i = 0; i < view->launches.count; i++) {
        shorts += lw_launch_is_short(&view->launches.list[i]);
        lates += lw_launch_is_late(&view->launches.list[i]);
        slows += lw_launch_is_slow(&view->launches.list[i]);
    }
    lw_buf_init(&text, 0);
    if (by_stream) {
        lw_buf_add_text(&text, "Queues of streams");
    } else {
        lw_units_add_count(&text, (int64_t)view->launches.count);
        lw_buf_addf(&text, " launch%s: %zu short, %zu late, %zu slow call%s",
                    view->launches.count == 1 ? "" : "es", shorts, lates, slows,
                    slows == 1 ? "" : "s");
    }
    if (as_hta)
        lw_buf_add_text(&text, ", as Holistic Trace Analysis has it");
    lw_buf_add_text(&text, "; ");
    lw_trace_scope_add_text(view->scope, &text);
    lw_table_set_title(view->table, "%s", lw_analysis_text(view->table, &text));
    lw_buf_release(&text);
}

static void note_left_out(struct lw_table *table, size_t count, const char *which)
{
    if (count > 0)
        lw_table_note(table, "Left out: %zu piece%s of work %s.", count,
                      count == 1 ? "" : "s", which);
}

static void add_notes(const struct view *view, const struct lw_query *query)
{
    const struct lw_launches *launches = &view->launches;
    struct lw_table *table = view->table;

    if (table->row_count == 0)
        lw_table_note(table, "The trace has no call that launched work%s.",
                      query->compat == LW_COMPAT_HTA
                          ? " which HTA knows; it knows a few of CUDA's (queues: and "
                            "HIP's)"
                          : ": it began later, or the profiler left runtime calls out");
    else if (!lw_query_is_by(query, "stream"))
        lw_table_note(table,
                      "delay: from the end of the call to the start of the work; "
                      "short: work that took less than its call; late: delay over "
                      "100 us; slow: a call over 50 us.%s",
                      view->askers ? " before: from the start of the op to the call."
                                   : "");
    if (query->compat == LW_COMPAT_HTA || lw_query_is_by(query, "stream"))
        return;
    note_left_out(table, launches->unknown_count, "whose launch is not in the trace");
    note_left_out(table, launches->later_count,
                  "that came behind the first of a call (graphs)");
}

static bool run_view(struct view *view, const struct lw_query *query,
                     struct lw_error *err)
{
    bool as_hta = query->compat == LW_COMPAT_HTA;
    bool by_stream = lw_query_is_by(query, "stream");

    if (by_stream) {
        if (!lw_launch_queue(view->scope, query, view->table, err))
            return false;
    } else {
        if (!(as_hta ? lw_launches_init_hta(&view->launches, view->scope, err)
                     : lw_launches_init(&view->launches, view->scope, err)))
            return false;
        if (lw_query_is_by(query, "call"))
            run_calls(view);
        else if (!run_groups(view, err))
            return false;
    }
    set_title(view, by_stream, as_hta);
    add_notes(view, query);
    lw_analysis_note_losses(view->scope->profile, view->table);
    return lw_analysis_arrange(view->table, query, err);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_trace_scope scope;
    struct lw_askers askers = { 0 };
    struct view view = { .scope = &scope, .table = table };
    bool by_op = lw_query_is_by(query, "op");
    bool done;

    if (by_op)
        lw_table_init(table, op_columns, COUNT(op_columns));
    else if (lw_query_is_by(query, "call"))
        lw_table_init(table, call_columns, COUNT(call_columns));
    else if (lw_query_is_by(query, "stream"))
        lw_launch_queue_columns(table, query);
    else
        lw_table_init(table, kernel_columns, COUNT(kernel_columns));
    done = lw_trace_scope_init(&scope, profile, query, "launch", err) &&
           lw_trace_scope_wants_device(&scope, "launch", err) &&
           (!by_op || lw_askers_init(&askers, profile, err));
    if (by_op)
        view.askers = &askers;
    done = done && run_view(&view, query, err);
    lw_launches_release(&view.launches);
    lw_askers_release(&askers);
    lw_trace_scope_release(&scope);
    return done;
}

const struct lw_analysis lw_analysis_launch = {
    .name = "launch",
    .summary = "how long launched work lay in queues, and work shorter than its launch",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "kernel|call|stream|op",
    .compat = "hta",
    .takes_restrictions = true,
    .usual_rows = 25,
    .run = run,
};
