/* Tells a signal sent to us alone from one sent to everybody around us.
 *
 * `kill PID`, meant for the program, reaches only `lapwing run`, which passes it on. But
 * `kill -- -PGID`, timeout(1), scancel and a job's cgroup send to a whole group, and the
 * program gets its own copy: passing ours on would deliver it twice. Neither the signal's
 * siginfo nor the program itself says which it was (the sender and the code are the same,
 * and a delivered signal leaves no trace in /proc). So a small process of ours, the
 * witness, lives in the same process group and cgroup. It blocks every signal and reports
 * each one that it gets: what reached the witness too was not meant for us alone.
 *
 * It is called "signal-witness", so that `pkill lapwing` does not find it. It holds no
 * descriptor of ours but its two, and dies with us. */
#ifndef LW_RECORDER_WITNESS_H
#define LW_RECORDER_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct lw_witness {
    pid_t pid; /* 0: there is none */
    int fd;    /* readable when it has a report; -1: there is none */
};

struct lw_sighting {
    int signal;
    pid_t sender; /* 0: in a PID namespace that we cannot see */
};

/* Start one that watches for SIGNALS, which the caller has blocked. Where there can be no
 * further process, `pid` is 0. */
void lw_witness_start(struct lw_witness *witness, const sigset_t *signals);
void lw_witness_stop(struct lw_witness *witness); /* zeroed with fd -1 is fine */

/* The next signal that it has reported; never waits. When the witness turns out to be
 * dead, it is stopped. */
bool lw_witness_read(struct lw_witness *witness, struct lw_sighting *sighting);

/* Whether the witness could still report SIGNAL, as the kernel has it. */
enum lw_witness_word {
    LW_WITNESS_SAW_NOTHING, /* it sleeps, and SIGNAL does not wait for it */
    LW_WITNESS_HAS_IT,      /* SIGNAL waits for it: it was sent to both of us */
    LW_WITNESS_IS_BUSY,     /* it runs, or waits for a processor: ask again */
};
enum lw_witness_word lw_witness_ask(const struct lw_witness *witness, int signal);

#endif
