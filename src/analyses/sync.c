/* Which line waits for the GPU: calls in which the host stood until the device was done,
 * who asked for them, and what they waited for (analyses/waits.h). */

#include <stdlib.h>
#include <string.h>

#include "analyses/askers.h"
#include "analyses/trace_scope.h"
#include "analyses/waits.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/units.h"

#define USUAL_ROWS 20

/* clang-format off */
static const struct lw_column line_columns[] = {
    { "waited_ns", "waited", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "count", "times", LW_UNIT_COUNT, false },
    { "max_ns", "longest", LW_UNIT_NS, false },
    { "line", "line", LW_UNIT_TEXT, true },
    { "op", "op", LW_UNIT_TEXT, true },
    { "call", "call", LW_UNIT_TEXT, false },
    { "work", "waited for (the longest)", LW_UNIT_TEXT, true },
};
static const struct lw_column op_columns[] = {
    { "waited_ns", "waited", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "count", "times", LW_UNIT_COUNT, false },
    { "max_ns", "longest", LW_UNIT_NS, false },
    { "op", "op", LW_UNIT_TEXT, true },
    { "call", "call", LW_UNIT_TEXT, false },
    { "work", "waited for (the longest)", LW_UNIT_TEXT, true },
};
static const struct lw_column call_columns[] = {
    { "waited_ns", "waited", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "count", "times", LW_UNIT_COUNT, false },
    { "max_ns", "longest", LW_UNIT_NS, false },
    { "call", "call", LW_UNIT_TEXT, false },
    { "work", "waited for (the longest)", LW_UNIT_TEXT, true },
};
static const struct lw_column wait_columns[] = {
    { "start_ns", "at", LW_UNIT_NS, false },
    { "waited_ns", "waited", LW_UNIT_NS, false },
    { "line", "line", LW_UNIT_TEXT, true },
    { "op", "op", LW_UNIT_TEXT, true },
    { "call", "call", LW_UNIT_TEXT, false },
    { "work", "waited for", LW_UNIT_TEXT, true },
};
/* clang-format on */

/* What rows may be. */
static const struct form {
    const char *by;
    const struct lw_column *columns;
    size_t column_count;
    bool has_line, has_op, is_each; /* each wait by itself */
} forms[] = {
#define COLUMNS(list) list, sizeof(list) / sizeof((list)[0])
    { "line", COLUMNS(line_columns), true, true, false },
    { "op", COLUMNS(op_columns), false, true, false },
    { "call", COLUMNS(call_columns), false, false, false },
    { "wait", COLUMNS(wait_columns), true, true, true },
#undef COLUMNS
};
#define FORM_COUNT (sizeof(forms) / sizeof(forms[0]))

/* Waits that are alike; one alone, if each is asked for. */
struct group {
    const struct lw_wait *longest; /* the first of them, if each is as long */
    const char *line;              /* borrowed; of LINE_LEN bytes, 0: not known */
    size_t line_len;
    bool is_backward; /* the line is that of the op that it is the backward of */
    uint32_t outer;   /* index of the outermost op that it is in; LW_NONE: none */
    uint32_t inner;   /* and of the innermost */
    uint64_t waited_ns;
    int64_t count;
};

struct view {
    const struct form *form;
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_trace_scope scope;
    struct lw_waits waits;
    struct lw_askers askers;
    uint32_t *outers;     /* owned: of each event the outermost op; LW_NONE */
    uint32_t *forwards;   /* owned: of each event in a backward pass the forward op that
                             it answers; LW_NONE */
    struct group *groups; /* owned */
    size_t group_count, group_capacity;
    struct lw_map map;    /* of groups */
    uint64_t waited_ns;   /* in all */
    uint64_t runtime_ns;  /* time in the runtime, all calls */
    size_t wait_count;    /* in the ranks that are meant */
    size_t in_vain_count; /* of those that had nothing to wait for */
};

/* ---- who asked ---------------------------------------------------------------------- */

/* A parent on its track is before an event, so one pass does it. */
static bool find_origins(struct view *v, struct lw_error *err)
{
    const struct lw_trace *trace = v->trace;
    size_t size = trace->event_count * sizeof(uint32_t) + 1;

    v->outers = lw_alloc(size, err);
    v->forwards = v->outers ? lw_alloc(size, err) : NULL;
    if (!v->forwards)
        return false;
    memset(v->forwards, 0xff, size); /* LW_NONE */
    for (size_t i = 0; i < trace->flow_count; i++)
        v->forwards[trace->flows[i].backward] = trace->flows[i].forward;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t parent = lw_event_is_on_device(event) ? LW_NONE : event->parent;

        v->outers[i] = parent == LW_NONE ? LW_NONE : v->outers[parent];
        if (v->outers[i] == LW_NONE && event->kind == LW_EVENT_OP)
            v->outers[i] = i;
        if (v->forwards[i] == LW_NONE && parent != LW_NONE)
            v->forwards[i] = v->forwards[parent];
    }
    return true;
}

static struct group make_group(const struct view *v, const struct lw_wait *wait)
{
    uint32_t forward = v->forwards[wait->call];
    struct group group = { .longest = wait,
                           .outer = v->outers[wait->call],
                           .inner = v->askers.ops[wait->call],
                           .waited_ns = v->trace->events[wait->call].duration_ns,
                           .count = 1 };

    group.line_len = lw_askers_line(&v->askers, wait->call, &group.line);
    if (group.line_len == 0 && forward != LW_NONE) {
        group.line_len = lw_askers_line(&v->askers, forward, &group.line);
        group.is_backward = group.line_len > 0;
    }
    return group;
}

/* ---- adding up ---------------------------------------------------------------------- */

/* Of an op, which may be none. */
static lw_string_id name_of(const struct view *v, uint32_t event)
{
    return event == LW_NONE ? 0 : v->trace->events[event].name;
}

static bool same_group(const void *owner, uint32_t number, const void *key)
{
    const struct view *v = owner;
    const struct group *a = &v->groups[number - 1], *b = key;

    return name_of(v, a->longest->call) == name_of(v, b->longest->call) &&
           name_of(v, a->inner) == name_of(v, b->inner) &&
           name_of(v, a->outer) == name_of(v, b->outer) &&
           a->is_backward == b->is_backward && a->line_len == b->line_len &&
           (a->line_len == 0 || memcmp(a->line, b->line, a->line_len) == 0);
}

static bool add_group(struct view *v, const struct group *group, struct lw_error *err)
{
    if (!lw_grow(&v->groups, &v->group_capacity, v->group_count + 1, sizeof(*group),
                 err))
        return false;
    v->groups[v->group_count++] = *group;
    return true;
}

static bool add_wait(struct view *v, const struct lw_wait *wait, struct lw_error *err)
{
    struct group group = make_group(v, wait);
    struct group *known;
    uint64_t hash;
    uint32_t number;

    v->waited_ns += group.waited_ns;
    v->wait_count++;
    v->in_vain_count += wait->work == LW_NONE;
    if (v->form->is_each)
        return add_group(v, &group, err);
    if (!v->form->has_line)
        group.line_len = group.is_backward = 0;
    if (!v->form->has_op)
        group.inner = group.outer = LW_NONE;
    hash =
        lw_hash_bytes(group.line, group.line_len) ^
        lw_hash_u64((uint64_t)name_of(v, wait->call) << 32 | name_of(v, group.inner)) ^
        name_of(v, group.outer);
    number = lw_map_find(&v->map, hash, same_group, v, &group);
    if (!number)
        return add_group(v, &group, err) &&
               lw_map_add(&v->map, hash, (uint32_t)v->group_count, err);
    known = &v->groups[number - 1];
    if (group.waited_ns > v->trace->events[known->longest->call].duration_ns)
        known->longest = wait;
    known->waited_ns += group.waited_ns;
    known->count++;
    return true;
}

/* The longest first. */
static int compare_groups(const void *x, const void *y)
{
    const struct group *a = x, *b = y;

    if (a->waited_ns != b->waited_ns)
        return a->waited_ns > b->waited_ns ? -1 : 1;
    return a->longest < b->longest ? -1 : a->longest > b->longest;
}

static bool add_up(struct view *v, struct lw_error *err)
{
    for (size_t i = 0; i < v->waits.count; i++) {
        const struct lw_wait *wait = &v->waits.list[i];

        if (lw_trace_scope_has(&v->scope, &v->trace->events[wait->call]) &&
            !add_wait(v, wait, err))
            return false;
    }
    for (size_t i = 0; i < v->trace->event_count; i++)
        if (v->trace->events[i].kind == LW_EVENT_RUNTIME &&
            lw_trace_scope_has(&v->scope, &v->trace->events[i]))
            v->runtime_ns += v->trace->events[i].duration_ns;
    if (v->group_count > 1)
        qsort(v->groups, v->group_count, sizeof(*v->groups), compare_groups);
    return true;
}

/* ---- rows --------------------------------------------------------------------------- */

static void add_name(const struct view *v, struct lw_table *table, uint32_t event)
{
    lw_string_id name = name_of(v, event);

    if (name)
        lw_table_add_text(table, lw_profile_text(v->profile, name),
                          lw_strings_len(v->profile->strings, name));
    else
        lw_table_add_none(table);
}

static void add_line(const struct group *group, struct lw_table *table)
{
    struct lw_buf text;

    if (group->line_len == 0) {
        lw_table_add_none(table);
        return;
    }
    lw_buf_init(&text, 0);
    if (group->is_backward)
        lw_buf_add_text(&text, "backward of ");
    lw_buf_add(&text, group->line, group->line_len);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

/* "aten::item > aten::_local_scalar_dense" */
static void add_ops(const struct view *v, const struct group *group,
                    struct lw_table *table)
{
    struct lw_buf text;

    if (name_of(v, group->outer) == name_of(v, group->inner)) {
        add_name(v, table, group->inner);
        return;
    }
    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "%s > %s", lw_profile_text(v->profile, name_of(v, group->outer)),
                lw_profile_text(v->profile, name_of(v, group->inner)));
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

static void add_rows(const struct view *v, struct lw_table *table)
{
    for (size_t i = 0; i < v->group_count; i++) {
        const struct group *group = &v->groups[i];
        const struct lw_event *call = &v->trace->events[group->longest->call];

        lw_table_row(table, 0);
        if (v->form->is_each)
            lw_table_add_integer(table, (int64_t)call->start_ns);
        lw_table_add_integer(table, (int64_t)group->waited_ns);
        if (!v->form->is_each) {
            lw_analysis_add_share(table, (double)group->waited_ns,
                                  (double)v->waited_ns);
            lw_table_add_integer(table, group->count);
            lw_table_add_integer(table, (int64_t)call->duration_ns);
        }
        if (v->form->has_line)
            add_line(group, table);
        if (v->form->has_op)
            add_ops(v, group, table);
        add_name(v, table, group->longest->call);
        add_name(v, table, group->longest->kernel);
    }
}

/* ---- words -------------------------------------------------------------------------- */

/* "45 waits for the GPU, 1.23 s, 56.0 % of the time in its runtime: worker0.json, ..." */
static void set_title(const struct view *v, struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)v->wait_count);
    lw_buf_addf(&text, " wait%s for a GPU", v->wait_count == 1 ? "" : "s");
    if (v->wait_count > 0) {
        lw_buf_add_text(&text, ", ");
        lw_units_add_ns(&text, (int64_t)v->waited_ns);
        if (v->runtime_ns > 0) {
            lw_buf_add_text(&text, ", ");
            lw_units_add_share(&text, (double)v->waited_ns / (double)v->runtime_ns);
            lw_buf_add_text(&text, " of the time in its runtime");
        }
    }
    lw_buf_add_text(&text, ": ");
    lw_trace_scope_add_text(&v->scope, &text);
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static bool has_lines(const struct view *v)
{
    for (size_t i = 0; i < v->group_count; i++)
        if (v->groups[i].line_len > 0)
            return true;
    return false;
}

static void add_notes(const struct view *v, struct lw_table *table)
{
    if (v->wait_count == 0)
        lw_table_note(table, "No call of the host stood waiting for a device.");
    if (v->in_vain_count > 0)
        lw_table_note(table,
                      "%zu of them had nothing to wait for, or the trace does not "
                      "show what.",
                      v->in_vain_count);
    if (v->wait_count > 0 && v->form->has_line && !has_lines(v))
        lw_table_note(table, "The trace does not say which lines: record it with "
                             "with_stack=True.");
    lw_analysis_note_losses(v->profile, table);
}

/* ---- the view ----------------------------------------------------------------------- */

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct view v = { .form = forms, .profile = profile, .trace = profile->trace };
    bool done;

    for (size_t i = 0; i < FORM_COUNT; i++)
        if (lw_query_is_by(query, forms[i].by))
            v.form = &forms[i];
    lw_table_init(table, v.form->columns, v.form->column_count);
    done = lw_trace_scope_init(&v.scope, profile, query, "sync", err) &&
           lw_trace_scope_wants_device(&v.scope, "sync", err) &&
           lw_waits_init(&v.waits, profile, err) &&
           lw_askers_init(&v.askers, profile, err) && find_origins(&v, err) &&
           add_up(&v, err);
    if (done) {
        set_title(&v, table);
        add_rows(&v, table);
        done = lw_analysis_arrange(table, query, err);
        add_notes(&v, table);
    }
    lw_map_release(&v.map);
    lw_free(v.groups);
    lw_free(v.outers);
    lw_free(v.forwards);
    lw_askers_release(&v.askers);
    lw_waits_release(&v.waits);
    lw_trace_scope_release(&v.scope);
    return done;
}

const struct lw_analysis lw_analysis_sync = {
    .name = "sync",
    .summary = "torch traces: which line waits for the GPU, and what for",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "line|op|call|wait",
    .takes_restrictions = true,
    .usual_rows = USUAL_ROWS,
    .run = run,
};
