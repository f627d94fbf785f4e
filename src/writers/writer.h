/* What turns a profile into the bytes of another tool's format.
 *
 * A writer is one .c file that ends in one const struct lw_writer, and one line in
 * writers.def. It appends to a buffer and knows nothing of files: the command replaces
 * the file as a whole, or not at all. */
#ifndef LW_WRITERS_WRITER_H
#define LW_WRITERS_WRITER_H

#include "base/buf.h"
#include "lap/reader.h" /* enum lw_want */
#include "model/profile.h"

/* What a frame is called, where a format leaves that open; the order is that of the
 * choices of --frames. */
enum lw_frames {
    LW_FRAMES_FUNCTIONS, /* by name and place: "step (train.py:10)" */
    LW_FRAMES_LINES,     /* likewise, but the line that ran, as py-spy's raw format */
    LW_FRAMES_NAMES,     /* by name alone, as FlameGraph's scripts do */
};
#define LW_FRAMES_WORDS "functions|lines|names"

struct lw_writer {
    const char *name;     /* of the format, for --to */
    const char *summary;  /* one phrase: what opens such files */
    const char *suffixes; /* ".prof .pstats", parted by spaces; the first is usual */
    const char *lacks;    /* one phrase: what of a profile the format cannot say */
    bool is_binary;       /* not for a terminal */
    bool holds_changes;   /* writes graphs, and numbers below zero (model/merge.h) */
    unsigned want;        /* enum lw_want: what of a profile it writes */

    uint64_t viewer_bytes;    /* a larger file its usual viewer cannot open; 0: none */
    const char *viewer_fails; /* one phrase: what happens then, and what to do */

    /* Append PROFILE to OUT, whose own failure the caller checks; what is much may be
     * drained on the way (lw_buf_drain()). A profile that holds
     * nothing of what the format can say is LW_ERR_UNSUPPORTED, in one sentence. */
    bool (*write)(const struct lw_profile *profile, struct lw_buf *out,
                  struct lw_error *err);
    /* The same with FRAMES called otherwise; NULL: the format has its own way. */
    bool (*write_frames)(const struct lw_profile *profile, enum lw_frames frames,
                         struct lw_buf *out, struct lw_error *err);
};

/* All writers, sorted by name, from writers.def. */
extern const struct lw_writer *const lw_writers[];
extern const size_t lw_writer_count;

#define LW_WRITER(name) extern const struct lw_writer lw_writer_##name;
#include "writers/writers.def"
#undef LW_WRITER

/* By the format's name, or by the suffix of a file's path, of which the longest counts
 * (x.speedscope.json is no plain .json); NULL: there is none. */
const struct lw_writer *lw_writer_find(const char *name);
const struct lw_writer *lw_writer_for_path(const char *path);
/* How many bytes of PATH's end say what it is: ".trace.json" if WRITER has that suffix,
 * else what is behind the last point of its name; 0: nothing. */
size_t lw_writer_suffix_len(const struct lw_writer *writer, const char *path);

#endif
