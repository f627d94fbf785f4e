/* Hearing that the program has imported a module. */
#ifndef PY_LAPWING_IMPORTS_H
#define PY_LAPWING_IMPORTS_H

#include "compat.h"

/* Call CALLBACK(module) once, soon after the program has imported NAME: in the thread that
 * did, out of the import system. False with an exception set. */
bool py_imports_await(const char *name, PyObject *callback);

/* No more. */
void py_imports_forget(const char *name);

#endif
