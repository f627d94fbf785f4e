#include "analyses/advice.h"

#include <math.h>

#include "analyses/advice_machine.h"
#include "analyses/advice_plan.h"
#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

#define MS 1e6
#define SECOND 1000000000ull

static bool is_unknown(double value)
{
    return isnan(value);
}

/* ---- how many workers --------------------------------------------------------------- */

/* A training that makes its batches itself, on processors, one of which it uses. */
static struct lw_batches alone(double data_ms, double rest_ms)
{
    struct lw_batches batches = { .by_itself = true,
                                  .step_count = 100,
                                  .step_ns = (data_ms + rest_ms) * MS,
                                  .data_ns = data_ms * MS,
                                  .each = 1,
                                  .on_cpu = 1,
                                  .train_share = 1 };

    return batches;
}

static struct lw_advice_machine machine_of(double cpus, double used, double others)
{
    struct lw_advice_machine machine = {
        .cpus = cpus, .own = used, .family = used, .others = others
    };

    return machine;
}

static struct lw_workers_plan plan(const struct lw_batches *batches, double cpus,
                                   double used, double others)
{
    struct lw_advice_machine machine = machine_of(cpus, used, others);
    struct lw_workers_plan plan;

    lw_workers_plan_init(&plan, batches, &machine);
    return plan;
}

TEST(there_are_as_many_workers_as_the_rest_of_a_step_needs)
{
    struct lw_batches little = alone(5, 10), close = alone(9, 10), much = alone(31, 10);

    CHECK_EQ(plan(&little, 8, 1, 0).workers, 1);
    CHECK_EQ(plan(&close, 8, 1, 0).workers, 2); /* one would be busy nine tenths */
    CHECK_EQ(plan(&much, 8, 1, 0).workers, 4);
    CHECK(!plan(&much, 8, 1, 0).lacks_cpus);
}

TEST(there_are_no_more_workers_than_processors_for_them)
{
    struct lw_batches much = alone(60, 10);

    CHECK_EQ(plan(&much, 4, 1, 0).workers, 3);
    CHECK(plan(&much, 4, 1, 0).lacks_cpus);
    CHECK_EQ(plan(&much, 8, 1, 5).workers, 2); /* others use five */
    CHECK_EQ(plan(&much, 1, 1, 0).workers, 1);
}

TEST(workers_that_wait_need_no_processor)
{
    struct lw_batches waits = alone(60, 10);

    waits.on_cpu = 0.1;
    CHECK_EQ(plan(&waits, 2, 0.3, 0).workers, 7);
    waits.on_cpu = 0;
    waits.data_ns = 600 * MS;
    waits.step_ns = 610 * MS;
    CHECK_EQ(plan(&waits, 2, 0.3, 0).workers, 16); /* the most */
}

TEST(a_step_takes_its_rest_if_that_is_longest)
{
    struct lw_batches b = alone(12, 10);
    struct lw_workers_plan found = plan(&b, 8, 1, 0);

    CHECK_NEAR(found.best_ns, 10.1 * MS);
    CHECK(found.worst_ns > found.best_ns);
    CHECK(found.worst_ns < b.step_ns);
}

TEST(a_step_takes_what_its_processors_need_if_there_are_too_few)
{
    struct lw_batches b = alone(10, 10);
    struct lw_workers_plan found = plan(&b, 1, 1, 0);

    CHECK_NEAR(found.best_ns, b.step_ns); /* nothing is gained */
    CHECK(found.lacks_cpus);
    found = plan(&b, 2, 1, 1); /* the other one is somebody else's */
    CHECK_NEAR(found.best_ns, b.step_ns);
    found = plan(&b, 2, 0.3, 1.7); /* all are in use, and it gets little of them */
    CHECK_NEAR(found.best_ns, b.step_ns);
}

TEST(of_workers_that_are_there_it_is_known_what_a_batch_costs)
{
    struct lw_advice_worker made[] = { { .batches = 10, .ns = 300 * 1000000ull },
                                       { .batches = 10, .ns = 500 * 1000000ull } };
    struct lw_batches b = alone(10, 10);
    struct lw_workers_plan found;

    b.by_itself = false;
    b.by_workers = true;
    b.workers = made;
    b.worker_count = b.at_a_time = 2;
    CHECK_NEAR(lw_batches_worker_ns(&b), 40 * MS);
    found = plan(&b, 8, 2.5, 0);
    CHECK_EQ(found.workers, 5); /* four would be busy all the time */
    CHECK_NEAR(found.best_ns, 10 * MS);
}

/* ---- the machine -------------------------------------------------------------------- */

static void count(struct lw_builder *builder, const char *name, uint32_t process,
                  uint64_t time_ns, double value)
{
    struct lw_counter_point point = { .time_ns = time_ns,
                                      .value = value,
                                      .process = process };

    CHECK(lw_builder_string(builder, name, strlen(name), &point.name, NULL));
    CHECK(lw_builder_counter(builder, &point, NULL));
}

/* A training (pid 1), a worker of it, and somebody else, from 10 s to 20 s. */
static struct lw_builder *three_processes(void)
{
    struct lw_builder *builder = lw_builder_new(NULL);

    CHECK(builder != NULL);
    for (uint64_t i = 0; i < 3; i++) {
        struct lw_process process = { .pid = i + 1, .rank = -1, .exit_code = 0 };
        struct lw_thread thread = { .process = (uint32_t)i, .tid = i + 1 };
        uint32_t index;

        process.parent_pid = i == 1 ? 1 : 99;
        CHECK(lw_builder_process(builder, &process, &index, NULL));
        CHECK(lw_builder_thread(builder, &thread, &index, NULL));
    }
    return builder;
}

static struct lw_advice_machine look(struct lw_builder *builder)
{
    struct lw_step_piece pieces[] = { { .start_ns = 10 * SECOND },
                                      { .start_ns = 20 * SECOND } };
    struct lw_step_track track = { .pieces = pieces, .piece_count = 2 };
    struct lw_profile *profile = lw_builder_finish(builder, NULL);
    struct lw_advice_machine machine;

    CHECK(profile != NULL);
    machine = lw_advice_machine_of(profile, &track);
    lw_profile_free(profile);
    return machine;
}

TEST(what_the_machine_did_is_told_of_the_time_of_the_training)
{
    struct lw_builder *builder = three_processes();
    struct lw_advice_machine machine;

    count(builder, "machine cpus", 0, 1 * SECOND, 8);
    count(builder, "machine cpu [%]", 0, 1 * SECOND, 800); /* before it began */
    count(builder, "machine cpu [%]", 0, 10 * SECOND, 500);
    count(builder, "machine cpu [%]", 0, 15 * SECOND, 300);
    count(builder, "cpu [%]", 0, 1 * SECOND, 800);
    count(builder, "cpu [%]", 0, 10 * SECOND, 100);
    count(builder, "cpu [%]", 1, 10 * SECOND, 150);
    count(builder, "cpu [%]", 2, 10 * SECOND, 50);
    machine = look(builder);
    CHECK_EQ(machine.cpus, 8);
    CHECK_NEAR(machine.own, 1);
    CHECK_NEAR(machine.family, 2.5);
    CHECK_NEAR(machine.others, 1.5); /* 4 on average, less the 2.5 */
}

TEST(a_container_has_what_it_may_use)
{
    struct lw_builder *builder = three_processes();
    struct lw_advice_machine machine;

    count(builder, "machine cpus", 0, 1 * SECOND, 64);
    count(builder, "container cpu limit [%]", 0, 1 * SECOND, 400);
    count(builder, "machine cpu [%]", 0, 1 * SECOND, 100);
    count(builder, "cpu [%]", 0, 1 * SECOND, 100);
    machine = look(builder);
    CHECK_EQ(machine.cpus, 4);
    CHECK_EQ(machine.others, 0);
}

TEST(without_counters_of_the_machine_nothing_is_promised)
{
    struct lw_builder *builder = three_processes();
    struct lw_advice_machine machine;

    count(builder, "loss", 0, 10 * SECOND, 1);
    machine = look(builder);
    CHECK(is_unknown(machine.cpus));
    CHECK(is_unknown(machine.own));
    CHECK(is_unknown(machine.family));
}

/* ---- findings ----------------------------------------------------------------------- */

static bool add(struct lw_advice *advice, const char *change, double low, double high)
{
    struct lw_finding finding = { .rule = &lw_advice_rule_logging,
                                  .change = change,
                                  .evidence = "measured",
                                  .file = "train.py",
                                  .line = 7,
                                  .gain_low = low,
                                  .gain_high = high };

    return lw_advice_add(advice, &finding, NULL);
}

TEST(of_what_several_ranks_have_the_largest_gain_stays)
{
    struct lw_advice advice = { 0 };

    lw_arena_init(&advice.arena);
    CHECK(add(&advice, "less", 0.1, 0.2));
    CHECK(add(&advice, "less", 0.3, 0.4));
    CHECK(add(&advice, "less", NAN, NAN));
    CHECK(add(&advice, "none", NAN, NAN));
    CHECK(add(&advice, "none", NAN, NAN));
    CHECK_EQ(advice.count, 2);
    CHECK_NEAR(advice.list[0].gain_low, 0.3);
    CHECK(is_unknown(advice.list[1].gain_low));
    lw_arena_release(&advice.arena);
    lw_free(advice.list);
}

TEST(a_finding_that_does_not_fit_into_memory_is_not_half_there)
{
    struct lw_advice advice = { 0 };

    lw_arena_init(&advice.arena);
    for (unsigned n = 1;; n++) {
        bool done;

        lw_alloc_fail_in(n);
        done = add(&advice, "less", 0.1, 0.2);
        lw_alloc_fail_in(0);
        CHECK_EQ(advice.count, done);
        if (done)
            break;
    }
    lw_arena_release(&advice.arena);
    lw_free(advice.list);
}
