/* _lapwing.Calls; see profile.h. */

#include "profile.h"

#include <string.h>

#include "tracer.h"

struct calls {
    PyObject_HEAD struct py_collector collector;
    PyObject *timer; /* owned; NULL: the common clock */
    int subcalls;    /* callers are wanted in the result */
    int builtins;
};

static bool make_region(struct calls *calls)
{
    struct lw_region_options options = { .flags = LW_AGENT_CALLS,
                                         .use_tsc = py_tracer.use_tsc };

    if (lw_region_create(&calls->collector.region, &options))
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
    if (!make_region(calls))
        Py_CLEAR(calls);
    return (PyObject *)calls;
}

/* The timer is running, maybe in another thread: what it is asked the time for goes on to
 * use the timer and the counts. True, with the exception that cProfile has. */
static bool refuse_in_timer(const struct calls *calls, const char *what)
{
    if (!calls->timer || !py_tracer.in_timer)
        return false;
    PyErr_Format(PyExc_RuntimeError, "cannot %s profiler in external timer", what);
    return true;
}

/* May be called again, also while it counts: what was counted is kept. */
static int calls_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "timer", "timeunit", "subcalls", "builtins", NULL };
    struct calls *calls = (struct calls *)self;
    bool was_on = calls->collector.lane >= 0;
    PyObject *timer = Py_None, *old_timer;
    double unit = 0;
    int subcalls = 1, builtins = 1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Odpp:Profile", names, &timer,
                                     &unit, &subcalls, &builtins) ||
        refuse_in_timer(calls, "set up"))
        return -1;
    py_collector_stop(&calls->collector); /* a lane keeps to the clock it began with */
    old_timer = calls->timer;
    calls->timer = timer == Py_None ? NULL : timer;
    Py_XINCREF(calls->timer);
    calls->collector.timer = calls->timer;
    calls->collector.timer_unit_s = calls->timer ? unit : 0;
    calls->subcalls = subcalls;
    calls->builtins = builtins;
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

    (void)unused;
    if (refuse_in_timer(calls, "clear"))
        return NULL;
    py_collector_release(&calls->collector);
    if (!make_region(calls) || (was_on && !py_collector_start(&calls->collector)))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *list_functions(void)
{
    const struct py_functions *functions = &py_tracer.functions;
    PyObject *list = PyList_New(functions->count);

    for (uint32_t i = 0; list && i < functions->count; i++) {
        const struct py_function *function = &functions->list[i];
        PyObject *item =
            function->name
                ? Py_BuildValue("(OIO)", function->file ? function->file : Py_None,
                                function->first_line, function->name)
                : Py_BuildValue("(ziz)", NULL, 0, NULL);

        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static bool append_node(PyObject *rows, const struct lw_region *region, uint32_t number)
{
    const struct lw_agent_node *node = lw_region_node(region, number);
    PyObject *row = Py_BuildValue(
        "(IIIKK)", number, node->parent,
        atomic_load_explicit(&node->function, memory_order_relaxed),
        (unsigned long long)atomic_load_explicit(&node->calls, memory_order_relaxed),
        (unsigned long long)atomic_load_explicit(&node->self_ticks,
                                                 memory_order_relaxed));
    bool done = row && PyList_Append(rows, row) == 0;

    Py_XDECREF(row);
    return done;
}

static PyObject *list_nodes(const struct lw_region *region)
{
    uint32_t end = lw_region_blocks_used(region) * LW_REGION_BLOCK_NODES;
    PyObject *rows = PyList_New(0);

    for (uint32_t number = 1; rows && number < end; number++)
        if (atomic_load(&lw_region_node(region, number)->function) != 0 &&
            !append_node(rows, region, number))
            Py_CLEAR(rows);
    return rows;
}

/* (functions, nodes, seconds a tick, subcalls): functions by number as (file, line,
 * name), nodes as (node, parent, function, calls, self ticks), parents before children. */
static PyObject *calls_tree(PyObject *self, PyObject *unused)
{
    const struct calls *calls = (struct calls *)self;
    const struct py_collector *collector = &calls->collector;
    double tick_s = py_tracer_tick_s();
    PyObject *functions = list_functions();
    PyObject *nodes = functions ? list_nodes(&collector->region) : NULL;

    (void)unused;
    if (collector->timer)
        tick_s = collector->timer_unit_s > 0 ? collector->timer_unit_s : 1e-9;
    if (!nodes) {
        Py_XDECREF(functions);
        return NULL;
    }
    return Py_BuildValue("(NNdN)", functions, nodes, tick_s,
                         PyBool_FromLong(calls->subcalls));
}

PyObject *py_calls_type_new(void)
{
    static PyMethodDef methods[] = {
        { "enable", (PyCFunction)(void (*)(void))calls_enable,
          METH_VARARGS | METH_KEYWORDS,
          "enable(subcalls=True, builtins=True): start counting." },
        { "disable", calls_disable, METH_NOARGS, "Stop counting." },
        { "clear", calls_clear, METH_NOARGS, "Forget what was counted." },
        { "tree", calls_tree, METH_NOARGS,
          "The calling-context trees of all threads." },
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
