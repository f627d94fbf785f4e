/* The longest path through a graph of points, and what a walk of the host makes of
 * threads. The graph of whole traces is tested beside HTA's in tests/live. */

#include "analyses/critical.h"
#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

/* EVENTS of one thread, each of 10 ns, 100 ns apart, of no name. */
static struct lw_profile *make_profile(uint32_t events)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_trace *trace = lw_builder_trace(builder, NULL);
    struct lw_track track = { .device = -1, .number = 1 };
    struct lw_trace_rank rank = { .rank = -1, .world_size = -1 };

    CHECK(lw_grow(&trace->ranks, &trace->rank_capacity, 1, sizeof(rank), NULL));
    trace->ranks[trace->rank_count++] = rank;
    CHECK(lw_grow(&trace->tracks, &trace->track_capacity, 1, sizeof(track), NULL));
    trace->tracks[trace->track_count++] = track;
    for (uint32_t i = 0; i < events; i++) {
        struct lw_event event = { .start_ns = 100 * i,
                                  .duration_ns = 10,
                                  .detail = LW_NONE,
                                  .parent = LW_NONE,
                                  .kind = LW_EVENT_OP };

        CHECK(lw_grow(&trace->events, &trace->event_capacity, i + 1, sizeof(event),
                      NULL));
        trace->events[trace->event_count++] = event;
    }
    return lw_builder_finish(builder, NULL);
}

static void join(struct lw_critical *c, uint32_t from, uint32_t to)
{
    struct lw_critical_edge edge = { .from = from, .to = to, .event = from / 2 };

    lw_critical_add(c, &edge);
}

static void check_path(const struct lw_critical *c, const uint32_t *points,
                       size_t count)
{
    CHECK_EQ(c->path_count, count - 1);
    for (size_t i = 0; i + 1 < count; i++) {
        CHECK_EQ(c->edges[c->path[i]].from, points[i]);
        CHECK_EQ(c->edges[c->path[i]].to, points[i + 1]);
    }
}

TEST(the_path_is_the_longest_by_time_not_by_edges)
{
    struct lw_profile *profile = make_profile(4);
    struct lw_critical c;

    CHECK(lw_critical_init(&c, profile, 0, false, NULL));
    join(&c, 0, 1);
    join(&c, 1, 3); /* the end of the second event */
    join(&c, 2, 3);
    join(&c, 0, 6); /* straight to the last: longer than any other */
    join(&c, 3, 4);
    join(&c, 6, 7);
    CHECK(lw_critical_find_path(&c, NULL));
    check_path(&c, (const uint32_t[]){ 0, 6, 7 }, 3);
    lw_critical_release(&c);
    lw_profile_free(profile);
}

TEST(of_equally_long_ways_the_edge_added_first_is_taken)
{
    struct lw_profile *profile = make_profile(3);

    for (int turn = 0; turn < 2; turn++) {
        struct lw_critical c;

        CHECK(lw_critical_init(&c, profile, 0, false, NULL));
        join(&c, 0, turn ? 2 : 1);
        join(&c, turn ? 2 : 1, 5);
        join(&c, 0, turn ? 1 : 2);
        join(&c, turn ? 1 : 2, 5);
        CHECK(lw_critical_find_path(&c, NULL));
        check_path(&c, (const uint32_t[]){ 0, turn ? 2 : 1, 5 }, 3);
        lw_critical_release(&c);
    }
    lw_profile_free(profile);
}

TEST(an_edge_added_again_is_one_as_it_was_added_last)
{
    struct lw_profile *profile = make_profile(2);
    struct lw_critical_edge again = {
        .from = 0, .to = 3, .event = LW_NONE, .kind = LW_CRITICAL_SYNC, .is_free = true
    };
    struct lw_critical c;

    CHECK(lw_critical_init(&c, profile, 0, false, NULL));
    join(&c, 0, 3);
    join(&c, 0, 1);
    lw_critical_add(&c, &again);
    CHECK(lw_critical_find_path(&c, NULL));
    check_path(&c, (const uint32_t[]){ 0, 1 }, 2); /* 10 ns are more than nothing */
    CHECK_EQ(c.edges[0].kind, LW_CRITICAL_SYNC);
    CHECK_EQ(c.edges[0].event, 0); /* whose it was is kept */
    lw_critical_release(&c);
    lw_profile_free(profile);
}

TEST(a_circle_has_no_path_and_a_sentence)
{
    struct lw_profile *profile = make_profile(2);
    struct lw_error err = { LW_OK, "" };
    struct lw_critical c;

    CHECK(lw_critical_init(&c, profile, 0, false, &err));
    join(&c, 0, 1);
    join(&c, 1, 2);
    join(&c, 2, 1);
    CHECK(!lw_critical_find_path(&c, &err));
    CHECK_EQ(err.code, LW_ERR_FORMAT);
    lw_critical_release(&c);
    lw_profile_free(profile);
}

TEST(more_edges_than_a_trace_can_have_are_refused)
{
    struct lw_profile *profile = make_profile(2);
    struct lw_error err = { LW_OK, "" };
    struct lw_critical c;

    CHECK(lw_critical_init(&c, profile, 0, false, &err));
    for (int i = 0; i < 200000; i++)
        join(&c, 0, 1);
    CHECK(!lw_critical_find_path(&c, &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    lw_critical_release(&c);
    lw_profile_free(profile);
}

TEST(the_main_thread_counts_between_its_ops_and_others_do_not)
{
    struct lw_profile *profile = make_profile(3);
    const uint32_t alone[] = { 0 };

    for (int is_main = 0; is_main < 2; is_main++) {
        struct lw_critical c;
        int64_t total = 0;

        CHECK(lw_critical_init(&c, profile, 0, false, NULL));
        for (uint32_t i = 0; i < 3; i++)
            c.taken[i] = LW_TAKEN_HOST | LW_TAKEN_POINTS;
        CHECK(lw_critical_add_host(&c, alone, is_main ? 0 : LW_NONE, NULL));
        CHECK(lw_critical_find_path(&c, NULL));
        check_path(&c, (const uint32_t[]){ 0, 1, 2, 3, 4, 5 }, 6);
        for (size_t i = 0; i < c.path_count; i++)
            total += lw_critical_weight(&c, &c.edges[c.path[i]]);
        CHECK_EQ(total, is_main ? 210 : 30);
        lw_critical_release(&c);
    }
    lw_profile_free(profile);
}

TEST(running_out_of_memory_leaves_nothing_behind)
{
    struct lw_profile *profile = make_profile(3);
    const uint32_t alone[] = { 0 };
    bool done = false;

    for (uint64_t fail = 1; !done; fail++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_critical c;

        lw_alloc_fail_in(fail);
        done = lw_critical_init(&c, profile, 0, false, &err);
        for (uint32_t i = 0; done && i < 3; i++)
            c.taken[i] = LW_TAKEN_HOST | LW_TAKEN_POINTS;
        done = done && lw_critical_add_host(&c, alone, 0, &err) &&
               lw_critical_find_path(&c, &err);
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        lw_critical_release(&c);
    }
    lw_profile_free(profile);
}
