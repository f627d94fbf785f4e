/* The recording that a recorder reads: at most one a process. */
#ifndef PY_LAPWING_SESSION_H
#define PY_LAPWING_SESSION_H

#include "agent/handover.h"
#include "tracer.h"

/* Start as CONFIG (the value of LAPWING_AGENT) says; TEXT is the hello's: executable,
 * version, arguments, each NUL-terminated. AWAIT_MAIN: record from the program's first
 * module on, not from here. False with an exception set. */
bool py_session_start(const char *config, const char *text, size_t text_len,
                      uint32_t argument_count, bool await_main);
void py_session_stop(void);

/* A sentence for the report of the run. */
void py_session_note(const char *sentence);

/* Whether there is one: with the GIL the truth, without it a good guess. */
static inline bool py_session_is_on(void)
{
    return atomic_load_explicit(&py_tracer.is_session_on, memory_order_relaxed);
}

/* The calling thread's place in it; NULL: not recording, or not this thread. With the
 * GIL. */
struct lw_calls_thread *py_session_find_place(void);
static inline struct lw_calls_thread *py_session_place(void)
{
    return __builtin_expect(py_thread.session_epoch == py_tracer.only_epoch, 1)
               ? py_thread.session
               : py_session_find_place();
}

/* The same for a thread that may not have the GIL, nor be known to Python. Where it is not
 * NULL, py_session_leave() must follow soon, with no other lock asked for in between than
 * that of the names: whoever ends the recording waits for it. */
struct lw_calls_thread *py_session_enter(void);
static inline void py_session_leave(void)
{
    atomic_store_explicit(&py_thread.is_writing, false, memory_order_release);
}

/* What it was told to do; NULL: there is none. With the GIL. */
const struct lw_agent_config *py_session_config(void);

/* How many orders there have been for this process (agent/layout.h). With the GIL. */
uint32_t py_session_orders(void);

/* How many recordings there have been in this process: tells one from the next. */
uint32_t py_session_number(void);

#endif
