/* A thread as its kernel schedules it: whether it runs, and whether it has run at all
 * since it was last looked at. One that has not is where it was, so nothing of it has to
 * be read again: most threads of a program sleep most of the time.
 *
 *     lw_rest_begin()     the stack is the one that was read last: done
 *     ... read it ...
 *     lw_rest_state()     how it is now; remembered for the next lw_rest_begin() */
#ifndef LW_SAMPLER_REST_H
#define LW_SAMPLER_REST_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct lw_rest {
    pid_t pid, tid;      /* 0: of nobody yet */
    int state_fd;        /* -1: gone, not to be seen, or opened again each time */
    int runs_fd;         /* likewise, or a kernel that does not count */
    bool is_reopened;    /* there are too few descriptors to keep these two open */
    uint64_t runs;       /* how often it had run when it was seen asleep */
    bool is_asleep;      /* it was, at the last lw_rest_state() */
    bool is_read_asleep; /* and has been since before its stack was read */
};

void lw_rest_init(struct lw_rest *rest); /* of nobody yet */
void lw_rest_open(struct lw_rest *rest, pid_t pid, pid_t tid);
void lw_rest_close(struct lw_rest *rest);

/* Has it slept on since a stack of it was read while it slept? */
bool lw_rest_begin(struct lw_rest *rest);
/* How often it has run so far; false: not known. */
bool lw_rest_runs(const struct lw_rest *rest, uint64_t *runs);
/* 'R' on (or waiting for) a processor, 'S', 'D', 'T' ...; 0: not known. */
char lw_rest_state(struct lw_rest *rest);

#endif
