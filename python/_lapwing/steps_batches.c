/* The making of a batch: "fetch" is what a dataset takes to give its samples, "collate" to
 * put them together. They run in a loader's workers, or inside "data" where it has none.
 *
 * Fetchers are torch.utils.data's own and private, and plain Python: nothing in C is
 * behind their `fetch`, so here, and only here, an attribute is replaced, by a wrapper that
 * answers for the function in everything but the call. The collate function is wrapped in
 * the fetcher that uses it; the loader keeps the program's own. */

#include "steps.h"

#include <stddef.h>

struct wrapper {
    PyObject_HEAD PyObject *function; /* owned */
    PyObject *callback;               /* for `after`; owned, or NULL */
    uint32_t number;                  /* of a collate function; 0: not asked for yet */
    PyObject *(*call)(struct wrapper *wrapper, PyObject *args, PyObject *keywords);
};

static PyTypeObject *wrapper_type; /* made once, never freed */

/* ---- the wrapper ------------------------------------------------------------------- */

static PyObject *wrapper_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct wrapper *wrapper = (struct wrapper *)self;

    return wrapper->call(wrapper, args, keywords);
}

static PyObject *wrapper_get_attribute(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((struct wrapper *)self)->function, name);
}

static PyObject *wrapper_bind(PyObject *self, PyObject *object, PyObject *type)
{
    static PyObject *method_type; /* types.MethodType */
    PyObject *method;

    (void)type;
    if (!object) {
        Py_INCREF(self);
        return self;
    }
    if (!method_type) {
        /* The function makes a method of any object; its type is all we want. */
        method = PyObject_CallMethod(((struct wrapper *)self)->function, "__get__", "O",
                                     object);
        if (!method)
            return NULL;
        method_type = (PyObject *)Py_TYPE(method);
        Py_INCREF(method_type);
        Py_DECREF(method);
    }
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

static PyObject *wrapper_repr(PyObject *self)
{
    return PyObject_Repr(((struct wrapper *)self)->function);
}

static int wrapper_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct wrapper *)self)->function);
    Py_VISIT(((struct wrapper *)self)->callback);
    return 0;
}

static void wrapper_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_XDECREF(((struct wrapper *)self)->function);
    Py_XDECREF(((struct wrapper *)self)->callback);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyTypeObject *make_wrapper_type(void)
{
    static PyType_Slot slots[] = {
        { Py_tp_call, wrapper_call },
        { Py_tp_getattro, wrapper_get_attribute },
        { Py_tp_descr_get, wrapper_bind },
        { Py_tp_repr, wrapper_repr },
        { Py_tp_traverse, wrapper_traverse },
        { Py_tp_dealloc, wrapper_free },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "_lapwing.Wrapper",
        .basicsize = sizeof(struct wrapper),
        .flags =
            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromSpec(&spec);
}

/* NULL with an exception set. */
static PyObject *wrap(PyObject *function, PyObject *callback,
                      PyObject *(*call)(struct wrapper *, PyObject *, PyObject *))
{
    struct wrapper *wrapper;

    if (!wrapper_type && !(wrapper_type = make_wrapper_type()))
        return NULL;
    wrapper = PyObject_GC_New(struct wrapper, wrapper_type);
    if (!wrapper)
        return NULL;
    Py_INCREF(function);
    Py_XINCREF(callback);
    wrapper->function = function;
    wrapper->callback = callback;
    wrapper->number = 0;
    wrapper->call = call;
    PyObject_GC_Track((PyObject *)wrapper);
    return (PyObject *)wrapper;
}

/* ---- after ------------------------------------------------------------------------- */

static PyObject *call_after(struct wrapper *wrapper, PyObject *args, PyObject *keywords)
{
    PyObject *callback = wrapper->callback;
    PyObject *result, *answer;

    Py_INCREF(callback); /* it may take the wrapper away */
    result = PyObject_Call(wrapper->function, args, keywords);
    if (result) {
        answer = PyObject_CallNoArgs(callback);
        Py_XDECREF(answer);
        PyErr_Clear();
    }
    Py_DECREF(callback);
    return result;
}

PyObject *py_steps_after(PyObject *function, PyObject *callback)
{
    return wrap(function, callback, call_after);
}

/* ---- fetch and collate ------------------------------------------------------------- */

/* "fetch" ends where "collate" begins: neither is in the other. */
static void end_fetch(struct py_steps_thread *thread, uint64_t now_ticks)
{
    if (thread->fetch_ticks)
        py_steps_write(thread->fetch_number, thread->fetch_ticks, now_ticks);
    thread->fetch_ticks = 0;
}

/* The class of a callable object, or the name of a function. */
static uint32_t collate_number(PyObject *function)
{
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    const char *text =
        name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    uint32_t number;

    PyErr_Clear();
    number = text ? py_phase_number("collate", text)
                  : py_steps_number("collate", Py_TYPE(function));
    Py_XDECREF(name);
    return number;
}

static PyObject *call_collate(struct wrapper *wrapper, PyObject *args,
                              PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    bool is_told = thread->fetch_ticks != 0;
    uint64_t start_ticks = is_told ? py_phase_begin() : 0;
    PyObject *result;

    end_fetch(thread, start_ticks);
    if (start_ticks && wrapper->number == 0)
        wrapper->number = collate_number(wrapper->function);
    result = PyObject_Call(wrapper->function, args, keywords);
    if (start_ticks)
        py_steps_write(wrapper->number, start_ticks, lw_ticks_now(py_tracer.use_tsc));
    return result;
}

/* Have FETCHER call its collate function through us. */
static void wrap_collate(PyObject *fetcher)
{
    PyObject *function = PyObject_GetAttr(fetcher, py_steps_names.collate_fn);
    PyObject *wrapper = NULL;

    if (function && Py_TYPE(function) != wrapper_type)
        wrapper = wrap(function, NULL, call_collate);
    if (wrapper && PyObject_SetAttr(fetcher, py_steps_names.collate_fn, wrapper) < 0)
        PyErr_Clear();
    Py_XDECREF(wrapper);
    Py_XDECREF(function);
    PyErr_Clear();
}

static uint32_t fetch_number(PyObject *fetcher)
{
    PyObject *dataset = PyObject_GetAttr(fetcher, py_steps_names.dataset);
    uint32_t number;

    PyErr_Clear();
    number = dataset ? py_steps_number("fetch", Py_TYPE(dataset))
                     : py_phase_number("fetch", "");
    Py_XDECREF(dataset);
    return number;
}

static PyObject *call_fetch(struct wrapper *wrapper, PyObject *args, PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint64_t outer_ticks = thread->fetch_ticks;
    uint32_t outer_number = thread->fetch_number;
    PyObject *result;

    thread->fetch_ticks = 0;
    if (py_session_is_on() && PyTuple_Size(args) > 0) {
        PyObject *fetcher = PyTuple_GetItem(args, 0); /* borrowed */

        wrap_collate(fetcher);
        thread->fetch_number = fetch_number(fetcher);
        thread->fetch_ticks = py_phase_begin();
    }
    thread->inside++;
    result = PyObject_Call(wrapper->function, args, keywords);
    thread->inside--;
    end_fetch(thread, lw_ticks_now(py_tracer.use_tsc));
    thread->fetch_ticks = outer_ticks;
    thread->fetch_number = outer_number;
    return result;
}

static bool wrap_fetch(PyObject *torch, const char *path)
{
    PyObject *type = py_steps_find(torch, path);
    PyObject *function = type ? py_steps_find(type, "fetch") : NULL;
    PyObject *wrapper = function ? wrap(function, NULL, call_fetch) : NULL;
    bool done = wrapper && PyObject_SetAttrString(type, "fetch", wrapper) == 0;

    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(function);
    Py_XDECREF(wrapper);
    return done;
}

bool py_steps_hook_batches(PyObject *torch)
{
    bool maps = wrap_fetch(torch, "utils.data._utils.fetch._MapDatasetFetcher");
    bool iterates =
        wrap_fetch(torch, "utils.data._utils.fetch._IterableDatasetFetcher");

    return maps && iterates;
}
