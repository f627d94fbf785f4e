/* One pass from parents to children hands down what an op is the gradient of. */

#include "analyses/op_stacks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"

/* Which forward op has a sequence number. */
struct number {
    uint32_t place;  /* of a flow: the rank; else the track */
    uint64_t thread; /* of a flow: as the backward op names it; else 0 */
    int64_t sequence;
};

struct numbered {
    struct number number;
    uint32_t forward; /* event */
};

struct finding {
    const struct lw_trace *trace;
    struct lw_op_stacks *stacks;
    enum lw_op_stacks_kind kind;
    struct numbered *list; /* owned: what the maps' numbers, from 1 on, stand for */
    size_t count, capacity;
    struct lw_map flows;  /* by rank, thread and sequence */
    struct lw_map firsts; /* by track and sequence, for LW_OP_STACKS_TORCH */
    uint8_t *is_backward; /* owned: of each event, whether it is in the backward pass */
};

static uint64_t hash_number(const struct number *n)
{
    return lw_hash_u64((uint64_t)n->sequence * 31 + n->place + (n->thread << 40));
}

static bool is_number(const void *owner, uint32_t index, const void *key)
{
    const struct finding *f = owner;
    const struct number *a = &f->list[index - 1].number, *b = key;

    return a->place == b->place && a->thread == b->thread && a->sequence == b->sequence;
}

static uint32_t find_number(const struct finding *f, const struct lw_map *map,
                            const struct number *number)
{
    uint32_t found = lw_map_find(map, hash_number(number), is_number, f, number);

    return found ? f->list[found - 1].forward : LW_NONE;
}

/* The first one stays. */
static bool add_number(struct finding *f, struct lw_map *map,
                       const struct number *number, uint32_t forward,
                       struct lw_error *err)
{
    if (find_number(f, map, number) != LW_NONE)
        return true;
    if (!lw_grow(&f->list, &f->capacity, f->count + 1, sizeof(*f->list), err))
        return false;
    f->list[f->count].number = *number;
    f->list[f->count].forward = forward;
    return lw_map_add(map, hash_number(number), (uint32_t)++f->count, err);
}

/* As a backward op names what it is the gradient of. */
static struct number number_of(const struct lw_trace *trace, uint32_t backward)
{
    const struct lw_op_detail *op = lw_op_detail(trace, backward);
    struct number number = { trace->tracks[trace->events[backward].track].rank,
                             op ? op->forward_thread : 0, op ? op->sequence : -1 };

    return number;
}

static bool add_flows(struct finding *f, struct lw_error *err)
{
    for (size_t i = 0; i < f->trace->flow_count; i++) {
        const struct lw_flow *flow = &f->trace->flows[i];
        struct number number = number_of(f->trace, flow->backward);

        if (number.sequence >= 0 &&
            !add_number(f, &f->flows, &number, flow->forward, err))
            return false;
    }
    return true;
}

/* Is EVENT what autograd's engine calls? */
static bool is_engine(const struct finding *f, uint32_t event)
{
    const struct lw_op_detail *op = lw_op_detail(f->trace, event);
    const char *name;

    if (f->trace->events[event].kind != LW_EVENT_OP)
        return false;
    if (op && op->forward_thread)
        return true;
    name =
        lw_profile_text(f->stacks->tree->scope->profile, f->trace->events[event].name);
    return lw_text_starts(name, "autograd::engine::evaluate_function") ||
           lw_text_starts(name, "torch::autograd::");
}

/* For torch: the first op that has a number, on each thread, whatever it is. */
static bool add_firsts(struct finding *f, struct lw_error *err)
{
    for (uint32_t i = 0; i < f->trace->event_count; i++) {
        const struct lw_op_node *node = &f->stacks->tree->nodes[i];
        const struct lw_op_detail *op = lw_op_detail(f->trace, i);
        struct number number = { f->trace->events[i].track, 0, op ? op->sequence : -1 };

        if (!node->is_in)
            continue;
        f->is_backward[i] = is_engine(f, i) ||
                            (node->parent != LW_NONE && f->is_backward[node->parent]);
        if (!f->is_backward[i] && number.sequence >= 0 &&
            !add_number(f, &f->firsts, &number, i, err))
            return false;
    }
    return true;
}

/* What the op of the engine, EVENT, is the gradient of. */
static uint32_t forward_of(const struct finding *f, uint32_t event)
{
    struct number number = number_of(f->trace, event);
    uint32_t forward =
        number.sequence >= 0 ? find_number(f, &f->flows, &number) : LW_NONE;
    struct number first = { 0, 0, number.sequence };

    if (f->kind != LW_OP_STACKS_TORCH || forward == LW_NONE)
        return forward;
    first.place = f->trace->events[forward].track;
    return find_number(f, &f->firsts, &first);
}

/* Torch knows no stack for what the engine calls of itself; ours is then the place where
 * backward() was called. */
static void find_source(const struct finding *f, uint32_t event)
{
    const struct lw_op_node *node = &f->stacks->tree->nodes[event];
    uint32_t *sources = f->stacks->sources;
    bool is_torch = f->kind == LW_OP_STACKS_TORCH;
    uint32_t forward;

    sources[event] = event;
    f->is_backward[event] = false;
    if (!node->is_in)
        return;
    if (is_engine(f, event)) {
        forward = forward_of(f, event);
        f->is_backward[event] = is_torch || forward != LW_NONE;
        if (f->is_backward[event])
            sources[event] = forward;
    } else if (node->parent != LW_NONE && f->is_backward[node->parent]) {
        f->is_backward[event] = true;
        sources[event] = sources[node->parent];
    }
}

bool lw_op_stacks_init(struct lw_op_stacks *stacks, const struct lw_op_tree *tree,
                       enum lw_op_stacks_kind kind, struct lw_error *err)
{
    const struct lw_trace *trace = tree->scope->trace;
    struct finding f = { .trace = trace, .stacks = stacks, .kind = kind };
    bool done;

    stacks->tree = tree;
    stacks->sources = lw_alloc(trace->event_count * sizeof(*stacks->sources) + 1, err);
    f.is_backward = stacks->sources ? lw_zalloc(trace->event_count + 1, 1, err) : NULL;
    done = f.is_backward && add_flows(&f, err) &&
           (kind != LW_OP_STACKS_TORCH || add_firsts(&f, err));
    for (uint32_t i = 0; done && i < trace->event_count; i++)
        find_source(&f, i);
    lw_free(f.is_backward);
    lw_free(f.list);
    lw_map_release(&f.flows);
    lw_map_release(&f.firsts);
    return done;
}

void lw_op_stacks_release(struct lw_op_stacks *stacks)
{
    lw_free(stacks->sources);
    memset(stacks, 0, sizeof(*stacks));
}

/* Text */

/* torch's own calls between a person's backward() and the engine. */
static bool is_left_out(const char *entry, size_t len)
{
    static const char *const pairs[][2] = {
        { "autograd/__init__", "_make_grads" },
        { "autograd/__init__", "backward" },
        { "torch/tensor", "backward" },
        { "_internal/common_utils", "prof_callable" },
        { "_internal/common_utils", "prof_func_call" },
        { "_internal/common_utils", "prof_meth_call" },
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (memmem(entry, len, pairs[i][0], strlen(pairs[i][0])) &&
            memmem(entry, len, pairs[i][1], strlen(pairs[i][1])))
            return true;
    return false;
}

struct writing {
    struct lw_buf *out;
    size_t left; /* how many may still come */
    bool has_any;
};

static void add_entry(struct writing *w, const char *entry, size_t len)
{
    if (len == 0 || w->left == 0 || is_left_out(entry, len))
        return;
    if (w->has_any)
        lw_buf_add_char(w->out, '\n');
    lw_buf_add(w->out, entry, len);
    w->has_any = true;
    w->left--;
}

/* "a.py(12): f;b.py(3): g;" */
static void add_recorded(struct writing *w, const char *text, size_t len)
{
    while (len > 0 && w->left > 0) {
        const char *semicolon = memchr(text, ';', len);
        size_t entry = semicolon ? (size_t)(semicolon - text) : len;

        add_entry(w, text, entry);
        if (!semicolon)
            return;
        text += entry + 1;
        len -= entry + 1;
    }
}

/* More levels than this are looked through only in vain: a stack is cut there. */
#define LEVELS_MAX 1000

/* A Python function has no stack of its own, but callers. */
static void add_callers(struct writing *w, const struct lw_profile *profile,
                        uint32_t event)
{
    const struct lw_trace *trace = profile->trace;

    for (size_t i = 0; i < LEVELS_MAX && w->left > 0; i++) {
        event = trace->events[event].parent;
        if (event == LW_NONE)
            return;
        if (trace->events[event].kind == LW_EVENT_PYTHON)
            add_entry(w, lw_profile_text(profile, trace->events[event].name),
                      lw_strings_len(profile->strings, trace->events[event].name));
    }
}

void lw_op_stacks_add_text(const struct lw_op_stacks *stacks, uint32_t event,
                           size_t count, struct lw_buf *out)
{
    const struct lw_profile *profile = stacks->tree->scope->profile;
    uint32_t source = stacks->sources[event];
    struct writing w = { out, count ? count : SIZE_MAX, false };
    const struct lw_op_detail *op;

    if (source == LW_NONE)
        return;
    op = lw_op_detail(profile->trace, source);
    if (op && op->stack)
        add_recorded(&w, lw_profile_text(profile, op->stack),
                     lw_strings_len(profile->strings, op->stack));
    else
        add_callers(&w, profile, source);
}
