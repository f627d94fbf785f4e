/* --torch and --schedule: what the agent is told, and what is refused. */

#include "test.h"

#include <stdio.h>

#include "cmd/torch_windows.h"

#define GIVEN 1u
#define SHAPES 2u
#define MODULES (2u << 4)

/* What the agent is told of WORDS and SCHEDULE; good until the next call. */
static const char *told(unsigned words, const char *schedule)
{
    static char text[sizeof(((struct lw_error *)NULL)->text)];
    struct lw_torch_windows windows = { words, schedule };
    struct lw_error err = { LW_OK, "" };
    struct lw_buf out;

    lw_buf_init(&out, 0);
    if (lw_torch_windows_add(&windows, &out, &err)) {
        snprintf(text, sizeof(text), "%s", out.len ? out.bytes : "");
    } else {
        CHECK_EQ(err.code, LW_ERR_USAGE);
        snprintf(text, sizeof(text), "%s", err.text);
    }
    lw_buf_release(&out);
    return text;
}

TEST(without_a_word_there_is_one_window_where_a_gpu_is)
{
    CHECK_STR(told(0, NULL), "auto;wait:5;warmup:1;active:3;repeat:1;skip_first:0;"
                             "skip_first_wait:0");
    CHECK_STR(told(GIVEN | LW_TORCH_OFF, NULL), "");
}

TEST(what_a_schedule_does_not_say_is_as_usual)
{
    CHECK_STR(told(GIVEN, NULL), "wait:1;warmup:1;active:3;repeat:1;skip_first:0;"
                                 "skip_first_wait:0");
    CHECK_STR(told(GIVEN | SHAPES | MODULES, "active=7,wait=0,skip_first=1000000000"),
              "wait:0;warmup:1;active:7;repeat:1;skip_first:1000000000;"
              "skip_first_wait:0;shapes;stack;modules"); /* torch sees none without */
    CHECK_STR(told(GIVEN, "repeat=0,warmup=0,skip_first_wait=1"),
              "wait:1;warmup:0;active:3;repeat:0;skip_first:0;skip_first_wait:1");
}

TEST(a_broken_schedule_is_one_sentence)
{
    static const char takes[] =
        "run: --schedule takes wait=N, warmup=N, active=N, repeat=N, skip_first=N and "
        "skip_first_wait=N parted by commas, not '";
    static const struct {
        const char *schedule, *rest;
    } broken[] = {
        { "later=1", "later=1'" }, { "wait", "wait'" },         { "", "'" },
        { "wait=1,", "'" },        { "wait=1,,active=1", "'" }, { "=1", "=1'" },
        { " wait=1", " wait=1'" }, { "waits=1", "waits=1'" },
    };

    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        const char *text = told(GIVEN, broken[i].schedule);

        CHECK(strncmp(text, takes, sizeof(takes) - 1) == 0);
        CHECK_STR(text + sizeof(takes) - 1, broken[i].rest);
    }
}

TEST(numbers_are_whole_and_within_reason)
{
    CHECK_STR(told(GIVEN, "wait=-1"),
              "run: --schedule takes a whole number from 0 to 1000000000 as wait, not "
              "'-1'");
    CHECK_STR(
        told(GIVEN, "repeat=1.5"),
        "run: --schedule takes a whole number from 0 to 1000000000 as repeat, not "
        "'1.5'");
    CHECK_STR(
        told(GIVEN, "warmup="),
        "run: --schedule takes a whole number from 0 to 1000000000 as warmup, not "
        "''");
    CHECK_STR(
        told(GIVEN, "active=99999999999999999999"),
        "run: --schedule takes a whole number from 0 to 1000000000 as active, not "
        "'99999999999999999999'");
    CHECK_STR(told(GIVEN, "wait=1,wait=2"), "run: --schedule says wait twice");
    CHECK_STR(
        told(GIVEN, "active=0"),
        "run: --schedule with active=0 would record nothing: it is how many steps "
        "a window has, at least 1");
}

TEST(a_schedule_is_for_windows)
{
    CHECK_STR(told(0, "wait=1"),
              "run: --schedule says when --torch takes windows: give that too");
    CHECK_STR(told(GIVEN | LW_TORCH_OFF, "wait=1"),
              "run: --schedule says when --torch takes windows: give that too");
    CHECK_STR(told(GIVEN | LW_TORCH_OFF | SHAPES, NULL),
              "run: --torch=off goes with no other word");
}
