/* Which commit of the program's source is running, and whether files differ from it.
 *
 * Asked of `git` in the background while the program runs, so that a large repository
 * or a slow disk delays nothing. No git, no repository, no answer in time: not known. */
#ifndef LW_RECORDER_COMMIT_H
#define LW_RECORDER_COMMIT_H

#include <sys/types.h>

#include "base/buf.h"

struct lw_commit {
    pid_t pid;         /* of git; 0: it does not run */
    int fd;            /* what it says, to poll for reading; -1: nothing to come */
    struct lw_buf out; /* said so far */
    bool is_known;     /* the answer is complete and good */
    char id[65];       /* hexadecimal, SHA-1 or SHA-256 */
    bool is_dirty;     /* files that git follows were changed */
};

void lw_commit_ask(struct lw_commit *commit); /* of the current folder */
/* Read what is there; true when all is said and the fields above are set. */
bool lw_commit_read(struct lw_commit *commit);
/* Wait until DEADLINE_NS (CLOCK_MONOTONIC) at most for the rest. */
void lw_commit_wait(struct lw_commit *commit, uint64_t deadline_ns);
void lw_commit_release(struct lw_commit *commit); /* ends git if it still runs */

#endif
