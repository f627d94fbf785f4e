/* Finds what it needs in the torch that the process has loaded, by names that are the same
 * in torch 2.6, 2.13 and 2.14; a torch without them is left alone. */

#include "kineto.h"

#include <stdatomic.h>
#include <string.h>

#include "error.h"
#include "patch.h"

static PyObject *set_log(PyObject *module, PyObject *args)
{
    const char *library;
    _Atomic int *level;
    int wanted;

    (void)module;
    if (!PyArg_ParseTuple(args, "si:set_kineto_log", &library, &wanted))
        return NULL;
    level = py_compat_find_loaded(library, "_ZN9libkineto6Logger14severityLevel_E");
    return PyLong_FromLong(level ? atomic_exchange(level, wanted) : -1);
}

/* A function of a class, and one that gives the only object of it. */
static PyObject *stop_thread(PyObject *module, PyObject *args)
{
    void *(*instance)(void) = NULL;
    void (*stop)(void *loader) = NULL;
    const char *library;
    void *symbols[2];

    (void)module;
    if (!PyArg_ParseTuple(args, "s:stop_kineto_thread", &library))
        return NULL;
    symbols[0] =
        py_compat_find_loaded(library, "_ZN9libkineto12ConfigLoader8instanceEv");
    symbols[1] =
        py_compat_find_loaded(library, "_ZN9libkineto12ConfigLoader10stopThreadEv");
    memcpy(&instance, &symbols[0], sizeof(instance));
    memcpy(&stop, &symbols[1], sizeof(stop));
    if (instance && stop) {
        Py_BEGIN_ALLOW_THREADS;
        stop(instance());
        Py_END_ALLOW_THREADS;
    }
    Py_RETURN_NONE;
}

/* ---- the program's own profiler ------------------------------------------------------ */

/* Whichever way a profiler is started or stopped, torch calls one of these. They are
 * pybind11's, and take their arguments in one of two ways. */
enum { PREPARE, ENABLE, DISABLE, WATCHED };

static struct {
    const char *name;
    py_keywords_function original;
    py_fast_function fast_original;
} watched[WATCHED] = {
    [PREPARE] = { "_prepare_profiler", NULL, NULL },
    [ENABLE] = { "_enable_profiler", NULL, NULL },
    [DISABLE] = { "_disable_profiler", NULL, NULL },
};

static PyObject *told; /* callback(starts, is_done); owned */

static void tell(int which, bool is_done)
{
    if (told)
        py_error_call(told, Py_BuildValue("(OO)", which == DISABLE ? Py_False : Py_True,
                                          is_done ? Py_True : Py_False));
}

static PyObject *call(int which, PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *result;

    tell(which, false);
    result = watched[which].original(self, args, keywords);
    if (result)
        tell(which, true);
    return result;
}

static PyObject *call_fast(int which, PyObject *self, PyObject *const *args,
                           Py_ssize_t count, PyObject *names)
{
    PyObject *result;

    tell(which, false);
    result = watched[which].fast_original(self, args, count, names);
    if (result)
        tell(which, true);
    return result;
}

static PyObject *prepare(PyObject *self, PyObject *args, PyObject *keywords)
{
    return call(PREPARE, self, args, keywords);
}

static PyObject *prepare_fast(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    return call_fast(PREPARE, self, args, count, names);
}

static PyObject *enable(PyObject *self, PyObject *args, PyObject *keywords)
{
    return call(ENABLE, self, args, keywords);
}

static PyObject *enable_fast(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    return call_fast(ENABLE, self, args, count, names);
}

static PyObject *disable(PyObject *self, PyObject *args, PyObject *keywords)
{
    return call(DISABLE, self, args, keywords);
}

static PyObject *disable_fast(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    return call_fast(DISABLE, self, args, count, names);
}

static PyObject *on_profiler(PyObject *module, PyObject *args)
{
    static const struct {
        py_keywords_function named;
        py_fast_function fast;
    } ours[WATCHED] = {
        [PREPARE] = { prepare, prepare_fast },
        [ENABLE] = { enable, enable_fast },
        [DISABLE] = { disable, disable_fast },
    };
    PyObject *profiler, *callback, *old = told;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO:on_profiler", &profiler, &callback))
        return NULL;
    for (size_t i = 0; i < WATCHED; i++) {
        PyObject *function = PyObject_GetAttrString(profiler, watched[i].name);
        bool is_ours = function && (watched[i].original || watched[i].fast_original);
        bool done =
            function &&
            (is_ours || py_patch_builtin(PY_PATCH_TORCH, function, ours[i].named,
                                         &watched[i].original, ours[i].fast,
                                         &watched[i].fast_original));

        if (function && !done)
            PyErr_Format(PyExc_AttributeError, "%s is no builtin", watched[i].name);
        Py_XDECREF(function);
        if (!done)
            return NULL;
    }
    Py_INCREF(callback);
    told = callback;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

void py_kineto_forget(void)
{
    Py_CLEAR(told);
    for (size_t i = 0; i < WATCHED; i++) {
        watched[i].original = NULL;
        watched[i].fast_original = NULL;
    }
}

static PyMethodDef methods[] = {
    { "on_profiler", on_profiler, METH_VARARGS,
      "on_profiler(torch.autograd.profiler, callback): call it with (starts, is_done) "
      "before and after each call that starts or stops a profiler." },
    { "set_kineto_log", set_log, METH_VARARGS,
      "set_kineto_log(library, level): how grave a message must be to be printed; what it "
      "was before, or -1, if this torch has no such level." },
    { "stop_kineto_thread", stop_thread, METH_VARARGS,
      "stop_kineto_thread(library): end the thread that waits for orders to Kineto." },
    { NULL, NULL, 0, NULL },
};

bool py_kineto_init(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
