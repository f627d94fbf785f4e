/* Anchors between the TSC and CLOCK_MONOTONIC, and the straight lines between them. */

#include "recorder/calibration.h"

#include <math.h>
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

/* A rate is known once it was measured over so long: to 0.1 %, if an anchor is a
 * microsecond wrong. */
#define RATE_NS 1000000u
/* Between two anchors the counter may be wrong by JUMP_LEAST_NS and an eighth of the time
 * between them, but no more than JUMP_MOST_NS of it. */
#define JUMP_LEAST_NS 1e6
#define JUMP_MOST_NS 1e8
/* The newest moment may be newer than the newest anchor: by the work of one look. */
#define AFTER_NS 1e9

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
    memset(c, 0, sizeof(*c));
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

/* How far the counter is from where it should be at ANCHOR, which is newer than LAST. */
static double deviation_ns(const struct lw_calibration *c, struct lw_anchor last,
                           struct lw_anchor anchor)
{
    return (double)(int64_t)(anchor.ticks - last.ticks) * c->ns_per_tick -
           (double)(anchor.ns - last.ns);
}

/* CLOCK_MONOTONIC may be slewed by a tenth (chrony, adjtimex), and an anchor be taken badly
 * on a busy machine: neither is a jump. A smaller jump bends the line between two
 * anchors. */
static bool is_jump(const struct lw_calibration *c, struct lw_anchor last,
                    struct lw_anchor anchor)
{
    double most_ns = (double)(anchor.ns - last.ns) / 8;

    if (anchor.ticks <= last.ticks)
        return true;
    if (most_ns > JUMP_MOST_NS)
        most_ns = JUMP_MOST_NS;
    return c->is_rate_known &&
           fabs(deviation_ns(c, last, anchor)) > most_ns + JUMP_LEAST_NS;
}

static void start_era(struct lw_calibration *c, struct lw_anchor last,
                      struct lw_anchor anchor)
{
    if (c->past_count == LW_ERAS_MAX)
        memmove(&c->past[0], &c->past[1], --c->past_count * sizeof(c->past[0]));
    c->past[c->past_count++] =
        (struct lw_era){ c->anchors[0], last, c->ns_per_tick, c->gap_ns };
    c->jump_count++;
    c->jump_ticks += anchor.ticks - last.ticks -
                     (uint64_t)((double)(anchor.ns - last.ns) / c->ns_per_tick + 0.5);
    c->gap_ns = anchor.ns - last.ns;
    c->anchors[0] = anchor;
    c->count = 1;
}

void lw_calibration_add_anchor(struct lw_calibration *c, struct lw_anchor anchor)
{
    const struct lw_anchor *first = &c->anchors[0];
    const struct lw_anchor last = c->anchors[c->count - 1];

    if (anchor.ns <= last.ns || anchor.ticks == last.ticks)
        return;
    if (is_jump(c, last, anchor)) {
        start_era(c, last, anchor);
        return;
    }
    if (c->count == LW_ANCHORS_MAX)
        thin(c);
    c->anchors[c->count++] = anchor;
    if (c->is_rate_known && anchor.ns - first->ns < RATE_NS)
        return;
    c->ns_per_tick =
        (double)(anchor.ns - first->ns) / (double)(anchor.ticks - first->ticks);
    c->is_rate_known = anchor.ns - first->ns >= RATE_NS;
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

/* From A on at RATE, which may also lead backwards. */
static uint64_t along(const struct lw_anchor *a, double rate, uint64_t moment)
{
    double back_ns;

    if (moment >= a->ticks)
        return a->ns + (uint64_t)((double)(moment - a->ticks) * rate + 0.5);
    back_ns = (double)(a->ticks - moment) * rate;
    return back_ns < (double)a->ns ? a->ns - (uint64_t)(back_ns + 0.5) : 0;
}

static double rate_between(const struct lw_anchor *a, const struct lw_anchor *b)
{
    return (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
}

/* Can MOMENT lie in an era of which these are the first and last anchor? It began up to
 * BEFORE_NS earlier, and went on up to AFTER_NS longer. */
static bool can_hold(const struct lw_anchor *first, const struct lw_anchor *last,
                     double before_ns, double after_ns, double ns_per_tick,
                     uint64_t moment)
{
    double early_ns = (double)(int64_t)(first->ticks - moment) * ns_per_tick;
    double late_ns = (double)(int64_t)(moment - last->ticks) * ns_per_tick;

    return early_ns <= before_ns && late_ns <= after_ns;
}

/* The newest of the past eras in which MOMENT can lie, if it cannot lie in this one. */
static const struct lw_era *find_past(const struct lw_calibration *c, uint64_t moment)
{
    double after_ns = (double)c->gap_ns;

    if (can_hold(&c->anchors[0], &c->anchors[c->count - 1], (double)c->gap_ns, AFTER_NS,
                 c->ns_per_tick, moment))
        return NULL;
    for (size_t i = c->past_count; i-- > 0;) {
        const struct lw_era *era = &c->past[i];

        /* Nothing was before the first era; what seems to be began before we did. */
        if (can_hold(&era->first, &era->last, i > 0 ? (double)era->gap_ns : INFINITY,
                     after_ns, era->ns_per_tick, moment))
            return era;
        after_ns = (double)era->gap_ns;
    }
    return NULL;
}

uint64_t lw_calibration_ns(const struct lw_calibration *c, uint32_t clock,
                           uint64_t moment)
{
    const struct lw_era *era = NULL;
    size_t line;

    if (clock != LW_CLOCK_TSC)
        return moment;
    if (c->past_count > 0)
        era = find_past(c, moment);
    if (era)
        return moment >= era->last.ticks
                   ? along(&era->last, era->ns_per_tick, moment)
                   : along(&era->first, rate_between(&era->first, &era->last), moment);
    if (c->count < 2)
        return c->past_count > 0 ? along(&c->anchors[0], c->ns_per_tick, moment)
                                 : c->anchors[0].ns;
    line = find_line(c, moment);
    return along(&c->anchors[line],
                 rate_between(&c->anchors[line], &c->anchors[line + 1]), moment);
}

bool lw_calibration_is_past(const struct lw_calibration *c, uint32_t clock,
                            uint64_t moment)
{
    return clock == LW_CLOCK_TSC && c->past_count > 0 && find_past(c, moment);
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
