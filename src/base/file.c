/* Files through the plain system calls, each failure with the path in its sentence. */

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trust.h"

#define DEFAULT_LIMIT ((size_t)4 << 30)
#define FOLDER_DEPTH 32 /* a run is two deep; each level holds a file descriptor */

/* Reading */

static int open_to_read(const char *path, struct stat *about, struct lw_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0) {
        lw_fail_errno(err, "cannot open %s", path);
        return -1;
    }
    if (fstat(fd, about) < 0) {
        lw_fail_errno(err, "cannot read %s", path);
        close(fd);
        return -1;
    }
    if (S_ISDIR(about->st_mode)) {
        lw_fail(err, LW_ERR_IO, "%s is a folder, not a file", path);
        close(fd);
        return -1;
    }
    return fd;
}

/* Everything from FD, whose end need not be where `stat` said. */
static bool read_whole(struct lw_file_view *view, int fd, const char *path,
                       size_t expected, size_t limit, struct lw_error *err)
{
    char *bytes = NULL;
    size_t len = 0, capacity = 0;

    if (expected > limit)
        return lw_fail(err, LW_ERR_LIMIT, "%s is larger than %zu bytes", path, limit);
    for (;;) {
        ssize_t got;

        /* One more than expected, so that the end is met without growing again. */
        if (len == capacity &&
            !lw_grow(&bytes, &capacity, len ? len + 65536 : expected + 1, 1, err)) {
            lw_error_prefix(err, "%s", path);
            goto fail;
        }
        got = read(fd, bytes + len, capacity - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            lw_fail_errno(err, "cannot read %s", path);
            goto fail;
        }
        if (got == 0)
            break;
        len += (size_t)got;
        if (len > limit) {
            lw_fail(err, LW_ERR_LIMIT, "%s is larger than %zu bytes", path, limit);
            goto fail;
        }
    }
    view->memory = bytes;
    view->bytes = (const unsigned char *)bytes;
    view->len = len;
    return true;

fail:
    lw_free(bytes);
    return false;
}

bool lw_file_read_fd(struct lw_file_view *view, int fd, const struct stat *about,
                     const char *path, size_t limit, struct lw_error *err)
{
    memset(view, 0, sizeof(*view));
    return read_whole(view, fd, path, (size_t)about->st_size,
                      limit ? limit : DEFAULT_LIMIT, err);
}

bool lw_file_map_fd(struct lw_file_view *view, int fd, const struct stat *about,
                    const char *path, struct lw_error *err)
{
    void *mapping;

    memset(view, 0, sizeof(*view));
    if (!S_ISREG(about->st_mode) || about->st_size == 0)
        /* Files of /proc say that they are empty, too. */
        return read_whole(view, fd, path, 0, DEFAULT_LIMIT, err);
    mapping = mmap(NULL, (size_t)about->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED)
        return lw_fail_errno(err, "cannot map %s", path);
    view->mapping = mapping;
    view->bytes = mapping;
    view->len = (size_t)about->st_size;
    return true;
}

bool lw_file_read(struct lw_file_view *view, const char *path, size_t limit,
                  struct lw_error *err)
{
    struct stat about;
    int fd = open_to_read(path, &about, err);
    bool done;

    memset(view, 0, sizeof(*view));
    if (fd < 0)
        return false;
    done = lw_file_read_fd(view, fd, &about, path, limit, err);
    close(fd);
    return done;
}

bool lw_file_open(struct lw_file_view *view, const char *path, struct lw_error *err)
{
    struct stat about;
    int fd = open_to_read(path, &about, err);
    bool done;

    memset(view, 0, sizeof(*view));
    if (fd < 0)
        return false;
    done = lw_file_map_fd(view, fd, &about, path, err);
    close(fd);
    return done;
}

void lw_file_close(struct lw_file_view *view)
{
    if (view->mapping)
        munmap(view->mapping, view->len);
    lw_free(view->memory);
    memset(view, 0, sizeof(*view));
}

/* Descriptors */

/* More would only cost the kernel a larger table; and where there is no limit at all,
 * "all" is a number that some loops over descriptors do not survive. */
#define DESCRIPTORS_MOST (1u << 20)

void lw_file_raise_limit(void)
{
    struct rlimit limit;
    rlim_t wanted;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    wanted = limit.rlim_max < DESCRIPTORS_MOST ? limit.rlim_max : DESCRIPTORS_MOST;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        /* Then we do with fewer. */
    }
}

bool lw_file_is_scarce(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd >= limit.rlim_cur / 2;
}

/* Writing */

bool lw_file_write_fd(int fd, const void *bytes, size_t len)
{
    const char *next = bytes;

    while (len) {
        ssize_t done = write(fd, next, len);

        if (done >= 0) {
            next += done;
            len -= (size_t)done;
        } else if (errno == EAGAIN) { /* a terminal that a program left non-blocking */
            struct pollfd ready = { .fd = fd, .events = POLLOUT };

            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* "FOLDER OF PATH/.lapwing-XXXXXX"; caller frees. */
static char *temporary_name(const char *path, struct lw_error *err)
{
    static const char name[] = ".lapwing-XXXXXX";
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
    char *temporary = lw_alloc(folder + sizeof(name), err);

    if (!temporary)
        return NULL;
    memcpy(temporary, path, folder);
    memcpy(temporary + folder, name, sizeof(name));
    return temporary;
}

/* mkostemp() below a descriptor: the last six letters of PATH become such that no file has
 * the name yet, which is made, 0600. -1: errno says why. */
static int make_temporary(int folder, char *path)
{
    char *letters = path + strlen(path) - LW_FILE_UNIQUE_LETTERS;

    for (int tries = 0; tries < 1000; tries++) {
        int fd;

        if (!lw_file_choose_letters(letters))
            return -1;
        fd =
            openat(folder, path,
                   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

bool lw_file_choose_letters(char *letters)
{
    static const char alphabet[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char random[LW_FILE_UNIQUE_LETTERS];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        letters[i] = alphabet[random[i] % (sizeof(alphabet) - 1)];
    return true;
}

/* So that the new name outlives a power cut. Some file systems cannot, and then the
 * bytes are safe but the name may be the old one: no reason to fail. */
static void sync_folder_of(int folder, char *path)
{
    char *slash = strrchr(path, '/');
    int fd;

    if (slash)
        slash[1] = '\0';
    fd = openat(folder, slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

/* Into a pipe, a terminal or /dev/null there is nothing to replace. */
static bool open_through(struct lw_file_out *out, struct lw_error *err)
{
    out->fd = open(out->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return out->fd >= 0 || lw_fail_errno(err, "cannot write %s", out->path);
}

static void release_out(struct lw_file_out *out)
{
    lw_free(out->target);
    lw_free(out->temporary);
    *out = (struct lw_file_out){ .fd = -1, .folder = AT_FDCWD, .path = out->path };
}

static bool open_temporary(struct lw_file_out *out, const char *target,
                           struct lw_error *err)
{
    out->target = lw_copy_text(target, strlen(target), err);
    out->temporary = out->target ? temporary_name(target, err) : NULL;
    if (out->temporary) {
        out->fd = make_temporary(out->folder, out->temporary);
        if (out->fd >= 0)
            return true;
        lw_fail_errno(err, "cannot write %s", out->path);
    }
    release_out(out);
    return false;
}

bool lw_file_out_open_in(struct lw_file_out *out, int folder, const char *name,
                         const char *path, struct lw_error *err)
{
    *out = (struct lw_file_out){ .fd = -1, .folder = folder, .path = path };
    return open_temporary(out, name, err);
}

bool lw_file_out_open(struct lw_file_out *out, const char *path, struct lw_error *err)
{
    char target[PATH_MAX]; /* what realpath() fills at most */
    struct stat about;

    *out =
        (struct lw_file_out){ .fd = STDOUT_FILENO, .folder = AT_FDCWD, .path = path };
    if (strcmp(path, "-") == 0)
        return true;
    if (lstat(path, &about) == 0 && S_ISLNK(about.st_mode) &&
        !lw_trust_link(path, &about))
        return lw_fail(err, LW_ERR_IO,
                       "cannot write %s: it is a link that another user left in a "
                       "folder where everybody may write; remove it or name another "
                       "file",
                       path);
    if (stat(path, &about) == 0) {
        if (S_ISDIR(about.st_mode))
            return lw_fail(err, LW_ERR_IO, "cannot write %s: it is a folder", path);
        if (!S_ISREG(about.st_mode))
            return open_through(out, err);
    }
    /* A link stays a link: what it points to is replaced. */
    if (lstat(path, &about) == 0 && S_ISLNK(about.st_mode) && realpath(path, target))
        path = target;
    return open_temporary(out, path, err);
}

static bool fail_write(const struct lw_file_out *out, struct lw_error *err)
{
    if (strcmp(out->path, "-") == 0)
        return lw_fail_errno(err, "cannot write to standard output");
    return lw_fail_errno(err, "cannot write %s", out->path);
}

bool lw_file_out_write(struct lw_file_out *out, const void *bytes, size_t len,
                       struct lw_error *err)
{
    if (lw_file_write_fd(out->fd, bytes, len))
        return true;
    fail_write(out, err);
    lw_file_out_abandon(out);
    return false;
}

bool lw_file_out_end(struct lw_file_out *out, struct lw_error *err)
{
    bool done = true;

    if (strcmp(out->path, "-") == 0)
        return true;
    if (out->target && fsync(out->fd) < 0)
        done = fail_write(out, err);
    if (close(out->fd) < 0 && done)
        done = fail_write(out, err);
    out->fd = -1;
    if (done && out->target &&
        renameat(out->folder, out->temporary, out->folder, out->target) < 0)
        done = fail_write(out, err);
    if (!done) {
        lw_file_out_abandon(out);
        return false;
    }
    if (out->target)
        sync_folder_of(out->folder, out->temporary);
    release_out(out);
    return true;
}

void lw_file_out_abandon(struct lw_file_out *out)
{
    if (out->fd >= 0 && strcmp(out->path, "-") != 0)
        close(out->fd);
    if (out->temporary)
        unlinkat(out->folder, out->temporary, 0);
    release_out(out);
}

bool lw_file_replace(const char *path, const void *bytes, size_t len,
                     struct lw_error *err)
{
    struct lw_file_out out;

    return lw_file_out_open(&out, path, err) &&
           lw_file_out_write(&out, bytes, len, err) && lw_file_out_end(&out, err);
}

/* Folders */

bool lw_file_exists(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0;
}

bool lw_file_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool lw_file_make_folders(const char *path, struct lw_error *err)
{
    char *part = lw_copy_text(path, strlen(path), err);
    bool done = true;

    if (!part)
        return false;
    for (char *p = part; done && *p; p++) {
        char *end = p + strcspn(p, "/");
        char kept = *end;

        *end = '\0';
        /* EEXIST may still be a file; then the last look, or the next mkdir, says so. */
        if (*part && mkdir(part, 0777) < 0 && errno != EEXIST &&
            !lw_file_is_folder(part))
            done = lw_fail_errno(err, "cannot make the folder %s", part);
        *end = kept;
        p = kept ? end : end - 1;
    }
    if (done && !lw_file_is_folder(path)) {
        errno = ENOTDIR;
        done = lw_fail_errno(err, "cannot make the folder %s", path);
    }
    lw_free(part);
    return done;
}

static DIR *open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !folder)
        close(fd);
    return folder;
}

/* Always by descriptor and name, so that a link put in the way while we work leads nowhere.
 * A folder found is opened and emptied before its parent is read from the start. */
bool lw_file_empty_folder(DIR *folder, const char *path, struct lw_error *err)
{
    DIR *open[FOLDER_DEPTH];
    size_t depth = 1;
    bool done = false;

    open[0] = folder;
    while (depth) {
        int fd = dirfd(open[depth - 1]);
        struct dirent *entry;

        errno = 0;
        entry = readdir(open[depth - 1]);
        if (!entry) {
            if (errno) {
                lw_fail_errno(err, "cannot read a folder in %s", path);
                break;
            }
            depth--;
            if (depth) {
                closedir(open[depth]);
                rewinddir(open[depth - 1]); /* finds the folder again, empty now */
            }
            done = depth == 0;
            continue;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            unlinkat(fd, entry->d_name, 0) == 0 ||
            unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            continue;
        if (errno != ENOTEMPTY && errno != EEXIST) {
            unlinkat(fd, entry->d_name, 0); /* for the reason that matters */
            lw_fail_errno(err, "cannot remove %s in %s", entry->d_name, path);
            break;
        }
        if (depth == FOLDER_DEPTH) {
            lw_fail(err, LW_ERR_LIMIT, "%s has more than %d folders in each other",
                    path, FOLDER_DEPTH);
            break;
        }
        open[depth] = open_folder(fd, entry->d_name);
        if (!open[depth]) {
            lw_fail_errno(err, "cannot open %s in %s", entry->d_name, path);
            break;
        }
        depth++;
    }
    while (depth > 1)
        closedir(open[--depth]);
    return done;
}

bool lw_file_remove_folder(const char *path, struct lw_error *err)
{
    DIR *folder = open_folder(AT_FDCWD, path);
    bool done;

    if (!folder)
        return lw_fail_errno(err, "cannot remove %s", path);
    done = lw_file_empty_folder(folder, path, err);
    closedir(folder);
    if (done && rmdir(path) < 0)
        done = lw_fail_errno(err, "cannot remove %s", path);
    return done;
}

char *lw_path_join(const char *folder, const char *name, struct lw_error *err)
{
    size_t a = strlen(folder), b = strlen(name);
    bool slash = a && folder[a - 1] != '/';
    char *path = lw_alloc(a + slash + b + 1, err);

    if (!path)
        return NULL;
    memcpy(path, folder, a);
    if (slash)
        path[a] = '/';
    memcpy(path + a + slash, name, b + 1);
    return path;
}
