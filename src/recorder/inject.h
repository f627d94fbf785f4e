/* How the agent gets into a Python that never heard of Lapwing: through the
 * environment, and the folder that it names.
 *
 * The folder `lapwing/_inject` holds a sitecustomize.py and the agent's extension. As
 * the first entry of PYTHONPATH it is found by every Python the program starts (but
 * with -I, -S or -E), and LAPWING_AGENT tells the agent where the recorder listens. */
#ifndef LW_RECORDER_INJECT_H
#define LW_RECORDER_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/layout.h"
#include "base/error.h"

/* What the agent shall do, as LAPWING_AGENT says it (agent/layout.h). */
struct lw_inject_options {
    enum lw_agent_ops ops;
    const char *socket; /* path */
    bool calls;         /* every call */
    bool c_calls;       /* builtins too */
    bool sample;        /* the recorder samples */
    bool timeline;      /* each call as a span */
    bool steps;         /* of a training with torch */
    uint64_t min_span_ns;
    const char *torch; /* its profiler's windows (cmd/torch_windows.h); NULL: none */
};

/* The folder: $LAPWING_HOME/_inject, or where an installation or a build puts it as
 * seen from the program's own file. Caller frees. */
char *lw_inject_find(struct lw_error *err);
/* As lw_inject_find(), for the program at EXECUTABLE. */
char *lw_inject_find_from(const char *executable, struct lw_error *err);

/* A copy of ENVIRONMENT (up to NULL) with PYTHONPATH and LAPWING_AGENT set; those of an
 * outer `lapwing run` are replaced. One piece of memory; caller frees. */
char **lw_inject_environment(char *const *environment, const char *folder,
                             const struct lw_inject_options *options,
                             struct lw_error *err);

/* Whether the LEN bytes at ENTRY, one of PYTHONPATH's, are FOLDER, however it is spelled
 * (agent/layout.h). */
bool lw_inject_is_entry(const char *entry, size_t len, const char *folder);

/* Why Python would not let the agent in: the option among -I, -S and -E in the command
 * line ARGV (up to NULL) of a Python, or 0. */
char lw_inject_shut_out(char *const *argv);

#endif
