/* Names, sizes and packing of a run's traces. */

#include "lap/traces.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/deflate.h"
#include "base/file.h"
#include "base/text.h"

#define PREFIX LW_TRACES_FOLDER "/"
#define PLAIN_SUFFIX ".pt.trace.json"
#define PACKED_SUFFIX PLAIN_SUFFIX ".gz"
#define HIDDEN_PREFIX ".lapwing-"

struct trace {
    char *name; /* owned */
    uint64_t bytes;
    struct timespec changed;
};

struct traces {
    struct lw_folder folder; /* not open: there is none, and so no traces */
    struct trace *list;
    size_t count, capacity;
};

static bool is_base_name(const char *name)
{
    return name[0] != '.' && !strchr(name, '/') &&
           (lw_text_ends(name, PLAIN_SUFFIX) || lw_text_ends(name, PACKED_SUFFIX));
}

bool lw_trace_is_name(const char *name)
{
    return lw_text_starts(name, PREFIX) && is_base_name(name + strlen(PREFIX));
}

/* How much of NAME says whose it is. */
static size_t owner_len(const char *name)
{
    const char *dash = strrchr(name, '-');

    return dash ? (size_t)(dash - name) : strlen(name);
}

bool lw_trace_is_same_owner(const char *a, const char *b)
{
    a = lw_text_basename(a);
    b = lw_text_basename(b);
    return owner_len(a) == owner_len(b) && memcmp(a, b, owner_len(a)) == 0;
}

static void release(struct traces *traces)
{
    for (size_t i = 0; i < traces->count; i++)
        lw_free(traces->list[i].name);
    lw_folder_close(&traces->folder);
    lw_free(traces->list);
    memset(traces, 0, sizeof(*traces));
}

/* The regular files in traces/ of RUN whose names TAKES; no folder: none. */
static bool list(struct traces *traces, const struct lw_folder *run,
                 bool (*takes)(const char *name), struct lw_error *err)
{
    struct stat about;
    struct dirent *entry;
    DIR *folder;
    bool done = true;

    memset(traces, 0, sizeof(*traces));
    if (fstatat(run->fd, LW_TRACES_FOLDER, &about, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno == ENOENT)
        return true;
    if (!lw_folder_open_in(&traces->folder, run, LW_TRACES_FOLDER, err))
        return false;
    folder = lw_folder_list(&traces->folder);
    if (!folder)
        done = lw_fail_errno(err, "cannot list %s", traces->folder.path);
    while (done && folder && (entry = readdir(folder))) {
        struct trace trace = { .name = NULL };

        if (!takes(entry->d_name) ||
            fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(about.st_mode))
            continue;
        trace.bytes = (uint64_t)about.st_size;
        trace.changed = about.st_mtim;
        done = lw_grow(&traces->list, &traces->capacity, traces->count + 1,
                       sizeof(trace), err) &&
               (trace.name = lw_copy_text(entry->d_name, strlen(entry->d_name), err));
        if (done)
            traces->list[traces->count++] = trace;
    }
    if (folder)
        closedir(folder);
    return done;
}

uint64_t lw_traces_bytes(const struct lw_folder *run)
{
    struct traces traces;
    uint64_t bytes = 0;

    if (list(&traces, run, is_base_name, NULL))
        for (size_t i = 0; i < traces.count; i++)
            bytes += traces.list[i].bytes;
    release(&traces);
    return bytes;
}

/* ---- dropping ----------------------------------------------------------------------- */

static int compare_ages(const void *a, const void *b)
{
    const struct trace *x = a, *y = b;

    if (x->changed.tv_sec != y->changed.tv_sec)
        return x->changed.tv_sec < y->changed.tv_sec ? -1 : 1;
    if (x->changed.tv_nsec != y->changed.tv_nsec)
        return x->changed.tv_nsec < y->changed.tv_nsec ? -1 : 1;
    return strverscmp(x->name, y->name);
}

/* Has the process of the trace at I a later one? They are sorted by age. */
static bool has_newer(const struct traces *traces, size_t i)
{
    for (size_t later = i + 1; later < traces->count; later++)
        if (lw_trace_is_same_owner(traces->list[i].name, traces->list[later].name))
            return true;
    return false;
}

uint64_t lw_traces_drop(const struct lw_folder *run, uint64_t bytes)
{
    struct traces traces;
    uint64_t freed = 0, removed = 0;

    if (list(&traces, run, is_base_name, NULL) && traces.count > 0) {
        qsort(traces.list, traces.count, sizeof(*traces.list), compare_ages);
        for (size_t i = 0; i < traces.count && freed < bytes; i++)
            if (has_newer(&traces, i) &&
                unlinkat(traces.folder.fd, traces.list[i].name, 0) == 0) {
                freed += traces.list[i].bytes;
                removed++;
            }
    }
    release(&traces);
    return removed;
}

/* ---- the end ------------------------------------------------------------------------ */

static bool is_plain_name(const char *name)
{
    return is_base_name(name) && lw_text_ends(name, PLAIN_SUFFIX);
}

static bool is_hidden_name(const char *name)
{
    return lw_text_starts(name, HIDDEN_PREFIX);
}

/* Where packed pieces go; what goes wrong is in `err`. */
struct packing {
    struct lw_file_out file;
    struct lw_error *err;
    bool is_open;
};

static bool take_piece(void *to, const void *bytes, size_t len)
{
    struct packing *packing = to;

    packing->is_open = lw_file_out_write(&packing->file, bytes, len, packing->err);
    return packing->is_open;
}

/* PLAIN as NAME in FOLDER; sentences call it PATH. */
static bool pack_into(const struct lw_folder *folder, const char *name,
                      const char *path, const struct lw_file_view *plain,
                      struct lw_error *err)
{
    struct packing packing = { .err = err };
    struct lw_buf out;
    bool done;

    if (!lw_file_out_open_in(&packing.file, folder->fd, name, path, err))
        return false;
    packing.is_open = true;
    lw_buf_init(&out, 0);
    out.drain = take_piece;
    out.drain_to = &packing;
    done = lw_deflate(plain->bytes, plain->len, &out, err) &&
           take_piece(&packing, out.bytes, out.len);
    if (done)
        done = lw_file_out_end(&packing.file, err);
    else if (packing.is_open)
        lw_file_out_abandon(&packing.file);
    lw_buf_release(&out);
    return done;
}

/* NAME in FOLDER becomes NAME.gz; on failure it stays. */
static bool pack(const struct lw_folder *folder, const char *name, struct lw_error *err)
{
    struct lw_file_view plain = { 0 };
    struct lw_buf packed, path;
    bool done;

    lw_buf_init(&packed, 0);
    lw_buf_init(&path, 0);
    lw_buf_addf(&packed, "%s.gz", name);
    lw_buf_addf(&path, "%s/%s.gz", folder->path, name);
    done = lw_buf_check(&packed, err) && lw_buf_check(&path, err) &&
           lw_folder_map(&plain, folder, name, err) &&
           pack_into(folder, packed.bytes, path.bytes, &plain, err);
    lw_file_close(&plain);
    lw_buf_release(&packed);
    lw_buf_release(&path);
    return done && (unlinkat(folder->fd, name, 0) == 0 ||
                    lw_fail_errno(err, "cannot remove %s/%s", folder->path, name));
}

bool lw_traces_finish(const struct lw_folder *run, uint64_t *cut, struct lw_error *err)
{
    struct traces traces;
    bool done = list(&traces, run, is_hidden_name, err);

    *cut = 0;
    for (size_t i = 0; done && i < traces.count; i++)
        *cut += unlinkat(traces.folder.fd, traces.list[i].name, 0) == 0;
    release(&traces);
    done = done && list(&traces, run, is_plain_name, err);
    for (size_t i = 0; done && i < traces.count; i++)
        done = pack(&traces.folder, traces.list[i].name, err);
    release(&traces);
    return done;
}
