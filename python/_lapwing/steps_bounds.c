/* Where one step of a training ends and the next begins, while it runs, for who acts there:
 * windows of torch's profiler begin and end with steps. What bounds them, the best first:
 *
 *     lapwing.step()
 *     a loader is asked for a batch, and the one before it was trained with
 *     an optimizer has made a step; of several that take turns, the last
 *     a model is called, where none of these was seen, or not for long
 *
 * The report knows more, since it knows how the run went on (src/analyses/steps*); here one
 * has to say at once. Nearly always nobody asks: then it costs a few comparisons. */

#include "error.h"
#include "steps.h"

enum {
    MOST_TURNS = 16,   /* optimizers that take turns */
    MOST_UPDATES = 64, /* by one batch; with more, batches do not bound the steps */
    MOST_CALLS = 1000, /* of models without any better sign of a step */
};

static struct {
    PyObject *on_step;  /* called at a bound; owned; NULL: nobody asks */
    PyObject *on_order; /* called when somebody has an order for us; likewise */
    uint32_t orders;    /* of the session's that were taken */
    _Atomic bool has_stepped_in_c; /* and nobody has heard of it yet */

    bool by_step;     /* the program says */
    bool by_loader;   /* batches bound */
    bool has_updated; /* an optimizer has made a step, ever */
    bool has_learned; /* gradients were worked out, ever */
    bool has_trained; /* with the batch that was taken last */
    uint32_t updates; /* since then */
    uint32_t calls;   /* since any better sign */

    const void *optimizer; /* that makes a step; compared, never followed */
    const void *turns[MOST_TURNS];
    uint32_t turn_count;
} bounds __attribute__((aligned(64)));

/* ---- who asks ----------------------------------------------------------------------- */

static void replace(PyObject **place, PyObject *callback)
{
    PyObject *old = *place;

    *place = callback == Py_None ? NULL : callback;
    Py_XINCREF(*place);
    Py_XDECREF(old);
}

void py_steps_on_step(PyObject *callback)
{
    if (!bounds.on_step) {
        bounds.turn_count = 0;
        bounds.optimizer = NULL;
    }
    replace(&bounds.on_step, callback);
}

void py_steps_on_order(PyObject *callback)
{
    replace(&bounds.on_order, callback);
}

/* What CALLBACK does is not part of the program's steps. */
static void call(PyObject *callback, PyObject *args)
{
    struct py_steps_thread *thread = &py_steps_thread;

    thread->inside++;
    py_error_call(callback, args);
    thread->inside--;
}

/* ---- what bounds -------------------------------------------------------------------- */

/* Is the optimizer that has made a step the last of those that take turns? */
static bool ends_turns(void)
{
    uint32_t at = 0;

    if (!bounds.optimizer) /* it began before anybody asked */
        return true;
    while (at < bounds.turn_count && bounds.turns[at] != bounds.optimizer)
        at++;
    if (at == bounds.turn_count) {
        if (at == MOST_TURNS) /* others have taken over */
            at = bounds.turn_count = 0;
        bounds.turns[bounds.turn_count++] = bounds.optimizer;
        return at == 0;
    }
    return at + 1 == bounds.turn_count;
}

static bool is_bounded_by_data(bool *is_first)
{
    bool had_trained = bounds.has_trained;

    bounds.updates = 0;
    bounds.has_trained = false;
    if (bounds.by_step)
        return false;
    if (!bounds.by_loader) {
        bounds.by_loader = true;
        /* If it has trained without, this step ends as those did. */
        *is_first = !bounds.has_updated;
        return *is_first;
    }
    /* Else it is to evaluate with, or one of several that are taken at once. */
    return had_trained || !bounds.has_learned;
}

static bool is_bounded_by_optimizer(void)
{
    bounds.has_updated = bounds.has_learned = bounds.has_trained = true;
    if (++bounds.updates > MOST_UPDATES)
        bounds.by_loader = false;
    return !bounds.by_step && !bounds.by_loader && bounds.on_step && ends_turns();
}

static bool has_sign(void)
{
    return bounds.by_step || bounds.by_loader || bounds.has_updated;
}

static bool is_bounded_by_call(void)
{
    bounds.calls += bounds.calls < UINT32_MAX;
    return !has_sign() || bounds.calls > MOST_CALLS;
}

static bool is_bounded(enum py_step_bound what, bool *is_first)
{
    bool had_sign = has_sign();

    *is_first = false;
    if (what == PY_BOUND_CALL)
        return true; /* else nobody would ask */
    bounds.calls = 0;
    if (what == PY_BOUND_DATA)
        return is_bounded_by_data(is_first);
    if (what == PY_BOUND_OPTIMIZER)
        return is_bounded_by_optimizer();
    bounds.by_step = true;
    *is_first = !had_sign;
    return true;
}

/* ---- telling ------------------------------------------------------------------------ */

static bool take_orders(void)
{
    uint32_t orders = py_session_orders();

    if (orders == bounds.orders || !bounds.on_order)
        return false;
    bounds.orders = orders;
    call(bounds.on_order, PyTuple_New(0));
    return true;
}

LW_HOT static bool pass(enum py_step_bound what)
{
    bool is_told = take_orders(), is_first;

    if (!is_bounded(what, &is_first) || !bounds.on_step)
        return is_told;
    call(bounds.on_step, Py_BuildValue("(ii)", is_first, what == PY_BOUND_CALL));
    return true;
}

LW_HOT bool py_steps_bound(enum py_step_bound what)
{
    bool is_told = false;

    if (atomic_load_explicit(&bounds.has_stepped_in_c, memory_order_relaxed)) {
        atomic_store_explicit(&bounds.has_stepped_in_c, false, memory_order_relaxed);
        is_told = pass(PY_BOUND_STEP);
    }
    /* Where there are better signs, orders are taken there too. */
    if (what == PY_BOUND_CALL && !is_bounded_by_call())
        return is_told;
    return pass(what) || is_told;
}

void py_steps_bound_in_c(void)
{
    atomic_store_explicit(&bounds.has_stepped_in_c, true, memory_order_relaxed);
}

void py_steps_trained(void)
{
    bounds.has_learned = bounds.has_trained = true;
}

/* torch makes the range in a function whose `self` is the optimizer. */
void py_steps_begin_update(void)
{
    PyObject *frame, *locals, *self;

    if (!bounds.on_step)
        return;
    frame = (PyObject *)PyEval_GetFrame(); /* borrowed */
    locals = frame ? PyObject_GetAttrString(frame, "f_locals") : NULL;
    self = locals ? PyMapping_GetItemString(locals, "self") : NULL;
    bounds.optimizer = self;
    Py_XDECREF(self);
    Py_XDECREF(locals);
    PyErr_Clear();
}
