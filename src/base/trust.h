/* Whom we believe: ourselves and root, nobody else.
 *
 * Sockets and folders in places where everybody may write (/tmp) can be made by any user
 * of the machine. Before a byte goes to a peer, or a name in a folder is believed, one of
 * these says whether it is our own user's or root's. The agent has the same rule in
 * agent/handover.c: it is linked without this folder. */
#ifndef LW_BASE_TRUST_H
#define LW_BASE_TRUST_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"

/* Is UID ours or root's? */
bool lw_trust_uid(uid_t uid);

/* Is the process at the other end of SOCKET, a connected Unix socket, UID's or root's?
 * *PID is its number, 0 where its namespace hides it; NULL is fine. */
bool lw_trust_peer(int socket, uid_t uid, pid_t *pid);

/* Does what ABOUT describes belong to UID or root, and may no other user write to it? */
bool lw_trust_is_private_to(const struct stat *about, uid_t uid);

/* May the link PATH, which ABOUT describes, be followed? A link that somebody else left in
 * a folder like /tmp may lead anywhere: the rule is the kernel's own
 * (fs.protected_symlinks), which is not switched on everywhere. */
bool lw_trust_link(const char *path, const struct stat *about);

/* Open PATH, which a recording from anywhere names, to show lines of it: only a regular
 * file of source code by its name (also behind a link), and one that the person who runs
 * us may read without rights that only this program has. -1: it is not such a file. */
int lw_trust_open_source(const char *path, struct stat *about);

/* Act on files as user UID with group GID does, in this thread, until lw_trust_act_end():
 * a path that this user chose then leads nowhere they could not go themselves, and what is
 * made is theirs. Only root can; for UID ourselves nothing changes. */
struct lw_trust_acting {
    uid_t uid; /* to go back to */
    gid_t gid;
    gid_t groups[64];
    int group_count; /* -1: nothing was changed */
};
bool lw_trust_act_as(struct lw_trust_acting *acting, uid_t uid, gid_t gid,
                     struct lw_error *err) LW_MUST_CHECK;
void lw_trust_act_end(struct lw_trust_acting *acting);

#endif
