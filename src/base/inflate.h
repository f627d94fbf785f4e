/* gzip, unpacked in memory at the speed of memory.
 *
 * What comes out is bounded, whatever a file says of itself: LW_INFLATE_RATIO times its
 * size and LW_INFLATE_FREE_BYTES, and never more than LW_INFLATE_MAX_BYTES. Traces and
 * profiles shrink to a tenth or a fiftieth; deflate can do 1:1032, which is a bomb. */
#ifndef LW_BASE_INFLATE_H
#define LW_BASE_INFLATE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/gzip.h"

#define LW_INFLATE_RATIO ((size_t)256)
#define LW_INFLATE_FREE_BYTES ((size_t)64 << 20)
#define LW_INFLATE_MAX_BYTES ((size_t)4 << 30) /* as for what comes through a pipe */

bool lw_inflate_is_gzip(const void *bytes, size_t len);

/* Append to OUT what the LEN bytes at BYTES hold: one gzip member or several; zeros
 * behind the last are passed over, as gzip does. Checksums are checked. */
bool lw_inflate(const void *bytes, size_t len, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;

/* The first bytes of it, at most *HEAD_LEN, which is set to how many there are. BYTES
 * may end anywhere. 0: there are none that could be had. */
void lw_inflate_head(const void *bytes, size_t len, void *head, size_t *head_len);

/* The sentence of a STEP that failed at byte AT of what is packed; returns false. */
bool lw_inflate_fail(uint64_t at, enum lw_gzip_step step, struct lw_error *err);

#endif
