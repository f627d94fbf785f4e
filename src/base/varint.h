/* LEB128 numbers, and zigzag for signed ones.
 *
 * A cursor reads from bytes it does not own and never past their end; a bad or
 * missing number makes the cursor fail, once and for all, and yields zero, so
 * that a loop may decode a whole column and check at its end. */
#ifndef LW_BASE_VARINT_H
#define LW_BASE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw_cursor {
    const unsigned char *next;
    const unsigned char *end;
    bool failed;
};

#define LW_VARINT_MAX_BYTES 10

/* Write VALUE at OUT (room for LW_VARINT_MAX_BYTES); returns the bytes used. */
static inline size_t lw_varint_put(unsigned char *out, uint64_t value)
{
    size_t n = 0;

    while (value >= 0x80) {
        out[n++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    out[n++] = (unsigned char)value;
    return n;
}

static inline uint64_t lw_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t lw_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static inline struct lw_cursor lw_cursor_make(const void *bytes, size_t len)
{
    struct lw_cursor c = { bytes, (const unsigned char *)bytes + len, false };

    return c;
}

static inline size_t lw_cursor_left(const struct lw_cursor *c)
{
    return (size_t)(c->end - c->next);
}

uint64_t lw_cursor_varint_slow(struct lw_cursor *c);

static inline uint64_t lw_cursor_varint(struct lw_cursor *c)
{
    if (c->next < c->end && *c->next < 0x80)
        return *c->next++;
    return lw_cursor_varint_slow(c);
}

/* A column of COUNT numbers into OUT, which is the fast way to read many: they stay in
 * registers. On failure the rest of OUT is zero. */
void lw_cursor_varints(struct lw_cursor *c, uint64_t *out, size_t count);

static inline int64_t lw_cursor_zigzag(struct lw_cursor *c)
{
    return lw_unzigzag(lw_cursor_varint(c));
}

uint32_t lw_cursor_u32(struct lw_cursor *c); /* little-endian */
uint64_t lw_cursor_u64(struct lw_cursor *c); /* little-endian */

/* LEN bytes, borrowed from the cursor's memory, or NULL (failed). */
const void *lw_cursor_bytes(struct lw_cursor *c, uint64_t len);

#endif
