/* A method of torch's that is plain Python has nothing in C behind it that could be ours. But
 * an object is asked for its method before each call, through a slot of its type, and
 * `object.method(...)` is one instruction that asks and another that calls: what the first
 * gets, nobody sees but the second. So there, and only there, the method is given behind a
 * wrapper. Whoever else asks (pickle, inspect, copy, a program that keeps the bound
 * method) gets the method itself, and its calls are not told. */

#include "error.h"
#include "steps.h"

enum { PLACES = 16, EXTENDED = 144 /* EXTENDED_ARG of 3.10, 3.11 */ };

/* How the instruction is known that asks for a method to call it. */
static struct {
    bool is_known;
    bool
        by_bit; /* from 3.12 on: it is LOAD_ATTR, with the lowest bit of its argument */
    unsigned char opcode;
} asking;

/* Places in code that asked before. */
static struct place {
    PyObject *code; /* owned, so that no other takes its place in memory */
    long at;
    bool calls;
} places[PLACES];

/* The instructions of CODE, *LEN bytes; *HOLDER keeps them. NULL with no exception set. */
static const unsigned char *instructions(PyObject *code, Py_ssize_t *len,
                                         PyObject **holder)
{
    char *bytes = NULL;

    *holder = code ? PyObject_GetAttrString(code, "co_code") : NULL;
    if (!*holder || PyBytes_AsStringAndSize(*holder, &bytes, len) < 0)
        PyErr_Clear();
    return (const unsigned char *)bytes;
}

/* What this Python makes of `a.b()`, and of `a.b`, tells which it is. */
static bool learn_instruction(void)
{
    PyObject *calling = Py_CompileString("a.b()", "<lapwing>", Py_eval_input);
    PyObject *asking_only = Py_CompileString("a.b", "<lapwing>", Py_eval_input);
    PyObject *holders[2];
    Py_ssize_t lens[2] = { 0, 0 }, at = 0;
    const unsigned char *call = instructions(calling, &lens[0], &holders[0]);
    const unsigned char *only = instructions(asking_only, &lens[1], &holders[1]);

    while (call && only && at + 1 < lens[0] && at + 1 < lens[1] &&
           call[at] == only[at] && call[at + 1] == only[at + 1])
        at += 2;
    if (call && only && at + 1 < lens[0] && at + 1 < lens[1]) {
        asking.opcode = call[at];
        asking.by_bit = call[at] == only[at];
        asking.is_known = !asking.by_bit || (call[at + 1] & 1) > (only[at + 1] & 1);
    }
    PyErr_Clear();
    Py_XDECREF(holders[0]);
    Py_XDECREF(holders[1]);
    Py_XDECREF(calling);
    Py_XDECREF(asking_only);
    return asking.is_known;
}

bool py_steps_calls_are_known(void)
{
    return asking.is_known || learn_instruction();
}

LW_SELDOM static bool read_place(PyObject *code, long at)
{
    PyObject *holder;
    Py_ssize_t len = 0;
    const unsigned char *bytes = instructions(code, &len, &holder);
    bool calls = false;

    while (bytes && !asking.by_bit && at >= 0 && at + 3 < len && bytes[at] == EXTENDED)
        at += 2;
    if (bytes && at >= 0 && at + 1 < len)
        calls = bytes[at] == asking.opcode && (!asking.by_bit || (bytes[at + 1] & 1));
    Py_XDECREF(holder);
    return calls;
}

/* Whether the Python code that asked is about to call what it gets. */
static bool is_called(void)
{
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    PyObject *code = frame ? (PyObject *)PyFrame_GetCode(frame) : NULL;
    PyObject *number =
        frame ? PyObject_GetAttrString((PyObject *)frame, "f_lasti") : NULL;
    long at = number ? PyLong_AsLong(number) : -1;
    struct place *place =
        &places[(((uintptr_t)code >> 5) ^ (uintptr_t)at / 2) % PLACES];
    bool calls = false;

    if (code && number) {
        if (place->code != code || place->at != at) {
            Py_XDECREF(place->code);
            Py_INCREF(code);
            *place = (struct place){ code, at, read_place(code, at) };
        }
        calls = place->calls;
    }
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(code);
    return calls;
}

LW_HOT PyObject *py_steps_wrap_called(PyObject *method, PyObject *object,
                                      py_wrapped_call *call)
{
    PyObject *wrapper;

    if (!method || !py_session_is_on() || !is_called())
        return method;
    wrapper = py_steps_wrap(method, object, call);
    if (!wrapper) {
        PyErr_Clear(); /* then this call is not told */
        return method;
    }
    Py_DECREF(method);
    return wrapper;
}
