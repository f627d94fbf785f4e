/* Segment heads and chunks (format.h): bytes to struct and back, damage passed over.
 * For the rest of src/lap; nobody else needs it. */
#ifndef LW_LAP_CHUNK_H
#define LW_LAP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/varint.h"
#include "lap/format.h"

/* False, with LW_ERR_UNSUPPORTED, for a major version that is too new for us. */
bool lw_lap_check_version(uint64_t major, uint64_t minor, struct lw_error *err)
    LW_MUST_CHECK;

struct lw_segment_head {
    uint16_t major, minor;
    uint32_t flags;
    uint32_t process; /* from 1 */
    uint32_t segment; /* from 1 */
    uint32_t last;    /* the last segment it stands for; `segment` unless joined */
    uint64_t start_ns;
    uint64_t end_ns; /* 0: not sealed */
};

void lw_segment_head_put(const struct lw_segment_head *head, unsigned char *out);
/* One sentence for each thing that can be wrong, LW_ERR_UNSUPPORTED for a newer major
 * version and LW_ERR_FORMAT for the rest; it does not name the file. */
bool lw_segment_head_get(struct lw_segment_head *head, const void *bytes, size_t len,
                         struct lw_error *err) LW_MUST_CHECK;

/* "p0001-000002.seg" into OUT (at least LW_SEGMENT_NAME_BYTES), and back. */
#define LW_SEGMENT_NAME_BYTES 32
void lw_segment_name(uint32_t process, uint32_t segment, char *out);
bool lw_segment_parse_name(const char *name, uint32_t *process, uint32_t *segment);

struct lw_chunk {
    uint16_t kind;
    uint8_t codec;
    uint32_t stored_bytes;
    uint32_t raw_bytes;
    uint32_t rows;
    uint32_t body_crc;
    const unsigned char *head; /* where it lies, head and body; borrowed */
    const unsigned char *body;
};

/* Walks over the whole chunks of a segment. Zero-initialise, then set bytes and len to
 * the segment behind its head. */
struct lw_chunk_walk {
    const unsigned char *bytes;
    size_t len;
    size_t next;            /* offset of what comes next */
    uint64_t damaged_bytes; /* passed over so far because no head was right */
    uint64_t damaged_places;
    bool is_cut; /* at the end: the last bytes are not a whole chunk */
};

/* The next chunk whose head is right and whose body is all there; false at the end. */
bool lw_chunk_next(struct lw_chunk_walk *walk, struct lw_chunk *chunk);

/* Is the body what was written? */
bool lw_chunk_is_whole(const struct lw_chunk *chunk);

/* zstd's state, kept from chunk to chunk. */
struct lw_chunk_coder {
    struct ZSTD_CCtx_s *compressor; /* made when first needed; owned */
    struct ZSTD_DCtx_s *decompressor;
    struct lw_buf raw; /* the last decoded body */
};
void lw_chunk_coder_init(struct lw_chunk_coder *coder);
void lw_chunk_coder_release(struct lw_chunk_coder *coder);

/* Check and decode the body of CHUNK; *BODY is borrowed from the chunk or the coder,
 * until the next call. LW_ERR_FORMAT: it is damaged. */
bool lw_chunk_decode(struct lw_chunk_coder *coder, const struct lw_chunk *chunk,
                     struct lw_cursor *body, struct lw_error *err) LW_MUST_CHECK;

/* Append head and body of a chunk to OUT, whose failure is sticky. The body is LEN
 * bytes, at most LW_CHUNK_BYTES_MAX; compressed at LEVEL when that makes it smaller. */
void lw_chunk_append(struct lw_chunk_coder *coder, enum lw_chunk_kind kind,
                     uint32_t rows, const void *body, size_t len, int level,
                     struct lw_buf *out);

#endif
