/* Which Python runs a script: that of the virtualenv which is active (VIRTUAL_ENV), else of
 * the one in which this lapwing lies, else python3 on PATH. */
#ifndef LW_CMD_RUN_PYTHON_H
#define LW_CMD_RUN_PYTHON_H

#include "base/error.h"

struct lw_run_python {
    char *word; /* for argv[0]: a path, or "python3" where PATH has the same; owned */
    const char *why; /* "the active virtualenv"; constant */
};

/* LAPWING: this program as it was called, before links are followed (a link to a tool's
 * own virtualenv lies outside of it); NULL: not known. */
bool lw_run_python_choose(struct lw_run_python *python, const char *lapwing,
                          struct lw_error *err) LW_MUST_CHECK;
void lw_run_python_release(struct lw_run_python *python); /* zeroed is fine */

/* How this program was called, as a path; borrowed. NULL: not known. */
const char *lw_run_python_lapwing(void);

#endif
