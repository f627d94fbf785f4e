/* A track's events are sorted, so nesting is one pass with the innermost that is open,
 * and sums are one pass backwards: children come after their parents. */

#include "analyses/op_tree.h"

#include <string.h>

#include "analyses/op_tree_memory.h"
#include "analyses/tb_calls.h"
#include "analyses/tb_events.h"
#include "analyses/tensor_cores.h"
#include "base/alloc.h"
#include "base/text.h"

/* What is known of a name, asked once for each string. */
enum {
    NAME_ASKED = 1,
    NAME_HIDDEN = 2,     /* the profiler's own doing, which torch leaves out */
    NAME_FOR_TC = 4,     /* of an op */
    NAME_ON_TC = 8,      /* of a kernel */
    NAME_OPTIMIZER = 16, /* "Optimizer.step#SGD.step" */
};

struct building {
    struct lw_op_tree *tree;
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    uint8_t *names;           /* of each string */
    struct lw_tb_events tb;   /* for LW_OP_TREE_TB */
    struct lw_tb_calls calls; /* likewise */
    uint64_t *runtime_ns;     /* likewise: of calls that belong to an event */
};

bool lw_op_tree_is_hidden(const char *name)
{
    static const char *const hidden[] = {
        "[memory]",
        "[OutOfMemory]",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    };

    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (strcmp(name, hidden[i]) == 0)
            return true;
    return false;
}

static uint8_t ask_name(struct building *b, lw_string_id id)
{
    uint8_t *known = &b->names[id];

    if (!*known) {
        const char *name = lw_profile_text(b->profile, id);
        enum lw_compat compat =
            b->tree->kind == LW_OP_TREE_TB ? LW_COMPAT_TB : LW_COMPAT_NONE;

        *known = NAME_ASKED;
        *known |= lw_op_tree_is_hidden(name) ? NAME_HIDDEN : 0;
        *known |= lw_tensor_core_op(name) ? NAME_FOR_TC : 0;
        *known |= lw_tensor_core_kernel(name, compat) ? NAME_ON_TC : 0;
        *known |= lw_text_starts(name, "Optimizer.step") ? NAME_OPTIMIZER : 0;
    }
    return *known;
}

bool lw_op_tree_is_module(const struct lw_op_tree *tree, const struct lw_event *event)
{
    if (event->kind == LW_EVENT_PYTHON)
        return event->detail != LW_NONE &&
               tree->scope->trace->pythons[event->detail].module_id >= 0;
    return (event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE) &&
           lw_text_starts(lw_profile_text(tree->scope->profile, event->name),
                          "[pl][module]");
}

/* Ranges are in it if they are steps, loaders, collectives or optimizers. */
static bool is_range_of_tb(struct building *b, lw_string_id id)
{
    enum lw_tb_name name = lw_tb_name(&b->tb, id);

    return name == LW_TB_STEP_NAME || name == LW_TB_LOADER ||
           name == LW_TB_COLLECTIVE || ask_name(b, id) & NAME_OPTIMIZER;
}

static bool is_in_tb(struct building *b, const struct lw_event *event)
{
    switch (lw_tb_type(&b->tb, event)) {
    case LW_TB_OPERATOR:
    case LW_TB_STEP:
    case LW_TB_LIGHTNING_MODULE:
    case LW_TB_PYTHON: return !lw_event_is_on_device(event);
    case LW_TB_PYTHON_FUNCTION: return lw_op_tree_is_module(b->tree, event);
    case LW_TB_ANNOTATION:
        return !lw_event_is_on_device(event) && is_range_of_tb(b, event->name);
    default: return false;
    }
}

static bool is_in(struct building *b, const struct lw_event *event)
{
    bool is_torch = b->tree->kind == LW_OP_TREE_TORCH;

    if (b->tree->kind == LW_OP_TREE_TB)
        return is_in_tb(b, event);
    if (b->tree->kind == LW_OP_TREE_MODULES && event->kind != LW_EVENT_OP)
        return lw_op_tree_is_module(b->tree, event);
    switch (event->kind) {
    case LW_EVENT_OP: return !(ask_name(b, event->name) & NAME_HIDDEN);
    case LW_EVENT_RANGE:
    case LW_EVENT_RUNTIME: return true;
    case LW_EVENT_PYTHON:
    case LW_EVENT_OVERHEAD: return is_torch;
    default: return false;
    }
}

bool lw_op_tree_is_tb_op(const struct lw_op_tree *tree, const struct lw_event *event)
{
    const char *name = lw_profile_text(tree->scope->profile, event->name);

    return event->kind == LW_EVENT_OP && strcmp(name, "DataParallel.forward") != 0 &&
           strcmp(name, "DistributedDataParallel.forward") != 0 &&
           !lw_text_starts(name, "Optimizer.") && !lw_trace_is_step(name) &&
           !lw_text_starts(name, "enumerate(Data") &&
           !(tree->is_lightning && lw_text_starts(name, "[pl][module]"));
}

/* From when to when, as the definition has it. */
static struct lw_interval span_of(const struct building *b, uint32_t index)
{
    const struct lw_event *event = &b->trace->events[index];
    struct lw_interval span = { event->start_ns, lw_event_end_ns(event) };

    return b->tree->kind == LW_OP_TREE_TB ? lw_tb_span(event) : span;
}

/* Nesting */

static bool is_owner(struct building *b, const struct lw_event *event)
{
    if (b->tree->kind == LW_OP_TREE_MODULES)
        return is_in(b, event);
    return event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE;
}

/* The innermost of OPEN and what it is in that is not over at START_NS. */
static uint32_t close_ended(const struct building *b, uint32_t open, uint64_t start_ns)
{
    while (open != LW_NONE && start_ns >= span_of(b, open).end_ns)
        open = b->tree->nodes[open].parent;
    return open;
}

static void nest_track(struct building *b, const struct lw_track *track)
{
    struct lw_op_node *nodes = b->tree->nodes;
    uint32_t open = LW_NONE; /* the innermost */

    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &b->trace->events[i];
        struct lw_interval span = span_of(b, i);
        struct lw_op_node *node = &nodes[i];

        open = close_ended(b, open, span.start_ns);
        node->is_in = is_in(b, event);
        if (node->is_in && b->tree->kind == LW_OP_TREE_TB)
            node->is_in = open == LW_NONE || span.end_ns <= span_of(b, open).end_ns;
        else if (node->is_in)
            while (open != LW_NONE && span.end_ns > span_of(b, open).end_ns)
                open = nodes[open].parent;
        node->parent = open;
        node->owner = is_owner(b, event) ? i
                      : open == LW_NONE  ? LW_NONE
                                         : nodes[open].owner;
        if (!node->is_in)
            continue;
        node->host_ns = span.end_ns - span.start_ns;
        node->host_self_ns = (int64_t)node->host_ns;
        node->is_for_tc = (ask_name(b, event->name) & NAME_FOR_TC) != 0;
        if (open != LW_NONE)
            nodes[open].child_count++;
        open = i;
    }
}

/* Work of devices */

/* The op or range that WORK belongs to. */
static uint32_t owner_of(struct building *b, uint32_t work)
{
    uint32_t launch = b->trace->events[work].parent;

    if (launch == LW_NONE)
        return LW_NONE;
    if (b->tree->kind != LW_OP_TREE_TB)
        return b->tree->nodes[launch].owner;
    if (lw_tb_type(&b->tb, &b->trace->events[launch]) != LW_TB_RUNTIME)
        return LW_NONE;
    return lw_tb_calls_owner(&b->calls, launch);
}

static void add_work(struct building *b, uint32_t work)
{
    struct lw_op_tree *tree = b->tree;
    struct lw_interval span = span_of(b, work);
    uint64_t ns = span.end_ns - span.start_ns;
    uint32_t owner = owner_of(b, work);

    tree->work_count++;
    tree->nodes[work].owner = LW_NONE;
    if (owner == LW_NONE || !tree->nodes[owner].is_in) {
        tree->unlinked_count++;
        tree->unlinked_ns += ns;
        return;
    }
    tree->nodes[work].owner = owner;
    tree->nodes[owner].device_self_ns += ns;
    if (ask_name(b, b->trace->events[work].name) & NAME_ON_TC)
        tree->tc_self_ns[owner] += ns;
}

static bool has_work(const struct lw_trace_scope *scope)
{
    for (size_t i = 0; i < scope->trace->event_count; i++)
        if (lw_event_is_work(&scope->trace->events[i]) &&
            lw_trace_scope_has(scope, &scope->trace->events[i]))
            return true;
    return false;
}

/* The plugin takes the time of calls away from the ops that made them. */
static bool add_tb_calls(struct building *b, struct lw_error *err)
{
    b->runtime_ns = lw_zalloc(b->trace->event_count + 1, sizeof(*b->runtime_ns), err);
    if (!b->runtime_ns || !lw_tb_calls_init(&b->calls, b->tree, err))
        return false;
    for (uint32_t i = 0; i < b->trace->event_count; i++) {
        const struct lw_event *event = &b->trace->events[i];
        uint32_t owner;

        if (!lw_trace_scope_has(b->tree->scope, event) ||
            lw_tb_type(&b->tb, event) != LW_TB_RUNTIME)
            continue;
        owner = lw_tb_calls_owner(&b->calls, i);
        if (owner != LW_NONE)
            b->runtime_ns[owner] += span_of(b, i).end_ns - span_of(b, i).start_ns;
    }
    return true;
}

static bool add_works(struct building *b, struct lw_error *err)
{
    struct lw_op_tree *tree = b->tree;
    size_t count = b->trace->event_count + 1;

    if (tree->kind == LW_OP_TREE_TB && !add_tb_calls(b, err))
        return false;
    if (!has_work(tree->scope))
        return true;
    tree->tc_self_ns = lw_zalloc(count, sizeof(*tree->tc_self_ns), err);
    tree->tc_ns = tree->tc_self_ns ? lw_zalloc(count, sizeof(*tree->tc_ns), err) : NULL;
    if (!tree->tc_ns)
        return false;
    for (uint32_t i = 0; i < b->trace->event_count; i++)
        if (lw_event_is_work(&b->trace->events[i]) &&
            lw_trace_scope_has(tree->scope, &b->trace->events[i]))
            add_work(b, i);
    return true;
}

/* Merging */

static bool is_same(const struct building *b, uint32_t parent, uint32_t child)
{
    const struct lw_event *a = &b->trace->events[parent], *c = &b->trace->events[child];

    return a->name == c->name && (b->tree->kind == LW_OP_TREE_TORCH ||
                                  (a->kind == LW_EVENT_OP && c->kind == LW_EVENT_OP));
}

/* torch and its plugin forget what the outer one launched itself. */
static void merge_into(struct building *b, uint32_t parent, uint32_t child)
{
    struct lw_op_tree *tree = b->tree;
    struct lw_op_node *into = &tree->nodes[parent], *from = &tree->nodes[child];
    bool adds = tree->kind == LW_OP_TREE_OWN || tree->kind == LW_OP_TREE_MODULES;

    into->child_count = from->child_count;
    into->device_self_ns = from->device_self_ns + (adds ? into->device_self_ns : 0);
    if (tree->tc_self_ns)
        tree->tc_self_ns[parent] =
            tree->tc_self_ns[child] + (adds ? tree->tc_self_ns[parent] : 0);
    if (b->runtime_ns)
        b->runtime_ns[parent] = b->runtime_ns[child];
    from->is_in = false;
}

/* From parents to children: what a merged one was the parent of comes after it. */
static void merge_same(struct building *b)
{
    struct lw_op_node *nodes = b->tree->nodes;

    for (uint32_t i = 0; i < b->trace->event_count; i++) {
        struct lw_op_node *node = &nodes[i];

        if (!node->is_in || node->parent == LW_NONE)
            continue;
        if (!nodes[node->parent].is_in)
            node->parent = nodes[node->parent].parent;
        if (nodes[node->parent].child_count == 1 && is_same(b, node->parent, i))
            merge_into(b, node->parent, i);
    }
}

/* Sums */

static void sum_up(struct building *b)
{
    struct lw_op_tree *tree = b->tree;

    for (size_t i = b->trace->event_count; i-- > 0;) {
        struct lw_op_node *node = &tree->nodes[i], *parent;

        if (!node->is_in)
            continue;
        node->device_ns += node->device_self_ns;
        if (b->runtime_ns)
            node->host_self_ns =
                lw_op_minus(node->host_self_ns, (int64_t)b->runtime_ns[i]);
        if (tree->tc_ns) {
            tree->tc_ns[i] += tree->tc_self_ns[i];
            node->is_for_tc |=
                b->trace->events[i].kind == LW_EVENT_OP && tree->tc_self_ns[i] > 0;
        }
        if (node->parent == LW_NONE)
            continue;
        parent = &tree->nodes[node->parent];
        parent->device_ns += node->device_ns;
        parent->host_self_ns =
            lw_op_minus(parent->host_self_ns, (int64_t)node->host_ns);
        if (tree->tc_ns)
            tree->tc_ns[node->parent] += tree->tc_ns[i];
        if (b->trace->events[node->parent].kind == LW_EVENT_OP)
            parent->is_for_tc |= node->is_for_tc;
    }
}

/* Of each rank when its profiler began, from which torch counts µs; caller frees. */
static uint64_t *profiler_starts(const struct building *b, struct lw_error *err)
{
    uint64_t *starts_ns = lw_zalloc(b->trace->rank_count + 1, sizeof(*starts_ns), err);

    for (size_t i = 0; starts_ns && i < b->trace->event_count; i++) {
        const struct lw_event *event = &b->trace->events[i];

        if (event->kind == LW_EVENT_OTHER &&
            strcmp(lw_profile_text(b->profile, event->name), "PyTorch Profiler (0)") ==
                0)
            starts_ns[b->trace->tracks[event->track].rank] = event->start_ns;
    }
    return starts_ns;
}

/* torch holds times as doubles of µs and adds them up one by one, which shows in the last
 * digit that it prints. */
static bool add_torch_times(struct building *b, struct lw_error *err)
{
    struct lw_op_tree *tree = b->tree;
    size_t count = b->trace->event_count + 1;
    uint64_t *starts_ns;

    tree->host_us = lw_zalloc(count, sizeof(*tree->host_us), err);
    tree->host_self_us =
        tree->host_us ? lw_zalloc(count, sizeof(*tree->host_self_us), err) : NULL;
    starts_ns = tree->host_self_us ? profiler_starts(b, err) : NULL;
    if (!starts_ns)
        return false;
    for (uint32_t i = 0; i < b->trace->event_count; i++) {
        const struct lw_event *event = &b->trace->events[i];
        uint64_t start_ns = starts_ns[b->trace->tracks[event->track].rank];

        if (!tree->nodes[i].is_in)
            continue;
        tree->host_us[i] = (double)(int64_t)(lw_event_end_ns(event) - start_ns) / 1000 -
                           (double)(int64_t)(event->start_ns - start_ns) / 1000;
        if (tree->nodes[i].parent != LW_NONE) /* what children take, for now */
            tree->host_self_us[tree->nodes[i].parent] += tree->host_us[i];
    }
    for (size_t i = 0; i < b->trace->event_count; i++)
        tree->host_self_us[i] = tree->host_us[i] - tree->host_self_us[i];
    lw_free(starts_ns);
    return true;
}

bool lw_op_tree_init(struct lw_op_tree *tree, const struct lw_trace_scope *scope,
                     enum lw_op_tree_kind kind, struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;
    struct building b = { .tree = tree, .profile = scope->profile, .trace = trace };
    bool done;

    memset(tree, 0, sizeof(*tree));
    tree->scope = scope;
    tree->kind = kind;
    tree->nodes = lw_zalloc(trace->event_count + 1, sizeof(*tree->nodes), err);
    b.names = tree->nodes ? lw_zalloc(lw_strings_count(scope->profile->strings), 1, err)
                          : NULL;
    done = b.names &&
           (kind != LW_OP_TREE_TB || lw_tb_events_init(&b.tb, scope->profile, err));
    tree->is_lightning = b.tb.is_lightning;
    for (size_t i = 0; done && i < trace->track_count; i++)
        if (lw_trace_scope_has_track(scope, &trace->tracks[i]))
            nest_track(&b, &trace->tracks[i]);
    done = done && add_works(&b, err);
    if (done)
        merge_same(&b);
    done = done && lw_op_tree_add_memory(tree, err) &&
           (kind != LW_OP_TREE_TORCH || add_torch_times(&b, err));
    if (done)
        sum_up(&b);
    lw_free(b.names);
    lw_free(b.runtime_ns);
    lw_tb_calls_release(&b.calls);
    lw_tb_events_release(&b.tb);
    return done;
}

void lw_op_tree_release(struct lw_op_tree *tree)
{
    lw_free(tree->nodes);
    lw_free(tree->host_memory);
    lw_free(tree->device_memory);
    lw_free(tree->tc_self_ns);
    lw_free(tree->tc_ns);
    lw_free(tree->host_us);
    lw_free(tree->host_self_us);
    memset(tree, 0, sizeof(*tree));
}
