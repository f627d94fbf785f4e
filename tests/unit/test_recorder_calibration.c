/* Ticks become nanoseconds, the same ones whenever they are asked for. */

#include "agent/layout.h"
#include "base/clock.h"
#include "recorder/calibration.h"
#include "test.h"

static struct lw_calibration made;

#define MS 1000000ull

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

/* Go on for COUNT looks, 50 ms apart, from where the clocks are. */
static void go_on(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lw_anchor anchor = made.anchors[made.count - 1];

        anchor.ticks += 150 * MS;
        anchor.ns += 50 * MS;
        lw_calibration_add_anchor(&made, anchor);
    }
}

/* After 200 looks the counter, which should be at *BEFORE when the clock says *NS, is at
 * AFTER; then it goes on for 20 more. */
static void jump_to(uint64_t after, struct lw_anchor *before)
{
    make_calibration(1);
    go_on(200);
    *before = made.anchors[made.count - 1];
    before->ns += 50 * MS;
    before->ticks += 150 * MS;
    lw_calibration_add_anchor(&made, (struct lw_anchor){ after, before->ns });
    CHECK_EQ(made.jump_count, 1);
    CHECK_EQ(made.jump_ticks, after - before->ticks);
    go_on(20);
    CHECK_EQ(made.jump_count, 1);
    CHECK_EQ(made.count, 21);
}

static uint64_t ns_of(uint64_t ticks)
{
    return lw_calibration_ns(&made, LW_CLOCK_TSC, ticks);
}

TEST(a_counter_that_jumps_ahead_keeps_its_times_on_both_sides)
{
    const uint64_t after = 1ull << 50;
    struct lw_anchor before;

    jump_to(after, &before);
    CHECK_EQ(ns_of(before.ticks - 1500 * MS), before.ns - 500 * MS);
    CHECK_EQ(ns_of(before.ticks - 30 * MS),
             before.ns - 10 * MS);                         /* since the last look */
    CHECK_EQ(ns_of(after - 30 * MS), before.ns - 10 * MS); /* of the new one */
    CHECK_EQ(ns_of(after), before.ns);
    CHECK_EQ(ns_of(after + 1500 * MS), before.ns + 500 * MS);
    CHECK_EQ(lw_calibration_span_ns(&made, LW_CLOCK_TSC, 30 * MS), 10 * MS);
}

TEST(a_counter_that_starts_again_keeps_its_times_on_both_sides)
{
    struct lw_anchor before;

    jump_to(200 * MS, &before); /* the new times are among the old ones */
    CHECK_EQ(ns_of(200 * MS), before.ns);
    CHECK_EQ(ns_of(170 * MS), before.ns - 10 * MS);
    CHECK_EQ(ns_of(200 * MS + 1500 * MS), before.ns + 500 * MS);
    /* The counter is not there again by now: it was before the jump. */
    CHECK_EQ(ns_of(before.ticks - 1500 * MS), before.ns - 500 * MS);
    CHECK_EQ(ns_of(before.ticks - 30 * MS), before.ns - 10 * MS);
}

TEST(a_jump_before_the_rate_is_known_is_noticed_when_it_goes_back)
{
    make_calibration(1);
    lw_calibration_add_anchor(&made, (struct lw_anchor){ 5, 2 * MS });
    CHECK_EQ(made.jump_count, 1);
    go_on(10);
    CHECK_EQ(made.jump_count, 1);
    CHECK_EQ(ns_of(5 + 300 * MS), 102 * MS);
}

TEST(more_jumps_than_are_remembered_cost_the_oldest)
{
    make_calibration(1);
    for (uint64_t jump = 1; jump <= 3 * LW_ERAS_MAX; jump++) {
        struct lw_anchor anchor;

        go_on(5);
        anchor = made.anchors[made.count - 1];
        anchor.ticks += jump << 50;
        anchor.ns += 50 * MS;
        lw_calibration_add_anchor(&made, anchor);
        CHECK_EQ(made.jump_count, jump);
        CHECK_EQ(ns_of(anchor.ticks), anchor.ns);
    }
    CHECK_EQ(made.past_count, LW_ERAS_MAX);
}

TEST(a_slewed_clock_and_a_late_anchor_are_no_jumps)
{
    make_calibration(20);
    for (int i = 0; i < 20; i++) {
        struct lw_anchor anchor = made.anchors[made.count - 1];

        anchor.ticks += 150 * MS;
        anchor.ns += i % 2 ? 46 * MS : 54 * MS; /* 8 % */
        lw_calibration_add_anchor(&made, anchor);
    }
    go_on(3);
    CHECK_EQ(made.jump_count, 0);
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
