#include "test.h"

#include "agent/calls.h"
#include "agent/totals.h"

static struct lw_region region;

static struct lw_calls_thread *start(void)
{
    struct lw_region_options options = { .flags = LW_AGENT_CALLS };
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

static struct lw_total find(const struct lw_totals *totals, uint32_t caller,
                            uint32_t function)
{
    for (uint32_t i = 0; i < totals->count; i++)
        if (totals->list[i].caller == caller && totals->list[i].function == function)
            return totals->list[i];
    return (struct lw_total){ 0 };
}

/* Each thread also has "(more)" and what is folded there, never called here. */
static uint32_t count_called(const struct lw_totals *totals)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < totals->count; i++)
        count += totals->list[i].calls > 0;
    return count;
}

static void check_total(struct lw_total total, uint64_t calls, uint64_t primitive,
                        uint64_t self_ticks, uint64_t total_ticks)
{
    CHECK_EQ(total.calls, calls);
    CHECK_EQ(total.primitive_calls, primitive);
    CHECK_EQ(total.self_ticks, self_ticks);
    CHECK_EQ(total.total_ticks, total_ticks);
    CHECK_EQ(total.running, 0);
}

TEST(a_recursion_counts_once_in_totals_and_as_one_primitive_call)
{
    struct lw_calls_thread *thread = start();
    struct lw_totals totals;

    lw_calls_enter(thread, 1, 0);
    lw_calls_enter(thread, 2, 1); /* 1 calls 2, */
    lw_calls_enter(thread, 1, 3); /* which calls 1, */
    lw_calls_enter(thread, 2, 6); /* which calls 2 */
    lw_calls_leave(thread, 10);
    lw_calls_leave(thread, 10);
    lw_calls_leave(thread, 10);
    lw_calls_leave(thread, 15);
    CHECK(lw_totals_read(&totals, &region));
    check_total(find(&totals, 0, 1), 2, 1, 1 + 5 + 3, 15);
    check_total(find(&totals, 0, 2), 2, 1, 2 + 4, 9);
    check_total(find(&totals, 1, 2), 2, 1, 2 + 4, 9);
    check_total(find(&totals, 2, 1), 1, 1, 3, 7);
    CHECK_EQ(count_called(&totals), 4);
    lw_totals_release(&totals);
    stop(thread);
}

TEST(functions_of_all_threads_are_added_up)
{
    struct lw_calls_thread *thread = start();
    struct lw_calls_thread *other = lw_calls_thread_new(&region, 0);
    struct lw_totals totals;

    atomic_store(&other->slot->last_ticks, 0);
    for (uint32_t i = 0; i < 3; i++) {
        lw_calls_enter(thread, 5, 10 * i);
        lw_calls_leave(thread, 10 * i + 1);
    }
    lw_calls_enter(other, 5, 0);
    lw_calls_leave(other, 7);
    CHECK(lw_totals_read(&totals, &region));
    check_total(find(&totals, 0, 5), 4, 4, 3 + 7, 3 + 7);
    CHECK_EQ(count_called(&totals), 1); /* and nobody calls it */
    lw_totals_release(&totals);
    lw_calls_thread_free(other, true);
    stop(thread);
}

TEST(a_deep_recursion_and_many_pairs_are_walked_too)
{
    enum { DEEP = 100000, WIDE = 3000 };
    struct lw_calls_thread *thread = start();
    struct lw_totals totals;
    uint64_t now = 0;

    for (uint32_t i = 0; i < DEEP; i++)
        lw_calls_enter(thread, 1, ++now);
    lw_calls_leave_all(thread, ++now);
    for (uint32_t i = 0; i < WIDE; i++) {
        lw_calls_enter(thread, 2 + i, ++now);
        lw_calls_enter(thread, 1, ++now);
        lw_calls_leave_all(thread, ++now);
    }
    CHECK(lw_totals_read(&totals, &region));
    CHECK_EQ(find(&totals, 0, 1).calls, DEEP + WIDE);
    CHECK_EQ(find(&totals, 0, 1).primitive_calls, 1 + WIDE);
    CHECK_EQ(find(&totals, 1, 1).calls, DEEP - 1);
    CHECK_EQ(find(&totals, 1, 1).primitive_calls, 1);
    CHECK_EQ(count_called(&totals), 2 + 2 * WIDE);
    lw_totals_release(&totals);
    stop(thread);
}

TEST(an_empty_region_has_no_totals)
{
    struct lw_calls_thread *thread = start();
    struct lw_totals totals;

    CHECK(lw_totals_read(&totals, &region));
    CHECK_EQ(count_called(&totals), 0);
    lw_totals_release(&totals);
    stop(thread);
}
