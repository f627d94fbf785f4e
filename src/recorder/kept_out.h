/* Why a Python that was started by a watched program does not have our agent. */
#ifndef LW_RECORDER_KEPT_OUT_H
#define LW_RECORDER_KEPT_OUT_H

#include <sys/types.h>

/* A phrase that goes on after "a Python" or "missing: 3 processes": how PID, a Python, was
 * started that kept out the agent in FOLDER; NULL: by all that one can see the agent should
 * be in it. The text lives for ever. */
const char *lw_kept_out(pid_t pid, const char *folder);

#endif
