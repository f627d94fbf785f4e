/* ISA-L's igzip, loaded when it is first asked for. The layout of its states is part of
 * what the number in its name promises. Level 1 packs a little worse than gzip does and
 * many times as fast. */

#include <dlfcn.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/gzip.h"

#define LIBRARY "libisal.so.2"

static struct {
    void (*inflate_init)(struct inflate_state *);
    void (*inflate_reset)(struct inflate_state *);
    int (*inflate)(struct inflate_state *);
    void (*deflate_init)(struct isal_zstream *);
    int (*deflate)(struct isal_zstream *);
    bool found; /* all of them */
} isal;

struct packer {
    struct isal_zstream stream;
    unsigned char level[ISAL_DEF_LVL1_DEFAULT];
};

/* The library stays until the program ends. */
static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return;
    isal.inflate_init =
        (void (*)(struct inflate_state *))dlsym(library, "isal_inflate_init");
    isal.inflate_reset =
        (void (*)(struct inflate_state *))dlsym(library, "isal_inflate_reset");
    isal.inflate = (int (*)(struct inflate_state *))dlsym(library, "isal_inflate");
    isal.deflate_init =
        (void (*)(struct isal_zstream *))dlsym(library, "isal_deflate_init");
    isal.deflate = (int (*)(struct isal_zstream *))dlsym(library, "isal_deflate");
    isal.found = isal.inflate_init && isal.inflate_reset && isal.inflate &&
                 isal.deflate_init && isal.deflate;
}

static void *unpack_new(struct lw_error *err)
{
    struct inflate_state *state = lw_alloc(sizeof(*state), err);

    if (state) {
        isal.inflate_init(state);
        state->crc_flag = ISAL_GZIP;
    }
    return state;
}

static void unpack_reset(void *state)
{
    isal.inflate_reset(state);
    ((struct inflate_state *)state)->crc_flag = ISAL_GZIP;
}

static enum lw_gzip_step unpack(void *of, struct lw_gzip_io *io)
{
    struct inflate_state *state = of;
    int code;

    state->next_in = (uint8_t *)(uintptr_t)io->in;
    state->avail_in = io->in_len;
    state->next_out = io->out;
    state->avail_out = io->out_len;
    code = isal.inflate(state);
    io->in = state->next_in;
    io->in_len = state->avail_in;
    io->out = state->next_out;
    io->out_len = state->avail_out;
    if (code == ISAL_INCORRECT_CHECKSUM)
        return LW_GZIP_BAD_CHECKSUM;
    if (code == ISAL_INVALID_WRAPPER || code == ISAL_UNSUPPORTED_METHOD)
        return LW_GZIP_BAD_HEAD;
    if (code < 0 || code > ISAL_OUT_OVERFLOW)
        return LW_GZIP_DAMAGED;
    return state->block_state == ISAL_BLOCK_FINISH ? LW_GZIP_END : LW_GZIP_MORE;
}

static void *pack_new(struct lw_error *err)
{
    struct packer *packer = lw_zalloc(1, sizeof(*packer), err);

    if (packer) {
        isal.deflate_init(&packer->stream);
        packer->stream.level = 1;
        packer->stream.level_buf = packer->level;
        packer->stream.level_buf_size = sizeof(packer->level);
        packer->stream.gzip_flag = IGZIP_GZIP;
    }
    return packer;
}

static enum lw_gzip_step pack(void *state, struct lw_gzip_io *io, bool last)
{
    struct isal_zstream *stream = &((struct packer *)state)->stream;
    int code;

    stream->next_in = (uint8_t *)(uintptr_t)io->in;
    stream->avail_in = io->in_len;
    stream->next_out = io->out;
    stream->avail_out = io->out_len;
    stream->end_of_stream = last;
    code = isal.deflate(stream);
    io->in = stream->next_in;
    io->in_len = stream->avail_in;
    io->out = stream->next_out;
    io->out_len = stream->avail_out;
    if (code != COMP_OK)
        return LW_GZIP_DAMAGED;
    return stream->internal_state.state == ZSTATE_END ? LW_GZIP_END : LW_GZIP_MORE;
}

static const struct lw_gzip by_isal = {
    .name = "ISA-L",
    .unpack_new = unpack_new,
    .unpack_free = lw_free,
    .unpack_reset = unpack_reset,
    .unpack = unpack,
    .pack_new = pack_new,
    .pack_free = lw_free,
    .pack = pack,
};

const struct lw_gzip *lw_gzip_isal(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return isal.found ? &by_isal : NULL;
}
