/* Run folders: made, found, opened and listed. */

#include "lap/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "lap/chunk.h"
#include "lap/pack.h"
#include "lap/run_find.h"
#include "lap/traces.h"

#define RESERVE_NAME "reserve"
#define RESERVE_BYTES 65536 /* run.json and the last chunks of some dozen processes */
#define PROGRAM_BYTES 40    /* of the program's name in that of a run */
#define NAMES_TRIED 1000    /* runs begun in the same second */
#define INFO_BYTES_MAX (64u << 20)

static void init(struct lw_run *run)
{
    memset(run, 0, sizeof(*run));
    run->reserve_fd = -1;
    run->folder = LW_FOLDER_CLOSED;
    lw_run_info_init(&run->info);
    lw_arena_init(&run->names);
}

void lw_run_close(struct lw_run *run)
{
    if (run->reserve_fd >= 0) {
        unlinkat(run->folder.fd, RESERVE_NAME, 0);
        close(run->reserve_fd);
    }
    lw_folder_close(&run->folder);
    lw_run_info_release(&run->info);
    lw_arena_release(&run->names);
    lw_file_close(&run->pack);
    lw_free(run->files);
    lw_free(run->path);
    lw_free(run->name);
    init(run);
}

/* Take PATH, without slashes at its end, and the name that is in it. */
static bool set_path(struct lw_run *run, const char *path, struct lw_error *err)
{
    size_t len = strlen(path), name_len;
    const char *name;

    while (len > 1 && path[len - 1] == '/')
        len--;
    run->path = lw_copy_text(path, len, err);
    if (!run->path)
        return false;
    name = lw_text_basename(run->path);
    name_len = strlen(name);
    if (lw_text_ends(name, LW_PACK_SUFFIX))
        name_len -= strlen(LW_PACK_SUFFIX);
    else if (lw_text_ends(name, LW_RUN_SUFFIX))
        name_len -= strlen(LW_RUN_SUFFIX);
    run->name = lw_copy_text(name, name_len, err);
    return run->name != NULL;
}

/* Making */

/* Is the folder, which was just made at its path, ours? A file that we make in it has our
 * owner; those of a file system that names others have the same owner as well. */
static bool is_our_own(const struct lw_run *run)
{
    struct stat folder, file;

    return fstat(run->folder.fd, &folder) == 0 && fstat(run->reserve_fd, &file) == 0 &&
           folder.st_uid == file.st_uid;
}

static bool make_reserve(struct lw_run *run, struct lw_error *err)
{
    run->reserve_fd = openat(run->folder.fd, RESERVE_NAME,
                             O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (run->reserve_fd < 0)
        return lw_fail_errno(err, "cannot write %s/" RESERVE_NAME, run->path);
    if (!is_our_own(run))
        return lw_fail(err, LW_ERR_IO,
                       "%s is another user's folder: record into one of yours (-o)",
                       run->path);
    /* On a file system that has no locks, or no way to reserve, there is none. */
    flock(run->reserve_fd, LOCK_EX | LOCK_NB);
    if (fallocate(run->reserve_fd, 0, 0, RESERVE_BYTES) == 0 || errno != ENOSPC)
        return true;
    return lw_fail_errno(err, "no room to record into %s", run->path);
}

void lw_run_free_reserve(struct lw_run *run)
{
    if (run->reserve_fd >= 0)
        while (ftruncate(run->reserve_fd, 0) < 0 && errno == EINTR)
            ;
}

/* The folders above PATH. */
static bool make_parents(const char *path, struct lw_error *err)
{
    const char *slash = strrchr(path, '/');
    char *parent;
    bool done;

    if (!slash || slash == path)
        return true;
    parent = lw_copy_text(path, (size_t)(slash - path), err);
    if (!parent)
        return false;
    done = lw_file_make_folders(parent, err);
    lw_free(parent);
    return done;
}

/* The folder at the run's path, which was made just now, and is no link. */
static bool hold_folder(struct lw_run *run, struct lw_error *err)
{
    int fd = open(run->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return lw_fail_errno(err, "cannot open the folder %s", run->path);
    run->folder.path = lw_copy_text(run->path, strlen(run->path), err);
    if (!run->folder.path) {
        close(fd);
        return false;
    }
    run->folder.fd = fd;
    return true;
}

static bool make_named(struct lw_run *run, const char *path, struct lw_error *err)
{
    if (!set_path(run, path, err) || !make_parents(run->path, err))
        return false;
    if (mkdir(run->path, 0700) == 0)
        return true;
    if (errno != EEXIST)
        return lw_fail_errno(err, "cannot make the folder %s", run->path);
    /* An empty folder will do; rmdir() is the sure way to know. */
    if (rmdir(run->path) < 0 || mkdir(run->path, 0700) < 0)
        return lw_fail(err, LW_ERR_USAGE,
                       "%s is there already: remove it or name another", run->path);
    return true;
}

/* "train" of "/a/b/train.py", with only letters that are easy to type. */
static void add_program(struct lw_buf *out, const char *program)
{
    const char *name = lw_text_basename(program);
    const char *dot = strrchr(name, '.');
    size_t len = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    size_t before = out->len;

    for (size_t i = 0; i < len && i < PROGRAM_BYTES; i++) {
        char c = name[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';

        lw_buf_add_char(out, plain ? c : '_');
    }
    if (out->len == before)
        lw_buf_add_text(out, "run");
}

/* So that recordings do not turn up in the user's version control. */
static void hide_from_git(const char *runs)
{
    char *folder = lw_path_join(runs, ".gitignore", NULL);

    if (folder && !lw_file_exists(folder)) {
        int fd = open(folder, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        if (fd >= 0 && !lw_file_write_fd(fd, "*\n", 2))
            unlink(folder);
        if (fd >= 0)
            close(fd);
    }
    lw_free(folder);
}

static bool make_dated(struct lw_run *run, const char *runs, const char *program,
                       struct lw_error *err)
{
    time_t now = (time_t)(lw_clock_wall_ns() / 1000000000);
    char stamp[32];
    struct lw_buf path = { 0 };
    struct tm local;
    size_t stem_len;
    bool done = false;

    if (!lw_file_make_folders(runs, err))
        return false;
    hide_from_git(runs);
    localtime_r(&now, &local);
    strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
    lw_buf_addf(&path, "%s/%s-", runs, stamp);
    add_program(&path, program);
    stem_len = path.len;
    for (int n = 1; !done && n <= NAMES_TRIED; n++) {
        if (n > 1) {
            path.len = stem_len;
            lw_buf_addf(&path, "-%d", n);
        }
        lw_buf_add_text(&path, LW_RUN_SUFFIX);
        if (!lw_buf_check(&path, err))
            break;
        done = mkdir(path.bytes, 0700) == 0;
        if (!done && (errno != EEXIST || n == NAMES_TRIED)) {
            lw_fail_errno(err, "cannot make the folder %s", path.bytes);
            break;
        }
    }
    done = done && set_path(run, path.bytes, err);
    lw_buf_release(&path);
    return done;
}

bool lw_run_create(struct lw_run *run, const char *path, const char *runs,
                   const char *program, struct lw_error *err)
{
    bool done;

    init(run);
    done = path ? make_named(run, path, err)
                : make_dated(run, runs ? runs : LW_RUNS_FOLDER, program, err);
    return done && hold_folder(run, err) && make_reserve(run, err);
}

bool lw_run_save(struct lw_run *run, struct lw_error *err)
{
    struct lw_buf text = { 0 };
    bool done;

    lw_run_info_write(&run->info, &text);
    done = lw_buf_check(&text, err) &&
           lw_folder_replace(&run->folder, "run.json", text.bytes, text.len, err);
    lw_buf_release(&text);
    return done;
}

/* Opening */

static int compare_files(const void *a, const void *b)
{
    const struct lw_run_file *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Whatever of a run has a name like this is read, packed and removed with it. */
static bool is_run_file(const char *name)
{
    uint32_t process, segment;

    return strcmp(name, "run.json") == 0 ||
           lw_segment_parse_name(name, &process, &segment) || lw_trace_is_name(name);
}

static bool add_file(struct lw_run *run, const char *name, uint64_t bytes,
                     struct lw_error *err)
{
    struct lw_run_file file = { .bytes = bytes };

    file.name = lw_arena_copy(&run->names, name, strlen(name), err);
    if (!file.name || !lw_grow(&run->files, &run->file_capacity, run->file_count + 1,
                               sizeof(file), err))
        return false;
    run->files[run->file_count++] = file;
    return true;
}

/* The run's files in FOLDER, whose names begin with PREFIX as the run calls them. */
static bool list_files(struct lw_run *run, DIR *folder, const char *prefix,
                       struct lw_error *err)
{
    struct lw_buf name;
    struct dirent *entry;
    bool done = true;

    lw_buf_init(&name, 0);
    while (done && (entry = readdir(folder))) {
        struct stat about;

        lw_buf_reset(&name);
        lw_buf_addf(&name, "%s%s", prefix, entry->d_name);
        done = lw_buf_check(&name, err);
        if (!done || !is_run_file(name.bytes) ||
            fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        /* A link, a pipe or a device is no file of a run: whoever opens it says so. */
        done = add_file(run, name.bytes,
                        S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0, err);
    }
    lw_buf_release(&name);
    return done;
}

/* The folder of traces in the run's FOLDER, or NULL. */
static DIR *open_traces(DIR *folder)
{
    int fd = openat(dirfd(folder), LW_TRACES_FOLDER,
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *traces = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !traces)
        close(fd);
    return traces;
}

static bool list_folder(struct lw_run *run, struct lw_error *err)
{
    DIR *folder = opendir(run->path), *traces;
    bool done;

    if (!folder)
        return lw_fail_errno(err, "cannot list %s", run->path);
    done = list_files(run, folder, "", err);
    traces = done ? open_traces(folder) : NULL;
    if (traces) {
        done = list_files(run, traces, LW_TRACES_FOLDER "/", err);
        closedir(traces);
    }
    closedir(folder);
    return done;
}

/* Is a recorder at work on it? It holds a lock for as long as it lives. No memory is
 * asked for: without any, a run that is being recorded would seem to be a broken one. */
static bool has_recorder(const struct lw_run *run)
{
    int folder =
        run->is_packed ? -1 : open(run->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = folder < 0 ? -1
                        : openat(folder, RESERVE_NAME,
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;

    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    return locked;
}

static bool read_info(struct lw_run *run, const struct lw_run_file *file,
                      struct lw_error *err)
{
    struct lw_file_view view;
    struct lw_error reason = { 0 };

    if (!lw_run_view(run, file, &view, err))
        return false;
    run->has_info =
        view.len <= INFO_BYTES_MAX &&
        lw_run_info_read(&run->info, (const char *)view.bytes, view.len, &reason);
    lw_file_close(&view);
    if (run->has_info)
        return true;
    lw_run_info_release(&run->info);
    if (reason.code != LW_ERR_UNSUPPORTED && reason.code != LW_ERR_NOMEM)
        return true; /* broken: the segments can be read without */
    if (err)
        *err = reason;
    lw_error_prefix(err, "%s", run->path);
    return false;
}

/* The files are listed: sort them and read run.json. */
static bool open_listed(struct lw_run *run, struct lw_error *err)
{
    bool has_segments = false;

    if (run->file_count)
        qsort(run->files, run->file_count, sizeof(*run->files), compare_files);
    for (size_t i = 0; i < run->file_count; i++) {
        run->bytes += run->files[i].bytes;
        if (strcmp(run->files[i].name, "run.json") != 0)
            has_segments = true;
        else if (!read_info(run, &run->files[i], err))
            return false;
    }
    if (!run->has_info && !has_segments)
        return lw_fail(err, LW_ERR_FORMAT,
                       "%s is not a Lapwing run: it has no segments and no run.json "
                       "that can be read",
                       run->path);
    if (run->info.state == LW_RUN_RUNNING && !has_recorder(run))
        run->info.state = LW_RUN_BROKEN;
    return true;
}

static bool open_packed(struct lw_run *run, struct lw_error *err)
{
    run->is_packed = true;
    if (run->pack.len >= LW_SEGMENT_MAGIC_BYTES &&
        memcmp(run->pack.bytes, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES) == 0)
        return lw_fail(err, LW_ERR_USAGE,
                       "%s is one segment of a run: name the folder it is in",
                       run->path);
    if (!lw_pack_is_pack(run->pack.bytes, run->pack.len))
        return lw_fail(err, LW_ERR_FORMAT, "%s is not a Lapwing run", run->path);
    return lw_pack_list(run, err) && open_listed(run, err);
}

static bool open_path(struct lw_run *run, const char *path, struct lw_error *err)
{
    if (!set_path(run, path, err))
        return false;
    if (lw_file_is_folder(run->path))
        return list_folder(run, err) && open_listed(run, err);
    return lw_file_open(&run->pack, run->path, err) && open_packed(run, err);
}

bool lw_run_open_bytes(struct lw_run *run, const void *bytes, size_t len,
                       const char *name, struct lw_error *err)
{
    init(run);
    if (!set_path(run, name, err))
        return false;
    run->pack.bytes = bytes;
    run->pack.len = len;
    return open_packed(run, err);
}

bool lw_run_open(struct lw_run *run, const char *name, const char *runs,
                 struct lw_error *err)
{
    bool is_file = name && lw_file_exists(name);
    char *found = NULL;
    bool done = true;

    init(run);
    if (!is_file)
        done = lw_run_find(name ? name : "latest", runs, LW_RUN_BY_ALL, &found, err);
    else if (lw_run_is_program(name))
        done = lw_run_find(name, runs, LW_RUN_BY_PROGRAM, &found, err);
    if (done && !found && !is_file)
        done = lw_run_fail_missing(name, runs, err);
    done = done && open_path(run, found ? found : name, err);
    lw_free(found);
    return done;
}

/* Is NAME a segment that nobody writes any more? */
static bool is_sealed(const struct lw_folder *folder, const char *name)
{
    unsigned char bytes[LW_SEGMENT_HEAD_BYTES];
    struct lw_segment_head head = { 0 };
    struct stat about;
    int fd = lw_folder_find(folder, name, &about, NULL);
    bool sealed = fd >= 0 &&
                  pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
                  lw_segment_head_get(&head, bytes, sizeof(bytes), NULL) &&
                  head.flags & LW_SEGMENT_SEALED;

    if (fd >= 0)
        close(fd);
    return sealed;
}

bool lw_run_view(const struct lw_run *run, const struct lw_run_file *file,
                 struct lw_file_view *view, struct lw_error *err)
{
    struct lw_folder folder;
    bool done;

    memset(view, 0, sizeof(*view));
    if (run->is_packed) {
        view->bytes = run->pack.bytes + file->offset;
        view->len = (size_t)file->bytes;
        return true;
    }
    if (!lw_folder_open(&folder, run->path, err))
        return false;
    /* A trace is whole, and a sealed segment too; both can only be replaced, so their
     * mapping cannot be cut short. */
    done = lw_trace_is_name(file->name) || is_sealed(&folder, file->name)
               ? lw_folder_map(view, &folder, file->name, err)
               : lw_folder_read(view, &folder, file->name, 0, err);
    lw_folder_close(&folder);
    return done;
}

/* Listing */

static int compare_runs(const void *a, const void *b)
{
    const struct lw_run *x = a, *y = b;

    if (x->info.wall_start_ns != y->info.wall_start_ns)
        return x->info.wall_start_ns < y->info.wall_start_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

bool lw_run_list_read(struct lw_run_list *list, const char *runs, struct lw_error *err)
{
    DIR *folder;
    struct dirent *entry;
    bool done = true;

    memset(list, 0, sizeof(*list));
    if (!runs)
        runs = LW_RUNS_FOLDER;
    folder = opendir(runs);
    if (!folder)
        return errno == ENOENT || lw_fail_errno(err, "cannot list %s", runs);
    while (done && (entry = readdir(folder))) {
        struct lw_run run;
        struct lw_error reason = { 0 };
        char *path;

        if (entry->d_name[0] == '.')
            continue;
        path = lw_path_join(runs, entry->d_name, err);
        done = path &&
               lw_grow(&list->runs, &list->capacity, list->count + 1, sizeof(run), err);
        if (!done) {
            lw_free(path);
            break;
        }
        init(&run);
        if (open_path(&run, path, &reason)) {
            list->runs[list->count++] = run;
        } else {
            lw_run_close(&run);
            if (reason.code == LW_ERR_NOMEM) {
                done = false;
                if (err)
                    *err = reason;
            }
        }
        lw_free(path);
    }
    closedir(folder);
    if (done && list->count)
        qsort(list->runs, list->count, sizeof(*list->runs), compare_runs);
    return done;
}

void lw_run_list_release(struct lw_run_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        lw_run_close(&list->runs[i]);
    lw_free(list->runs);
    memset(list, 0, sizeof(*list));
}

/* Removing */

/* NAME begins with PREFIX as above; OTHER is what else is ours there. */
static bool is_ours(const char *prefix, const char *name, const char *other)
{
    char whole[PATH_MAX];

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, other) == 0 ||
        lw_text_starts(name, ".lapwing-")) /* of somebody who was killed at writing */
        return true;
    return snprintf(whole, sizeof(whole), "%s%s", prefix, name) < (int)sizeof(whole) &&
           is_run_file(whole);
}

static bool holds_only_ours(const struct lw_run *run, struct lw_error *err)
{
    DIR *folder = opendir(run->path);
    DIR *traces = folder ? open_traces(folder) : NULL;
    struct dirent *entry;
    const char *foreign = NULL;

    if (!folder)
        return lw_fail_errno(err, "cannot list %s", run->path);
    while (!foreign && (entry = readdir(folder)))
        if (!is_ours("", entry->d_name, RESERVE_NAME) &&
            !(traces && strcmp(entry->d_name, LW_TRACES_FOLDER) == 0))
            foreign = entry->d_name;
    while (!foreign && traces && (entry = readdir(traces)))
        if (!is_ours(LW_TRACES_FOLDER "/", entry->d_name, ""))
            foreign = entry->d_name;
    if (foreign)
        lw_fail(err, LW_ERR_USAGE,
                "%s holds %s, which is not part of a run: nothing was removed",
                run->path, foreign);
    if (traces)
        closedir(traces);
    closedir(folder);
    return !foreign;
}

bool lw_run_remove(const struct lw_run *run, struct lw_error *err)
{
    if (run->is_packed) {
        if (unlink(run->path) < 0)
            return lw_fail_errno(err, "cannot remove %s", run->path);
        return true;
    }
    if (has_recorder(run))
        return lw_fail(err, LW_ERR_USAGE,
                       "%s is still being recorded: nothing was removed", run->path);
    return holds_only_ours(run, err) && lw_file_remove_folder(run->path, err);
}
