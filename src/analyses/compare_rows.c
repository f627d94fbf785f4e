/* Rows of both traces: found by their parent and name in one table, so that filling it
 * from the second trace meets what the first one left there. */

#include <string.h>

#include "analyses/compare.h"
#include "base/alloc.h"
#include "base/text.h"

/* Beside (parent, name, n), which is a row, the table of keys holds of each side which row
 * a module is, and how many modules of a class there are in a place. */
#define MODULE_ROW 0x80000000u   /* and the side */
#define MODULE_COUNT 0x90000000u /* likewise */

#define STEP_NAME "ProfilerStep*"
#define LOADER_NAME "DataLoader"
#define BACKWARD_NAME "backward"
#define OUTSIDE_NAME "outside of modules, ranges and ops"

static bool intern(struct lw_compare *compare, const char *text, size_t len,
                   lw_string_id *id, struct lw_error *err)
{
    return lw_strings_intern(compare->strings, text, len, id, err);
}

/* The name of EVENT of SIDE among those of both: steps have no number, and whichever
 * class of iterator a DataLoader has, it is one. */
static bool name_of(struct lw_compare *compare, int side, const struct lw_event *event,
                    lw_string_id *name, struct lw_error *err)
{
    const struct lw_profile *profile = compare->sides[side].scope.profile;
    lw_string_id *known = &compare->sides[side].names[event->name];

    if (*known == LW_NONE) {
        const char *text = lw_profile_text(profile, event->name);
        size_t len = lw_strings_len(profile->strings, event->name);

        if (lw_trace_is_step(text)) {
            text = STEP_NAME;
            len = strlen(STEP_NAME);
        } else if (lw_compare_is_loader(text)) {
            text = LOADER_NAME;
            len = strlen(LOADER_NAME);
        }
        if (!intern(compare, len ? text : "(no name)", len ? len : 9, known, err))
            return false;
    }
    *name = *known;
    return true;
}

/* The row (PARENT, NAME, N), made if it is not there yet. */
static bool find_row(struct lw_compare *compare, uint32_t parent, lw_string_id name,
                     uint32_t n, uint32_t *row, struct lw_error *err)
{
    const uint32_t key[3] = { parent, name, n };
    const struct lw_compare_key *found = lw_compare_keys_find(&compare->keys, key);
    struct lw_compare_row added = { .parent = parent };

    if (found) {
        *row = found->value;
        return true;
    }
    if (!lw_grow(&compare->rows, &compare->row_capacity, compare->row_count + 1,
                 sizeof(added), err) ||
        !lw_compare_keys_add(&compare->keys, key, (uint32_t)compare->row_count, err))
        return false;
    *row = (uint32_t)compare->row_count;
    compare->rows[compare->row_count++] = added;
    return true;
}

static bool named_row(struct lw_compare *compare, int side, uint32_t parent,
                      lw_string_id name, uint32_t *row, struct lw_error *err)
{
    if (!find_row(compare, parent, name, 0, row, err))
        return false;
    compare->rows[*row].names[side] = name;
    return true;
}

/* Modules of one class in one place are told apart by the order in which they came:
 * "nn.Module: Linear_7" is the n-th Linear there. */
static bool module_row(struct lw_compare *compare, int side, uint32_t parent,
                       lw_string_id name, uint32_t *row, struct lw_error *err)
{
    const char *text = lw_strings_text(compare->strings, name);
    size_t len = strlen(text);
    uint32_t key[3] = { parent, name, MODULE_ROW + (uint32_t)side };
    struct lw_compare_key *found = lw_compare_keys_find(&compare->keys, key);
    lw_string_id class_name;
    uint32_t n = 0;

    if (found) {
        *row = found->value;
        return true;
    }
    while (len > 0 && text[len - 1] >= '0' && text[len - 1] <= '9')
        len--;
    if (!intern(compare, text, len, &class_name, err))
        return false;
    key[1] = class_name;
    key[2] = MODULE_COUNT + (uint32_t)side;
    found = lw_compare_keys_find(&compare->keys, key);
    if (found)
        n = found->value++;
    else if (!lw_compare_keys_add(&compare->keys, key, 1, err))
        return false;
    if (!find_row(compare, parent, class_name, n, row, err))
        return false;
    compare->rows[*row].names[side] = name;
    key[1] = name;
    key[2] = MODULE_ROW + (uint32_t)side;
    return lw_compare_keys_add(&compare->keys, key, *row, err);
}

/* Filling */

/* Take the event I of SIDE, which is in a step, into a row. ROWS are those of all events
 * of its track; LW_NONE: none. */
typedef bool take_event(struct lw_compare *compare, int side, uint32_t i,
                        uint32_t *rows, struct lw_error *err);

static bool fill_side(struct lw_compare *compare, int side, take_event *take,
                      uint32_t *rows, struct lw_error *err)
{
    const struct lw_compare_side *s = &compare->sides[side];
    const struct lw_trace *trace = s->scope.trace;

    for (size_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];

        if (!s->chosen[track->rank])
            continue;
        memset(rows + track->first, 0xff, track->count * sizeof(*rows));
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if ((s->flags[i] & LW_COMPARE_IN_STEP) &&
                !take(compare, side, i, rows, err))
                return false;
    }
    return true;
}

static bool fill_sides(struct lw_compare *compare, bool wants_tree, take_event *take,
                       struct lw_error *err)
{
    for (int i = 0; i < LW_SIDES; i++) {
        struct lw_compare_side *side = &compare->sides[i];
        uint32_t *rows;
        bool done;

        if (wants_tree && !side->tree.nodes &&
            !lw_op_tree_init(&side->tree, &side->scope, LW_OP_TREE_OWN, err))
            return false;
        rows = lw_alloc(side->scope.trace->event_count * sizeof(*rows) + 1, err);
        done = rows && fill_side(compare, i, take, rows, err);
        lw_free(rows);
        if (!done)
            return false;
    }
    return true;
}

/* What EVENT itself took, as the tree of ops has it, goes to ROW. */
static void add_self(struct lw_compare *compare, int side, uint32_t event, uint32_t row,
                     bool with_host)
{
    const struct lw_op_node *node = &compare->sides[side].tree.nodes[event];
    struct lw_compare_figures *figures = &compare->rows[row].sides[side];

    if (!node->is_in)
        return;
    if (with_host)
        figures->host_ns = lw_op_plus(figures->host_ns, node->host_self_ns);
    figures->device_ns = lw_op_plus(figures->device_ns, (int64_t)node->device_self_ns);
}

static bool is_inside_loader(const struct lw_compare_side *side,
                             const struct lw_event *event, uint32_t index)
{
    return (side->flags[index] & LW_COMPARE_IN_LOADER) && event->parent != LW_NONE &&
           (side->flags[event->parent] & LW_COMPARE_IN_LOADER);
}

/* A row a name. What is done within a DataLoader's __next__() is the DataLoader's. */
static bool take_op(struct lw_compare *compare, int side, uint32_t i, uint32_t *rows,
                    struct lw_error *err)
{
    const struct lw_compare_side *s = &compare->sides[side];
    const struct lw_event *event = &s->scope.trace->events[i];
    lw_string_id name;

    if (lw_event_is_on_device(event))
        return true;
    if (event->parent != LW_NONE)
        rows[i] = rows[event->parent];
    if (s->tree.nodes[i].is_in && !is_inside_loader(s, event, i)) {
        if (!name_of(compare, side, event, &name, err) ||
            !named_row(compare, side, LW_NONE, name, &rows[i], err))
            return false;
        compare->rows[rows[i]].sides[side].calls++;
    }
    if (rows[i] != LW_NONE)
        add_self(compare, side, i, rows[i], true);
    return true;
}

bool lw_compare_ops(struct lw_compare *compare, struct lw_error *err)
{
    return fill_sides(compare, true, take_op, err);
}

static bool take_kernel(struct lw_compare *compare, int side, uint32_t i,
                        uint32_t *rows, struct lw_error *err)
{
    const struct lw_event *event = &compare->sides[side].scope.trace->events[i];
    struct lw_compare_figures *figures;
    lw_string_id name;

    if (!lw_event_is_work(event))
        return true;
    if (!name_of(compare, side, event, &name, err) ||
        !named_row(compare, side, LW_NONE, name, &rows[i], err))
        return false;
    figures = &compare->rows[rows[i]].sides[side];
    figures->calls++;
    figures->device_ns = lw_op_plus(figures->device_ns, (int64_t)event->duration_ns);
    return true;
}

bool lw_compare_kernels(struct lw_compare *compare, struct lw_error *err)
{
    return fill_sides(compare, false, take_kernel, err);
}

/* Modules */

enum place { NO_PLACE, OF_MODULE, OF_NAME, OF_BACKWARD };

/* What autograd runs: nodes of its graph, as old and new versions of torch call them. */
static bool is_backward(const char *name)
{
    size_t len = strlen(name);

    if (lw_text_starts(name, "autograd::engine::evaluate_function: ") ||
        lw_text_starts(name, "torch::autograd::"))
        return true;
    while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    return len > 8 && memcmp(name + len - 8, "Backward", 8) == 0;
}

/* Whether EVENT is a place in the tree: modules, ranges, and ops that are in no op. */
static enum place place_of(const struct lw_compare_side *side,
                           const struct lw_event *event, bool is_in_op)
{
    const char *name = lw_profile_text(side->scope.profile, event->name);

    if (lw_op_tree_is_module(&side->tree, event))
        return OF_MODULE;
    if (event->kind == LW_EVENT_RANGE)
        return lw_trace_is_step(name) ? NO_PLACE : OF_NAME;
    if (event->kind != LW_EVENT_OP || is_in_op)
        return NO_PLACE;
    return is_backward(name) ? OF_BACKWARD : OF_NAME;
}

static bool place_row(struct lw_compare *compare, int side, enum place place,
                      const struct lw_event *event, uint32_t parent, uint32_t *row,
                      struct lw_error *err)
{
    lw_string_id name, backward;

    if (!name_of(compare, side, event, &name, err))
        return false;
    if (place == OF_MODULE)
        return module_row(compare, side, parent, name, row, err);
    if (place == OF_BACKWARD) {
        if (!intern(compare, BACKWARD_NAME, strlen(BACKWARD_NAME), &backward, err) ||
            !named_row(compare, side, LW_NONE, backward, &parent, err))
            return false;
        compare->rows[parent].sides[side].host_ns = lw_op_plus(
            compare->rows[parent].sides[side].host_ns, (int64_t)event->duration_ns);
        compare->rows[parent].sides[side].calls++;
    }
    return named_row(compare, side, parent, name, row, err);
}

/* The time of steps that is in no place is a row, too: EVENT is a step, or a place in one
 * that is in no other. */
static bool add_outside(struct lw_compare *compare, int side,
                        const struct lw_event *event, bool is_step,
                        struct lw_error *err)
{
    struct lw_compare_figures *figures;
    lw_string_id name;
    uint32_t row;

    if (!intern(compare, OUTSIDE_NAME, strlen(OUTSIDE_NAME), &name, err) ||
        !named_row(compare, side, LW_NONE, name, &row, err))
        return false;
    figures = &compare->rows[row].sides[side];
    if (is_step) {
        figures->calls++;
        figures->host_ns = lw_op_plus(figures->host_ns, (int64_t)event->duration_ns);
    } else {
        figures->host_ns = lw_op_minus(figures->host_ns, (int64_t)event->duration_ns);
    }
    return true;
}

/* ROWS has in its highest bit whether the event is in an op. */
#define IN_OP 0x80000000u

static bool take_place(struct lw_compare *compare, int side, uint32_t i, uint32_t *rows,
                       struct lw_error *err)
{
    const struct lw_compare_side *s = &compare->sides[side];
    const struct lw_event *event = &s->scope.trace->events[i];
    struct lw_compare_figures *figures;
    bool is_in_op = false, is_step;
    uint32_t row = LW_NONE;
    enum place place;

    if (lw_event_is_on_device(event))
        return true;
    if (event->parent != LW_NONE && rows[event->parent] != LW_NONE) {
        is_in_op = rows[event->parent] & IN_OP;
        row = rows[event->parent] & ~IN_OP;
    }
    place = is_inside_loader(s, event, i) ? NO_PLACE : place_of(s, event, is_in_op);
    is_step = event->kind == LW_EVENT_RANGE && place == NO_PLACE &&
              lw_trace_is_step(lw_profile_text(s->scope.profile, event->name));
    if ((is_step || (place != NO_PLACE && row == LW_NONE &&
                     (s->flags[i] & LW_COMPARE_UNDER_STEP))) &&
        !add_outside(compare, side, event, is_step, err))
        return false;
    if (place != NO_PLACE) {
        if (!place_row(compare, side, place, event, row, &row, err))
            return false;
        figures = &compare->rows[row].sides[side];
        figures->calls++;
        figures->host_ns = lw_op_plus(figures->host_ns, (int64_t)event->duration_ns);
    }
    if (row == LW_NONE)
        return true;
    rows[i] = row | (is_in_op || event->kind == LW_EVENT_OP ? IN_OP : 0);
    add_self(compare, side, i, row, false);
    return true;
}

/* Rows come after their parents, so backwards every row is whole before it is added. */
static void add_to_parents(struct lw_compare *compare)
{
    for (size_t i = compare->row_count; i-- > 0;) {
        const struct lw_compare_row *row = &compare->rows[i];

        if (row->parent == LW_NONE)
            continue;
        for (int side = 0; side < LW_SIDES; side++) {
            struct lw_compare_figures *above = &compare->rows[row->parent].sides[side];

            above->device_ns = lw_op_plus(above->device_ns, row->sides[side].device_ns);
        }
    }
}

bool lw_compare_modules(struct lw_compare *compare, struct lw_error *err)
{
    if (!fill_sides(compare, true, take_place, err))
        return false;
    add_to_parents(compare);
    return true;
}
