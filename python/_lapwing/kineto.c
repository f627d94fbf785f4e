/* Finds what it needs in the torch that the process has loaded, by names that are the same
 * in torch 2.6, 2.13 and 2.14; a torch without them is left alone. */

#include "kineto.h"

#include <stdatomic.h>
#include <string.h>

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

static PyMethodDef methods[] = {
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
