/* Sets of time, as intervals: what was busy, and when.
 *
 * Intervals are added in any order; lw_intervals_merge() makes of them a set: sorted,
 * apart from each other, none empty. All but add and merge want sets, and yield them. */
#ifndef LW_ANALYSES_INTERVALS_H
#define LW_ANALYSES_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lw_interval {
    uint64_t start_ns;
    uint64_t end_ns; /* not in it any more */
};

struct lw_intervals {
    struct lw_interval *list; /* owned */
    size_t count;
    size_t capacity;
};

void lw_intervals_release(struct lw_intervals *set); /* zeroed is fine */
bool lw_intervals_add(struct lw_intervals *set, uint64_t start_ns, uint64_t end_ns,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_intervals_merge(struct lw_intervals *set);

uint64_t lw_intervals_total(const struct lw_intervals *set);
/* How much of SET is between the two times. */
uint64_t lw_intervals_within(const struct lw_intervals *set, uint64_t start_ns,
                             uint64_t end_ns);

/* For many questions of one set: put in BEFORE, of as many as there are intervals, how much
 * of SET is before each; then lw_intervals_before() is how much is before TIME_NS. */
void lw_intervals_sum(const struct lw_intervals *set, uint64_t *before);
uint64_t lw_intervals_before(const struct lw_intervals *set, const uint64_t *before,
                             uint64_t time_ns);

/* What is in A and in B, and what is in A but not in B; added to OUT, which is empty. */
bool lw_intervals_intersect(const struct lw_intervals *a, const struct lw_intervals *b,
                            struct lw_intervals *out, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_intervals_subtract(const struct lw_intervals *a, const struct lw_intervals *b,
                           struct lw_intervals *out, struct lw_error *err)
    LW_MUST_CHECK;

#endif
