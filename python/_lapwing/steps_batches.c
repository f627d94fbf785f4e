/* The making of a batch: "fetch" is what a dataset takes to give its samples, "collate" to
 * put them together. They run in a loader's workers, or inside "data" where it has none.
 * And where a pass over a loader begins: "loader_pass", which takes no time.
 *
 * Fetchers are torch.utils.data's own and private, and plain Python: nothing in C is
 * behind their `fetch`, so here, and only here, an attribute is replaced, by a wrapper that
 * answers for the function in everything but the call. The collate function is wrapped in
 * the fetcher that uses it; the loader keeps the program's own. */

#include "steps.h"

static newfunc torch_new; /* of fetchers, and of both kinds of iterators */

/* ---- fetch and collate ------------------------------------------------------------- */

/* "fetch" ends where "collate" begins: neither is in the other. */
static void end_fetch(struct py_steps_thread *thread, uint64_t now_ticks)
{
    if (thread->fetch_ticks)
        py_steps_write(thread->fetch_number, thread->fetch_ticks, now_ticks);
    thread->fetch_ticks = 0;
}

/* The class of a callable object, or the name of a function. */
LW_SELDOM static uint32_t collate_number(PyObject *function)
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

LW_HOT static PyObject *call_collate(struct py_wrapper *wrapper, PyObject *args,
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

/* Have FETCHER call FUNCTION, its collate function, through us; the number of its fetch. */
static uint32_t wrap_collate(PyObject *fetcher, PyObject *function)
{
    uint32_t number = fetch_number(fetcher);
    PyObject *wrapper = function ? py_steps_wrap(function, NULL, call_collate) : NULL;

    if (wrapper) {
        ((struct py_wrapper *)wrapper)->fetch_number = number;
        (void)PyObject_SetAttr(fetcher, py_steps_names.collate_fn, wrapper);
    }
    Py_XDECREF(wrapper);
    PyErr_Clear();
    return number;
}

/* The fetcher that was used last, nearly always the next one too: compared, never
 * followed. */
static struct {
    const PyObject *fetcher;
    uint32_t number;
} last_fetch;

/* Another one, in its place in memory perhaps. */
static PyObject *new_fetcher(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    last_fetch.fetcher = NULL;
    return py_patch_new(torch_new, type, args, keywords);
}

/* The number of a fetch of FETCHER, which calls its collate function through us from now
 * on. */
LW_SELDOM static uint32_t prepare(PyObject *fetcher)
{
    PyObject *function = PyObject_GetAttr(fetcher, py_steps_names.collate_fn);
    bool is_heard_of =
        py_patch_get_slot(Py_TYPE(fetcher), PY_SLOT_NEW) == (void *)new_fetcher;

    last_fetch.number = function && py_steps_is_wrapper(function)
                            ? ((struct py_wrapper *)function)->fetch_number
                            : wrap_collate(fetcher, function);
    last_fetch.fetcher = is_heard_of ? fetcher : NULL;
    Py_XDECREF(function);
    return last_fetch.number;
}

LW_HOT static PyObject *call_fetch(struct py_wrapper *wrapper, PyObject *args,
                                   PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint64_t outer_ticks = thread->fetch_ticks;
    uint32_t outer_number = thread->fetch_number;
    PyObject *result;

    thread->fetch_ticks = 0;
    if (py_session_is_on()) {
        PyObject *fetcher = PyTuple_GetItem(args, 0); /* borrowed */

        if (fetcher)
            thread->fetch_number =
                fetcher == last_fetch.fetcher ? last_fetch.number : prepare(fetcher);
        else
            PyErr_Clear(); /* and the call will fail */
        thread->fetch_ticks = fetcher ? py_phase_begin() : 0;
    }
    thread->inside++;
    result = PyObject_Call(wrapper->function, args, keywords);
    thread->inside--;
    end_fetch(thread, lw_ticks_now(py_tracer.use_tsc));
    thread->fetch_ticks = outer_ticks;
    thread->fetch_number = outer_number;
    return result;
}

/* ---- passes -------------------------------------------------------------------------- */

static void tell_pass(PyTypeObject *iterator)
{
    uint64_t now_ticks = py_steps_thread.inside == 0 ? py_phase_begin() : 0;

    if (now_ticks)
        py_steps_write(py_steps_number("loader_pass", iterator), now_ticks, now_ticks);
}

/* Each pass has an iterator of its own, whose __init__ starts the workers. */
static PyObject *new_iterator(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    tell_pass(type);
    return py_patch_new(torch_new, type, args, keywords);
}

/* With persistent workers, one for all passes, which begins again. */
static PyObject *call_reset(struct py_wrapper *wrapper, PyObject *args,
                            PyObject *keywords)
{
    if (PyTuple_Size(args) > 0)
        tell_pass(Py_TYPE(PyTuple_GetItem(args, 0))); /* borrowed */
    return PyObject_Call(wrapper->function, args, keywords);
}

/* ---- putting it in place ------------------------------------------------------------- */

static bool hook_new(PyObject *torch, const char *path, newfunc ours)
{
    torch_new = (newfunc)PyType_GetSlot(&PyBaseObject_Type, Py_tp_new);
    return py_steps_hook_slot(torch, path, PY_SLOT_NEW, (void *)torch_new,
                              (void *)ours);
}

static bool wrap(PyObject *torch, const char *path, const char *name,
                 py_wrapped_call *call)
{
    PyObject *type = py_steps_find(torch, path);
    PyObject *function = type ? py_steps_find(type, name) : NULL;
    PyObject *wrapper = function ? py_steps_wrap(function, NULL, call) : NULL;
    bool done = wrapper && PyObject_SetAttrString(type, name, wrapper) == 0;

    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(function);
    Py_XDECREF(wrapper);
    return done;
}

bool py_steps_hook_batches(PyObject *torch)
{
    static const char map[] = "utils.data._utils.fetch._MapDatasetFetcher";
    static const char iterable[] = "utils.data._utils.fetch._IterableDatasetFetcher";
    bool maps = wrap(torch, map, "fetch", call_fetch);
    bool iterates = wrap(torch, iterable, "fetch", call_fetch);

    /* Where that cannot be, every fetch looks for its collate function. */
    (void)hook_new(torch, map, new_fetcher);
    (void)hook_new(torch, iterable, new_fetcher);
    return maps && iterates;
}

bool py_steps_hook_passes(PyObject *torch)
{
    static const char single[] = "utils.data.dataloader._SingleProcessDataLoaderIter";
    static const char workers[] =
        "utils.data.dataloader._MultiProcessingDataLoaderIter";
    bool singles = hook_new(torch, single, new_iterator);
    bool multiples = hook_new(torch, workers, new_iterator);

    return singles && multiples && wrap(torch, workers, "_reset", call_reset);
}
