#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/mine.h"
#include "model/query.h"
#include "tree_fixture.h"

TEST(sort_keys_are_abbreviated_as_pstats_does)
{
    static const char *const good[][2] = {
        { "calls", "call count" },     { "ca", "call count" },
        { "ncalls", "call count" },    { "nc", "call count" },
        { "cu", "cumulative time" },   { "cumu", "cumulative time" },
        { "cumt", "cumulative time" }, { "f", "file name" },
        { "file", "file name" },       { "l", "line number" },
        { "m", "file name" },          { "na", "function name" },
        { "nf", "name/file/line" },    { "p", "primitive call count" },
        { "s", "standard name" },      { "ti", "internal time" },
        { "to", "internal time" },     { "-1", "standard name" },
        { "0", "call count" },         { "1", "internal time" },
        { "2", "cumulative time" },
    };
    static const char *const bad[] = { "", "c", "cum", "n", "t", "x", "timex", "3" };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct lw_sort_key *key = lw_sort_key_find(good[i][0], NULL);

        CHECK(key != NULL);
        CHECK_STR(key->title, good[i][1]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(lw_sort_key_find(bad[i], NULL) == NULL);
}

/* a and c take as long; b is called most. */
static struct lw_profile *make_profile(void)
{
    struct tree t = make_tree();
    uint32_t thread = add_thread(&t, "main", 1);
    uint32_t worker = add_thread(&t, "worker", 77);

    add_calls(&t, thread, add_path(&t, "a"), 1, 50);
    add_calls(&t, thread, add_path(&t, "b"), 9, 10);
    add_calls(&t, worker, add_path(&t, "c"), 2, 50);
    add_calls(&t, worker, add_path(&t, "d"), 3, 20);
    return finish(&t);
}

/* The names of what is selected, in order, with one letter each. */
static void check_selection(const struct lw_query *query, const char *names)
{
    struct lw_profile *profile = make_profile();
    struct lw_selection selection;
    struct lw_callgraph graph;
    char text[16] = "";

    CHECK(lw_query_graph(query, profile, &graph, NULL));
    CHECK(lw_query_select(query, &graph, &selection, NULL));
    for (size_t i = 0; i < selection.count; i++)
        text[i] = graph.functions[selection.functions[i]].name[0];
    CHECK_STR(text, names);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    lw_profile_free(profile);
}

static void check_words(const char *key, bool reverse, const char *words,
                        const char *names)
{
    char word[64];
    struct lw_query query;

    lw_query_init(&query);
    query.reverse = reverse;
    if (key)
        CHECK(lw_query_add_key(&query, key, NULL));
    while (*words) {
        size_t len = strcspn(words, " ");

        snprintf(word, sizeof(word), "%.*s", (int)len, words);
        CHECK(lw_query_add_word(&query, word, NULL));
        words += len + (words[len] == ' ');
    }
    check_selection(&query, names);
    lw_query_release(&query);
}

TEST(equal_functions_stay_in_order_and_reversing_turns_all)
{
    check_words("time", false, "", "acdb");
    check_words("time", true, "", "bdca");
    check_words("calls", false, "", "bdca");
    check_words("name", false, "", "abcd");
    check_words(NULL, true, "", "abcd");
}

TEST(restrictions_apply_to_what_is_left)
{
    check_words("time", false, "3", "acd");
    check_words("time", false, "3 0.5", "ac");
    check_words("time", false, "0.5", "ac");
    check_words("time", false, "0.4", "ac"); /* 1.6 rounds */
    check_words("time", false, "1.0", "acdb");
    check_words("time", false, "-2", "acdb");
    check_words("time", false, "0", "");
    check_words("time", false, "\\([cd]\\) 1", "c");
    check_words("time", false, "1 \\([cd]\\)", "");
}

TEST(a_fraction_over_one_is_refused)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_query query;

    lw_query_init(&query);
    CHECK(!lw_query_add_word(&query, "1.5", &err));
    CHECK_STR(err.text, "the fraction 1.5 is not between 0 and 1");
    lw_query_release(&query);
}

TEST(a_thread_is_chosen_by_its_name_or_id)
{
    struct lw_query query;

    lw_query_init(&query);
    query.thread = "worker";
    check_selection(&query, "cd");
    query.thread = "1";
    check_selection(&query, "ab");
    query.process = "100";
    check_selection(&query, "ab");
    lw_query_release(&query);
}

TEST(a_thread_that_is_not_there_is_said)
{
    struct lw_profile *profile = make_profile();
    struct lw_error err = { LW_OK, "" };
    struct lw_query query;
    bool *flags;

    lw_query_init(&query);
    query.thread = "nobody";
    CHECK(!lw_query_threads(&query, profile, &flags, &err));
    CHECK_STR(err.text, "there is no thread 'nobody'; 'report threads' lists them");
    query.thread = NULL;
    query.process = "5";
    CHECK(!lw_query_threads(&query, profile, &flags, &err));
    CHECK_STR(err.text, "there is no process 5; 'report processes' lists them");
    query.thread = "main";
    CHECK(!lw_query_threads(&query, profile, &flags, &err));
    CHECK_STR(err.text, "process 5 has no thread 'main'; 'report threads' lists them");
    lw_query_release(&query);
    lw_profile_free(profile);
}

static struct lw_profile *make_run_in(const char *folder)
{
    struct tree t = make_tree();

    CHECK(lw_builder_fact(t.builder, "cwd", folder, strlen(folder), NULL));
    return finish(&t);
}

TEST(mine_is_what_lies_under_the_root_and_is_not_installed)
{
    static const struct {
        const char *file;
        bool is_mine;
    } cases[] = {
        { "/no/such/project/train.py", true },
        { "/no/such/project/a/b/c.py", true },
        { "train.py", true },
        { "./train.py", true },
        { "a/../train.py", true },
        { "../other/train.py", false },
        { "/no/such/projects/train.py", false },
        { "/no/such/project", false },
        { "/usr/lib/python3.11/json/__init__.py", false },
        { "/no/such/project/.venv/lib/python3.11/site-packages/x.py", false },
        { "/no/such/project/env/lib/python3.13t/json/decoder.py", false },
        { "/no/such/project/lib/python_tools/x.py", true },
        { "/no/such/project/dist-packages/x.py", false },
        { "<frozen importlib._bootstrap>", false },
        { "<string>", false },
        { "~", false },
        { "", false },
    };
    struct lw_profile *profile = make_run_in("/no/such/project/");
    struct lw_mine mine;

    CHECK(lw_mine_init(&mine, profile, NULL));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (lw_mine_has(&mine, cases[i].file, NULL) != cases[i].is_mine)
            CHECK_STR(cases[i].file, cases[i].is_mine ? "mine" : "not mine");
    lw_mine_release(&mine);
    lw_profile_free(profile);
}

TEST(the_root_is_the_repository_around_the_run)
{
    const char *source = getenv("SRCDIR"); /* by meson; by hand: the current folder */
    char root[PATH_MAX];
    struct lw_profile *profile;
    struct lw_mine mine;
    char *folder;

    CHECK(realpath(source ? source : ".", root) != NULL);
    folder = lw_path_join(root, "tests/unit", NULL);
    profile = make_run_in(folder);
    CHECK(lw_mine_init(&mine, profile, NULL));
    CHECK_EQ(mine.root_len, strlen(root));
    CHECK(lw_mine_has(&mine, "../../bench/run.py", NULL));
    lw_mine_release(&mine);
    lw_profile_free(profile);
    lw_free(folder);
}

TEST(running_out_of_memory_is_said_and_leaks_nothing)
{
    struct lw_profile *profile = make_profile();
    bool done = false;

    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_selection selection = { 0 };
        struct lw_callgraph graph = { 0 };
        struct lw_query query;

        lw_alloc_fail_in(n);
        lw_query_init(&query);
        done = lw_query_add_key(&query, "stdname", &err) &&
               lw_query_add_mine(&query, &err) &&
               lw_query_add_word(&query, "x", &err) &&
               lw_query_graph(&query, profile, &graph, &err) &&
               lw_query_select(&query, &graph, &selection, &err);
        lw_alloc_fail_in(0);
        CHECK_EQ(err.code, done ? LW_OK : LW_ERR_NOMEM);
        lw_selection_release(&selection);
        lw_callgraph_release(&graph);
        lw_query_release(&query);
        CHECK(n < 200);
    }
    lw_profile_free(profile);
}
