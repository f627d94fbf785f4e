/* A finder in sys.meta_path would be Python code in every import, which tracers, profilers
 * and the program itself see. What no import does without, and nobody sees, is the import
 * lock: the last thing that CPython does for a module is to take and release it once more,
 * in `_imp.release_lock`, when the module's own lock goes away (importlib/_bootstrap.py,
 * _get_module_lock). So until the module is there, that function looks for it, which is a
 * dict's look-up, twice an import, and then it is again as it was.
 *
 * The look-up is made in a weak reference's callback, which must not raise. What there is
 * to do is done later: by the main thread as soon as it is out of the import system. */

#include "imports.h"

#include "error.h"
#include "patch.h"

static struct {
    PyObject *name;     /* interned; NULL: none is awaited; owned */
    PyObject *callback; /* owned */
    PyInterpreterState *interpreter;
    bool is_scheduled;
    union py_method release_lock; /* what it was */
} awaited;

/* NAME of MODULE's own; borrowed, or NULL with no exception set. */
static PyObject *own_attribute(PyObject *module, const char *name)
{
    return PyDict_GetItemString(PyModule_GetDict(module), name);
}

/* The module, if it is imported: not one that somebody made up, nor one that is loaded when
 * it is used (importlib.util.LazyLoader). Borrowed. */
static PyObject *find_module(void)
{
    PyObject *module = PyDict_GetItemWithError(PyImport_GetModuleDict(), awaited.name);
    PyObject *spec, *initializing;
    bool is_there;

    if (!module || !PyModule_CheckExact(module) || !own_attribute(module, "_C"))
        return NULL;
    spec = own_attribute(module, "__spec__");
    if (!spec || spec == Py_None)
        return NULL;
    initializing = PyObject_GetAttrString(spec, "_initializing");
    is_there = !initializing || PyObject_IsTrue(initializing) == 0;
    Py_XDECREF(initializing);
    return is_there ? module : NULL;
}

static PyObject *find_quietly(void)
{
    PyObject *type, *value, *traceback, *module;

    PyErr_Fetch(&type, &value, &traceback);
    module = find_module();
    py_error_end();
    PyErr_Restore(type, value, traceback);
    return module;
}

static void tell(PyObject *module)
{
    PyObject *callback = awaited.callback;

    awaited.callback = NULL;
    Py_INCREF(module);
    py_imports_forget();
    py_error_call(callback, PyTuple_Pack(1, module));
    Py_DECREF(callback);
    Py_DECREF(module);
}

static int tell_later(void *unused)
{
    PyObject *module = awaited.name ? find_quietly() : NULL;

    (void)unused;
    awaited.is_scheduled = false;
    if (!module)
        return 0;
    if (!py_error_is_importing())
        tell(module);
    else
        awaited.is_scheduled = Py_AddPendingCall(tell_later, NULL) == 0;
    return 0;
}

static PyObject *release_lock(PyObject *self, PyObject *unused)
{
    PyObject *result = awaited.release_lock.tuple(self, unused), *module;

    if (!awaited.name || awaited.is_scheduled ||
        PyInterpreterState_Get() != awaited.interpreter)
        return result;
    module = find_quietly();
    if (!module)
        return result;
    if (py_error_is_main_thread())
        awaited.is_scheduled = Py_AddPendingCall(tell_later, NULL) == 0;
    else
        tell(module);
    return result;
}

bool py_imports_await(const char *name, PyObject *callback)
{
    static const union py_method ours = { .tuple = release_lock };
    PyObject *module = PyImport_ImportModule("_imp");
    PyObject *function = module ? PyObject_GetAttrString(module, "release_lock") : NULL;

    py_imports_forget();
    awaited.name = function ? PyUnicode_InternFromString(name) : NULL;
    if (awaited.name) {
        awaited.callback = callback;
        Py_INCREF(callback);
        awaited.interpreter = PyInterpreterState_Get();
        if (!py_patch_function(PY_PATCH_IMPORT, function, "release_lock", METH_NOARGS,
                               ours, &awaited.release_lock)) {
            py_imports_forget();
            PyErr_SetString(PyExc_RuntimeError,
                            "this Python's import lock is not as Lapwing knows it");
        }
    }
    Py_XDECREF(function);
    Py_XDECREF(module);
    return awaited.name != NULL;
}

void py_imports_forget(void)
{
    py_patch_undo(PY_PATCH_IMPORT);
    Py_CLEAR(awaited.name);
    Py_CLEAR(awaited.callback);
}
