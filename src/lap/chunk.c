/* Segment heads and chunks: the only place that knows at which byte each field lies. */

#include "lap/chunk.h"

#include <stdio.h>
#include <string.h>

/* For the contexts with an allocator of our own; stable in practice since 1.3. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "base/alloc.h"
#include "base/checksum.h"
#include "base/text.h"

/* Below this zstd gains nothing on columns of varints: its own frame costs 12 bytes. */
#define WORTH_COMPRESSING 96

static void put_u16(unsigned char *out, uint32_t value)
{
    out[0] = (unsigned char)value;
    out[1] = (unsigned char)(value >> 8);
}

static void put_u32(unsigned char *out, uint32_t value)
{
    put_u16(out, value);
    put_u16(out + 2, value >> 16);
}

static void put_u64(unsigned char *out, uint64_t value)
{
    put_u32(out, (uint32_t)value);
    put_u32(out + 4, (uint32_t)(value >> 32));
}

static uint16_t get_u16(const unsigned char *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t get_u32(const unsigned char *bytes)
{
    return get_u16(bytes) | (uint32_t)get_u16(bytes + 2) << 16;
}

static uint64_t get_u64(const unsigned char *bytes)
{
    return get_u32(bytes) | (uint64_t)get_u32(bytes + 4) << 32;
}

bool lw_lap_check_version(uint64_t major, uint64_t minor, struct lw_error *err)
{
    if (major <= LW_LAP_MAJOR)
        return true;
    return lw_fail(
        err, LW_ERR_UNSUPPORTED,
        "recorded by a newer Lapwing (format %llu.%llu, this one reads up to "
        "%d): please update lapwing",
        (unsigned long long)major, (unsigned long long)minor, LW_LAP_MAJOR);
}

void lw_segment_head_put(const struct lw_segment_head *head, unsigned char *out)
{
    memset(out, 0, LW_SEGMENT_HEAD_BYTES);
    memcpy(out, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES);
    put_u16(out + 8, head->major);
    put_u16(out + 10, head->minor);
    put_u32(out + 12, head->flags);
    put_u32(out + 16, head->process);
    put_u32(out + 20, head->segment);
    put_u32(out + 24, head->last);
    put_u64(out + 32, head->start_ns);
    put_u64(out + 40, head->end_ns);
    put_u32(out + 60, lw_crc32c(0, out, 60));
}

bool lw_segment_head_get(struct lw_segment_head *head, const void *bytes, size_t len,
                         struct lw_error *err)
{
    const unsigned char *in = bytes;

    if (len < LW_SEGMENT_MAGIC_BYTES ||
        memcmp(in, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES) != 0)
        return lw_fail(err, LW_ERR_FORMAT, "not a segment of a Lapwing recording");
    if (len < LW_SEGMENT_HEAD_BYTES)
        return lw_fail(err, LW_ERR_FORMAT, "ends within the head of the segment");
    if (lw_crc32c(0, in, 60) != get_u32(in + 60))
        return lw_fail(err, LW_ERR_FORMAT, "the head of the segment is damaged");
    head->major = get_u16(in + 8);
    head->minor = get_u16(in + 10);
    if (!lw_lap_check_version(head->major, head->minor, err))
        return false;
    head->flags = get_u32(in + 12);
    head->process = get_u32(in + 16);
    head->segment = get_u32(in + 20);
    head->last = get_u32(in + 24);
    head->start_ns = get_u64(in + 32);
    head->end_ns = get_u64(in + 40);
    if (head->last < head->segment)
        return lw_fail(err, LW_ERR_FORMAT, "the head of the segment is damaged");
    return true;
}

void lw_segment_name(uint32_t process, uint32_t segment, char *out)
{
    snprintf(out, LW_SEGMENT_NAME_BYTES, "p%04u-%06u" LW_SEGMENT_SUFFIX, process,
             segment);
}

bool lw_segment_parse_name(const char *name, uint32_t *process, uint32_t *segment)
{
    const char *dash = strchr(name, '-');
    uint64_t p, s;

    if (name[0] != 'p' || !dash || !lw_text_ends(dash, LW_SEGMENT_SUFFIX) ||
        !lw_text_u64(name + 1, (size_t)(dash - name) - 1, &p) ||
        !lw_text_u64(dash + 1, strlen(dash + 1) - strlen(LW_SEGMENT_SUFFIX), &s) ||
        p == 0 || p > UINT32_MAX || s == 0 || s > UINT32_MAX)
        return false;
    *process = (uint32_t)p;
    *segment = (uint32_t)s;
    return true;
}

/* Is there a chunk at AT, whole? */
static bool chunk_at(const struct lw_chunk_walk *walk, size_t at,
                     struct lw_chunk *chunk)
{
    const unsigned char *head = walk->bytes + at;
    size_t left = walk->len - at;

    if (left < LW_CHUNK_HEAD_BYTES ||
        memcmp(head, LW_CHUNK_SYNC, LW_CHUNK_SYNC_BYTES) != 0 ||
        lw_crc32c(0, head, 24) != get_u32(head + 24))
        return false;
    chunk->kind = get_u16(head + 4);
    chunk->codec = head[6];
    chunk->stored_bytes = get_u32(head + 8);
    chunk->raw_bytes = get_u32(head + 12);
    chunk->rows = get_u32(head + 16);
    chunk->body_crc = get_u32(head + 20);
    chunk->head = head;
    chunk->body = head + LW_CHUNK_HEAD_BYTES;
    return chunk->stored_bytes <= left - LW_CHUNK_HEAD_BYTES;
}

bool lw_chunk_next(struct lw_chunk_walk *walk, struct lw_chunk *chunk)
{
    size_t at = walk->next;

    while (at < walk->len && !chunk_at(walk, at, chunk)) {
        const unsigned char *sync = NULL;

        if (at + 1 < walk->len)
            sync = memmem(walk->bytes + at + 1, walk->len - at - 1, LW_CHUNK_SYNC,
                          LW_CHUNK_SYNC_BYTES);
        at = sync ? (size_t)(sync - walk->bytes) : walk->len;
    }
    if (at > walk->next) {
        walk->damaged_bytes += at - walk->next;
        walk->damaged_places++;
        walk->is_cut = at == walk->len;
    }
    walk->next = at;
    if (at == walk->len)
        return false;
    walk->next += LW_CHUNK_HEAD_BYTES + chunk->stored_bytes;
    return true;
}

bool lw_chunk_is_whole(const struct lw_chunk *chunk)
{
    return lw_crc32c(0, chunk->body, chunk->stored_bytes) == chunk->body_crc;
}

static void *zstd_alloc(void *unused, size_t size)
{
    (void)unused;
    return lw_alloc(size, NULL);
}

static void zstd_free(void *unused, void *memory)
{
    (void)unused;
    lw_free(memory);
}

static const ZSTD_customMem our_memory = { zstd_alloc, zstd_free, NULL };

void lw_chunk_coder_init(struct lw_chunk_coder *coder)
{
    memset(coder, 0, sizeof(*coder));
    lw_buf_init(&coder->raw, LW_CHUNK_BYTES_MAX);
}

void lw_chunk_coder_release(struct lw_chunk_coder *coder)
{
    ZSTD_freeCCtx(coder->compressor);
    ZSTD_freeDCtx(coder->decompressor);
    lw_buf_release(&coder->raw);
    lw_chunk_coder_init(coder);
}

bool lw_chunk_decode(struct lw_chunk_coder *coder, const struct lw_chunk *chunk,
                     struct lw_cursor *body, struct lw_error *err)
{
    size_t len = chunk->raw_bytes;
    void *room;

    if (len > LW_CHUNK_BYTES_MAX || chunk->stored_bytes > LW_CHUNK_BYTES_MAX ||
        chunk->rows > LW_CHUNK_ROWS_MAX || !lw_chunk_is_whole(chunk))
        return lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
    if (chunk->codec == LW_CODEC_NONE) {
        *body = lw_cursor_make(chunk->body, chunk->stored_bytes);
        return true;
    }
    if (chunk->codec != LW_CODEC_ZSTD)
        return lw_fail(err, LW_ERR_FORMAT, "a chunk is packed in an unknown way");

    if (!coder->decompressor)
        coder->decompressor = ZSTD_createDCtx_advanced(our_memory);
    lw_buf_reset(&coder->raw);
    room = lw_buf_extend(&coder->raw, len);
    if (!coder->decompressor || !room)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory to decode a chunk");
    if (ZSTD_decompressDCtx(coder->decompressor, room, len, chunk->body,
                            chunk->stored_bytes) != len)
        return lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
    *body = lw_cursor_make(room, len);
    return true;
}

/* The compressed body behind the head at HEAD_AT, or 0: it is not worth it. */
static size_t compress(struct lw_chunk_coder *coder, const void *body, size_t len,
                       int level, struct lw_buf *out)
{
    void *room;
    size_t n;

    if (len < WORTH_COMPRESSING)
        return 0;
    if (!coder->compressor)
        coder->compressor = ZSTD_createCCtx_advanced(our_memory);
    if (!coder->compressor)
        return 0; /* no memory: it will do as it is */
    room = lw_buf_extend(out, len);
    if (!room)
        return 0;
    n = ZSTD_compressCCtx(coder->compressor, room, len, body, len, level);
    out->len -= len;
    return ZSTD_isError(n) || n >= len ? 0 : n;
}

void lw_chunk_append(struct lw_chunk_coder *coder, enum lw_chunk_kind kind,
                     uint32_t rows, const void *body, size_t len, int level,
                     struct lw_buf *out)
{
    size_t head_at = out->len, stored;
    unsigned char *head;

    lw_assert(len <= LW_CHUNK_BYTES_MAX && rows <= LW_CHUNK_ROWS_MAX);
    if (!lw_buf_extend(out, LW_CHUNK_HEAD_BYTES))
        return;
    stored = compress(coder, body, len, level, out);
    if (stored)
        out->len += stored;
    else
        lw_buf_add(out, body, len);
    if (out->failure)
        return;

    head = (unsigned char *)out->bytes + head_at;
    memset(head, 0, LW_CHUNK_HEAD_BYTES);
    memcpy(head, LW_CHUNK_SYNC, LW_CHUNK_SYNC_BYTES);
    put_u16(head + 4, kind);
    head[6] = stored ? LW_CODEC_ZSTD : LW_CODEC_NONE;
    put_u32(head + 8, (uint32_t)(stored ? stored : len));
    put_u32(head + 12, (uint32_t)len);
    put_u32(head + 16, rows);
    put_u32(head + 20, lw_crc32c(0, head + LW_CHUNK_HEAD_BYTES, stored ? stored : len));
    put_u32(head + 24, lw_crc32c(0, head, 24));
}
