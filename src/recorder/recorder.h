/* The recorder: follows the processes that say hello and writes the run.
 *
 * It belongs to no process it watches and can be killed at any moment: what it has
 * flushed can be read, and the programs do not notice. It has one descriptor to wait on
 * and does its work when that is readable:
 *
 *     poll(recorder.fd) -> lw_recorder_work() -> poll ... -> lw_recorder_finish()
 *
 * How `lapwing record`, started by the Python API, talks to who started it: through
 * its standard output, a pipe. First comes one line "SOCKET_PATH\tRUN_PATH\n"; then it
 * leaves the session of its starter. When the run is complete and saved, "finished\n"
 * follows, and then the end of the file. The end of the file alone means that it died.
 * To end a recording, set the region's state to LW_AGENT_FINISHED and connect to the
 * socket once (and close): that wakes the recorder, which otherwise looks at the state
 * every 50 ms. */
#ifndef LW_RECORDER_RECORDER_H
#define LW_RECORDER_RECORDER_H

#include "lap/run.h"
#include "recorder/calibration.h"
#include "recorder/follow.h"
#include "recorder/listener.h"
#include "recorder/system.h"
#include "recorder/watched.h"

struct lw_recorder_options {
    const char *path;    /* of the run's folder; NULL: a new one in .lapwing/runs */
    const char *program; /* what to name it after, if path is NULL */
    uint64_t max_bytes;  /* of its segments; 0: no limit */
    bool system;         /* with counters of what processes and machine use */
    double sample_rate;  /* of the processes' stacks, a second; 0: not at all */
    bool sample_pause;   /* stopping Python threads while they are read */
    bool sample_native;  /* machine code too, stopping one thread at a time */
    bool is_attached;    /* processes may outlive the recording */
};

/* A process that said hello when the disk was full: its region is ours, so nothing is
 * lost if room comes back before the end. */
struct lw_late_guest {
    struct lw_hello hello;
    char *text; /* of the hello; owned */
};

struct lw_recorder {
    struct lw_run run; /* `info` is the owner's to fill; then lw_run_save() */
    bool has_run;      /* it is to be closed */
    int fd;            /* readable when there is work; -1: not open */

    struct lw_listener listener;
    struct lw_calibration calibration;
    uint64_t told_jumps; /* of its counter, which the run has been told */
    int timer_fd;
    struct lw_watched **processes; /* those that live or have just died; owned */
    size_t process_count;
    size_t process_capacity;
    uint32_t last_number;       /* processes recorded so far */
    pid_t child_pid;            /* ours, of whose end we are told; 0: none */
    int child_exit_code;        /* -1: it has not ended */
    struct lw_late_guest *late; /* owned */
    size_t late_count;
    size_t late_capacity;
    pid_t asked_by; /* the process that asked for the recording (API); 0: none */
    bool is_over;   /* and it has said that the recording is over */
    uint64_t max_bytes;
    struct lw_system *system;   /* owned; NULL: not asked for */
    struct lw_sampler *sampler; /* likewise */
    double sample_rate;
    bool sample_pause;
    bool is_attached;
    bool has_more_hellos;    /* to be taken soon */
    struct lw_follow follow; /* descendants that do not say hello */

    uint64_t tick_ns; /* between looks */
    uint64_t last_look_ns;
    uint64_t budget_ns; /* for reading trees, saved up */
    size_t turn;        /* which process is looked at first */
    uint64_t next_thin_ns;
    uint64_t thinned_bytes;  /* what segments took after the last look at their size */
    bool is_over_size;       /* nothing left to thin, and still too large */
    uint64_t refused_count;  /* processes that could not be recorded */
    struct lw_error trouble; /* the last failure to write, for the end */
    uint64_t unsaved_count;  /* processes of which something could not be written */
};

void lw_recorder_init(struct lw_recorder *recorder); /* nothing open */
/* Make the run and listen. The run's folder is made, but nothing is saved yet. On
 * failure it is as after lw_recorder_init(), and the run is not there. */
bool lw_recorder_open(struct lw_recorder *recorder,
                      const struct lw_recorder_options *options, struct lw_error *err)
    LW_MUST_CHECK;
/* Without lw_recorder_finish() before it, the run stays as one whose recorder died. */
void lw_recorder_release(struct lw_recorder *recorder);
/* Release it and remove the run: the program could not be started. */
void lw_recorder_discard(struct lw_recorder *recorder);

/* Do what is due; never waits. */
void lw_recorder_work(struct lw_recorder *recorder);

/* Look again soon: rings may fill quickly. */
void lw_recorder_hurry(struct lw_recorder *recorder);

/* Our own child PID has ended with EXIT_CODE (as a shell gives it). Every other process
 * is noticed without being told. */
void lw_recorder_ended(struct lw_recorder *recorder, pid_t pid, int exit_code);

/* Take a last look at everything, close all series and save run.json as finished; the
 * caller has put in what it knows (exit code). Processes that still run are counted as
 * a loss of the run. False: something is not on disk. */
bool lw_recorder_finish(struct lw_recorder *recorder, struct lw_error *err)
    LW_MUST_CHECK;

#endif
