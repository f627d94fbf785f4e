/* A growing run of bytes: everything is appended through lw_buf_extend(). */

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/varint.h"

#define DRAIN_BYTES ((size_t)4 << 20) /* the disk is written in pieces of this size */

void lw_buf_init(struct lw_buf *buf, size_t limit)
{
    memset(buf, 0, sizeof(*buf));
    buf->limit = limit;
}

void lw_buf_release(struct lw_buf *buf)
{
    lw_free(buf->bytes);
    lw_buf_init(buf, buf->limit);
}

void lw_buf_reset(struct lw_buf *buf)
{
    buf->len = 0;
    buf->failure = LW_OK;
    if (buf->bytes)
        buf->bytes[0] = '\0';
}

/* Make room for LEN more bytes and the NUL. */
static bool reserve(struct lw_buf *buf, size_t len)
{
    struct lw_error err;

    if (buf->failure)
        return false;
    if (len < buf->capacity - buf->len && (!buf->limit || len <= buf->limit - buf->len))
        return true;
    if (buf->limit && len > buf->limit - buf->len) {
        buf->failure = LW_ERR_LIMIT;
        return false;
    }
    if (len >= SIZE_MAX - buf->len ||
        !lw_grow(&buf->bytes, &buf->capacity, buf->len + len + 1, 1, &err)) {
        buf->failure = LW_ERR_NOMEM;
        return false;
    }
    return true;
}

void *lw_buf_extend(struct lw_buf *buf, size_t len)
{
    void *room;

    if (!reserve(buf, len))
        return NULL;
    room = buf->bytes + buf->len;
    buf->len += len;
    buf->bytes[buf->len] = '\0';
    return room;
}

void lw_buf_add(struct lw_buf *buf, const void *bytes, size_t len)
{
    void *room = lw_buf_extend(buf, len);

    if (room && len)
        memcpy(room, bytes, len);
}

void lw_buf_add_text(struct lw_buf *buf, const char *text)
{
    lw_buf_add(buf, text, strlen(text));
}

void lw_buf_add_char(struct lw_buf *buf, char c)
{
    lw_buf_add(buf, &c, 1);
}

void lw_buf_add_repeat(struct lw_buf *buf, char c, size_t count)
{
    void *room = lw_buf_extend(buf, count);

    if (room)
        memset(room, c, count);
}

void lw_buf_addv(struct lw_buf *buf, const char *format, va_list args)
{
    char first[256]; /* nearly everything fits, and then it is formatted once */
    va_list again;
    int len;

    va_copy(again, args);
    len = vsnprintf(first, sizeof(first), format, args);
    if (len < 0) { /* longer than INT_MAX */
        if (!buf->failure)
            buf->failure = LW_ERR_NOMEM;
    } else if ((size_t)len < sizeof(first)) {
        lw_buf_add(buf, first, (size_t)len);
    } else if (reserve(buf, (size_t)len)) {
        vsnprintf(buf->bytes + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void lw_buf_addf(struct lw_buf *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lw_buf_addv(buf, format, args);
    va_end(args);
}

void lw_buf_add_double(struct lw_buf *buf, double value)
{
    char text[40]; /* 17 digits, sign, point and exponent are 24 */

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    lw_buf_add_text(buf, text);
}

void lw_buf_add_decimal(struct lw_buf *buf, uint64_t value)
{
    char digits[20]; /* of 2^64 */
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    lw_buf_add(buf, digits + at, sizeof(digits) - at);
}

void lw_buf_add_u32(struct lw_buf *buf, uint32_t value)
{
    unsigned char bytes[4];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    lw_buf_add(buf, bytes, sizeof(bytes));
}

void lw_buf_add_u64(struct lw_buf *buf, uint64_t value)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    lw_buf_add(buf, bytes, sizeof(bytes));
}

void lw_buf_add_varint(struct lw_buf *buf, uint64_t value)
{
    unsigned char bytes[LW_VARINT_MAX_BYTES];

    lw_buf_add(buf, bytes, lw_varint_put(bytes, value));
}

void lw_buf_add_zigzag(struct lw_buf *buf, int64_t value)
{
    lw_buf_add_varint(buf, lw_zigzag(value));
}

void lw_buf_drain(struct lw_buf *buf)
{
    if (buf->len < DRAIN_BYTES || !buf->drain || buf->failure)
        return;
    if (!buf->drain(buf->drain_to, buf->bytes, buf->len)) {
        buf->failure = LW_ERR_IO;
        return;
    }
    buf->drained += buf->len;
    buf->len = 0;
}

bool lw_buf_check(const struct lw_buf *buf, struct lw_error *err)
{
    switch (buf->failure) {
    case LW_OK: return true;
    case LW_ERR_LIMIT:
        return lw_fail(err, LW_ERR_LIMIT, "more than %zu bytes", buf->limit);
    case LW_ERR_IO: return lw_fail(err, LW_ERR_IO, "it could not be written");
    default:
        return lw_fail(err, LW_ERR_NOMEM, "out of memory after %zu bytes", buf->len);
    }
}
