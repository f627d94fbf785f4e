/* The three wire types that are needed: varints, 64 bits, and bytes. */

#include "writers/proto.h"

#include <string.h>

#include "base/text.h"

void lw_proto_add_u64(struct lw_buf *out, uint32_t field, uint64_t value)
{
    unsigned char bytes[LW_PROTO_U64_BYTES];

    lw_buf_add(out, bytes, lw_proto_put(bytes, field, LW_PROTO_VARINT, value));
}

void lw_proto_add_double(struct lw_buf *out, uint32_t field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    lw_proto_add_fixed(out, field, bits);
}

void lw_proto_add_fixed(struct lw_buf *out, uint32_t field, uint64_t value)
{
    lw_buf_add_varint(out, (uint64_t)field << 3 | LW_PROTO_64_BITS);
    lw_buf_add_u64(out, value);
}

void lw_proto_add_bytes(struct lw_buf *out, uint32_t field, const void *bytes,
                        size_t len)
{
    unsigned char head[LW_PROTO_U64_BYTES];

    lw_buf_add(out, head, lw_proto_put(head, field, LW_PROTO_BYTES, len));
    lw_buf_add(out, bytes, len);
}

void lw_proto_add_text(struct lw_buf *out, uint32_t field, const char *text, size_t len)
{
    struct lw_buf utf8;

    lw_buf_init(&utf8, 0);
    lw_text_add_utf8(&utf8, text, len);
    lw_proto_add_message(out, field, &utf8);
    lw_buf_release(&utf8);
}

void lw_proto_add_message(struct lw_buf *out, uint32_t field, struct lw_buf *message)
{
    if (message->failure) {
        if (!out->failure)
            out->failure = message->failure;
        return;
    }
    lw_proto_add_bytes(out, field, message->bytes, message->len);
    lw_buf_reset(message);
}
