/* One window of torch's profiler in one or several running processes: who is to take it,
 * how far each is, and what became of it.
 *
 *     WAITING --asks, or begins a step--> ORDERED --its trace is whole--> DONE
 *        |                                   |
 *        +-----------------------------------+--> FAILED, with a sentence
 *        +--> LEFT_OUT
 *
 * A process that `lapwing run` records has its order at once and follows it with its next
 * step (window_order.h). Of its job's processes some make no steps (launchers, a loader's
 * workers): when the others are done, they are left out. Any other process gets its order
 * when it asks. One begins as soon as it has it; several begin at one time, which lies so
 * far ahead that each asks before it. Kineto knows no order to stop: a window that was
 * ordered is taken, whatever becomes of us. */
#ifndef LW_RECORDER_KINETO_DAEMON_JOB_H
#define LW_RECORDER_KINETO_DAEMON_JOB_H

#include "recorder/kineto_daemon.h"
#include "recorder/kineto_daemon_client.h"

enum lw_kineto_state {
    LW_KINETO_WAITING, /* has not asked yet, or has a profiler of its own running */
    LW_KINETO_ORDERED, /* was told to take the window; of a recorded one: has begun it */
    LW_KINETO_DONE,    /* its trace is there and whole */
    LW_KINETO_FAILED,  /* `why` says why */
    LW_KINETO_LEFT_OUT, /* others took the window, and it made no step meanwhile */
};

struct lw_kineto_process {
    pid_t pid;
    int pid_fd;     /* readable when it has ended; -1: not open */
    uint64_t inode; /* of its socket, if it asks */
    char *recorder; /* the socket of its recorder; owned; NULL: it has none, it asks */
    uint64_t image; /* lw_facts_image() of it, to see it become another program */
    enum lw_kineto_state state;
    bool is_busy; /* when it asked last, a profiler ran in it: its own or our window */
    bool has_order;      /* and may still follow it, whatever the state */
    bool is_second;      /* its first order came to nothing */
    uint64_t since_ns;   /* in this state */
    uint64_t heard_ns;   /* when it asked last; 0: never */
    uint64_t seen_bytes; /* of its trace, at the last look */
    struct lw_kineto_folder folder;
    char *trace;         /* DONE: the name of its file in the folder; owned */
    struct lw_error why; /* FAILED */
};

struct lw_kineto_job {
    struct lw_kineto_window window;
    struct lw_kineto_daemon daemon; /* `fd` is readable when somebody asks */
    char *daemon_folder;            /* where all who ask look for it; owned */
    struct lw_theirs daemon_user;   /* of the first that asks */
    size_t asking_count;            /* of the processes; the others are recorded */
    struct lw_kineto_process *processes;
    size_t count, capacity;
    uint64_t began_ns;
    uint64_t start_ns; /* of a common window, on CLOCK_MONOTONIC; 0: each has its own */

    uint64_t ask_ns; /* Kineto asks this often, unless its own settings say otherwise */
    uint64_t tick_ns;    /* and looks this often whether it is time to begin */
    uint64_t silence_ns; /* whoever asks does it within this time */
    uint64_t busy_ns;    /* and has no profiler of its own for longer than this */
    uint64_t step_ns;    /* and makes a step of an optimizer within this */
    uint64_t late_ns;    /* a recorded one begins within this when another is done */
    bool is_for_one;     /* of the recorded, the first that begins is enough */

    /* What a person wants to know meanwhile; NULL: nobody listens. */
    void (*say)(void *to, const char *text);
    void *say_to;
};

void lw_kineto_job_init(struct lw_kineto_job *job);
/* Folders of orders that may still be followed are left. */
void lw_kineto_job_release(struct lw_kineto_job *job);

/* Add process PID, if it has torch and is recorded by `lapwing run`, or its torch asks
 * somebody; *ADDED says whether. One that only inherited the socket of another, added
 * before, does not ask. */
bool lw_kineto_job_add(struct lw_kineto_job *job, pid_t pid, bool *added,
                       struct lw_error *err) LW_MUST_CHECK;

/* Become their daemon. `window` is set; its start is chosen here. */
bool lw_kineto_job_open(struct lw_kineto_job *job, struct lw_error *err) LW_MUST_CHECK;

/* Answer who asks, and see how far everybody is; to be called whenever the daemon's fd is
 * readable, and ten times a second. False: all are done or failed. */
bool lw_kineto_job_work(struct lw_kineto_job *job);

/* May process INDEX still follow its order? Then its trace will be in the folder. */
bool lw_kineto_job_is_ordered(const struct lw_kineto_job *job, size_t index);

/* ---- among the files of it ---------------------------------------------------------- */

LW_PRINTF(2, 3)
void lw_kineto_job_say(const struct lw_kineto_job *job, const char *format, ...);
void lw_kineto_process_enter(struct lw_kineto_process *process,
                             enum lw_kineto_state state);
/* It has failed: "process 4711 ", and then why. */
LW_PRINTF(2, 3)
void lw_kineto_process_give_up(struct lw_kineto_process *process, const char *format,
                               ...);
bool lw_kineto_process_has_ended(const struct lw_kineto_process *process);
/* Look for its trace: if that is whole, it is done. *IS_BEGUN: there is at least a part. */
bool lw_kineto_process_find_trace(struct lw_kineto_process *process, bool *is_begun);

/* See how far PROCESS is, which is recorded and not done (kineto_daemon_recorded.c). */
void lw_kineto_recorded_look(struct lw_kineto_job *job,
                             struct lw_kineto_process *process, uint64_t now_ns);

#endif
