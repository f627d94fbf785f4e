/* Owners, peers, and acting as another user. */

#include "base/trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

bool lw_trust_uid(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

bool lw_trust_peer(int socket, uid_t uid, pid_t *pid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
        len != sizeof(peer) || (peer.uid != uid && peer.uid != 0))
        return false;
    if (pid)
        *pid = peer.pid;
    return true;
}

bool lw_trust_is_private_to(const struct stat *about, uid_t uid)
{
    return (about->st_uid == uid || about->st_uid == 0) &&
           !(about->st_mode & (S_IWGRP | S_IWOTH));
}

bool lw_trust_link(const char *path, const struct stat *about)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX] = ".";
    size_t len = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    struct stat folder;

    if (lw_trust_uid(about->st_uid))
        return true;
    if (len >= sizeof(parent))
        return false;
    if (len > 0) {
        memcpy(parent, path, len);
        parent[len] = '\0';
    }
    if (stat(parent, &folder) != 0)
        return false;
    return !(folder.st_mode & S_ISVTX) || !(folder.st_mode & S_IWOTH) ||
           folder.st_uid == about->st_uid;
}

/* Languages that a stack may have frames of. */
static bool is_source_name(const char *path)
{
    static const char *const suffixes[] = {
        ".py",  ".pyi", ".pyx", ".pxd", ".pxi", ".c",   ".h",    ".cc", ".cpp", ".cxx",
        ".hh",  ".hpp", ".hxx", ".inl", ".inc", ".cu",  ".cuh",  ".rs", ".go",  ".f",
        ".f90", ".s",   ".S",   ".asm", ".m",   ".mm",  ".jl",   ".js", ".ts",  ".lua",
        ".nim", ".zig", ".d",   ".pl",  ".rb",  ".php", ".java",
    };

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (lw_text_ends(path, suffixes[i]))
            return true;
    return false;
}

int lw_trust_open_source(const char *path, struct stat *about)
{
    char link[32], target[PATH_MAX];
    ssize_t len;
    int fd;

    if (!is_source_name(path) || stat(path, about) != 0 || !S_ISREG(about->st_mode))
        return -1;
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, target, sizeof(target) - 1);
    target[len > 0 ? len : 0] = '\0';
    /* access() asks for the real user, without what the program was given more. */
    if (fstat(fd, about) == 0 && S_ISREG(about->st_mode) && is_source_name(target) &&
        access(link, R_OK) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The raw calls are of this thread; libc's would change all threads. Leaving user 0 takes
 * the capabilities that override permissions away, too (capabilities(7)). */
bool lw_trust_act_as(struct lw_trust_acting *acting, uid_t uid, gid_t gid,
                     struct lw_error *err)
{
    acting->group_count = -1;
    acting->uid = geteuid();
    acting->gid = getegid();
    if (uid == acting->uid)
        return true;
    if (acting->uid != 0)
        return lw_fail(err, LW_ERR_IO, "only root can act as user %u", (unsigned)uid);
    acting->group_count = getgroups(
        (int)(sizeof(acting->groups) / sizeof(acting->groups[0])), acting->groups);
    if (acting->group_count < 0)
        return lw_fail_errno(err, "cannot act as user %u", (unsigned)uid);
    if (syscall(SYS_setgroups, 0, NULL) != 0) {
        acting->group_count = -1;
        return lw_fail_errno(err, "cannot act as user %u", (unsigned)uid);
    }
    setfsgid(gid);
    setfsuid(uid);
    /* They say what was before, whatever became of it: ask again. */
    if ((gid_t)setfsgid((gid_t)-1) == gid && (uid_t)setfsuid((uid_t)-1) == uid)
        return true;
    lw_trust_act_end(acting);
    return lw_fail(err, LW_ERR_IO, "cannot act as user %u", (unsigned)uid);
}

void lw_trust_act_end(struct lw_trust_acting *acting)
{
    if (acting->group_count < 0)
        return;
    setfsuid(acting->uid);
    setfsgid(acting->gid);
    if (syscall(SYS_setgroups, (size_t)acting->group_count, acting->groups) != 0) {
        /* Fewer groups than before are less, not more, that we may do. */
    }
    acting->group_count = -1;
}
