/* zlib, where ISA-L is not. Its memory comes from base/alloc.h like all other. */

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/gzip.h"

#define WINDOW_BITS_GZIP (15 + 16) /* the largest window, in gzip's wrapper */
#define MEMORY_LEVEL 8             /* zlib's own default */

static voidpf take(voidpf context, uInt count, uInt size)
{
    (void)context;
    return lw_zalloc(count, size, NULL);
}

static void give(voidpf context, voidpf memory)
{
    (void)context;
    lw_free(memory);
}

static z_stream *new_stream(struct lw_error *err)
{
    z_stream *stream = lw_zalloc(1, sizeof(*stream), err);

    if (stream) {
        stream->zalloc = take;
        stream->zfree = give;
    }
    return stream;
}

/* STREAM, if CODE says that the library could begin. */
static void *begun(z_stream *stream, int code, struct lw_error *err)
{
    if (code == Z_OK)
        return stream;
    lw_free(stream);
    lw_fail(err, LW_ERR_NOMEM, "out of memory for gzip");
    return NULL;
}

static void before(z_stream *stream, const struct lw_gzip_io *io)
{
    stream->next_in = (Bytef *)(uintptr_t)io->in;
    stream->avail_in = io->in_len;
    stream->next_out = io->out;
    stream->avail_out = io->out_len;
}

static void after(const z_stream *stream, struct lw_gzip_io *io)
{
    io->in = stream->next_in;
    io->in_len = stream->avail_in;
    io->out = stream->next_out;
    io->out_len = stream->avail_out;
}

static void *unpack_new(struct lw_error *err)
{
    z_stream *stream = new_stream(err);

    return stream ? begun(stream, inflateInit2(stream, WINDOW_BITS_GZIP), err) : NULL;
}

static void unpack_free(void *state)
{
    if (state)
        inflateEnd(state);
    lw_free(state);
}

static void unpack_reset(void *state)
{
    inflateReset(state);
}

static bool says(const z_stream *stream, const char *text)
{
    return stream->msg && strstr(stream->msg, text);
}

/* There is one code for all that is wrong; the sentence beside it tells them apart. */
static enum lw_gzip_step judge(const z_stream *stream)
{
    if (says(stream, "incorrect data check") || says(stream, "incorrect length check"))
        return LW_GZIP_BAD_CHECKSUM;
    if (says(stream, "header") || says(stream, "method"))
        return LW_GZIP_BAD_HEAD;
    return LW_GZIP_DAMAGED;
}

static enum lw_gzip_step unpack(void *state, struct lw_gzip_io *io)
{
    int code;

    before(state, io);
    code = inflate(state, Z_NO_FLUSH);
    after(state, io);
    if (code == Z_STREAM_END)
        return LW_GZIP_END;
    if (code == Z_OK || code == Z_BUF_ERROR)
        return LW_GZIP_MORE;
    return code == Z_MEM_ERROR ? LW_GZIP_NOMEM : judge(state);
}

static void *pack_new(struct lw_error *err)
{
    z_stream *stream = new_stream(err);

    return stream
               ? begun(stream,
                       deflateInit2(stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS_GZIP,
                                    MEMORY_LEVEL, Z_DEFAULT_STRATEGY),
                       err)
               : NULL;
}

static void pack_free(void *state)
{
    if (state)
        deflateEnd(state);
    lw_free(state);
}

static enum lw_gzip_step pack(void *state, struct lw_gzip_io *io, bool last)
{
    int code;

    before(state, io);
    code = deflate(state, last ? Z_FINISH : Z_NO_FLUSH);
    after(state, io);
    if (code == Z_STREAM_END)
        return LW_GZIP_END;
    return code == Z_OK || code == Z_BUF_ERROR ? LW_GZIP_MORE : LW_GZIP_DAMAGED;
}

const struct lw_gzip lw_gzip_zlib = {
    .name = "zlib",
    .unpack_new = unpack_new,
    .unpack_free = unpack_free,
    .unpack_reset = unpack_reset,
    .unpack = unpack,
    .pack_new = pack_new,
    .pack_free = pack_free,
    .pack = pack,
};
