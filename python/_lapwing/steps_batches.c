/* The making of a batch: "fetch" is what a dataset takes to give its samples, "collate" to
 * put them together. They run in a loader's workers, or inside "data" where it has none.
 * And where a pass over a loader begins: "loader_pass", which takes no time.
 *
 * Fetchers and iterators are torch.utils.data's own, and plain Python: nothing in C is
 * behind `fetch`. But whoever calls it asks the object for it first, and gets it behind a
 * wrapper if it calls it at once (steps_called.c). The same goes for the collate function,
 * which the fetcher has, and for the `_reset` of an iterator that is used again. */

#include "error.h"
#include "steps.h"

static PyObject *fetch_name, *reset_name;

/* ---- fetch and collate ------------------------------------------------------------- */

/* The fetcher that was used last, nearly always the next one too: compared, never
 * followed. */
static struct {
    const PyObject *fetcher;
    uint32_t number;
    const PyObject *collate; /* its function that was called last; likewise */
    uint32_t collate_number;
} last_fetch;

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

    py_error_end(); /* the program's callable may have answered */
    number = text ? py_phase_number("collate", text)
                  : py_steps_number("collate", Py_TYPE(function));
    Py_XDECREF(name);
    return number;
}

static uint32_t known_collate_number(PyObject *function)
{
    if (last_fetch.collate != function) {
        last_fetch.collate_number = collate_number(function);
        last_fetch.collate = last_fetch.fetcher ? function : NULL;
    }
    return last_fetch.collate_number;
}

LW_HOT static PyObject *call_collate(struct py_wrapper *wrapper, PyObject *args,
                                     PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    bool is_told = thread->fetch_ticks != 0;
    uint64_t start_ticks = is_told ? py_phase_begin() : 0;
    uint32_t number = 0;
    PyObject *result;

    end_fetch(thread, start_ticks);
    if (start_ticks)
        number = known_collate_number(wrapper->function);
    result = PyObject_Call(wrapper->function, args, keywords);
    if (start_ticks)
        py_steps_write(number, start_ticks, lw_ticks_now(py_tracer.use_tsc));
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

/* Another one, in its place in memory perhaps. */
static PyObject *alloc_fetcher(PyTypeObject *type, Py_ssize_t count)
{
    last_fetch.fetcher = last_fetch.collate = NULL;
    return PyType_GenericAlloc(type, count);
}

LW_SELDOM static uint32_t learn_fetcher(PyObject *fetcher)
{
    bool is_heard_of =
        py_patch_get_slot(Py_TYPE(fetcher), PY_SLOT_ALLOC) == (void *)alloc_fetcher;

    last_fetch.number = fetch_number(fetcher);
    last_fetch.fetcher = is_heard_of ? fetcher : NULL;
    last_fetch.collate = NULL;
    return last_fetch.number;
}

/* WRAPPER is the method of its fetcher. */
LW_HOT static PyObject *call_fetch(struct py_wrapper *wrapper, PyObject *args,
                                   PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint64_t outer_ticks = thread->fetch_ticks;
    uint32_t outer_number = thread->fetch_number;
    PyObject *fetcher = wrapper->object, *result;

    thread->fetch_ticks = 0;
    if (py_session_is_on()) {
        thread->fetch_number =
            fetcher == last_fetch.fetcher ? last_fetch.number : learn_fetcher(fetcher);
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

static PyObject *get_of_fetcher(PyObject *fetcher, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(fetcher, name);

    if (name == fetch_name)
        return py_steps_wrap_called(value, fetcher, call_fetch);
    /* Its own code calls what it has in here and then, with a batch, returns. */
    if (name == py_steps_names.collate_fn && py_steps_thread.fetch_ticks)
        return py_steps_wrap_called(value, NULL, call_collate);
    return value;
}

/* ---- passes -------------------------------------------------------------------------- */

static void tell_pass(PyTypeObject *iterator)
{
    uint64_t now_ticks = py_steps_thread.inside == 0 ? py_phase_begin() : 0;

    if (now_ticks)
        py_steps_write(py_steps_number("loader_pass", iterator), now_ticks, now_ticks);
}

/* Each pass has an iterator of its own. */
static PyObject *alloc_iterator(PyTypeObject *type, Py_ssize_t count)
{
    tell_pass(type);
    return PyType_GenericAlloc(type, count);
}

/* With persistent workers, one for all passes, which begins again. */
static PyObject *call_reset(struct py_wrapper *wrapper, PyObject *args,
                            PyObject *keywords)
{
    tell_pass(Py_TYPE(wrapper->object));
    return PyObject_Call(wrapper->function, args, keywords);
}

static PyObject *get_of_iterator(PyObject *iterator, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(iterator, name);

    return name == reset_name ? py_steps_wrap_called(value, iterator, call_reset)
                              : value;
}

/* ---- putting it in place ------------------------------------------------------------- */

static bool hook_get(PyObject *torch, const char *path, getattrofunc ours)
{
    return py_steps_hook_slot(torch, path, PY_SLOT_GET,
                              PyType_GetSlot(&PyBaseObject_Type, Py_tp_getattro),
                              (void *)ours);
}

bool py_steps_hook_batches(PyObject *torch)
{
    static const char map[] = "utils.data._utils.fetch._MapDatasetFetcher";
    static const char iterable[] = "utils.data._utils.fetch._IterableDatasetFetcher";
    bool maps, iterates;

    if (!fetch_name && !(fetch_name = PyUnicode_InternFromString("fetch"))) {
        PyErr_Clear();
        return false;
    }
    maps = hook_get(torch, map, get_of_fetcher);
    iterates = hook_get(torch, iterable, get_of_fetcher);
    /* Where that cannot be, every fetch looks for its dataset. */
    (void)py_steps_hook_alloc(torch, map, alloc_fetcher);
    (void)py_steps_hook_alloc(torch, iterable, alloc_fetcher);
    return maps && iterates;
}

bool py_steps_hook_passes(PyObject *torch)
{
    static const char single[] = "utils.data.dataloader._SingleProcessDataLoaderIter";
    static const char workers[] =
        "utils.data.dataloader._MultiProcessingDataLoaderIter";
    bool singles = py_steps_hook_alloc(torch, single, alloc_iterator);
    bool multiples = py_steps_hook_alloc(torch, workers, alloc_iterator);

    if (!reset_name && !(reset_name = PyUnicode_InternFromString("_reset"))) {
        PyErr_Clear();
        return false;
    }
    return singles && multiples && hook_get(torch, workers, get_of_iterator);
}
