/* ISA-L's igzip does the work, piece by piece into a buffer that grows. Its level 1 packs
 * a little worse than gzip does and many times as fast. */

#include "base/deflate.h"

#include <isa-l/igzip_lib.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#define STEP_BYTES ((size_t)1 << 18) /* of room in the output at a time */
#define INPUT_MAX ((size_t)1 << 30)  /* at a time: ISA-L counts in 32 bits */

static bool compress(struct isal_zstream *stream, const unsigned char *bytes,
                     size_t len, struct lw_buf *out, struct lw_error *err)
{
    do {
        unsigned char *room = lw_buf_extend(out, STEP_BYTES);

        if (!room)
            return lw_buf_check(out, err);
        if (stream->avail_in == 0) {
            size_t part = len < INPUT_MAX ? len : INPUT_MAX;

            stream->next_in = (unsigned char *)(uintptr_t)bytes;
            stream->avail_in = (uint32_t)part;
            bytes += part;
            len -= part;
            stream->end_of_stream = len == 0;
        }
        stream->next_out = room;
        stream->avail_out = STEP_BYTES;
        if (isal_deflate(stream) != COMP_OK)
            return lw_fail(err, LW_ERR_UNSUPPORTED, "ISA-L could not compress");
        out->len -= stream->avail_out;
        out->bytes[out->len] = '\0';
    } while (stream->internal_state.state != ZSTATE_END);
    return true;
}

bool lw_deflate(const void *bytes, size_t len, struct lw_buf *out, struct lw_error *err)
{
    struct isal_zstream *stream = lw_zalloc(1, sizeof(*stream), err);
    void *level = lw_alloc(ISAL_DEF_LVL1_DEFAULT, err);
    bool done = false;

    if (stream && level) {
        isal_deflate_init(stream);
        stream->level = 1;
        stream->level_buf = level;
        stream->level_buf_size = ISAL_DEF_LVL1_DEFAULT;
        stream->gzip_flag = IGZIP_GZIP;
        done = compress(stream, bytes, len, out, err);
    }
    lw_free(level);
    lw_free(stream);
    return done;
}
