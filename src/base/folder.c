/* Everything by openat() and its like, one name at a time, links refused. */

#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* *FOLDER holds FD, called PARENT/NAME (PARENT NULL: NAME). It closes FD if it fails. */
static bool hold(struct lw_folder *folder, int fd, const char *parent, const char *name,
                 struct lw_error *err)
{
    *folder = LW_FOLDER_CLOSED;
    if (fd < 0)
        return lw_fail_errno(err, "cannot open the folder %s%s%s", parent ? parent : "",
                             parent ? "/" : "", name);
    folder->path = parent ? lw_path_join(parent, name, err)
                          : lw_copy_text(name, strlen(name), err);
    if (!folder->path) {
        close(fd);
        return false;
    }
    folder->fd = fd;
    return true;
}

bool lw_folder_open(struct lw_folder *folder, const char *path, struct lw_error *err)
{
    return hold(folder, open(path, FOLDER_FLAGS), NULL, path, err);
}

bool lw_folder_open_in(struct lw_folder *folder, const struct lw_folder *parent,
                       const char *name, struct lw_error *err)
{
    return hold(folder, openat(parent->fd, name, FOLDER_FLAGS | O_NOFOLLOW),
                parent->path, name, err);
}

void lw_folder_close(struct lw_folder *folder)
{
    if (folder->path) /* zeroed is closed, too, and 0 a descriptor */
        close(folder->fd);
    lw_free(folder->path);
    *folder = LW_FOLDER_CLOSED;
}

bool lw_folder_identity(const struct lw_folder *folder, char *text,
                        struct lw_error *err)
{
    struct stat about;

    if (fstat(folder->fd, &about) != 0)
        return lw_fail_errno(err, "cannot look at the folder %s", folder->path);
    snprintf(text, LW_FOLDER_IDENTITY_BYTES, "%llu:%llu",
             (unsigned long long)about.st_dev, (unsigned long long)about.st_ino);
    return true;
}

DIR *lw_folder_list(const struct lw_folder *folder)
{
    int fd = openat(folder->fd, ".", FOLDER_FLAGS); /* with a place of its own */
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !entries)
        close(fd);
    return entries;
}

/* ---- files -------------------------------------------------------------------------- */

/* The folder that the last part of NAME lies in; *LAST is that part. -1: errno says why.
 * The caller closes it if it is not FOLDER. */
static int descend(int folder, const char *name, const char **last)
{
    int at = folder;

    for (;;) {
        size_t len = strcspn(name, "/");
        char part[NAME_MAX + 1];
        int next;

        if (len == 0 || len > NAME_MAX || (len == 2 && memcmp(name, "..", 2) == 0)) {
            errno = EINVAL;
            next = -1;
        } else if (name[len] == '\0') {
            *last = name;
            return at;
        } else {
            memcpy(part, name, len);
            part[len] = '\0';
            next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        if (at != folder)
            close(at);
        if (next < 0)
            return -1;
        at = next;
        name += len + 1;
    }
}

static const char *kind_of(mode_t mode)
{
    if (S_ISLNK(mode))
        return "a link";
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a pipe";
    return S_ISSOCK(mode) ? "a socket" : "a device";
}

/* O_NONBLOCK: opening a pipe would wait for a writer. A device may do things when it is
 * opened, so what it is is asked first. */
static int find(int folder, const char *name, struct stat *about, const char **kind)
{
    int fd;

    *kind = NULL;
    if (fstatat(folder, name, about, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    if (!S_ISREG(about->st_mode)) {
        *kind = kind_of(about->st_mode);
        return -1;
    }
    fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, about) != 0 || !S_ISREG(about->st_mode))) {
        *kind = kind_of(about->st_mode);
        close(fd);
        fd = -1;
    }
    return fd;
}

int lw_folder_find(const struct lw_folder *folder, const char *name, struct stat *about,
                   struct lw_error *err)
{
    const char *last = NULL, *kind = NULL;
    int at = descend(folder->fd, name, &last), fd = -1;

    if (at >= 0)
        fd = find(at, last, about, &kind);
    if (kind)
        lw_fail(err, LW_ERR_IO, "%s/%s is %s, not a file", folder->path, name, kind);
    else if (fd < 0)
        lw_fail_errno(err, "cannot open %s/%s", folder->path, name);
    if (at >= 0 && at != folder->fd)
        close(at);
    return fd;
}

static bool view_file(struct lw_file_view *view, const struct lw_folder *folder,
                      const char *name, bool is_mapped, size_t limit,
                      struct lw_error *err)
{
    struct stat about;
    int fd = lw_folder_find(folder, name, &about, err);
    char *path = fd < 0 ? NULL : lw_path_join(folder->path, name, err);
    bool done = false;

    memset(view, 0, sizeof(*view));
    if (path)
        done = is_mapped ? lw_file_map_fd(view, fd, &about, path, err)
                         : lw_file_read_fd(view, fd, &about, path, limit, err);
    if (fd >= 0)
        close(fd);
    lw_free(path);
    return done;
}

bool lw_folder_read(struct lw_file_view *view, const struct lw_folder *folder,
                    const char *name, size_t limit, struct lw_error *err)
{
    return view_file(view, folder, name, false, limit, err);
}

bool lw_folder_map(struct lw_file_view *view, const struct lw_folder *folder,
                   const char *name, struct lw_error *err)
{
    return view_file(view, folder, name, true, 0, err);
}

bool lw_folder_replace(const struct lw_folder *folder, const char *name,
                       const void *bytes, size_t len, struct lw_error *err)
{
    char *path;
    struct lw_file_out out;
    bool done;

    lw_assert(!strchr(name, '/')); /* the way there might be a link */
    path = lw_path_join(folder->path, name, err);
    done = path && lw_file_out_open_in(&out, folder->fd, name, path, err) &&
           lw_file_out_write(&out, bytes, len, err) && lw_file_out_end(&out, err);

    lw_free(path);
    return done;
}

/* ---- folders in it ------------------------------------------------------------------ */

bool lw_folder_make_in(struct lw_folder *folder, const struct lw_folder *parent,
                       const char *name, struct lw_error *err)
{
    *folder = LW_FOLDER_CLOSED;
    if (mkdirat(parent->fd, name, 0700) != 0 && errno != EEXIST)
        return lw_fail_errno(err, "cannot make the folder %s/%s", parent->path, name);
    return lw_folder_open_in(folder, parent, name, err);
}

bool lw_folder_make_unique_in(struct lw_folder *folder, const struct lw_folder *parent,
                              const char *prefix, struct lw_error *err)
{
    char name[NAME_MAX + 1];
    size_t len = strlen(prefix);
    int made = -1;

    *folder = LW_FOLDER_CLOSED;
    if (len + LW_FILE_UNIQUE_LETTERS >= sizeof(name))
        return lw_fail(err, LW_ERR_LIMIT, "%s: the name is too long", prefix);
    memcpy(name, prefix, len);
    name[len + LW_FILE_UNIQUE_LETTERS] = '\0';
    for (int tries = 0; made != 0 && tries < 1000; tries++) {
        if (!lw_file_choose_letters(name + len))
            break;
        made = mkdirat(parent->fd, name, 0700);
        if (made != 0 && errno != EEXIST)
            break;
    }
    if (made != 0)
        return lw_fail_errno(err, "cannot make a folder in %s", parent->path);
    return lw_folder_open_in(folder, parent, name, err);
}

bool lw_folder_empty(const struct lw_folder *folder, struct lw_error *err)
{
    DIR *entries = lw_folder_list(folder);
    bool done;

    if (!entries)
        return lw_fail_errno(err, "cannot read the folder %s", folder->path);
    done = lw_file_empty_folder(entries, folder->path, err);
    closedir(entries);
    return done;
}
