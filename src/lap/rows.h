/* The columns of a chunk's body: rows in memory to bytes and back.
 *
 * Kinds whose rows are all numbers are described by one table here (rows.c), in the
 * order of format.h; the same table encodes and decodes them. Rows are the model's
 * own structs where it has one, holding the file's numbers. STRINGS and META hold text
 * and have functions of their own. */
#ifndef LW_LAP_ROWS_H
#define LW_LAP_ROWS_H

#include "base/buf.h"
#include "base/varint.h"
#include "lap/format.h"
#include "model/profile.h"

struct lw_thread_row {
    uint32_t number;
    uint32_t name; /* string */
    uint64_t tid;
    uint64_t start_ns;
    uint64_t end_ns;
};

struct lw_counter_row {
    uint64_t time_ns;
    double value;
    uint32_t name; /* string */
};

struct lw_loss_row {
    uint32_t cause; /* string */
    uint32_t unit;  /* string */
    uint64_t count;
};

struct lw_thinned_row {
    uint32_t kind; /* enum lw_chunk_kind */
    uint32_t what; /* enum lw_thinned */
    uint64_t rows;
};

/* What a person calls the rows of a kind: "spans". */
const char *lw_rows_unit(unsigned kind);
/* Bytes of one row in memory; 0: not a kind of numbers. */
size_t lw_rows_size(unsigned kind);

/* Append the body of COUNT rows (at most LW_CHUNK_ROWS_MAX) of KIND: struct lw_frame,
 * lw_stack, lw_thread_row, lw_call_row, lw_sample, lw_span, lw_counter_row, lw_loss_row,
 * lw_thinned_row or lw_origin. LEAD is what comes before the columns: the first number of FRAMES
 * and STACKS, start and end of CALLS and THINNED; NULL for the others. */
void lw_rows_encode(unsigned kind, const uint64_t *lead, const void *rows, size_t count,
                    struct lw_buf *out);
/* ROWS has room for COUNT, which was checked against LW_CHUNK_ROWS_MAX. False: the
 * bytes do not hold that, or a number is too large for its field. */
bool lw_rows_decode(unsigned kind, struct lw_cursor *body, size_t count,
                    uint64_t lead[2], void *rows) LW_MUST_CHECK;

/* Strings with consecutive numbers on their way into a chunk. Zero-initialise. */
struct lw_string_batch {
    uint64_t first; /* number of the first; set when the batch is empty */
    uint32_t count;
    struct lw_buf lengths;
    struct lw_buf bytes;
};
void lw_string_batch_release(struct lw_string_batch *batch);
void lw_string_batch_add(struct lw_string_batch *batch, const char *text, size_t len);
bool lw_string_batch_is_full(const struct lw_string_batch *batch);
/* Append the body to OUT (which gets the batch's failure too) and empty the batch; the
 * next first number is the one after the last. */
void lw_string_batch_encode(struct lw_string_batch *batch, struct lw_buf *out);

/* Walks over the texts of a STRINGS body of COUNT rows, which are borrowed from it. */
struct lw_string_walk {
    uint64_t first; /* number of the first string */
    struct lw_cursor lengths;
    const char *bytes; /* of the next string */
};
bool lw_string_walk_start(struct lw_string_walk *walk, struct lw_cursor *body,
                          size_t count) LW_MUST_CHECK; /* false: damaged */
/* The next string, not NUL-terminated; call it COUNT times. */
const char *lw_string_walk_next(struct lw_string_walk *walk, size_t *len);

void lw_rows_encode_pair(const char *key, const char *value, size_t value_len,
                         struct lw_buf *out);
/* The next pair of a META body, borrowed, not NUL-terminated; false: damaged. */
bool lw_rows_next_pair(struct lw_cursor *body, const char **key, size_t *key_len,
                       const char **value, size_t *value_len) LW_MUST_CHECK;

#endif
