/* Calls on Python 3.12 and later: sys.monitoring with callbacks in C.
 *
 * Each callback is an object of our own with a vectorcall slot, which the interpreter
 * calls with no argument tuple and no check of a method table between. The events are
 * those cProfile uses, so what counts as a call is the same: a generator is entered
 * and left each time it runs. */

#include "tool_id.h"
#include "tracer.h"

#include <structmember.h>

struct callback {
    PyObject_HEAD py_vectorcall call; /* found by __vectorcalloffset__ */
};

static void start_slowly(PyObject *code)
{
    if (py_tracer.active == 0 && py_tracer.waiting_for_main) {
        PyObject *frame = (PyObject *)PyEval_GetFrame(); /* borrowed */
        PyObject *globals = frame ? PyObject_GetAttrString(frame, "f_globals") : NULL;

        if (globals)
            py_tracer_see_main(code, globals);
        else
            PyErr_Clear();
        Py_XDECREF(globals);
    }
    py_tracer_refresh();
    if (py_tracer.active && !py_thread.in_timer && !py_tracer_is_idle())
        py_tracer_enter(PY_RECORDS_CALLS, py_tracer_function(code)->number);
}

static __attribute__((noinline)) PyObject *start_any(PyObject *code)
{
    struct lw_calls_thread *calls = py_tracer_only();

    if (calls)
        lw_calls_enter(calls, py_tracer_function(code)->number,
                       lw_ticks_now(py_tracer.use_tsc));
    else
        start_slowly(code);
    Py_RETURN_NONE;
}

/* Leave the call of KEY. */
static __attribute__((noinline)) PyObject *leave_any(enum py_records records, void *key)
{
    struct lw_calls_thread *calls = py_tracer_only();

    if (calls && py_tracer_is_key(lw_calls_function(calls), key))
        lw_calls_leave(calls, lw_ticks_now(py_tracer.use_tsc));
    else if (!py_thread.in_timer && !py_tracer_is_idle())
        py_tracer_leave_function(records, key);
    Py_RETURN_NONE;
}

/* The common paths of both: they call nobody but at their end, so little has to be kept
 * across calls. */
static PyObject *on_start(PyObject *self, PyObject *const *args, size_t nargsf,
                          PyObject *kwnames)
{
    struct lw_calls_thread *calls = py_tracer_only();

    (void)self, (void)nargsf, (void)kwnames;
    if (__builtin_expect(calls && py_tracer.use_tsc, 1)) {
        uint64_t now = lw_ticks_now(true);
        const struct py_function_slot *slot =
            py_functions_find(&py_tracer.functions, args[0]);

        if (__builtin_expect(slot && lw_calls_try_enter(calls, slot->number, now), 1))
            Py_RETURN_NONE;
    }
    return start_any(args[0]);
}

static inline PyObject *leave(enum py_records records, void *key)
{
    struct lw_calls_thread *calls = py_tracer_only();

    if (__builtin_expect(calls && py_tracer.use_tsc &&
                             py_tracer_is_key(lw_calls_function(calls), key) &&
                             lw_calls_try_leave(calls, lw_ticks_now(true)),
                         1))
        Py_RETURN_NONE;
    return leave_any(records, key);
}

static PyObject *on_leave(PyObject *self, PyObject *const *args, size_t nargsf,
                          PyObject *kwnames)
{
    (void)self, (void)nargsf, (void)kwnames;
    return leave(PY_RECORDS_CALLS, args[0]);
}

/* The definition behind a builtin function or an unbound method of a builtin type, with
 * the object it is called on; NULL: not a builtin. */
static PyMethodDef *builtin_definition(PyObject *callable, PyObject *first_argument,
                                       PyObject **self)
{
    if (PyCFunction_Check(callable)) {
        *self = PyCFunction_GetSelf(callable); /* borrowed */
        return py_builtin_definition(callable);
    }
    if (Py_IS_TYPE(callable, py_tracer.compat.method_descriptor_type)) {
        *self = first_argument;
        return py_descriptor_definition(callable);
    }
    return NULL;
}

/* Where it takes the long way. */
static bool wants_builtins(void)
{
    return py_tracer.active_c != 0 && !py_thread.in_timer && !py_tracer_is_idle();
}

static PyObject *on_c_call(PyObject *tool, PyObject *const *args, size_t nargsf,
                           PyObject *kwnames)
{
    PyObject *self = NULL;
    PyMethodDef *definition = builtin_definition(args[2], args[3], &self);
    const struct py_function_slot *slot;
    struct lw_calls_thread *calls;

    (void)tool, (void)nargsf, (void)kwnames;
    calls = py_tracer_only();
    if (!definition || (calls ? !py_thread.only_c : !wants_builtins()))
        Py_RETURN_NONE;
    slot = py_functions_find(&py_tracer.functions, PY_BUILTIN_KEY(definition));
    if (__builtin_expect(!slot, 0))
        slot =
            py_functions_add_builtin(&py_tracer.functions, definition, args[2], self);
    if (__builtin_expect(calls != NULL, 1))
        lw_calls_enter(calls, slot->number, lw_ticks_now(py_tracer.use_tsc));
    else
        py_tracer_enter(PY_RECORDS_C_CALLS, slot->number);
    Py_RETURN_NONE;
}

static PyObject *on_c_leave(PyObject *tool, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames)
{
    PyObject *self = NULL;
    PyMethodDef *definition = builtin_definition(args[2], args[3], &self);

    (void)tool, (void)nargsf, (void)kwnames;
    if (definition)
        return leave(PY_RECORDS_C_CALLS, PY_BUILTIN_KEY(definition));
    Py_RETURN_NONE;
}

static const struct {
    const char *event;
    py_vectorcall call;
    bool for_c_calls;
} events[] = {
    { "PY_START", on_start, false }, { "PY_RESUME", on_start, false },
    { "PY_THROW", on_start, false }, { "PY_RETURN", on_leave, false },
    { "PY_YIELD", on_leave, false }, { "PY_UNWIND", on_leave, false },
    { "CALL", on_c_call, true },     { "C_RETURN", on_c_leave, true },
    { "C_RAISE", on_c_leave, true },
};

enum { EVENT_COUNT = sizeof(events) / sizeof(*events) };

/* One object a row of events, made at the first start and kept. */
static PyObject *callbacks[EVENT_COUNT];
static uint32_t bits[EVENT_COUNT]; /* of sys.monitoring.events */

/* Never called: monitoring uses vectorcall. A type with a vectorcall slot needs it. */
static PyObject *call_plainly(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self, (void)args, (void)kwargs;
    Py_RETURN_NONE;
}

static bool make_callbacks(void)
{
    static PyMemberDef members[] = {
        { "__vectorcalloffset__", T_PYSSIZET, offsetof(struct callback, call), READONLY,
          NULL },
        { NULL, 0, 0, 0, NULL },
    };
    static PyType_Slot slots[] = {
        { Py_tp_members, members },
        { Py_tp_call, call_plainly },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "_lapwing.callback",
        .basicsize = sizeof(struct callback),
        .flags = Py_TPFLAGS_DEFAULT | PY_TPFLAGS_HAVE_VECTORCALL,
        .slots = slots,
    };
    PyObject *type;

    if (callbacks[0])
        return true;
    type = PyType_FromSpec(&spec);
    for (int i = 0; type && i < EVENT_COUNT; i++) {
        struct callback *made = PyObject_New(struct callback, (PyTypeObject *)type);

        if (!made)
            break;
        made->call = events[i].call;
        callbacks[i] = (PyObject *)made;
    }
    Py_XDECREF(type);
    return callbacks[EVENT_COUNT - 1] != NULL;
}

bool py_monitoring_start(bool c_calls)
{
    PyObject *constants;
    uint32_t mask = 0;

    if (!make_callbacks() || !(constants = py_tool_id_events()))
        return false;
    for (int i = 0; i < EVENT_COUNT; i++) {
        uint32_t bit = py_tool_id_event(constants, events[i].event);

        if (!bit)
            break;
        bits[i] = bit;
        /* C_RETURN and C_RAISE come with CALL, and may not be asked for by name. */
        if (!events[i].for_c_calls || (c_calls && events[i].call == on_c_call))
            mask |= bit;
    }
    Py_DECREF(constants);
    return !PyErr_Occurred() && py_tool_id_take(callbacks, bits, EVENT_COUNT, mask);
}

bool py_monitoring_is_deaf(void)
{
    return !py_tool_id_is_held();
}

void py_monitoring_stop(void)
{
    py_tool_id_give_up();
}
