#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "base/inflate.h"

/* What is read at a time: stays in a core's own cache. */
#define PIECE_BYTES ((size_t)256 << 10)

/* Up to LEN bytes of the file, as they lie in it; *GOT 0: its end. */
static bool take_raw(struct lw_stream *stream, void *bytes, size_t len, size_t *got,
                     struct lw_error *err)
{
    size_t count = 0;

    *got = 0;
    if (!stream->has_fd) {
        count = len < stream->memory_len ? len : stream->memory_len;
        if (count)
            memcpy(bytes, stream->memory, count);
        stream->memory += count;
        stream->memory_len -= count;
    }
    while (stream->has_fd && count < len) {
        ssize_t some = read(stream->fd, (char *)bytes + count, len - count);

        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return lw_fail_errno(err, "cannot be read");
        if (some == 0)
            break;
        count += (size_t)some;
    }
    *got = count;
    return true;
}

/* More of what is packed, behind what is left of it; *GOT 0: there is no more. */
static bool fill_packed(struct lw_stream *stream, size_t *got, struct lw_error *err)
{
    size_t left = stream->packed_len - stream->packed_at;

    memmove(stream->packed, stream->packed + stream->packed_at, left);
    stream->packed_at = 0;
    stream->packed_len = left;
    if (!take_raw(stream, stream->packed + left, PIECE_BYTES - left, got, err))
        return false;
    stream->packed_len += *got;
    return true;
}

/* Between two members: another one, or the end. Zeros are passed over, as gzip does. */
static bool next_member(struct lw_stream *stream, struct lw_error *err)
{
    size_t got;

    for (;;) {
        while (stream->packed_at < stream->packed_len &&
               stream->packed[stream->packed_at] == 0)
            stream->packed_at++;
        if (stream->packed_len - stream->packed_at >= 2)
            break;
        if (!fill_packed(stream, &got, err))
            return false;
        if (got == 0) {
            stream->is_at_end = true;
            return true;
        }
    }
    if (lw_inflate_is_gzip(stream->packed + stream->packed_at,
                           stream->packed_len - stream->packed_at))
        stream->gzip->unpack_reset(stream->unpacker);
    else
        stream->is_at_end = true;
    return true;
}

static bool check_size(const struct lw_stream *stream, struct lw_error *err)
{
    uint64_t plain = stream->before + stream->len;

    if (plain <= LW_INFLATE_MAX_BYTES &&
        plain <= stream->packed_bytes * LW_INFLATE_RATIO + LW_INFLATE_FREE_BYTES)
        return true;
    return lw_fail(err, LW_ERR_LIMIT,
                   "gzip: %llu bytes unpack to more than %llu, the most that is taken",
                   (unsigned long long)stream->packed_bytes, (unsigned long long)plain);
}

/* Unpack some of what is packed into the free part of the window. */
static bool unpack_some(struct lw_stream *stream, struct lw_error *err)
{
    struct lw_gzip_io io = { .in = stream->packed + stream->packed_at,
                             .in_len =
                                 (uint32_t)(stream->packed_len - stream->packed_at),
                             .out = (unsigned char *)stream->window + stream->len };
    size_t room = stream->capacity - stream->len;
    enum lw_gzip_step step;

    if (room > LW_GZIP_PIECE_BYTES)
        room = LW_GZIP_PIECE_BYTES;
    io.out_len = (uint32_t)room;
    step = stream->gzip->unpack(stream->unpacker, &io);
    stream->packed_bytes += (size_t)(io.in - stream->packed) - stream->packed_at;
    stream->packed_at = (size_t)(io.in - stream->packed);
    stream->len += room - io.out_len;
    if (step == LW_GZIP_NOMEM)
        return lw_inflate_fail(stream->packed_bytes, step, err);
    if (step == LW_GZIP_END)
        return check_size(stream, err) && next_member(stream, err);
    if (step != LW_GZIP_MORE) {
        lw_inflate_fail(stream->packed_bytes, step, &stream->damage);
        stream->is_at_end = true;
    } else if (io.out_len > 0) {
        size_t got;

        if (!fill_packed(stream, &got, err))
            return false;
        if (got == 0) {
            lw_fail(&stream->damage, LW_ERR_FORMAT,
                    "gzip: the file ends too early, at byte %llu",
                    (unsigned long long)stream->packed_bytes);
            stream->is_at_end = true;
        }
    }
    return check_size(stream, err);
}

static bool fill(struct lw_stream *stream, struct lw_error *err)
{
    while (stream->is_gzip && !stream->is_at_end && stream->len < stream->capacity)
        if (!unpack_some(stream, err))
            return false;
    if (!stream->is_gzip) {
        size_t got;

        if (!take_raw(stream, stream->window + stream->len,
                      stream->capacity - stream->len, &got, err))
            return false;
        stream->len += got;
        stream->is_at_end = stream->len < stream->capacity;
    }
    memset(stream->window + stream->len, 0, LW_STREAM_PADDING);
    return true;
}

static bool grow(struct lw_stream *stream, size_t capacity, struct lw_error *err)
{
    size_t bytes = stream->capacity ? stream->capacity + LW_STREAM_PADDING : 0;

    if (!lw_grow(&stream->window, &bytes, capacity + LW_STREAM_PADDING, 1, err))
        return false;
    stream->capacity = bytes - LW_STREAM_PADDING;
    return true;
}

/* What is in the window is gzip: it goes to where packed bytes are. */
static bool start_gzip(struct lw_stream *stream, struct lw_error *err)
{
    stream->gzip = lw_gzip_best();
    stream->packed = lw_alloc(PIECE_BYTES, err);
    stream->unpacker = stream->packed ? stream->gzip->unpack_new(err) : NULL;
    if (!stream->unpacker)
        return false;
    memcpy(stream->packed, stream->window, stream->len);
    stream->packed_len = stream->len;
    stream->len = 0;
    stream->is_gzip = true;
    stream->is_at_end = false;
    return fill(stream, err);
}

static bool start(struct lw_stream *stream, size_t piece_bytes, struct lw_error *err)
{
    if (!grow(stream, piece_bytes, err) || !fill(stream, err))
        return false;
    return !lw_inflate_is_gzip(stream->window, stream->len) || start_gzip(stream, err);
}

bool lw_stream_open(struct lw_stream *stream, const char *path, const char *name,
                    struct lw_error *err)
{
    memset(stream, 0, sizeof(*stream));
    stream->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (stream->fd < 0)
        return lw_fail_errno(err, "cannot open %s", name);
    stream->has_fd = true;
    if (start(stream, PIECE_BYTES, err))
        return true;
    if (err && err->code != LW_ERR_NOMEM)
        lw_error_prefix(err, "%s", name);
    lw_stream_close(stream);
    return false;
}

bool lw_stream_open_bytes(struct lw_stream *stream, const void *bytes, size_t len,
                          size_t piece_bytes, struct lw_error *err)
{
    memset(stream, 0, sizeof(*stream));
    stream->memory = bytes;
    stream->memory_len = len;
    if (piece_bytes == 0 || piece_bytes > PIECE_BYTES)
        piece_bytes = PIECE_BYTES;
    if (start(stream, piece_bytes, err))
        return true;
    lw_stream_close(stream);
    return false;
}

void lw_stream_close(struct lw_stream *stream)
{
    if (stream->has_fd)
        close(stream->fd);
    if (stream->unpacker)
        stream->gzip->unpack_free(stream->unpacker);
    lw_free(stream->packed);
    lw_free(stream->window);
    memset(stream, 0, sizeof(*stream));
}

uint64_t lw_stream_expected(const struct lw_stream *stream)
{
    uint64_t bytes = stream->before + stream->len + stream->memory_len;
    struct stat about;

    if (stream->has_fd)
        bytes = fstat(stream->fd, &about) == 0 && S_ISREG(about.st_mode)
                    ? (uint64_t)about.st_size
                    : 0;
    else if (stream->is_gzip)
        bytes = stream->packed_len + stream->memory_len;
    return stream->is_gzip ? bytes * LW_STREAM_PACKED : bytes;
}

bool lw_stream_slide(struct lw_stream *stream, size_t keep_from, struct lw_error *err)
{
    lw_assert(keep_from <= stream->len && !stream->is_at_end);
    memmove(stream->window, stream->window + keep_from, stream->len - keep_from);
    stream->len -= keep_from;
    stream->before += keep_from;
    if (stream->len > stream->capacity / 2 && !grow(stream, stream->capacity * 2, err))
        return false;
    return fill(stream, err);
}
