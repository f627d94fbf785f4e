/* Anchors between the TSC and CLOCK_MONOTONIC, and the straight lines between them. */

#include "recorder/calibration.h"

#include <string.h>

#include "agent/layout.h"
#include "base/clock.h"

#ifdef __x86_64__
#include <x86intrin.h>
static uint64_t read_tsc(void)
{
    return __rdtsc();
}
#else
static uint64_t read_tsc(void)
{
    return lw_clock_ns(); /* no region with a TSC is ever opened here */
}
#endif

/* Asking the system lies between two readings of the TSC; of a few tries the one that
 * took least time (was not interrupted) is the most exact. */
static struct lw_anchor take_anchor(void)
{
    struct lw_anchor best = { 0, 0 };
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 4; i++) {
        uint64_t before = read_tsc();
        uint64_t ns = lw_clock_ns();
        uint64_t took = read_tsc() - before;

        if (took < least) {
            least = took;
            best.ticks = before + took / 2;
            best.ns = ns;
        }
    }
    return best;
}

void lw_calibration_init(struct lw_calibration *c)
{
    c->anchors[0] = take_anchor();
    c->count = 1;
    c->ns_per_tick = 1.0;
}

/* Drop every second anchor of the older half: what is long past needs no better than
 * a straight line over a longer time. */
static void thin(struct lw_calibration *c)
{
    const size_t half = LW_ANCHORS_MAX / 2;
    size_t kept = 1;

    for (size_t i = 2; i < half; i += 2)
        c->anchors[kept++] = c->anchors[i];
    memmove(&c->anchors[kept], &c->anchors[half],
            (c->count - half) * sizeof(c->anchors[0]));
    c->count = kept + c->count - half;
}

void lw_calibration_add_anchor(struct lw_calibration *c, struct lw_anchor anchor)
{
    const struct lw_anchor *first = &c->anchors[0];
    const struct lw_anchor *last = &c->anchors[c->count - 1];

    if (anchor.ticks <= last->ticks || anchor.ns <= last->ns)
        return;
    if (c->count == LW_ANCHORS_MAX)
        thin(c);
    c->anchors[c->count++] = anchor;
    c->ns_per_tick =
        (double)(anchor.ns - first->ns) / (double)(anchor.ticks - first->ticks);
}

void lw_calibration_look(struct lw_calibration *c)
{
    lw_calibration_add_anchor(c, take_anchor());
}

uint64_t lw_calibration_now(uint32_t clock)
{
    return clock == LW_CLOCK_TSC ? read_tsc() : lw_clock_ns();
}

/* The anchor at or before MOMENT from which a line goes on; the last but one for what
 * is newer than all, the first for what is older. */
static size_t find_line(const struct lw_calibration *c, uint64_t moment)
{
    size_t low = 0, high = c->count - 1;

    if (c->anchors[high - 1].ticks <= moment)
        return high - 1; /* nearly always: it happened since the last look but one */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (c->anchors[middle].ticks <= moment)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* From A on, at the rate between A and B, which may also lead backwards. */
static uint64_t along(const struct lw_anchor *a, const struct lw_anchor *b,
                      uint64_t moment)
{
    double rate = (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);

    if (moment >= a->ticks)
        return a->ns + (uint64_t)((double)(moment - a->ticks) * rate + 0.5);
    rate = (double)(a->ticks - moment) * rate;
    return rate < (double)a->ns ? a->ns - (uint64_t)(rate + 0.5) : 0;
}

uint64_t lw_calibration_ns(const struct lw_calibration *c, uint32_t clock,
                           uint64_t moment)
{
    size_t line;

    if (clock != LW_CLOCK_TSC)
        return moment;
    if (c->count < 2)
        return c->anchors[0].ns;
    line = find_line(c, moment);
    return along(&c->anchors[line], &c->anchors[line + 1], moment);
}

uint64_t lw_calibration_span_ns(const struct lw_calibration *c, uint32_t clock,
                                uint64_t duration)
{
    double ns;

    if (clock != LW_CLOCK_TSC)
        return duration;
    ns = (double)duration * c->ns_per_tick + 0.5;
    return ns < 0x1p63 ? (uint64_t)ns : UINT64_MAX / 2;
}
