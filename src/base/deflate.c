/* A library packs (base/gzip.h), piece by piece into a buffer that grows. */

#include "base/deflate.h"

#include "base/gzip.h"

#define STEP_BYTES ((size_t)1 << 18) /* of room in the output at a time */

bool lw_deflate(const void *bytes, size_t len, struct lw_buf *out, struct lw_error *err)
{
    const struct lw_gzip *gzip = lw_gzip_best();
    const unsigned char *start = bytes, *end = start + len;
    struct lw_gzip_io io = { .in = start };
    enum lw_gzip_step step = LW_GZIP_MORE;
    void *state = gzip->pack_new(err);

    if (!state)
        return false;
    while (step == LW_GZIP_MORE) {
        size_t left = (size_t)(end - io.in);
        bool last = left <= LW_GZIP_PIECE_BYTES;

        io.in_len = (uint32_t)(last ? left : LW_GZIP_PIECE_BYTES);
        io.out = lw_buf_extend(out, STEP_BYTES);
        if (!io.out)
            break;
        io.out_len = STEP_BYTES;
        step = gzip->pack(state, &io, last);
        out->len -= io.out_len;
        out->bytes[out->len] = '\0';
        lw_buf_drain(out);
    }
    gzip->pack_free(state);
    if (!lw_buf_check(out, err))
        return false;
    return step == LW_GZIP_END ||
           lw_fail(err, LW_ERR_UNSUPPORTED, "%s could not compress", gzip->name);
}
