/* The bytes of a file from its beginning to its end, through a window that slides.
 *
 *     before        window                      len
 *     |  gone  |  bytes that are here  | NULs ... |  not read yet
 *
 * A file, a pipe or bytes in memory; what is compressed with gzip is unpacked on the way,
 * within the limits of base/inflate.h. Memory is as large as the longest piece that the
 * caller keeps, whatever the size of the file.
 *
 * Behind the window lie LW_STREAM_PADDING zero bytes, so that a scan may stop at a NUL and
 * look at 16 bytes at once without asking where the end is. */
#ifndef LW_BASE_STREAM_H
#define LW_BASE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LW_STREAM_PADDING 64
#define LW_STREAM_PACKED 20 /* traces shrink to a tenth or a fiftieth */

struct lw_gzip;

struct lw_stream {
    char *window; /* owned */
    size_t len;
    size_t capacity; /* without the padding */
    uint64_t before; /* how many bytes have left the window */
    bool is_at_end;  /* nothing follows what is in the window */
    bool is_gzip;
    struct lw_error
        damage; /* why gzip ended early, if it did: what came before is good */

    int fd; /* owned, if has_fd; else bytes in memory */
    bool has_fd;
    const unsigned char *memory; /* borrowed: what is still to be taken */
    size_t memory_len;
    const struct lw_gzip *gzip;
    void *unpacker;
    unsigned char *packed; /* owned: read, but not unpacked yet, from packed_at on */
    size_t packed_at, packed_len;
    uint64_t packed_bytes; /* that were unpacked so far */
};

/* Open PATH, which sentences call NAME, and fill the window for the first time. Zeroed
 * memory may be closed. */
bool lw_stream_open(struct lw_stream *stream, const char *path, const char *name,
                    struct lw_error *err) LW_MUST_CHECK;
/* The same of bytes in memory, borrowed until close. PIECE_BYTES are taken at a time, for
 * tests; 0: as many as of a file. */
bool lw_stream_open_bytes(struct lw_stream *stream, const void *bytes, size_t len,
                          size_t piece_bytes, struct lw_error *err) LW_MUST_CHECK;
void lw_stream_close(struct lw_stream *stream);

/* About how many bytes come through the window in all; 0: that cannot be told, of a pipe.
 * What is packed is taken to be LW_STREAM_PACKED times as long. */
uint64_t lw_stream_expected(const struct lw_stream *stream);

/* Let go of the first KEEP_FROM bytes of the window and put more behind the rest. Not at
 * the end. Pointers into the window are void. */
bool lw_stream_slide(struct lw_stream *stream, size_t keep_from, struct lw_error *err)
    LW_MUST_CHECK;

#endif
