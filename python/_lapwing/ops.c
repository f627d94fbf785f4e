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
#include "ops_names.h"
#include "phases.h"

enum {
    COUNTED_AT_ONCE = 256,    /* ops that a thread counts before it tells */
    MOST_FREE_CONTEXTS = 256, /* that a thread keeps for the next ops */
    BOUND_MEMORY = 64,        /* bounds after which one of a better kind is forgotten */
};

/* torch 2.0 to 2.14 were read or tried; another is first tried in a copy. */
static const unsigned known_major = 2, known_minor = 14;

struct op_context {
    struct lw_torch_context base;
    struct op_context *next; /* free one */
    uint64_t start_ticks;
    uint32_t number; /* of its name */
};

struct ops_thread {
    struct op_context *contexts; /* free ones */
    uint32_t context_count;
    uint32_t op_count; /* not yet told to ops.total */
    struct py_ops_names names;
};

static struct {
    struct lw_torch torch;
    pthread_key_t thread_end;
    enum lw_agent_ops mode;
    uint32_t own_number;     /* of the op that we measure with, which is nobody's */
    uint32_t counter_number; /* of PY_OPS_COUNTER */
    uint64_t user_handle, op_handle; /* of callbacks; 0: not there */
    _Atomic uint64_t total;          /* ops, as far as threads have told */

    pthread_mutex_t lock; /* of what follows; nobody waits for it but fork and stop */
    struct lw_ops_budget budget;
    _Atomic bool is_open;          /* ops are being recorded */
    _Atomic bool is_to_close;      /* since a fork: at the next op */
    uint64_t total_at_open;        /* or at the last bound */
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

static uint64_t add_op_callbacks(void)
{
    struct lw_torch_callback callback = { op_started, op_ended, 1, { false } };

    for (unsigned scope = 0; scope < LW_TORCH_SCOPES; scope++)
        callback.scopes[scope] = scope != LW_TORCH_USER;
    return ops.torch.add_callback(callback);
}

/* Locked: record ops from here on, or not. */
static void set_open(bool is_open)
{
    if (is_open == ops.is_open)
        return;
    if (is_open) {
        tell_open(true);
        ops.op_handle = add_op_callbacks();
    } else {
        ops.torch.remove_callback(ops.op_handle);
        ops.op_handle = 0;
        tell_open(false);
    }
    ops.is_open = is_open;
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

void py_ops_step_bound(enum py_ops_bound bound)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    if (ops.mode != LW_OPS_WINDOWS || !py_session_is_on() ||
        pthread_mutex_trylock(&ops.lock) != 0)
        return;
    if (ops.user_handle && counts_as_bound(bound)) {
        if (ops_thread)
            tell_count(ops_thread);
        set_open(lw_ops_budget_step(&ops.budget, now, ops.is_open,
                                    ops.total - ops.total_at_open));
        ops.total_at_open = ops.total;
    }
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
    context->number = py_ops_names_number(&mine->names, kind, name);
    context->start_ticks = lw_ticks_now(py_tracer.use_tsc); /* as late as can be */
    return context;
}

static inline void end(const struct op_context *context, uint64_t now)
{
    struct lw_calls_thread *calls = py_session_enter();

    if (!calls)
        return;
    if (__builtin_expect(context->number != ops.own_number, 1))
        py_span_write(calls, context->number, context->start_ticks, now);
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

    (void)function;
    if (!base)
        return;
    end((const struct op_context *)base, now);
    if (mine && ++mine->op_count >= COUNTED_AT_ONCE)
        look_at_count(mine);
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A loader announces each batch, an optimizer each step: names since torch 1.8. */
static void *user_started(struct lw_torch_context **result, const void *function)
{
    const char *name = ops.torch.name(function);
    struct op_context *context;

    if (starts(name, "enumerate(Data")) /* Loader, Pipe */
        py_ops_step_bound(PY_OPS_DATA);
    context = start(name, LW_NAME_MARK);
    *result = context ? &context->base : NULL;
    return result;
}

static void user_ended(const void *function, struct lw_torch_context *base)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    if (!base)
        return;
    end((const struct op_context *)base, now);
    if (starts(ops.torch.name(function), "Optimizer.step#"))
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

/* A real op must come to us as itself: what was seen of torch.empty(0). */
static struct {
    const void *function;
    bool has_ended;
} seen;

static void *see_start(struct lw_torch_context **result, const void *function)
{
    *result = NULL;
    if (lw_torch_scope_of(&ops.torch, function) == LW_TORCH_FUNCTION &&
        strcmp(ops.torch.name(function), "aten::empty") == 0)
        seen.function = function;
    return result;
}

static void see_end(const void *function, struct lw_torch_context *base)
{
    (void)base;
    seen.has_ended |= function == seen.function;
}

static bool sees_an_op(PyObject *torch)
{
    struct lw_torch_callback callback = { see_start, see_end, 1, { true } };
    uint64_t handle = ops.torch.add_callback(callback);
    PyObject *tensor = PyObject_CallMethod(torch, "empty", "i", 0);

    ops.torch.remove_callback(handle);
    if (!tensor)
        PyErr_Clear();
    Py_XDECREF(tensor);
    return seen.function && seen.has_ended;
}

/* "2.13.0+cpu" is one that we know, or older. */
static bool is_known(const char *version)
{
    unsigned major = 0, minor = 0;
    char *rest;

    major = (unsigned)strtoul(version, &rest, 10);
    if (*rest == '.')
        minor = (unsigned)strtoul(rest + 1, NULL, 10);
    return major == known_major && minor <= known_minor;
}

/* The text of an attribute, borrowed from *HOLDER, which the caller releases; NULL, with an
 * exception: there is none. */
static const char *text_of(PyObject *object, const char *name, PyObject **holder)
{
    const char *text = NULL;

    /* str() of it: torch's version is a subclass that compares in ways of its own. */
    PyObject *value = object ? PyObject_GetAttrString(object, name) : NULL;

    *holder = value ? PyObject_Str(value) : NULL;
    Py_XDECREF(value);
    if (*holder)
        text = PyUnicode_AsUTF8AndSize(*holder, NULL);
    return text;
}

/* Find torch's functions and test them. False, and *REASON says why. */
static bool test_torch(PyObject *torch, const char **reason)
{
    PyObject *core = PyObject_GetAttrString(torch, "_C");
    PyObject *version_holder = NULL, *library_holder = NULL;
    const char *version = text_of(torch, "__version__", &version_holder);
    const char *library = text_of(core, "__file__", &library_holder);
    bool works = false;

    *reason = "it is not as those we know";
    if (version && library)
        works = lw_torch_open(&ops.torch, library, reason) &&
                (is_known(version) || lw_torch_try(&ops.torch, reason)) &&
                lw_torch_check(&ops.torch, reason);
    if (works && !sees_an_op(torch)) {
        *reason = "torch.empty(0) was not heard of";
        works = false;
    }
    Py_XDECREF(core);
    Py_XDECREF(version_holder);
    Py_XDECREF(library_holder);
    PyErr_Clear();
    return works;
}

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

static void add_user_callbacks(void)
{
    struct lw_torch_callback callback = { user_started, user_ended, 1, { false } };

    callback.scopes[LW_TORCH_USER] = true;
    ops.user_handle = ops.torch.add_callback(callback);
}

/* What an op costs, in ticks, by the very callbacks that will be called. */
static double measure(void)
{
    uint64_t handle = add_op_callbacks();
    uint64_t cost = lw_torch_cost(&ops.torch, py_tracer.use_tsc);

    ops.torch.remove_callback(handle);
    return (double)cost;
}

void py_ops_start(PyObject *torch)
{
    const struct lw_agent_config *config = py_session_config();
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);
    const char *reason = "there is no memory";

    if (!config || config->ops == LW_OPS_OFF || ops.user_handle)
        return;
    if (!prepare() || !test_torch(torch, &reason)) {
        tell_reason(config, reason);
        return;
    }
    ops.mode = config->ops;
    ops.own_number =
        py_span_number(LW_NAME_OP, LW_TORCH_COST_NAME, strlen(LW_TORCH_COST_NAME));
    ops.counter_number =
        py_span_number(LW_NAME_COUNTER, PY_OPS_COUNTER, strlen(PY_OPS_COUNTER));
    pthread_mutex_lock(&ops.lock);
    memset(ops.since, 0xff, sizeof(ops.since));
    lw_ops_budget_init(&ops.budget, now, now - py_tracer.start_ticks, measure(),
                       1e-3 / py_tracer_tick_s());
    ops.total_at_open = ops.total;
    add_user_callbacks();
    if (ops.mode == LW_OPS_ALL)
        set_open(true);
    pthread_mutex_unlock(&ops.lock);
}

void py_ops_stop(void)
{
    if (!ops.user_handle)
        return;
    pthread_mutex_lock(&ops.lock);
    set_open(false);
    ops.torch.remove_callback(ops.user_handle);
    ops.user_handle = 0;
    pthread_mutex_unlock(&ops.lock);
}
