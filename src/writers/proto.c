/* The three wire types that are needed: varints, 64 bits, and bytes. */

#include "writers/proto.h"

#include <string.h>

#include "base/text.h"
#include "base/varint.h"

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_64_BITS = 1,
    WIRE_BYTES = 2,
};

static size_t put_tag(unsigned char *at, uint32_t field, enum wire_type type)
{
    return lw_varint_put(at, (uint64_t)field << 3 | (unsigned)type);
}

void lw_proto_add_u64(struct lw_buf *out, uint32_t field, uint64_t value)
{
    unsigned char bytes[2 * LW_VARINT_MAX_BYTES];
    size_t len = put_tag(bytes, field, WIRE_VARINT);

    len += lw_varint_put(bytes + len, value);
    lw_buf_add(out, bytes, len);
}

void lw_proto_add_double(struct lw_buf *out, uint32_t field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    lw_buf_add_varint(out, (uint64_t)field << 3 | WIRE_64_BITS);
    lw_buf_add_u64(out, bits);
}

void lw_proto_add_bytes(struct lw_buf *out, uint32_t field, const void *bytes,
                        size_t len)
{
    unsigned char head[2 * LW_VARINT_MAX_BYTES];
    size_t head_len = put_tag(head, field, WIRE_BYTES);

    head_len += lw_varint_put(head + head_len, len);
    lw_buf_add(out, head, head_len);
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
