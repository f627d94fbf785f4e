#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/callgraph.h"
#include "tree_fixture.h"

static const struct lw_function *find(const struct lw_callgraph *graph,
                                      const char *name)
{
    for (size_t i = 0; i < graph->function_count; i++)
        if (strcmp(graph->functions[i].name, name) == 0)
            return &graph->functions[i];
    return NULL;
}

static const struct lw_graph_cost *find_edge(const struct lw_callgraph *graph,
                                             const char *caller, const char *callee)
{
    const struct lw_function *to = find(graph, callee);
    size_t index = to ? (size_t)(to - graph->functions) : 0;

    for (uint32_t i = graph->callers_start[index];
         to && i < graph->callers_start[index + 1]; i++)
        if (strcmp(graph->functions[graph->edges[i].caller].name, caller) == 0)
            return &graph->edges[i].cost;
    return NULL;
}

static void check_cost(const struct lw_graph_cost *cost, int64_t calls,
                       int64_t primitive_calls, uint64_t self_ns, uint64_t total_ns)
{
    CHECK(cost != NULL);
    CHECK_EQ(cost->calls, calls);
    CHECK_EQ(cost->primitive_calls, primitive_calls);
    CHECK_NEAR(cost->self_s, (double)self_ns / 1e9);
    CHECK_NEAR(cost->total_s, (double)total_ns / 1e9);
}

TEST(a_recursion_counts_once)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    struct lw_callgraph graph;
    struct lw_profile *profile;

    add_calls(&t, thread, add_path(&t, "main"), 1, 10);
    add_calls(&t, thread, add_path(&t, "main/fib"), 3, 20);
    add_calls(&t, thread, add_path(&t, "main/fib/fib"), 4, 30);
    add_calls(&t, thread, add_path(&t, "main/fib/fib/fib"), 2, 40);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));

    check_cost(&find(&graph, "main")->cost, 1, 1, 10, 100);
    check_cost(&find(&graph, "fib")->cost, 9, 3, 90, 90);
    check_cost(find_edge(&graph, "main", "fib"), 3, 3, 20, 90);
    check_cost(find_edge(&graph, "fib", "fib"), 6, 4, 70, 70);
    CHECK(find_edge(&graph, "fib", "main") == NULL);
    CHECK_EQ(graph.calls, 10);
    CHECK_EQ(graph.primitive_calls, 4);
    CHECK_NEAR(graph.total_s, 100e-9);
    CHECK_EQ(graph.source, LW_GRAPH_CALLS);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(a_mutual_recursion_counts_pairs_once)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    struct lw_callgraph graph;
    struct lw_profile *profile;

    add_calls(&t, thread, add_path(&t, "even"), 1, 1);
    add_calls(&t, thread, add_path(&t, "even/odd"), 1, 1);
    add_calls(&t, thread, add_path(&t, "even/odd/even"), 1, 1);
    add_calls(&t, thread, add_path(&t, "even/odd/even/odd"), 1, 1);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    check_cost(&find(&graph, "even")->cost, 2, 1, 2, 4);
    check_cost(&find(&graph, "odd")->cost, 2, 1, 2, 3);
    check_cost(find_edge(&graph, "even", "odd"), 2, 1, 2, 3);
    check_cost(find_edge(&graph, "odd", "even"), 1, 1, 1, 2);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(threads_are_computed_apart_and_added)
{
    struct tree t = make_tree();
    uint32_t first = add_thread(&t, "main", 1), second = add_thread(&t, "other", 2);
    bool only_second[] = { false, true };
    struct lw_callgraph graph;
    struct lw_profile *profile;

    add_calls(&t, first, add_path(&t, "f/g"), 1, 10);
    add_calls(&t, second, add_path(&t, "f/g/f"), 1, 20);
    add_calls(&t, first, add_path(&t, "f"), 1, 5);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    check_cost(&find(&graph, "f")->cost, 2, 1, 25, 35);
    lw_callgraph_release(&graph);

    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, only_second, NULL));
    check_cost(&find(&graph, "f")->cost, 1, 0, 20, 20);
    check_cost(&find(&graph, "g")->cost, 0, 0, 0, 20);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

/* Two lambdas on a line that call each other are no recursion, but one row. */
TEST(functions_that_print_alike_are_told_apart_and_then_added)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    lw_stack_id outer = push(&t, LW_NO_STACK, add_frame(&t, "x.py", "<lambda>", 0, 0));
    lw_stack_id inner = push(&t, outer, add_frame(&t, "x.py", "<lambda>", 0, 1));
    struct lw_callgraph graph;
    struct lw_profile *profile;

    add_calls(&t, thread, outer, 2, 10);
    add_calls(&t, thread, inner, 3, 20);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(graph.function_count, 1);
    check_cost(&graph.functions[0].cost, 5, 5, 30, 50);
    CHECK_EQ(graph.edge_count, 1);
    check_cost(&graph.edges[0].cost, 3, 3, 20, 20);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(samples_of_several_lines_are_one_function)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    lw_stack_id a = push(&t, LW_NO_STACK, add_frame(&t, "x.py", "f", 10, 0));
    lw_stack_id b = push(&t, LW_NO_STACK, add_frame(&t, "x.py", "f", 11, 0));
    lw_stack_id inner = push(&t, b, add_frame(&t, "x.py", "f", 10, 0));
    struct lw_callgraph graph;
    struct lw_profile *profile;

    add_sample(&t, thread, a, 1);
    add_sample(&t, thread, b, 2);
    add_sample(&t, thread, a, 4);
    add_sample(&t, thread, inner, 8);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(graph.source, LW_GRAPH_SAMPLES);
    CHECK_EQ(graph.function_count, 1);
    check_cost(&graph.functions[0].cost, 0, 0, 15, 15);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(a_given_graph_is_taken_as_it_is)
{
    struct tree t = make_tree();
    struct lw_graph_function f = { .cost = { 1, 2, 0.1, 0.2 } };
    struct lw_graph_function named = { .cost = { 0, 0, NAN, NAN } };
    struct lw_graph_edge edge = { .cost = { 1, 1, 0.3, 0.4 } };
    struct lw_callgraph graph;
    struct lw_profile *profile;
    uint32_t first, caller, second;

    named.frame = add_frame(&t, NULL, "<caller>", 0, 0);
    f.frame = add_frame(&t, "a.py", "f", 0, 0);
    CHECK(lw_builder_function(t.builder, &named, &caller, NULL));
    CHECK(lw_builder_function(t.builder, &f, &first, NULL));
    f.frame = add_frame(&t, "b.py", "g", 0, 0);
    CHECK(lw_builder_function(t.builder, &f, &second, NULL));
    edge.caller = caller;
    edge.callee = second;
    CHECK(lw_builder_edge(t.builder, &edge, NULL));
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));

    CHECK_EQ(graph.function_count, 3);
    CHECK_EQ(graph.listed_count, 2);
    CHECK_STR(graph.functions[0].name, "f");
    CHECK_STR(graph.functions[2].name, "<caller>");
    CHECK(!lw_graph_cost_is_known(&graph.functions[2].cost));
    CHECK_EQ(graph.calls, 4);
    CHECK(find_edge(&graph, "<caller>", "g")->total_s == 0.4);
    CHECK_EQ(graph.edges[graph.callees[graph.callees_start[2]]].callee, 1);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

static void make_twins(struct tree *t)
{
    uint32_t thread = add_thread(t, "main", 1);
    lw_stack_id a = push(t, LW_NO_STACK, add_frame(t, "a/x.py", "main", 0, 0));
    lw_stack_id b = push(t, LW_NO_STACK, add_frame(t, "b/x.py", "main", 0, 0));

    add_calls(t, thread, push(t, a, add_frame(t, "a/y.py", "f", 0, 0)), 1, 10);
    add_calls(t, thread, push(t, b, add_frame(t, "a/y.py", "f", 0, 0)), 2, 20);
    add_calls(t, thread, push(t, b, add_frame(t, "b/y.py", "f", 0, 0)), 4, 40);
}

TEST(stripping_adds_what_becomes_alike)
{
    struct tree t = make_tree();
    struct lw_callgraph graph;
    struct lw_profile *profile;

    make_twins(&t);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK_EQ(graph.function_count, 4);
    CHECK(lw_callgraph_strip(&graph, LW_STRIP_ADD, NULL));
    CHECK_EQ(graph.function_count, 2);
    check_cost(&find(&graph, "f")->cost, 7, 7, 70, 70);
    check_cost(find_edge(&graph, "main", "f"), 7, 7, 70, 70);
    CHECK_EQ(find(&graph, "f")->file_len, strlen("y.py"));
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(stripping_as_pstats_does_loses_the_same_callers)
{
    struct tree t = make_tree();
    struct lw_callgraph graph;
    struct lw_profile *profile;

    make_twins(&t);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK(lw_callgraph_strip(&graph, LW_STRIP_AS_PSTATS, NULL));
    check_cost(&find(&graph, "f")->cost, 7, 7, 70, 70);
    check_cost(find_edge(&graph, "main", "f"), 6, 6, 60, 60);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(names_are_pstats_standard_names)
{
    static const struct {
        const char *file;
        const char *name;
        uint32_t line;
        const char *text;
    } cases[] = {
        { "a/b.py", "f", 12, "a/b.py:12(f)" },
        { "~", "<built-in method len>", 0, "{built-in method len}" },
        { "~", "len", 0, "len" },
        { "~", "<", 0, "<" },
        { "~", "<>", 0, "{}" },
        { "~", "f", 1, "~:1(f)" },
        { "", "f", 0, ":0(f)" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lw_function function = { .file = cases[i].file,
                                        .file_len = strlen(cases[i].file),
                                        .name = cases[i].name,
                                        .name_len = strlen(cases[i].name),
                                        .line = cases[i].line };
        struct lw_buf text;

        lw_buf_init(&text, 0);
        lw_function_add_text(&function, &text);
        CHECK_STR(text.bytes, cases[i].text);
        lw_buf_release(&text);
    }
}

/* The oracle: every question answered by looking at all ancestors and descendants. */

#define FUNCTIONS 6
#define THREADS 3
#define NODES 60

struct oracle {
    struct lw_graph_cost functions[FUNCTIONS];
    struct lw_graph_cost pairs[FUNCTIONS][FUNCTIONS];
};

struct random_tree {
    int parent[NODES]; /* -1: a root */
    int function[NODES];
    uint64_t calls[THREADS][NODES];
    uint64_t self_ns[THREADS][NODES];
};

static bool is_below(const struct random_tree *tree, int node, int above)
{
    while (node >= 0 && node != above)
        node = tree->parent[node];
    return node == above;
}

static uint64_t total_ns(const struct random_tree *tree, int thread, int node)
{
    uint64_t sum = 0;

    for (int i = 0; i < NODES; i++)
        if (is_below(tree, i, node))
            sum += tree->self_ns[thread][i];
    return sum;
}

static bool has_ancestor(const struct random_tree *tree, int node, int caller)
{
    for (int i = tree->parent[node]; i >= 0; i = tree->parent[i])
        if (tree->function[i] == tree->function[node] &&
            (caller < 0 ||
             (tree->parent[i] >= 0 && tree->function[tree->parent[i]] == caller)))
            return true;
    return false;
}

static void charge(struct lw_graph_cost *cost, const struct random_tree *tree,
                   int thread, int node, bool is_outer)
{
    cost->calls += (int64_t)tree->calls[thread][node];
    cost->self_s += (double)tree->self_ns[thread][node];
    if (is_outer) {
        cost->primitive_calls += (int64_t)tree->calls[thread][node];
        cost->total_s += (double)total_ns(tree, thread, node);
    }
}

static void ask_oracle(const struct random_tree *tree, struct oracle *oracle)
{
    memset(oracle, 0, sizeof(*oracle));
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < NODES; i++) {
            int caller = tree->parent[i] < 0 ? -1 : tree->function[tree->parent[i]];

            charge(&oracle->functions[tree->function[i]], tree, thread, i,
                   !has_ancestor(tree, i, -1));
            if (caller >= 0)
                charge(&oracle->pairs[caller][tree->function[i]], tree, thread, i,
                       !has_ancestor(tree, i, caller));
        }
}

static struct lw_profile *plant(struct random_tree *tree, unsigned seed)
{
    struct tree t = make_tree();
    lw_stack_id stacks[NODES];
    uint32_t threads[THREADS];

    srandom(seed);
    for (int i = 0; i < THREADS; i++)
        threads[i] = add_thread(&t, "thread", (uint64_t)i);
    for (int i = 0; i < NODES; i++) {
        char name[8];

        tree->parent[i] = i == 0 ? -1 : (int)(random() % (i + 1)) - 1;
        tree->function[i] = (int)(random() % FUNCTIONS);
        snprintf(name, sizeof(name), "f%d", tree->function[i]);
        stacks[i] =
            push(&t, tree->parent[i] < 0 ? LW_NO_STACK : stacks[tree->parent[i]],
                 add_frame(&t, "x.py", name, 0, 0));
        for (int thread = 0; thread < THREADS; thread++) {
            bool is_there = random() % 3 > 0;

            tree->calls[thread][i] = is_there ? (uint64_t)random() % 5 : 0;
            tree->self_ns[thread][i] = is_there ? (uint64_t)random() % 100 : 0;
            if (is_there)
                add_calls(&t, threads[thread], stacks[i], tree->calls[thread][i],
                          tree->self_ns[thread][i]);
        }
    }
    return finish(&t);
}

static void check_scaled(const struct lw_graph_cost *cost,
                         const struct lw_graph_cost *want)
{
    CHECK_EQ(cost->calls, want->calls);
    CHECK_EQ(cost->primitive_calls, want->primitive_calls);
    CHECK_NEAR(cost->self_s, want->self_s / 1e9);
    CHECK_NEAR(cost->total_s, want->total_s / 1e9);
}

TEST(random_trees_agree_with_brute_force)
{
    for (unsigned seed = 1; seed <= 200; seed++) {
        static struct random_tree tree;
        struct lw_profile *profile = plant(&tree, seed);
        struct oracle oracle;
        struct lw_callgraph graph;

        ask_oracle(&tree, &oracle);
        CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_CALLS, NULL, NULL));
        for (size_t i = 0; i < graph.function_count; i++)
            check_scaled(&graph.functions[i].cost,
                         &oracle.functions[graph.functions[i].name[1] - '0']);
        for (size_t i = 0; i < graph.edge_count; i++) {
            const struct lw_graph_edge *edge = &graph.edges[i];

            check_scaled(&edge->cost,
                         &oracle.pairs[graph.functions[edge->caller].name[1] - '0']
                                      [graph.functions[edge->callee].name[1] - '0']);
        }
        lw_callgraph_release(&graph);
        lw_profile_free(profile);
    }
}

TEST(a_stack_of_a_million_frames_is_walked)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    lw_frame_id frames[] = { add_frame(&t, "x.py", "a", 0, 0),
                             add_frame(&t, "x.py", "b", 0, 0) };
    lw_stack_id stack = LW_NO_STACK;
    struct lw_callgraph graph;
    struct lw_profile *profile;

    for (int i = 0; i < 1000000; i++) {
        stack = push(&t, stack, frames[i % 2]);
        add_calls(&t, thread, stack, 1, 1);
    }
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    check_cost(&find(&graph, "a")->cost, 500000, 1, 500000, 1000000);
    check_cost(find_edge(&graph, "a", "b"), 500000, 1, 500000, 999999);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

TEST(running_out_of_memory_is_said_and_leaks_nothing)
{
    static struct random_tree tree;
    struct lw_profile *profile = plant(&tree, 7);
    bool done = false;

    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_callgraph graph;

        lw_alloc_fail_in(n);
        done = lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, &err) &&
               lw_callgraph_strip(&graph, LW_STRIP_ADD, &err);
        lw_alloc_fail_in(0);
        if (!done)
            CHECK_EQ(err.code, LW_ERR_NOMEM);
        lw_callgraph_release(&graph);
        CHECK(n < 1000);
    }
    lw_profile_free(profile);
}

TEST(a_strip_that_runs_out_of_memory_leaves_the_graph_as_it_was)
{
    struct tree t = make_tree();
    struct lw_callgraph graph;
    struct lw_profile *profile;

    make_twins(&t);
    profile = finish(&t);
    CHECK(lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, NULL));
    for (uint64_t n = 1; n <= 5; n++) {
        lw_alloc_fail_in(n);
        CHECK(!lw_callgraph_strip(&graph, LW_STRIP_ADD, NULL));
        lw_alloc_fail_in(0);
        CHECK_EQ(graph.function_count, 4);
        CHECK_EQ(graph.edge_count, 3);
        check_cost(find_edge(&graph, "main", "f"), 1, 1, 10, 10);
    }
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}
