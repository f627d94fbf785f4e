/* Our tool id of sys.monitoring, which has six: a program that uses them itself must find
 * each of them free.
 *
 * So we hold one, and when the program names it in a call of sys.monitoring, ours becomes
 * another before its call goes on. Nothing is replaced that the program could see. When it
 * has taken all six, calls are not counted until it gives one back, which is said. */
#ifndef PY_LAPWING_TOOL_ID_H
#define PY_LAPWING_TOOL_ID_H

#include "compat.h"

/* sys.monitoring.events, a new reference, and the number of one of them by its name. NULL
 * and 0 with an exception set. */
PyObject *py_tool_id_events(void);
uint32_t py_tool_id_event(PyObject *events, const char *name);

/* Hear the events of MASK with an id of ours, until it is given up: CALLBACKS[i] is called
 * for BITS[i], COUNT of them, all of which stay the caller's and must live as long. May be
 * called again with another MASK. Where the program has all ids, nothing is heard until it
 * gives one back. False with an exception set: nothing has changed. */
bool py_tool_id_take(PyObject *const *callbacks, const uint32_t *bits, int count,
                     uint32_t mask);
void py_tool_id_give_up(void);
bool py_tool_id_is_held(void); /* false: nothing is heard now */

#endif
