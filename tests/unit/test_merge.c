#include "base/alloc.h"
#include "model/calltree.h"
#include "model/merge.h"
#include "tree_fixture.h"

/* A run of one thread that began at START_NS: main calls step, which has a span, a
 * counter's value and an allocation. */
static struct lw_profile *make_run(uint64_t start_ns, const char *host)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    lw_stack_id step = add_path(&t, "main/step");
    struct lw_span span = { start_ns + 5, 10, thread, step };
    struct lw_counter_point point = { start_ns + 6, 0.5, t.process, 0 };
    struct lw_allocation allocation = { start_ns + 7, 64, thread, step };

    CHECK(lw_builder_string(t.builder, "rss", 3, &point.name, NULL));
    add_calls(&t, thread, add_path(&t, "main"), 1, 10);
    add_calls(&t, thread, step, 3, 20);
    CHECK(lw_builder_spans(t.builder, &span, 1, NULL));
    CHECK(lw_builder_counter(t.builder, &point, NULL));
    CHECK(lw_builder_allocation(t.builder, &allocation, NULL));
    CHECK(lw_builder_fact(t.builder, "host", host, strlen(host), NULL));
    CHECK(lw_builder_fact(t.builder, "python", "3.11.7", 6, NULL));
    CHECK(lw_builder_loss(t.builder, "ring full", "spans", t.process, 2, NULL));
    lw_builder_set_times(t.builder, start_ns, start_ns + 100, 0);
    return finish(&t);
}

static struct lw_profile *merge(const struct lw_profile *a, const struct lw_profile *b,
                                struct lw_error *err)
{
    const struct lw_profile *both[] = { a, b };

    return lw_profile_merge(both, 2, err);
}

TEST(runs_stand_side_by_side_and_their_trees_add_up)
{
    struct lw_profile *a = make_run(1000, "one"), *b = make_run(5000, "two");
    struct lw_profile *both = merge(a, b, NULL);
    struct lw_calltree tree;

    CHECK(both != NULL);
    CHECK_EQ(both->process_count, 2);
    CHECK_EQ(both->thread_count, 2);
    CHECK_EQ(both->threads[1].process, 1);
    CHECK_EQ(both->call_count, 4);
    CHECK(lw_calltree_init(&tree, both, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(tree.node_count, 3);
    CHECK_EQ(tree.nodes[2].calls, 6);
    CHECK_EQ(tree.nodes[1].total_ns, 60);

    lw_calltree_release(&tree);
    lw_profile_free(both);
    lw_profile_free(a);
    lw_profile_free(b);
}

TEST(every_run_begins_with_the_first)
{
    struct lw_profile *a = make_run(5000, "one"), *b = make_run(1000, "two");
    struct lw_profile *both = merge(a, b, NULL);

    CHECK_EQ(both->start_ns, 5000);
    CHECK_EQ(both->end_ns, 5100);
    CHECK_EQ(both->spans[1].start_ns, 5005);
    CHECK_EQ(both->counters[1].time_ns, 5006);
    CHECK_EQ(both->counters[1].process, 1);
    CHECK_EQ(both->allocations[1].time_ns, 5007);
    CHECK_EQ(both->allocations[1].thread, 1);

    lw_profile_free(both);
    lw_profile_free(a);
    lw_profile_free(b);
}

TEST(facts_that_differ_are_listed_and_losses_keep_their_process)
{
    struct lw_profile *a = make_run(1, "one"), *b = make_run(1, "two");
    struct lw_profile *both = merge(a, b, NULL);

    CHECK_STR(lw_profile_fact(both, "host"), "one, two");
    CHECK_STR(lw_profile_fact(both, "python"), "3.11.7");
    CHECK_EQ(both->loss_count, 2);
    CHECK_EQ(both->losses[1].process, 1);

    lw_profile_free(both);
    lw_profile_free(a);
    lw_profile_free(b);
}

TEST(running_out_of_memory_leaves_nothing_behind)
{
    struct lw_profile *a = make_run(1, "one"), *b = make_run(2, "two"), *both = NULL;

    for (uint64_t n = 1; !both; n++) {
        struct lw_error err = { LW_OK, "" };

        lw_alloc_fail_in(n);
        both = merge(a, b, &err);
        lw_alloc_fail_in(0);
        CHECK(both || err.code == LW_ERR_NOMEM);
    }
    lw_profile_free(both);
    lw_profile_free(a);
    lw_profile_free(b);
}

TEST(what_is_subtracted_may_be_less_than_nothing)
{
    struct lw_profile *a = make_run(1000, "one"), *b = make_run(5000, "two");
    const struct lw_profile *twice[] = { a, b };
    struct lw_profile *both = lw_profile_merge(twice, 2, NULL);
    struct lw_profile *less = lw_profile_subtract(both, a, NULL);
    struct lw_callgraph graph;

    CHECK(less != NULL);
    CHECK(lw_callgraph_init(&graph, less, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(graph.function_count, 2);
    CHECK_EQ(graph.functions[1].cost.calls, -3);
    CHECK_NEAR(graph.functions[1].cost.self_s, -20e-9);
    CHECK_NEAR(graph.functions[0].cost.total_s, -30e-9);
    CHECK_EQ(graph.edge_count, 1);
    CHECK_EQ(graph.edges[0].cost.calls, -3);
    CHECK(lw_callgraph_has_calls(&graph));
    CHECK_STR(lw_profile_fact(less, "host"), "one");
    CHECK_EQ(less->loss_count, 1);

    lw_callgraph_release(&graph);
    lw_profile_free(less);
    lw_profile_free(both);
    lw_profile_free(a);
    lw_profile_free(b);
}

TEST(running_out_of_memory_makes_no_half_difference)
{
    struct lw_profile *a = make_run(1000, "one"), *change = NULL;
    struct lw_error err = { LW_OK, "" };

    for (uint64_t n = 1; !change; n++) {
        lw_alloc_fail_in(n);
        change = lw_profile_subtract(a, a, &err);
        lw_alloc_fail_in(0);
        CHECK(change || err.code == LW_ERR_NOMEM);
    }
    lw_profile_free(change);
    lw_profile_free(a);
}
