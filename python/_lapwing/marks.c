/* Steps, marks and counters; and the table of functions by which C finds us.
 *
 * Where nobody is recording, each function here is one look at one byte. Arguments are
 * checked all the same, and alike: a program must not fail, or stop failing, because it is
 * recorded.
 *
 * The functions of the table run without the GIL, on threads that Python may not know.
 * What they write to is the calling thread's alone (its ring, its `struct
 * py_open_marks`), but for the names, which have a lock; py_session_enter() keeps the
 * recording from being ended meanwhile. */

#include "marks.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "lapwing.h"
#include "ops.h"
#include "steps.h"

enum {
    MOST_OPEN = 64,   /* phases of C that nest; lapwing.h says so */
    KNOWN_NAMES = 64, /* a power of two: names of C found by their address */
};

/* What a thread has begun and not ended. */
struct py_open_marks {
    uint32_t session; /* py_session_number(): what is of another is over */
    uint32_t depth;   /* of open phases, also those that there is no room for */
    uint64_t step_start_ticks; /* 0: in no step */
    struct {
        const struct lw_name_text *name;
        uint64_t start_ticks;
    } open[MOST_OPEN];
    struct {
        const char *address; /* the program's: what is there may change */
        const struct lw_name_text *text;
    } known[KNOWN_NAMES];
};

/* NULL, counted: no memory. */
static struct py_open_marks *open_marks(const struct lw_calls_thread *calls)
{
    struct py_open_marks *marks = py_thread.marks;

    if (!marks) {
        marks = calloc(1, sizeof(*marks));
        if (!marks) {
            lw_region_count_lost(calls->region, LW_LOST_RECORDS);
            return NULL;
        }
        py_thread.marks = marks;
    }
    if (marks->session != py_session_number()) {
        marks->session = py_session_number();
        marks->depth = 0;
        marks->step_start_ticks = 0;
    }
    return marks;
}

void py_marks_after_fork(void)
{
    if (py_thread.marks)
        py_thread.marks->step_start_ticks = 0;
}

static void step_now(struct lw_calls_thread *calls, bool begin)
{
    static _Atomic uint32_t number; /* two threads may ask for it: it is the same */
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);
    struct py_open_marks *marks = open_marks(calls);

    if (!marks)
        return;
    if (marks->step_start_ticks) {
        if (number == 0)
            number = py_phase_number("step", "");
        py_span_write(calls, number, marks->step_start_ticks, now);
    }
    marks->step_start_ticks = begin ? now : 0;
}

/* ---- for Python --------------------------------------------------------------------- */

static bool is_name(PyObject *name, const char *function)
{
    if (PyUnicode_Check(name))
        return true;
    PyErr_Format(PyExc_TypeError, "lapwing.%s(): the name must be a str, not %R",
                 function, Py_TYPE(name));
    return false;
}

static uint32_t name_number(enum lw_agent_name_kind kind, PyObject *name)
{
    PyObject *holder;
    size_t len;
    const char *text = py_text_bytes(name, &len, &holder);
    uint32_t number = py_span_number(kind, text, len);

    Py_XDECREF(holder);
    return number;
}

/* step(*, begin=True). With no argument, as nearly always, nothing is looked at. */
static PyObject *step(PyObject *module, PyObject *const *args, Py_ssize_t count,
                      PyObject *keywords)
{
    Py_ssize_t keyword_count = keywords ? PyTuple_Size(keywords) : 0;
    struct lw_calls_thread *calls;
    int begin = 1;

    (void)module;
    if (count > 0) {
        PyErr_SetString(PyExc_TypeError, "lapwing.step() takes no positional argument");
        return NULL;
    }
    if (keyword_count > 0) {
        if (keyword_count > 1 || PyUnicode_CompareWithASCIIString(
                                     PyTuple_GetItem(keywords, 0), "begin") != 0) {
            PyErr_SetString(PyExc_TypeError,
                            "lapwing.step() takes one argument: begin=True or False");
            return NULL;
        }
        begin = PyObject_IsTrue(args[0]);
        if (begin < 0)
            return NULL;
    }
    if (py_session_is_on() && (calls = py_session_place())) {
        step_now(calls, begin);
        py_ops_step_bound(PY_OPS_STEP);
        py_steps_bound(PY_BOUND_STEP);
    }
    Py_RETURN_NONE;
}

static PyObject *mark(PyObject *module, PyObject *name)
{
    uint64_t now = py_phase_begin();
    struct lw_calls_thread *calls;

    (void)module;
    if (!is_name(name, "mark"))
        return NULL;
    if (now && (calls = py_session_place()))
        py_span_write(calls, name_number(LW_NAME_MARK, name), now, now);
    Py_RETURN_NONE;
}

/* end_range(name, start_ticks): what lapwing.record() is inside a recording. */
static PyObject *end_range(PyObject *module, PyObject *args)
{
    unsigned long long start_ticks;
    PyObject *name;

    (void)module;
    if (!PyArg_ParseTuple(args, "UK:end_range", &name, &start_ticks))
        return NULL;
    if (py_session_is_on())
        py_phase_end(name_number(LW_NAME_MARK, name), start_ticks);
    Py_RETURN_NONE;
}

static PyObject *counter(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct lw_calls_thread *calls;
    double value;

    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError,
                        "lapwing.counter() takes two arguments: a name and a value");
        return NULL;
    }
    if (!is_name(args[0], "counter"))
        return NULL;
    /* A float is a value for sure; of others it must be seen, recording or not. */
    if (!py_session_is_on() && PyFloat_CheckExact(args[1]))
        Py_RETURN_NONE;
    value = PyFloat_AsDouble(args[1]);
    if (value == -1.0 && PyErr_Occurred())
        return NULL;
    if (py_session_is_on() && (calls = py_session_place()))
        py_value_write(calls, name_number(LW_NAME_COUNTER, args[0]), value);
    Py_RETURN_NONE;
}

static PyObject *phase(PyObject *module, PyObject *name)
{
    (void)module;
    if (!PyCallable_Check(name) && !is_name(name, "phase"))
        return NULL;
    return py_phase_new(name);
}

static PyMethodDef methods[] = {
    { "step", (PyCFunction)(void (*)(void))step, METH_FASTCALL | METH_KEYWORDS,
      "step($module, /, *, begin=True)\n--\n\n"
      "End this thread's step and begin its next (begin=False: none).\n\n"
      "The first call begins the first step. Does nothing when not recording." },
    { "mark", mark, METH_O,
      "mark($module, name, /)\n--\n\n"
      "Something happened: a point on this thread's track." },
    { "counter", (PyCFunction)(void (*)(void))counter, METH_FASTCALL,
      "counter($module, name, value, /)\n--\n\n"
      "A value of the process at this moment, such as the loss." },
    { "phase", phase, METH_O,
      "phase($module, name, /)\n--\n\n"
      "A phase of the program: a context manager, and a decorator.\n\n"
      "with lapwing.phase(\"augment\"): ...; @lapwing.phase(\"augment\") or\n"
      "@lapwing.phase alone, which takes the function's name." },
    { "end_range", end_range, METH_VARARGS,
      "end_range(name, start_ticks): a range that ends now." },
    { NULL, NULL, 0, NULL },
};

/* ---- for C -------------------------------------------------------------------------- */

/* The name of KIND for NAME, as quickly as can be: one that was met at this address
 * before and still reads the same. NULL: there are too many names. */
static const struct lw_name_text *find_name(struct py_open_marks *marks,
                                            enum lw_agent_name_kind kind,
                                            const char *name)
{
    uintptr_t bits = (uintptr_t)name;
    size_t at = (bits >> 3 ^ bits >> 9 ^ kind) & (KNOWN_NAMES - 1);
    const struct lw_name_text *text = marks->known[at].text;

    if (text && marks->known[at].address == name && text->kind == kind &&
        strcmp(lw_name_text_name(text), name) == 0)
        return text;
    text = lw_names_intern(&py_tracer.functions.names, kind, "", 0, name, strlen(name));
    marks->known[at].address = name;
    marks->known[at].text = text;
    return text;
}

static uint32_t text_number(const struct lw_name_text *text)
{
    return text ? text->number : LW_FUNCTION_MORE;
}

static void api_step(int begin)
{
    struct lw_calls_thread *calls = py_session_enter();

    if (!calls)
        return;
    step_now(calls, begin);
    py_session_leave();
    py_ops_step_bound(PY_OPS_STEP);
    py_steps_bound_in_c();
}

static void api_phase_begin(const char *name)
{
    struct lw_calls_thread *calls = py_session_enter();
    struct py_open_marks *marks = calls ? open_marks(calls) : NULL;

    if (marks) {
        if (marks->depth < MOST_OPEN) {
            marks->open[marks->depth].name =
                find_name(marks, LW_NAME_PHASE, name ? name : "");
            marks->open[marks->depth].start_ticks = lw_ticks_now(py_tracer.use_tsc);
        } else {
            lw_region_count_lost(calls->region, LW_LOST_RECORDS);
        }
        marks->depth++;
    }
    if (calls)
        py_session_leave();
}

/* How many phases are open around the one that ends; its own depth where there is none
 * of that name. */
static uint32_t find_open(const struct py_open_marks *marks,
                          const struct lw_name_text *name)
{
    for (uint32_t i = marks->depth < MOST_OPEN ? marks->depth : MOST_OPEN; i > 0; i--)
        if (marks->open[i - 1].name == name)
            return i - 1;
    return marks->depth;
}

static void api_phase_end(const char *name)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);
    struct lw_calls_thread *calls = py_session_enter();
    struct py_open_marks *marks = calls ? open_marks(calls) : NULL;
    uint32_t depth;

    if (marks && marks->depth > MOST_OPEN) {
        marks->depth--; /* one that there was no room for */
    } else if (marks && marks->depth > 0) {
        depth = name ? find_open(marks, find_name(marks, LW_NAME_PHASE, name))
                     : marks->depth - 1;
        while (marks->depth > depth) {
            marks->depth--;
            py_span_write(calls, text_number(marks->open[marks->depth].name),
                          marks->open[marks->depth].start_ticks, now);
        }
    }
    if (calls)
        py_session_leave();
}

static void api_mark(const char *name)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);
    struct lw_calls_thread *calls = py_session_enter();
    struct py_open_marks *marks = calls ? open_marks(calls) : NULL;

    if (marks)
        py_span_write(calls,
                      text_number(find_name(marks, LW_NAME_MARK, name ? name : "")),
                      now, now);
    if (calls)
        py_session_leave();
}

static void api_counter(const char *name, double value)
{
    struct lw_calls_thread *calls = py_session_enter();
    struct py_open_marks *marks = calls ? open_marks(calls) : NULL;

    if (marks)
        py_value_write(calls,
                       text_number(find_name(marks, LW_NAME_COUNTER, name ? name : "")),
                       value);
    if (calls)
        py_session_leave();
}

_Static_assert(sizeof(py_tracer.is_session_on) == 1, "lapwing.h reads it as a byte");

extern const struct lapwing_api lapwing_api_1;
__attribute__((visibility("default"))) const struct lapwing_api lapwing_api_1 = {
    .bytes = sizeof(lapwing_api_1),
    .is_recording = (const unsigned char *)&py_tracer.is_session_on,
    .step = api_step,
    .phase_begin = api_phase_begin,
    .phase_end = api_phase_end,
    .mark = api_mark,
    .counter = api_counter,
};

/* An extension's symbols are its own until somebody asks for more: without this,
 * lapwing.h would not find the table. If it does not work, C is not heard. */
static void make_table_known(void)
{
    Dl_info here;

    if (dladdr(&lapwing_api_1, &here) && here.dli_fname)
        (void)dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

bool py_marks_init(PyObject *module)
{
    if (!py_phase_type_init(module) || PyModule_AddFunctions(module, methods) < 0)
        return false;
    make_table_known();
    return true;
}
