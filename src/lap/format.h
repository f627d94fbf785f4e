/* The bytes of a recording, drawn. docs/format.md says the same for people who write
 * their own reader; what is decided here is only here.
 *
 * A run is a folder. Each process in it has a series of numbered segments, and a
 * segment is a head and then chunks, one behind the other, up to the end of the file:
 *
 *     NAME.lap/run.json               what ran, where, when (run.h)
 *     NAME.lap/p0001-000001.seg       process 1, segment 1
 *     NAME.lap/p0001-000002.seg
 *     NAME.lap/p0002-000001.seg
 *
 *     segment:  +--------+ +-------+ +-------+ +-------+
 *               | head   | | chunk | | chunk | | chunk | ...
 *               +--------+ +-------+ +-------+ +-------+
 *
 *     head, 64 bytes                          chunk, 28 bytes and the body
 *      0  8  magic 89 'L' 'A' 'P' 0d 0a 1a 0a    0  4  sync f5 'l' 'w' c1
 *      8  2  major version                       4  2  kind
 *     10  2  minor version                       6  1  codec: 0 none, 1 zstd
 *     12  4  flags (LW_SEGMENT_*)                7  1  zero
 *     16  4  process number, from 1              8  4  bytes of the body in the file
 *     20  4  segment number, from 1             12  4  bytes of the body decoded
 *     24  4  last segment number it covers      16  4  rows in the body
 *     28  4  zero                               20  4  CRC-32C of the body in the file
 *     32  8  start of its time, ns              24  4  CRC-32C of bytes 0 to 23
 *     40  8  end of its time, ns; 0: open       28     the body
 *     48 12  zero
 *     60  4  CRC-32C of bytes 0 to 59
 *
 * All integers are little-endian. Times are CLOCK_MONOTONIC. A chunk's head has a
 * checksum of its own, so that its length can be trusted and a body nobody wants is
 * passed over unread. Where a head is wrong, the reader looks for the next sync whose
 * head is right; f5 and c1 never occur in UTF-8, so no text looks like one.
 *
 * Rows name strings, frames, stacks and threads by number. The numbers go on through
 * all segments of a process, and the chunk that gives a number its meaning comes before
 * the first chunk that uses it. Each such chunk says its first number, so that a
 * damaged one costs the rows that need it and never gives a row a wrong name.
 *
 * A body is columns: all values of the first field, then all of the second, and so on.
 * `varint` is unsigned LEB128, `signed` a zigzag varint, and `step` a signed difference
 * to the value of the row before (to 0 in the first row).
 *
 *     META      for each row: varint length, key bytes, varint length, value bytes
 *     STRINGS   varint first number; lengths (varint); all bytes
 *     FRAMES    varint first number; name, file (step, strings); first line (step);
 *               line (step); variant (varint); kind (varint, enum lw_frame_kind);
 *               column, end column, lines between them (varint)
 *     STACKS    varint first number; number - parent (varint, at least 1);
 *               frame (step)
 *     THREADS   number (varint); tid (varint); name (varint); start, end (varint, ns)
 *     CALLS     varint start, varint end of the window, ns; thread (step);
 *               stack (step); calls (varint); self time (varint, ns)
 *     SAMPLES   time (step, ns); weight (varint, ns); thread (step); stack (step);
 *               state (varint, enum lw_sample_state)
 *     SPANS     start (step, ns); duration (varint, ns); thread (step); stack (step)
 *     COUNTERS  time (step, ns); name (varint, a string); value (8 bytes, a double)
 *     LOSSES    cause, unit (varint, strings); count (varint)
 *     THINNED   varint start, varint end of the window, ns; one row a kind of thing:
 *               kind of chunk (varint); what became of it (varint, enum lw_thinned);
 *               rows there were (varint)
 *     ORIGINS   start of an op's span (step, ns); its thread (step); the thread of the
 *               forward op as torch counts (step); sequence number (step); function
 *               whose line asked for it (varint, a frame); the line (varint); 1: it is
 *               a node of the backward pass (varint)
 *
 * CALLS are what was added in the window, so a reader adds them all up. THREADS rows
 * replace what was said of that number before; META rows that of that key. LOSSES add up.
 *
 * Versions: a reader refuses a larger major version. A larger minor version may bring
 * kinds of chunks (passed over), columns behind those known (ignored), META keys and
 * flags. Bytes said to be zero are written as zero and ignored. */
#ifndef LW_LAP_FORMAT_H
#define LW_LAP_FORMAT_H

#define LW_LAP_MAJOR 1
#define LW_LAP_MINOR 0

#define LW_SEGMENT_MAGIC "\x89LAP\r\n\x1a\n"
#define LW_SEGMENT_MAGIC_BYTES 8
#define LW_SEGMENT_HEAD_BYTES 64
#define LW_SEGMENT_SUFFIX ".seg"

/* Nobody writes to the file any more; it can only be replaced as a whole. */
#define LW_SEGMENT_SEALED 1u
#define LW_SEGMENT_THINNED 2u /* only sums are left of its samples, and no spans */

#define LW_CHUNK_SYNC "\xf5lw\xc1"
#define LW_CHUNK_SYNC_BYTES 4
#define LW_CHUNK_HEAD_BYTES 28

/* Bounds that make a chunk cheap to hold in memory, whatever a file claims: readers
 * call anything larger damaged. The writer stays well below the first. */
#define LW_CHUNK_BYTES_MAX (4u << 20) /* of a body, in the file and decoded */
#define LW_CHUNK_ROWS_MAX (1u << 16)

#define LW_LAP_TEXT_MAX 65535u        /* bytes of one string; longer ones are cut */
#define LW_LAP_THREADS_MAX (1u << 20) /* thread numbers in one process */

enum lw_chunk_kind {
    LW_CHUNK_META = 1,
    LW_CHUNK_STRINGS = 2,
    LW_CHUNK_FRAMES = 3,
    LW_CHUNK_STACKS = 4,
    LW_CHUNK_THREADS = 5,
    LW_CHUNK_CALLS = 6,
    LW_CHUNK_SAMPLES = 7,
    LW_CHUNK_SPANS = 8,
    LW_CHUNK_COUNTERS = 9,
    LW_CHUNK_LOSSES = 10,
    LW_CHUNK_THINNED = 11,
    LW_CHUNK_ORIGINS = 12,
    LW_CHUNK_KINDS = 13, /* one more than the last */
};

enum lw_chunk_codec {
    LW_CODEC_NONE = 0,
    LW_CODEC_ZSTD = 1,
};

/* What thinning did to the rows of a kind. */
enum lw_thinned {
    LW_THINNED_DROPPED = 0,
    LW_THINNED_SUMMED = 1, /* added up by thread, stack and state; times are lost */
};

#endif
