#include "error.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer.h"

enum {
    MOST_HELD = 8
}; /* signals during one piece of our code; more are one too many */

/* Of the main thread, and only changed there. */
static struct {
    PyObject *list[MOST_HELD]; /* exceptions to raise, the oldest first; owned */
    unsigned count;
    unsigned depth; /* calls of our Python code that run */
    bool is_scheduled;
} held;

bool py_error_is_main_thread(void)
{
    return syscall(SYS_gettid) == getpid();
}

/* ---- whose is it? ------------------------------------------------------------------- */

/* An attribute of one of the interpreter's own objects, or NULL with no exception set. */
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *value = object ? PyObject_GetAttrString(object, name) : NULL;

    if (!value)
        PyErr_Clear();
    return value;
}

static long number(PyObject *object, const char *name)
{
    PyObject *value = attribute(object, name);
    long result = value && PyLong_Check(value) ? PyLong_AsLong(value) : -1;

    PyErr_Clear();
    Py_XDECREF(value);
    return result;
}

/* Whether two that follow each other in VALUES are the number of a signal and CALLER. */
static bool holds_call(PyObject *values, PyObject *caller)
{
    for (Py_ssize_t i = 0; i + 1 < PyList_Size(values); i++)
        if (PyLong_Check(PyList_GetItem(values, i)) &&
            PyList_GetItem(values, i + 1) == caller)
            return true;
    return false;
}

/* The arguments of FRAME's function, those behind a star too; NULL: not known. */
static PyObject *arguments_of(PyObject *frame)
{
    PyObject *code = attribute(frame, "f_code");
    PyObject *names = attribute(code, "co_varnames");
    PyObject *locals = attribute(frame, "f_locals");
    long count = number(code, "co_argcount"),
         keywords = number(code, "co_kwonlyargcount");
    long most = names && PyTuple_Check(names) ? (long)PyTuple_Size(names) : 0;
    PyObject *values = PyList_New(0), *last = NULL;

    for (long i = 0; values && locals && i < count && i < most; i++) {
        PyObject *value = PyObject_GetItem(locals, PyTuple_GetItem(names, i));

        if (!value || PyList_Append(values, value) < 0)
            PyErr_Clear(); /* deleted since */
        Py_XDECREF(value);
    }
    /* Behind them and those by name only is the tuple of the rest, if there is one. */
    if (values && locals && count >= 0 && keywords >= 0 && count + keywords < most)
        last = PyObject_GetItem(locals, PyTuple_GetItem(names, count + keywords));
    PyErr_Clear();
    for (Py_ssize_t i = 0; last && PyTuple_Check(last) && i < PyTuple_Size(last); i++)
        if (PyList_Append(values, PyTuple_GetItem(last, i)) < 0)
            PyErr_Clear();
    Py_XDECREF(last);
    Py_XDECREF(code);
    Py_XDECREF(names);
    Py_XDECREF(locals);
    return values;
}

/* Python calls a signal's handler with the frame that it interrupts, and nobody else calls
 * a function with a number and its own frame. */
static bool is_handler(PyObject *frame)
{
    PyObject *caller = attribute(frame, "f_back");
    PyObject *values = caller && caller != Py_None ? arguments_of(frame) : NULL;
    bool is = values && holds_call(values, caller);

    Py_XDECREF(values);
    Py_XDECREF(caller);
    return is;
}

/* Where in ERROR's traceback a signal's handler is: a new reference, or NULL. */
static PyObject *handler_of(PyObject *error)
{
    PyObject *at = attribute(error, "__traceback__");

    while (at && at != Py_None) {
        PyObject *frame = attribute(at, "tb_frame"), *next;
        bool is = frame && is_handler(frame);

        Py_XDECREF(frame);
        if (is)
            return at;
        next = attribute(at, "tb_next");
        Py_DECREF(at);
        at = next;
    }
    Py_XDECREF(at);
    return NULL;
}

bool py_error_is_programs(PyObject *error)
{
    PyObject *type, *value, *traceback, *handler;
    bool is;

    if (PyObject_IsInstance(error, PyExc_Exception) != 1)
        return true;
    PyErr_Fetch(&type, &value, &traceback);
    handler = handler_of(error);
    is = handler != NULL;
    Py_XDECREF(handler);
    PyErr_Restore(type, value, traceback);
    return is;
}

/* ---- going on ----------------------------------------------------------------------- */

bool py_error_is_importing(void)
{
    static const char start[] = "<frozen importlib";
    PyObject *code = attribute((PyObject *)PyEval_GetFrame(), "f_code");
    PyObject *file = attribute(code, "co_filename");
    const char *text =
        file && PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    bool is = text && strncmp(text, start, sizeof(start) - 1) == 0;

    PyErr_Clear();
    Py_XDECREF(file);
    Py_XDECREF(code);
    return is;
}

bool py_error_may_wait(void)
{
    return !py_compat_is_watched(&py_tracer.compat, PyThreadState_Get());
}

static void schedule(void);

static int raise_held(void *unused)
{
    PyObject *error;

    (void)unused;
    held.is_scheduled = false;
    if (held.count == 0 || held.depth > 0) /* whoever leaves schedules it again */
        return 0;
    /* The import system swallows what a callback of its own raises. */
    if (py_error_may_wait() && py_error_is_importing()) {
        schedule();
        return 0;
    }
    error = held.list[0];
    held.count--;
    memmove(held.list, held.list + 1, held.count * sizeof(*held.list));
    schedule();
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error,
                  PyException_GetTraceback(error));
    return -1;
}

static void schedule(void)
{
    if (held.count > 0 && held.depth == 0 && !held.is_scheduled)
        held.is_scheduled = Py_AddPendingCall(raise_held, NULL) == 0;
}

/* The way that ERROR has come through our code is not for the program to see. */
static void forget_our_frames(PyObject *error)
{
    PyObject *handler = handler_of(error);

    if (PyException_SetTraceback(error, handler ? handler : Py_None) < 0)
        PyErr_Clear();
    Py_XDECREF(handler);
}

static void pass_on(PyObject *error)
{
    if (!py_error_is_main_thread()) {
        /* There only its class can be sent, and nothing else was sent there before. */
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(),
                                  (PyObject *)Py_TYPE(error));
    } else if (held.count < MOST_HELD) {
        forget_our_frames(error);
        held.list[held.count++] = Py_NewRef(error);
        schedule();
    }
}

void py_error_end(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (!type)
        return;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback && PyException_SetTraceback(value, traceback) < 0)
        PyErr_Clear();
    if (value && py_error_is_programs(value))
        pass_on(value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

void py_error_call(PyObject *callback, PyObject *args)
{
    bool is_main = py_error_is_main_thread();
    PyObject *type, *value, *traceback, *result;

    PyErr_Fetch(&type, &value, &traceback);
    held.depth += is_main;
    Py_INCREF(callback); /* it may have itself replaced */
    result = args ? PyObject_CallObject(callback, args) : NULL;
    Py_DECREF(callback);
    Py_XDECREF(result);
    Py_XDECREF(args);
    py_error_end();
    held.depth -= is_main;
    if (is_main)
        schedule();
    PyErr_Restore(type, value, traceback);
}
