#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "writers/render.h"

static const struct lw_column columns[] = {
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "self_share", "", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
};

static void add(struct lw_table *table, uint32_t depth, int64_t calls, int64_t self_ns,
                double share, const char *name)
{
    lw_table_row(table, depth);
    lw_table_add_integer(table, calls);
    lw_table_add_integer(table, self_ns);
    lw_table_add_number(table, share);
    lw_table_add_text(table, name, strlen(name));
}

static void make_functions(struct lw_table *table)
{
    lw_table_init(table, columns, 4);
    lw_table_set_title(table, "Functions by self time");
    add(table, 0, 1000, 1234567890, 0.831, "/home/me/project/train.py:10(step)");
    add(table, 0, 1, 250000000, 0.168, "<built-in method \"x|y\">");
    add(table, 0, 123456, 1500, 0.001, "__init__, called\tabc");
    lw_table_row(table, 0);
    lw_table_add_none(table);
    lw_table_add_none(table);
    lw_table_add_none(table);
    lw_table_add_text(table, "(more)", 6);
    lw_table_note(table, "12 functions more.");
    lw_table_note(table, "C calls were not recorded.");
}

static void make_tree(struct lw_table *table, uint32_t depth)
{
    lw_table_init(table, columns, 4);
    for (uint32_t i = 0; i < depth; i++)
        add(table, i, 1, 1, 0.5, "recurse");
    add(table, 0, 2, 2, 0.5, "other");
}

static void check_text(const struct lw_table *table, size_t width, bool colour,
                       const char *expected)
{
    struct lw_render_options options = { .width = width, .colour = colour };
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_render_text(table, &options, &buf);
    CHECK_STR(buf.bytes, expected);
    lw_buf_release(&buf);
}

TEST(text_is_aligned_and_no_line_ends_in_spaces)
{
    struct lw_table table;

    make_functions(&table);
    check_text(&table, 0, false,
               "Functions by self time\n"
               "\n"
               "  calls     self          function\n"
               "  1,000   1.23 s  83.1 %  /home/me/project/train.py:10(step)\n"
               "      1   250 ms  16.8 %  <built-in method \"x|y\">\n"
               "123,456  1.50 us   0.1 %  __init__, called\\x09abc\n"
               "                          (more)\n"
               "\n"
               "12 functions more.\n"
               "C calls were not recorded.\n");
    lw_table_release(&table);
}

TEST(a_narrow_terminal_cuts_paths_at_the_front_and_names_in_the_middle)
{
    struct lw_table table;

    make_functions(&table);
    check_text(&table, 46, false,
               "Functions by self time\n"
               "\n"
               "  calls     self          function\n"
               "  1,000   1.23 s  83.1 %  …/train.py:10(step)\n"
               "      1   250 ms  16.8 %  <built-in…hod \"x|y\">\n"
               "123,456  1.50 us   0.1 %  __init__,…led\\x09abc\n"
               "                          (more)\n"
               "\n"
               "12 functions more.\n"
               "C calls were not recorded.\n");
    check_text(&table, 10, false, /* too narrow for the numbers: those stay whole */
               "Functions\n"
               "by self\n"
               "time\n"
               "\n"
               "  calls     self          function\n"
               "  1,000   1.23 s  83.1 %  …ain.py:10(step)\n"
               "      1   250 ms  16.8 %  <built-…d \"x|y\">\n"
               "123,456  1.50 us   0.1 %  __init_…d\\x09abc\n"
               "                          (more)\n"
               "\n"
               "12\n"
               "functions\n"
               "more.\n"
               "C calls\n"
               "were not\n"
               "recorded.\n");
    lw_table_release(&table);
}

TEST(colour_is_subtle_and_ends_where_it_starts)
{
    struct lw_table table;

    make_functions(&table);
    check_text(&table, 0, true,
               "\033[1mFunctions by self time\033[0m\n"
               "\n"
               "  \033[2mcalls\033[0m     \033[2mself\033[0m          "
               "\033[2mfunction\033[0m\n"
               "  1,000   1.23 s  \033[1m83.1 %\033[0m  "
               "/home/me/project/train.py:10(step)\n"
               "      1   250 ms  \033[1m16.8 %\033[0m  <built-in method \"x|y\">\n"
               "123,456  1.50 us   \033[2m0.1 %\033[0m  __init__, called\\x09abc\n"
               "                          (more)\n"
               "\n"
               "\033[2m12 functions more.\033[0m\n"
               "\033[2mC calls were not recorded.\033[0m\n");
    lw_table_release(&table);
}

TEST(nested_rows_are_indented)
{
    struct lw_table table;

    make_tree(&table, 3);
    check_text(&table, 0, false,
               "calls  self          function\n"
               "    1  1 ns  50.0 %  recurse\n"
               "    1  1 ns  50.0 %    recurse\n"
               "    1  1 ns  50.0 %      recurse\n"
               "    2  2 ns  50.0 %  other\n");
    lw_table_release(&table);
}

TEST(a_tree_ten_thousand_deep_stays_readable_and_small)
{
    struct lw_render_options options = { .width = 60 };
    struct lw_table table;
    struct lw_buf buf;

    make_tree(&table, 10000);
    lw_buf_init(&buf, 0);
    lw_render_text(&table, &options, &buf);
    CHECK(buf.len < 10002 * 62);
    CHECK(strstr(buf.bytes, "[9999] recurse") != NULL);
    lw_buf_reset(&buf);
    lw_render_markdown(&table, &buf);
    CHECK(buf.len < 10002 * 400);
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(wide_characters_are_cut_to_the_column)
{
    static const struct lw_column name_only[] = { { "n", "", LW_UNIT_TEXT, true } };
    struct lw_table table;

    lw_table_init(&table, name_only, 1);
    lw_table_row(&table, 0); /* 20 Chinese characters, 40 columns */
    lw_table_add_text(&table,
                      "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad"
                      "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad"
                      "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad"
                      "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad",
                      60);
    check_text(&table, 17, false,
               "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad…"
               "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\n");
    check_text(&table, 16, false,
               "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad…"
               "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\n");
    lw_table_release(&table);
}

TEST(a_table_without_rows_is_its_title_and_notes)
{
    struct lw_table table;

    lw_table_init(&table, columns, 4);
    lw_table_set_title(&table, "Threads");
    check_text(&table, 0, false, "Threads\n");
    lw_table_note(&table, "nothing was recorded");
    check_text(&table, 0, false, "Threads\n\nnothing was recorded\n");
    lw_table_release(&table);
}

static void make_sayings(struct lw_table *table)
{
    lw_table_init(table, columns, 4);
    lw_table_set_title(table, "what to change");
    add(table, 0, 1, 2, 0.5, "first");
    lw_table_say(table, "Call log_metrics a tenth as often\ngain: 30 to 35 %%\nwhy: %s",
                 "a step spends 7 ms of 20 in it");
    add(table, 0, 3, 4, 0.25, "second");
    lw_table_say(table, "Have 2 workers make the batches");
    lw_table_note(table, "Looked at: logging, data.");
}

TEST(rows_that_say_something_are_their_sentences_and_are_never_cut)
{
    struct lw_table table;

    make_sayings(&table);
    check_text(&table, 0, false,
               "what to change\n"
               "\n"
               "1. Call log_metrics a tenth as often\n"
               "   gain: 30 to 35 %\n"
               "   why: a step spends 7 ms of 20 in it\n"
               "\n"
               "2. Have 2 workers make the batches\n"
               "\n"
               "Looked at: logging, data.\n");
    check_text(&table, 24, false,
               "what to change\n"
               "\n"
               "1. Call log_metrics a\n"
               "   tenth as often\n"
               "   gain: 30 to 35 %\n"
               "   why: a step spends 7\n"
               "   ms of 20 in it\n"
               "\n"
               "2. Have 2 workers make\n"
               "   the batches\n"
               "\n"
               "Looked at: logging,\n"
               "data.\n");
    lw_table_release(&table);
}

TEST(what_rows_say_is_not_in_json_which_has_their_cells)
{
    struct lw_table table;
    struct lw_buf buf;

    make_sayings(&table);
    lw_buf_init(&buf, 0);
    lw_render_json(&table, &buf);
    CHECK(strstr(buf.bytes, "\"function\":\"second\"") != NULL);
    CHECK(strstr(buf.bytes, "workers") == NULL);
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(json_has_raw_values_under_machine_names)
{
    struct lw_table table;
    struct lw_buf buf;

    make_functions(&table);
    lw_buf_init(&buf, 0);
    lw_render_json(&table, &buf);
    CHECK_STR(buf.bytes,
              "{\n"
              "  \"title\": \"Functions by self time\",\n"
              "  \"columns\": [\n"
              "    {\"name\":\"calls\",\"title\":\"calls\",\"unit\":\"count\"},\n"
              "    {\"name\":\"self_ns\",\"title\":\"self\",\"unit\":\"ns\"},\n"
              "    {\"name\":\"self_share\",\"title\":\"\",\"unit\":\"share\"},\n"
              "    {\"name\":\"function\",\"title\":\"function\",\"unit\":\"text\"}\n"
              "  ],\n"
              "  \"rows\": [\n"
              "    {\"calls\":1000,\"self_ns\":1234567890,\"self_share\":0.831,"
              "\"function\":\"/home/me/project/train.py:10(step)\"},\n"
              "    {\"calls\":1,\"self_ns\":250000000,\"self_share\":0.168,"
              "\"function\":\"<built-in method \\\"x|y\\\">\"},\n"
              "    {\"calls\":123456,\"self_ns\":1500,\"self_share\":0.001,"
              "\"function\":\"__init__, called\\tabc\"},\n"
              "    {\"calls\":null,\"self_ns\":null,\"self_share\":null,"
              "\"function\":\"(more)\"}\n"
              "  ],\n"
              "  \"notes\": [\n"
              "    \"12 functions more.\",\n"
              "    \"C calls were not recorded.\"\n"
              "  ]\n"
              "}\n");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(nested_rows_are_children_in_json)
{
    static const struct lw_column name_only[] = { { "n", "n", LW_UNIT_TEXT, false } };
    static const uint32_t depths[] = { 0, 1, 2, 2, 1, 0, 1 };
    struct lw_table table;
    struct lw_json_out json;
    struct lw_buf buf;

    lw_table_init(&table, name_only, 1);
    for (size_t i = 0; i < 7; i++) {
        char letter = (char)('a' + i);

        lw_table_row(&table, depths[i]);
        lw_table_add_text(&table, &letter, 1);
    }
    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, false);
    lw_render_json_value(&table, &json);
    CHECK_STR(buf.bytes,
              "{\"title\":null,\"columns\":[{\"name\":\"n\",\"title\":\"n\",\"unit\":"
              "\"text\"}],\"rows\":["
              "{\"n\":\"a\",\"children\":["
              "{\"n\":\"b\",\"children\":[{\"n\":\"c\"},{\"n\":\"d\"}]},"
              "{\"n\":\"e\"}]},"
              "{\"n\":\"f\",\"children\":[{\"n\":\"g\"}]}],\"notes\":[]}");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(a_tree_of_any_depth_is_json_that_can_be_read)
{
    static const uint32_t depths[] = { 1, 2, 99, 100, 101, 102, 10000 };

    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        struct lw_table table;
        struct lw_json_in json;
        struct lw_buf buf;
        size_t rows = 0, deeper = 0;
        enum lw_json_token token;

        make_tree(&table, depths[i]);
        lw_buf_init(&buf, 0);
        lw_render_json(&table, &buf);
        CHECK_EQ(buf.failure, LW_OK);
        lw_json_in_init(&json, buf.bytes, buf.len);
        while ((token = lw_json_next(&json)) != LW_JSON_END) {
            CHECK(token != LW_JSON_ERROR);
            rows += token == LW_JSON_KEY && lw_json_is(&json, "self_ns");
            deeper += token == LW_JSON_KEY && lw_json_is(&json, "depth");
        }
        CHECK_EQ(rows, depths[i] + 1);
        CHECK_EQ(deeper, depths[i] > 101 ? depths[i] - 101 : 0);
        lw_buf_release(&buf);
        lw_table_release(&table);
    }
}

static void check_lines(size_t row_count, size_t lines, size_t wanted_rows)
{
    struct lw_render_options options = { .width = 60,
                                         .lines = lines,
                                         .more = "all: -n 0" };
    struct lw_table table;
    struct lw_buf buf;
    char note[80];
    size_t count = 0;

    lw_table_init(&table, columns, 4);
    lw_table_set_title(&table, "Functions");
    for (size_t i = 0; i < row_count; i++)
        add(&table, 0, 1, 1, 0.5, "step");
    lw_table_note(&table, "C calls were not recorded.");
    lw_buf_init(&buf, 0);
    lw_render_text(&table, &options, &buf);
    for (const char *at = buf.bytes; (at = strstr(at, "  step\n")); at++)
        count++;
    CHECK_EQ(count, wanted_rows);
    snprintf(note, sizeof(note),
             "%zu more rows do not fit on this screen; all: -n 0.\n",
             row_count - wanted_rows);
    CHECK((strstr(buf.bytes, note) != NULL) == (wanted_rows < row_count));
    count = 1; /* the prompt */
    for (size_t i = 0; i < buf.len; i++)
        count += buf.bytes[i] == '\n';
    if (wanted_rows > 3)
        CHECK(count <= lines || lines == 0);
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(a_table_longer_than_the_screen_has_its_first_rows_and_says_how_many_more)
{
    check_lines(100, 0, 100);
    check_lines(100, 24, 16);
    check_lines(18, 24, 18);
    check_lines(19, 24, 16);
    check_lines(100, 4, 3);
}

TEST(a_name_is_not_cut_in_the_middle_of_a_number)
{
    struct lw_render_options options = { .width = 16 };
    struct lw_table table;
    struct lw_buf buf;

    lw_table_init(&table, columns + 3, 1);
    lw_table_row(&table, 0);
    lw_table_add_text(&table, "+78.125 ms data, then 1234567.5 us", 34);
    lw_table_row(&table, 0);
    lw_table_add_text(&table, "/home/me/run12345678/a.py:4711", 30);
    lw_buf_init(&buf, 0);
    lw_render_text(&table, &options, &buf);
    CHECK_STR(buf.bytes, "function\n+78.125\xe2\x80\xa6 us\n\xe2\x80\xa6/a.py:4711\n");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(csv_is_quoted_where_it_must_be)
{
    struct lw_table table;
    struct lw_buf buf;

    make_functions(&table);
    lw_table_row(&table, 0);
    lw_table_add_integer(&table, -1);
    lw_table_add_none(&table);
    lw_table_add_number(&table, NAN);
    lw_table_add_text(&table, "two\nlines \xff", 11);
    lw_buf_init(&buf, 0);
    lw_render_csv(&table, &buf);
    CHECK_STR(buf.bytes, "calls,self_ns,self_share,function\r\n"
                         "1000,1234567890,0.831,/home/me/project/train.py:10(step)\r\n"
                         "1,250000000,0.168,\"<built-in method \"\"x|y\"\">\"\r\n"
                         "123456,1500,0.001,\"__init__, called\\x09abc\"\r\n"
                         ",,,(more)\r\n"
                         "-1,,,two\\x0alines \\xff\r\n");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(a_name_in_csv_is_never_a_formula)
{
    static const char *const names[] = {
        "=1+1",
        "+1",
        "-1",
        "@A1",
        "  =1",
        "\xef\xbc\x9d"
        "1",
        "=\"a\",b",
        "a=1",
        "<=",
    };
    struct lw_table table;
    struct lw_buf buf;

    lw_table_init(&table, columns + 3, 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        lw_table_row(&table, 0);
        lw_table_add_text(&table, names[i], strlen(names[i]));
    }
    lw_buf_init(&buf, 0);
    lw_render_csv(&table, &buf);
    CHECK_STR(buf.bytes, "function\r\n'=1+1\r\n'+1\r\n'-1\r\n'@A1\r\n\"'  =1\"\r\n"
                         "'\xef\xbc\x9d"
                         "1\r\n\"'=\"\"a\"\",b\"\r\na=1\r\n<=\r\n");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(csv_of_nested_rows_has_their_depth)
{
    struct lw_table table;
    struct lw_buf buf;

    make_tree(&table, 2);
    lw_buf_init(&buf, 0);
    lw_render_csv(&table, &buf);
    CHECK_STR(buf.bytes, "depth,calls,self_ns,self_share,function\r\n"
                         "0,1,1,0.5,recurse\r\n"
                         "1,1,1,0.5,recurse\r\n"
                         "0,2,2,0.5,other\r\n");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(markdown_escapes_what_would_be_a_mark)
{
    struct lw_table table;
    struct lw_buf buf;

    make_functions(&table);
    lw_buf_init(&buf, 0);
    lw_render_markdown(&table, &buf);
    CHECK_STR(buf.bytes,
              "### Functions by self time\n"
              "\n"
              "| calls | self |  | function |\n"
              "| ---: | ---: | ---: | --- |\n"
              "| 1,000 | 1.23 s | 83.1 % | /home/me/project/train.py:10(step) |\n"
              "| 1 | 250 ms | 16.8 % | \\<built-in method \"x\\|y\"\\> |\n"
              "| 123,456 | 1.50 us | 0.1 % | \\_\\_init\\_\\_, called\\\\x09abc |\n"
              "|  |  |  | (more) |\n"
              "\n"
              "12 functions more.\n"
              "\n"
              "C calls were not recorded.\n");
    lw_buf_release(&buf);
    lw_table_release(&table);
}

TEST(markdown_indents_nested_rows)
{
    struct lw_table table;
    struct lw_buf buf;

    make_tree(&table, 2);
    lw_buf_init(&buf, 0);
    lw_render_markdown(&table, &buf);
    CHECK(strstr(buf.bytes, "| 50.0 % | &nbsp;&nbsp;recurse |\n") != NULL);
    lw_buf_release(&buf);
    lw_table_release(&table);
}

typedef void render(const struct lw_table *table, struct lw_buf *out);

static void render_text(const struct lw_table *table, struct lw_buf *out)
{
    struct lw_render_options options = { .width = 40, .colour = true };

    lw_render_text(table, &options, out);
}

TEST(every_allocation_of_every_renderer_may_fail)
{
    static render *const renderers[] = { render_text, lw_render_json, lw_render_csv,
                                         lw_render_markdown };
    struct lw_table table;

    make_functions(&table);
    for (size_t i = 0; i < 4; i++)
        for (unsigned n = 1;; n++) {
            struct lw_error err;
            struct lw_buf buf;
            bool done;

            lw_buf_init(&buf, 0);
            lw_alloc_fail_in(n);
            renderers[i](&table, &buf);
            done = lw_buf_check(&buf, &err);
            lw_alloc_fail_in(0);
            lw_buf_release(&buf);
            if (done) {
                CHECK(n > 2);
                break;
            }
            CHECK_EQ(err.code, LW_ERR_NOMEM);
        }
    lw_table_release(&table);
}

TEST(a_pipe_gets_plain_text_of_any_width)
{
    int null = open("/dev/null", O_WRONLY);
    struct lw_render_options options;

    setenv("COLUMNS", "50", 1);
    options = lw_render_options_for_fd(null);
    CHECK_EQ(options.width, 0);
    CHECK(!options.colour);
    close(null);
}

TEST(a_terminal_is_asked_and_the_environment_goes_first)
{
    struct winsize size = { .ws_row = 24, .ws_col = 123 };
    int master, terminal;

    CHECK(openpty(&master, &terminal, NULL, NULL, &size) == 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    unsetenv("COLUMNS");
    CHECK_EQ(lw_render_options_for_fd(terminal).width, 123);
    CHECK(lw_render_options_for_fd(terminal).colour);
    setenv("COLUMNS", "77", 1);
    CHECK_EQ(lw_render_options_for_fd(terminal).width, 77);
    setenv("COLUMNS", "wide", 1);
    CHECK_EQ(lw_render_options_for_fd(terminal).width, 123);
    setenv("NO_COLOR", "1", 1);
    CHECK(!lw_render_options_for_fd(terminal).colour);
    setenv("NO_COLOR", "", 1); /* as no-color.org has it: empty does not count */
    CHECK(lw_render_options_for_fd(terminal).colour);
    setenv("TERM", "dumb", 1);
    CHECK(!lw_render_options_for_fd(terminal).colour);
    close(master);
    close(terminal);
}
