#include "test.h"

#include <stdio.h>

#include "agent/calls.h"
#include "agent/handover.h"

static struct lw_region region;

static struct lw_calls_thread *start(uint32_t flags, bool shared)
{
    struct lw_region_options options = { .flags = flags, .shared = shared };
    struct lw_calls_thread *thread;

    CHECK(lw_region_create(&region, &options));
    thread = lw_calls_thread_new(&region, 0);
    CHECK(thread);
    atomic_store(&thread->slot->last_ticks, 0);
    return thread;
}

static void stop(struct lw_calls_thread *thread)
{
    lw_calls_thread_free(thread, true);
    lw_region_release(&region);
}

/* Calls and self ticks of all nodes of FUNCTION. */
static uint64_t calls_of(uint32_t function, uint64_t *self)
{
    uint32_t end = lw_region_blocks_used(&region) * LW_REGION_BLOCK_NODES;
    uint64_t calls = 0;

    *self = 0;
    for (uint32_t i = 1; i < end; i++) {
        struct lw_agent_node *node = lw_region_node(&region, i);

        if (atomic_load(&node->function) == function) {
            calls += atomic_load(&node->calls);
            *self += atomic_load(&node->self_ticks);
        }
    }
    return calls;
}

TEST(each_function_gets_the_time_between_its_events)
{
    struct lw_calls_thread *thread = start(0, false);
    uint64_t self;

    lw_calls_enter(thread, 1, 10); /* f from 10, */
    lw_calls_enter(thread, 2, 13); /* g 13 to 17, */
    lw_calls_leave(thread, 17);
    lw_calls_enter(thread, 2, 20); /* g 20 to 21, */
    lw_calls_leave(thread, 21);
    lw_calls_leave(thread, 30); /* to 30 */
    CHECK_EQ(calls_of(1, &self), 1);
    CHECK_EQ(self, 3 + 3 + 9);
    CHECK_EQ(calls_of(2, &self), 2);
    CHECK_EQ(self, 5);
    CHECK_EQ(lw_calls_function(thread), LW_FUNCTION_ROOT);
    stop(thread);
}

TEST(the_same_function_on_another_path_is_another_node)
{
    struct lw_calls_thread *thread = start(0, false);
    uint32_t first, second;

    lw_calls_enter(thread, 1, 1);
    lw_calls_enter(thread, 9, 2);
    first = lw_calls_current(thread);
    lw_calls_leave(thread, 3);
    lw_calls_leave(thread, 4);
    lw_calls_enter(thread, 2, 5);
    lw_calls_enter(thread, 9, 6);
    second = lw_calls_current(thread);
    CHECK(first != second);
    CHECK_EQ(lw_region_node(&region, second)->parent,
             lw_region_node(&region, lw_calls_current(thread))->parent);
    lw_calls_leave_all(thread, 7);
    CHECK_EQ(lw_calls_current(thread), thread->slot->root);
    stop(thread);
}

TEST(many_children_are_all_found_again)
{
    struct lw_calls_thread *thread = start(0, false);
    uint64_t self;

    for (int round = 0; round < 3; round++) {
        for (uint32_t f = 1; f <= 5000; f++) {
            lw_calls_enter(thread, f, f);
            lw_calls_leave(thread, f);
        }
    }
    for (uint32_t f = 1; f <= 5000; f++)
        CHECK_EQ(calls_of(f, &self), 3);
    CHECK_EQ(thread->tree->child_count, 5000 + 2); /* and the two of "(more)" */
    stop(thread);
}

TEST(a_return_from_before_the_start_leaves_us_at_the_root)
{
    struct lw_calls_thread *thread = start(0, false);

    lw_calls_leave(thread, 1);
    lw_calls_leave(thread, 2);
    CHECK_EQ(lw_calls_current(thread), thread->slot->root);
    stop(thread);
}

TEST(a_return_that_was_not_seen_is_made_up_for)
{
    struct lw_calls_thread *thread = start(0, false);

    lw_calls_enter(thread, 1, 1);
    lw_calls_enter(thread, 2, 2);
    lw_calls_enter(thread, 3, 3);
    lw_calls_leave_through(thread, 2, 4); /* 3 ended unseen */
    CHECK_EQ(lw_calls_function(thread), 1);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_MISMATCH]), 0);
    lw_calls_leave_through(thread, 7, 5); /* 7 never began */
    CHECK_EQ(lw_calls_function(thread), 1);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_MISMATCH]), 1);
    stop(thread);
}

/* Binary recursion over two functions makes a path of every combination: it fills any
 * region. */
static void recurse(struct lw_calls_thread *thread, int depth, uint64_t *calls)
{
    for (uint32_t f = 1; depth > 0 && f <= 2; f++) {
        lw_calls_enter(thread, f, ++*calls);
        recurse(thread, depth - 1, calls);
        lw_calls_leave(thread, ++*calls);
    }
}

TEST(with_no_node_left_counts_and_times_by_function_stay_exact)
{
    struct lw_calls_thread *thread = start(0, false);
    uint64_t ticks = 0, self_1, self_2, calls_1, calls_2;

    lw_calls_enter(thread, 5, 0);
    recurse(thread, 22, &ticks); /* 8 million calls, 2 million nodes */
    CHECK_EQ(lw_calls_function(thread), 5);
    lw_calls_leave(thread, ticks);
    calls_1 = calls_of(1, &self_1);
    calls_2 = calls_of(2, &self_2);
    CHECK_EQ(calls_1, (1u << 22) - 1);
    CHECK_EQ(calls_2, (1u << 22) - 1);
    CHECK(atomic_load(&region.header->lost[LW_LOST_NODES]) > 0);
    CHECK(calls_of(LW_FUNCTION_UNKNOWN, &self_1) == 0);
    stop(thread);
}

TEST(a_slot_that_is_used_again_grows_no_second_tree)
{
    struct lw_calls_thread *thread = start(0, false);
    uint32_t used;
    uint64_t self;

    for (uint32_t f = 1; f <= 300; f++) {
        lw_calls_enter(thread, f, f);
        lw_calls_leave(thread, f);
    }
    used = lw_region_blocks_used(&region);
    for (int i = 0; i < 1000; i++) {
        lw_calls_thread_free(thread, true);
        thread = lw_calls_thread_new(&region, 0);
        CHECK(thread);
        lw_calls_enter(thread, 7, 1);
        lw_calls_leave(thread, 2);
    }
    CHECK_EQ(lw_region_blocks_used(&region), used);
    CHECK_EQ(calls_of(7, &self), 1001);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_THREADS]), 0);
    stop(thread);
}

TEST(more_threads_than_slots_are_counted)
{
    struct lw_calls_thread *first = start(0, false);
    uint32_t slots = region.header->thread_slots;

    for (uint32_t i = 1; i < slots; i++)
        CHECK(lw_region_take_thread(&region));
    CHECK(!lw_calls_thread_new(&region, 0));
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_THREADS]), 1);
    stop(first);
}

static struct lw_agent_ring *ring_of(const struct lw_calls_thread *thread)
{
    return thread->ring;
}

TEST(a_timeline_has_a_span_a_call_and_drops_what_does_not_fit)
{
    struct lw_calls_thread *thread = start(LW_AGENT_TIMELINE, true);
    struct lw_agent_ring *ring = ring_of(thread);
    struct lw_agent_record *records = (struct lw_agent_record *)(ring + 1);
    uint64_t room = region.ring_mask + 1;

    lw_calls_enter(thread, 1, 10);
    lw_calls_enter(thread, 2, 12);
    lw_calls_leave(thread, 15);
    lw_calls_leave(thread, 19);
    CHECK_EQ(atomic_load(&ring->head), 2);
    CHECK_EQ(records[0].ticks, 12);
    CHECK_EQ(records[0].value, 3);
    CHECK_EQ(records[1].ticks, 10);
    CHECK_EQ(records[1].value, 9);
    for (uint64_t i = 0; i < room; i++) {
        lw_calls_enter(thread, 1, i);
        lw_calls_leave(thread, i);
    }
    CHECK_EQ(atomic_load(&ring->head), room);
    CHECK_EQ(lw_calls_room(thread), 0);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_RECORDS]), 2);
    atomic_store(&ring->tail, 5); /* the recorder took five */
    lw_calls_enter(thread, 1, 1);
    lw_calls_leave(thread, 1);
    CHECK_EQ(atomic_load(&ring->head), room + 1);
    stop(thread);
}

TEST(spans_shorter_than_asked_are_left_out)
{
    struct lw_calls_thread *thread = start(LW_AGENT_TIMELINE, true);

    thread->min_span_ticks = 5;
    lw_calls_enter(thread, 1, 10);
    lw_calls_leave(thread, 14);
    lw_calls_enter(thread, 1, 20);
    lw_calls_leave(thread, 25);
    CHECK_EQ(atomic_load(&ring_of(thread)->head), 1);
    stop(thread);
}

TEST(after_fork_the_child_goes_on_at_the_same_path_with_nothing_counted)
{
    struct lw_calls_thread *thread = start(0, true);
    struct lw_region old;
    struct lw_region_options options = { .flags = LW_AGENT_FORKED, .shared = true };
    uint64_t self;

    lw_calls_enter(thread, 1, 10);
    lw_calls_enter(thread, 2, 11);
    lw_calls_thread_before_fork(thread);
    /* The parent goes on in the memory that is shared; the child must not see it. */
    atomic_store(&thread->slot->last_ticks, 12);
    atomic_store(&thread->slot->current, thread->slot->root);
    old = region;
    CHECK(lw_region_create(&region, &options));
    CHECK(lw_calls_thread_move(thread, &region));
    CHECK_EQ(lw_calls_function(thread), 2);
    CHECK_EQ(calls_of(1, &self) + calls_of(2, &self), 0);
    lw_calls_leave(thread, 20);
    CHECK_EQ(lw_calls_function(thread), 1);
    CHECK_EQ(calls_of(2, &self), 0);
    CHECK_EQ(self, 9); /* since 11, when the parent's was */
    lw_calls_leave(thread, 30);
    CHECK_EQ(lw_calls_function(thread), LW_FUNCTION_ROOT);
    lw_region_leave(&old);
    stop(thread);
}

TEST(a_name_log_that_is_full_counts_and_stays_whole)
{
    struct lw_calls_thread *thread = start(0, true);
    struct lw_agent_name head = { .file_len = 4096, .name_len = 4096 };
    static char text[4096];
    uint64_t used = 0;
    uint32_t added = 0;

    while (lw_region_add_name(&region, &head, text, text)) {
        added++;
        used = atomic_load(&region.header->names_used);
    }
    CHECK(added > 1000);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_NAMES]), 1);
    CHECK_EQ(atomic_load(&region.header->names_used), used);
    stop(thread);
}

TEST(the_variable_is_taken_whole_or_not_at_all)
{
    struct lw_agent_config config;
    char long_path[300];

    CHECK(lw_agent_config_parse(
        &config, "socket=/tmp/x/agent,calls=c,timeline=1,min_span_ns=250,steps=1,"
                 "later=7"));
    CHECK_STR(config.socket, "/tmp/x/agent");
    CHECK(config.calls && config.c_calls && config.timeline && config.steps);
    CHECK_EQ(config.min_span_ns, 250);
    CHECK(lw_agent_config_parse(&config, "socket=/s,calls=python"));
    CHECK(config.calls && !config.c_calls && !config.timeline && !config.steps);
    CHECK(lw_agent_config_parse(&config, "socket=/s,calls=off"));
    CHECK(!config.calls);
    CHECK(!lw_agent_config_parse(&config, ""));
    CHECK(!lw_agent_config_parse(&config, "calls=c"));
    CHECK(!lw_agent_config_parse(&config, "socket"));
    CHECK(!lw_agent_config_parse(&config, "socket=,calls=c"));
    snprintf(long_path, sizeof(long_path), "socket=/%0200d", 1);
    CHECK(!lw_agent_config_parse(&config, long_path));
    CHECK_EQ(config.socket[0], '\0');
}

TEST(a_recorder_that_is_not_there_is_no_harm)
{
    CHECK(!lw_handover_send("/nonexistent/agent", LW_HELLO_NOTE, NULL, "x", 1, 0));
}
