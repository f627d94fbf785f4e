/* A process whose torch asks a daemon for orders (recorder/kineto_daemon.h), and the
 * window that it is to take.
 *
 * Whether a process asks is seen from outside: it holds a socket of a certain name, which
 * also says where it looks for its daemon. What it was started with is no such sign: a
 * program may set the variable itself before it imports torch. */
#ifndef LW_RECORDER_KINETO_DAEMON_CLIENT_H
#define LW_RECORDER_KINETO_DAEMON_CLIENT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "recorder/theirs.h"

struct lw_kineto_client {
    uint64_t inode; /* of its socket; what it forks holds it too. 0: it does not ask */
    char *folder; /* where its daemon has to be; NULL: it has an abstract name; owned */
};

/* How process PID asks. One that does not is no failure; one that cannot be seen is. */
bool lw_kineto_client_find(pid_t pid, struct lw_kineto_client *client,
                           struct lw_error *err) LW_MUST_CHECK;
void lw_kineto_client_release(struct lw_kineto_client *client); /* zeroed is fine */

/* Can the daemon of CLIENT, which is of process PID, be run where we are? If not, the
 * sentence says where. */
bool lw_kineto_client_is_near(pid_t pid, const struct lw_kineto_client *client,
                              struct lw_error *err) LW_MUST_CHECK;

/* Is PATH, as process PID sees it, the same file as ours of that name? */
bool lw_kineto_client_sees(pid_t pid, const char *path);
/* Does process PID have torch in it? */
bool lw_kineto_client_has_torch(pid_t pid);

/* Would process PID crash if it recorded stacks? Up to torch 2.6 its profiler reads a
 * module's frame as Pythons before 3.13 had it. False also where nothing is known. */
bool lw_kineto_client_crashes_with_stacks(pid_t pid);

/* Why process PID does not ask, and what to type; always false. */
bool lw_kineto_client_explain(pid_t pid, struct lw_error *err);

/* A folder that process PID can write and nobody else can enter, for its trace. It is its
 * user's, who may put anything there: what is in it is found below its descriptor. */
struct lw_kineto_folder {
    struct lw_folder place;  /* that it lies in */
    struct lw_folder folder; /* called as the process does */
    struct lw_theirs theirs; /* the user of the process */
};
bool lw_kineto_folder_make(pid_t pid, struct lw_kineto_folder *folder,
                           struct lw_error *err) LW_MUST_CHECK;
/* What the process has left there as NAME: as lw_folder_read(), with LIMIT 0 as
 * lw_folder_map(). */
bool lw_kineto_folder_read(const struct lw_kineto_folder *folder, const char *name,
                           size_t limit, struct lw_file_view *view,
                           struct lw_error *err) LW_MUST_CHECK;
void lw_kineto_folder_remove(struct lw_kineto_folder *folder);  /* with what is in it */
void lw_kineto_folder_release(struct lw_kineto_folder *folder); /* it stays */

/* What a window holds besides the names and times of ops. */
#define LW_KINETO_SHAPES 1u
#define LW_KINETO_MEMORY 2u
#define LW_KINETO_STACK 4u
#define LW_KINETO_FLOPS 8u
#define LW_KINETO_MODULES 16u

struct lw_kineto_window {
    unsigned what;        /* LW_KINETO_* */
    uint64_t duration_ms; /* if `iterations` is 0 */
    uint64_t iterations;  /* this many, from the end of an optimizer's step on */
    uint64_t warmup_s;    /* before the window; for devices */
    uint64_t start_ms; /* since 1970; 0: two seconds and the warm-up after the order */
};

/* Append the order to take WINDOW and write it to FILE, which Kineto puts "_PID" into, at
 * first with ".tmp" behind. */
void lw_kineto_window_add_order(struct lw_buf *out,
                                const struct lw_kineto_window *window,
                                const char *file);

#endif
