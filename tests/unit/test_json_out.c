#include "test.h"

#include <math.h>

#include "base/alloc.h"
#include "base/json_out.h"

TEST(objects_and_arrays_get_their_commas)
{
    struct lw_buf buf;
    struct lw_json_out json;

    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, false);
    lw_json_object(&json);
    lw_json_key_text(&json, "name", "run");
    lw_json_key(&json, "list");
    lw_json_array(&json);
    lw_json_u64(&json, UINT64_MAX);
    lw_json_i64(&json, INT64_MIN);
    lw_json_double(&json, 0.5);
    lw_json_double(&json, NAN);
    lw_json_bool(&json, true);
    lw_json_null(&json);
    lw_json_array(&json);
    lw_json_end(&json, ']');
    lw_json_end(&json, ']');
    lw_json_key_u64(&json, "n", 1);
    lw_json_key_i64(&json, "i", -1);
    lw_json_key_double(&json, "d", 0.25);
    lw_json_key_bool(&json, "b", false);
    lw_json_end(&json, '}');
    CHECK_STR(buf.bytes,
              "{\"name\":\"run\",\"list\":[18446744073709551615,-9223372036854775808,"
              "0.5,null,true,null,[]],\"n\":1,\"i\":-1,\"d\":0.25,\"b\":false}");
    lw_buf_release(&buf);
}

TEST(pretty_text_has_a_line_a_member)
{
    struct lw_buf buf;
    struct lw_json_out json;

    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, true);
    lw_json_object(&json);
    lw_json_key_text(&json, "a", "b");
    lw_json_key(&json, "c");
    lw_json_array(&json);
    lw_json_u64(&json, 1);
    lw_json_u64(&json, 2);
    lw_json_end(&json, ']');
    lw_json_key(&json, "empty");
    lw_json_object(&json);
    lw_json_end(&json, '}');
    lw_json_end(&json, '}');
    CHECK_STR(buf.bytes, "{\n"
                         "  \"a\": \"b\",\n"
                         "  \"c\": [\n"
                         "    1,\n"
                         "    2\n"
                         "  ],\n"
                         "  \"empty\": {}\n"
                         "}\n");
    lw_buf_release(&buf);
}

TEST(characters_that_are_not_printable_are_escaped)
{
    struct lw_buf buf;
    struct lw_json_out json;

    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, false);
    /* ESC, a C1 control, a mark of direction, an invisible tag, and a letter. */
    lw_json_text(&json, "\x1b[\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\xc3\xa9", 13);
    CHECK_STR(buf.bytes, "\"\\u001b[\\u009b\\u202e\\udb40\\udc41\xc3\xa9\"");
    lw_buf_release(&buf);
}

TEST(strings_are_quoted_and_always_utf8)
{
    struct lw_buf buf;
    struct lw_json_out json;

    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, false);
    lw_json_text(&json, "\"\\/\n\t\r\0\x1f\x7f\xc3\xa9\xff", 12);
    CHECK_STR(buf.bytes, "\"\\\"\\\\/\\n\\t\\u000d\\u0000\\u001f\\u007f\xc3\xa9"
                         "\xef\xbf\xbd\"");
    lw_buf_release(&buf);
}

TEST(nesting_too_deep_fails_the_buffer)
{
    struct lw_buf buf;
    struct lw_json_out json;

    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, true);
    for (int i = 0; i < LW_JSON_DEPTH + 10; i++)
        lw_json_array(&json);
    for (int i = 0; i < LW_JSON_DEPTH + 10; i++)
        lw_json_end(&json, ']');
    CHECK_EQ(buf.failure, LW_ERR_LIMIT);
    lw_buf_release(&buf);
}

TEST(running_out_of_memory_ends_the_text_and_nothing_else)
{
    struct lw_buf buf;
    struct lw_json_out json;

    lw_buf_init(&buf, 0);
    lw_json_start(&json, &buf, true);
    lw_alloc_fail_in(2);
    lw_json_object(&json);
    for (int i = 0; i < 100; i++)
        lw_json_key_text(&json, "key", "value");
    lw_json_end(&json, '}');
    CHECK_EQ(buf.failure, LW_ERR_NOMEM);
    lw_buf_release(&buf);
}
