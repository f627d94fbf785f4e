/* Protocol buffers, appended to a buffer: a message is a run of fields, a field its
 * number and type in a varint and then its value.
 *
 *     08 96 01           field 1, a varint: 150
 *     12 03 61 62 63     field 2, bytes: "abc"
 *
 * A message within a message is a field of bytes, whose length comes first: fill a
 * scratch buffer, then add that. The failure of a scratch buffer is passed on. */
#ifndef LW_WRITERS_PROTO_H
#define LW_WRITERS_PROTO_H

#include "base/buf.h"
#include "base/varint.h"

#define LW_PROTO_U64_BYTES (2 * LW_VARINT_MAX_BYTES) /* a field of a number, at most */

enum lw_proto_wire {
    LW_PROTO_VARINT = 0,
    LW_PROTO_64_BITS = 1,
    LW_PROTO_BYTES = 2,
};

/* A field that is a number, or the head of one of VALUE bytes, put at OUT, where there is
 * room for LW_PROTO_U64_BYTES; the bytes used. */
static inline size_t lw_proto_put(unsigned char *out, uint32_t field,
                                  enum lw_proto_wire wire, uint64_t value)
{
    size_t len = lw_varint_put(out, (uint64_t)field << 3 | (unsigned)wire);

    return len + lw_varint_put(out + len, value);
}

void lw_proto_add_u64(struct lw_buf *out, uint32_t field, uint64_t value);
void lw_proto_add_double(struct lw_buf *out, uint32_t field, double value);
void lw_proto_add_fixed(struct lw_buf *out, uint32_t field,
                        uint64_t value); /* 64 bits */
void lw_proto_add_bytes(struct lw_buf *out, uint32_t field, const void *bytes,
                        size_t len);
/* A string must be UTF-8; bytes that are not become U+FFFD. */
void lw_proto_add_text(struct lw_buf *out, uint32_t field, const char *text,
                       size_t len);
/* What MESSAGE holds, which is then empty again. */
void lw_proto_add_message(struct lw_buf *out, uint32_t field, struct lw_buf *message);

#endif
