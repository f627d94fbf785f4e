/* _lapwing.Calls; see profile.h. */

#include "profile.h"

#include <string.h>

#include "agent/totals.h"
#include "tracer.h"

struct calls {
    PyObject_HEAD struct py_collector collector;
    PyObject *timer; /* owned; NULL: the common clock */
    int subcalls;    /* callers are wanted in the result */
    int builtins;
};

static bool make_region(struct lw_region *region)
{
    struct lw_region_options options = { .flags = LW_AGENT_CALLS,
                                         .use_tsc = py_tracer.use_tsc };

    if (lw_region_create(region, &options))
        return true;
    PyErr_SetFromErrno(PyExc_MemoryError);
    return false;
}

/* Takes any arguments, as cProfile's does: a subclass may have an __init__ of its own,
 * and one that does not call ours has the defaults. */
static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct calls *calls = (struct calls *)alloc(type, 0);

    (void)args;
    (void)kwargs;
    if (!calls)
        return NULL;
    calls->subcalls = true;
    calls->builtins = true;
    calls->collector.lane = -1;
    calls->collector.region.fd = -1;
    if (!make_region(&calls->collector.region))
        Py_CLEAR(calls);
    return (PyObject *)calls;
}

/* The calling thread is in the timer itself: what it is asked the time for goes on to use
 * the timer and the counts. (Another thread that is in it finds out by the lane's epoch.)
 * True, with the exception that cProfile has. */
static bool refuse_in_timer(const struct calls *calls, const char *what)
{
    if (py_thread.in_timer != &calls->collector)
        return false;
    PyErr_Format(PyExc_RuntimeError, "cannot %s profiler in external timer", what);
    return true;
}

static bool parse_threads(const char *word, bool *this_thread)
{
    *this_thread = strcmp(word, "this") == 0;
    if (*this_thread || strcmp(word, "all") == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "threads must be 'all' or 'this'");
    return false;
}

/* May be called again, also while it counts: what was counted is kept. */
static int calls_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "timer",    "timeunit", "subcalls",
                             "builtins", "threads",  NULL };
    struct calls *calls = (struct calls *)self;
    bool was_on = calls->collector.lane >= 0;
    PyObject *timer = Py_None, *old_timer;
    double unit = 0;
    int subcalls = 1, builtins = 1;
    const char *threads = "all";
    bool this_thread;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Odpp$s:Profile", names, &timer,
                                     &unit, &subcalls, &builtins, &threads) ||
        !parse_threads(threads, &this_thread) || refuse_in_timer(calls, "set up"))
        return -1;
    py_collector_stop(&calls->collector); /* a lane keeps to the clock it began with */
    old_timer = calls->timer;
    calls->timer = timer == Py_None ? NULL : timer;
    Py_XINCREF(calls->timer);
    calls->collector.timer = calls->timer;
    calls->collector.timer_unit_s = calls->timer ? unit : 0;
    calls->subcalls = subcalls;
    calls->builtins = builtins;
    calls->collector.this_thread = this_thread;
    Py_XDECREF(old_timer);
    return was_on && !py_collector_start(&calls->collector) ? -1 : 0;
}

/* A subclass whose timer is a method of its own is a cycle. */
static int calls_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct calls *)self)->timer);
    return 0;
}

static int calls_clear_references(PyObject *self)
{
    struct calls *calls = (struct calls *)self;

    py_collector_stop(&calls->collector);
    calls->collector.timer = NULL;
    Py_CLEAR(calls->timer);
    return 0;
}

static void calls_dealloc(PyObject *self)
{
    struct calls *calls = (struct calls *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyObject_GC_UnTrack(self);
    py_collector_release(&calls->collector);
    Py_CLEAR(calls->timer);
    release(self);
    Py_DECREF(type);
}

/* In C, as disable is: a method in Python would be in every profile. */
static PyObject *calls_enable(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "subcalls", "builtins", NULL };
    struct calls *calls = (struct calls *)self;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pp:enable", names,
                                     &calls->subcalls, &calls->builtins))
        return NULL;
    py_collector_stop(&calls->collector);
    calls->collector.c_calls = calls->builtins;
    if (!py_collector_start(&calls->collector))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *calls_disable(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (refuse_in_timer((struct calls *)self, "disable"))
        return NULL;
    py_collector_stop(&((struct calls *)self)->collector);
    Py_RETURN_NONE;
}

static PyObject *calls_clear(PyObject *self, PyObject *unused)
{
    struct calls *calls = (struct calls *)self;
    bool was_on = calls->collector.lane >= 0;
    struct lw_region empty;

    (void)unused;
    /* Made first: where there is no memory for it, all stays as it is. */
    if (refuse_in_timer(calls, "clear") || !make_region(&empty))
        return NULL;
    py_collector_release(&calls->collector);
    calls->collector.region = empty;
    if (was_on && !py_collector_start(&calls->collector))
        return NULL;
    Py_RETURN_NONE;
}

/* (code, file, line, name) of function NUMBER; code is None for a builtin, and where it
 * is gone. */
static PyObject *describe_function(uint32_t number)
{
    const struct py_function *function = &py_tracer.functions.list[number];
    bool has_code = function->key && function->kind == LW_NAME_PYTHON;

    return Py_BuildValue("(OOIO)", has_code ? (PyObject *)function->key : Py_None,
                         function->file ? function->file : Py_None,
                         function->first_line, function->name);
}

static bool add_function(PyObject *functions, uint32_t number)
{
    PyObject *key, *value;
    bool done;

    if (number >= py_tracer.functions.count || !py_tracer.functions.list[number].name)
        return true; /* one of LW_FUNCTION_*, which have no more than their number */
    key = PyLong_FromUnsignedLong(number);
    value = describe_function(number);
    done = key && value && PyDict_SetItem(functions, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return done;
}

static bool add_total(PyObject *costs, PyObject *functions,
                      const struct lw_total *total)
{
    PyObject *row = Py_BuildValue(
        "(IIKKKK)", total->caller, total->function, (unsigned long long)total->calls,
        (unsigned long long)total->primitive_calls,
        (unsigned long long)total->self_ticks, (unsigned long long)total->total_ticks);
    bool done = row && PyList_Append(costs, row) == 0 &&
                (total->caller || add_function(functions, total->function));

    Py_XDECREF(row);
    return done;
}

/* (functions, costs, seconds a tick, subcalls): functions by number as (code, file, line,
 * name), costs as (caller, function, calls, primitive calls, self ticks, total ticks),
 * where caller 0 stands for all. */
static PyObject *calls_totals(PyObject *self, PyObject *unused)
{
    const struct calls *calls = (struct calls *)self;
    const struct py_collector *collector = &calls->collector;
    double tick_s = py_tracer_tick_s();
    PyObject *functions = PyDict_New();
    PyObject *costs = PyList_New(0);
    struct lw_totals totals;
    bool done = functions && costs;

    (void)unused;
    if (collector->timer)
        tick_s = collector->timer_unit_s > 0 ? collector->timer_unit_s : 1e-9;
    if (!lw_totals_read(&totals, &collector->region)) {
        PyErr_NoMemory();
        done = false;
    }
    for (uint32_t i = 0; done && i < totals.count; i++)
        done = add_total(costs, functions, &totals.list[i]);
    lw_totals_release(&totals);
    if (done)
        return Py_BuildValue("(NNdN)", functions, costs, tick_s,
                             PyBool_FromLong(calls->subcalls));
    Py_XDECREF(functions);
    Py_XDECREF(costs);
    return NULL;
}

/* What was lost since this was asked last, by enum lw_agent_loss. */
static PyObject *calls_take_losses(PyObject *self, PyObject *unused)
{
    struct lw_agent_header *header = ((struct calls *)self)->collector.region.header;
    PyObject *losses = PyList_New(LW_LOSS_COUNT);

    (void)unused;
    for (int cause = 0; losses && cause < LW_LOSS_COUNT; cause++) {
        PyObject *count =
            PyLong_FromUnsignedLongLong(atomic_exchange(&header->lost[cause], 0));

        if (!count || PyList_SetItem(losses, cause, count) < 0)
            Py_CLEAR(losses);
    }
    return losses;
}

PyObject *py_calls_type_new(void)
{
    static PyMethodDef methods[] = {
        { "enable", (PyCFunction)(void (*)(void))calls_enable,
          METH_VARARGS | METH_KEYWORDS,
          "enable(subcalls=True, builtins=True): start counting." },
        { "disable", calls_disable, METH_NOARGS, "Stop counting." },
        { "clear", calls_clear, METH_NOARGS, "Forget what was counted." },
        { "totals", calls_totals, METH_NOARGS,
          "What functions and pairs of caller and callee cost." },
        { "take_losses", calls_take_losses, METH_NOARGS,
          "What was not counted, by cause, since this was asked last." },
        { NULL, NULL, 0, NULL },
    };
    static PyType_Slot slots[] = {
        { Py_tp_new, calls_new },
        { Py_tp_init, calls_init },
        { Py_tp_traverse, calls_traverse },
        { Py_tp_clear, calls_clear_references },
        { Py_tp_dealloc, calls_dealloc },
        { Py_tp_methods, methods },
        { Py_tp_doc, "Exact calls of all threads of this process." },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "_lapwing.Calls",
        .basicsize = sizeof(struct calls),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };

    return PyType_FromSpec(&spec);
}
