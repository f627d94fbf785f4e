/* Slots of types, and the definitions of C methods; see patch.h. */

#include "patch.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tracer.h"

/* Should it lie in memory that may not be written, the kernel says so where a plain store
 * would end the program. */
static bool write_pointer(void *at, void *value)
{
    struct iovec from = { &value, sizeof(value) };
    struct iovec to = { at, sizeof(value) };

    return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)sizeof(value);
}

bool py_patch_set_slot(PyTypeObject *type, enum py_type_slot slot, void *function)
{
    return write_pointer((char *)type + slot, function);
}

LW_HOT PyObject *py_patch_new(newfunc original, PyTypeObject *type, PyObject *args,
                              PyObject *keywords)
{
    static newfunc new_object;
    static PyObject *no_arguments;

    if (!no_arguments) {
        new_object = (newfunc)PyType_GetSlot(&PyBaseObject_Type, Py_tp_new);
        if (!(no_arguments = PyTuple_New(0)))
            return NULL;
    }
    return original == new_object ? original(type, no_arguments, NULL)
                                  : original(type, args, keywords);
}

static PyObject *trial_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    (void)self, (void)args, (void)keywords;
    Py_RETURN_NONE;
}

static PyObject *trial_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type, (void)args, (void)keywords;
    Py_RETURN_NONE;
}

static int trial_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    (void)self, (void)args, (void)keywords;
    return 0;
}

static PyObject *trial_get(PyObject *self, PyObject *name)
{
    (void)self, (void)name;
    Py_RETURN_NONE;
}

static void trial_finalize(PyObject *self)
{
    (void)self;
}

/* A type with known functions in it shows where they lie. */
bool py_patch_works(void)
{
    static PyType_Slot slots[] = {
        { Py_tp_call, trial_call },         { Py_tp_getattro, trial_get },
        { Py_tp_init, trial_init },         { Py_tp_new, trial_new },
        { Py_tp_finalize, trial_finalize }, { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "_lapwing.Trial",
        .basicsize = sizeof(PyObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
    bool works =
        type && py_patch_get_slot(type, PY_SLOT_CALL) == (void *)trial_call &&
        py_patch_get_slot(type, PY_SLOT_GET) == (void *)trial_get &&
        py_patch_get_slot(type, PY_SLOT_INIT) == (void *)trial_init &&
        py_patch_get_slot(type, PY_SLOT_NEW) == (void *)trial_new &&
        py_patch_get_slot(type, PY_SLOT_FINALIZE) == (void *)trial_finalize &&
        strcmp((const char *)py_patch_get_slot(type, PY_SLOT_NAME), spec.name) == 0;

    if (!type)
        PyErr_Clear();
    Py_XDECREF(type);
    return works;
}

/* *ORIGINAL, a pointer to a function, becomes what DEFINITION called before. */
static bool replace(PyMethodDef *definition, void *ours, void *original)
{
    memcpy(original, &definition->ml_meth, sizeof(definition->ml_meth));
    return write_pointer(&definition->ml_meth, ours);
}

bool py_patch_method(PyObject *type, const char *name, py_keywords_function ours,
                     py_keywords_function *original)
{
    PyObject *descriptor = PyObject_GetAttrString(type, name);
    PyMethodDef *definition = NULL;
    bool done = false;

    if (!descriptor)
        PyErr_Clear();
    else if (Py_TYPE(descriptor) == py_tracer.compat.method_descriptor_type)
        definition = py_descriptor_definition(descriptor);
    if (definition && strcmp(definition->ml_name, name) == 0 &&
        definition->ml_flags == (METH_VARARGS | METH_KEYWORDS))
        done = replace(definition, (void *)ours, original);
    Py_XDECREF(descriptor);
    return done;
}

bool py_patch_builtin(PyObject *function, py_keywords_function ours,
                      py_keywords_function *original, py_fast_function fast,
                      py_fast_function *fast_original)
{
    PyMethodDef *definition =
        PyCFunction_Check(function) ? py_builtin_definition(function) : NULL;

    if (definition && definition->ml_flags == (METH_VARARGS | METH_KEYWORDS))
        return replace(definition, (void *)ours, original);
    if (definition && definition->ml_flags == (METH_FASTCALL | METH_KEYWORDS))
        return replace(definition, (void *)fast, fast_original);
    return false;
}
