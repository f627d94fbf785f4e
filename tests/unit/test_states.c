/* Samples by state, and how many there are of each function. */

#include "base/alloc.h"
#include "model/builder.h"
#include "model/query.h"
#include "test.h"

TEST(a_state_is_of_the_views_that_it_belongs_to)
{
    uint8_t cpu_with_gil = LW_STATE_CPU | LW_STATE_HAS_GIL;

    for (unsigned any = 0; any < 256; any++)
        CHECK(lw_states_have(LW_STATES_WALL, (uint8_t)any));
    CHECK(lw_states_have(LW_STATES_CPU, cpu_with_gil));
    CHECK(lw_states_have(LW_STATES_GIL, cpu_with_gil));
    CHECK(!lw_states_have(LW_STATES_WAIT, cpu_with_gil));
    CHECK(lw_states_have(LW_STATES_CPU, LW_STATE_GC)); /* that is work, too */
    CHECK(lw_states_have(LW_STATES_GC, LW_STATE_GC));
    CHECK(lw_states_have(LW_STATES_WAIT, LW_STATE_GIL_WAIT));
    CHECK(!lw_states_have(LW_STATES_CPU, LW_STATE_UNKNOWN));
    CHECK(!lw_states_have(LW_STATES_WAIT, LW_STATE_UNKNOWN));
}

/* main called step on two of its lines; 7 samples in step on CPU, 3 in main waiting. */
static struct lw_profile *make_profile(void)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_frame main_41 = { .first_line = 40, .line = 41 }, main_42 = main_41;
    struct lw_frame step = { .first_line = 10, .line = 12 };
    lw_stack_id in_main, in_step, in_step_too;
    uint32_t process, thread;
    lw_frame_id id;

    main_42.line = 42;
    CHECK(lw_builder_string(builder, "main", 4, &main_41.name, NULL));
    CHECK(lw_builder_string(builder, "step", 4, &step.name, NULL));
    CHECK(lw_builder_string(builder, "train.py", 8, &step.file, NULL));
    main_42.name = main_41.name;
    main_41.file = main_42.file = step.file;
    CHECK(lw_builder_frame(builder, &main_41, &id, NULL));
    CHECK(lw_builder_push(builder, LW_NO_STACK, id, &in_main, NULL));
    CHECK(lw_builder_frame(builder, &step, &id, NULL));
    CHECK(lw_builder_push(builder, in_main, id, &in_step, NULL));
    CHECK(lw_builder_frame(builder, &main_42, &id, NULL));
    CHECK(lw_builder_push(builder, LW_NO_STACK, id, &in_step_too, NULL));
    CHECK(lw_builder_frame(builder, &step, &id, NULL));
    CHECK(lw_builder_push(builder, in_step_too, id, &in_step_too, NULL));
    CHECK(
        lw_builder_process(builder, &(struct lw_process){ .pid = 1 }, &process, NULL));
    CHECK(lw_builder_thread(builder, &(struct lw_thread){ .process = process }, &thread,
                            NULL));
    CHECK(lw_builder_samples(
        builder,
        (struct lw_sample[]){
            { .stack = in_step, .weight_ns = 500, .state = LW_STATE_CPU, .count = 5 },
            { .stack = in_step_too,
              .weight_ns = 200,
              .state = LW_STATE_CPU,
              .count = 2 },
            { .stack = in_main, .weight_ns = 300, .state = LW_STATE_WAIT, .count = 3 },
        },
        3, NULL));
    return lw_builder_finish(builder, NULL);
}

static const struct lw_function *find(const struct lw_callgraph *graph,
                                      const char *name, uint32_t line)
{
    for (size_t i = 0; i < graph->listed_count; i++)
        if (strcmp(graph->functions[i].name, name) == 0 &&
            graph->functions[i].line == line)
            return &graph->functions[i];
    return NULL;
}

TEST(samples_are_counted_by_function_and_by_line)
{
    struct lw_profile *profile = make_profile();
    struct lw_callgraph graph;
    const struct lw_function *function;

    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(graph.samples, 10);
    function = find(&graph, "main", 40);
    CHECK_EQ(function->cost.self_samples, 3);
    CHECK_EQ(function->cost.total_samples, 10);
    CHECK_EQ(find(&graph, "step", 10)->cost.self_samples, 7);
    lw_callgraph_release(&graph);

    CHECK(lw_callgraph_init_lines(&graph, profile, NULL, NULL));
    CHECK_EQ(graph.listed_count, 3);
    CHECK_EQ(find(&graph, "main", 41)->cost.total_samples, 8);
    CHECK_EQ(find(&graph, "main", 42)->cost.total_samples, 2);
    CHECK_EQ(find(&graph, "step", 12)->cost.total_samples, 7);
    CHECK_NEAR(find(&graph, "step", 12)->cost.self_s, 700e-9);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(a_part_holds_the_samples_of_its_states_only)
{
    struct lw_profile *profile = make_profile();
    struct lw_profile part;

    CHECK(lw_states_take(&part, profile, LW_STATES_WAIT, NULL));
    CHECK_EQ(part.sample_count, 1);
    CHECK_EQ(part.samples[0].weight_ns, 300);
    lw_states_release(&part);
    CHECK(lw_states_take(&part, profile, LW_STATES_WALL, NULL));
    CHECK(part.samples == profile->samples);
    lw_states_release(&part);
    CHECK_EQ(profile->sample_count, 3);

    lw_alloc_fail_in(1);
    CHECK(!lw_states_take(&part, profile, LW_STATES_CPU, NULL));
    lw_states_release(&part);
    lw_alloc_fail_in(0);
    lw_profile_free(profile);
}

TEST(without_samples_there_are_no_states)
{
    struct lw_profile *profile = lw_builder_finish(lw_builder_new(NULL), NULL);
    struct lw_error err = { LW_OK, "" };
    struct lw_profile part;

    CHECK(!lw_states_take(&part, profile, LW_STATES_CPU, &err));
    CHECK_EQ(err.code, LW_ERR_UNSUPPORTED);
    lw_states_release(&part);
    lw_profile_free(profile);
}
