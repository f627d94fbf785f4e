/* Ticks become nanoseconds, the same ones whenever they are asked for. */

#include "agent/layout.h"
#include "base/clock.h"
#include "recorder/calibration.h"
#include "test.h"

static struct lw_calibration made;

/* A clock of 3 ticks a nanosecond that drifts a little between anchors. */
static void make_calibration(size_t anchors)
{
    struct lw_anchor anchor = { 3000000, 1000000 };

    lw_calibration_init(&made);
    made.anchors[0] = anchor;
    for (size_t i = 1; i < anchors; i++) {
        anchor.ticks += 150000000 + i % 7;
        anchor.ns += 50000000 + i % 3;
        lw_calibration_add_anchor(&made, anchor);
    }
}

TEST(a_nanosecond_clock_is_left_alone)
{
    make_calibration(2);
    CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_MONOTONIC_NS, 12345), 12345);
    CHECK_EQ(lw_calibration_span_ns(&made, LW_CLOCK_MONOTONIC_NS, 77), 77);
}

TEST(anchors_are_met_exactly_and_lines_lie_between)
{
    make_calibration(100);
    for (size_t i = 0; i < 100; i++)
        CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_TSC, made.anchors[i].ticks),
                 made.anchors[i].ns);
    CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_TSC, made.anchors[50].ticks + 3000000),
             made.anchors[50].ns + 1000000);
}

TEST(before_the_first_and_after_the_last_anchor_time_runs_on)
{
    make_calibration(3);
    CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_TSC, made.anchors[0].ticks - 300),
             999900);
    CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_TSC, 0), 0);
    CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_TSC, made.anchors[2].ticks + 3000),
             made.anchors[2].ns + 1000);
}

TEST(a_moment_keeps_its_time_as_anchors_are_added)
{
    uint64_t moment, before;

    make_calibration(50);
    moment = made.anchors[40].ticks + 1234567;
    before = lw_calibration_ns(&made, LW_CLOCK_TSC, moment);
    for (int i = 0; i < 500; i++) {
        struct lw_anchor anchor = made.anchors[made.count - 1];

        anchor.ticks += 150000011;
        anchor.ns += 50000000;
        lw_calibration_add_anchor(&made, anchor);
    }
    CHECK_EQ(lw_calibration_ns(&made, LW_CLOCK_TSC, moment), before);
}

TEST(old_anchors_are_thinned_and_order_is_kept)
{
    uint64_t last = 0;

    make_calibration(5 * LW_ANCHORS_MAX);
    CHECK(made.count <= LW_ANCHORS_MAX);
    CHECK_EQ(made.anchors[0].ns, 1000000);
    for (uint64_t ticks = 3000000; ticks < made.anchors[made.count - 1].ticks;
         ticks += 77777777) {
        uint64_t ns = lw_calibration_ns(&made, LW_CLOCK_TSC, ticks);

        CHECK(ns > last);
        last = ns;
    }
}

TEST(an_anchor_that_goes_back_is_ignored)
{
    make_calibration(10);
    lw_calibration_add_anchor(&made, made.anchors[5]);
    CHECK_EQ(made.count, 10);
}

TEST(the_real_clocks_agree)
{
    uint64_t ticks, ns, asked;

    lw_calibration_init(&made);
    while (lw_clock_ns() < made.anchors[0].ns + 20000000)
        continue;
    lw_calibration_look(&made);
    ns = lw_clock_ns();
    ticks = lw_calibration_now(LW_CLOCK_TSC);
    asked = lw_calibration_ns(&made, LW_CLOCK_TSC, ticks);
    CHECK(asked + 100000 > ns && asked < ns + 1000000);
}
