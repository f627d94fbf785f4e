/* The series of segments of one process on its way into a builder. For reader.c. */
#ifndef LW_LAP_SERIES_H
#define LW_LAP_SERIES_H

#include "lap/chunk.h"
#include "lap/rows.h"
#include "lap/sums.h"
#include "model/builder.h"

/* What the builder calls the file's numbers from `first` on. */
struct lw_id_range {
    uint32_t first;
    uint32_t count;
    uint32_t start; /* of its ids in `ids` */
};

/* From the file's numbers to the builder's. Without damage it is one range; every gap
 * (a chunk that could not be read) begins another, so that a hostile first number costs
 * nothing. */
struct lw_id_map {
    struct lw_id_range *ranges; /* owned; ascending */
    size_t range_count, range_capacity;
    uint32_t *ids; /* owned; LW_NONE: what it needs could not be read */
    size_t id_count, id_capacity;
};

struct lw_series {
    struct lw_builder *out; /* borrowed */
    unsigned want;          /* enum lw_want */
    uint64_t row_limit;     /* of each kind */
    uint32_t process;       /* index in the builder */
    struct lw_process about;
    bool has_c_calls;
    uint64_t last_ns; /* latest time seen */

    struct lw_id_map strings, frames, stacks;
    uint32_t *threads; /* owned; builder's index of each number, or LW_NONE */
    size_t thread_count, thread_capacity;
    struct lw_sums samples; /* for LW_WANT_SAMPLE_SUMS */
    bool has_sums; /* of the segment at hand: its samples are added up already */

    uint64_t rows[LW_CHUNK_KINDS];     /* taken so far */
    uint64_t damaged[LW_CHUNK_KINDS];  /* rows of chunks that could not be read */
    uint64_t nameless[LW_CHUNK_KINDS]; /* rows whose stack or thread could not be */
    uint64_t damaged_bytes;            /* where there was no chunk at all */
    uint64_t thinned[LW_CHUNK_KINDS];
    uint64_t thinned_start_ns, thinned_end_ns; /* end 0: nothing was thinned */

    struct lw_chunk_coder coder;
    void *decoded; /* rows of the chunk at hand; owned */
    size_t decoded_capacity;
};

/* Adds the process to OUT, with nothing known of it yet. */
bool lw_series_start(struct lw_series *series, struct lw_builder *out, unsigned want,
                     struct lw_error *err) LW_MUST_CHECK;
/* The chunks behind a segment's head. What is damaged is counted, not a failure.
 * IS_GROWING: a chunk that is not whole at the end is being written just now. */
bool lw_series_read(struct lw_series *series, const unsigned char *bytes, size_t len,
                    bool is_growing, struct lw_error *err) LW_MUST_CHECK;
/* Add what is known at the end only: the process, sums, losses. START_NS is the run's,
 * or 0, to tell when something was thinned. */
bool lw_series_finish(struct lw_series *series, uint64_t start_ns, struct lw_error *err)
    LW_MUST_CHECK;
void lw_series_release(struct lw_series *series);

#endif
