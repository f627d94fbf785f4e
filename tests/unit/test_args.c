#include "test.h"

#include "writers/args.h"

static void check_args(const char *text, const char *wanted)
{
    struct lw_buf scratch;
    size_t len;
    const char *json;

    lw_buf_init(&scratch, 0);
    json = lw_args_json(text, strlen(text), &scratch, &len);
    CHECK_EQ(len, strlen(wanted));
    CHECK_BYTES(json, wanted, len);
    lw_buf_release(&scratch);
}

TEST(arguments_that_are_json_are_left_as_they_are)
{
    check_args("{}", "{}");
    check_args("{ \"a\": [1, {\"b\": -1.5e3}], \"c\": \"\\u00e9\\n\" }",
               "{ \"a\": [1, {\"b\": -1.5e3}], \"c\": \"\\u00e9\\n\" }");
}

TEST(words_that_are_no_values_are_put_in_quotes)
{
    check_args("{\"a\": NaN, \"b\": N/A, \"c\": -inf, \"d\": 007, \"e\": true}",
               "{\"a\": \"NaN\", \"b\": \"N/A\", \"c\": \"-inf\", \"d\": \"007\", "
               "\"e\": true}");
}

TEST(what_may_not_be_in_a_string_is_escaped)
{
    check_args("{\"path\": \"C:\\Users\\new\", \"kept\": \"\\u0041\\\"\"}",
               "{\"path\": \"C:\\\\Users\\new\", \"kept\": \"\\u0041\\\"\"}");
    check_args("{\"a\": \"x\ty\"}", "{\"a\": \"x\\u0009y\"}");
    check_args("{\"a\": \"\xff\"}", "{\"a\": \"\xef\xbf\xbd\"}");
}

TEST(a_mark_of_direction_is_escaped_wherever_it_stands)
{
    check_args("{\"a\": \"x\xe2\x80\xaey\", \"b\": [\"\\n\", 1]}",
               "{\"a\": \"x\\u202ey\", \"b\": [\"\\n\", 1]}");
    check_args("{\"a\xc2\x9b\": 1}", "{\"a\\u009b\": 1}");
}

TEST(what_cannot_be_mended_is_kept_as_one_text)
{
    check_args("{\"a\": \"x\"y\"}", "{\"arguments\":\"{\\\"a\\\": \\\"x\\\"y\\\"}\"}");
    check_args("[1]", "{\"arguments\":\"[1]\"}");
    check_args("", "{\"arguments\":\"\"}");
    check_args("{\"a\": 1", "{\"arguments\":\"{\\\"a\\\": 1\"}");
}
