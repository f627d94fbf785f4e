/* Where the time went, module by module: the tree of nn.Module calls.
 *
 *     Net_0                  a row is a module as called along this path
 *       Conv2d_0
 *       BatchNorm2d_0
 *
 * A module's own time on the host is what is in none of the modules and ops that it
 * calls; its own work on devices is what ops launched that no inner module called. What
 * runs in the backward pass is no module's call; the flow from an op to its gradient says
 * whose it is. (torch_tb_profiler does not know it, and adds up a module over all
 * places that it is called from: --compat tb.) */

#include <stdlib.h>
#include <string.h>

#include "analyses/op_tree.h"
#include "analyses/ops_columns.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/units.h"

enum {
    HAS_DEVICE = 1,
    HAS_BACKWARD = 2,
    IS_OWN = 4,
    IS_TB = 8,
};

/* clang-format off */
static const struct lw_ops_column columns[] = {
    { { "name", "module", LW_UNIT_TEXT, true }, 0 },
    { { "occurrences", "calls", LW_UNIT_COUNT, false }, 0 },
    { { "operators", "ops", LW_UNIT_COUNT, false }, 0 },
    { { "host_total_ns", "host total", LW_UNIT_NS, false }, 0 },
    { { "host_self_ns", "self", LW_UNIT_NS, false }, 0 },
    { { "host_mean_ns", "a call", LW_UNIT_NS, false }, IS_OWN },
    { { "device_total_ns", "device total", LW_UNIT_NS, false }, HAS_DEVICE },
    { { "device_self_ns", "self", LW_UNIT_NS, false }, HAS_DEVICE },
    { { "device_mean_ns", "a call", LW_UNIT_NS, false }, HAS_DEVICE | IS_OWN },
    { { "mean_ns", "a call", LW_UNIT_NS, false }, IS_TB },
    { { "backward_host_ns", "backward host", LW_UNIT_NS, false }, HAS_BACKWARD },
    { { "backward_device_ns", "device", LW_UNIT_NS, false }, HAS_BACKWARD | HAS_DEVICE },
    { { "module_id", "id", LW_UNIT_COUNT, false }, 0 },
};
/* clang-format on */

struct costs {
    uint64_t calls;
    uint64_t ops; /* that it calls itself */
    uint64_t host_ns;
    int64_t host_self_ns;
    uint64_t device_ns, device_self_ns;
    uint64_t backward_host_ns, backward_device_ns;
};

struct module {
    uint32_t parent; /* row; LW_NONE: none. Smaller than its own number */
    lw_string_id name;
    int64_t id;                             /* -1: Lightning's have none */
    uint32_t first_child, last_child, next; /* rows */
    struct costs costs;
};

struct modules {
    const struct lw_trace_scope *scope;
    const struct lw_query *query;
    struct lw_op_tree tree;
    struct module *list; /* owned; in the order in which they were first called */
    size_t count, capacity;
    struct lw_map map; /* index + 1 */
    uint32_t *rows; /* owned: of each event, the row of the module that it is, or is in;
                          LW_NONE: none */
    unsigned has;
};

/* Rows */

static uint64_t hash_module(const struct module *module)
{
    return lw_hash_u64(((uint64_t)module->parent << 32 | module->name) +
                       (uint64_t)module->id * 31);
}

static bool is_module(const void *owner, uint32_t number, const void *key)
{
    const struct modules *m = owner;
    const struct module *a = &m->list[number - 1], *b = key;

    return a->parent == b->parent && a->name == b->name && a->id == b->id;
}

static bool get_module(struct modules *m, const struct module *key, uint32_t *row,
                       struct lw_error *err)
{
    uint32_t found = lw_map_find(&m->map, hash_module(key), is_module, m, key);

    if (found) {
        *row = found - 1;
        return true;
    }
    if (!lw_grow(&m->list, &m->capacity, m->count + 1, sizeof(*m->list), err) ||
        !lw_map_add(&m->map, hash_module(key), (uint32_t)m->count + 1, err))
        return false;
    *row = (uint32_t)m->count;
    m->list[m->count++] = *key;
    return true;
}

static int64_t module_id(const struct modules *m, const struct lw_event *event)
{
    return event->kind == LW_EVENT_PYTHON && event->detail != LW_NONE
               ? m->scope->trace->pythons[event->detail].module_id
               : -1;
}

static bool is_op(const struct modules *m, const struct lw_event *event)
{
    return m->tree.kind == LW_OP_TREE_TB ? lw_op_tree_is_tb_op(&m->tree, event)
                                         : event->kind == LW_EVENT_OP;
}

static void add_call(struct modules *m, uint32_t event, struct module *module)
{
    const struct lw_op_node *node = &m->tree.nodes[event];

    module->costs.calls++;
    module->costs.host_ns += node->host_ns;
    module->costs.host_self_ns =
        lw_op_plus(module->costs.host_self_ns, node->host_self_ns);
    module->costs.device_ns += node->device_ns;
    module->costs.device_self_ns += node->device_self_ns;
}

/* Which module each event is or is in; from parents to children. */
static bool find_modules(struct modules *m, struct lw_error *err)
{
    const struct lw_trace *trace = m->scope->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        const struct lw_op_node *node = &m->tree.nodes[i];
        uint32_t in = node->parent != LW_NONE ? m->rows[node->parent] : LW_NONE;
        struct module key = { .parent = in,
                              .name = event->name,
                              .id = module_id(m, event),
                              .first_child = LW_NONE,
                              .last_child = LW_NONE,
                              .next = LW_NONE };

        m->rows[i] = in;
        if (!node->is_in)
            continue;
        if (lw_op_tree_is_module(&m->tree, event)) {
            if (!get_module(m, &key, &m->rows[i], err))
                return false;
            add_call(m, i, &m->list[m->rows[i]]);
        } else if (in != LW_NONE && is_op(m, event) &&
                   lw_op_tree_is_module(&m->tree, &trace->events[node->parent])) {
            m->list[in].costs.ops++;
            m->list[in].costs.device_self_ns += node->device_ns;
        }
    }
    return true;
}

/* The engine's op around OP, which has what else it does for it. */
static uint32_t engine_op(const struct modules *m, uint32_t op)
{
    const struct lw_event *events = m->scope->trace->events;
    uint32_t parent = m->tree.nodes[op].parent;

    return parent != LW_NONE && lw_text_starts(lw_profile_text(m->scope->profile,
                                                               events[parent].name),
                                               "autograd::engine::evaluate_function")
               ? parent
               : op;
}

static void add_backward(struct modules *m)
{
    const struct lw_trace *trace = m->scope->trace;

    for (size_t i = 0; i < trace->flow_count; i++) {
        uint32_t row = m->rows[trace->flows[i].forward];
        uint32_t op = trace->flows[i].backward;

        if (row == LW_NONE || !m->tree.nodes[op].is_in)
            continue;
        op = engine_op(m, op);
        m->list[row].costs.backward_host_ns += m->tree.nodes[op].host_ns;
        m->list[row].costs.backward_device_ns += m->tree.nodes[op].device_ns;
        m->has |= HAS_BACKWARD;
    }
    for (size_t i = m->count; i-- > 0;) {
        const struct module *module = &m->list[i];

        if (module->parent == LW_NONE)
            continue;
        m->list[module->parent].costs.backward_host_ns +=
            module->costs.backward_host_ns;
        m->list[module->parent].costs.backward_device_ns +=
            module->costs.backward_device_ns;
    }
}

/* For the plugin: every row of a module has the sums of all of them. */
static bool add_up_places(struct modules *m, struct lw_error *err)
{
    struct modules sums = { .scope = m->scope };
    bool done = true;
    uint32_t row;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; done && i < m->count; i++) {
            struct module key = m->list[i];
            struct costs *sum;

            key.parent = LW_NONE;
            memset(&key.costs, 0, sizeof(key.costs));
            done = get_module(&sums, &key, &row, err);
            if (!done)
                break;
            sum = &sums.list[row].costs;
            if (pass == 1) {
                m->list[i].costs = *sum;
                continue;
            }
            sum->calls += m->list[i].costs.calls;
            sum->ops += m->list[i].costs.ops;
            sum->host_ns += m->list[i].costs.host_ns;
            sum->host_self_ns =
                lw_op_plus(sum->host_self_ns, m->list[i].costs.host_self_ns);
            sum->device_ns += m->list[i].costs.device_ns;
            sum->device_self_ns += m->list[i].costs.device_self_ns;
        }
    lw_free(sums.list);
    lw_map_release(&sums.map);
    return done;
}

/* The table */

/* "nn.Module: Linear_3" is shown as "Linear_3", "[pl][module]torch.nn...Linear: head" as
 * "head". */
static void add_name(struct lw_table *table, const char *name, size_t len)
{
    const char *colon = memmem(name, len, ": ", 2);

    if (colon &&
        (lw_text_starts(name, "nn.Module: ") || lw_text_starts(name, "[pl][module]")))
        lw_table_add_text(table, colon + 2, (size_t)(name + len - colon - 2));
    else
        lw_table_add_text(table, name, len);
}

static void add_mean(struct lw_table *table, uint64_t ns, uint64_t calls)
{
    lw_table_add_integer(table, calls ? (int64_t)(ns / calls) : 0);
}

static void add_row(const struct modules *m, const struct module *module,
                    uint32_t depth, struct lw_table *table)
{
    const struct lw_strings *strings = m->scope->profile->strings;
    const struct costs *costs = &module->costs;

    lw_table_row(table, depth);
    add_name(table, lw_strings_text(strings, module->name),
             lw_strings_len(strings, module->name));
    lw_table_add_integer(table, (int64_t)costs->calls);
    lw_table_add_integer(table, (int64_t)costs->ops);
    lw_table_add_integer(table, (int64_t)costs->host_ns);
    lw_table_add_integer(table, costs->host_self_ns);
    if (m->has & IS_OWN)
        add_mean(table, costs->host_ns, costs->calls);
    if (m->has & HAS_DEVICE) {
        lw_table_add_integer(table, (int64_t)costs->device_ns);
        lw_table_add_integer(table, (int64_t)costs->device_self_ns);
        if (m->has & IS_OWN)
            add_mean(table, costs->device_ns, costs->calls);
    }
    if (m->has & IS_TB)
        add_mean(table, costs->device_ns ? costs->device_ns : costs->host_ns,
                 costs->calls);
    if (m->has & HAS_BACKWARD) {
        lw_table_add_integer(table, (int64_t)costs->backward_host_ns);
        if (m->has & HAS_DEVICE)
            lw_table_add_integer(table, (int64_t)costs->backward_device_ns);
    }
    if (module->id >= 0)
        lw_table_add_integer(table, module->id);
    else
        lw_table_add_none(table);
}

/* Parents before children, in the order of their first calls; returns the first root. */
static uint32_t link_rows(struct modules *m)
{
    uint32_t first = LW_NONE, last = LW_NONE;

    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t parent = m->list[i].parent;
        uint32_t *head = parent == LW_NONE ? &first : &m->list[parent].first_child;
        uint32_t *tail = parent == LW_NONE ? &last : &m->list[parent].last_child;

        if (*head == LW_NONE)
            *head = i;
        else
            m->list[*tail].next = i;
        *tail = i;
    }
    return first;
}

/* Of the whole, on the host or on devices: whichever is more. */
static double share_of(const struct module *module, const struct costs *whole)
{
    double host =
        whole->host_ns ? (double)module->costs.host_ns / (double)whole->host_ns : 0;
    double device = whole->device_ns
                        ? (double)module->costs.device_ns / (double)whole->device_ns
                        : 0;

    return host > device ? host : device;
}

static int compare_shares(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

#define USUAL_ROWS 40 /* of a tree, that a person wants to see at first */

/* What a module must have of the whole to be shown: what was asked for, or so much that
 * not too many have it. */
static bool least_share(const struct modules *m, const struct costs *whole,
                        double *least, struct lw_error *err)
{
    double *shares;

    *least = m->query->min_share;
    if (m->query->min_share != LW_USUAL_SHARE || m->count <= USUAL_ROWS)
        return true;
    shares = lw_alloc(m->count * sizeof(*shares), err);
    if (!shares)
        return false;
    for (size_t i = 0; i < m->count; i++)
        shares[i] = share_of(&m->list[i], whole);
    qsort(shares, m->count, sizeof(*shares), compare_shares);
    if (shares[USUAL_ROWS - 1] > *least)
        *least = shares[USUAL_ROWS - 1];
    lw_free(shares);
    return true;
}

/* Rows deeper than the query says, or with less than LEAST of the whole, are left out
 * with all that is below them; returns how many. */
static size_t add_rows(struct modules *m, const struct costs *whole, double least,
                       struct lw_table *table)
{
    uint32_t row = link_rows(m), depth = 0;
    size_t shown = 0;

    while (row != LW_NONE) {
        const struct module *module = &m->list[row];
        bool is_shown = share_of(module, whole) >= least &&
                        (m->query->max_depth == 0 || depth < m->query->max_depth);

        if (is_shown) {
            add_row(m, module, depth, table);
            shown++;
        }
        if (is_shown && module->first_child != LW_NONE) {
            row = module->first_child;
            depth++;
            continue;
        }
        while (m->list[row].next == LW_NONE && m->list[row].parent != LW_NONE) {
            row = m->list[row].parent;
            depth--;
        }
        row = m->list[row].next;
    }
    return m->count - shown;
}

static bool make_table(struct modules *m, struct lw_table *table, struct lw_error *err)
{
    struct costs whole = { 0 };
    struct lw_buf text;
    size_t left_out;
    double least;

    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].parent == LW_NONE) {
            whole.host_ns += m->list[i].costs.host_ns;
            whole.device_ns += m->list[i].costs.device_ns;
        }
    if (!least_share(m, &whole, &least, err) ||
        !lw_ops_columns_init(table, columns, sizeof(columns) / sizeof(columns[0]),
                             m->has, err))
        return false;
    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(m->scope, &text);
    lw_buf_add_text(&text, ": ");
    lw_units_add_count(&text, (int64_t)m->count);
    lw_buf_addf(&text, " module%s, each where it is called from",
                m->count == 1 ? "" : "s");
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
    left_out = add_rows(m, &whole, least, table);
    if (left_out > 0)
        lw_table_note(
            table, "%zu module%s more, deeper or with less of the time: --min-share 0",
            left_out, left_out == 1 ? "" : "s");
    if (m->has & IS_OWN && !(m->has & HAS_BACKWARD))
        lw_table_note(table, "The backward pass is in no module: no flow of the trace "
                             "joins its ops to theirs.");
    lw_analysis_note_losses(m->scope->profile, table);
    return lw_analysis_arrange(table, m->query, err);
}

static bool check_rows(const struct modules *m, struct lw_error *err)
{
    return m->count > 0 ||
           lw_fail(err, LW_ERR_UNSUPPORTED,
                   "the trace has no calls of modules: record them with 'lapwing run "
                   "--torch=modules', with_stack=True or Lightning's "
                   "PyTorchProfiler");
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_trace_scope scope = { 0 };
    struct modules m = { .scope = &scope, .query = query };
    bool is_tb = query->compat == LW_COMPAT_TB, done;

    done = lw_trace_scope_init(&scope, profile, query, "modules", err) &&
           lw_op_tree_init(&m.tree, &scope, is_tb ? LW_OP_TREE_TB : LW_OP_TREE_MODULES,
                           err);
    if (done)
        m.rows = lw_alloc(scope.trace->event_count * sizeof(*m.rows) + 1, err);
    done = m.rows && find_modules(&m, err) && check_rows(&m, err);
    if (done) {
        m.has = (is_tb ? IS_TB : IS_OWN) | (m.tree.work_count ? HAS_DEVICE : 0);
        if (is_tb)
            done = add_up_places(&m, err);
        else
            add_backward(&m);
    }
    done = done && make_table(&m, table, err);
    lw_free(m.list);
    lw_free(m.rows);
    lw_map_release(&m.map);
    lw_op_tree_release(&m.tree);
    lw_trace_scope_release(&scope);
    return done;
}

const struct lw_analysis lw_analysis_modules = {
    .name = "modules",
    .summary = "where the time went, module by module (nn.Module)",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .compat = "tb",
    .takes_restrictions = true,
    .usual_rows = 0,
    .run = run,
};
