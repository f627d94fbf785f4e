/* Rows to chunks in a buffer; what the writer and the rewriting of segments share. */
#ifndef LW_LAP_EMIT_H
#define LW_LAP_EMIT_H

#include "lap/chunk.h"
#include "lap/rows.h"
#include "lap/sums.h"

struct lw_emit {
    struct lw_chunk_coder coder;
    struct lw_string_batch strings;
    struct lw_buf body; /* of the chunk being made */
    struct lw_buf out;  /* whole chunks; its failure is checked once, at the end */
    void *rows;         /* a chunk's worth of rows made from sums; owned */
    size_t rows_capacity;
    size_t pairs; /* of META in `body` */
    int level;    /* of zstd */
};

void lw_emit_init(struct lw_emit *emit, int level);
void lw_emit_release(struct lw_emit *emit);

/* As many chunks as it takes for COUNT rows; see lw_rows_encode(). */
void lw_emit_rows(struct lw_emit *emit, enum lw_chunk_kind kind, const uint64_t *lead,
                  const void *rows, size_t count);
/* One string; chunks are made when there is enough, and when lw_emit_strings is called.
 * NUMBER need not follow the one before. */
void lw_emit_string(struct lw_emit *emit, uint64_t number, const char *text,
                    size_t len);
void lw_emit_strings(struct lw_emit *emit);
/* META, one pair at a time, made into a chunk when lw_emit_pairs is called. Nothing else
 * may be emitted in between. */
void lw_emit_pair(struct lw_emit *emit, const char *key, const char *value, size_t len);
void lw_emit_pairs(struct lw_emit *emit);
/* CALLS between START_NS and END_NS; rows of nothing are left out. */
void lw_emit_calls(struct lw_emit *emit, const struct lw_sums *sums, uint64_t start_ns,
                   uint64_t end_ns);
/* One sample for each sum. */
void lw_emit_sample_sums(struct lw_emit *emit, const struct lw_sums *sums);

#endif
