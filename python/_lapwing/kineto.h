/* Two things of torch's profiler (Kineto) that it has no way to ask for from Python. */
#ifndef PY_LAPWING_KINETO_H
#define PY_LAPWING_KINETO_H

#include "compat.h"

/* Add set_kineto_log() and stop_kineto_thread() to MODULE. False with an exception set. */
bool py_kineto_init(PyObject *module);

/* Nobody is told of profilers any more. */
void py_kineto_forget(void);

#endif
