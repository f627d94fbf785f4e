/* gzip, packed in memory: the other half of base/inflate.h. */
#ifndef LW_BASE_DEFLATE_H
#define LW_BASE_DEFLATE_H

#include "base/buf.h"

/* Append the LEN bytes at BYTES to OUT, as one gzip member; a drain takes it in pieces. */
bool lw_deflate(const void *bytes, size_t len, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;

#endif
