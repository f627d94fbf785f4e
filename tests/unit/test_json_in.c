#include "test.h"

#include "base/alloc.h"
#include "base/json_in.h"

/* The tokens of a text, a letter each, with what keys, strings and numbers hold. The
 * text is put right before the end of its memory, so that ASan sees any step too far. */
static const char *tokens(struct lw_buf *out, const char *text, size_t len)
{
    static const char letters[] = "$!{}[]ksntf0";
    char *copy = lw_alloc(len, NULL);
    struct lw_json_in json;
    enum lw_json_token token;

    memcpy(copy, text, len);
    lw_buf_reset(out);
    lw_json_in_init(&json, copy, len);
    do {
        token = lw_json_next(&json);
        lw_buf_add_char(out, letters[token]);
        if (token == LW_JSON_KEY || token == LW_JSON_STRING ||
            token == LW_JSON_NUMBER) {
            lw_buf_add_char(out, '<');
            lw_buf_add(out, json.text, json.len);
            lw_buf_add_char(out, '>');
        }
    } while (token != LW_JSON_END && token != LW_JSON_ERROR);
    CHECK_EQ(lw_json_next(&json), token); /* both ends are final */
    lw_free(copy);
    return out->bytes;
}

static void check_tokens(const char *text, const char *expected)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    CHECK_STR(tokens(&out, text, strlen(text)), expected);
    lw_buf_release(&out);
}

TEST(a_document_comes_as_tokens)
{
    check_tokens("{\"a\": [1, -2.5e+3, true, false, null, \"x\"], \"b\": {}}",
                 "{k<a>[n<1>n<-2.5e+3>tf0s<x>]k<b>{}}$");
    check_tokens(" [ ] ", "[]$");
    check_tokens("\t\r\n0", "n<0>$");
    check_tokens("\"\"", "s<>$");
    check_tokens("[[[]],[]]", "[[[]][]]$");
    check_tokens("{\"a\":{\"b\":[{}]}}", "{k<a>{k<b>[{}]}}$");
}

TEST(what_is_not_json_is_an_error)
{
    static const char *const bad[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{]",
        "{\"a\"}",
        "{\"a\":",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "{,}",
        "1 2",
        "[] []",
        "nul",
        "True",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "NaN",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"a\nb\"",
        "\"\t\"",
        "'a'",
        "[1]]",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "//",
        "[\"a\":1]",
        "\"\\",
        "\"\\u",
    };
    struct lw_buf out;

    lw_buf_init(&out, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tokens(&out, bad[i], strlen(bad[i]));
        CHECK_EQ(out.bytes[out.len - 1], '!');
    }
    tokens(&out, "\"a\0b\"", 5);
    CHECK_EQ(out.bytes[out.len - 1], '!');
    tokens(&out, "\"\\\0\"", 4);
    CHECK_EQ(out.bytes[out.len - 1], '!');
    lw_buf_release(&out);
}

TEST(every_cut_of_a_document_is_an_error)
{
    const char *text = "{\"key\\u00e9\": [1.5e3, \"text with \\\"quotes\\\"\", null]}";
    struct lw_buf out;

    lw_buf_init(&out, 0);
    for (size_t len = 0; len < strlen(text); len++) {
        tokens(&out, text, len);
        CHECK_EQ(out.bytes[out.len - 1], '!');
    }
    lw_buf_release(&out);
}

TEST(names_may_hold_bytes_that_are_not_utf8)
{
    check_tokens("\"a\xff\x80\"", "s<a\xff\x80>$");
}

TEST(long_strings_are_scanned_to_their_end)
{
    /* All lengths around the eight bytes taken at a time, each stop at each place. */
    static const char stops[] = { '"', '\\', '\n', '\x1f' };
    struct lw_buf out;

    lw_buf_init(&out, 0);
    for (size_t len = 0; len < 40; len++) {
        char text[64];

        for (size_t stop = 0; stop < sizeof(stops); stop++) {
            text[0] = '"';
            memset(text + 1, 0x80 | ' ', len);
            text[len + 1] = stops[stop];
            memcpy(text + len + 2, "n\"", 3);
            tokens(&out, text, len + (stop == 0 ? 2 : 4));
            CHECK_EQ(out.bytes[0], stop <= 1 ? 's' : '!');
        }
    }
    lw_buf_release(&out);
}

TEST(depth_is_bounded)
{
    char text[2 * LW_JSON_IN_DEPTH + 2];
    struct lw_buf out;

    lw_buf_init(&out, 0);
    memset(text, '[', LW_JSON_IN_DEPTH);
    memset(text + LW_JSON_IN_DEPTH, ']', LW_JSON_IN_DEPTH);
    tokens(&out, text, 2 * LW_JSON_IN_DEPTH);
    CHECK_EQ(out.bytes[out.len - 1], '$');
    memset(text, '[', sizeof(text));
    tokens(&out, text, sizeof(text));
    CHECK_EQ(out.bytes[out.len - 1], '!');
    lw_buf_release(&out);
}

TEST(values_of_no_interest_are_passed_over)
{
    const char *text =
        "{\"skip\": {\"a\": [1, {\"b\": 2}]}, \"take\": 7, \"end\": [[]]}";
    struct lw_json_in json;

    lw_json_in_init(&json, text, strlen(text));
    CHECK_EQ(lw_json_next(&json), LW_JSON_OBJECT);
    CHECK_EQ(lw_json_next(&json), LW_JSON_KEY);
    CHECK(lw_json_is(&json, "skip"));
    CHECK(!lw_json_is(&json, "ski"));
    CHECK(lw_json_skip(&json));
    CHECK_EQ(lw_json_next(&json), LW_JSON_KEY);
    CHECK(lw_json_is(&json, "take"));
    CHECK(lw_json_skip_rest(&json, lw_json_next(&json)));
    CHECK_EQ(lw_json_next(&json), LW_JSON_KEY);
    CHECK(lw_json_skip_rest(&json, lw_json_next(&json)));
    CHECK_EQ(lw_json_next(&json), LW_JSON_OBJECT_END);
    CHECK_EQ(lw_json_next(&json), LW_JSON_END);
}

TEST(skipping_where_no_value_is_fails)
{
    struct lw_json_in json;

    lw_json_in_init(&json, "[]", 2);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ARRAY);
    CHECK(!lw_json_skip(&json));
    lw_json_in_init(&json, "[[1, 2", 6);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ARRAY);
    CHECK(!lw_json_skip(&json));
}

static void check_unescaped(const char *text, const char *expected, size_t len)
{
    struct lw_json_in json;
    struct lw_buf out;

    lw_buf_init(&out, 0);
    lw_json_in_init(&json, text, strlen(text));
    CHECK_EQ(lw_json_next(&json), LW_JSON_STRING);
    lw_json_unescape(&json, &out);
    CHECK_EQ(out.len, len);
    if (len)
        CHECK_BYTES(out.bytes, expected, len);
    lw_buf_release(&out);
}

TEST(escapes_are_decoded)
{
    check_unescaped("\"plain\"", "plain", 5);
    check_unescaped("\"\"", "", 0);
    check_unescaped("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    check_unescaped("\"a\\u0041\\u00e9\\u20ac.\"", "aA\xc3\xa9\xe2\x82\xac.", 8);
    check_unescaped("\"\\uD83D\\udc26\"", "\xf0\x9f\x90\xa6", 4);
    check_unescaped("\"\\u0000x\"", "\0x", 2);
    check_unescaped("\"\\ud83d\"", "\xef\xbf\xbd", 3); /* half a pair */
    check_unescaped("\"\\ud83d\\u0041\"",
                    "\xef\xbf\xbd"
                    "A",
                    4);
    check_unescaped("\"\\udc26\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd", 6);
}

TEST(an_error_says_where_and_what)
{
    struct lw_json_in json;
    struct lw_error err;

    lw_json_in_init(&json, "[1, x]", 6);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ARRAY);
    CHECK_EQ(lw_json_next(&json), LW_JSON_NUMBER);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ERROR);
    CHECK(!lw_json_fail(&json, &err));
    CHECK_EQ(err.code, LW_ERR_FORMAT);
    CHECK_STR(err.text, "at byte 4: not a value");
}

TEST(a_list_of_numbers_comes_as_one_piece)
{
    const char *text = "{\"a\": [1, 22,3], \"b\": []}";
    struct lw_json_in json;

    lw_json_in_init(&json, text, strlen(text));
    CHECK_EQ(lw_json_next(&json), LW_JSON_OBJECT);
    CHECK_EQ(lw_json_next(&json), LW_JSON_KEY);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ARRAY);
    CHECK(lw_json_numbers(&json));
    CHECK_EQ(json.len, 7);
    CHECK_BYTES(json.text, "1, 22,3", 7);
    CHECK_EQ(lw_json_next(&json), LW_JSON_KEY);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ARRAY);
    CHECK(lw_json_numbers(&json));
    CHECK_EQ(json.len, 0);
    CHECK_EQ(lw_json_next(&json), LW_JSON_OBJECT_END);
    CHECK_EQ(lw_json_next(&json), LW_JSON_END);
}

TEST(a_list_of_numbers_without_an_end_is_an_error)
{
    struct lw_json_in json;

    lw_json_in_init(&json, "[1, 2", 5);
    CHECK_EQ(lw_json_next(&json), LW_JSON_ARRAY);
    CHECK(!lw_json_numbers(&json));
    CHECK_EQ(lw_json_next(&json), LW_JSON_ERROR);
}
