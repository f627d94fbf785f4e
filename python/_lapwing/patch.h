/* Changing what an interpreter's object does without changing what the program sees of it.
 *
 * Torch's functions must look as they did: to dynamo, which reads their code and takes a
 * stranger for a reason to break its graph, to pickle, inspect, TorchScript and whoever
 * compares them. So no attribute is replaced where a C slot behind it can be: the object, its
 * dict and its code stay the same, and only the C function that the interpreter calls for
 * it becomes ours, which calls the one that was there.
 *
 * All of it happens under the GIL. */
#ifndef PY_LAPWING_PATCH_H
#define PY_LAPWING_PATCH_H

#include "compat.h"

/* A method in C that takes keywords. */
typedef PyObject *(*py_keywords_function)(PyObject *self, PyObject *args,
                                          PyObject *keywords);
/* The same by vectorcall: METH_FASTCALL | METH_KEYWORDS. */
typedef PyObject *(*py_fast_function)(PyObject *self, PyObject *const *args,
                                      Py_ssize_t count, PyObject *names);

/* What a method's definition calls, by its flags. */
union py_method {
    PyCFunction tuple;      /* METH_VARARGS; with NULL METH_NOARGS */
    py_fast_function named; /* METH_FASTCALL | METH_KEYWORDS */
    PyObject *(*plain)(PyObject *self, PyObject *const *args,
                       Py_ssize_t count); /* METH_FASTCALL */
};

/* What is put back together. */
enum py_patch_group {
    PY_PATCH_STARTERS, /* functions that start programs (exec.c) */
    PY_PATCH_IMPORT,   /* the import system's (imports.c) */
    PY_PATCH_TORCH,    /* torch's (steps.h) */
    PY_PATCH_GROUPS,
};

/* Whether this Python's types are as compat.h says; asked once, before the others. */
bool py_patch_works(void);

/* What TYPE has in SLOT. */
static inline void *py_patch_get_slot(PyTypeObject *type, enum py_type_slot slot)
{
    return *(void **)((char *)type + slot);
}

/* False: it may not be changed. The caller puts back what was there: for types that may
 * die. */
bool py_patch_set_slot(PyTypeObject *type, enum py_type_slot slot, void *function);

/* The same for a type that then lives as long as the patch does. */
bool py_patch_slot(enum py_patch_group group, PyTypeObject *type,
                   enum py_type_slot slot, void *function);

/* Have the method NAME of TYPE, a C method with keywords, call OURS; *ORIGINAL is what it
 * called before. False, with no exception set: there is no such method. */
bool py_patch_method(enum py_patch_group group, PyObject *type, const char *name,
                     py_keywords_function ours, py_keywords_function *original);

/* The same for FUNCTION, a builtin that takes keywords in either way (as what pybind11
 * makes does, by its version): whichever of the two originals is not NULL then was what it
 * called. */
bool py_patch_builtin(enum py_patch_group group, PyObject *function,
                      py_keywords_function ours, py_keywords_function *original,
                      py_fast_function fast, py_fast_function *fast_original);

/* The same for the builtin FUNCTION called NAME, if its definition has FLAGS. */
bool py_patch_function(enum py_patch_group group, PyObject *function, const char *name,
                       int flags, union py_method ours, union py_method *original);

/* Put back all that GROUP has replaced and that nobody has replaced since. */
void py_patch_undo(enum py_patch_group group);

#endif
