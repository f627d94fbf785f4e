/* What the two ways to attach share: samples of a process (attach.c), and a window of its
 * torch's own profiler (attach_torch.c). */

#ifndef LW_CMD_ATTACH_H
#define LW_CMD_ATTACH_H

#include "cmd/afterwards.h"
#include "cmd/family.h"
#include "lap/run.h"

/* The command line of process PID (up to NULL, in one piece that the caller frees) in
 * *ARGV, and what to name a run of it after: the script, or else the program. NULL: no
 * memory. */
const char *lw_attach_name(pid_t pid, char ***argv, struct lw_error *err);
/* Fill INFO with what can be said of process PID, which was started as ARGV. */
bool lw_attach_describe(struct lw_run_info *info, pid_t pid, char *const *argv,
                        struct lw_error *err) LW_MUST_CHECK;

/* Say how many of FAMILY were left out because they are other users'. */
void lw_attach_say_others(const struct lw_afterwards *after,
                          const struct lw_family *family);

/* A descriptor that is readable when somebody wants us to end; -1: failed. From then on
 * nothing but SIGKILL ends us. */
int lw_attach_signals(struct lw_error *err);

struct lw_attach_torch {
    const struct lw_recording_args *recording; /* where to, and how loud */
    unsigned what;                             /* LW_KINETO_* */
    uint64_t duration_ns;                      /* 0: the usual, unless `iterations` */
    uint64_t iterations;                       /* 0: by duration */
    bool no_children;
    bool all_users;
};

/* Take a window of the processes that ARGV names, and show it; the exit code. */
int lw_attach_torch(const struct lw_attach_torch *args, int argc, char **argv,
                    struct lw_error *err);

#endif
