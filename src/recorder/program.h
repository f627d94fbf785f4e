/* The program that `lapwing run` starts, with everything as it would be without us.
 *
 * It keeps our standard streams, process group, signal mask and dispositions. What the
 * kernel sends to the group (Ctrl-C, Ctrl-Z, a hangup) reaches it by itself; what
 * somebody sends to us alone is passed on. When it stops at the terminal we stop too, so
 * that the shell sees it; when we are continued, so is it. */
#ifndef LW_RECORDER_PROGRAM_H
#define LW_RECORDER_PROGRAM_H

#include <signal.h>
#include <sys/types.h>

#include "base/error.h"

struct lw_program {
    pid_t pid;         /* 0: not started, or ended and waited for */
    int signal_fd;     /* readable when lw_program_signals() has work; -1: none */
    sigset_t no_kill;  /* signals that must not kill us, and that the program shall have
                         as they were; see lw_program_init() */
    sigset_t old_mask; /* ours before */
    int stop_signal;   /* the last request to stop that we got ourselves; 0: none */
    bool is_stopped;   /* the program is */
    bool has_ended;
    int wait_status;  /* as waitpid() gives it, once it has ended */
    int failure_code; /* after a failed start: 126 or 127, as env gives them */
};

/* From here on signals wait for lw_program_signals(), and neither a pipe that nobody
 * reads nor a file that may not grow kills us. Call before threads are made. */
bool lw_program_init(struct lw_program *program, struct lw_error *err) LW_MUST_CHECK;
/* Signals act on us again as they did. The program, if it runs, runs on. */
void lw_program_release(struct lw_program *program);

/* Start ARGV (up to NULL), found on PATH if it has no slash, with ENVIRONMENT. A file
 * without a format the kernel knows is given to /bin/sh, as execvp() does. */
bool lw_program_start(struct lw_program *program, char *const *argv,
                      char *const *environment, struct lw_error *err) LW_MUST_CHECK;

/* Deal with the signals that have come; never waits. */
void lw_program_signals(struct lw_program *program);

/* Its exit code as a shell gives it: 128 + the signal that killed it. */
int lw_program_exit_code(const struct lw_program *program);
/* Die of the signal that killed the program, leaving no core. Returns if it was not
 * killed, or the signal does not kill us. */
void lw_program_die_alike(const struct lw_program *program);

/* The file that NAME means: itself if it has a slash, else the first on $PATH that may
 * be run. Caller frees. NULL: none, *ERR says so. */
char *lw_program_find(const char *name, struct lw_error *err);

#endif
