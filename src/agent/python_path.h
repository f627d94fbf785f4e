/* PYTHONPATH with our folder in it, and the program's own value back out of it.
 *
 * Launchers take the variable apart and put it together again ("src:$PYTHONPATH"), so our
 * entry may end up anywhere in it, more than once. How it is spelled says what the program's
 * own value was where we put it (agent/layout.h, LW_AGENT_PATH_*). */
#ifndef LW_AGENT_PYTHON_PATH_H
#define LW_AGENT_PYTHON_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the LEN bytes at VALUE have an entry of ours, FOLDER. */
bool lw_python_path_has(const char *value, size_t len, const char *folder);

/* VALUE, the program's own (LEN bytes; NULL: it has none), with FOLDER first. Caller
 * frees; NULL: no memory. */
char *lw_python_path_with(const char *value, size_t len, const char *folder);

/* What VALUE would be without us: caller frees; NULL: no memory, or, with *IS_UNSET true,
 * there would be no such variable. */
char *lw_python_path_without(const char *value, const char *folder, bool *is_unset);

#endif
