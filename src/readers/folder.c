/* A folder of torch's traces, one for each rank of a job, as one trace.
 *
 *     traces/rank-0.json.gz  rank-1.json.gz ...     worker3.1694.pt.trace.json
 *
 * Which files are traces, their bytes decide; anything else that lies there is passed
 * over. Of several traces of one rank, as a schedule that repeats leaves them, the last by
 * name is read, since names hold the time; the others are told as a loss. */

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text.h"
#include "lap/reader.h"
#include "model/trace_ranks.h"
#include "readers/kineto.h"
#include "readers/reader.h"
#include "readers/trace_read.h"

#define FILES_MAX ((size_t)1 << 16) /* more are no job's */

struct file {
    char *path;   /* owned */
    int64_t rank; /* -1: not told */
    bool is_left; /* another one of its rank is read */
};

struct files {
    struct file *list;
    size_t count, capacity;
};

static bool is_trace_name(const char *name)
{
    return name[0] != '.' &&
           (lw_text_ends(name, ".json") || lw_text_ends(name, ".json.gz"));
}

static bool add_file(struct files *files, const char *folder, const char *name,
                     struct lw_error *err)
{
    struct file file = { .rank = -1 };
    struct stat about;

    file.path = lw_path_join(folder, name, err);
    if (!file.path)
        return false;
    if (stat(file.path, &about) < 0 || !S_ISREG(about.st_mode)) {
        lw_free(file.path);
        return true;
    }
    if (files->count >= FILES_MAX) {
        lw_free(file.path);
        return lw_fail(err, LW_ERR_LIMIT, "%s: more than %zu files", folder, FILES_MAX);
    }
    if (!lw_grow(&files->list, &files->capacity, files->count + 1, sizeof(file), err)) {
        lw_free(file.path);
        return false;
    }
    files->list[files->count++] = file;
    return true;
}

static void release_files(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        lw_free(files->list[i].path);
    lw_free(files->list);
}

/* Every file of FOLDER that is named as traces are. */
static bool list_files(struct files *files, const char *folder, struct lw_error *err)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool done = true;

    if (!dir)
        return lw_fail_errno(err, "cannot open %s", folder);
    while (done && (entry = readdir(dir)) != NULL)
        if (is_trace_name(entry->d_name))
            done = add_file(files, folder, entry->d_name, err);
    closedir(dir);
    return done;
}

/* Open FILE if it is a trace (*IS_TRACE). */
static bool open_trace(struct lw_stream *stream, const char *path, bool *is_trace,
                       struct lw_error *err)
{
    struct lw_source source = { .path = path, .name = path };

    *is_trace = false;
    if (!lw_stream_open(stream, path, path, err))
        return false;
    source.head = (const unsigned char *)stream->window;
    source.head_len =
        stream->len < LW_SOURCE_HEAD_BYTES ? stream->len : LW_SOURCE_HEAD_BYTES;
    *is_trace = lw_reader_chrome.sniff(&source);
    if (!*is_trace)
        lw_stream_close(stream);
    return true;
}

/* The rank that FILE says before its events, or its name. */
static bool find_rank(struct file *file, struct lw_stream *stream, struct lw_error *err)
{
    struct lw_trace_events in;
    enum lw_trace_item item = LW_TRACE_MEMBER;
    bool done = true;

    file->rank = lw_kineto_rank_of_name(file->path);
    lw_trace_events_init(&in, stream);
    while (done && item == LW_TRACE_MEMBER) {
        struct lw_error why = { LW_OK, "" };

        done = lw_trace_events_next(&in, &item, &why);
        if (done && item == LW_TRACE_MEMBER &&
            lw_member_is(&in.member, "distributedInfo"))
            lw_kineto_rank_of_job(&in.member.value, &file->rank);
        if (!done && why.code != LW_ERR_NOMEM) {
            done = true; /* reading it will say what is wrong */
            break;
        }
        if (!done)
            lw_fail(err, why.code, "%s", why.text);
    }
    lw_trace_events_release(&in);
    return done;
}

/* Leave the traces among FILES, with their ranks. */
static bool keep_traces(struct files *files, struct lw_error *err)
{
    size_t kept = 0;
    bool done = true;

    for (size_t i = 0; i < files->count; i++) {
        struct file file = files->list[i];
        struct lw_stream stream;
        bool is_trace = false;

        if (done)
            done = open_trace(&stream, file.path, &is_trace, err);
        if (done && is_trace) {
            done = find_rank(&file, &stream, err);
            lw_stream_close(&stream);
        }
        if (done && is_trace)
            files->list[kept++] = file;
        else
            lw_free(file.path);
    }
    files->count = kept;
    return done;
}

static int compare_files(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    if (x->rank != y->rank)
        return (uint64_t)x->rank < (uint64_t)y->rank ? -1 : 1;
    return strverscmp(x->path, y->path);
}

/* Sorted by rank; of each the last is read. */
static uint64_t leave_doubles(struct files *files)
{
    uint64_t left = 0;

    if (files->count)
        qsort(files->list, files->count, sizeof(*files->list), compare_files);
    for (size_t i = 0; i + 1 < files->count; i++) {
        struct file *file = &files->list[i];

        file->is_left = file->rank >= 0 && file[1].rank == file->rank;
        left += file->is_left;
    }
    return left;
}

/* Add one trace. One that cannot be read at all is a loss, and why goes to *WHY. */
static bool read_one(const struct file *file, unsigned want, struct lw_builder *out,
                     uint64_t *read, struct lw_error *why, struct lw_error *err)
{
    struct lw_stream stream;
    bool is_trace, done;

    if (!open_trace(&stream, file->path, &is_trace, err))
        return false;
    if (!is_trace)
        return true;
    done = lw_trace_read_one(&stream, file->path, want, out, read, why, err);
    lw_stream_close(&stream);
    return done;
}

static bool read_files(const struct files *files, uint64_t left, unsigned want,
                       struct lw_builder *out, const char *name, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    uint64_t read = 0;

    for (size_t i = 0; i < files->count; i++)
        if (!files->list[i].is_left &&
            !read_one(&files->list[i], want, out, &read, &why, err))
            return false;
    if (files->count == 0)
        return lw_fail(err, LW_ERR_FORMAT, "%s holds no trace and no run", name);
    if (read == 0)
        return lw_fail(err, why.code, "%s", why.text);
    return (!left || lw_builder_loss(out, "of a rank that is here already", "traces",
                                     LW_NONE, left, err)) &&
           (!(want & LW_WANT_TRACE) || lw_trace_ranks_align(out, err));
}

static bool read_folder(const struct lw_source *source, unsigned want,
                        struct lw_builder *out, struct lw_error *err)
{
    struct files files = { 0 };
    bool done;

    done = list_files(&files, source->path, err) && keep_traces(&files, err) &&
           read_files(&files, leave_doubles(&files), want, out, source->name, err);
    release_files(&files);
    return done;
}

bool lw_folder_has_trace(const char *path, bool *has_trace, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct files files = { 0 };
    bool done = list_files(&files, path, &why);

    *has_trace = false;
    for (size_t i = 0; done && !*has_trace && i < files.count; i++) {
        struct lw_stream stream;

        if (open_trace(&stream, files.list[i].path, has_trace, &why) && *has_trace)
            lw_stream_close(&stream);
        done = why.code != LW_ERR_NOMEM;
    }
    release_files(&files);
    return why.code != LW_ERR_NOMEM || lw_fail(err, why.code, "%s", why.text);
}

/* Is there a file that is named as traces are, and no run? */
static bool sniff_folder(const struct lw_source *source)
{
    DIR *dir = source->is_folder ? opendir(source->path) : NULL;
    const struct dirent *entry;
    bool has_trace = false, has_run = false;

    if (!dir)
        return false;
    while ((entry = readdir(dir)) != NULL) {
        has_run |= strcmp(entry->d_name, "run.json") == 0;
        has_trace |= is_trace_name(entry->d_name);
    }
    closedir(dir);
    return has_trace && !has_run;
}

const struct lw_reader lw_reader_folder = {
    .name = "folder",
    .summary = "a folder of torch's traces, one for each rank (.json, .json.gz)",
    .suffixes = "",
    .opens_path = true,
    .sniff = sniff_folder,
    .read = read_folder,
};
