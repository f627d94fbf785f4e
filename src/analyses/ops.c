/* Which ops took the time, on the host and on devices, and the memory.
 *
 * As torch's key_averages(), but what is no op is not in it: a range and a call into a
 * device's runtime are rows of their own kind, Python functions none. With --compat
 * tb it is the plugin's Operator view, with --compat torch (ops_torch.c) key_averages()
 * itself. A recording without a trace has what the agent saw (ops_live.c). */

#include "analyses/ops.h"

#include <inttypes.h>
#include <string.h>

#include "analyses/op_rows.h"
#include "analyses/ops_columns.h"
#include "analyses/ops_live.h"
#include "model/units.h"

enum {
    HAS_DEVICE = 1,
    HAS_MEMORY = 2,
    HAS_DEVICE_MEMORY = 4,
    HAS_FLOPS = 8,
    HAS_MORE_FLOPS = 16,
    BY_SHAPE = 32,
    BY_STACK = 64,
};

/* clang-format off */
static const struct lw_ops_column own_columns[] = {
    { { "calls", "calls", LW_UNIT_COUNT, false }, 0 },
    { { "host_self_ns", "host self", LW_UNIT_NS, false }, 0 },
    { { "host_self_share", "share", LW_UNIT_SHARE, false }, 0 },
    { { "host_total_ns", "host total", LW_UNIT_NS, false }, 0 },
    { { "device_self_ns", "device self", LW_UNIT_NS, false }, HAS_DEVICE },
    { { "device_self_share", "share", LW_UNIT_SHARE, false }, HAS_DEVICE },
    { { "device_total_ns", "device total", LW_UNIT_NS, false }, HAS_DEVICE },
    { { "tensor_core_share", "on tensor cores", LW_UNIT_SHARE, false }, HAS_DEVICE },
    { { "host_memory_self_bytes", "CPU memory self", LW_UNIT_BYTES, false }, HAS_MEMORY },
    { { "host_memory_bytes", "total", LW_UNIT_BYTES, false }, HAS_MEMORY },
    { { "device_memory_self_bytes", "GPU memory self", LW_UNIT_BYTES, false },
      HAS_DEVICE_MEMORY },
    { { "device_memory_bytes", "total", LW_UNIT_BYTES, false }, HAS_DEVICE_MEMORY },
    { { "flops", "FLOPs", LW_UNIT_COUNT, false }, HAS_FLOPS },
    { { "more_flops", "more FLOPs", LW_UNIT_COUNT, false }, HAS_MORE_FLOPS },
    { { "name", "op", LW_UNIT_TEXT, true }, 0 },
    { { "kind", "kind", LW_UNIT_TEXT, false }, 0 },
    { { "shapes", "shapes", LW_UNIT_TEXT, true }, BY_SHAPE },
    { { "stack", "called from", LW_UNIT_TEXT, true }, BY_STACK },
};

static const struct lw_ops_column tb_columns[] = {
    { { "calls", "calls", LW_UNIT_COUNT, false }, 0 },
    { { "device_self_ns", "device self", LW_UNIT_NS, false }, HAS_DEVICE },
    { { "device_total_ns", "device total", LW_UNIT_NS, false }, HAS_DEVICE },
    { { "host_self_ns", "host self", LW_UNIT_NS, false }, 0 },
    { { "host_total_ns", "host total", LW_UNIT_NS, false }, 0 },
    { { "tc_eligible", "for tensor cores", LW_UNIT_TEXT, false }, 0 },
    { { "tc_self_ratio", "on them, self", LW_UNIT_SHARE, false }, 0 },
    { { "tc_total_ratio", "total", LW_UNIT_SHARE, false }, 0 },
    { { "has_call_stack", "stack", LW_UNIT_TEXT, false }, 0 },
    { { "name", "op", LW_UNIT_TEXT, true }, 0 },
    { { "shapes", "shapes", LW_UNIT_TEXT, true }, BY_SHAPE },
    { { "stack", "called from", LW_UNIT_TEXT, true }, BY_STACK },
};
/* clang-format on */

#define COUNT_OF(list) (sizeof(list) / sizeof(list[0]))

struct showing {
    const struct lw_trace_scope *scope;
    const struct lw_query *query;
    struct lw_op_rows rows;
    unsigned has;
    struct lw_table *table;
};

static const char *kind_word(const struct lw_op_row *row)
{
    switch (row->kind) {
    case LW_EVENT_OP: return row->is_step ? "range" : "op";
    case LW_EVENT_RANGE: return "range";
    default: return "call";
    }
}

/* Shapes as they are, a stack in one line, as traces have it. */
static void add_place(const struct showing *s, const struct lw_op_row *row)
{
    const char *text = lw_strings_text(s->rows.texts, row->place);
    size_t len = lw_strings_len(s->rows.texts, row->place);
    struct lw_buf line;

    if (!(s->has & (BY_SHAPE | BY_STACK)))
        return;
    if (len == 0) {
        lw_table_add_none(s->table);
        return;
    }
    lw_buf_init(&line, 0);
    for (size_t i = 0; i < len; i++)
        lw_buf_add_char(&line, text[i] == '\n' ? ';' : text[i]);
    lw_table_add_text(s->table, lw_analysis_text(s->table, &line), line.len);
    lw_buf_release(&line);
}

static void add_memory(struct lw_table *table, const struct lw_op_memory *memory)
{
    lw_table_add_integer(table, memory->self_bytes);
    lw_table_add_integer(table, memory->total_bytes);
}

static void add_flops(struct lw_table *table, uint64_t flops)
{
    if (flops)
        lw_table_add_integer(table, (int64_t)flops);
    else
        lw_table_add_none(table);
}

static void add_own_row(const struct showing *s, const struct lw_op_row *row)
{
    struct lw_table *table = s->table;

    lw_table_row(table, 0);
    lw_table_add_integer(table, (int64_t)row->calls);
    lw_table_add_integer(table, row->host_self_ns);
    lw_analysis_add_share(table, (double)row->host_self_ns,
                          (double)s->rows.host_self_ns);
    lw_table_add_integer(table, (int64_t)row->host_ns);
    if (s->has & HAS_DEVICE) {
        lw_table_add_integer(table, (int64_t)row->device_self_ns);
        lw_analysis_add_share(table, (double)row->device_self_ns,
                              (double)s->rows.device_self_ns);
        lw_table_add_integer(table, (int64_t)row->device_ns);
        lw_analysis_add_share(table, (double)row->tc_self_ns,
                              (double)row->device_self_ns);
    }
    if (s->has & HAS_MEMORY)
        add_memory(table, &row->host_memory);
    if (s->has & HAS_DEVICE_MEMORY)
        add_memory(table, &row->device_memory);
    if (s->has & HAS_FLOPS)
        add_flops(table, row->flops);
    if (s->has & HAS_MORE_FLOPS)
        add_flops(table, row->more_flops);
    lw_ops_add_name(table, s->scope->profile, row);
    lw_ops_add_word(table, kind_word(row));
    add_place(s, row);
}

static void add_ratio(struct lw_table *table, uint64_t part, uint64_t whole)
{
    lw_table_add_number(table, whole ? (double)part / (double)whole : 0);
}

static void add_tb_row(const struct showing *s, const struct lw_op_row *row)
{
    struct lw_table *table = s->table;

    lw_table_row(table, 0);
    lw_table_add_integer(table, (int64_t)row->calls);
    if (s->has & HAS_DEVICE) {
        lw_table_add_integer(table, (int64_t)row->device_self_ns);
        lw_table_add_integer(table, (int64_t)row->device_ns);
    }
    lw_table_add_integer(table, row->host_self_ns);
    lw_table_add_integer(table, (int64_t)row->host_ns);
    lw_ops_add_word(table, row->is_for_tc ? "Yes" : "No");
    add_ratio(table, row->tc_self_ns, row->device_self_ns);
    add_ratio(table, row->tc_ns, row->device_ns);
    lw_ops_add_word(table, row->has_stack ? "Yes" : "No");
    lw_ops_add_name(table, s->scope->profile, row);
    add_place(s, row);
}

/* "worker0.json, 6 steps: 76 kinds of ops; 12.3 ms on the host, 4.56 ms on devices" */
static void set_title(const struct showing *s)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(s->scope, &text);
    lw_buf_add_text(&text, ": ");
    lw_units_add_count(&text, (int64_t)s->rows.count);
    lw_buf_addf(&text, " row%s of ops", s->rows.count == 1 ? "" : "s");
    if (s->has & BY_SHAPE)
        lw_buf_add_text(&text, " by their shapes");
    if (s->has & BY_STACK)
        lw_buf_add_text(&text, " by their callers");
    lw_buf_add_text(&text, "; ");
    lw_units_add_ns(&text, s->rows.host_self_ns);
    lw_buf_add_text(&text, " on the host");
    if (s->has & HAS_DEVICE) {
        lw_buf_add_text(&text, ", ");
        lw_units_add_ns(&text, (int64_t)s->rows.device_self_ns);
        lw_buf_add_text(&text, " on devices");
    }
    lw_table_set_title(s->table, "%s", lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

static void note_unlinked(const struct showing *s)
{
    const struct lw_op_tree *tree = &s->rows.tree;
    struct lw_buf text;

    if (tree->unlinked_count == 0)
        return;
    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)tree->unlinked_count);
    lw_buf_add_text(&text, " of ");
    lw_units_add_count(&text, (int64_t)tree->work_count);
    lw_buf_add_text(&text, tree->work_count == 1 ? " kernel or copy, "
                                                 : " kernels and copies, ");
    lw_units_add_ns(&text, (int64_t)tree->unlinked_ns);
    lw_buf_add_text(&text, ", belong to no op: ");
    lw_buf_add_text(&text,
                    s->query->compat == LW_COMPAT_TB
                        ? "the plugin goes by \"External id\", which these lack; "
                          "--compat none does not"
                        : "they were launched before the recording began, or "
                          "outside of ops.");
    lw_table_note(s->table, "%s", lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

/* "cudaGraphLaunch", "hipGraphLaunch", "cudaGraphLaunch_ptsz" ... */
static bool is_replay(const struct lw_profile *profile, const struct lw_event *event)
{
    return event->kind == LW_EVENT_RUNTIME &&
           strstr(lw_profile_text(profile, event->name), "GraphLaunch");
}

/* torch announces ops when a graph is captured, and none when it is replayed. */
static void note_replays(const struct showing *s)
{
    const struct lw_trace *trace = s->scope->trace;
    uint64_t replays = 0, works = 0, ns = 0;
    struct lw_buf text;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        if (!lw_trace_scope_has(s->scope, event))
            continue;
        if (is_replay(s->scope->profile, event)) {
            replays++;
        } else if (lw_trace_is_launched(trace, i) &&
                   is_replay(s->scope->profile, &trace->events[event->parent])) {
            works++;
            ns += event->duration_ns;
        }
    }
    if (replays == 0)
        return;
    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)replays);
    lw_buf_addf(&text, " replay%s of device graphs ran ", replays == 1 ? "" : "s");
    lw_units_add_count(&text, (int64_t)works);
    lw_buf_addf(&text, " piece%s of work, ", works == 1 ? "" : "s");
    lw_units_add_ns(&text, (int64_t)ns);
    lw_buf_add_text(&text, ": a replay has no ops of its own, so that time is in "
                           "the op or range that asked for it, if there is one.");
    lw_table_note(s->table, "%s", lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

static uint64_t stack_depth(const struct lw_query *query)
{
    return query->max_depth ? query->max_depth : LW_OPS_STACK_DEPTH;
}

static void add_notes(const struct showing *s)
{
    note_unlinked(s);
    lw_analysis_note_losses(s->scope->profile, s->table);
    if (s->query->compat != LW_COMPAT_NONE)
        return;
    note_replays(s);
    if (s->has & BY_STACK)
        lw_table_note(s->table,
                      "Ops are told apart by the innermost %" PRIu64
                      " functions that called them (--depth N); backward ops by those "
                      "of their forward op.",
                      stack_depth(s->query));
    if (s->has & HAS_MORE_FLOPS)
        lw_table_note(s->table,
                      "more FLOPs: of backward convolutions, attention and what else "
                      "torch does not count.");
    if (!s->rows.has_shapes)
        lw_table_note(s->table,
                      "No FLOPs: shapes were not recorded (record_shapes=True).");
    if (s->scope->rank_count > 1)
        lw_table_note(s->table, "Of all ranks together; --rank N shows one.");
}

static bool has_python(const struct lw_trace_scope *scope)
{
    for (size_t i = 0; i < scope->trace->event_count; i++)
        if (scope->trace->events[i].kind == LW_EVENT_PYTHON)
            return true;
    return false;
}

/* What was asked must be there to be shown. */
static bool check_rows(const struct showing *s, struct lw_error *err)
{
    size_t ops = 0;

    for (size_t i = 0; i < s->rows.count; i++)
        ops += s->rows.list[i].kind != LW_EVENT_RUNTIME;
    if (ops == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the trace has no ops of a host (record with "
                       "ProfilerActivity.CPU); 'report kernels' shows what ran on "
                       "devices");
    if (s->query->compat != LW_COMPAT_NONE)
        return true;
    if (s->has & BY_SHAPE && !s->rows.has_shapes)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the trace has no shapes of ops: record it with "
                       "record_shapes=True");
    if (s->has & BY_STACK && !s->rows.has_stacks && !has_python(s->scope))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the trace has no stacks of ops: record it with "
                       "with_stack=True");
    return true;
}

static void find_what_is_there(struct showing *s)
{
    s->has |= s->rows.has_device ? HAS_DEVICE : 0;
    s->has |= s->rows.has_device_memory ? HAS_DEVICE_MEMORY : 0;
    for (size_t i = 0; i < s->rows.count; i++) {
        s->has |= s->rows.list[i].host_memory.self_bytes ? HAS_MEMORY : 0;
        s->has |= s->rows.list[i].flops ? HAS_FLOPS : 0;
        s->has |= s->rows.list[i].more_flops ? HAS_MORE_FLOPS : 0;
    }
}

static bool make_table(const struct showing *s, struct lw_error *err)
{
    bool is_tb = s->query->compat == LW_COMPAT_TB;
    struct lw_query query = *s->query; /* borrows what it refers to */

    if (!lw_ops_columns_init(s->table, is_tb ? tb_columns : own_columns,
                             is_tb ? COUNT_OF(tb_columns) : COUNT_OF(own_columns),
                             s->has, err))
        return false;
    set_title(s);
    for (size_t i = 0; i < s->rows.count; i++)
        (is_tb ? add_tb_row : add_own_row)(s, &s->rows.list[i]);
    add_notes(s);
    if (query.column_count == 0)
        query.columns[query.column_count++] =
            s->has & HAS_DEVICE ? "device_self_ns" : "host_self_ns";
    return lw_analysis_arrange(s->table, &query, err);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_trace_scope scope = { 0 };
    struct showing s = { .scope = &scope, .query = query, .table = table };
    struct lw_op_rows_options options = {
        .kind = query->compat == LW_COMPAT_TB ? LW_OP_TREE_TB : LW_OP_TREE_OWN,
        .by = lw_op_rows_by(query),
        .stack_depth = stack_depth(query),
    };
    bool done;

    if (lw_ops_are_live(profile))
        return lw_ops_live(profile, query, table, err);
    if (lw_query_is_by(query, "phase"))
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "phases of a step are known of runs that lapwing recorded, not of "
            "this file");
    if (lw_query_is_by(query, "forward"))
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "backward ops by their forward op are known of runs that lapwing "
            "recorded; of a trace, --by stack shows them by the lines of "
            "their forward op");
    if (query->compat == LW_COMPAT_TORCH)
        return lw_ops_torch(profile, query, true, table, err);
    s.has |= options.by == LW_OP_ROWS_BY_SHAPE ? BY_SHAPE : 0;
    s.has |= options.by == LW_OP_ROWS_BY_STACK ? BY_STACK : 0;
    done = lw_trace_scope_init(&scope, profile, query, "ops", err) &&
           lw_op_rows_init(&s.rows, &scope, &options, err) && check_rows(&s, err);
    if (done) {
        find_what_is_there(&s);
        done = make_table(&s, err);
    }
    lw_op_rows_release(&s.rows);
    lw_trace_scope_release(&scope);
    return done;
}

const struct lw_analysis lw_analysis_ops = {
    .name = "ops",
    .summary = "which ops took the time, on the host and on devices, and the memory",
    .want = LW_WANT_TRACE | LW_WANT_OPS | LW_WANT_PHASES | LW_WANT_COUNTERS,
    .sorts_columns = true,
    .by = "name|shape|stack|phase|forward",
    .deep_by = "forward",
    .deep_want = LW_WANT_ORIGINS,
    .compat = "tb|torch",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
