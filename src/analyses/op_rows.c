/* Shapes and stacks are turned into the text that tells rows apart once for each string
 * that the trace has of them, not once for each op. */

#include "analyses/op_rows.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/op_flops.h"
#include "base/alloc.h"
#include "base/json_in.h"
#include "base/map.h"

struct adding {
    struct lw_op_rows *rows;
    const struct lw_op_rows_options *options;
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_op_stacks stacks;
    struct lw_map map; /* index of a row + 1 */
    lw_string_id
        *places;        /* owned: of each string that is a shape or stack, its number in
                             `texts` + 1; 0: not made yet */
    uint8_t *names;     /* owned: of each string, see ask_name() */
    struct lw_buf text; /* scratch */
};

/* Names: the formula for FLOPs, whether it is a step, and that this was asked. */
#define NAME_FORMULA 0x1f
#define NAME_STEP 0x40
#define NAME_ASKED 0x80

static uint8_t ask_name(struct adding *a, lw_string_id id)
{
    uint8_t *known = &a->names[id];

    if (!*known) {
        const char *name = lw_profile_text(a->profile, id);

        *known = (uint8_t)(NAME_ASKED | lw_op_flops_formula(name));
        if (lw_trace_is_step(name))
            *known |= NAME_STEP;
    }
    return *known;
}

/* Places */

/* "[[64,3],[[2],[3]]]" as Python writes it: "[[64, 3], [[2], [3]]]"; for torch, whose
 * table knows no lists of tensors, "[[64, 3], []]". */
static void add_shapes(struct lw_buf *out, const char *text, size_t len, bool as_torch)
{
    struct lw_json_in json;
    enum lw_json_token token;
    bool first = true;

    lw_json_in_init(&json, text, len);
    while ((token = lw_json_next(&json)) != LW_JSON_END && token != LW_JSON_ERROR) {
        bool is_hidden = as_torch && json.depth > 2;

        if (token == LW_JSON_ARRAY_END) {
            is_hidden = as_torch && json.depth >= 2;
            if (!is_hidden)
                lw_buf_add_char(out, ']');
            first = false;
            continue;
        }
        if (is_hidden)
            continue;
        if (!first)
            lw_buf_add_text(out, ", ");
        first = token == LW_JSON_ARRAY;
        if (token == LW_JSON_ARRAY)
            lw_buf_add_char(out, '[');
        else if (token == LW_JSON_NUMBER)
            lw_buf_add(out, json.text, json.len);
    }
}

/* Keep the scratch text among the rows' texts. */
static bool keep_text(struct adding *a, lw_string_id *id, struct lw_error *err)
{
    return lw_buf_check(&a->text, err) &&
           lw_strings_intern(a->rows->texts, a->text.bytes, a->text.len, id, err);
}

static bool place_by_shape(struct adding *a, uint32_t event, lw_string_id *place,
                           struct lw_error *err)
{
    const struct lw_op_detail *op = lw_op_detail(a->trace, event);
    lw_string_id shapes = op ? op->shapes : 0;

    if (!a->places[shapes]) {
        lw_buf_reset(&a->text);
        if (shapes)
            add_shapes(&a->text, lw_profile_text(a->profile, shapes),
                       lw_strings_len(a->profile->strings, shapes),
                       a->options->kind == LW_OP_TREE_TORCH);
        else if (a->options->kind != LW_OP_TREE_OWN)
            lw_buf_add_text(&a->text, "[]");
        else
            lw_buf_add_text(&a->text, "");
        if (!keep_text(a, &a->places[shapes], err))
            return false;
        a->places[shapes]++;
    }
    *place = a->places[shapes] - 1;
    return true;
}

static bool place_by_stack(struct adding *a, uint32_t event, lw_string_id *place,
                           struct lw_error *err)
{
    uint32_t source = a->stacks.sources[event];
    const struct lw_op_detail *op =
        source == LW_NONE ? NULL : lw_op_detail(a->trace, source);
    lw_string_id *known = op && op->stack ? &a->places[op->stack] : NULL;

    if (known && *known) {
        *place = *known - 1;
        return true;
    }
    lw_buf_reset(&a->text);
    lw_buf_add_text(&a->text, "");
    lw_op_stacks_add_text(&a->stacks, event, a->options->stack_depth, &a->text);
    if (!keep_text(a, place, err))
        return false;
    if (known)
        *known = *place + 1;
    return true;
}

static bool find_place(struct adding *a, uint32_t event, lw_string_id *place,
                       struct lw_error *err)
{
    *place = 0;
    switch (a->options->by) {
    case LW_OP_ROWS_BY_SHAPE: return place_by_shape(a, event, place, err);
    case LW_OP_ROWS_BY_STACK: return place_by_stack(a, event, place, err);
    default: return true;
    }
}

/* Rows */

static uint64_t hash_row(const struct lw_op_row *row)
{
    return lw_hash_u64(
        ((uint64_t)row->place << 32 | (row->is_step ? 0 : row->name)) * 31 + row->kind);
}

static bool is_row(const void *owner, uint32_t number, const void *key)
{
    const struct adding *a = owner;
    const struct lw_op_row *x = &a->rows->list[number - 1], *y = key;

    return x->kind == y->kind && x->place == y->place && x->is_step == y->is_step &&
           (x->name == y->name || x->is_step);
}

/* As torch sorts events before it adds them up. */
static bool is_before(const struct lw_trace *trace, uint32_t a, uint32_t b)
{
    const struct lw_event *x = &trace->events[a], *y = &trace->events[b];

    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns;
    if (x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns;
    return a < b;
}

static struct lw_op_row *get_row(struct adding *a, uint32_t event, struct lw_error *err)
{
    const struct lw_event *e = &a->trace->events[event];
    struct lw_op_row key = { .name = e->name, .kind = e->kind, .first = event };
    struct lw_op_rows *rows = a->rows;
    uint32_t found;

    key.is_step = (ask_name(a, e->name) & NAME_STEP) != 0;
    if (!find_place(a, event, &key.place, err))
        return NULL;
    found = lw_map_find(&a->map, hash_row(&key), is_row, a, &key);
    if (found)
        return &rows->list[found - 1];
    if (!lw_grow(&rows->list, &rows->capacity, rows->count + 1, sizeof(key), err) ||
        !lw_map_add(&a->map, hash_row(&key), (uint32_t)rows->count + 1, err))
        return NULL;
    rows->list[rows->count] = key;
    return &rows->list[rows->count++];
}

static void add_memory(struct lw_op_memory *sum, const struct lw_op_memory *more)
{
    sum->self_bytes = lw_op_plus(sum->self_bytes, more->self_bytes);
    sum->total_bytes = lw_op_plus(sum->total_bytes, more->total_bytes);
}

static void add_flops(struct adding *a, struct lw_op_row *row,
                      const struct lw_event *event, const struct lw_op_detail *op)
{
    enum lw_flops_formula formula =
        (enum lw_flops_formula)(ask_name(a, event->name) & NAME_FORMULA);
    const struct lw_strings *strings = a->profile->strings;
    uint64_t flops;

    if (formula == LW_FLOPS_NONE)
        return;
    flops = lw_op_flops(formula, lw_profile_text(a->profile, op->shapes),
                        lw_strings_len(strings, op->shapes),
                        lw_profile_text(a->profile, op->values),
                        lw_strings_len(strings, op->values));
    *(formula >= LW_FLOPS_MORE ? &row->more_flops : &row->flops) += flops;
}

/* torch_tb_profiler takes the first op that is over for all of its row: children before
 * their parents, thread by thread. */
static bool is_over_before(const struct lw_trace *trace, uint32_t a, uint32_t b)
{
    const struct lw_event *x = &trace->events[a], *y = &trace->events[b];

    if (x->track != y->track)
        return is_before(trace, trace->tracks[x->track].first,
                         trace->tracks[y->track].first);
    if (lw_event_end_ns(x) != lw_event_end_ns(y))
        return lw_event_end_ns(x) < lw_event_end_ns(y);
    return a > b;
}

static bool add_event(struct adding *a, uint32_t event, struct lw_error *err)
{
    const struct lw_event *e = &a->trace->events[event];
    const struct lw_op_tree *tree = &a->rows->tree;
    const struct lw_op_node *node = &tree->nodes[event];
    const struct lw_op_detail *op = lw_op_detail(a->trace, event);
    struct lw_op_row *row = get_row(a, event, err);

    if (!row)
        return false;
    if (a->options->kind == LW_OP_TREE_TB
            ? row->calls == 0 || is_over_before(a->trace, event, row->first)
            : is_before(a->trace, event, row->first))
        row->first = event;
    row->is_for_tc = tree->nodes[row->first].is_for_tc;
    row->calls++;
    row->host_self_ns = lw_op_plus(row->host_self_ns, node->host_self_ns);
    row->host_ns += node->host_ns;
    row->device_self_ns += node->device_self_ns;
    row->device_ns += node->device_ns;
    if (tree->host_us) {
        row->host_us += tree->host_us[event];
        row->host_self_us += tree->host_self_us[event];
    }
    if (tree->tc_ns) {
        row->tc_self_ns += tree->tc_self_ns[event];
        row->tc_ns += tree->tc_ns[event];
    }
    if (tree->host_memory) {
        add_memory(&row->host_memory, &tree->host_memory[event]);
        add_memory(&row->device_memory, &tree->device_memory[event]);
    }
    if (op && op->shapes) {
        a->rows->has_shapes = true;
        add_flops(a, row, e, op);
    }
    row->has_stack |= op && op->stack;
    a->rows->has_stacks |= row->has_stack;
    return true;
}

/* What ran on a device, for torch. */
static bool add_device_event(struct adding *a, uint32_t event, struct lw_error *err)
{
    struct lw_op_row *row = get_row(a, event, err);

    if (!row)
        return false;
    if (is_before(a->trace, event, row->first))
        row->first = event;
    row->calls++;
    row->device_self_ns += a->trace->events[event].duration_ns;
    row->device_ns += a->trace->events[event].duration_ns;
    return true;
}

static bool is_wanted(const struct adding *a, uint32_t event)
{
    return a->rows->tree.nodes[event].is_in &&
           (a->options->kind != LW_OP_TREE_TB ||
            lw_op_tree_is_tb_op(&a->rows->tree, &a->trace->events[event]));
}

static bool add_events(struct adding *a, struct lw_error *err)
{
    bool with_devices = a->options->kind == LW_OP_TREE_TORCH;

    for (uint32_t i = 0; i < a->trace->event_count; i++) {
        const struct lw_event *event = &a->trace->events[i];

        if (is_wanted(a, i)) {
            if (!add_event(a, i, err))
                return false;
        } else if (with_devices && lw_trace_scope_has(a->rows->tree.scope, event) &&
                   (lw_event_is_work(event) || event->kind == LW_EVENT_DEVICE_RANGE)) {
            if (!add_device_event(a, i, err))
                return false;
        }
    }
    return true;
}

static int compare_rows(const void *x, const void *y, void *context)
{
    const struct lw_op_row *a = x, *b = y;

    return is_before(context, a->first, b->first) ? -1 : 1;
}

static void sum_up(struct lw_op_rows *rows)
{
    bool has_kernels = rows->tree.kind == LW_OP_TREE_TORCH;

    for (size_t i = 0; i < rows->count; i++) {
        const struct lw_op_row *row = &rows->list[i];
        bool is_work = row->kind >= LW_EVENT_KERNEL && row->kind <= LW_EVENT_MEMSET;

        rows->host_self_ns = lw_op_plus(rows->host_self_ns, row->host_self_ns);
        if (is_work == has_kernels)
            rows->device_self_ns += row->device_self_ns;
        rows->has_device_memory |= row->device_memory.self_bytes != 0;
    }
    rows->has_device = rows->tree.work_count > 0;
    rows->has_memory = rows->tree.host_memory != NULL;
}

static bool prepare(struct adding *a, const struct lw_trace_scope *scope,
                    struct lw_error *err)
{
    size_t strings = lw_strings_count(scope->profile->strings);

    if (!lw_op_tree_init(&a->rows->tree, scope, a->options->kind, err))
        return false;
    if (a->options->by == LW_OP_ROWS_BY_STACK &&
        !lw_op_stacks_init(&a->stacks, &a->rows->tree, a->options->stacks, err))
        return false;
    a->rows->texts = lw_strings_new(err);
    a->places = a->rows->texts ? lw_zalloc(strings, sizeof(*a->places), err) : NULL;
    a->names = a->places ? lw_zalloc(strings, 1, err) : NULL;
    return a->names != NULL;
}

enum lw_op_rows_by lw_op_rows_by(const struct lw_query *query)
{
    if (lw_query_is_by(query, "shape"))
        return LW_OP_ROWS_BY_SHAPE;
    return lw_query_is_by(query, "stack") ? LW_OP_ROWS_BY_STACK : LW_OP_ROWS_BY_NAME;
}

bool lw_op_rows_init(struct lw_op_rows *rows, const struct lw_trace_scope *scope,
                     const struct lw_op_rows_options *options, struct lw_error *err)
{
    struct adding a = {
        .rows = rows,
        .options = options,
        .profile = scope->profile,
        .trace = scope->trace,
    };
    bool done;

    memset(rows, 0, sizeof(*rows));
    lw_buf_init(&a.text, 0);
    done = prepare(&a, scope, err) && add_events(&a, err);
    if (done) {
        if (rows->count > 0)
            qsort_r(rows->list, rows->count, sizeof(*rows->list), compare_rows,
                    (void *)scope->trace);
        sum_up(rows);
    }
    lw_buf_release(&a.text);
    lw_op_stacks_release(&a.stacks);
    lw_map_release(&a.map);
    lw_free(a.places);
    lw_free(a.names);
    return done;
}

void lw_op_rows_release(struct lw_op_rows *rows)
{
    lw_op_tree_release(&rows->tree);
    lw_strings_free(rows->texts);
    lw_free(rows->list);
    memset(rows, 0, sizeof(*rows));
}
