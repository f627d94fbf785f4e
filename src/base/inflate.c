/* A library unpacks (base/gzip.h); here are the limits, the members and the sentences. */

#include "base/inflate.h"

#include <string.h>

#define FIRST_BYTES ((size_t)64 << 10)

bool lw_inflate_is_gzip(const void *bytes, size_t len)
{
    return len >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static size_t most_bytes(size_t len)
{
    size_t most;

    if (__builtin_mul_overflow(len, LW_INFLATE_RATIO, &most) ||
        __builtin_add_overflow(most, LW_INFLATE_FREE_BYTES, &most) ||
        most > LW_INFLATE_MAX_BYTES)
        most = LW_INFLATE_MAX_BYTES;
    return most;
}

static uint32_t piece_of(size_t len)
{
    return (uint32_t)(len < LW_GZIP_PIECE_BYTES ? len : LW_GZIP_PIECE_BYTES);
}

bool lw_inflate_fail(uint64_t at, enum lw_gzip_step step, struct lw_error *err)
{
    const char *why = "what is compressed there is damaged";

    if (step == LW_GZIP_NOMEM)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory for gzip");
    if (step == LW_GZIP_BAD_CHECKSUM)
        why = "the checksum does not fit what was unpacked";
    else if (step == LW_GZIP_BAD_HEAD)
        why = "this is not the head of a gzip member";
    return lw_fail(err, LW_ERR_FORMAT, "gzip, at byte %llu: %s", (unsigned long long)at,
                   why);
}

/* One step, into what OUT has room for, which grows. */
static bool inflate_some(const struct lw_gzip *gzip, void *state, struct lw_gzip_io *io,
                         size_t packed_len, size_t most, struct lw_buf *out,
                         enum lw_gzip_step *step, struct lw_error *err)
{
    size_t room = out->len ? out->len / 2 : FIRST_BYTES;
    size_t before = out->len;

    if (room > most - out->len)
        room = most - out->len;
    if (room == 0)
        return lw_fail(
            err, LW_ERR_LIMIT,
            "gzip: %zu bytes unpack to more than %zu, the most that is taken",
            packed_len, most);
    room = piece_of(room);
    io->out = lw_buf_extend(out, room);
    if (!io->out)
        return lw_buf_check(out, err);
    io->out_len = (uint32_t)room;
    *step = gzip->unpack(state, io);
    out->len = before + room - io->out_len;
    out->bytes[out->len] = '\0';
    return true;
}

/* Behind a member: another one, to which IO moves (true), or nothing more. */
static bool next_member(struct lw_gzip_io *io, const unsigned char *end)
{
    const unsigned char *next = io->in;

    while (next < end && *next == 0)
        next++;
    if (!lw_inflate_is_gzip(next, (size_t)(end - next)))
        return false;
    io->in = next;
    return true;
}

bool lw_inflate(const void *bytes, size_t len, struct lw_buf *out, struct lw_error *err)
{
    const struct lw_gzip *gzip = lw_gzip_best();
    const unsigned char *start = bytes, *end = start + len;
    struct lw_gzip_io io = { .in = start };
    void *state = gzip->unpack_new(err);
    size_t most = most_bytes(len);
    bool done = false;

    if (!state)
        return false;
    for (;;) {
        enum lw_gzip_step step = LW_GZIP_MORE;

        io.in_len = piece_of((size_t)(end - io.in));
        if (!inflate_some(gzip, state, &io, len, most, out, &step, err))
            break;
        if (step == LW_GZIP_END) {
            done = !next_member(&io, end);
            if (done)
                break;
            gzip->unpack_reset(state);
        } else if (step != LW_GZIP_MORE) {
            lw_inflate_fail((size_t)(io.in - start), step, err);
            break;
        } else if (io.in == end && io.out_len > 0) {
            lw_fail(err, LW_ERR_FORMAT, "gzip: the file ends too early, at byte %zu",
                    len);
            break;
        }
    }
    gzip->unpack_free(state);
    return done;
}

void lw_inflate_head(const void *bytes, size_t len, void *head, size_t *head_len)
{
    const struct lw_gzip *gzip = lw_gzip_best();
    void *state = gzip->unpack_new(NULL);
    struct lw_gzip_io io = {
        .in = bytes,
        .in_len = piece_of(len),
        .out = head,
        .out_len = piece_of(*head_len),
    };

    *head_len = 0;
    if (!state)
        return;
    gzip->unpack(state, &io);
    *head_len = (size_t)(io.out - (unsigned char *)head);
    gzip->unpack_free(state);
}
