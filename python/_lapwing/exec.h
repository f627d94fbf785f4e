/* Carrying the agent into programs that the watched one starts. */
#ifndef PY_LAPWING_EXEC_H
#define PY_LAPWING_EXEC_H

#include "compat.h"

/* From now on whatever this process starts has FOLDER on PYTHONPATH and CONFIG in
 * LAPWING_AGENT, also where it passes an environment of its own. False with an
 * exception set. */
bool py_exec_follow(const char *folder, const char *config);

/* No more: the process' environment and the functions that start programs are again as
 * they were. */
void py_exec_unfollow(void);

#endif
