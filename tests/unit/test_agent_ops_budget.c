/* Which steps are recorded op by op; see agent/ops_budget.h. */

#include "agent/ops_budget.h"
#include "test.h"

/* A training of 1 ms steps, OPS in each. An op costs `op_ns`, three times what it is
 * thought to at least; ticks are ns. */
struct story {
    struct lw_ops_budget budget;
    double op_ns;
    uint64_t now;
    bool is_on;
    uint64_t steps, recorded, given_up;
    double spent_ns;
};

static void begin(struct story *s)
{
    *s = (struct story){ .op_ns = 300, .now = 1000000000 };
    lw_ops_budget_init(&s->budget, 100, 1e6);
}

/* One step of OPS ops and WORK_NS; ops are looked at every 1,000. */
static void step(struct story *s, uint64_t ops, uint64_t work_ns)
{
    bool was_on = s->is_on;
    double spent_ns = 0;

    for (uint64_t done = 1000; s->is_on && done < ops; done += 1000)
        if (lw_ops_budget_is_spent(&s->budget, done)) {
            lw_ops_budget_give_up(&s->budget, done);
            s->given_up++;
            spent_ns = (double)done * s->op_ns;
            s->is_on = false;
        }
    if (s->is_on)
        spent_ns = (double)ops * s->op_ns;
    s->spent_ns += spent_ns;
    s->recorded += s->is_on;
    s->steps++;
    s->now += work_ns + (uint64_t)spent_ns;
    s->is_on = lw_ops_budget_step(&s->budget, s->now, s->is_on, was_on ? ops : 0);
}

TEST(the_first_step_is_not_recorded)
{
    struct story s;

    begin(&s);
    step(&s, 1000, 1000000);
    CHECK(!s.is_on);
    step(&s, 1000, 1000000);
    CHECK(s.is_on);
}

TEST(tiny_ops_are_recorded_in_some_steps_within_the_share)
{
    struct story s;

    begin(&s);
    for (int i = 0; i < 20000; i++)
        step(&s, 1000, 1000000);
    /* 20 s, of which 0.3 % is 60 ms: 200 steps of 0.3 ms, and what was saved before. */
    CHECK(s.recorded > 180 && s.recorded < 230);
    CHECK(s.spent_ns < 0.0033 * 20e9);
}

TEST(recorded_steps_are_spread_over_the_run)
{
    uint64_t before[4] = { 0 };
    struct story s;

    begin(&s);
    for (int quarter = 0; quarter < 4; quarter++) {
        for (int i = 0; i < 5000; i++)
            step(&s, 1000, 1000000);
        before[quarter] = s.recorded;
    }
    for (int quarter = 1; quarter < 4; quarter++)
        CHECK(before[quarter] - before[quarter - 1] > 45);
}

TEST(where_ops_cost_nothing_much_every_step_is_recorded)
{
    struct story s;

    begin(&s);
    for (int i = 0; i < 200; i++)
        step(&s, 1000, 200000000);
    /* The first two are not, and then one in eight. */
    CHECK_EQ(s.recorded, 174);
}

TEST(an_op_that_costs_more_than_is_thought_is_recorded_as_much_less)
{
    struct story s;

    begin(&s);
    s.op_ns = 1200;
    for (int i = 0; i < 20000; i++)
        step(&s, 1000, 1000000);
    /* A step more in 400. */
    CHECK(s.recorded > 45 && s.recorded < 60);
    CHECK(s.spent_ns < 0.0036 * 20e9);
}

TEST(a_step_of_a_million_ops_is_given_up_and_saved_for)
{
    struct story s;

    begin(&s);
    for (int i = 0; i < 400; i++)
        step(&s, 1000000, 2000000000);
    CHECK(s.given_up >= 1 && s.given_up < 12);
    CHECK(s.recorded >= 5);
    CHECK(s.spent_ns < 0.015 * 400 * 2e9);
}

TEST(steps_in_a_row_leave_the_ring_room_until_it_is_read)
{
    const uint64_t capacity = 1 << 15;
    uint64_t room = capacity, read_ns = 0;
    struct story s;

    begin(&s);
    s.op_ns = 100;
    s.now += 10000000000; /* to import torch: a thousand steps are paid for by then */
    for (int i = 0; i < 4000; i++) {
        uint64_t records = s.is_on ? 2 * 70 + 10 : 10;

        CHECK(records <= room);
        room -= records;
        step(&s, 70, 125000);
        if (s.now >= read_ns) {
            room = capacity;
            read_ns = s.now + 50000000;
        }
        s.is_on = s.is_on && lw_ops_budget_has_room(&s.budget, room, capacity);
    }
    CHECK(s.recorded > 400);
}

TEST(a_long_wait_does_not_buy_many_slow_steps)
{
    struct story s;

    begin(&s);
    for (int i = 0; i < 100; i++)
        step(&s, 1000, 1000000);
    s.now += 3600ull * 1000000000;
    s.recorded = 0;
    for (int i = 0; i < 100; i++)
        step(&s, 1000, 1000000);
    CHECK(s.recorded < 60);
}
