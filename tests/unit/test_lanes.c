#include "test.h"

#include "base/alloc.h"
#include "writers/lanes.h"

struct span {
    uint64_t start_ns, end_ns;
    uint32_t lane;
};

static void place(struct span *spans, size_t count)
{
    struct lw_lanes lanes = { 0 };
    struct lw_error err;

    lw_lanes_reset(&lanes);
    for (size_t i = 0; i < count; i++)
        CHECK(lw_lanes_place(&lanes, spans[i].start_ns, spans[i].end_ns, &spans[i].lane,
                             &err));
    lw_lanes_release(&lanes);
}

TEST(what_nests_stays_on_one_lane_and_what_overlaps_gets_another)
{
    struct span spans[] = { { 0, 100, 9 },   { 10, 20, 9 },  { 15, 30, 9 },
                            { 30, 40, 9 },   { 35, 50, 9 },  { 90, 120, 9 },
                            { 100, 110, 9 }, { 100, 100, 9 } };
    const uint32_t wanted[] = { 0, 0, 1, 0, 1, 1, 0, 0 };

    place(spans, 8);
    for (size_t i = 0; i < 8; i++)
        CHECK_EQ(spans[i].lane, wanted[i]);
}

/* Whatever the lanes are, nothing on one of them may overlap without nesting. */
static void check_lanes(const struct span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++) {
            if (spans[i].lane != spans[k].lane)
                continue;
            CHECK(spans[k].start_ns >= spans[i].end_ns ||
                  spans[k].end_ns <= spans[i].end_ns);
        }
}

TEST(hundreds_that_overlap_are_all_kept_apart)
{
    enum { COUNT = 600 };
    static struct span spans[COUNT];
    uint32_t most = 0;

    for (size_t i = 0; i < COUNT;
         i++) /* half of them end before the other half begins */
        spans[i] = (struct span){ i < COUNT / 2 ? i : 1000 + i,
                                  i < COUNT / 2 ? 1000 + i % 7 : 9000 + i, 0 };
    place(spans, COUNT);
    check_lanes(spans, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        most = spans[i].lane > most ? spans[i].lane : most;
    CHECK(most < COUNT / 2); /* lanes are taken again */
}

static void bounds(const void *owner, uint32_t index, uint64_t *start_ns,
                   uint64_t *end_ns)
{
    const struct span *spans = owner;

    *start_ns = spans[index].start_ns;
    *end_ns = spans[index].end_ns;
}

TEST(a_walk_closes_what_ends_before_it_opens_what_begins)
{
    const struct span spans[] = {
        { 0, 10, 0 }, { 2, 10, 0 }, { 10, 10, 0 }, { 10, 12, 0 }
    };
    const uint32_t order[] = { 0, 1, 2, 3 };
    const struct lw_lane_event wanted[] = { { 0, 0, true },   { 2, 1, true },
                                            { 10, 1, false }, { 10, 0, false },
                                            { 10, 2, true },  { 10, 2, false },
                                            { 10, 3, true },  { 12, 3, false } };
    struct lw_lane_walk walk = {
        .owner = spans, .order = order, .count = 4, .bounds = bounds
    };
    struct lw_lane_event event;
    struct lw_error err;

    for (size_t i = 0; i < 8; i++) {
        CHECK(lw_lane_walk_next(&walk, &event));
        CHECK_EQ(event.time_ns, wanted[i].time_ns);
        CHECK_EQ(event.index, wanted[i].index);
        CHECK_EQ(event.is_open, wanted[i].is_open);
    }
    CHECK(!lw_lane_walk_next(&walk, &event));
    CHECK(lw_lane_walk_end(&walk, &err));
}

TEST(without_memory_a_walk_ends_early_and_says_so)
{
    const struct span spans[] = { { 0, 10, 0 } };
    const uint32_t order[] = { 0 };
    struct lw_lane_walk walk = {
        .owner = spans, .order = order, .count = 1, .bounds = bounds
    };
    struct lw_lane_event event;
    struct lw_error err;

    lw_alloc_fail_in(1);
    CHECK(!lw_lane_walk_next(&walk, &event));
    lw_alloc_fail_in(0);
    CHECK(!lw_lane_walk_end(&walk, &err));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
}
