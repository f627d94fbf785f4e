/* The critical path of a trace, or of one of its ranges: what the time went by on, by
 * what bound it, by op and kernel, or piece by piece. */

#include "analyses/critical.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/trace_scope.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/units.h"

#define USUAL_ROWS 25
#define NS_OF_US 1000

/* clang-format off */
static const struct lw_column op_columns[] = {
    { "time_ns", "on the path", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "count", "pieces", LW_UNIT_COUNT, false },
    { "name", "op or kernel", LW_UNIT_TEXT, true },
    { "bound", "bound by", LW_UNIT_TEXT, false },
};
static const struct lw_column bound_columns[] = {
    { "time_ns", "on the path", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "count", "pieces", LW_UNIT_COUNT, false },
    { "bound", "bound by", LW_UNIT_TEXT, false },
};
static const struct lw_column event_columns[] = {
    { "start_ns", "at", LW_UNIT_NS, false },
    { "time_ns", "time", LW_UNIT_NS, false },
    { "bound", "bound by", LW_UNIT_TEXT, false },
    { "kind", "kind", LW_UNIT_TEXT, false },
    { "name", "op or kernel", LW_UNIT_TEXT, true },
    { "track", "on", LW_UNIT_TEXT, false },
    { "to", "leads to", LW_UNIT_TEXT, true },
};
/* clang-format on */

/* Ours, and HTA's. */
static const char *const bound_words[LW_BOUND_COUNT][2] = {
    [LW_BOUND_NOTHING] = { "", "" },
    [LW_BOUND_HOST] = { "host", "cpu_bound" },
    [LW_BOUND_DATA] = { "data loading", "data_loading" },
    [LW_BOUND_COMPUTATION] = { "GPU computation", "gpu_compute_bound" },
    [LW_BOUND_COMMUNICATION] = { "GPU communication", "gpu_communication_bound" },
    [LW_BOUND_MEMORY] = { "GPU copies", "" }, /* computation, there */
    [LW_BOUND_LAUNCH] = { "launch delay", "gpu_kernel_launch_overhead" },
    [LW_BOUND_GAP] = { "gaps between kernels", "gpu_kernel_kernel_overhead" },
};
static const char *const kind_words[LW_CRITICAL_KIND_COUNT][2] = {
    [LW_CRITICAL_OPERATOR] = { "run", "critical_path_operator" },
    [LW_CRITICAL_DEPENDENCY] = { "then", "critical_path_dependency" },
    [LW_CRITICAL_LAUNCH] = { "launch", "critical_path_kernel_launch_delay" },
    [LW_CRITICAL_GAP] = { "gap", "critical_path_kernel_kernel_delay" },
    [LW_CRITICAL_SYNC] = { "wait", "critical_path_sync_dependency" },
};

/* Pieces of the path that are alike. */
struct sum {
    uint32_t name; /* of their events; LW_NONE: none, or not asked for */
    enum lw_critical_bound bound;
    int64_t time; /* as in `times` */
    int64_t count;
};

struct view {
    const struct lw_query *query;
    struct lw_critical c;
    struct lw_trace_scope scope;
    struct lw_critical_range range;
    uint8_t *kinds;   /* owned: of each event, enum lw_work_kind */
    struct sum *sums; /* owned */
    size_t sum_count, sum_capacity;
    struct lw_map map;  /* of sums */
    uint32_t step_name; /* of a step on the path; 0: none */
    int64_t total;      /* of the path */
    int64_t bounds[LW_BOUND_COUNT];
};

static int64_t as_ns(const struct view *v, int64_t time)
{
    return v->c.is_hta ? time * NS_OF_US : time;
}

static const char *bound_word(const struct view *v, enum lw_critical_bound bound)
{
    return bound_words[bound][v->c.is_hta];
}

/* ---- adding up ---------------------------------------------------------------------- */

/* What is no communication is computation. (0.6.1 has more names than 0.5.0, and these
 * are of its shorter names: without a type before them.) */
static enum lw_critical_bound bound_of_hta(const struct view *v, uint32_t event)
{
    const char *name = lw_profile_text(v->c.profile, v->c.trace->events[event].name);

    name += lw_text_starts(name, "void ") ? strlen("void ") : 0;
    return lw_text_starts(name, "nccl") || lw_text_starts(name, "hip") ||
                   lw_text_starts(name, "hccl") || strstr(name, "ncclKernel")
               ? LW_BOUND_COMMUNICATION
               : LW_BOUND_COMPUTATION;
}

/* Of work on a device it is known only now: a path has few events of a trace's. */
static enum lw_critical_bound bound_of(const struct view *v,
                                       const struct lw_critical_edge *edge)
{
    static const enum lw_critical_bound bounds[] = {
        [LW_WORK_NONE] = LW_BOUND_COMPUTATION,
        [LW_WORK_COMPUTATION] = LW_BOUND_COMPUTATION,
        [LW_WORK_COMMUNICATION] = LW_BOUND_COMMUNICATION,
        [LW_WORK_MEMORY] = LW_BOUND_MEMORY,
    };

    if (edge->bound != LW_BOUND_COMPUTATION)
        return (enum lw_critical_bound)edge->bound;
    return v->c.is_hta ? bound_of_hta(v, edge->event) : bounds[v->kinds[edge->event]];
}

static bool same_sum(const void *owner, uint32_t number, const void *key)
{
    const struct view *v = owner;
    const struct sum *a = &v->sums[number - 1], *b = key;

    return a->name == b->name && a->bound == b->bound;
}

/* All steps have one name: that of the first. */
static uint32_t name_of(struct view *v, uint32_t event)
{
    uint32_t name = v->c.trace->events[event].name;

    if (v->c.trace->events[event].kind != LW_EVENT_RANGE ||
        !lw_trace_is_step(lw_profile_text(v->c.profile, name)))
        return name;
    if (v->step_name == 0)
        v->step_name = name;
    return v->step_name;
}

static bool add_piece(struct view *v, const struct lw_critical_edge *edge, bool by_name,
                      struct lw_error *err)
{
    struct sum key = { .name = LW_NONE, .bound = bound_of(v, edge) };
    int64_t time = lw_critical_weight(&v->c, edge);
    uint64_t hash;
    uint32_t number;

    v->total += time;
    v->bounds[key.bound] += time;
    if (key.bound == LW_BOUND_NOTHING)
        return true;
    if (by_name && edge->event != LW_NONE)
        key.name = name_of(v, edge->event);
    hash = lw_hash_u64((uint64_t)key.name << 8 | key.bound);
    number = lw_map_find(&v->map, hash, same_sum, v, &key);
    if (!number) {
        if (!lw_grow(&v->sums, &v->sum_capacity, v->sum_count + 1, sizeof(key), err) ||
            !lw_map_add(&v->map, hash, (uint32_t)v->sum_count + 1, err))
            return false;
        v->sums[v->sum_count] = key;
        number = (uint32_t)++v->sum_count;
    }
    v->sums[number - 1].time += time;
    v->sums[number - 1].count++;
    return true;
}

static int compare_sums(const void *x, const void *y)
{
    const struct sum *a = x, *b = y;

    if (a->time != b->time)
        return a->time > b->time ? -1 : 1;
    if (a->bound != b->bound)
        return a->bound < b->bound ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

static bool add_up(struct view *v, bool by_name, struct lw_error *err)
{
    for (size_t i = 0; i < v->c.path_count; i++)
        if (!add_piece(v, &v->c.edges[v->c.path[i]], by_name, err))
            return false;
    if (v->sum_count > 1)
        qsort(v->sums, v->sum_count, sizeof(*v->sums), compare_sums);
    return true;
}

/* ---- rows --------------------------------------------------------------------------- */

static void add_word(struct lw_table *table, const char *word)
{
    if (*word)
        lw_table_add_text(table, word, strlen(word));
    else
        lw_table_add_none(table);
}

static void add_string(const struct view *v, struct lw_table *table, lw_string_id text)
{
    lw_table_add_text(table, lw_profile_text(v->c.profile, text),
                      lw_strings_len(v->c.profile->strings, text));
}

/* Of pieces of that name; LW_NONE: they are in no event, but of the main thread. */
static void add_name(const struct view *v, struct lw_table *table, uint32_t name,
                     enum lw_critical_bound bound)
{
    if (v->step_name && name == v->step_name)
        add_word(table, "ProfilerStep*");
    else if (name != LW_NONE)
        add_string(v, table, name);
    else if (bound == LW_BOUND_HOST)
        add_word(table, "(outside of all ops)");
    else
        lw_table_add_none(table);
}

static void add_sums(const struct view *v, bool by_name, struct lw_table *table)
{
    for (size_t i = 0; i < v->sum_count; i++) {
        const struct sum *sum = &v->sums[i];

        lw_table_row(table, 0);
        lw_table_add_integer(table, as_ns(v, sum->time));
        lw_analysis_add_share(table, (double)sum->time, (double)v->total);
        lw_table_add_integer(table, sum->count);
        if (by_name)
            add_name(v, table, sum->name, sum->bound);
        add_word(table, bound_word(v, sum->bound));
    }
}

/* "stream 7 of GPU 0", or the thread's own name. */
static void add_track(const struct view *v, const struct lw_critical_edge *edge,
                      struct lw_table *table)
{
    const struct lw_trace *trace = v->c.trace;
    uint32_t event = edge->event == LW_NONE ? edge->from / 2 : edge->event;
    const struct lw_track *track = &trace->tracks[trace->events[event].track];
    struct lw_buf text;

    lw_buf_init(&text, 0);
    if (track->is_device)
        lw_buf_addf(&text, "GPU %d stream %lld", (int)track->device,
                    (long long)track->number);
    else
        lw_buf_addf(&text, "thread %s", lw_profile_text(v->c.profile, track->tid));
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

/* When the path begins, or the range that it is of. */
static int64_t begin_of(const struct view *v)
{
    if (v->query->range)
        return v->c.window.start;
    return v->c.path_count ? v->c.times[v->c.edges[v->c.path[0]].from] : 0;
}

static void add_pieces(const struct view *v, struct lw_table *table)
{
    const struct lw_critical *c = &v->c;

    for (size_t i = 0; i < c->path_count; i++) {
        const struct lw_critical_edge *edge = &c->edges[c->path[i]];
        enum lw_critical_bound bound = bound_of(v, edge);

        lw_table_row(table, 0);
        lw_table_add_integer(table, as_ns(v, c->times[edge->from] - begin_of(v)));
        lw_table_add_integer(table, as_ns(v, lw_critical_weight(c, edge)));
        add_word(table, bound_word(v, bound));
        add_word(table, kind_words[edge->kind][c->is_hta]);
        if (edge->event != LW_NONE)
            add_string(v, table, c->trace->events[edge->event].name);
        else
            add_name(v, table, LW_NONE, bound);
        add_track(v, edge, table);
        add_string(v, table, c->trace->events[edge->to / 2].name);
    }
}

/* ---- words -------------------------------------------------------------------------- */

/* "Critical path of worker0.json, 6 steps, ProfilerStep#3: 41.2 ms of 43.0 ms" */
static void set_title(const struct view *v, struct lw_table *table)
{
    const struct lw_critical *c = &v->c;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "Critical path of ");
    lw_trace_scope_add_text(&v->scope, &text);
    if (v->query->range) {
        lw_string_id name = c->trace->events[v->range.event].name;

        lw_buf_add_text(&text, ", in ");
        lw_text_add_printable(&text, lw_profile_text(c->profile, name),
                              lw_strings_len(c->profile->strings, name));
    }
    lw_buf_add_text(&text, ": ");
    lw_units_add_ns(&text, as_ns(v, v->total));
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

/* What binds it, the most first. */
static void note_bounds(const struct view *v, struct lw_table *table)
{
    int64_t left[LW_BOUND_COUNT];
    struct lw_buf text;

    memcpy(left, v->bounds, sizeof(left));
    lw_buf_init(&text, 0);
    for (;;) {
        size_t most = 0;

        for (size_t i = 1; i < LW_BOUND_COUNT; i++)
            if (left[i] > left[most])
                most = i;
        if (left[most] <= 0)
            break;
        lw_buf_addf(&text, "%s%s ", text.len ? ", " : "",
                    bound_word(v, (enum lw_critical_bound)most));
        lw_units_add_share(&text, (double)left[most] / (double)v->total);
        left[most] = 0;
    }
    if (*lw_analysis_text(table, &text))
        lw_table_note(table, "Bound by: %s.", text.bytes);
    lw_buf_release(&text);
}

static bool has_syncs(const struct lw_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].kind == LW_EVENT_SYNC)
            return true;
    return false;
}

static bool has_steps(const struct view *v)
{
    for (size_t i = 0; i < v->c.trace->event_count; i++)
        if (v->c.trace->events[i].kind == LW_EVENT_RANGE &&
            lw_trace_is_step(lw_profile_text(v->c.profile, v->c.trace->events[i].name)))
            return true;
    return false;
}

static void add_notes(const struct view *v, size_t rank_count, struct lw_table *table)
{
    if (!lw_query_is_by(v->query, "bound"))
        note_bounds(v, table);
    if (rank_count > 1)
        lw_table_note(table, "The first of %zu ranks; --rank N is of another.",
                      rank_count);
    if (v->c.is_hta && !has_syncs(v->c.trace))
        lw_table_note(
            table, "The trace has no cuda_sync events, without which this graph does "
                   "not know when the host waited for the device.");
    if (v->query->range && v->range.count > 1)
        lw_table_note(table, "This is @%llu of %zu ranges that hold that name.",
                      (unsigned long long)v->range.number, v->range.count);
    else if (!v->query->range && has_steps(v))
        lw_table_note(table, "Of one step: --range ProfilerStep#N.");
    lw_analysis_note_losses(v->c.profile, table);
}

/* ---- the view ----------------------------------------------------------------------- */

/* The first rank that is meant, and from now on the only one. */
static uint32_t first_rank(struct lw_trace_scope *scope)
{
    uint32_t rank = 0;

    while (!scope->ranks[rank])
        rank++;
    for (size_t i = rank + 1; i < scope->trace->rank_count; i++)
        scope->ranks[i] = false;
    scope->rank_count = 1;
    return rank;
}

static bool find_path(struct view *v, struct lw_error *err)
{
    struct lw_critical *c = &v->c;

    if (v->query->range && !lw_critical_choose(c, v->query->range, &v->range, err))
        return false;
    if (!(c->is_hta ? lw_critical_make_hta : lw_critical_make_own)(c, err) ||
        !lw_critical_find_path(c, err))
        return false;
    if (c->path_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there is no path: %s has no ops and no work of a device",
                       v->query->range ? "the range" : "the trace");
    v->kinds = lw_work_kinds_new(c->profile, LW_COMPAT_NONE, err);
    return v->kinds != NULL;
}

static void fill(struct view *v, struct lw_table *table)
{
    const struct lw_query *query = v->query;

    if (lw_query_is_by(query, "event")) {
        lw_table_init(table, event_columns,
                      sizeof(event_columns) / sizeof(event_columns[0]));
        add_pieces(v, table);
    } else if (lw_query_is_by(query, "bound")) {
        lw_table_init(table, bound_columns,
                      sizeof(bound_columns) / sizeof(bound_columns[0]));
        add_sums(v, false, table);
    } else {
        lw_table_init(table, op_columns, sizeof(op_columns) / sizeof(op_columns[0]));
        add_sums(v, true, table);
    }
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct view v = { .query = query };
    size_t rank_count;
    bool done;

    memset(table, 0, sizeof(*table));
    done = lw_trace_scope_init(&v.scope, profile, query, "critical", err);
    rank_count = v.scope.rank_count;
    done = done &&
           lw_critical_init(&v.c, profile, first_rank(&v.scope),
                            query->compat == LW_COMPAT_HTA, err) &&
           find_path(&v, err) && add_up(&v, !lw_query_is_by(query, "bound"), err);
    if (done) {
        fill(&v, table);
        set_title(&v, table);
        done = lw_analysis_arrange(table, query, err);
        add_notes(&v, rank_count, table);
    }
    lw_map_release(&v.map);
    lw_free(v.sums);
    lw_free(v.kinds);
    lw_critical_release(&v.c);
    lw_trace_scope_release(&v.scope);
    return done;
}

const struct lw_analysis lw_analysis_critical = {
    .name = "critical",
    .summary = "torch traces: the critical path, what bounds a step",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "op|bound|event",
    .compat = "hta",
    .takes_restrictions = true,
    .takes_range = true,
    .usual_rows = USUAL_ROWS,
    .run = run,
};
