/* Exceptions that are raised while our own Python code runs, or Python code that we call.
 *
 * What of ours fails is nobody's business. But a signal of the program's may be handled in
 * there, in its main thread: what its handler raises (KeyboardInterrupt, SystemExit, a
 * TimeoutError of its own) interrupts whatever Python code runs, and if that is ours, the
 * exception must go on to the program's. It is raised there again as soon as the interpreter
 * is out of our code and of the import system's, which is where it would have come without
 * us. The same is true of an exception that another thread sends (a debugger, a timeout). */
#ifndef PY_LAPWING_ERROR_H
#define PY_LAPWING_ERROR_H

#include "compat.h"

/* The exception that is set, if there is one, is no more: the program's is raised again in
 * the program, soon; any other is forgotten. */
void py_error_end(void);

/* Whether ERROR, caught in our code, is the program's: anything that is no Exception, and
 * what a signal handler has raised. */
bool py_error_is_programs(PyObject *error);

/* Call CALLBACK, Python code of ours, with ARGS, a new reference or NULL. Nothing that it
 * raises comes out here, and what is raised already stays. */
void py_error_call(PyObject *callback, PyObject *args);

/* Whether the calling thread's innermost Python code is the import system's. */
bool py_error_is_importing(void);

/* Whether a pending call of the calling thread may put itself off until the import is
 * over (see py_compat_is_watched). */
bool py_error_may_wait(void);

/* Whether the calling thread is the one that handles signals. */
bool py_error_is_main_thread(void);

#endif
