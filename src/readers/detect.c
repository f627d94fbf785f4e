/* Opens what a person named, asks each reader, and lets the one that knows it read.
 *
 * What is compressed with gzip is unpacked before anybody is asked, so every format may
 * come so; base/inflate.h says how large it may become. The first bytes come through a
 * stream; who can, reads the rest of it there, and for the others it is put in memory. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/inflate.h"
#include "base/text.h"
#include "readers/reader.h"

/* Files up to this are read, larger ones mapped: a copy of a small file is safe from
 * being cut by its writer while we read, and of a large one it would double the time. */
#define READ_BYTES_MAX ((off_t)64 << 20)

const struct lw_reader *const lw_readers[] = {
#define LW_READER(name) &lw_reader_##name,
#include "readers/readers.def"
#undef LW_READER
};
const size_t lw_reader_count = sizeof(lw_readers) / sizeof(lw_readers[0]);

/* The first bytes of a regular file; *LEN: how many there are. */
static bool read_head(const char *path, unsigned char *head, size_t *len,
                      struct lw_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t got;

    if (fd < 0)
        return lw_fail_errno(err, "cannot open %s", path);
    do
        got = read(fd, head, LW_SOURCE_HEAD_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        lw_fail_errno(err, "cannot read %s", path);
    close(fd);
    *len = got < 0 ? 0 : (size_t)got;
    return got >= 0;
}

static void set_head(struct lw_source *source)
{
    source->head = source->view.bytes;
    source->head_len = source->view.len < LW_SOURCE_HEAD_BYTES ? source->view.len
                                                               : LW_SOURCE_HEAD_BYTES;
}

static bool load(struct lw_source *source, off_t size, struct lw_error *err)
{
    return size > READ_BYTES_MAX ? lw_file_open(&source->view, source->path, err)
                                 : lw_file_read(&source->view, source->path, 0, err);
}

/* Put the file's name before what went wrong, unless memory ran out. */
static bool fail_in(const struct lw_source *source, struct lw_error *err)
{
    if (err && err->code != LW_ERR_NOMEM)
        lw_error_prefix(err, "%s", source->name);
    return false;
}

/* Put what is in SOURCE, which is loaded, in its own place. */
static bool unpack(struct lw_source *source, struct lw_error *err)
{
    struct lw_buf plain;

    lw_buf_init(&plain, 0);
    if (!lw_inflate(source->view.bytes, source->view.len, &plain, err)) {
        lw_buf_release(&plain);
        return fail_in(source, err);
    }
    lw_file_close(&source->view);
    source->view.memory = plain.bytes;
    source->view.bytes = (const unsigned char *)plain.bytes;
    source->view.len = plain.len;
    set_head(source);
    return true;
}

/* A folder has no bytes: only who opens paths is asked. */
static const struct lw_reader *reader_by_bytes(const struct lw_source *source)
{
    for (size_t i = 0; i < lw_reader_count; i++)
        if ((lw_readers[i]->opens_path || !source->is_folder) &&
            lw_readers[i]->sniff(source))
            return lw_readers[i];
    return NULL;
}

/* All of STREAM, which is a pipe's, in its window. */
static bool drain(struct lw_stream *stream, struct lw_error *err)
{
    while (!stream->is_at_end) {
        if (stream->len > LW_INFLATE_MAX_BYTES)
            return lw_fail(err, LW_ERR_LIMIT, "is larger than %zu bytes",
                           LW_INFLATE_MAX_BYTES);
        if (!lw_stream_slide(stream, 0, err))
            return false;
    }
    return stream->damage.code == LW_OK ||
           lw_fail(err, stream->damage.code, "%s", stream->damage.text);
}

/* Have the bytes where READER wants them: in the stream, in memory, or in the file. */
static bool prepare(struct lw_source *source, const struct lw_reader *reader,
                    struct lw_stream *stream, off_t size, bool is_regular,
                    struct lw_error *err)
{
    bool is_gzip = stream->is_gzip;

    if (reader->streams) {
        source->stream = stream;
        return true;
    }
    if (!is_regular) {
        if (!drain(stream, err))
            return fail_in(source, err);
        source->view.bytes = (const unsigned char *)stream->window;
        source->view.len = stream->len;
        set_head(source);
        return true;
    }
    /* What the head was in is gone with the stream. */
    if (reader->opens_path && !is_gzip)
        return true;
    lw_stream_close(stream);
    source->head = NULL;
    source->head_len = 0;
    if (!load(source, size, err))
        return false;
    set_head(source);
    return !is_gzip || unpack(source, err);
}

/* Read SOURCE, whose head is known, and whose bytes are in STREAM, unless it is a folder. */
static bool read_source(struct lw_source *source, struct lw_stream *stream,
                        const struct stat *about, unsigned want, struct lw_builder *out,
                        struct lw_error *err)
{
    const struct lw_reader *reader = reader_by_bytes(source);

    if (!reader) {
        if (source->head_len > 0 || stream->damage.code == LW_OK)
            lw_foreign_fail(source, err);
        else
            lw_fail(err, stream->damage.code, "%s", stream->damage.text);
        return fail_in(source, err);
    }
    if (!source->is_folder &&
        !prepare(source, reader, stream, about->st_size, S_ISREG(about->st_mode), err))
        return false;
    if (!reader->read(source, want, out, err))
        return reader->opens_path ? false : fail_in(source, err);
    return lw_builder_fact(out, "format", reader->name, strlen(reader->name), err) &&
           lw_builder_fact(out, "file", source->name, strlen(source->name), err);
}

static bool open_source(const char *name, unsigned want, struct lw_builder *out,
                        struct lw_error *err)
{
    bool is_stdin = strcmp(name, "-") == 0;
    struct lw_source source = { .path = is_stdin ? "/dev/stdin" : name,
                                .name = is_stdin ? "standard input" : name };
    struct lw_stream stream = { .has_fd = false };
    struct stat about;
    bool done;

    if (stat(source.path, &about) < 0)
        return lw_fail_errno(err, "cannot open %s", source.name);
    source.is_folder = S_ISDIR(about.st_mode);
    if (!source.is_folder) {
        if (!lw_stream_open(&stream, source.path, source.name, err))
            return false;
        source.head = (const unsigned char *)stream.window;
        source.head_len =
            stream.len < LW_SOURCE_HEAD_BYTES ? stream.len : LW_SOURCE_HEAD_BYTES;
    }
    done = read_source(&source, &stream, &about, want, out, err);
    if (source.view.bytes != (const unsigned char *)stream.window)
        lw_file_close(&source.view);
    lw_stream_close(&stream);
    return done;
}

/* The run that NAME means, where there is no profile of that name. */
static struct lw_profile *open_named_run(const char *name, unsigned want,
                                         struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_builder *builder = NULL;
    struct lw_profile *profile = NULL;
    struct lw_run run;

    if (lw_run_open(&run, name, NULL, &why) && (builder = lw_builder_new(&why)) &&
        lw_lap_read_all(&run, want, builder, &why)) {
        profile = lw_builder_finish(builder, &why);
        builder = NULL;
    }
    lw_builder_free(builder);
    lw_run_close(&run);
    if (profile || !err)
        return profile;
    *err = why;
    return NULL;
}

/* A program is no profile, so its name means its latest run, which is put in *PATH. */
static bool find_program_run(const char *name, char **path, struct lw_error *err)
{
    *path = NULL;
    return !lw_run_is_program(name) || lw_file_is_folder(name) ||
           lw_run_find(name, NULL, LW_RUN_BY_PROGRAM, path, err);
}

struct lw_profile *lw_profile_open(const char *name, unsigned want,
                                   struct lw_error *err)
{
    struct lw_builder *builder;
    char *run;

    if (!name || (strcmp(name, "-") != 0 && !lw_file_exists(name)))
        return open_named_run(name, want, err);
    if (!find_program_run(name, &run, err))
        return NULL;
    if (run) {
        struct lw_profile *profile = open_named_run(run, want, err);

        lw_free(run);
        return profile;
    }
    if (!(builder = lw_builder_new(err)))
        return NULL;
    if (!open_source(name, want, builder, err)) {
        lw_builder_free(builder);
        return NULL;
    }
    return lw_builder_finish(builder, err);
}

static size_t unpack_head(const unsigned char *head, size_t len, unsigned char *plain)
{
    size_t plain_len = LW_SOURCE_HEAD_BYTES;

    lw_inflate_head(head, len, plain, &plain_len);
    return plain_len;
}

/* A run's folder, or no file at all: then a word, by which (BY is enum lw_run_naming) a
 * run may be meant. That it means several, or is the place of none, is said when it is
 * opened. */
static bool run_exists(const char *name, unsigned by, bool *exists,
                       struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    char *path = NULL;
    struct lw_run run;

    *exists = false;
    if (!lw_file_exists(name)) {
        *exists = !lw_run_find(name, NULL, by, &path, &why) || path;
        lw_free(path);
    } else {
        *exists = lw_run_open(&run, name, NULL, &why) || why.code == LW_ERR_UNSUPPORTED;
        lw_run_close(&run);
    }
    return why.code != LW_ERR_NOMEM || lw_fail(err, why.code, "%s", why.text);
}

/* What a look at a file or folder says of it. */
struct look {
    unsigned char head[LW_SOURCE_HEAD_BYTES], plain[LW_SOURCE_HEAD_BYTES];
    struct lw_source source;
    bool is_there;
    bool is_pipe; /* or the like: its bytes were not looked at, it has them only once */
    bool has_head;
};

static void look_at(struct look *look, const char *name)
{
    struct stat about;

    memset(&look->source, 0, sizeof(look->source));
    look->source.path = look->source.name = name;
    look->source.head = look->head;
    look->is_pipe = look->has_head = false;
    look->is_there = stat(name, &about) == 0;
    if (!look->is_there)
        return;
    look->source.is_folder = S_ISDIR(about.st_mode);
    look->is_pipe = !look->source.is_folder && !S_ISREG(about.st_mode);
    look->has_head = S_ISREG(about.st_mode) &&
                     read_head(name, look->head, &look->source.head_len, NULL);
    if (look->has_head && lw_inflate_is_gzip(look->head, look->source.head_len)) {
        look->source.head = look->plain;
        look->source.head_len =
            unpack_head(look->head, look->source.head_len, look->plain);
    }
}

bool lw_profile_exists(const char *name, unsigned by, bool *exists,
                       struct lw_error *err)
{
    struct look look;

    look_at(&look, name);
    if (!look.is_there)
        return run_exists(name, by, exists, err);
    if (look.source.is_folder) {
        if (!run_exists(name, by, exists, err))
            return false;
        return *exists || !lw_reader_folder.sniff(&look.source) ||
               lw_folder_has_trace(name, exists, err);
    }
    *exists = look.is_pipe || (look.has_head && reader_by_bytes(&look.source));
    return true;
}

/* Only torch's profiler writes this, and first of all. */
static bool has_torch_mark(const struct lw_source *source)
{
    static const char mark[] = "\"schemaVersion\"";

    return memmem(source->head, source->head_len, mark, sizeof(mark) - 1) != NULL;
}

const struct lw_reader *lw_profile_reader(const char *name, bool *is_torch)
{
    const struct lw_reader *reader = NULL;
    struct look look;

    look_at(&look, name);
    if (look.has_head || look.source.is_folder)
        reader = reader_by_bytes(&look.source);
    *is_torch = reader == &lw_reader_folder ||
                (reader == &lw_reader_chrome && has_torch_mark(&look.source));
    return reader;
}

bool lw_profile_has_suffix(const char *name)
{
    const char *dot = strrchr(lw_text_basename(name), '.');
    size_t len = dot ? strlen(dot) : 0;

    for (size_t i = 0; dot && i < lw_reader_count; i++)
        for (const char *p = lw_readers[i]->suffixes; *p;) {
            size_t n = strcspn(p, " ");

            if (n == len && memcmp(p, dot, len) == 0)
                return true;
            p += n + (p[n] == ' ');
        }
    return false;
}
