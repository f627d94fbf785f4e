/* Why the GPU waited: the gaps between pieces of work on each stream and device by their
 * cause (analyses/idle_gaps.h), the biggest single ones with the op and line that came too
 * late, or the ops that came too late most. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/askers.h"
#include "analyses/idle_gaps.h"
#include "analyses/spread.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column stream_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "device", "device", LW_UNIT_COUNT, false },
    { "stream", "stream", LW_UNIT_TEXT, false },
    { "cause", "waited for", LW_UNIT_TEXT, false },
    { "gaps", "gaps", LW_UNIT_COUNT, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "share", "of idle", LW_UNIT_SHARE, false },
    { "mean_ns", "mean", LW_UNIT_NS, false },
    { "median_ns", "median", LW_UNIT_NS, false },
    { "max_ns", "max", LW_UNIT_NS, false },
    { "min_ns", "min", LW_UNIT_NS, false },
    { "quarter_ns", "25 %", LW_UNIT_NS, false },
    { "three_quarters_ns", "75 %", LW_UNIT_NS, false },
    { "sd_ns", "sd", LW_UNIT_NS, false },
};
static const struct lw_column gap_columns[] = {
    { "after_ns", "after", LW_UNIT_NS, false },
    { "gap_ns", "gap", LW_UNIT_NS, false },
    { "cause", "waited for", LW_UNIT_TEXT, false },
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "stream", "stream", LW_UNIT_TEXT, false },
    { "launched_ns", "launched", LW_UNIT_NS, false },
    { "op", "op", LW_UNIT_TEXT, false },
    { "line", "line", LW_UNIT_TEXT, true },
    { "kernel", "then ran", LW_UNIT_TEXT, true },
};
static const struct lw_column op_columns[] = {
    { "op", "op that came too late", LW_UNIT_TEXT, true },
    { "gaps", "gaps", LW_UNIT_COUNT, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "share", "of idle", LW_UNIT_SHARE, false },
    { "mean_ns", "mean", LW_UNIT_NS, false },
    { "max_ns", "max", LW_UNIT_NS, false },
    { "line", "line of the longest", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* Of stream_columns, those after this many are for programs, and --error: how gaps are
 * spread. */
#define SHOWN_STREAM_COLUMNS 10

struct view {
    const struct lw_trace_scope *scope;
    const struct lw_idle_gaps *gaps;
    bool as_hta;
    uint64_t start_ns; /* of the trace */
    struct lw_table *table;
};

static const char *cause_name(const struct view *view, unsigned cause)
{
    static const char *const own[] = { "host", "next kernel", "other", "(unknown)" };
    static const char *const hta[] = { "host_wait", "kernel_wait", "other", "other" };

    return view->as_hta ? hta[cause] : own[cause];
}

static void add_text(struct lw_table *table, const char *text)
{
    lw_table_add_text(table, text, strlen(text));
}

static void add_ns(struct lw_table *table, double ns)
{
    if (isnan(ns))
        lw_table_add_none(table);
    else
        lw_table_add_integer(table, llround(ns));
}

static void add_name(const struct view *view, uint32_t event)
{
    const struct lw_profile *profile = view->scope->profile;
    lw_string_id name;

    if (event == LW_NONE) {
        lw_table_add_none(view->table);
        return;
    }
    name = view->scope->trace->events[event].name;
    lw_table_add_text(view->table, lw_profile_text(profile, name),
                      lw_strings_len(profile->strings, name));
}

/* "7", the track's own name where it has no number, "all". */
static void add_stream(const struct view *view, const struct lw_idle_lane *lane)
{
    const struct lw_profile *profile = view->scope->profile;
    char number[24]; /* of 64 bits */
    lw_string_id tid;

    if (lane->stream >= 0) {
        snprintf(number, sizeof(number), "%" PRId64, lane->stream);
        add_text(view->table, number);
    } else if (lane->track == LW_NONE) {
        add_text(view->table, "all");
    } else {
        tid = view->scope->trace->tracks[lane->track].tid;
        lw_table_add_text(view->table, lw_profile_text(profile, tid),
                          lw_strings_len(profile->strings, tid));
    }
}

static void add_cause(const struct view *view, const struct lw_idle_lane *lane,
                      unsigned cause, const struct lw_spread *spread, double idle_ns)
{
    struct lw_table *table = view->table;

    lw_table_row(table, 0);
    lw_table_add_integer(table, lw_trace_rank_number(view->scope->trace, lane->rank));
    if (lane->device >= 0)
        lw_table_add_integer(table, lane->device);
    else
        lw_table_add_none(table);
    add_stream(view, lane);
    add_text(table, cause_name(view, cause));
    lw_table_add_integer(table, (int64_t)spread->count);
    add_ns(table, spread->total);
    lw_analysis_add_share(table, spread->total, idle_ns);
    add_ns(table, spread->mean);
    add_ns(table, spread->median);
    add_ns(table, spread->max);
    if (table->column_count == SHOWN_STREAM_COLUMNS)
        return;
    add_ns(table, spread->min);
    add_ns(table, spread->quarter);
    add_ns(table, spread->three_quarters);
    add_ns(table, spread->sd);
}

/* The COUNT gaps at GAPS are all of LANE. VALUES has room for them. */
static void add_lane(const struct view *view, const struct lw_idle_lane *lane,
                     const struct lw_idle_gap *gaps, size_t count, double *values)
{
    double idle_ns = 0;

    for (size_t i = 0; i < count; i++)
        idle_ns += (double)gaps[i].duration_ns;
    for (unsigned cause = 0; cause < LW_IDLE_CAUSES; cause++) {
        struct lw_spread spread;
        size_t used = 0;

        for (size_t i = 0; i < count; i++)
            if (gaps[i].cause == cause)
                values[used++] = (double)gaps[i].duration_ns;
        spread = lw_spread_of(values, used);
        /* Its first event of a stream has no gap before it, of cause "other". */
        if (used > 0 || (view->as_hta && cause == LW_IDLE_OTHER))
            add_cause(view, lane, cause, &spread, idle_ns);
    }
}

static bool run_streams(const struct view *view, struct lw_error *err)
{
    const struct lw_idle_gaps *gaps = view->gaps;
    double *values = lw_alloc(gaps->gap_count * sizeof(*values) + 1, err);
    size_t at = 0;

    if (!values)
        return false;
    for (uint32_t lane = 0; lane < gaps->lane_count; lane++) {
        size_t first = at;

        while (at < gaps->gap_count && gaps->gaps[at].lane == lane)
            at++;
        add_lane(view, &gaps->lanes[lane], gaps->gaps + first, at - first, values);
    }
    lw_free(values);
    return true;
}

/* Gaps of devices as a whole, which are of the stream where there is one. */
static bool is_of_device(const struct view *view, const struct lw_idle_gap *gap)
{
    return !view->gaps->lanes[gap->lane].is_part;
}

static int compare_gaps(const void *a, const void *b)
{
    const struct lw_idle_gap *x = *(const struct lw_idle_gap *const *)a;
    const struct lw_idle_gap *y = *(const struct lw_idle_gap *const *)b;

    if (x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Gaps of devices, the longest first. */
struct longest {
    const struct lw_idle_gap **list; /* owned; borrowed gaps */
    size_t count;
};

static bool find_longest(struct longest *longest, const struct view *view,
                         struct lw_error *err)
{
    const struct lw_idle_gaps *gaps = view->gaps;

    longest->count = 0;
    longest->list = lw_alloc(gaps->gap_count * sizeof(*longest->list) + 1, err);
    if (!longest->list)
        return false;
    for (size_t i = 0; i < gaps->gap_count; i++)
        if (gaps->gaps[i].duration_ns > 0 && is_of_device(view, &gaps->gaps[i]))
            longest->list[longest->count++] = &gaps->gaps[i];
    qsort(longest->list, longest->count, sizeof(*longest->list), compare_gaps);
    return true;
}

static void add_line(const struct view *view, const struct lw_askers *askers,
                     uint32_t event)
{
    const char *line;
    size_t len = lw_askers_line(askers, event, &line);

    if (len > 0)
        lw_table_add_text(view->table, line, len);
    else
        lw_table_add_none(view->table);
}

static void add_gap(const struct view *view, const struct lw_askers *askers,
                    const struct lw_idle_gap *gap)
{
    const struct lw_trace *trace = view->scope->trace;
    const struct lw_event *event = &trace->events[gap->event];
    const struct lw_track *track = &trace->tracks[event->track];
    struct lw_idle_lane of_event = { .stream = track->number, .track = event->track };
    struct lw_table *table = view->table;

    lw_table_row(table, 0);
    lw_table_add_integer(table, (int64_t)(gap->start_ns - view->start_ns));
    lw_table_add_integer(table, gap->duration_ns);
    add_text(table, cause_name(view, gap->cause));
    lw_table_add_integer(table, lw_trace_rank_number(trace, track->rank));
    add_stream(view, &of_event);
    if (event->parent != LW_NONE &&
        trace->events[event->parent].kind == LW_EVENT_RUNTIME)
        lw_table_add_integer(
            table, (int64_t)(trace->events[event->parent].start_ns - view->start_ns));
    else
        lw_table_add_none(table);
    add_name(view, askers->ops[gap->event]);
    add_line(view, askers, gap->event);
    add_name(view, gap->event);
}

static bool run_gaps(const struct view *view, struct lw_error *err)
{
    struct lw_askers askers;
    struct longest longest = { 0 };
    bool done = lw_askers_init(&askers, view->scope->profile, err) &&
                find_longest(&longest, view, err);

    for (size_t i = 0; done && i < longest.count; i++)
        add_gap(view, &askers, longest.list[i]);
    lw_free(longest.list);
    lw_askers_release(&askers);
    return done;
}

/* Host waits of one op. */
struct late_op {
    const struct lw_idle_gap *longest;
    uint64_t count;
    int64_t total_ns;
};

static int compare_late(const void *a, const void *b)
{
    const struct late_op *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return x->longest < y->longest ? -1 : x->longest > y->longest;
}

/* By the op's name: LATE has one for each string. The sum of all gaps. */
static int64_t add_up_late(const struct view *view, const struct lw_askers *askers,
                           const struct longest *longest, struct late_op *late)
{
    int64_t idle_ns = 0;

    for (size_t i = 0; i < longest->count; i++) {
        const struct lw_idle_gap *gap = longest->list[i];
        uint32_t op = askers->ops[gap->event];
        struct late_op *of;

        idle_ns += gap->duration_ns;
        if (gap->cause != LW_IDLE_HOST)
            continue;
        of = &late[op == LW_NONE ? 0 : view->scope->trace->events[op].name];
        if (!of->longest)
            of->longest = gap;
        of->count++;
        of->total_ns += gap->duration_ns;
    }
    return idle_ns;
}

static void add_late(const struct view *view, const struct lw_askers *askers,
                     const struct late_op *late, int64_t idle_ns)
{
    struct lw_table *table = view->table;

    lw_table_row(table, 0);
    if (askers->ops[late->longest->event] == LW_NONE)
        add_text(table, "(no op)");
    else
        add_name(view, askers->ops[late->longest->event]);
    lw_table_add_integer(table, (int64_t)late->count);
    lw_table_add_integer(table, late->total_ns);
    lw_analysis_add_share(table, (double)late->total_ns, (double)idle_ns);
    lw_table_add_integer(table, late->total_ns / (int64_t)late->count);
    lw_table_add_integer(table, late->longest->duration_ns);
    add_line(view, askers, late->longest->event);
}

static bool run_ops(const struct view *view, struct lw_error *err)
{
    size_t count = lw_strings_count(view->scope->profile->strings);
    struct late_op *late = lw_zalloc(count, sizeof(*late), err);
    struct longest longest = { 0 };
    struct lw_askers askers = { 0 };
    bool done = late && lw_askers_init(&askers, view->scope->profile, err) &&
                find_longest(&longest, view, err);

    if (done) {
        int64_t idle_ns = add_up_late(view, &askers, &longest, late);

        qsort(late, count, sizeof(*late), compare_late);
        for (size_t i = 0; i < count && late[i].count > 0; i++)
            add_late(view, &askers, &late[i], idle_ns);
    }
    lw_free(longest.list);
    lw_free(late);
    lw_askers_release(&askers);
    return done;
}

/* "412 ms of 1.2 s idle": of devices as a whole. */
static void set_title(const struct view *view)
{
    int64_t idle_ns = 0;
    struct lw_buf text;

    for (size_t i = 0; i < view->gaps->gap_count; i++)
        if (is_of_device(view, &view->gaps->gaps[i]))
            idle_ns += view->gaps->gaps[i].duration_ns;
    lw_buf_init(&text, 0);
    if (view->as_hta)
        lw_buf_add_text(&text, "Why streams waited, as Holistic Trace Analysis has it");
    else
        lw_buf_add_text(&text, "Why devices waited: idle for ");
    if (!view->as_hta)
        lw_units_add_ns(&text, idle_ns);
    lw_buf_add_text(&text, "; ");
    lw_trace_scope_add_text(view->scope, &text);
    lw_table_set_title(view->table, "%s", lw_analysis_text(view->table, &text));
    lw_buf_release(&text);
}

static void add_notes(const struct view *view, const struct lw_query *query)
{
    struct lw_table *table = view->table;

    if (table->row_count == 0 && view->as_hta)
        lw_table_note(table, LW_HTA_NOTHING);
    else if (table->row_count == 0)
        lw_table_note(table, "There is no gap: a device with one piece of work, or "
                             "with work all the time, never waits.");
    else if (view->as_hta)
        return;
    else if (lw_query_is_by(query, "gap"))
        lw_table_note(table, "after, launched: since the trace began. host: the launch "
                             "began when the device was idle already.");
    else if (lw_query_is_by(query, "op"))
        lw_table_note(table, "Only waits for the host; the single gaps: --by gap.");
    else
        lw_table_note(table, "host: it launched the next work too late; next kernel: "
                             "queued, gap under 30 us; other: queued, and yet a longer "
                             "gap. Which op came too late: --by op, --by gap.");
}

static uint64_t first_start_ns(const struct lw_trace *trace)
{
    uint64_t first_ns = UINT64_MAX;

    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].start_ns < first_ns)
            first_ns = trace->events[i].start_ns;
    return first_ns;
}

static bool run_view(struct view *view, const struct lw_query *query,
                     struct lw_error *err)
{
    bool done;

    view->start_ns = first_start_ns(view->scope->trace);
    set_title(view);
    if (lw_query_is_by(query, "gap"))
        done = run_gaps(view, err);
    else
        done =
            lw_query_is_by(query, "op") ? run_ops(view, err) : run_streams(view, err);
    if (!done)
        return false;
    add_notes(view, query);
    lw_analysis_note_losses(view->scope->profile, view->table);
    return lw_analysis_arrange(view->table, query, err);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    bool as_hta = query->compat == LW_COMPAT_HTA;
    struct lw_trace_scope scope;
    struct lw_idle_gaps gaps = { 0 };
    struct view view = {
        .scope = &scope, .gaps = &gaps, .as_hta = as_hta, .table = table
    };
    bool done;

    if (lw_query_is_by(query, "gap"))
        lw_table_init(table, gap_columns, COUNT(gap_columns));
    else if (lw_query_is_by(query, "op"))
        lw_table_init(table, op_columns, COUNT(op_columns));
    else
        lw_table_init(table, stream_columns,
                      query->with_error ? COUNT(stream_columns) : SHOWN_STREAM_COLUMNS);
    done = lw_trace_scope_init(&scope, profile, query, "idle", err) &&
           lw_trace_scope_wants_device(&scope, "idle", err) &&
           (as_hta ? lw_idle_gaps_init_hta(&gaps, &scope, err)
                   : lw_idle_gaps_init(&gaps, &scope, err)) &&
           run_view(&view, query, err);
    lw_idle_gaps_release(&gaps);
    lw_trace_scope_release(&scope);
    return done;
}

const struct lw_analysis lw_analysis_idle = {
    .name = "idle",
    .summary = "why the GPU waited, and for which op",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "stream|gap|op",
    .compat = "hta",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
