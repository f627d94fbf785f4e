/* What is known of a run and its processes besides what they did: command lines,
 * parameters, places, ranks. */
#ifndef LW_RECORDER_FACTS_H
#define LW_RECORDER_FACTS_H

#include <sys/types.h>

#include "base/buf.h"
#include "lap/run.h"

/* The command line ARGV (up to NULL) for a person: "train.py --epochs 3", without the
 * interpreter and its folder, words with spaces in quotes. */
void lw_facts_add_command(struct lw_buf *out, char *const *argv);

/* Fill INFO with what can be said before the program starts: command, arguments,
 * parameters (--lr 3, --lr=3, lr=3), folder, host, rank, and the time. */
bool lw_facts_describe(struct lw_run_info *info, char *const *argv,
                       struct lw_error *err) LW_MUST_CHECK;

/* The command line of process PID, up to NULL, in one piece of memory; caller frees.
 * Empty if it is gone or not to be seen. NULL only for lack of memory. */
char **lw_facts_command_line(pid_t pid, struct lw_error *err);

/* Append the command line of PID for a person; nothing if it cannot be seen. */
bool lw_facts_add_command_of(struct lw_buf *out, pid_t pid, struct lw_error *err)
    LW_MUST_CHECK;

/* The values of NAMES (up to a NULL), as lw_facts_variable() has them, all at one moment.
 * False: its environment could not be read, or not all of it: then nothing follows from
 * what is missing. The caller frees VALUES either way. */
bool lw_facts_sees_variables(pid_t pid, const char *const *names, char **values);

/* The value of NAME in the environment that process PID was started with, which the
 * caller frees, in *VALUE; NULL there: it had none, or it is not to be seen. What a program
 * sets itself is not in it. Fails only for lack of memory. */
bool lw_facts_variable(pid_t pid, const char *name, char **value, struct lw_error *err)
    LW_MUST_CHECK;

/* The rank of process PID in a distributed job, from the environment it was started
 * with (RANK, as torchrun sets it, or its cousins); -1: none, or not to be seen. */
int64_t lw_facts_rank(pid_t pid);

/* A number that stays the same until process PID replaces itself (exec); 0: it is gone,
 * or not to be seen. Where its stack begins, in fact, which the kernel picks anew. */
uint64_t lw_facts_image(pid_t pid);

/* The exit code, as a shell gives it, of the process behind PID_FD, which need not be a
 * child of ours; -1: not known (yet: its parent has not waited for it), or the kernel is
 * older than 6.15. */
int lw_facts_exit_code(int pid_fd);

/* What a hello's text says (agent/layout.h): strings one behind the other. */
struct lw_hello_text {
    const char *executable; /* "" if it was cut off */
    const char *python;     /* version */
    struct lw_buf command;  /* as lw_facts_add_command() makes it */
};
/* TEXT stays borrowed. Release `command` in every case. */
bool lw_facts_read_hello(struct lw_hello_text *hello, const char *text, size_t len,
                         struct lw_error *err) LW_MUST_CHECK;

#endif
