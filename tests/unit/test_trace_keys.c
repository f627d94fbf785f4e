/* What is known of a file's keys must never show: each text is read twice here, once as
 * always and once with no room to know any key. */

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "readers/kineto_args.h"
#include "readers/trace_events.h"

static void say_value(struct lw_buf *out, const char *what,
                      const struct lw_value *value)
{
    if (value->form == LW_VALUE_NONE)
        return;
    lw_buf_addf(out, " %s %d%d ", what, value->form, value->escaped);
    lw_buf_add(out, value->text, value->len);
}

static void say_event(struct lw_buf *out, const struct lw_trace_event *event)
{
    lw_buf_addf(out, "event %d", event->phase);
    say_value(out, "name", &event->name);
    say_value(out, "cat", &event->category);
    say_value(out, "ts", &event->time);
    say_value(out, "dur", &event->duration);
    say_value(out, "pid", &event->pid);
    say_value(out, "tid", &event->tid);
    say_value(out, "id", &event->id);
    say_value(out, "s", &event->scope);
    say_value(out, "args", &event->args);
    for (size_t i = 0; i < event->member_count; i++) {
        const struct lw_member *member = &event->members[i];

        lw_buf_addf(out, "; %u ", member->code);
        lw_buf_add(out, member->key, member->key_len);
        say_value(out, "", &member->value);
    }
    lw_buf_add_text(out, "\n");
}

/* All that is in the LEN bytes at TEXT, in words, to OUT. PIECE_BYTES as for the stream. */
static void say_all(const char *text, size_t len, size_t piece_bytes, bool knows_keys,
                    struct lw_buf *out)
{
    struct lw_error err = { LW_OK, "" };
    enum lw_trace_item item = LW_TRACE_EVENT;
    static struct lw_trace_events in;
    struct lw_stream stream;

    lw_buf_init(out, 0);
    CHECK(lw_stream_open_bytes(&stream, text, len, piece_bytes, &err));
    lw_trace_events_init(&in, &stream);
    in.code_of = lw_kineto_arg_code;
    if (!knows_keys)
        in.keys.count = LW_TRACE_KEYS; /* there is no room for any */
    while (item != LW_TRACE_END) {
        if (!lw_trace_events_next(&in, &item, &err)) {
            lw_buf_addf(out, "failed: %s\n", err.text);
            break;
        }
        if (item == LW_TRACE_EVENT)
            say_event(out, &in.event);
    }
    lw_buf_addf(out, "%d events, %d broken, %d mended, %d cut, %d, %d\n",
                (int)in.event_count, (int)in.broken_count, (int)in.mended_count,
                (int)in.cut_count, in.is_cut, in.has_rest);
    lw_trace_events_release(&in);
    lw_stream_close(&stream);
    CHECK(lw_buf_check(out, NULL));
}

static void check_same(const char *text, size_t len, size_t piece_bytes)
{
    struct lw_buf known, unknown;

    say_all(text, len, piece_bytes, true, &known);
    say_all(text, len, 0, false, &unknown);
    if (known.len != unknown.len || memcmp(known.bytes, unknown.bytes, known.len) != 0)
        printf("# of: %.*s\n# %s# %s", (int)len, text, known.bytes, unknown.bytes);
    CHECK_EQ(known.len, unknown.len);
    CHECK(memcmp(known.bytes, unknown.bytes, known.len) == 0);
    lw_buf_release(&known);
    lw_buf_release(&unknown);
}

#define EVENT \
    "{\n  \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1," \
    " \"tid\": 2,\n  \"ts\": 12.5, \"dur\": 3, \"args\": {\n    \"External id\": 7," \
    " \"Input Dims\": [[2, 3], []], \"Call stack\": \"a(1);b(2)\"\n  }\n}"
#define SMALL "{\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":\"python\"}}"

TEST(a_byte_that_differs_is_read_as_it_is_however_many_events_came_before)
{
    static const char before[] = "[" EVENT "," SMALL "," EVENT ",";
    static const char behind[] = "," EVENT "," SMALL "]";
    static const char changes[] = "\"\\{}[],: \nx\0";
    char text[sizeof(before) + sizeof(behind) + sizeof(EVENT)];
    size_t start = sizeof(before) - 1, len = sizeof(text) - 3;

    memcpy(text, before, start);
    memcpy(text + start, EVENT, sizeof(EVENT) - 1);
    memcpy(text + start + sizeof(EVENT) - 1, behind, sizeof(behind) - 1);
    for (size_t i = start; i < start + sizeof(EVENT) - 1; i++) {
        char was = text[i];

        for (size_t j = 0; j < sizeof(changes) - 1; j++) {
            text[i] = changes[j];
            check_same(text, len, 0);
        }
        text[i] = was;
    }
}

TEST(a_byte_too_many_or_too_few_is_read_as_it_is)
{
    static const char before[] = "{\"traceEvents\": [" EVENT "," EVENT ",";
    static const char behind[] = "," EVENT "], \"traceName\": \"x\"}";
    static const char more[] = " \n,\"}";
    size_t event_len = sizeof(EVENT) - 1, len;
    char text[sizeof(before) + sizeof(behind) + sizeof(EVENT) + 1];

    for (size_t i = 0; i <= event_len; i++)
        for (size_t j = 0; j < sizeof(more); j++) {
            len = (size_t)snprintf(text, sizeof(text), "%s%.*s%.*s%s%s", before, (int)i,
                                   EVENT, more[j] != 0, &more[j],
                                   &EVENT[i + (more[j] == 0 && i < event_len)], behind);
            check_same(text, len, 0);
        }
}

TEST(windows_may_end_anywhere_in_what_is_known)
{
    static const char text[] =
        "[" EVENT "," SMALL "," EVENT ", " EVENT "," SMALL ",\n" EVENT "]";

    for (size_t piece = 8; piece < 300; piece++)
        check_same(text, sizeof(text) - 1, piece);
}

TEST(a_file_may_be_cut_anywhere_in_what_is_known)
{
    static const char text[] = "[" EVENT "," EVENT "," EVENT;

    for (size_t len = sizeof(text) - sizeof(EVENT); len < sizeof(text); len++)
        check_same(text, len, 0);
}

/* A key that is an event's and an argument's, in another order each time, and one that has
 * no room. */
TEST(the_same_key_may_be_an_event_s_or_an_argument_s)
{
    static const char text[] =
        "[{\"name\":\"a\",\"ph\":\"X\",\"args\":{\"name\":1,\"ph\":\"B\",\"ts\":2}},"
        "{\"ph\":\"X\",\"name\":\"b\",\"args\":{\"ts\":2,\"name\":3}},"
        "{\"args\":{\"args\":{\"name\":4}},\"name\":\"c\",\"args\":[5]},"
        "{\"args\":{},\"name\":\"d\",\"name\":\"e\",\"ph\":\"no\"},{},"
        "{\"a key that is longer than what is kept of one, by a good deal\":1,\"ph\":"
        "\"X\",\"args\":{\"another key that is longer than what is kept of one\":2}}]";
    struct lw_buf said;

    check_same(text, sizeof(text) - 1, 0);
    say_all(text, sizeof(text) - 1, 0, true, &said);
    CHECK_STR(
        said.bytes,
        "event 88 name 10 a args 30 {\"name\":1,\"ph\":\"B\",\"ts\":2}; 0 name  20 1;"
        " 0 ph  10 B; 0 ts  20 2\n"
        "event 88 name 10 b args 30 {\"ts\":2,\"name\":3}; 0 ts  20 2; 0 name  20 3\n"
        "event 0 name 10 c args 30 [5]; 0 args  30 {\"name\":4}\n"
        "event 0 name 10 e args 30 {}\n"
        "event 0\n"
        "event 88 args 30 {\"another key that is longer than what is kept of one\":2};"
        " 0 another key that is longer than what is kept of one  20 2\n"
        "6 events, 0 broken, 0 mended, 0 cut, 0, 0\n");
    lw_buf_release(&said);
}

TEST(what_an_argument_is_for_its_key_alone_does_not_say)
{
    static const char text[] =
        "[{\"ph\":\"X\",\"correlation\":1},{\"args\":{\"a\":1,\"correlation\":2}},"
        "{\"ph\":\"X\",\"correlation\":3,\"args\":{\"a\":4,\"correlation\":5}}]";
    struct lw_buf said;

    check_same(text, sizeof(text) - 1, 0);
    say_all(text, sizeof(text) - 1, 0, true, &said);
    CHECK(strstr(said.bytes, "; 1 correlation  20 2\n"));
    CHECK(strstr(said.bytes, "; 1 correlation  20 5\n"));
    lw_buf_release(&said);
}

TEST(more_keys_than_are_kept_are_read_all_the_same)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "[");
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 300; i++)
            lw_buf_addf(&text,
                        "%s{\"ph\":\"X\",\"key%d\":%d,\"ts\":%d,\"args\":{\"a%d\":1}}",
                        text.len > 1 ? "," : "", i, i, i, i);
    lw_buf_add_text(&text, "]");
    CHECK(lw_buf_check(&text, NULL));
    check_same(text.bytes, text.len, 0);
    lw_buf_release(&text);
}
