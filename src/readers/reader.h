/* What turns foreign bytes into a profile.
 *
 * A reader is one .c file that ends in one const struct lw_reader, and one line in
 * readers.def. What a file is, its bytes decide, never its name: each reader is asked
 * whether it knows the beginning. */
#ifndef LW_READERS_READER_H
#define LW_READERS_READER_H

#include "base/file.h"
#include "base/stream.h"
#include "lap/reader.h" /* enum lw_want */
#include "lap/run_find.h"
#include "model/builder.h"

/* What a person named. */
struct lw_source {
    const char *path; /* to open it; borrowed */
    const char *name; /* for sentences: the path, or "standard input"; borrowed */
    bool is_folder;
    const unsigned char *head; /* the first bytes, for sniffing; none of a folder */
    size_t head_len;           /* at most LW_SOURCE_HEAD_BYTES, less in short files */
    struct lw_file_view view;  /* the whole file, for read() */
    struct lw_stream *stream;  /* the same, for a reader that streams; else NULL */
};

#define LW_SOURCE_HEAD_BYTES 65536 /* of a trace, 26 KB come before its events */

struct lw_reader {
    const char *name;     /* of the format */
    const char *summary;  /* one phrase: what writes such files */
    const char *suffixes; /* ".prof .pstats", parted by spaces */

    /* read() opens `path` by itself, unless it was a pipe and so is in `view` already,
     * and names it in its sentences. */
    bool opens_path;

    /* read() takes the file from `stream`, if there is one, and never holds all of it. */
    bool streams;

    /* Is it one of these? By a look at the head; false when not sure. */
    bool (*sniff)(const struct lw_source *source);

    /* Add what SOURCE holds to OUT; WANT (enum lw_want) says what will be looked at,
     * and a reader may leave the rest out. The sentence of a failure says where in the
     * file ("at byte 12: ..."); the caller puts the file's name before it. */
    bool (*read)(const struct lw_source *source, unsigned want, struct lw_builder *out,
                 struct lw_error *err);
};

/* All readers, sorted by name, from readers.def. */
extern const struct lw_reader *const lw_readers[];
extern const size_t lw_reader_count;

#define LW_READER(name) extern const struct lw_reader lw_reader_##name;
#include "readers/readers.def"
#undef LW_READER

/* The profile that NAME is: a file of any known format, a run's folder or packed file,
 * a word that means a run in .lapwing/runs (lap/run_find.h), or "-" for standard input.
 * NULL is the latest run. The facts "file" (NAME) and "format" (the reader's) are set. NULL: failed; if it is
 * in no known format, the sentence says what it is instead. The caller frees with
 * lw_profile_free(). */
struct lw_profile *lw_profile_open(const char *name, unsigned want,
                                   struct lw_error *err);

/* As lw_lap_read(), with the run's windows of torch's profiler where a trace is wanted. */
bool lw_lap_read_all(const struct lw_run *run, unsigned want, struct lw_builder *out,
                     struct lw_error *err) LW_MUST_CHECK;

/* Fill ERR with what the file is, though no reader knows it; returns false. */
bool lw_foreign_fail(const struct lw_source *source, struct lw_error *err);

/* Put in *HAS_TRACE whether the folder at PATH holds a trace, by the bytes of its files.
 * Fails only with LW_ERR_NOMEM. */
bool lw_folder_has_trace(const char *path, bool *has_trace, struct lw_error *err)
    LW_MUST_CHECK;

/* Put in *EXISTS whether NAME is a run, a word that means one by one of BY (enum
 * lw_run_naming), a folder with a trace in it, or a file whose bytes a reader knows. For
 * commands whose words may be either that or something else; they know "-" themselves.
 * Fails only with LW_ERR_NOMEM. */
bool lw_profile_exists(const char *name, unsigned by, bool *exists,
                       struct lw_error *err)
    LW_MUST_CHECK;
/* Who would read NAME, by a look at its beginning; NULL: nobody, or it cannot be told.
 * *IS_TORCH: it is a trace of torch's profiler, or a folder of them; false when not sure. */
const struct lw_reader *lw_profile_reader(const char *name, bool *is_torch);
/* Does NAME end as files of a known format do, whether or not there is one? */
bool lw_profile_has_suffix(const char *name);

#endif
