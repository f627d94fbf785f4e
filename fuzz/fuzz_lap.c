/* Any bytes as a segment of a recording, or as a packed run.
 *
 * Checksums would stop nearly every mutation at the door, so the mutator puts them
 * right again: those of a segment's head and its chunks, and those of tar headers and
 * the segments behind them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "lap/format.h"
#include "lap/reader.h"
#include "model/op_links.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t len, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t len, size_t most);

static void finish(struct lw_builder *builder)
{
    struct lw_profile *profile = lw_builder_finish(builder, NULL);
    struct lw_op_links links = { 0 };

    if (profile && !lw_op_links_init(&links, profile, NULL))
        abort();
    lw_op_links_release(&links);
    lw_profile_free(profile);
}

static void read_as_segment(const uint8_t *bytes, size_t len, unsigned want)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_error err;

    if (!lw_lap_read_segment(bytes, len, "fuzz.seg", want, builder, &err) &&
        !err.text[0])
        abort();
    finish(builder);
}

static void read_as_pack(const uint8_t *bytes, size_t len, unsigned want)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_error err;
    struct lw_run run;

    if (!(lw_run_open_bytes(&run, bytes, len, "fuzz.lapz", &err) &&
          lw_lap_read(&run, want, builder, &err)) &&
        !err.text[0])
        abort();
    lw_run_close(&run);
    finish(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const unsigned wants[] = { LW_WANT_ALL | LW_WANT_ORIGINS,
                                      LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS };
    unsigned want = wants[len % 2];

    if (len >= 8 && memcmp(bytes, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES) == 0)
        read_as_segment(bytes, len, want);
    else
        read_as_pack(bytes, len, want);
    return 0;
}

static void put_u32(uint8_t *out, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *in)
{
    return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* Wherever a sync is, there is a chunk; if it is too long it is made to fit. */
static void mend_segment(uint8_t *bytes, size_t len)
{
    if (len < LW_SEGMENT_HEAD_BYTES)
        return;
    memcpy(bytes, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES);
    put_u32(bytes + 60, lw_crc32c(0, bytes, 60));
    for (size_t at = LW_SEGMENT_HEAD_BYTES; at + LW_CHUNK_HEAD_BYTES <= len; at++) {
        uint8_t *head = bytes + at;
        size_t left = len - at - LW_CHUNK_HEAD_BYTES;
        uint32_t stored;

        if (memcmp(head, LW_CHUNK_SYNC, LW_CHUNK_SYNC_BYTES) != 0)
            continue;
        stored = get_u32(head + 8);
        if (stored > left) {
            stored = (uint32_t)left;
            put_u32(head + 8, stored);
        }
        put_u32(head + 20, lw_crc32c(0, head + LW_CHUNK_HEAD_BYTES, stored));
        put_u32(head + 24, lw_crc32c(0, head, 24));
        at += LW_CHUNK_HEAD_BYTES + stored - 1;
    }
}

static void mend_pack(uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + 512 <= len; at += 512) {
        uint8_t *header = bytes + at;

        if (memcmp(header + 257, "ustar", 5) == 0) {
            unsigned sum = 0;

            memset(header + 148, ' ', 8);
            for (unsigned i = 0; i < 512; i++)
                sum += header[i];
            for (unsigned i = 0; i < 6; i++)
                header[148 + i] = (uint8_t)('0' + (sum >> (3 * (5 - i)) & 7));
        } else if (memcmp(header, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES) == 0) {
            size_t end = at + 512;

            while (end + 512 <= len && memcmp(bytes + end + 257, "ustar", 5) != 0)
                end += 512;
            mend_segment(header, end - at);
        }
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t len, size_t most, unsigned seed)
{
    len = LLVMFuzzerMutate(bytes, len, most);
    if (seed % 8 == 0)
        return len; /* also with wrong checksums, now and then */
    if (len >= 512 && memcmp(bytes + 257, "ustar", 5) == 0)
        mend_pack(bytes, len);
    else
        mend_segment(bytes, len);
    return len;
}
