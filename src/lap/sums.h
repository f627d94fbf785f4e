/* Adds up calls or samples by (thread, stack, state): what a long series of small
 * deltas comes to. The reader, the writer, sealing and thinning all need just that. */
#ifndef LW_LAP_SUMS_H
#define LW_LAP_SUMS_H

#include "model/profile.h"

struct lw_sum {
    uint32_t thread;
    lw_stack_id stack;
    uint8_t state;
    uint64_t first_ns; /* the least time given with it */
    uint64_t count;
    uint64_t ns;
};

#define LW_SUMS_RECENT 64 /* threads that are remembered; a power of two */

struct lw_sum_slot {
    uint64_t key;    /* thread, state and stack */
    uint32_t number; /* of the row, plus 1; 0: empty */
};

struct lw_sums {
    struct lw_sum *rows; /* owned; in order of first adding */
    size_t count, capacity;
    struct lw_sum_slot *slots; /* owned; a power of two of them, at most half in use */
    size_t slot_count;
    uint32_t recent[LW_SUMS_RECENT]; /* by thread: number of the row it last had */
};

void lw_sums_init(struct lw_sums *sums);
void lw_sums_release(struct lw_sums *sums);
void lw_sums_reset(struct lw_sums *sums);

/* Add ROW's count and ns. Fails for memory, or LW_ERR_LIMIT beyond 2^24 threads or 2^31
 * rows; then nothing was added. */
bool lw_sums_add(struct lw_sums *sums, const struct lw_sum *row, struct lw_error *err)
    LW_MUST_CHECK;
/* Order by thread, state, stack, which compresses best; no adding after that. */
void lw_sums_sort(struct lw_sums *sums);

#endif
