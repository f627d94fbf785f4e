/* A growing run of bytes with a limit and a sticky failure.
 *
 * Writers append without checking each time and ask once at the end:
 * lw_buf_check(). After a failure further appends do nothing. `bytes` is always
 * NUL-terminated when not NULL (the NUL is not counted in `len`). */
#ifndef LW_BASE_BUF_H
#define LW_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lw_buf {
    char *bytes; /* owned; NULL: nothing yet */
    size_t len;
    size_t capacity;
    size_t limit;               /* most bytes it may hold; 0: no limit */
    enum lw_error_code failure; /* LW_OK, LW_ERR_NOMEM, _LIMIT, or _IO of a drain */

    /* For output that may be larger than memory; see lw_buf_drain(). */
    bool (*drain)(void *to, const void *bytes, size_t len); /* NULL: nobody takes it */
    void *drain_to;
    size_t drained; /* bytes that were taken */
};

void lw_buf_init(struct lw_buf *buf, size_t limit);
void lw_buf_release(struct lw_buf *buf);
void lw_buf_reset(struct lw_buf *buf); /* empty, keep the memory, clear failure */

void lw_buf_add(struct lw_buf *buf, const void *bytes, size_t len);
void lw_buf_add_text(struct lw_buf *buf, const char *text);
void lw_buf_add_char(struct lw_buf *buf, char c);
void lw_buf_add_repeat(struct lw_buf *buf, char c, size_t count);
void lw_buf_addf(struct lw_buf *buf, const char *format, ...) LW_PRINTF(2, 3);
void lw_buf_addv(struct lw_buf *buf, const char *format, va_list args) LW_PRINTF(2, 0);
/* The shortest text that reads back equal: "0.1", "1e+30", "nan". */
void lw_buf_add_double(struct lw_buf *buf, double value);
void lw_buf_add_decimal(struct lw_buf *buf, uint64_t value); /* digits, no printf */
void lw_buf_add_u32(struct lw_buf *buf, uint32_t value);     /* little-endian */
void lw_buf_add_u64(struct lw_buf *buf, uint64_t value);     /* little-endian */
void lw_buf_add_varint(struct lw_buf *buf, uint64_t value);
void lw_buf_add_zigzag(struct lw_buf *buf, int64_t value);

/* Room for LEN more bytes to be filled in place, or NULL (sticky failure);
 * counted in `len` at once. */
void *lw_buf_extend(struct lw_buf *buf, size_t len);

/* A writer says that what is in BUF will not be looked at or changed any more: if there
 * is much of it and a drain, that takes it, and BUF is empty. A drain that fails has
 * said so elsewhere. */
void lw_buf_drain(struct lw_buf *buf);

bool lw_buf_check(const struct lw_buf *buf, struct lw_error *err) LW_MUST_CHECK;

#endif
