/* From an agent's ticks to nanoseconds of CLOCK_MONOTONIC.
 *
 * The agent stamps with the TSC where it is invariant, because reading it takes a few
 * nanoseconds and asking the system takes twenty. How fast it ticks is measured, not
 * asked for: at each look the recorder reads both clocks at once (an anchor), and
 * between two anchors time runs in a straight line. A tick therefore means the same
 * nanosecond whenever it is converted, so a span read a minute after its children
 * still encloses them.
 *
 * A counter may still jump: a machine that was suspended may start it from 0, one that was
 * moved to another host may find another value in it. Then an era ends, and the next one
 * has lines of its own. A moment belongs to the newest era in which it can have been. */
#ifndef LW_RECORDER_CALIBRATION_H
#define LW_RECORDER_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw_anchor {
    uint64_t ticks;
    uint64_t ns;
};

/* Three minutes of looks, 50 ms apart; older ones are thinned out. */
#define LW_ANCHORS_MAX 4096

/* What is kept of an era when the counter has jumped: one line. */
struct lw_era {
    struct lw_anchor first, last;
    double ns_per_tick;
    uint64_t gap_ns; /* from the last anchor before the era to its first one */
};

/* A machine that is suspended more often during one step than this has a time for the
 * last ones only. */
#define LW_ERAS_MAX 8

struct lw_calibration {
    struct lw_anchor anchors[LW_ANCHORS_MAX]; /* of this era; growing in both clocks */
    size_t count;                             /* at least 1 after init */
    double ns_per_tick; /* of this era; while it is short, of the one before */
    bool is_rate_known; /* else ns_per_tick means nothing yet */
    uint64_t gap_ns;    /* as in struct lw_era */
    struct lw_era past[LW_ERAS_MAX]; /* the oldest first */
    size_t past_count;
    uint64_t jump_count; /* how often the counter has jumped so far */
    uint64_t jump_ticks; /* by how much in all, modulo 2^64 */
};

void lw_calibration_init(struct lw_calibration *c); /* takes the first anchor */
/* Take an anchor now; before converting ticks that were stamped since the last. */
void lw_calibration_look(struct lw_calibration *c);
/* What lw_calibration_look() does with the anchor; apart for tests. One that is not newer
 * than the last is ignored. One that the counter should not have reached yet, or should
 * have passed, begins an era. */
void lw_calibration_add_anchor(struct lw_calibration *c, struct lw_anchor anchor);

/* CLOCK is enum lw_agent_clock; the ticks of a nanosecond clock stay as they are. */
uint64_t lw_calibration_now(uint32_t clock);
uint64_t lw_calibration_ns(const struct lw_calibration *c, uint32_t clock,
                           uint64_t moment);
/* Was the counter at MOMENT before it jumped for the last time? */
bool lw_calibration_is_past(const struct lw_calibration *c, uint32_t clock,
                            uint64_t moment);
/* How long DURATION ticks are. */
uint64_t lw_calibration_span_ns(const struct lw_calibration *c, uint32_t clock,
                                uint64_t duration);

#endif
