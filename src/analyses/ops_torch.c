/* key_averages() as a table, after torch/autograd/profiler_util.py of torch 2.13.
 *
 * What it counts: every event of the host (ops, ranges, Python functions, calls into a
 * runtime, the profiler's overhead) and of devices (kernels, copies, ranges), each a
 * row of its own name. A device's time is its op's and once more its kernel's. */

#include <stdio.h>
#include <string.h>

#include "analyses/op_rows.h"
#include "analyses/ops.h"
#include "analyses/ops_columns.h"
#include "analyses/rank_info.h"
#include "base/text.h"

enum {
    HAS_DEVICE = 1,
    HAS_MEMORY = 2,
    HAS_DEVICE_MEMORY = 4,
    HAS_FLOPS = 8,
    BY_SHAPE = 16,
    BY_STACK = 32,
};

/* clang-format off */
static const struct lw_ops_column columns[] = {
    { { "key", "key", LW_UNIT_TEXT, true }, 0 },
    { { "count", "count", LW_UNIT_COUNT, false }, 0 },
    { { "self_cpu_time_total", "self CPU us", LW_UNIT_NUMBER, false }, 0 },
    { { "cpu_time_total", "CPU us", LW_UNIT_NUMBER, false }, 0 },
    { { "cpu_time", "CPU us a call", LW_UNIT_NUMBER, false }, 0 },
    { { "self_device_time_total", "self device us", LW_UNIT_NUMBER, false }, HAS_DEVICE },
    { { "device_time_total", "device us", LW_UNIT_NUMBER, false }, HAS_DEVICE },
    { { "device_time", "device us a call", LW_UNIT_NUMBER, false }, HAS_DEVICE },
    { { "self_cpu_memory_usage", "self CPU memory", LW_UNIT_BYTES, false }, HAS_MEMORY },
    { { "cpu_memory_usage", "CPU memory", LW_UNIT_BYTES, false }, HAS_MEMORY },
    { { "self_device_memory_usage", "self device memory", LW_UNIT_BYTES, false },
      HAS_MEMORY | HAS_DEVICE_MEMORY },
    { { "device_memory_usage", "device memory", LW_UNIT_BYTES, false },
      HAS_MEMORY | HAS_DEVICE_MEMORY },
    { { "flops", "FLOPs", LW_UNIT_COUNT, false }, HAS_FLOPS },
    { { "input_shapes", "shapes", LW_UNIT_TEXT, true }, BY_SHAPE },
    { { "stack", "stack", LW_UNIT_TEXT, true }, BY_STACK },
    { { "device_type", "device", LW_UNIT_TEXT, false }, 0 },
    { { "kind", "kind", LW_UNIT_TEXT, false }, 0 },
};
/* clang-format on */

struct showing {
    const struct lw_trace_scope *scope;
    struct lw_op_rows rows;
    unsigned has;
    struct lw_table *table;
};

/* Does the file of any rank that is meant say KEY: 1? */
static bool says(const struct lw_trace_scope *scope, const char *key)
{
    for (size_t i = 0; i < scope->trace->rank_count; i++)
        if (scope->ranks[i] && lw_rank_says(scope->profile, i, key, "1"))
            return true;
    return false;
}

/* torch's name of where an event ran. AMD's GPUs are CUDA there, too. */
static const char *device_type(const struct showing *s, const struct lw_op_row *row)
{
    const char *category = lw_profile_text(
        s->scope->profile, s->scope->trace->events[row->first].category);

    if (row->kind < LW_EVENT_KERNEL)
        return "CPU";
    if (lw_text_starts(category, "xpu"))
        return "XPU";
    if (lw_text_starts(category, "mtia"))
        return "MTIA";
    return lw_text_starts(category, "privateuse1") ? "PRIVATEUSE1" : "CUDA";
}

static const char *kind_word(const struct lw_op_row *row)
{
    switch (row->kind) {
    case LW_EVENT_OP: return "op";
    case LW_EVENT_RANGE:
    case LW_EVENT_DEVICE_RANGE: return "range";
    case LW_EVENT_PYTHON: return "python";
    case LW_EVENT_RUNTIME: return "call";
    case LW_EVENT_OVERHEAD: return "overhead";
    case LW_EVENT_MEMCPY: return "memcpy";
    case LW_EVENT_MEMSET: return "memset";
    default: return "kernel";
    }
}

/* "" where there is none, as torch has it. */
static void add_place(const struct showing *s, const struct lw_op_row *row)
{
    lw_table_add_text(s->table, lw_strings_text(s->rows.texts, row->place),
                      lw_strings_len(s->rows.texts, row->place));
}

static void add_row(const struct showing *s, const struct lw_op_row *row)
{
    struct lw_table *table = s->table;
    double calls = (double)row->calls;

    lw_table_row(table, 0);
    lw_ops_add_name(table, s->scope->profile, row);
    lw_table_add_integer(table, (int64_t)row->calls);
    lw_table_add_number(table, row->host_self_us);
    lw_table_add_number(table, row->host_us);
    lw_table_add_number(table, row->host_us / calls);
    if (s->has & HAS_DEVICE) {
        lw_table_add_number(table, (double)row->device_self_ns / 1000);
        lw_table_add_number(table, (double)row->device_ns / 1000);
        lw_table_add_number(table, (double)row->device_ns / 1000 / calls);
    }
    if (s->has & HAS_MEMORY) {
        lw_table_add_integer(table, row->host_memory.self_bytes);
        lw_table_add_integer(table, row->host_memory.total_bytes);
    }
    if (s->has & HAS_MEMORY && s->has & HAS_DEVICE_MEMORY) {
        lw_table_add_integer(table, row->device_memory.self_bytes);
        lw_table_add_integer(table, row->device_memory.total_bytes);
    }
    if (s->has & HAS_FLOPS)
        lw_table_add_integer(table, (int64_t)row->flops);
    if (s->has & (BY_SHAPE | BY_STACK))
        add_place(s, row);
    lw_ops_add_word(table, device_type(s, row));
    lw_ops_add_word(table, kind_word(row));
}

static void find_what_is_there(struct showing *s)
{
    s->has |= says(s->scope, "with_flops") ? HAS_FLOPS : 0;
    s->has |= says(s->scope, "profile_memory") || s->rows.has_memory ? HAS_MEMORY : 0;
    for (size_t i = 0; i < s->rows.count; i++) {
        const struct lw_op_row *row = &s->rows.list[i];

        s->has |= row->device_self_ns ? HAS_DEVICE : 0;
        s->has |= row->device_memory.self_bytes > 0 ? HAS_DEVICE_MEMORY : 0;
    }
}

/* torch says cuda, xpu or privateuse1 for what it calls device by now. The name of the
 * column for KEY; TEXT, of SIZE bytes, is where it may be made. */
static const char *column_for(const char *key, char *text, size_t size)
{
    static const char *const devices[] = { "cuda", "xpu", "privateuse1" };

    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        const char *found = strstr(key, devices[i]);

        if (found) {
            snprintf(text, size, "%.*sdevice%s", (int)(found - key), key,
                     found + strlen(devices[i]));
            return text;
        }
    }
    return key;
}

static bool sort_rows(const struct showing *s, const struct lw_query *query,
                      struct lw_error *err)
{
    struct lw_query sorted = *query;  /* borrows what it refers to */
    char keys[LW_QUERY_KEYS_MAX][64]; /* the longest is self_privateuse1_memory_usage */

    for (size_t i = 0; i < query->column_count; i++)
        sorted.columns[i] = column_for(query->columns[i], keys[i], sizeof(keys[i]));
    return lw_analysis_arrange(s->table, &sorted, err);
}

static void set_title(const struct showing *s)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(s->scope, &text);
    lw_table_set_title(s->table, "%s: torch's key_averages(), %zu row%s",
                       lw_analysis_text(s->table, &text), s->rows.count,
                       s->rows.count == 1 ? "" : "s");
    lw_buf_release(&text);
}

bool lw_ops_torch(const struct lw_profile *profile, const struct lw_query *query,
                  bool is_exact, struct lw_table *table, struct lw_error *err)
{
    struct lw_trace_scope scope = { 0 };
    struct showing s = { .scope = &scope, .table = table };
    struct lw_op_rows_options options = {
        .kind = LW_OP_TREE_TORCH,
        .by = lw_op_rows_by(query),
        .stacks = is_exact ? LW_OP_STACKS_TORCH : LW_OP_STACKS_OWN,
        .stack_depth = query->max_depth ? query->max_depth : LW_OPS_STACK_DEPTH,
    };
    bool done;

    s.has |= options.by == LW_OP_ROWS_BY_SHAPE ? BY_SHAPE : 0;
    s.has |= options.by == LW_OP_ROWS_BY_STACK ? BY_STACK : 0;
    done = lw_trace_scope_init(&scope, profile, query, "ops", err) &&
           lw_op_rows_init(&s.rows, &scope, &options, err);
    if (done && s.rows.count == 0)
        done = lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the trace has nothing that key_averages() counts");
    if (done) {
        find_what_is_there(&s);
        done = lw_ops_columns_init(table, columns, sizeof(columns) / sizeof(columns[0]),
                                   s.has, err);
    }
    if (done) {
        set_title(&s);
        for (size_t i = 0; i < s.rows.count; i++)
            add_row(&s, &s.rows.list[i]);
        lw_analysis_note_losses(profile, table);
        done = sort_rows(&s, query, err);
    }
    lw_op_rows_release(&s.rows);
    lw_trace_scope_release(&scope);
    return done;
}
