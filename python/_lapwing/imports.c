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

enum { MOST_AWAITED = 4 };

static struct awaited {
    PyObject *name;     /* interned; owned */
    PyObject *callback; /* owned */
} list[MOST_AWAITED];
static unsigned count;

static PyInterpreterState *interpreter; /* the only one that we look at */
static union py_method original;        /* of _imp.release_lock */
static bool is_scheduled;

/* Whether FRAME runs the top level of the module with NAMES. */
static bool is_top_level(PyObject *frame, PyObject *names)
{
    PyObject *globals = PyObject_GetAttrString(frame, "f_globals");
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    PyObject *name = PyObject_GetAttrString(code, "co_name");
    bool is = globals == names && name &&
              PyUnicode_CompareWithASCIIString(name, "<module>") == 0;

    Py_XDECREF(name);
    Py_DECREF(code);
    Py_XDECREF(globals);
    return is;
}

/* Whether this thread is running the module with NAMES. */
static bool is_running(PyObject *names)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame(), *next;
    bool is = false;

    Py_XINCREF(frame);
    while (frame && frame != Py_None && !(is = is_top_level(frame, names))) {
        next = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = next;
    }
    Py_XDECREF(frame);
    return is;
}

/* The module NAME, if it is imported: not one that somebody made up, nor one that is loaded
 * when it is used (importlib.util.LazyLoader). Borrowed. */
static PyObject *find_module(PyObject *name)
{
    PyObject *module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    PyObject *names, *spec, *initializing;
    bool is_there;

    if (!module || !PyModule_CheckExact(module))
        return NULL;
    names = PyModule_GetDict(module);
    spec = PyDict_GetItemString(names, "__spec__"); /* borrowed */
    /* The code of a module, when it runs, is given builtins. */
    if (!spec || spec == Py_None || !PyDict_GetItemString(names, "__builtins__"))
        return NULL;
    initializing = PyObject_GetAttrString(spec, "_initializing");
    is_there = !initializing || PyObject_IsTrue(initializing) == 0;
    Py_XDECREF(initializing);
    /* A lazy loader does not say that it has begun. */
    return is_there && !is_running(names) ? module : NULL;
}

/* The first of the list that is imported, and its module, a new reference; COUNT: none. */
static unsigned find_imported(PyObject **module)
{
    PyObject *type, *value, *traceback;
    unsigned found = 0;

    PyErr_Fetch(&type, &value, &traceback);
    *module = NULL;
    while (found < count && !(*module = find_module(list[found].name)))
        found++;
    Py_XINCREF(*module);
    py_error_end();
    PyErr_Restore(type, value, traceback);
    return found;
}

static void drop(unsigned index)
{
    struct awaited dropped = list[index];

    list[index] = list[--count];
    if (count == 0)
        py_patch_undo(PY_PATCH_IMPORT);
    Py_DECREF(dropped.name);
    Py_DECREF(dropped.callback);
}

static void tell_all(void)
{
    PyObject *module;

    for (unsigned found; (found = find_imported(&module)) < count;) {
        PyObject *callback = list[found].callback;

        Py_INCREF(callback);
        drop(found);
        py_error_call(callback, PyTuple_Pack(1, module));
        Py_DECREF(callback);
        Py_DECREF(module);
    }
}

static int tell_later(void *unused)
{
    (void)unused;
    is_scheduled = false;
    if (count > 0 && py_error_may_wait() && py_error_is_importing()) {
        is_scheduled = Py_AddPendingCall(tell_later, NULL) == 0;
        return 0;
    }
    tell_all();
    return 0;
}

static PyObject *release_lock(PyObject *self, PyObject *unused)
{
    PyObject *result = original.tuple(self, unused), *module = NULL;

    if (count == 0 || is_scheduled || PyInterpreterState_Get() != interpreter ||
        find_imported(&module) == count)
        return result;
    Py_DECREF(module);
    if (py_error_is_main_thread() && py_error_may_wait())
        is_scheduled = Py_AddPendingCall(tell_later, NULL) == 0;
    else
        tell_all();
    return result;
}

static bool enter_lock(void)
{
    static const union py_method ours = { .tuple = release_lock };
    PyObject *module = PyImport_ImportModule("_imp");
    PyObject *function = module ? PyObject_GetAttrString(module, "release_lock") : NULL;
    bool done = function && py_patch_function(PY_PATCH_IMPORT, function, "release_lock",
                                              METH_NOARGS, ours, &original);

    if (function && !done)
        PyErr_SetString(PyExc_RuntimeError,
                        "this Python's import lock is not as Lapwing knows it");
    Py_XDECREF(function);
    Py_XDECREF(module);
    return done;
}

bool py_imports_await(const char *name, PyObject *callback)
{
    PyObject *text;

    if (count == MOST_AWAITED) {
        PyErr_SetString(PyExc_RuntimeError, "too many modules are waited for");
        return false;
    }
    interpreter = PyInterpreterState_Get();
    if (!(text = PyUnicode_InternFromString(name)) || (count == 0 && !enter_lock())) {
        Py_XDECREF(text);
        return false;
    }
    Py_INCREF(callback);
    list[count++] = (struct awaited){ text, callback };
    return true;
}

void py_imports_forget(const char *name)
{
    for (unsigned i = count; i-- > 0;)
        if (PyUnicode_CompareWithASCIIString(list[i].name, name) == 0)
            drop(i);
}
