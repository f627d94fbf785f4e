/* The processes that a command line names by PID, and all that descend from them. */

#ifndef LW_CMD_FAMILY_H
#define LW_CMD_FAMILY_H

#include <sys/types.h>

#include "base/error.h"

struct lw_family_member {
    pid_t pid;
    bool is_asked; /* named by the person, not found */
};

struct lw_family {
    struct lw_family_member *members; /* parents before their children; owned */
    size_t count, capacity;
    bool all_users;      /* --all-users: also PID 1, and processes of other users */
    size_t others_count; /* of other users, left out when it last grew */
};

#define LW_OPT_ALL_USERS_HELP \
    "also PID 1, from which every process descends, and processes of other users"

void lw_family_release(struct lw_family *family); /* zeroed is fine */

/* Add the processes WORDS (COUNT of them) name, each once. COMMAND is for the sentence
 * about a word that is not a PID, or that names a process which `all_users` would be needed
 * for; it fails with LW_ERR_USAGE then. */
bool lw_family_add(struct lw_family *family, const char *command, char **words,
                   int count, struct lw_error *err) LW_MUST_CHECK;
/* Add the descendants that are there now and not known yet, without `all_users` only those
 * of the person who asks. */
bool lw_family_grow(struct lw_family *family, struct lw_error *err) LW_MUST_CHECK;
/* Take out member INDEX; the others keep their order. */
void lw_family_remove(struct lw_family *family, size_t index);

#endif
