#include "test.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/trace.h"
#include "model/trace_cut.h"

/* Strings of these tests are numbers below this, stacks there are none but 0. */
#define STRINGS 100
#define STACKS 1

static struct lw_trace *new_trace(uint32_t ranks, uint32_t tracks)
{
    struct lw_trace *trace = lw_zalloc(1, sizeof(*trace), NULL);

    CHECK(trace != NULL);
    CHECK(lw_grow(&trace->ranks, &trace->rank_capacity, ranks, sizeof(*trace->ranks),
                  NULL));
    memset(trace->ranks, 0, ranks * sizeof(*trace->ranks));
    trace->rank_count = ranks;
    CHECK(lw_grow(&trace->tracks, &trace->track_capacity, tracks,
                  sizeof(*trace->tracks), NULL));
    memset(trace->tracks, 0, tracks * sizeof(*trace->tracks));
    trace->track_count = tracks;
    for (uint32_t i = 0; i < tracks; i++) {
        trace->tracks[i].rank = i % ranks;
        trace->tracks[i].device = -1;
    }
    return trace;
}

/* An event whose name is its number, from 1 on. */
static struct lw_event *add(struct lw_trace *trace, enum lw_event_kind kind,
                            uint32_t track, uint64_t start_ns, uint64_t duration_ns)
{
    struct lw_event *event;

    CHECK(lw_grow(&trace->events, &trace->event_capacity, trace->event_count + 1,
                  sizeof(*event), NULL));
    event = &trace->events[trace->event_count++];
    *event = (struct lw_event){ .start_ns = start_ns,
                                .duration_ns = duration_ns,
                                .track = track,
                                .name = (lw_string_id)trace->event_count,
                                .parent = LW_NONE,
                                .detail = LW_NONE,
                                .kind = (uint8_t)kind };
    return event;
}

static void finish(struct lw_trace *trace)
{
    struct lw_error err = { LW_OK, "" };

    if (!lw_trace_finish(trace, STRINGS, STACKS, &err))
        CHECK_STR(err.text, "");
}

static void check_broken(struct lw_trace *trace, const char *sentence)
{
    struct lw_error err = { LW_OK, "" };

    CHECK(!lw_trace_finish(trace, STRINGS, STACKS, &err));
    CHECK_EQ(err.code, LW_ERR_FORMAT);
    CHECK_STR(err.text, sentence);
    lw_trace_free(trace);
}

/* Where the event that was added as number NAME is now. */
static uint32_t find(const struct lw_trace *trace, lw_string_id name)
{
    for (uint32_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].name == name)
            return i;
    return LW_NONE;
}

static lw_string_id parent_of(const struct lw_trace *trace, lw_string_id name)
{
    uint32_t parent = trace->events[find(trace, name)].parent;

    return parent == LW_NONE ? 0 : trace->events[parent].name;
}

TEST(events_are_sorted_by_track_then_start_then_the_longest_first)
{
    struct lw_trace *trace = new_trace(1, 2);
    const lw_string_id wanted[] = { 4, 3, 2, 5, 1 };

    add(trace, LW_EVENT_OP, 1, 5, 1);
    add(trace, LW_EVENT_OP, 0, 20, 10);
    add(trace, LW_EVENT_OP, 0, 20, 30);
    add(trace, LW_EVENT_OP, 0, 10, 5);
    add(trace, LW_EVENT_OP, 0, 20, 10); /* as number 2, and behind it */
    trace->args = lw_zalloc(5, sizeof(*trace->args), NULL);
    for (lw_string_id i = 0; i < 5; i++)
        trace->args[i] = i + 1;
    finish(trace);
    for (size_t i = 0; i < 5; i++) {
        CHECK_EQ(trace->events[i].name, wanted[i]);
        CHECK_EQ(trace->args[i], wanted[i]);
    }
    CHECK_EQ(trace->tracks[0].first, 0);
    CHECK_EQ(trace->tracks[0].count, 4);
    CHECK_EQ(trace->tracks[1].first, 4);
    CHECK_EQ(trace->tracks[1].count, 1);
    lw_trace_free(trace);
}

static int compare_events(const void *a, const void *b)
{
    const struct lw_event *x = a, *y = b;

    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns ? -1 : 1;
    return x->correlation < y->correlation ? -1 : 1;
}

TEST(any_order_is_sorted_as_qsort_sorts_it)
{
    enum { COUNT = 3000 };
    struct lw_trace *trace = new_trace(2, 7);
    struct lw_event *wanted = lw_alloc(COUNT * sizeof(*wanted), NULL);
    uint64_t random = 1;

    for (uint32_t i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        add(trace, LW_EVENT_OTHER, random >> 33 & 3, random >> 40 & 255,
            random >> 50 & 15)
            ->name = 1;
        trace->events[i].correlation = i;
    }
    memcpy(wanted, trace->events, COUNT * sizeof(*wanted));
    qsort(wanted, COUNT, sizeof(*wanted), compare_events);
    finish(trace);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_EQ(trace->events[i].correlation, wanted[i].correlation);
    lw_free(wanted);
    lw_trace_free(trace);
}

TEST(events_of_the_host_nest_as_torch_nests_them)
{
    struct lw_trace *trace = new_trace(1, 2);

    add(trace, LW_EVENT_RANGE, 0, 0, 100); /* 1 */
    add(trace, LW_EVENT_OP, 0, 10, 20);    /* 2, in 1 */
    add(trace, LW_EVENT_OP, 0, 10, 5);     /* 3, in 2 */
    add(trace, LW_EVENT_OP, 0, 30, 10);    /* 4 starts when 2 ends */
    add(trace, LW_EVENT_OP, 0, 35, 10);    /* 5 ends after 4 */
    add(trace, LW_EVENT_OP, 1, 12, 1);     /* 6, on another thread */
    add(trace, LW_EVENT_OP, 0, 100, 0);    /* 7 starts when 1 ends */
    finish(trace);
    CHECK_EQ(parent_of(trace, 1), 0);
    CHECK_EQ(parent_of(trace, 2), 1);
    CHECK_EQ(parent_of(trace, 3), 2);
    CHECK_EQ(parent_of(trace, 4), 1);
    CHECK_EQ(parent_of(trace, 5), 1);
    CHECK_EQ(parent_of(trace, 6), 0);
    CHECK_EQ(parent_of(trace, 7), 0);
    CHECK_EQ(lw_trace_ancestor(trace, find(trace, 3), LW_EVENT_RANGE), find(trace, 1));
    CHECK_EQ(lw_trace_ancestor(trace, find(trace, 1), LW_EVENT_RANGE), LW_NONE);
    lw_trace_free(trace);
}

TEST(work_belongs_to_the_call_of_its_rank_that_launched_it_else_to_its_op)
{
    struct lw_trace *trace = new_trace(2, 4); /* tracks 0 and 2 are of rank 0 */

    add(trace, LW_EVENT_OP, 0, 0, 50)->external = 9;          /* 1 */
    add(trace, LW_EVENT_RUNTIME, 0, 10, 5)->correlation = 77; /* 2 */
    add(trace, LW_EVENT_RUNTIME, 1, 10, 5)->correlation = 77; /* 3, of rank 1 */
    add(trace, LW_EVENT_KERNEL, 2, 30, 5)->correlation = 77;  /* 4 */
    add(trace, LW_EVENT_KERNEL, 3, 30, 5)->correlation = 77;  /* 5, of rank 1 */
    add(trace, LW_EVENT_MEMCPY, 2, 40, 5)->external = 9;      /* 6, by its op */
    trace->events[5].correlation = 1000;
    add(trace, LW_EVENT_KERNEL, 2, 50, 5)->external = 9; /* 7: up to torch 2.2 that */
    trace->events[6].correlation = 9;                    /* is no op's id */
    add(trace, LW_EVENT_DEVICE_RANGE, 2, 29, 30)->correlation = 77; /* 8 */
    add(trace, LW_EVENT_KERNEL, 2, 60, 1);                          /* 9, by nothing */
    finish(trace);
    CHECK_EQ(parent_of(trace, 4), 2);
    CHECK_EQ(parent_of(trace, 5), 3);
    CHECK_EQ(parent_of(trace, 6), 1);
    CHECK_EQ(parent_of(trace, 7), 0);
    CHECK_EQ(parent_of(trace, 8), 0);
    CHECK_EQ(parent_of(trace, 9), 0);
    CHECK(lw_trace_is_launched(trace, find(trace, 4)));
    CHECK(!lw_trace_is_launched(trace, find(trace, 6)));
    CHECK(!lw_trace_is_launched(trace, find(trace, 2)));
    CHECK(trace->tracks[2].is_device);
    CHECK(!trace->tracks[0].is_device);
    lw_trace_free(trace);
}

static void add_end(struct lw_trace *trace, uint64_t id, uint32_t track,
                    uint64_t time_ns, bool is_backward)
{
    struct lw_flow_end end = { id, time_ns, track, is_backward };

    CHECK(lw_grow(&trace->flow_ends, &trace->flow_end_capacity,
                  trace->flow_end_count + 1, sizeof(end), NULL));
    trace->flow_ends[trace->flow_end_count++] = end;
}

TEST(a_call_and_what_it_launched_never_hold_each_other)
{
    struct lw_trace *trace = new_trace(1, 1);

    add(trace, LW_EVENT_OP, 0, 0, 200);
    add(trace, LW_EVENT_KERNEL, 0, 10, 100)->correlation = 7; /* on the host's track */
    add(trace, LW_EVENT_RUNTIME, 0, 20, 10)->correlation = 7; /* inside it */
    finish(trace);
    CHECK_EQ(parent_of(trace, 2), 3);
    CHECK_EQ(parent_of(trace, 3), 1);
    CHECK_EQ(lw_trace_ancestor(trace, find(trace, 2), LW_EVENT_PYTHON), LW_NONE);
    lw_trace_free(trace);
}

TEST(flows_join_ops_of_one_rank_that_start_where_they_end)
{
    struct lw_trace *trace = new_trace(2, 2);

    add(trace, LW_EVENT_OP, 0, 10, 5);
    add(trace, LW_EVENT_OP, 0, 40, 5);
    add(trace, LW_EVENT_OP, 1, 10, 5);
    add_end(trace, 5, 0, 40, true); /* an end may come before its start */
    add_end(trace, 5, 0, 10, false);
    add_end(trace, 5, 0, 11, false); /* the id again: the first counts */
    add_end(trace, 6, 0, 10, false); /* its end is of another rank */
    add_end(trace, 6, 1, 10, true);
    add_end(trace, 7, 0, 12, false); /* no op starts there */
    add_end(trace, 7, 0, 40, true);
    finish(trace);
    CHECK_EQ(trace->flow_count, 1);
    CHECK_EQ(trace->flows[0].forward, find(trace, 1));
    CHECK_EQ(trace->flows[0].backward, find(trace, 2));
    CHECK(trace->flow_ends == NULL);
    lw_trace_free(trace);
}

TEST(a_hundred_thousand_flows_of_one_id_take_no_time)
{
    struct lw_trace *trace = new_trace(1, 1);

    add(trace, LW_EVENT_OP, 0, 10, 5);
    for (uint64_t i = 0; i < 100000; i++)
        add_end(trace, 5, 0, 10, i % 2);
    finish(trace);
    CHECK_EQ(trace->flow_count, 50000);
    lw_trace_free(trace);
}

TEST(allocations_are_sorted_by_time_and_those_of_one_moment_stay_as_they_came)
{
    struct lw_trace *trace = new_trace(1, 1);
    const uint64_t times[] = { 30, 10, 30, 20 };
    const int64_t wanted[] = { 2, 4, 1, 3 };

    for (int64_t i = 0; i < 4; i++) {
        struct lw_memory_event memory = { .time_ns = times[i], .bytes = i + 1 };

        CHECK(lw_grow(&trace->memory, &trace->memory_capacity, trace->memory_count + 1,
                      sizeof(memory), NULL));
        trace->memory[trace->memory_count++] = memory;
    }
    finish(trace);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(trace->memory[i].bytes, wanted[i]);
    lw_trace_free(trace);
}

TEST(the_first_event_from_a_time_on_is_found)
{
    struct lw_trace *trace = new_trace(1, 2);

    add(trace, LW_EVENT_OP, 0, 10, 5);
    add(trace, LW_EVENT_OP, 0, 20, 5);
    add(trace, LW_EVENT_OP, 0, 20, 4);
    add(trace, LW_EVENT_OP, 1, 20, 4);
    finish(trace);
    CHECK_EQ(lw_trace_lower_bound(trace, 0, 0), 0);
    CHECK_EQ(lw_trace_lower_bound(trace, 0, 11), 1);
    CHECK_EQ(lw_trace_lower_bound(trace, 0, 20), 1);
    CHECK_EQ(lw_trace_lower_bound(trace, 0, 21), 3); /* its end */
    CHECK_EQ(lw_trace_lower_bound(trace, 1, 0), 3);
    lw_trace_free(trace);
}

TEST(numbers_that_point_nowhere_are_refused)
{
    struct lw_trace *trace = new_trace(1, 1);

    add(trace, LW_EVENT_OP, 0, 10, 5);
    add(trace, LW_EVENT_OP, 1, 10, 5);
    check_broken(trace, "event 1 of the trace is not whole");

    trace = new_trace(1, 1);
    add(trace, LW_EVENT_OP, 0, 10, UINT64_MAX - 9);
    check_broken(trace, "event 0 of the trace is not whole");

    trace = new_trace(1, 1);
    add(trace, LW_EVENT_OP, 0, 10, 5)->detail = 0;
    check_broken(trace, "event 0 of the trace is not whole");

    trace = new_trace(1, 1);
    trace->args = lw_zalloc(1, sizeof(*trace->args), NULL);
    trace->args[0] = STRINGS;
    add(trace, LW_EVENT_OP, 0, 10, 5);
    check_broken(trace, "event 0 of the trace is not whole");

    trace = new_trace(1, 1);
    trace->tracks[0].rank = 1;
    check_broken(trace, "a track of the trace is not whole");
}

TEST(running_out_of_memory_is_said_and_the_trace_can_be_freed)
{
    for (uint64_t fail = 1; fail < 40; fail++) {
        struct lw_trace *trace = new_trace(1, 2);
        struct lw_error err = { LW_OK, "" };
        bool done;

        add(trace, LW_EVENT_RUNTIME, 0, 10, 5)->correlation = 1;
        add(trace, LW_EVENT_KERNEL, 1, 20, 5)->correlation = 1;
        add(trace, LW_EVENT_OP, 0, 5, 5)->external = 1;
        add_end(trace, 5, 0, 5, false);
        add_end(trace, 5, 0, 5, true);
        lw_alloc_fail_in(fail);
        done = lw_trace_finish(trace, STRINGS, STACKS, &err);
        lw_alloc_fail_in(0);
        lw_trace_free(trace);
        if (done)
            return;
        CHECK_EQ(err.code, LW_ERR_NOMEM);
    }
    CHECK(false);
}

/* Cutting */

TEST(a_part_has_what_was_running_and_what_that_launched)
{
    const struct lw_trace_window windows[] = { { 100, 200 }, { 0, 0 } };
    struct lw_trace *trace = new_trace(2, 4); /* tracks 0 and 2 are of rank 0 */
    struct lw_trace *part;

    add(trace, LW_EVENT_OP, 0, 0, 1000);                      /* 1, all the time */
    add(trace, LW_EVENT_OP, 0, 50, 50);                       /* ends as it begins */
    add(trace, LW_EVENT_RUNTIME, 0, 150, 5)->correlation = 7; /* 3 */
    add(trace, LW_EVENT_OP, 0, 200, 5);                       /* begins as it ends */
    add(trace, LW_EVENT_KERNEL, 2, 90, 20)->correlation = 6;  /* 5, at the edge */
    add(trace, LW_EVENT_KERNEL, 2, 300, 20)->correlation = 7; /* 6, launched by 3 */
    add(trace, LW_EVENT_KERNEL, 2, 400, 20)->correlation = 8;
    add(trace, LW_EVENT_OP, 1, 150, 5); /* of a rank without such a step */
    add_end(trace, 1, 0, 0, false);
    add_end(trace, 1, 0, 200, true);
    finish(trace);
    CHECK_EQ(trace->flow_count, 1);
    part = lw_trace_cut(trace, windows, NULL);
    CHECK(part != NULL);
    CHECK_EQ(part->event_count, 4);
    CHECK_EQ(part->flow_count, 0); /* one end of it is not there */
    for (lw_string_id name = 1; name <= 8; name++)
        CHECK_EQ(find(part, name) != LW_NONE,
                 name == 1 || name == 3 || name == 5 || name == 6);
    CHECK_EQ(parent_of(part, 3), 1);
    CHECK_EQ(parent_of(part, 6), 3);
    CHECK_EQ(part->tracks[0].count, 2);
    CHECK_EQ(part->tracks[1].count, 0);
    CHECK_EQ(part->tracks[2].first, 2);
    CHECK_EQ(part->tracks[2].count, 2);
    lw_trace_free(part);
    lw_trace_free(trace);
}

TEST(instants_of_a_part_are_those_of_its_time)
{
    const struct lw_trace_window windows[] = { { 100, 200 } };
    const uint64_t times[] = { 99, 100, 199, 200 };
    struct lw_trace *trace = new_trace(1, 1);
    struct lw_trace *part;

    for (size_t i = 0; i < 4; i++) {
        struct lw_memory_event memory = { .time_ns = times[i] };
        struct lw_trace_mark mark = { .time_ns = times[i] };
        struct lw_trace_point point = { .time_ns = times[i] };

        CHECK(lw_grow(&trace->memory, &trace->memory_capacity, i + 1, sizeof(memory),
                      NULL));
        CHECK(lw_grow(&trace->marks, &trace->mark_capacity, i + 1, sizeof(mark), NULL));
        CHECK(lw_grow(&trace->points, &trace->point_capacity, i + 1, sizeof(point),
                      NULL));
        trace->memory[trace->memory_count++] = memory;
        trace->marks[trace->mark_count++] = mark;
        trace->points[trace->point_count++] = point;
    }
    finish(trace);
    part = lw_trace_cut(trace, windows, NULL);
    CHECK(part != NULL);
    CHECK_EQ(part->memory_count, 2);
    CHECK_EQ(part->mark_count, 2);
    CHECK_EQ(part->point_count, 2);
    CHECK_EQ(part->memory[0].time_ns, 100);
    CHECK_EQ(part->memory[1].time_ns, 199);
    lw_trace_free(part);
    lw_trace_free(trace);
}
