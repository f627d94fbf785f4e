/* Slots of types, and the definitions of C methods; see patch.h. */

#include "patch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "error.h"
#include "tracer.h"

/* Should it lie in memory that may not be written, the kernel says so where a plain store
 * would end the program. Of the two calls by which it can be asked to store something, a
 * container may forbid the first. */
static bool write_pointer(void *at, void *value)
{
    struct iovec from = { &value, sizeof(value) };
    struct iovec to = { at, sizeof(value) };
    int ends[2];
    bool done;

    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)sizeof(value))
        return true;
    if (errno == EFAULT || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    done = write(ends[1], &value, sizeof(value)) == (ssize_t)sizeof(value) &&
           read(ends[0], at, sizeof(value)) == (ssize_t)sizeof(value);
    close(ends[0]);
    close(ends[1]);
    return done;
}

/* ---- what is replaced --------------------------------------------------------------- */

struct patch {
    void **at;
    void *ours, *was;
    PyObject *owner; /* of the memory; owned */
    struct patch *next;
};

static struct patch *patches[PY_PATCH_GROUPS];

/* Have *AT, which OWNER has, be OURS. */
static bool replace(enum py_patch_group group, PyObject *owner, void *at, void *ours)
{
    struct patch *patch = malloc(sizeof(*patch));

    if (!patch)
        return false;
    *patch = (struct patch){ at, ours, *(void **)at, owner, patches[group] };
    if (!write_pointer(at, ours)) {
        free(patch);
        return false;
    }
    Py_INCREF(owner);
    patches[group] = patch;
    return true;
}

void py_patch_undo(enum py_patch_group group)
{
    while (patches[group]) {
        struct patch *patch = patches[group];

        patches[group] = patch->next;
        if (*patch->at == patch->ours && !write_pointer(patch->at, patch->was)) {
            /* It was written before, so this cannot be; ours then calls what was there. */
        }
        Py_DECREF(patch->owner);
        free(patch);
    }
}

bool py_patch_set_slot(PyTypeObject *type, enum py_type_slot slot, void *function)
{
    return write_pointer((char *)type + slot, function);
}

bool py_patch_slot(enum py_patch_group group, PyTypeObject *type,
                   enum py_type_slot slot, void *function)
{
    return replace(group, (PyObject *)type, (char *)type + slot, function);
}

/* ---- whether types are as we know them ---------------------------------------------- */

static PyObject *trial_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    (void)self, (void)args, (void)keywords;
    Py_RETURN_NONE;
}

static PyObject *trial_alloc(PyTypeObject *type, Py_ssize_t count)
{
    (void)type, (void)count;
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
        { Py_tp_init, trial_init },         { Py_tp_alloc, trial_alloc },
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
        py_patch_get_slot(type, PY_SLOT_ALLOC) == (void *)trial_alloc &&
        py_patch_get_slot(type, PY_SLOT_FINALIZE) == (void *)trial_finalize &&
        strcmp((const char *)py_patch_get_slot(type, PY_SLOT_NAME), spec.name) == 0;

    if (!type)
        PyErr_Clear();
    Py_XDECREF(type);
    return works;
}

/* ---- definitions of methods --------------------------------------------------------- */

/* Have DEFINITION, of OWNER, call OURS; *ORIGINAL, a pointer to a function, becomes what it
 * called before. */
static bool redefine(enum py_patch_group group, PyObject *owner,
                     PyMethodDef *definition, void *ours, void *original)
{
    memcpy(original, &definition->ml_meth, sizeof(definition->ml_meth));
    return replace(group, owner, &definition->ml_meth, ours);
}

bool py_patch_method(enum py_patch_group group, PyObject *type, const char *name,
                     py_keywords_function ours, py_keywords_function *original)
{
    PyObject *descriptor = PyObject_GetAttrString(type, name);
    PyMethodDef *definition = NULL;
    bool done = false;

    if (!descriptor)
        py_error_end();
    else if (Py_TYPE(descriptor) == py_tracer.compat.method_descriptor_type)
        definition = py_descriptor_definition(descriptor);
    if (definition && strcmp(definition->ml_name, name) == 0 &&
        definition->ml_flags == (METH_VARARGS | METH_KEYWORDS))
        done = redefine(group, descriptor, definition, (void *)ours, original);
    Py_XDECREF(descriptor);
    return done;
}

bool py_patch_builtin(enum py_patch_group group, PyObject *function,
                      py_keywords_function ours, py_keywords_function *original,
                      py_fast_function fast, py_fast_function *fast_original)
{
    PyMethodDef *definition =
        PyCFunction_Check(function) ? py_builtin_definition(function) : NULL;

    if (definition && definition->ml_flags == (METH_VARARGS | METH_KEYWORDS))
        return redefine(group, function, definition, (void *)ours, original);
    if (definition && definition->ml_flags == (METH_FASTCALL | METH_KEYWORDS))
        return redefine(group, function, definition, (void *)fast, fast_original);
    return false;
}

bool py_patch_function(enum py_patch_group group, PyObject *function, const char *name,
                       int flags, union py_method ours, union py_method *original)
{
    PyMethodDef *definition =
        PyCFunction_Check(function) ? py_builtin_definition(function) : NULL;
    void *address;

    if (!definition || strcmp(definition->ml_name, name) != 0 ||
        definition->ml_flags != flags)
        return false;
    memcpy(&address, &ours, sizeof(address));
    return redefine(group, function, definition, address, original);
}
