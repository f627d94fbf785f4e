/* Values are found many bytes at a time; here each byte is looked at by itself. */

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "readers/trace_scan.h"

static bool ends_word(char c)
{
    return c == '\0' || strchr(" \n\r\t,:\"[]{}", c);
}

/* The end of the list or object at P, which a NUL follows; NULL: it has none. */
static const char *end_of_nested(const char *p)
{
    char open[128];
    size_t depth = 0;

    for (; *p; p++) {
        if (*p == '"') {
            for (p++; *p && *p != '"'; p++)
                p += *p == '\\' && p[1];
            if (!*p)
                return NULL;
        } else if (*p == '[' || *p == '{') {
            open[depth++] = *p;
        } else if (*p == ']' || *p == '}') {
            if (open[--depth] != (*p == ']' ? '[' : '{'))
                return NULL;
            if (depth == 0)
                return p + 1;
        }
    }
    return NULL;
}

/* How long the value at the beginning of TEXT is; 0: it is none. */
static size_t scan(const char *text, size_t len)
{
    static struct lw_trace_events in;
    struct lw_stream stream;
    struct lw_value value = { .len = 0 };
    const char *end;

    CHECK(lw_stream_open_bytes(&stream, text, len, 0, NULL));
    lw_trace_events_init(&in, &stream);
    end = lw_trace_scan_value(&in, stream.window, &value);
    if (end)
        CHECK_EQ(value.len, end - stream.window);
    lw_trace_events_release(&in);
    lw_stream_close(&stream);
    return end ? value.len : 0;
}

TEST(a_word_ends_where_a_byte_is_none_of_its)
{
    char text[64];

    for (size_t at = 1; at < 40; at++)
        for (unsigned byte = 0; byte < 256; byte++) {
            size_t expected = ends_word((char)byte) ? at : 48;

            memset(text, '7', sizeof(text));
            text[48] = ',';
            text[at] = (char)byte;
            CHECK_EQ(scan(text, sizeof(text)), expected);
        }
}

TEST(a_list_ends_with_its_own_bracket)
{
    static const char list[] = "[[32, 512, 28, 28], [], {\"a]\": [\"\\\"}\", 3]}, [1]]";
    static const char bytes[] = "[]{}\"\\, 1";
    char text[sizeof(list) + 1];

    CHECK_EQ(scan(list, sizeof(list) - 1), sizeof(list) - 1);
    for (size_t at = 1; at < sizeof(list); at++)
        for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
            const char *end;

            memcpy(text, list, at);
            text[at] = bytes[i];
            memcpy(text + at + 1, list + at, sizeof(list) - at);
            end = end_of_nested(text);
            CHECK_EQ(scan(text, sizeof(text) - 1), end ? (size_t)(end - text) : 0);
        }
}

TEST(a_byte_of_zero_in_a_list_is_not_taken)
{
    static const char text[] = "[1, 2, 3, 4, 5, 6, 7, \0, 8, 9]";

    CHECK_EQ(scan(text, sizeof(text) - 1), 0);
}
