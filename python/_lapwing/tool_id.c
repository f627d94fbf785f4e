/* Holding a tool id, and making way; see tool_id.h. */

#include "tool_id.h"

#include "patch.h"
#include "tracer.h"

/* The optimizer's comes first, which nobody has; then those that no kind of tool is told to
 * use. cProfile's is the last. */
static const int ids[] = { 5, 4, 3, 1, 0, 2 };

enum { IDS = sizeof(ids) / sizeof(*ids) };

static int held = -1;    /* -1: none, also while the program has all of them */
static bool is_wanted;   /* between taking and giving up: ours is one that is free */
static bool is_own_call; /* of sys.monitoring: not the program's */
static struct {
    PyObject *const *callbacks; /* the caller's */
    const uint32_t *bits;
    int count;
    uint32_t mask;
} heard;

/* ---- sys.monitoring -------------------------------------------------------------- */

static PyObject *get_monitoring(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */

    if (!monitoring)
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is missing");
    return monitoring;
}

static bool call(const char *method, const char *format, ...)
{
    PyObject *monitoring = get_monitoring();
    PyObject *function = monitoring ? PyObject_GetAttrString(monitoring, method) : NULL;
    PyObject *arguments, *result = NULL;
    va_list values;

    va_start(values, format);
    arguments = Py_VaBuildValue(format, values);
    va_end(values);
    is_own_call = true;
    if (arguments && function)
        result = PyObject_CallObject(function, arguments);
    is_own_call = false;
    Py_XDECREF(function);
    Py_XDECREF(arguments);
    Py_XDECREF(result);
    return result != NULL;
}

PyObject *py_tool_id_events(void)
{
    PyObject *monitoring = get_monitoring();

    return monitoring ? PyObject_GetAttrString(monitoring, "events") : NULL;
}

uint32_t py_tool_id_event(PyObject *events, const char *name)
{
    PyObject *bit = PyObject_GetAttrString(events, name);
    unsigned long number = bit ? PyLong_AsUnsignedLong(bit) : 0;

    Py_XDECREF(bit);
    return PyErr_Occurred() ? 0 : (uint32_t)number;
}

/* CPython 3.13.0 loses the opcode events of code that has them already when a second tool
 * comes to it: breakpoint(), which asks for them before it sets its trace function, would
 * stop a line late. Asking once more brings them back. */
static void renew_opcode_events(void)
{
    PyObject *type, *value, *traceback;
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* borrowed */

    PyErr_Fetch(&type, &value, &traceback);
    Py_XINCREF(frame);
    while (frame && frame != Py_None) {
        PyObject *wanted = PyObject_GetAttrString(frame, "f_trace_opcodes");
        PyObject *caller = PyObject_GetAttrString(frame, "f_back");

        if (wanted == Py_True &&
            PyObject_SetAttrString(frame, "f_trace_opcodes", Py_False) == 0)
            (void)PyObject_SetAttrString(frame, "f_trace_opcodes", Py_True);
        PyErr_Clear();
        Py_XDECREF(wanted);
        Py_DECREF(frame);
        frame = caller;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

/* ---- one id ---------------------------------------------------------------------- */

/* Have ID call our callbacks. */
static bool set_callbacks(int id)
{
    for (int i = 0; i < heard.count; i++)
        if (!call("register_callback", "(iIO)", id, heard.bits[i], heard.callbacks[i]))
            return false;
    return true;
}

/* Leave ID as it was before it was ours. An audit hook of the program may refuse a step of
 * it, which is no reason to leave out the others. */
static void leave(int id)
{
    (void)call("set_events", "(ii)", id, 0);
    PyErr_Clear();
    for (int i = 0; i < heard.count; i++) {
        (void)call("register_callback", "(iIO)", id, heard.bits[i], Py_None);
        PyErr_Clear();
    }
    (void)call("free_tool_id", "(i)", id);
    PyErr_Clear();
}

/* Take a free id other than BUT. False, with nothing raised: there is none. */
static bool take(int but)
{
    for (int i = 0; i < IDS; i++) {
        if (ids[i] == but)
            continue;
        if (call("use_tool_id", "(is)", ids[i], "lapwing")) {
            if (set_callbacks(ids[i]) &&
                call("set_events", "(iI)", ids[i], heard.mask)) {
                held = ids[i];
                renew_opcode_events();
                return true;
            }
            PyErr_Clear();
            leave(ids[i]);
        }
        PyErr_Clear();
    }
    return false;
}

/* ---- making way ------------------------------------------------------------------ */

/* Whether the program asks about our id by ARGUMENT. */
static bool is_ours(PyObject *argument)
{
    bool is = !is_own_call && held >= 0 && PyLong_Check(argument) &&
              PyLong_AsLong(argument) == held;

    PyErr_Clear(); /* too large a number: the program hears of it itself */
    return is;
}

/* The program is about to use the id ARGUMENT: it must find it as it would be without us.
 * Its audit hooks hear that our callbacks are registered for another, so what only asks is
 * answered in our place. */
static void make_way(PyObject *argument)
{
    int id = held;

    if (!is_ours(argument))
        return;
    held = -1;
    if (!take(id))
        py_tracer_count_lost(PY_RECORDS_CALLS, LW_LOST_TOOLS);
    leave(id);
}

/* One has become free: ours, if we have none. */
static void take_again(void)
{
    PyObject *type, *value, *traceback;

    if (is_own_call || held >= 0 || !is_wanted)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    (void)take(-1);
    PyErr_Restore(type, value, traceback);
}

static union py_method use_tool_id, free_tool_id, clear_tool_id, get_tool, all_events,
    register_callback, get_events, set_events, set_local_events;

static PyObject *on_use_tool_id(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count > 0)
        make_way(args[0]);
    return use_tool_id.plain(self, args, count);
}

static PyObject *on_register_callback(PyObject *self, PyObject *const *args,
                                      Py_ssize_t count)
{
    if (count > 0)
        make_way(args[0]);
    return register_callback.plain(self, args, count);
}

static PyObject *on_set_events(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count > 0)
        make_way(args[0]);
    return set_events.plain(self, args, count);
}

static PyObject *on_set_local_events(PyObject *self, PyObject *const *args,
                                     Py_ssize_t count)
{
    if (count > 0)
        make_way(args[0]);
    return set_local_events.plain(self, args, count);
}

/* What is said of an id that nobody has. */
static PyObject *on_get_tool(PyObject *self, PyObject *id)
{
    if (is_ours(id))
        Py_RETURN_NONE;
    return get_tool.tuple(self, id);
}

static PyObject *on_get_events(PyObject *self, PyObject *id)
{
    return is_ours(id) ? PyLong_FromLong(0) : get_events.tuple(self, id);
}

static PyObject *on_clear_tool_id(PyObject *self, PyObject *id)
{
    if (is_ours(id))
        Py_RETURN_NONE;
    return clear_tool_id.tuple(self, id);
}

/* Its answer is a dict from an event's name to the tools that hear it, a bit each: without
 * ours. */
static PyObject *on_all_events(PyObject *self, PyObject *unused)
{
    PyObject *result = all_events.tuple(self, unused);
    PyObject *names = result && held >= 0 ? PyDict_Keys(result) : NULL;
    bool done = names != NULL;

    for (Py_ssize_t i = 0; done && i < PyList_Size(names); i++) {
        PyObject *name = PyList_GetItem(names, i); /* borrowed */
        unsigned long tools = PyLong_AsUnsignedLong(PyDict_GetItem(result, name));
        PyObject *others = PyLong_FromUnsignedLong(tools & ~(1ul << held));

        done = others &&
               (tools == 1ul << held ? PyDict_DelItem(result, name) == 0
                                     : PyDict_SetItem(result, name, others) == 0);
        Py_XDECREF(others);
    }
    if (names && !done)
        Py_CLEAR(result);
    Py_XDECREF(names);
    return result;
}

static PyObject *on_free_tool_id(PyObject *self, PyObject *id)
{
    PyObject *result;

    if (is_ours(id))
        Py_RETURN_NONE;
    result = free_tool_id.tuple(self, id);
    take_again();
    return result;
}

static union py_method set_trace;

static PyObject *on_set_trace(PyObject *self, PyObject *function)
{
    PyObject *result = set_trace.tuple(self, function);

    if (result && function != Py_None && held >= 0)
        renew_opcode_events();
    return result;
}

static void watch_set_trace(void)
{
    static const union py_method ours = { .tuple = on_set_trace };
    PyObject *function = PySys_GetObject("settrace"); /* borrowed */

    if (function)
        py_patch_function(PY_PATCH_MONITORING, function, "settrace", METH_O, ours,
                          &set_trace);
}

/* Where one of them is not as we know it, the program can see the id that we hold. */
static void watch_program(void)
{
    const struct {
        const char *name;
        int flags;
        union py_method ours;
        union py_method *original;
    } methods[] = {
        { "use_tool_id", METH_FASTCALL, { .plain = on_use_tool_id }, &use_tool_id },
        { "free_tool_id", METH_O, { .tuple = on_free_tool_id }, &free_tool_id },
        { "clear_tool_id", METH_O, { .tuple = on_clear_tool_id }, &clear_tool_id },
        { "_all_events", METH_NOARGS, { .tuple = on_all_events }, &all_events },
        { "get_tool", METH_O, { .tuple = on_get_tool }, &get_tool },
        { "register_callback",
          METH_FASTCALL,
          { .plain = on_register_callback },
          &register_callback },
        { "get_events", METH_O, { .tuple = on_get_events }, &get_events },
        { "set_events", METH_FASTCALL, { .plain = on_set_events }, &set_events },
        { "set_local_events",
          METH_FASTCALL,
          { .plain = on_set_local_events },
          &set_local_events },
    };
    PyObject *monitoring = get_monitoring();

    for (size_t i = 0; monitoring && i < sizeof(methods) / sizeof(*methods); i++) {
        PyObject *function = PyObject_GetAttrString(monitoring, methods[i].name);

        if (function)
            py_patch_function(PY_PATCH_MONITORING, function, methods[i].name,
                              methods[i].flags, methods[i].ours, methods[i].original);
        Py_XDECREF(function);
        PyErr_Clear();
    }
}

/* ---- on and off ------------------------------------------------------------------ */

bool py_tool_id_take(PyObject *const *callbacks, const uint32_t *bits, int count,
                     uint32_t mask)
{
    if (held >= 0 && mask != heard.mask && !call("set_events", "(iI)", held, mask))
        return false;
    heard.callbacks = callbacks;
    heard.bits = bits;
    heard.count = count;
    heard.mask = mask;
    if (!is_wanted) {
        watch_program();
        watch_set_trace();
    }
    is_wanted = true;
    if (held < 0)
        (void)take(-1);
    return true;
}

bool py_tool_id_is_held(void)
{
    return held >= 0;
}

void py_tool_id_give_up(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (is_wanted)
        py_patch_undo(PY_PATCH_MONITORING);
    is_wanted = false;
    if (held >= 0)
        leave(held);
    held = -1;
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}
