/* The latest run, which commands take when none is named, may not be the one that a person
 * has in mind. */
#ifndef LW_CMD_LATEST_H
#define LW_CMD_LATEST_H

#include "base/error.h"

/* For a command that takes the latest run of RUNS (NULL: LW_RUNS_FOLDER) because none was
 * named: if that one failed, or ended almost at once, and one before it did neither, say so
 * on stderr, and how to name the other. Fails only without memory. */
bool lw_latest_warn(const char *runs, struct lw_error *err) LW_MUST_CHECK;

#endif
