/* The program that `lapwing run` starts, with everything as it would be without us.
 *
 * It keeps our standard streams, process group, signal mask and dispositions. Each signal
 * that we get is dealt with by its origin:
 *
 *     the kernel (Ctrl-C, Ctrl-Z, a hangup)   nothing: it went to the whole group
 *     a process, to the group or the job      nothing: the program has got its own
 *     a process, to us alone                  passed on to the program
 *     the program, to its parent              passed on to our parent, who would be its own
 *
 * The second and the third look alike (recorder/witness.h tells them apart), so a signal
 * is held for LW_PROGRAM_HOLD_NS: those who send to every process of a job one by one
 * (timeout, scancel) are still at it when we get ours. When the program stops at the
 * terminal we stop too, so that the shell sees it; when we are continued, so is it. */
#ifndef LW_RECORDER_PROGRAM_H
#define LW_RECORDER_PROGRAM_H

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "recorder/witness.h"

#define LW_PROGRAM_HOLD_NS 10000000ull
#define LW_PROGRAM_HELD_MOST 64

/* A signal that a process sent: to us, or to the witness. */
struct lw_held_signal {
    struct lw_sighting what;
    uint64_t at_ns;
};

struct lw_program {
    pid_t pid;     /* 0: not started, or ended and waited for */
    int fd;        /* readable when lw_program_signals() has work; -1: none */
    int signal_fd; /* the parts of it */
    int timer_fd;
    struct lw_witness witness;
    struct lw_held_signal held[LW_PROGRAM_HELD_MOST]; /* ours, in the order they came */
    size_t held_count;
    struct lw_held_signal seen[LW_PROGRAM_HELD_MOST]; /* the witness's, the last ones */
    size_t seen_count;                                /* ever */
    sigset_t early;    /* signals that came before there was a program */
    sigset_t no_kill;  /* signals that must not kill us, and that the program shall have
                         as they were; see lw_program_init() */
    sigset_t old_mask; /* ours before */
    struct rlimit files; /* likewise: how many descriptors the program may have */
    int stop_signal;     /* the last request to stop that we got ourselves; 0: none */
    bool is_stopped;     /* the program is */
    bool has_ended;
    bool is_replacing; /* lw_program_replace_us() is at work */
    bool cannot_fork;  /* why the start failed: no further process is allowed */
    int wait_status;   /* as waitpid() gives it, once it has ended */
    int failure_code;  /* after a failed start: 126 or 127, as env gives them */
};

/* From here on signals wait for lw_program_signals(), and neither a pipe that nobody
 * reads nor a file that may not grow kills us. The program will have the signals and the
 * limits that are ours now. Call before threads are made. */
bool lw_program_init(struct lw_program *program, struct lw_error *err) LW_MUST_CHECK;
/* Signals act on us again as they did. The program, if it runs, runs on. */
void lw_program_release(struct lw_program *program);

/* Start ARGV (up to NULL), found on PATH if it has no slash, with ENVIRONMENT. A file
 * without a format the kernel knows is given to /bin/sh, as execvp() does. */
bool lw_program_start(struct lw_program *program, char *const *argv,
                      char *const *environment, struct lw_error *err) LW_MUST_CHECK;

/* Become the program: where it cannot be recorded, it runs as if we had never been there.
 * Returns only if that failed, with *ERR and `failure_code`. */
void lw_program_replace_us(struct lw_program *program, char *const *argv,
                           char *const *environment, struct lw_error *err);

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
