/* What tells is what the kernel keeps of how a process was started: its command line and
 * its environment, as it was then. */

#include "recorder/kept_out.h"

#include <stdio.h>
#include <string.h>

#include "agent/layout.h"
#include "base/alloc.h"
#include "base/file.h"
#include "recorder/facts.h"
#include "recorder/inject.h"

/* Where a sitecustomize.py of the program's is found before ours, ours is not run. */
static bool holds_customization(pid_t pid, const char *entry, size_t len)
{
    char *folder = lw_copy_text(entry, len, NULL), *path = NULL, *file = NULL;
    char cwd[64];
    bool holds = false;

    snprintf(cwd, sizeof(cwd), "/proc/%d/cwd", (int)pid);
    if (folder && *folder == '/')
        file = lw_path_join(folder, "sitecustomize.py", NULL);
    else if (folder && (path = lw_path_join(cwd, folder, NULL)))
        file = lw_path_join(path, "sitecustomize.py", NULL);
    holds = file && lw_file_exists(file);
    lw_free(file);
    lw_free(path);
    lw_free(folder);
    return holds;
}

static const char *explain_path(pid_t pid, const char *path, const char *folder)
{
    bool has_own = false;

    for (const char *end; path; path = *end ? end + 1 : NULL) {
        end = strchrnul(path, ':');
        if (lw_inject_is_entry(path, (size_t)(end - path), folder))
            return has_own ? "started with a sitecustomize.py of its own on PYTHONPATH "
                             "before Lapwing's (put that folder behind $PYTHONPATH)"
                           : NULL;
        has_own = has_own || holds_customization(pid, path, (size_t)(end - path));
    }
    return "started with a PYTHONPATH of its own (its launcher can keep Lapwing's entry: "
           "PYTHONPATH=...:$PYTHONPATH)";
}

static const char *explain_option(char option)
{
    switch (option) {
    case 'I': return "started with -I, which keeps sitecustomize.py out";
    case 'S': return "started with -S, which keeps sitecustomize.py out";
    case 'E': return "started with -E, which keeps PYTHONPATH out";
    default: return NULL;
    }
}

const char *lw_kept_out(pid_t pid, const char *folder)
{
    static const char *const names[] = { LW_AGENT_VARIABLE, "PYTHONPATH", NULL };
    char **words = lw_facts_command_line(pid, NULL);
    const char *cause = words ? explain_option(lw_inject_shut_out(words)) : NULL;
    char *values[2];
    bool is_seen;

    lw_free(words);
    if (cause)
        return cause;
    is_seen = lw_facts_sees_variables(pid, names, values);
    if (is_seen && !values[0])
        cause = "started with an environment of its own (env -i, sudo and the like)";
    else if (is_seen && !values[1])
        cause = "started without the PYTHONPATH that it was given";
    else if (is_seen)
        cause = explain_path(pid, values[1], folder);
    lw_free(values[0]);
    lw_free(values[1]);
    return cause;
}
