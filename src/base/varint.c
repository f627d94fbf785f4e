/* Numbers of more than one byte, eight bytes at a time. */

#include "base/varint.h"

#include <string.h>

#define STOPS 0x8080808080808080u /* where a byte that ends a number has no bit */

static uint64_t fail(struct lw_cursor *c)
{
    c->failed = true;
    c->next = c->end;
    return 0;
}

static uint64_t load_u64(const unsigned char *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* Close to the end of the bytes, or longer than eight. */
static uint64_t bytewise(struct lw_cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;

    while (c->next < c->end) {
        unsigned char byte = *c->next++;

        if (shift == 63 && byte > 1)
            return fail(c); /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
        shift += 7;
    }
    return fail(c);
}

/* WORD holds a number of at most eight bytes, whose last one is marked by the lowest
 * bit in STOPS. Keep the bytes up to there, then close the gaps of one bit between
 * groups of 7, of two between groups of 14, of four between groups of 28. */
static inline uint64_t squeeze(uint64_t word, uint64_t stops)
{
    word &= stops ^ (stops - 1);
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
}

uint64_t lw_cursor_varint_slow(struct lw_cursor *c)
{
    uint64_t word, stops;

    if (lw_cursor_left(c) < 8)
        return bytewise(c);
    word = load_u64(c->next);
    stops = ~word & STOPS;
    if (!stops)
        return bytewise(c);
    c->next += __builtin_ctzll(stops) / 8 + 1;
    return squeeze(word, stops);
}

void lw_cursor_varints(struct lw_cursor *c, uint64_t *out, size_t count)
{
    const unsigned char *next = c->next;
    size_t i = 0;

    while (i < count && c->end - next >= 8) {
        uint64_t word = load_u64(next), stops = ~word & STOPS;

        if (!stops) {
            c->next = next;
            out[i++] = bytewise(c);
            next = c->next;
        } else if (stops & 0x80) {
            out[i++] = word & 0x7f;
            next++;
        } else if (stops & 0x8000) { /* in a column, lengths are easy to predict */
            out[i++] = (word & 0x7f) | (word >> 1 & 0x3f80);
            next += 2;
        } else if (stops & 0x800000) {
            out[i++] = (word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000);
            next += 3;
        } else {
            out[i++] = squeeze(word, stops);
            next += __builtin_ctzll(stops) / 8 + 1;
        }
    }
    c->next = next;
    for (; i < count; i++)
        out[i] = lw_cursor_varint(c);
}

uint32_t lw_cursor_u32(struct lw_cursor *c)
{
    const unsigned char *p = lw_cursor_bytes(c, 4);

    if (!p)
        return 0;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

uint64_t lw_cursor_u64(struct lw_cursor *c)
{
    const unsigned char *p = lw_cursor_bytes(c, 8);

    return p ? load_u64(p) : 0;
}

const void *lw_cursor_bytes(struct lw_cursor *c, uint64_t len)
{
    const void *bytes = c->next;

    if (c->failed || len > lw_cursor_left(c)) {
        fail(c);
        return NULL;
    }
    c->next += len;
    return bytes;
}
