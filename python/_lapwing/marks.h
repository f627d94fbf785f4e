/* What a program announces of itself: steps, phases, marks, counter values; from Python
 * (lapwing.step() and its like) and from C (lapwing.h). */
#ifndef PY_LAPWING_MARKS_H
#define PY_LAPWING_MARKS_H

#include "phases.h"

/* Add what Python sees to MODULE, and make lapwing_api_1 known to the process. False with
 * an exception set. */
bool py_marks_init(PyObject *module);

/* In a forked child: its first step begins with its own first call. */
void py_marks_after_fork(void);

/* ---- phase_object.c: what lapwing.phase() gives ------------------------------------- */

bool py_phase_type_init(PyObject *module);

/* A new phase named NAME, a str; or FUNCTION, a callable, with a phase of its own name
 * around each call. */
PyObject *py_phase_new(PyObject *name_or_function);

#endif
