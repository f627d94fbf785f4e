#include "base/alloc.h"
#include "model/calltree.h"
#include "tree_fixture.h"

static struct lw_profile *make_profile(void)
{
    struct tree t = make_tree();
    uint32_t first = add_thread(&t, "main", 1), second = add_thread(&t, "other", 2);
    lw_stack_id main = add_path(&t, "main");
    lw_frame_id unused = add_frame(&t, "x.py", "nobody", 0, 0);

    push(&t, main, unused);
    add_calls(&t, first, main, 1, 10);
    add_calls(&t, first, add_path(&t, "main/f/g"), 2, 20);
    add_calls(&t, second, add_path(&t, "main/f"), 4, 40);
    return finish(&t);
}

TEST(threads_are_added_and_totals_hold_what_is_below)
{
    struct lw_profile *profile = make_profile();
    struct lw_calltree tree;

    CHECK(lw_calltree_init(&tree, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(tree.node_count, 4);
    CHECK_EQ(tree.nodes[0].total_ns, 70);
    CHECK_EQ(tree.nodes[1].total_ns, 70);
    CHECK_EQ(tree.nodes[1].self_ns, 10);
    CHECK_EQ(tree.nodes[2].parent, 1);
    CHECK_EQ(tree.nodes[2].depth, 2);
    CHECK_EQ(tree.nodes[2].calls, 4);
    CHECK_EQ(tree.nodes[2].total_ns, 60);
    CHECK_EQ(tree.nodes[3].total_ns, 20);
    lw_calltree_release(&tree);
    lw_profile_free(profile);
}

TEST(only_the_chosen_threads_count)
{
    struct lw_profile *profile = make_profile();
    const bool second[] = { false, true };
    struct lw_calltree tree;

    CHECK(lw_calltree_init(&tree, profile, LW_GRAPH_ANY, second, NULL));
    CHECK_EQ(tree.node_count, 3);
    CHECK_EQ(tree.nodes[0].total_ns, 40);
    lw_calltree_release(&tree);
    lw_profile_free(profile);
}

TEST(lines_of_a_function_are_one_node)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    lw_stack_id a = push(&t, LW_NO_STACK, add_frame(&t, "x.py", "f", 3, 0));
    lw_stack_id b = push(&t, LW_NO_STACK, add_frame(&t, "x.py", "f", 4, 0));
    struct lw_profile *profile;
    struct lw_calltree tree;

    add_sample(&t, thread, push(&t, a, add_frame(&t, "x.py", "g", 9, 0)), 5);
    add_sample(&t, thread, push(&t, b, add_frame(&t, "x.py", "g", 8, 0)), 6);
    profile = finish(&t);
    CHECK(lw_calltree_init(&tree, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(tree.source, LW_GRAPH_SAMPLES);
    CHECK_EQ(tree.node_count, 3);
    CHECK_EQ(tree.nodes[2].self_ns, 11);
    lw_calltree_release(&tree);
    lw_profile_free(profile);
}

TEST(an_empty_profile_has_a_root)
{
    struct tree t = make_tree();
    struct lw_profile *profile = finish(&t);
    struct lw_calltree tree;

    CHECK(lw_calltree_init(&tree, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(tree.node_count, 1);
    lw_calltree_release(&tree);
    lw_profile_free(profile);
}

TEST(a_given_graph_has_no_tree)
{
    struct tree t = make_tree();
    struct lw_graph_function function = { .cost = { 1, 1, 0, 0 } };
    struct lw_error err;
    struct lw_profile *profile;
    struct lw_calltree tree;
    uint32_t index;

    function.frame = add_frame(&t, "x.py", "f", 0, 0);
    CHECK(lw_builder_function(t.builder, &function, &index, NULL));
    profile = finish(&t);
    CHECK(!lw_calltree_init(&tree, profile, LW_GRAPH_ANY, NULL, &err));
    CHECK_EQ(err.code, LW_ERR_UNSUPPORTED);
    lw_calltree_release(&tree);
    lw_profile_free(profile);
}

TEST(running_out_of_memory_is_said_and_leaks_nothing)
{
    struct lw_profile *profile = make_profile();
    bool done = false;

    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_calltree tree;

        lw_alloc_fail_in(n);
        done = lw_calltree_init(&tree, profile, LW_GRAPH_ANY, NULL, &err);
        lw_alloc_fail_in(0);
        CHECK_EQ(err.code, done ? LW_OK : LW_ERR_NOMEM);
        lw_calltree_release(&tree);
        CHECK(n < 100);
    }
    lw_profile_free(profile);
}
