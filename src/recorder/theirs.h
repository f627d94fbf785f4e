/* Files of another process's user, for a person who may be root.
 *
 * What a process says of itself (its environment, the names of its sockets) its user chose,
 * and a path among it may lead anywhere by the time it is opened. So everything that such a
 * path names is opened, made and removed with that user's rights, below descriptors, and in
 * a container below the container's own root: root gets no further than its user would. */
#ifndef LW_RECORDER_THEIRS_H
#define LW_RECORDER_THEIRS_H

#include "base/folder.h"
#include "base/trust.h"

struct lw_theirs {
    uid_t uid;
    gid_t gid;
};

/* Whose process PID is. Refused: one that acts as another user than the one who started it,
 * since both could have chosen what it says. */
bool lw_theirs_of(pid_t pid, struct lw_theirs *theirs, struct lw_error *err)
    LW_MUST_CHECK;

/* From now on, till lw_trust_act_end(), files are opened as they would do it. */
bool lw_theirs_begin(struct lw_trust_acting *acting, const struct lw_theirs *theirs,
                     struct lw_error *err) LW_MUST_CHECK;

/* The folder PATH as process PID sees it, with THEIRS rights. */
bool lw_theirs_open(struct lw_folder *folder, pid_t pid, const struct lw_theirs *theirs,
                    const char *path, struct lw_error *err) LW_MUST_CHECK;

#endif
