/* What a file is that no reader knows, so that the sentence helps: people give us the
 * text a profiler printed, a pickle, or a trace that is still compressed. */

#include <string.h>

#include "readers/reader.h"

struct signature {
    const char *bytes;
    size_t len;
    const char *what;
};

#define SIGNATURE(bytes, what) \
    { \
        bytes, sizeof(bytes) - 1, what \
    }

static const struct signature signatures[] = {
    SIGNATURE("\x1f\x8b", "is compressed with gzip twice; unpack it first"),
    SIGNATURE("\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first"),
    SIGNATURE("PK\x03\x04", "is a zip archive; unpack it first"),
    SIGNATURE("\x7f"
              "ELF",
              "is a program, not a profile"),
    SIGNATURE("SQLite format 3", "is an SQLite database, not a profile"),
};

static bool has(const struct lw_source *source, const char *text)
{
    return memmem(source->head, source->head_len, text, strlen(text)) != NULL;
}

/* Protocols 2 to 5 begin with 0x80 and their number. */
static bool is_pickle(const struct lw_source *source)
{
    return source->head_len >= 2 && source->head[0] == 0x80 && source->head[1] >= 2 &&
           source->head[1] <= 5;
}

/* The magic of every .pyc ends so. */
static bool is_compiled(const struct lw_source *source)
{
    return source->head_len >= 16 && memcmp(source->head + 2, "\r\n", 2) == 0;
}

static bool is_printed_stats(const struct lw_source *source)
{
    return has(source, " function calls ") && has(source, " seconds\n");
}

/* pstats prints "Sun Nov 15 20:07:31 2026    out.prof" above what it read from a file.
 * Nothing of that name is printed when the profiler printed its own statistics. */
static bool fail_printed_stats(const struct lw_source *source, struct lw_error *err)
{
    const char *line = (const char *)source->head;
    const char *end = memchr(line, '\n', source->head_len);
    const size_t date_len = 24; /* of ctime() */
    const char *gap = "    ";
    size_t len = end ? (size_t)(end - line) : 0;

    if (len > date_len + 4 && memcmp(line + date_len, gap, 4) == 0)
        return lw_fail(
            err, LW_ERR_FORMAT,
            "is the text that pstats printed of %.*s; give that file instead",
            (int)(len - date_len - 4), line + date_len + 4);
    return lw_fail(err, LW_ERR_FORMAT,
                   "is the text that a profiler printed; give the file that "
                   "'python -m cProfile -o FILE' or dump_stats(FILE) writes");
}

static bool is_text(const struct lw_source *source)
{
    return memchr(source->head, '\0', source->head_len) == NULL;
}

static bool is_json(const struct lw_source *source)
{
    const unsigned char *p = source->head, *end = p + source->head_len;

    while (p < end && memchr(" \t\r\n", *p, 4))
        p++;
    return p < end && (*p == '{' || *p == '[') && is_text(source);
}

bool lw_foreign_fail(const struct lw_source *source, struct lw_error *err)
{
    if (source->head_len == 0)
        return lw_fail(err, LW_ERR_FORMAT, "is empty");
    if (is_pickle(source))
        return lw_fail(err, LW_ERR_FORMAT,
                       "is a pickle, which would have to be executed to be read; save "
                       "the profile with dump_stats() instead");
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++)
        if (source->head_len >= signatures[i].len &&
            memcmp(source->head, signatures[i].bytes, signatures[i].len) == 0)
            return lw_fail(err, LW_ERR_FORMAT, "%s", signatures[i].what);
    if (is_compiled(source))
        return lw_fail(err, LW_ERR_FORMAT, "is compiled Python, not a profile");
    if (is_printed_stats(source))
        return fail_printed_stats(source, err);
    if (is_json(source))
        return lw_fail(err, LW_ERR_FORMAT, "is JSON of a kind that is not known here");
    return lw_fail(err, LW_ERR_FORMAT, "is %s, but no profile of a known format",
                   is_text(source) ? "a text" : "a file of bytes");
}
