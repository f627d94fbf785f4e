/* Users of processes, and folders as these see them. */

#include "recorder/theirs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sampler/os.h"

bool lw_theirs_of(pid_t pid, struct lw_theirs *theirs, struct lw_error *err)
{
    struct lw_os_owner owner;

    if (!lw_os_owner(pid, &owner, err))
        return false;
    *theirs = (struct lw_theirs){ owner.uid, owner.gid };
    return (owner.uid == owner.acting_uid && owner.gid == owner.acting_gid) ||
           lw_fail(err, LW_ERR_UNSUPPORTED,
                   "process %d acts as user %u, but user %u started it: it takes no "
                   "orders",
                   (int)pid, (unsigned)owner.acting_uid, (unsigned)owner.uid);
}

bool lw_theirs_begin(struct lw_trust_acting *acting, const struct lw_theirs *theirs,
                     struct lw_error *err)
{
    /* Who is not root gets no further than the kernel lets them, whosever it is. */
    if (geteuid() != 0) {
        acting->group_count = -1;
        return true;
    }
    return lw_trust_act_as(acting, theirs->uid, theirs->gid, err);
}

/* Is process PID's root ours? */
static bool is_our_root(int root)
{
    struct stat ours, there;

    return stat("/", &ours) == 0 && fstat(root, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* PATH below ROOT, as if ROOT were all there is: links in it lead no further. */
static int open_in_root(int root, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

    /* Before Linux 5.6, and where seccomp knows no such call: only outside containers. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM) && is_our_root(root))
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd;
}

bool lw_theirs_open(struct lw_folder *folder, pid_t pid, const struct lw_theirs *theirs,
                    const char *path, struct lw_error *err)
{
    struct lw_trust_acting acting;
    char link[32];
    int root, fd;

    *folder = LW_FOLDER_CLOSED;
    snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
    root = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return lw_fail_errno(err, "process %d: cannot look into its files", (int)pid);
    if (!lw_theirs_begin(&acting, theirs, err)) {
        close(root);
        return false;
    }
    fd = open_in_root(root, path);
    if (fd < 0)
        lw_fail_errno(err, "process %d: cannot open its folder %s", (int)pid, path);
    lw_trust_act_end(&acting);
    close(root);
    if (fd < 0)
        return false;
    folder->path = lw_copy_text(path, strlen(path), err);
    if (!folder->path) {
        close(fd);
        return false;
    }
    folder->fd = fd;
    return true;
}
