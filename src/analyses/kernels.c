/* Which kernels took the GPU's time: by name, by the op that launched them, by the shape
 * of their launch; and copies. */

#include "analyses/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyses/kernel_ops.h"
#include "analyses/tensor_cores.h"
#include "analyses/work_kinds.h"
#include "base/alloc.h"

/* clang-format off */
#define TIMES \
    { "calls", "calls", LW_UNIT_COUNT, false }, \
    { "total_ns", "total", LW_UNIT_NS, false }, \
    { "share", "share", LW_UNIT_SHARE, false }, \
    { "mean_ns", "mean", LW_UNIT_NS, false }, \
    { "max_ns", "max", LW_UNIT_NS, false }, \
    { "min_ns", "min", LW_UNIT_NS, false }
#define METRICS \
    { "blocks_per_sm", "blocks/SM", LW_UNIT_NUMBER, false }, \
    { "occupancy_share", "occupancy", LW_UNIT_SHARE, false }
#define NAME { "name", "kernel", LW_UNIT_TEXT, true } /* the first text: patterns match it */
#define TENSOR { "tensor_cores", "tensor cores", LW_UNIT_TEXT, false }
#define OP \
    { "op", "op", LW_UNIT_TEXT, true }, \
    { "op_tensor_cores", "op could use them", LW_UNIT_TEXT, false }

static const struct lw_column name_columns[] = {
    TIMES,
    METRICS,
    NAME,
    TENSOR,
    { "kind", "kind", LW_UNIT_TEXT, false },
};

static const struct lw_column op_columns[] = {
    TIMES,
    METRICS,
    NAME,
    TENSOR,
    OP,
};

static const struct lw_column shape_columns[] = {
    TIMES,
    METRICS,
    { "registers", "registers", LW_UNIT_COUNT, false },
    { "shared_bytes", "shared", LW_UNIT_BYTES, false },
    NAME,
    TENSOR,
    OP,
    { "grid", "grid", LW_UNIT_TEXT, false },
    { "block", "block", LW_UNIT_TEXT, false },
};

static const struct lw_column hta_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    TIMES,
    { "sd_ns", "sd", LW_UNIT_NS, false },
    NAME,
    { "kind", "kind", LW_UNIT_TEXT, false },
};
/* clang-format on */

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

struct listing {
    struct lw_trace_scope scope;
    const struct lw_query *query;
    struct lw_kernel_groups groups;
    struct lw_kernel_ops ops; /* if that is asked for */
    uint8_t *kinds;           /* owned */
    double total_ns;
};

static bool has_ops(const struct lw_query *query)
{
    return lw_query_is_by(query, "op") || lw_query_is_by(query, "shape");
}

/* ---- adding up ---------------------------------------------------------------------- */

static struct lw_kernel_key key_of(struct listing *l, uint32_t index, unsigned *times)
{
    const struct lw_event *event = &l->scope.trace->events[index];
    const struct lw_work_detail *detail =
        event->detail == LW_NONE ? NULL : &l->scope.trace->works[event->detail];
    struct lw_kernel_key key;

    memset(&key, 0, sizeof(key));
    key.name = event->name;
    *times = 1;
    if (has_ops(l->query))
        key.op = lw_kernel_op(&l->ops, index, times);
    if (lw_query_is_by(l->query, "shape")) {
        key.registers = detail ? detail->registers : -1;
        key.shared_bytes = detail ? detail->shared_bytes : -1;
    }
    if (lw_query_is_by(l->query, "shape") && detail) {
        memcpy(key.grid, detail->grid, sizeof(key.grid));
        memcpy(key.block, detail->block, sizeof(key.block));
    }
    return key;
}

static int64_t length_of(const struct listing *l, const struct lw_event *event)
{
    struct lw_interval span;

    if (l->query->compat != LW_COMPAT_TB || !has_ops(l->query))
        return (int64_t)event->duration_ns;
    span = lw_tb_span(event);
    return (int64_t)(span.end_ns - span.start_ns);
}

static bool add_kernel(struct listing *l, uint32_t index, struct lw_error *err)
{
    const struct lw_event *event = &l->scope.trace->events[index];
    unsigned times;
    struct lw_kernel_key key = key_of(l, index, &times);
    struct lw_kernel_group *group;

    if (times == 0)
        return true;
    group = lw_kernel_groups_get(&l->groups, &key, err);
    if (!group)
        return false;
    if (group->calls == 0) {
        group->kind = l->kinds[index];
        group->on_tensor_cores = lw_tensor_core_kernel(
            lw_profile_text(l->scope.profile, event->name), l->query->compat);
    }
    lw_kernel_group_add(
        group, length_of(l, event),
        event->detail == LW_NONE ? NULL : &l->scope.trace->works[event->detail], times);
    return true;
}

static bool add_kernels(struct listing *l, struct lw_error *err)
{
    const struct lw_trace *trace = l->scope.trace;

    l->kinds = lw_work_kinds_new(l->scope.profile, l->query->compat, err);
    if (!l->kinds || (has_ops(l->query) &&
                      !lw_kernel_ops_init(&l->ops, &l->scope, l->query->compat, err)))
        return false;
    for (uint32_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].kind == LW_EVENT_KERNEL &&
            lw_trace_scope_has(&l->scope, &trace->events[i]) && !add_kernel(l, i, err))
            return false;
    return true;
}

/* ---- showing ------------------------------------------------------------------------ */

static void add_words(struct lw_table *table, const char *text)
{
    lw_table_add_text(table, text, strlen(text));
}

static void add_string(struct lw_table *table, const struct lw_profile *profile,
                       lw_string_id id)
{
    lw_table_add_text(table, lw_profile_text(profile, id),
                      lw_strings_len(profile->strings, id));
}

static void add_count(struct lw_table *table, int64_t count)
{
    if (count >= 0)
        lw_table_add_integer(table, count);
    else
        lw_table_add_none(table);
}

static void add_times(const struct listing *l, struct lw_table *table,
                      const struct lw_kernel_group *group)
{
    lw_table_add_integer(table, (int64_t)group->calls);
    lw_table_add_integer(table, group->total_ns);
    lw_analysis_add_share(table, (double)group->total_ns, l->total_ns);
    lw_table_add_integer(table, (int64_t)llround(group->mean_ns));
    lw_table_add_integer(table, group->max_ns);
    lw_table_add_integer(table, group->min_ns);
}

/* The plugin takes what is not told for 0. */
static void add_metrics(const struct listing *l, struct lw_table *table,
                        const struct lw_kernel_group *group)
{
    bool as_tb = l->query->compat == LW_COMPAT_TB;
    double all_ns = (double)group->total_ns;

    lw_analysis_add_share(table, group->blocks,
                          as_tb && group->blocks_ns > 0 ? all_ns : group->blocks_ns);
    lw_analysis_add_share(table, group->occupancy,
                          as_tb && group->occupancy_ns > 0 ? all_ns
                                                           : group->occupancy_ns);
}

/* "56 x 1 x 1" */
static void add_shape(struct lw_table *table, const uint32_t shape[3])
{
    struct lw_buf text;

    if (!shape[0] && !shape[1] && !shape[2]) {
        lw_table_add_none(table);
        return;
    }
    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "%" PRIu32 " x %" PRIu32 " x %" PRIu32, shape[0], shape[1],
                shape[2]);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

static void add_op(const struct listing *l, struct lw_table *table, lw_string_id op)
{
    if (op == 0) {
        lw_table_add_none(table);
        lw_table_add_none(table);
    } else if (op == LW_KERNEL_ROOT) {
        add_words(table, "CallTreeRoot");
        add_words(table, "no");
    } else {
        add_string(table, l->scope.profile, op);
        add_words(table, lw_tensor_core_op(lw_profile_text(l->scope.profile, op))
                             ? "yes"
                             : "no");
    }
}

static const char *kind_name(uint8_t kind)
{
    return kind == LW_WORK_COMMUNICATION ? "communication"
           : kind == LW_WORK_MEMORY      ? "memory"
           : kind == LW_WORK_COMPUTATION ? "computation"
                                         : "other";
}

static void add_row(const struct listing *l, struct lw_table *table,
                    const struct lw_kernel_group *group)
{
    bool as_hta = l->query->compat == LW_COMPAT_HTA;
    bool is_by_shape = lw_query_is_by(l->query, "shape");

    lw_table_row(table, 0);
    if (as_hta)
        lw_table_add_integer(
            table, lw_trace_rank_number(l->scope.trace, (uint32_t)group->key.rank));
    add_times(l, table, group);
    if (as_hta)
        lw_table_add_integer(table, (int64_t)llround(lw_kernel_group_sd(group)));
    else
        add_metrics(l, table, group);
    if (is_by_shape) {
        add_count(table, group->key.registers);
        add_count(table, group->key.shared_bytes);
    }
    add_string(table, l->scope.profile, group->key.name);
    if (!as_hta)
        add_words(table, group->on_tensor_cores ? "yes" : "no");
    if (has_ops(l->query))
        add_op(l, table, group->key.op);
    else
        add_words(table, kind_name(group->kind));
    if (is_by_shape) {
        add_shape(table, group->key.grid);
        add_shape(table, group->key.block);
    }
}

static void set_title(const struct listing *l, struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(&l->scope, &text);
    lw_table_set_title(table, "kernels by %s: %s",
                       lw_query_is_by(l->query, "op")      ? "op"
                       : lw_query_is_by(l->query, "shape") ? "op and shape of launch"
                                                           : "name",
                       lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static void show(struct listing *l, struct lw_table *table)
{
    lw_kernel_groups_sort(&l->groups);
    for (size_t i = 0; i < l->groups.count; i++)
        l->total_ns += (double)l->groups.list[i].total_ns;
    for (size_t i = 0; i < l->groups.count; i++)
        add_row(l, table, &l->groups.list[i]);
    set_title(l, table);
    lw_analysis_note_losses(l->scope.profile, table);
}

static void choose_columns(const struct lw_query *query, struct lw_table *table)
{
    if (query->compat == LW_COMPAT_HTA)
        lw_table_init(table, hta_columns, COUNT_OF(hta_columns));
    else if (lw_query_is_by(query, "op"))
        lw_table_init(table, op_columns, COUNT_OF(op_columns));
    else if (lw_query_is_by(query, "shape"))
        lw_table_init(table, shape_columns, COUNT_OF(shape_columns));
    else
        lw_table_init(table, name_columns, COUNT_OF(name_columns));
}

static bool list(struct listing *l, struct lw_table *table, struct lw_error *err)
{
    bool as_hta = l->query->compat == LW_COMPAT_HTA;

    if (as_hta && has_ops(l->query))
        return lw_fail(err, LW_ERR_USAGE,
                       "Holistic Trace Analysis has kernels --by name and copy only");
    if (as_hta ? !lw_kernels_add_hta(&l->scope, &l->groups, err) : !add_kernels(l, err))
        return false;
    if (l->groups.count == 0 && l->query->compat == LW_COMPAT_NONE)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "no kernel of a GPU is in the trace (record with "
                       "ProfilerActivity.CUDA)");
    show(l, table);
    return true;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct listing l = { .query = query };
    bool done;

    choose_columns(query, table);
    done =
        lw_trace_scope_init(&l.scope, profile, query, "kernels", err) &&
        (lw_query_is_by(query, "copy") ? lw_kernels_by_copy(&l.scope, query, table, err)
                                       : list(&l, table, err)) &&
        lw_analysis_arrange(table, query, err);
    lw_kernel_groups_release(&l.groups);
    lw_kernel_ops_release(&l.ops);
    lw_free(l.kinds);
    lw_trace_scope_release(&l.scope);
    return done;
}

const struct lw_analysis lw_analysis_kernels = {
    .name = "kernels",
    .summary =
        "which kernels and copies took the GPU's time, and which op launched them",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "name|op|shape|copy",
    .compat = "tb|hta",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
