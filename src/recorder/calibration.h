/* From an agent's ticks to nanoseconds of CLOCK_MONOTONIC.
 *
 * The agent stamps with the TSC where it is invariant, because reading it takes a few
 * nanoseconds and asking the system takes twenty. How fast it ticks is measured, not
 * asked for: at each look the recorder reads both clocks at once (an anchor), and
 * between two anchors time runs in a straight line. A tick therefore means the same
 * nanosecond whenever it is converted, so a span read a minute after its children
 * still encloses them. */
#ifndef LW_RECORDER_CALIBRATION_H
#define LW_RECORDER_CALIBRATION_H

#include <stddef.h>
#include <stdint.h>

struct lw_anchor {
    uint64_t ticks;
    uint64_t ns;
};

/* Three minutes of looks, 50 ms apart; older ones are thinned out. */
#define LW_ANCHORS_MAX 4096

struct lw_calibration {
    struct lw_anchor anchors[LW_ANCHORS_MAX]; /* growing in both clocks */
    size_t count;                             /* at least 1 after init */
    double ns_per_tick; /* between the first and the last anchor */
};

void lw_calibration_init(struct lw_calibration *c); /* takes the first anchor */
/* Take an anchor now; before converting ticks that were stamped since the last. */
void lw_calibration_look(struct lw_calibration *c);
/* What lw_calibration_look() does with the anchor; apart for tests. Both must have grown,
 * else it is ignored. */
void lw_calibration_add_anchor(struct lw_calibration *c, struct lw_anchor anchor);

/* CLOCK is enum lw_agent_clock; the ticks of a nanosecond clock stay as they are. */
uint64_t lw_calibration_now(uint32_t clock);
uint64_t lw_calibration_ns(const struct lw_calibration *c, uint32_t clock,
                           uint64_t moment);
/* How long DURATION ticks are. */
uint64_t lw_calibration_span_ns(const struct lw_calibration *c, uint32_t clock,
                                uint64_t duration);

#endif
