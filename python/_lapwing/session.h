/* The recording that a recorder reads: at most one a process. */
#ifndef PY_LAPWING_SESSION_H
#define PY_LAPWING_SESSION_H

#include "tracer.h"

/* Start as CONFIG (the value of LAPWING_AGENT) says; TEXT is the hello's: executable,
 * version, arguments, each NUL-terminated. AWAIT_MAIN: record from the program's first
 * module on, not from here. False with an exception set. */
bool py_session_start(const char *config, const char *text, size_t text_len,
                      uint32_t argument_count, bool await_main);
void py_session_stop(void);
bool py_session_is_on(void);

/* Put a named range that began at START_TICKS and ends now on the thread's track. */
bool py_session_mark(PyObject *name, uint64_t start_ticks);

#endif
