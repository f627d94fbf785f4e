/* Descendants of the programs we record: found by looking, for those that do not say
 * hello (a Python that keeps the agent out, one that is too old for it, any process that
 * was attached to). */
#ifndef LW_RECORDER_FOLLOW_H
#define LW_RECORDER_FOLLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct lw_recorder;

struct lw_followed {
    pid_t pid;
    uint64_t image;    /* lw_facts_image() when it was last tried; 0: never */
    uint64_t since_ns; /* when first seen, or seen to be another program */
    uint64_t next_ns;  /* when to try again */
    bool is_explained; /* it is said why it has no agent */
};

struct lw_follow {
    struct lw_followed *list; /* owned; the first are those asked for */
    size_t count, capacity;
    bool no_children; /* only those asked for */
    bool only_ours;   /* no children of other users (lw_os_is_ours()) */
    bool is_eager;    /* nobody will say hello: do not wait for it */
    char *folder;     /* of the agent that they should have; owned; NULL: none */
    uint64_t next_ns; /* when to look for children */
    uint64_t next_all_ns;
};

void lw_follow_release(struct lw_follow *follow); /* zeroed is fine */

/* Record PID and what it starts. */
bool lw_follow_add(struct lw_follow *follow, pid_t pid, struct lw_error *err)
    LW_MUST_CHECK;

/* Look for new descendants, and adopt those that are Python and have not said hello; where
 * nothing is sampled, say that they are missing. If it can be seen why they did not, that
 * is said too. */
void lw_follow_look(struct lw_recorder *recorder, uint64_t now_ns);

#endif
