#include "test.h"

#include "analyses/intervals.h"
#include "analyses/spread.h"
#include "base/alloc.h"

#include <math.h>

/* A set of the COUNT pairs at TIMES. */
static struct lw_intervals set_of(const uint64_t (*times)[2], size_t count)
{
    struct lw_intervals set = { 0 };

    for (size_t i = 0; i < count; i++)
        CHECK(lw_intervals_add(&set, times[i][0], times[i][1], NULL));
    lw_intervals_merge(&set);
    return set;
}
#define SET(times) set_of(times, sizeof(times) / sizeof(times[0]))

static void check_set(const struct lw_intervals *set, const uint64_t (*times)[2],
                      size_t count)
{
    CHECK_EQ(set->count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(set->list[i].start_ns, times[i][0]);
        CHECK_EQ(set->list[i].end_ns, times[i][1]);
    }
}
#define CHECK_SET(set, times) check_set(set, times, sizeof(times) / sizeof(times[0]))

TEST(what_touches_or_overlaps_becomes_one)
{
    static const uint64_t added[][2] = { { 50, 60 }, { 10, 20 }, { 20, 30 },
                                         { 15, 18 }, { 58, 70 }, { 40, 40 } };
    static const uint64_t merged[][2] = { { 10, 30 }, { 50, 70 } };
    struct lw_intervals set = SET(added);

    CHECK_SET(&set, merged);
    CHECK_EQ(lw_intervals_total(&set), 40);
    lw_intervals_release(&set);
}

TEST(an_empty_set_is_empty_however_it_is_asked)
{
    struct lw_intervals none = { 0 }, out = { 0 };

    lw_intervals_merge(&none);
    CHECK_EQ(lw_intervals_total(&none), 0);
    CHECK_EQ(lw_intervals_within(&none, 0, UINT64_MAX), 0);
    CHECK(lw_intervals_intersect(&none, &none, &out, NULL));
    CHECK(lw_intervals_subtract(&none, &none, &out, NULL));
    CHECK_EQ(out.count, 0);
    CHECK(lw_intervals_add(&none, 7, 7, NULL)); /* no time at all */
    CHECK(lw_intervals_add(&none, 7, 3, NULL));
    CHECK_EQ(none.count, 0);
    lw_intervals_release(&none);
}

TEST(how_much_of_a_set_is_between_two_times)
{
    static const uint64_t times[][2] = { { 10, 20 }, { 30, 40 }, { 50, 60 } };
    struct lw_intervals set = SET(times);

    CHECK_EQ(lw_intervals_within(&set, 0, 100), 30);
    CHECK_EQ(lw_intervals_within(&set, 15, 35), 10);
    CHECK_EQ(lw_intervals_within(&set, 20, 30), 0);
    CHECK_EQ(lw_intervals_within(&set, 35, 36), 1);
    CHECK_EQ(lw_intervals_within(&set, 60, 90), 0);
    CHECK_EQ(lw_intervals_within(&set, 35, 35), 0);
    lw_intervals_release(&set);
}

TEST(what_two_sets_share_and_what_one_has_alone_is_all_of_it)
{
    static const uint64_t a_times[][2] = { { 0, 100 }, { 200, 300 }, { 400, 410 } };
    static const uint64_t b_times[][2] = {
        { 10, 20 }, { 30, 210 }, { 290, 400 }, { 405, 500 }
    };
    static const uint64_t both[][2] = {
        { 10, 20 }, { 30, 100 }, { 200, 210 }, { 290, 300 }, { 405, 410 }
    };
    static const uint64_t alone[][2] = {
        { 0, 10 }, { 20, 30 }, { 210, 290 }, { 400, 405 }
    };
    struct lw_intervals a = SET(a_times), b = SET(b_times), out = { 0 }, rest = { 0 };

    CHECK(lw_intervals_intersect(&a, &b, &out, NULL));
    CHECK_SET(&out, both);
    CHECK(lw_intervals_subtract(&a, &b, &rest, NULL));
    CHECK_SET(&rest, alone);
    CHECK_EQ(lw_intervals_total(&out) + lw_intervals_total(&rest),
             lw_intervals_total(&a));
    lw_intervals_release(&a);
    lw_intervals_release(&b);
    lw_intervals_release(&out);
    lw_intervals_release(&rest);
}

TEST(sets_agree_with_counting_every_moment)
{
    enum { MOMENTS = 200 };
    uint32_t random = 12345;

    for (int round = 0; round < 200; round++) {
        bool in[2][MOMENTS] = { { false } };
        struct lw_intervals sets[2] = { { 0 }, { 0 } }, both = { 0 }, rest = { 0 };
        uint64_t in_both = 0, in_rest = 0;

        for (int s = 0; s < 2; s++) {
            for (int i = 0; i < 12; i++) {
                uint64_t start, end;

                random = random * 1664525u + 1013904223u;
                start = (random >> 8) % MOMENTS;
                random = random * 1664525u + 1013904223u;
                end = start + (random >> 8) % 20;
                end = end > MOMENTS ? MOMENTS : end;
                CHECK(lw_intervals_add(&sets[s], start, end, NULL));
                for (uint64_t t = start; t < end; t++)
                    in[s][t] = true;
            }
            lw_intervals_merge(&sets[s]);
        }
        for (int t = 0; t < MOMENTS; t++) {
            in_both += in[0][t] && in[1][t];
            in_rest += in[0][t] && !in[1][t];
        }
        CHECK(lw_intervals_intersect(&sets[0], &sets[1], &both, NULL));
        CHECK(lw_intervals_subtract(&sets[0], &sets[1], &rest, NULL));
        CHECK_EQ(lw_intervals_total(&both), in_both);
        CHECK_EQ(lw_intervals_total(&rest), in_rest);
        lw_intervals_release(&sets[0]);
        lw_intervals_release(&sets[1]);
        lw_intervals_release(&both);
        lw_intervals_release(&rest);
    }
}

TEST(without_memory_a_set_stays_as_it_was)
{
    struct lw_intervals set = { 0 };
    struct lw_error err = { LW_OK, "" };

    CHECK(lw_intervals_add(&set, 1, 2, NULL));
    set.capacity = set.count; /* the next one needs memory */
    lw_alloc_fail_in(1);
    CHECK(!lw_intervals_add(&set, 3, 4, &err));
    lw_alloc_fail_in(0);
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    CHECK_EQ(set.count, 1);
    lw_intervals_release(&set);
}

/* As pandas.Series.describe() says it. */
TEST(numbers_are_described_as_pandas_does)
{
    double values[] = { 10, 1, 4, 2 };
    struct lw_spread s = lw_spread_of(values, 4);

    CHECK_EQ(s.count, 4);
    CHECK_NEAR(s.total, 17);
    CHECK_NEAR(s.mean, 4.25);
    CHECK_NEAR(s.sd, 4.031128874149275);
    CHECK_NEAR(s.min, 1);
    CHECK_NEAR(s.quarter, 1.75);
    CHECK_NEAR(s.median, 3);
    CHECK_NEAR(s.three_quarters, 5.5);
    CHECK_NEAR(s.max, 10);
}

TEST(one_number_has_no_deviation_and_none_has_nothing)
{
    double one = 7;
    struct lw_spread s = lw_spread_of(&one, 1);

    CHECK(s.sd != s.sd); /* not a number */
    CHECK_NEAR(s.three_quarters, 7);
    s = lw_spread_of(NULL, 0);
    CHECK_EQ(s.count, 0);
    CHECK(isnan(s.mean) && isnan(s.median) && isnan(s.max));
    CHECK(s.total == 0);
}
