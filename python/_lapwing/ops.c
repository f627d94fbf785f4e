/* What torch calls when an op begins and ends; see ops.h.
 *
 * The hot path is op_started and op_ended: no lock, no GIL, no memory but what a thread
 * gets once. What a start must tell its end lies in a context of ours, which torch keeps
 * in the function itself: an end may come in another thread, or never. */

#include "ops.h"

#include <stdlib.h>
#include <string.h>

#include "agent/handover.h"
#include "agent/ops_budget.h"
#include "agent/ops_torch.h"
#include "ops_lines.h"
#include "ops_names.h"
#include "ops_test.h"
#include "phases.h"

enum {
    COUNTED_AT_ONCE = 256,    /* ops that a thread counts before it tells */
    MOST_FREE_CONTEXTS = 256, /* that a thread keeps for the next ops */
    BOUND_MEMORY = 64,        /* bounds after which one of a better kind is forgotten */
    RANGE_MEMORY = 256,       /* and after which a range of the program's is */
    INNER_MEMORY = 16,        /* sequence numbers of ops that ended; a power of two */
};

struct op_context {
    struct lw_torch_context base;
    union {
        struct op_context *next;         /* free one */
        const struct ops_thread *thread; /* in which it began */
    };
    uint64_t start_ticks;
    uint32_t number; /* of its name */
};

struct ops_thread {
    struct op_context *contexts; /* free ones */
    uint32_t context_count;
    uint32_t op_count;     /* not yet told to ops.total */
    uint32_t torch_number; /* of the thread, as torch counts; 0: not asked yet */
    struct inner {
        int64_t sequence;
        uint64_t start_ticks;
    } inner[INNER_MEMORY]; /* by sequence number: the last op that ended with it */
    struct py_ops_names names;
    struct py_ops_lines lines;
};

static struct {
    struct lw_torch torch;
    pthread_key_t thread_end;
    enum lw_agent_ops mode;
    uint32_t own_number;     /* of the op that we measure with, which is nobody's */
    uint32_t counter_number; /* of PY_OPS_COUNTER */
    _Atomic bool is_on;      /* from start to stop */
    _Atomic uint64_t total;  /* ops, as far as threads have told */

    /* Of what follows; only a fork, the program's first range and stop wait for it. */
    pthread_mutex_t lock;
    uint64_t range_handle, op_handle; /* of callbacks; 0: not there */
    struct lw_ops_budget budget;
    _Atomic bool is_open;     /* ops are being recorded */
    _Atomic bool is_to_close; /* since a fork: at the next op */
    bool is_told_bounds;      /* by steps_ranges.c */
    _Atomic bool has_ranges;  /* of the program's own, of late */
    _Atomic unsigned bounds_since_range;
    uint64_t total_at_open; /* or at the last bound */
    struct bound_time {
        const void *thread; /* whose */
        uint64_t ticks, cpu_ticks;
    } last_bound;
    uint64_t worked_ticks;         /* by threads, from bound to bound */
    unsigned since[PY_OPS_BOUNDS]; /* bounds since one of this kind; large: never */
} ops = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread struct ops_thread *ops_thread
    __attribute__((tls_model("initial-exec")));

/* ---- a thread's own ---------------------------------------------------------------- */

static void release_context(struct lw_torch_context *base);

static const struct lw_torch_table context_table = {
    .release = { release_context, release_context, release_context, release_context,
                 release_context, release_context },
};

static void thread_ended(void *memory)
{
    struct ops_thread *mine = memory;

    ops_thread = NULL;
    while (mine->contexts) {
        struct op_context *context = mine->contexts;

        mine->contexts = context->next;
        free(context);
    }
    atomic_fetch_add(&ops.total, mine->op_count);
    free(mine);
}

static struct ops_thread *make_thread(void)
{
    struct ops_thread *mine = calloc(1, sizeof(*mine));

    if (mine && pthread_setspecific(ops.thread_end, mine) != 0) {
        free(mine);
        return NULL;
    }
    ops_thread = mine;
    return mine;
}

static struct op_context *make_context(void)
{
    struct op_context *context = calloc(1, sizeof(*context));

    if (context)
        context->base.table = context_table.release;
    return context;
}

/* torch deletes a context, in whichever thread. */
static void release_context(struct lw_torch_context *base)
{
    struct op_context *context = (struct op_context *)base;
    struct ops_thread *mine = ops_thread;

    if (!mine || mine->context_count >= MOST_FREE_CONTEXTS) {
        free(context);
        return;
    }
    context->next = mine->contexts;
    mine->contexts = context;
    mine->context_count++;
}

/* ---- windows ----------------------------------------------------------------------- */

static void tell_open(bool is_open)
{
    struct lw_calls_thread *calls = py_session_enter();

    if (calls) {
        py_value_write(calls, ops.counter_number, is_open);
        py_session_leave();
    }
}

static void *op_started(struct lw_torch_context **result, const void *function);
static void op_ended(const void *function, struct lw_torch_context *base);
static void *range_started(struct lw_torch_context **result, const void *function);
static void range_ended(const void *function, struct lw_torch_context *base);

static uint64_t add_op_callbacks(void)
{
    struct lw_torch_callback callback = { op_started, op_ended, 1, { false } };

    for (unsigned scope = 0; scope < LW_TORCH_SCOPES; scope++)
        callback.scopes[scope] = scope != LW_TORCH_USER;
    return ops.torch.add_callback(callback);
}

static uint64_t add_range_callbacks(void)
{
    struct lw_torch_callback callback = { range_started, range_ended, 1, { false } };

    callback.scopes[LW_TORCH_USER] = true;
    return ops.torch.add_callback(callback);
}

static void remove_callback(uint64_t *handle)
{
    if (*handle)
        ops.torch.remove_callback(*handle);
    *handle = 0;
}

/* Locked: have torch call us for ranges, but only where we have to hear of them: with any
 * callback at all each node of a backward pass takes 600 instructions more. */
static void set_range_callbacks(void)
{
    bool is_needed =
        ops.is_on && (ops.is_open || ops.has_ranges || !ops.is_told_bounds);

    if (is_needed && !ops.range_handle)
        ops.range_handle = add_range_callbacks();
    else if (!is_needed)
        remove_callback(&ops.range_handle);
}

/* Locked: record ops from here on, or not. */
static void set_open(bool is_open)
{
    if (is_open == ops.is_open)
        return;
    if (is_open)
        tell_open(true);
    ops.is_open = is_open;
    set_range_callbacks();
    if (is_open) {
        ops.op_handle = add_op_callbacks();
    } else {
        remove_callback(&ops.op_handle);
        tell_open(false);
    }
}

static void tell_count(struct ops_thread *mine)
{
    atomic_fetch_add_explicit(&ops.total, mine->op_count, memory_order_relaxed);
    mine->op_count = 0;
}

/* Enough ops were counted to look: is there too much of this step? */
static __attribute__((noinline)) void look_at_count(struct ops_thread *mine)
{
    uint64_t count;

    tell_count(mine);
    if (ops.mode != LW_OPS_WINDOWS || pthread_mutex_trylock(&ops.lock) != 0)
        return;
    count = ops.total - ops.total_at_open;
    if (ops.is_to_close) {
        set_open(false);
        ops.is_to_close = false;
    } else if (ops.is_open && lw_ops_budget_is_spent(&ops.budget, count)) {
        lw_ops_budget_give_up(&ops.budget, count);
        set_open(false);
    }
    pthread_mutex_unlock(&ops.lock);
}

/* Is it BOUND that tells this program's steps apart? */
static bool counts_as_bound(enum py_ops_bound bound)
{
    for (unsigned kind = 0; kind < PY_OPS_BOUNDS; kind++)
        ops.since[kind] += ops.since[kind] < UINT32_MAX;
    ops.since[bound] = 0;
    for (unsigned kind = 0; kind < bound; kind++)
        if (ops.since[kind] < BOUND_MEMORY)
            return false;
    return true;
}

static struct bound_time bound_time_now(void)
{
    struct timespec cpu;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (struct bound_time){
        .thread = &ops_thread,
        .ticks = lw_ticks_now(py_tracer.use_tsc),
        .cpu_ticks =
            (uint64_t)(((double)cpu.tv_sec * 1e3 + (double)cpu.tv_nsec * 1e-6) *
                       ops.budget.ticks_per_ms),
    };
}

/* Locked: the time that earns, up to now. What a thread did not work for does not: it waited,
 * or the processors were others', and then an op costs more than was measured, too. */
static uint64_t worked_until_now(void)
{
    struct bound_time now = bound_time_now();
    uint64_t passed = now.ticks - ops.last_bound.ticks;
    uint64_t worked = now.cpu_ticks - ops.last_bound.cpu_ticks;

    if (now.thread == ops.last_bound.thread)
        ops.worked_ticks += worked < passed ? worked : passed;
    ops.last_bound = now;
    return ops.worked_ticks;
}

/* Locked: has this thread's ring room for the next step? */
static bool has_room(void)
{
    struct lw_calls_thread *calls = py_session_enter();
    bool has = calls && lw_ops_budget_has_room(&ops.budget, lw_calls_room(calls),
                                               calls->ring_mask + 1);

    if (calls)
        py_session_leave();
    return has;
}

LW_HOT void py_ops_step_bound(enum py_ops_bound bound)
{
    if (ops.mode != LW_OPS_WINDOWS || !py_session_is_on() ||
        pthread_mutex_trylock(&ops.lock) != 0)
        return;
    if (ops.is_on && counts_as_bound(bound)) {
        if (ops_thread)
            tell_count(ops_thread);
        if (ops.has_ranges && ++ops.bounds_since_range > RANGE_MEMORY) {
            ops.has_ranges = false;
            set_range_callbacks();
        }
        set_open(lw_ops_budget_step(&ops.budget, worked_until_now(), ops.is_open,
                                    ops.total - ops.total_at_open) &&
                 has_room());
        ops.total_at_open = ops.total;
    }
    pthread_mutex_unlock(&ops.lock);
}

void py_ops_bounds_are_told(void)
{
    ops.is_told_bounds = true;
}

void py_ops_range_made(void)
{
    atomic_store_explicit(&ops.bounds_since_range, 0, memory_order_relaxed);
    if (ops.has_ranges || !ops.is_on)
        return;
    pthread_mutex_lock(&ops.lock); /* seldom; its first range would be lost otherwise */
    ops.has_ranges = true;
    set_range_callbacks();
    pthread_mutex_unlock(&ops.lock);
}

/* ---- what torch calls -------------------------------------------------------------- */

static inline struct op_context *start(const char *name, enum lw_agent_name_kind kind)
{
    struct ops_thread *mine = ops_thread;
    struct op_context *context;

    if (!py_session_is_on() || (__builtin_expect(!mine, 0) && !(mine = make_thread())))
        return NULL;
    context = mine->contexts;
    if (__builtin_expect(context != NULL, 1)) {
        mine->contexts = context->next;
        mine->context_count--;
    } else if (!(context = make_context())) {
        return NULL;
    }
    context->thread = mine;
    context->number = py_ops_names_number(&mine->names, kind, name);
    context->start_ticks = lw_ticks_now(py_tracer.use_tsc); /* as late as can be */
    return context;
}

/* Of two ops, one in the other, that have a sequence number both, the inner one made the
 * node: has one ended in CONTEXT's op? */
static inline bool was_inner(struct ops_thread *mine, const struct op_context *context,
                             int64_t sequence)
{
    struct inner *inner = &mine->inner[sequence & (INNER_MEMORY - 1)];

    if (inner->sequence == sequence && inner->start_ticks > context->start_ticks)
        return true;
    *inner = (struct inner){ sequence, context->start_ticks };
    return false;
}

/* Say which forward op and which backward node belong together, and which line asked for
 * the op. While it ends the line is still the one that it began in. */
static void tell_origin(struct lw_calls_thread *calls, const struct op_context *context,
                        uint64_t now, const void *function)
{
    struct ops_thread *mine = ops_thread;
    uint64_t sequence = (uint64_t)lw_torch_sequence_of(&ops.torch, function);
    unsigned scope = lw_torch_scope_of(&ops.torch, function);
    struct lw_agent_record record = { .ticks = context->start_ticks };
    uint32_t line = 0;

    if (scope == LW_TORCH_BACKWARD) {
        record.kind = LW_RECORD_BACKWARD;
        record.node = (uint32_t)lw_torch_forward_thread_of(&ops.torch, function);
    } else if (scope == LW_TORCH_FUNCTION &&
               !was_inner(mine, context, (int64_t)sequence)) {
        if (mine->torch_number == 0)
            mine->torch_number = (uint32_t)ops.torch.thread_id();
        record.kind = LW_RECORD_FORWARD;
        record.node = mine->torch_number;
        py_ops_lines_find(&mine->lines, &record.id, &line);
    }
    /* What began before this recording has no start of its own in it. */
    if (record.node == 0 || sequence >> (64 - LW_ORIGIN_LINE_BITS) != 0 ||
        lw_calls_is_older(calls, record.ticks, now))
        return;
    record.value =
        sequence << LW_ORIGIN_LINE_BITS | (line < 1u << LW_ORIGIN_LINE_BITS ? line : 0);
    lw_calls_add_record(calls, &record);
}

static inline void end(const struct op_context *context, uint64_t now,
                       const void *function)
{
    struct lw_calls_thread *calls = py_session_enter();

    if (!calls)
        return;
    if (__builtin_expect(context->number != ops.own_number, 1)) {
        py_span_write(calls, context->number, context->start_ticks, now);
        if (function && lw_torch_sequence_of(&ops.torch, function) >= 0 &&
            context->thread == ops_thread)
            tell_origin(calls, context, now, function);
    }
    py_session_leave();
}

static void *op_started(struct lw_torch_context **result, const void *function)
{
    struct op_context *context = start(ops.torch.name(function), LW_NAME_OP);

    *result = context ? &context->base : NULL;
    return result;
}

static void op_ended(const void *function, struct lw_torch_context *base)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);
    struct ops_thread *mine = ops_thread;

    if (!base)
        return;
    end((const struct op_context *)base, now, function);
    if (mine && ++mine->op_count >= COUNTED_AT_ONCE)
        look_at_count(mine);
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A loader announces each batch, an optimizer each step: names since torch 1.8. */
static void *range_started(struct lw_torch_context **result, const void *function)
{
    const char *name = ops.torch.name(function);
    struct op_context *context;

    if (!ops.is_told_bounds && starts(name, "enumerate(Data")) /* Loader, Pipe */
        py_ops_step_bound(PY_OPS_DATA);
    context = start(name, LW_NAME_MARK);
    *result = context ? &context->base : NULL;
    return result;
}

static void range_ended(const void *function, struct lw_torch_context *base)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    if (!base)
        return;
    end((const struct op_context *)base, now, NULL);
    if (!ops.is_told_bounds && starts(ops.torch.name(function), "Optimizer.step#"))
        py_ops_step_bound(PY_OPS_OPTIMIZER);
}

/* ---- fork -------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&ops.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&ops.lock);
}

/* A child made in the middle of a window has bounds of its own, if any: a loader's worker
 * has none. Torch's own lock may be held by a thread that is not here, so the window is
 * closed when torch calls next. */
static void after_fork_in_child(void)
{
    ops.is_to_close = ops.is_open && ops.mode == LW_OPS_WINDOWS;
    if (ops.is_to_close && ops_thread)
        ops_thread->op_count = COUNTED_AT_ONCE;
    pthread_mutex_unlock(&ops.lock);
}

/* ---- on and off -------------------------------------------------------------------- */

static void tell_reason(const struct lw_agent_config *config, const char *reason)
{
    static const char head[] = "torch's ops are not recorded: ";
    char text[sizeof(head) + 200];
    size_t len = strlen(reason);

    if (len > sizeof(text) - sizeof(head))
        len = sizeof(text) - sizeof(head);
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + sizeof(head) - 1, reason, len);
    lw_handover_send(config->socket, LW_HELLO_NOTE, NULL, text, sizeof(head) - 1 + len,
                     0);
}

static bool prepare(void)
{
    static bool is_ready;

    if (!is_ready)
        is_ready =
            pthread_key_create(&ops.thread_end, thread_ended) == 0 &&
            pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    return is_ready;
}

/* What an op costs at least, in ticks, by the very callbacks that will be called. */
static double measure(void)
{
    uint64_t handle = add_op_callbacks();
    uint64_t cost = lw_torch_cost(&ops.torch, py_tracer.use_tsc);

    ops.torch.remove_callback(handle);
    return (double)cost;
}

bool py_ops_start(PyObject *torch)
{
    const struct lw_agent_config *config = py_session_config();
    const char *reason = "there is no memory";
    double op_ticks;

    if (!config || config->ops == LW_OPS_OFF || ops.is_on)
        return true;
    if (!prepare() || !py_ops_test(&ops.torch, torch, &reason)) {
        tell_reason(config, reason);
        return false;
    }
    py_ops_lines_start(torch);
    ops.mode = config->ops;
    ops.own_number =
        py_span_number(LW_NAME_OP, LW_TORCH_COST_NAME, strlen(LW_TORCH_COST_NAME));
    ops.counter_number =
        py_span_number(LW_NAME_COUNTER, PY_OPS_COUNTER, strlen(PY_OPS_COUNTER));
    pthread_mutex_lock(&ops.lock);
    memset(ops.since, 0xff, sizeof(ops.since));
    op_ticks = measure();
    lw_ops_budget_init(&ops.budget, op_ticks, 1e-3 / py_tracer_tick_s());
    ops.last_bound = bound_time_now();
    ops.worked_ticks = ops.last_bound.cpu_ticks;
    ops.total_at_open = ops.total;
    ops.is_on = true;
    set_range_callbacks();
    if (ops.mode == LW_OPS_ALL)
        set_open(true);
    pthread_mutex_unlock(&ops.lock);
    return true;
}

void py_ops_stop(void)
{
    if (!ops.is_on)
        return;
    pthread_mutex_lock(&ops.lock);
    ops.is_on = false;
    set_open(false);
    set_range_callbacks();
    pthread_mutex_unlock(&ops.lock);
}
