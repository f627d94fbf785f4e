#include "test.h"

#include "base/alloc.h"
#include "model/builder.h"

/* A builder with a process, two threads, and the stacks main and main -> step. */
struct fixture {
    struct lw_builder *builder;
    uint32_t process, threads[2];
    lw_frame_id main_frame, step_frame;
    lw_stack_id main, step;
};

static lw_frame_id add_function(struct lw_builder *builder, const char *name)
{
    struct lw_frame frame = { .first_line = 1 };
    lw_frame_id id;

    CHECK(lw_builder_string(builder, name, strlen(name), &frame.name, NULL));
    CHECK(lw_builder_frame(builder, &frame, &id, NULL));
    return id;
}

static struct fixture make_fixture(void)
{
    struct fixture f = { .builder = lw_builder_new(NULL) };
    struct lw_process process = { .pid = 100, .rank = -1, .exit_code = -1 };

    CHECK(lw_builder_process(f.builder, &process, &f.process, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        struct lw_thread thread = { .process = f.process, .tid = 100 + i };

        CHECK(lw_builder_thread(f.builder, &thread, &f.threads[i], NULL));
    }
    f.main_frame = add_function(f.builder, "main");
    f.step_frame = add_function(f.builder, "step");
    CHECK(lw_builder_push(f.builder, LW_NO_STACK, f.main_frame, &f.main, NULL));
    CHECK(lw_builder_push(f.builder, f.main, f.step_frame, &f.step, NULL));
    return f;
}

static void add_calls(struct fixture *f, uint32_t thread, lw_stack_id stack,
                      uint64_t calls)
{
    struct lw_call_row row = { thread, stack, calls, calls * 10 };

    CHECK(lw_builder_calls(f->builder, &row, NULL));
}

TEST(the_unknown_frame_has_its_name)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    const struct lw_profile *profile = lw_builder_profile(builder);

    CHECK_STR(lw_profile_text(profile, lw_profile_frame(profile, 0)->name),
              "(unknown)");
    lw_builder_free(builder);
    lw_builder_free(NULL);
}

TEST(rows_of_one_thread_and_stack_are_added_up)
{
    struct fixture f = make_fixture();
    struct lw_profile *profile;

    add_calls(&f, 1, f.step, 1);
    add_calls(&f, 0, f.step, 10);
    add_calls(&f, 1, f.main, 100);
    add_calls(&f, 0, f.step, 1000);
    add_calls(&f, 1, f.step, 10000);
    profile = lw_builder_finish(f.builder, NULL);
    CHECK_EQ(profile->call_count, 3);
    CHECK_EQ(profile->calls[0].thread, 0);
    CHECK_EQ(profile->calls[0].stack, f.step);
    CHECK_EQ(profile->calls[0].calls, 1010);
    CHECK_EQ(profile->calls[0].self_ns, 10100);
    CHECK_EQ(profile->calls[1].thread, 1);
    CHECK_EQ(profile->calls[1].stack, f.step);
    CHECK_EQ(profile->calls[1].calls, 10001);
    CHECK_EQ(profile->calls[2].thread, 1);
    CHECK_EQ(profile->calls[2].stack, f.main);
    CHECK_EQ(profile->calls[2].calls, 100);
    lw_profile_free(profile);
}

TEST(a_row_saved_a_million_times_takes_the_room_of_one)
{
    struct fixture f = make_fixture();
    struct lw_profile *profile;

    for (uint32_t i = 0; i < 1000000; i++) {
        add_calls(&f, i % 2, i % 3 ? f.step : f.main, 1);
        CHECK(lw_builder_profile(f.builder)->call_count <= 16);
    }
    profile = lw_builder_finish(f.builder, NULL);
    CHECK_EQ(profile->call_count, 4);
    CHECK_EQ(profile->calls[0].calls + profile->calls[1].calls, 500000);
    CHECK_EQ(profile->calls[2].calls + profile->calls[3].calls, 500000);
    lw_profile_free(profile);
}

TEST(many_distinct_rows_of_many_threads_are_all_kept)
{
    struct fixture f = make_fixture();
    uint32_t threads[50];
    lw_stack_id stacks[200];
    struct lw_profile *profile;

    for (uint32_t i = 0; i < 50; i++) {
        struct lw_thread thread = { .process = 0, .tid = i };

        CHECK(lw_builder_thread(f.builder, &thread, &threads[i], NULL));
    }
    for (uint32_t i = 0; i < 200; i++)
        CHECK(lw_builder_push(f.builder, i ? stacks[i - 1] : 0, f.step_frame,
                              &stacks[i], NULL));
    for (int round = 0; round < 3; round++)
        for (uint32_t s = 0; s < 200; s++)
            for (uint32_t t = 0; t < 50; t++)
                add_calls(&f, threads[t], stacks[s], t * 1000 + s);
    profile = lw_builder_finish(f.builder, NULL);
    CHECK_EQ(profile->call_count, 10000);
    for (size_t i = 0; i < 10000; i++) {
        CHECK_EQ(profile->calls[i].thread, threads[i / 200]);
        CHECK_EQ(profile->calls[i].stack, stacks[i % 200]);
        CHECK_EQ(profile->calls[i].calls, 3 * (i / 200 * 1000 + i % 200));
    }
    lw_profile_free(profile);
}

TEST(an_empty_profile_is_a_profile)
{
    struct lw_profile *profile = lw_builder_finish(lw_builder_new(NULL), NULL);

    CHECK(profile != NULL);
    CHECK_EQ(profile->call_count, 0);
    lw_profile_free(profile);
    lw_profile_free(NULL);
}

TEST(samples_and_spans_stay_in_the_order_in_which_they_came)
{
    struct fixture f = make_fixture();
    struct lw_sample samples[] = {
        { .time_ns = 5, .thread = 1, .stack = f.step, .state = LW_STATE_CPU },
        { .time_ns = 3, .thread = 0, .stack = 0 },
    };
    struct lw_span span = { .start_ns = 1, .thread = 0, .stack = f.main };
    struct lw_profile *profile;

    CHECK(lw_builder_samples(f.builder, samples, 2, NULL));
    CHECK(lw_builder_samples(f.builder, NULL, 0, NULL));
    CHECK(lw_builder_samples(f.builder, samples, 1, NULL));
    CHECK(lw_builder_spans(f.builder, &span, 1, NULL));
    CHECK(lw_builder_spans(f.builder, NULL, 0, NULL));
    profile = lw_builder_finish(f.builder, NULL);
    CHECK_EQ(profile->sample_count, 3);
    CHECK_EQ(profile->samples[0].time_ns, 5);
    CHECK_EQ(profile->samples[1].time_ns, 3);
    CHECK_EQ(profile->samples[2].stack, f.step);
    CHECK_EQ(profile->span_count, 1);
    CHECK_EQ(profile->spans[0].stack, f.main);
    lw_profile_free(profile);
}

static void check_refused(bool done, const struct lw_error *err, const char *sentence)
{
    CHECK(!done);
    CHECK_EQ(err->code, LW_ERR_FORMAT);
    CHECK_STR(err->text, sentence);
}

TEST(nothing_that_does_not_exist_can_be_referred_to)
{
    struct fixture f = make_fixture();
    struct lw_builder *b = f.builder;
    struct lw_error err;
    struct lw_frame frame = { .name = 99 };
    struct lw_process process = { .command = 98 };
    struct lw_thread thread = { .process = 1 };
    struct lw_call_row row = { .thread = 2 };
    struct lw_sample samples[] = { { .thread = 1 }, { .stack = 77 } };
    struct lw_span spans[] = { { .stack = 1 }, { .thread = 5 } };
    struct lw_counter_point point = { .process = 9 };
    struct lw_allocation allocation = { .stack = 66 };
    struct lw_graph_function function = { .frame = 55 };
    struct lw_graph_edge edge = { .caller = 0, .callee = 44 };
    struct lw_profile *profile;
    uint32_t id;

    check_refused(lw_builder_frame(b, &frame, &id, &err), &err,
                  "there is no string 99");
    frame.name = 0;
    frame.file = 97;
    check_refused(lw_builder_frame(b, &frame, &id, &err), &err,
                  "there is no string 97");
    frame.file = 0;
    frame.kind = 200;
    check_refused(lw_builder_frame(b, &frame, &id, &err), &err,
                  "there is no kind 200 of frame");
    check_refused(lw_builder_push(b, 3, f.step_frame, &id, &err), &err,
                  "there is no stack 3");
    check_refused(lw_builder_push(b, 0, 3, &id, &err), &err, "there is no frame 3");
    check_refused(lw_builder_process(b, &process, &id, &err), &err,
                  "there is no string 98");
    check_refused(lw_builder_update_process(b, 0, &process, &err), &err,
                  "there is no string 98");
    check_refused(lw_builder_update_process(b, 1, &process, &err), &err,
                  "there is no process 1");
    check_refused(lw_builder_thread(b, &thread, &id, &err), &err,
                  "there is no process 1");
    check_refused(lw_builder_update_thread(b, 0, &thread, &err), &err,
                  "there is no process 1");
    check_refused(lw_builder_update_thread(b, 2, &thread, &err), &err,
                  "there is no thread 2");
    check_refused(lw_builder_calls(b, &row, &err), &err, "there is no thread 2");
    row.thread = 0;
    row.stack = 3;
    check_refused(lw_builder_calls(b, &row, &err), &err, "there is no stack 3");
    check_refused(lw_builder_samples(b, samples, 2, &err), &err,
                  "there is no stack 77");
    check_refused(lw_builder_spans(b, spans, 2, &err), &err, "there is no thread 5");
    check_refused(lw_builder_counter(b, &point, &err), &err, "there is no process 9");
    check_refused(lw_builder_allocation(b, &allocation, &err), &err,
                  "there is no stack 66");
    check_refused(lw_builder_function(b, &function, &id, &err), &err,
                  "there is no frame 55");
    check_refused(lw_builder_edge(b, &edge, &err), &err, "there is no function 44");
    check_refused(lw_builder_loss(b, "ring full", "spans", 8, 1, &err), &err,
                  "there is no process 8");

    profile = lw_builder_finish(b, &err);
    CHECK_EQ(profile->process_count, 1);
    CHECK_EQ(profile->thread_count, 2);
    CHECK_EQ(profile->call_count + profile->sample_count + profile->span_count, 0);
    CHECK_EQ(profile->counter_count + profile->allocation_count, 0);
    CHECK_EQ(profile->function_count + profile->edge_count + profile->loss_count, 0);
    lw_profile_free(profile);
}

TEST(what_is_known_of_a_process_and_a_thread_may_change)
{
    struct fixture f = make_fixture();
    struct lw_process process = { .pid = 100, .end_ns = 9, .exit_code = 1 };
    struct lw_thread thread = { .process = 0, .tid = 7, .end_ns = 8 };
    const struct lw_profile *profile = lw_builder_profile(f.builder);

    CHECK(lw_builder_update_process(f.builder, 0, &process, NULL));
    CHECK(lw_builder_update_thread(f.builder, 1, &thread, NULL));
    CHECK_EQ(profile->processes[0].exit_code, 1);
    CHECK_EQ(profile->threads[1].end_ns, 8);
    CHECK_EQ(profile->process_count, 1);
    CHECK_EQ(profile->thread_count, 2);
    lw_builder_free(f.builder);
}

TEST(losses_of_one_cause_and_process_add_up)
{
    struct fixture f = make_fixture();
    struct lw_profile *profile;

    CHECK(lw_builder_loss(f.builder, "ring full", "spans", 0, 10, NULL));
    CHECK(lw_builder_loss(f.builder, "ring full", "calls", 0, 3, NULL));
    CHECK(lw_builder_loss(f.builder, "ring full", "spans", LW_NONE, 5, NULL));
    CHECK(lw_builder_loss(f.builder, "ring full", "spans", 0, 1, NULL));
    profile = lw_builder_finish(f.builder, NULL);
    CHECK_EQ(profile->loss_count, 3);
    CHECK_EQ(profile->losses[0].count, 11);
    CHECK_EQ(profile->losses[1].count, 3);
    CHECK_EQ(profile->losses[2].count, 5);
    lw_profile_free(profile);
}

TEST(a_fact_has_the_value_it_was_given_last)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_profile *profile;

    CHECK(lw_builder_fact(builder, "host", "a", 1, NULL));
    CHECK(lw_builder_fact(builder, "commit", "c0ffee", 6, NULL));
    CHECK(lw_builder_fact(builder, "host", "b", 1, NULL));
    lw_builder_set_times(builder, 1, 2, 3);
    lw_builder_set_c_calls(builder, true);
    profile = lw_builder_finish(builder, NULL);
    CHECK_EQ(profile->fact_count, 2);
    CHECK_STR(lw_profile_fact(profile, "host"), "b");
    CHECK_STR(lw_profile_fact(profile, "commit"), "c0ffee");
    CHECK(lw_profile_fact(profile, "rank") == NULL);
    CHECK_EQ(profile->start_ns, 1);
    CHECK_EQ(profile->end_ns, 2);
    CHECK_EQ(profile->wall_start_ns, 3);
    CHECK(profile->has_c_calls);
    lw_profile_free(profile);
}

/* Everything once, with enough call rows to grow and to sort. */
static bool build_all(struct lw_error *err, struct lw_profile **profile)
{
    struct lw_builder *b = lw_builder_new(err);
    struct lw_process process = { .pid = 1 };
    struct lw_thread thread = { .process = 0 };
    struct lw_frame frame = { .first_line = 1 };
    struct lw_sample sample = { .thread = 0 };
    struct lw_span span = { .thread = 0 };
    struct lw_counter_point point = { .process = 0 };
    struct lw_allocation allocation = { .thread = 0 };
    struct lw_graph_function function = { .frame = 0 };
    struct lw_graph_edge edge = { .caller = 0 };
    uint32_t id;

    *profile = NULL;
    if (!b)
        return false;
    if (!lw_builder_process(b, &process, &id, err) ||
        !lw_builder_thread(b, &thread, &id, err) ||
        !lw_builder_thread(b, &thread, &id, err) ||
        !lw_builder_string(b, "name", 4, &frame.name, err) ||
        !lw_builder_frame(b, &frame, &id, err) ||
        !lw_builder_push(b, 0, id, &id, err) ||
        !lw_builder_samples(b, &sample, 1, err) ||
        !lw_builder_spans(b, &span, 1, err) || !lw_builder_counter(b, &point, err) ||
        !lw_builder_allocation(b, &allocation, err) ||
        !lw_builder_function(b, &function, &id, err) ||
        !lw_builder_edge(b, &edge, err) || !lw_builder_loss(b, "c", "u", 0, 1, err) ||
        !lw_builder_fact(b, "k", "v", 1, err)) {
        lw_builder_free(b);
        return false;
    }
    for (uint32_t i = 0; i < 100; i++) {
        struct lw_call_row row = { (i + 1) % 2, i % 2, 1, 1 };

        if (!lw_builder_calls(b, &row, err)) {
            lw_builder_free(b);
            return false;
        }
    }
    *profile = lw_builder_finish(b, err);
    return *profile != NULL;
}

TEST(every_allocation_of_a_builder_may_fail)
{
    struct lw_profile *profile;
    unsigned n = 1;

    for (;; n++) {
        struct lw_error err = { LW_OK, "" };

        lw_alloc_fail_in(n);
        if (build_all(&err, &profile))
            break;
        CHECK_EQ(err.code, LW_ERR_NOMEM);
    }
    lw_alloc_fail_in(0);
    CHECK(n > 25);
    CHECK_EQ(profile->call_count, 2);
    lw_profile_free(profile);
}
