#include "test.h"

#include "readers/event_shape.h"

/* The shape of {"type":"O", "frame":12, "at":17.5}, from what lies between the braces. */
static void learn(struct lw_event_shape *shape, const char *text)
{
    const char *type = strstr(text, "\"O\"") + 1, *frame = strstr(text, "12");
    const char *at = strstr(text, "17.5");

    lw_event_shape_begin(shape, text);
    lw_event_shape_value(shape, LW_SHAPED_TYPE, type, 1);
    lw_event_shape_value(shape, LW_SHAPED_FRAME, frame, 2);
    lw_event_shape_value(shape, LW_SHAPED_AT, at, 4);
    lw_event_shape_end(shape, strchr(text, '}'));
}

static bool match(const struct lw_event_shape *shape, const char *text, unsigned digits,
                  struct lw_shaped_event *event)
{
    const char *bracket = NULL;
    bool does =
        lw_event_shape_match(shape, text, text + strlen(text), digits, event, &bracket);

    if (does)
        CHECK(bracket == strchr(text, '}'));
    return does;
}

TEST(an_event_that_looks_like_the_first_is_read)
{
    struct lw_event_shape shape;
    struct lw_shaped_event event = { 0 };

    learn(&shape, "\"type\":\"O\",\"frame\":12,\"at\":17.5}");
    CHECK(
        match(&shape, "\"type\":\"C\",\"frame\":4294967294,\"at\":0.25},", 3, &event));
    CHECK_EQ(event.type, 'C');
    CHECK_EQ(event.frame, 4294967294u);
    CHECK_EQ(event.at_ns, 250);
    CHECK(match(&shape, "\"type\":\"O\",\"frame\":0,\"at\":31}]", 9, &event));
    CHECK_EQ(event.type, 'O');
    CHECK_EQ(event.frame, 0);
    CHECK_EQ(event.at_ns, 31000000000u);
    CHECK(match(&shape, "\"type\":\"O\",\"frame\":0,\"at\":123456789012345678}]", 0,
                &event));
    CHECK_EQ(event.at_ns, 123456789012345678u);
}

TEST(space_belongs_to_the_shape)
{
    struct lw_event_shape shape;
    struct lw_shaped_event event = { 0 };

    learn(&shape, " \"type\": \"O\",\n \"frame\": 12, \"at\": 17.5 }");
    CHECK(match(&shape, " \"type\": \"C\",\n \"frame\": 7, \"at\": 18.5 }, {", 1,
                &event));
    CHECK_EQ(event.frame, 7);
    CHECK_EQ(event.at_ns, 185);
    CHECK(
        !match(&shape, " \"type\": \"C\", \"frame\": 7, \"at\": 18.5 }, {", 1, &event));
}

TEST(what_is_not_plain_is_left_to_the_parser)
{
    static const char *const texts[] = {
        "\"type\":\"X\",\"frame\":1,\"at\":1}",
        "\"type\":\"O\",\"frame\":01,\"at\":1}",
        "\"type\":\"O\",\"frame\":-1,\"at\":1}",
        "\"type\":\"O\",\"frame\":,\"at\":1}",
        "\"type\":\"O\",\"frame\":4294967295,\"at\":1}",
        "\"type\":\"O\",\"frame\":18446744073709551617,\"at\":1}",
        "\"type\":\"O\",\"frame\":1.0,\"at\":1}",
        "\"type\":\"O\",\"frame\":1,\"at\":1e3}",
        "\"type\":\"O\",\"frame\":1,\"at\":-1}",
        "\"type\":\"O\",\"frame\":1,\"at\":1.}",
        "\"type\":\"O\",\"frame\":1,\"at\":.5}",
        "\"type\":\"O\",\"frame\":1,\"at\":01}",
        "\"type\":\"O\",\"frame\":1,\"at\":1.0001}",
        "\"type\":\"O\",\"frame\":1,\"at\":1234567890123456}",
        "\"type\":\"O\",\"frame\":1,\"at\":1,\"more\":1}",
        "\"frame\":1,\"type\":\"O\",\"at\":1}",
    };
    struct lw_event_shape shape;
    struct lw_shaped_event event = { 0 };

    learn(&shape, "\"type\":\"O\",\"frame\":12,\"at\":17.5}");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        CHECK(!match(&shape, texts[i], 3, &event));
}

TEST(a_text_may_end_anywhere)
{
    const char *text = "\"type\":\"C\",\"frame\":34,\"at\":17.25}";
    struct lw_event_shape shape;
    struct lw_shaped_event event = { 0 };
    const char *bracket;

    learn(&shape, "\"type\":\"O\",\"frame\":12,\"at\":17.5}");
    for (size_t len = 0; len < strlen(text); len++)
        CHECK(!lw_event_shape_match(&shape, text, text + len, 3, &event, &bracket));
    CHECK(match(&shape, text, 3, &event));
}

TEST(members_twice_or_others_leave_no_shape)
{
    const char *text = "\"type\":\"O\",\"frame\":12,\"at\":17.5}";
    struct lw_event_shape shape = { 0 };
    struct lw_shaped_event event = { 0 };

    CHECK(!match(&shape, text, 3, &event));
    lw_event_shape_begin(&shape, text);
    lw_event_shape_value(&shape, LW_SHAPED_TYPE, text + 8, 1);
    lw_event_shape_value(&shape, LW_SHAPED_FRAME, text + 19, 2);
    lw_event_shape_value(&shape, LW_SHAPED_FRAME, text + 27, 4);
    lw_event_shape_end(&shape, text + 31);
    CHECK(!match(&shape, text, 3, &event));
    learn(&shape, text);
    CHECK(match(&shape, text, 3, &event));
    lw_event_shape_begin(&shape, text);
    lw_event_shape_value(&shape, LW_SHAPED_TYPE, text + 8, 1);
    lw_event_shape_value(&shape, LW_SHAPED_FRAME, text + 19, 2);
    lw_event_shape_value(&shape, LW_SHAPED_AT, text + 27, 4);
    lw_event_shape_value(&shape, LW_SHAPED_OTHER, text + 27, 4);
    lw_event_shape_end(&shape, text + 31);
    CHECK(!match(&shape, text, 3, &event));
}
