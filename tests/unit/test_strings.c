#include "test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "model/strings.h"

TEST(the_empty_string_is_number_zero)
{
    struct lw_strings *t = lw_strings_new(NULL);
    lw_string_id id = 7;

    CHECK_EQ(lw_strings_count(t), 1);
    CHECK_STR(lw_strings_text(t, 0), "");
    CHECK(lw_strings_intern(t, NULL, 0, &id, NULL));
    CHECK_EQ(id, 0);
    lw_strings_free(t);
    lw_strings_free(NULL);
}

TEST(same_text_has_one_number)
{
    struct lw_strings *t = lw_strings_new(NULL);
    lw_string_id a = 0, b = 0;

    CHECK(lw_strings_intern(t, "forward", 7, &a, NULL));
    CHECK(lw_strings_intern(t, "forward!", 7, &b, NULL));
    CHECK_EQ(a, b);
    CHECK_STR(lw_strings_text(t, a), "forward");
    CHECK_EQ(lw_strings_len(t, a), 7);
    lw_strings_free(t);
}

TEST(names_may_hold_any_bytes)
{
    struct lw_strings *t = lw_strings_new(NULL);
    lw_string_id a, b, c;

    CHECK(lw_strings_intern(t, "a\0b", 3, &a, NULL));
    CHECK(lw_strings_intern(t, "a\0c", 3, &b, NULL));
    CHECK(lw_strings_intern(t, "\xff\n", 2, &c, NULL));
    CHECK(a != b);
    CHECK_EQ(lw_strings_len(t, a), 3);
    CHECK_BYTES(lw_strings_text(t, a), "a\0b", 4);
    CHECK_BYTES(lw_strings_text(t, c), "\xff\n", 3);
    lw_strings_free(t);
}

TEST(texts_stay_where_they_are_while_thousands_are_added)
{
    struct lw_strings *t = lw_strings_new(NULL);
    lw_string_id first, id;
    const char *text;
    char name[20];

    CHECK(lw_strings_intern(t, "first", 5, &first, NULL));
    text = lw_strings_text(t, first);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 50000; i++) {
            int len = snprintf(name, sizeof(name), "name%d", i);

            CHECK(lw_strings_intern(t, name, (size_t)len, &id, NULL));
            CHECK_EQ(id, i + 2);
        }
    CHECK(lw_strings_text(t, first) == text);
    CHECK_STR(text, "first");
    CHECK_EQ(lw_strings_count(t), 50002);
    lw_strings_free(t);
}

TEST(running_out_of_memory_leaves_the_table_as_it_was)
{
    for (unsigned n = 1; n <= 2; n++) {
        struct lw_strings *t = lw_strings_new(NULL);
        struct lw_error err = { LW_OK, "" };
        lw_string_id id;

        lw_alloc_fail_in(n);
        CHECK(!lw_strings_intern(t, "backward", 8, &id, &err));
        CHECK_EQ(err.code, LW_ERR_NOMEM);
        CHECK_EQ(lw_strings_count(t), 1);
        lw_alloc_fail_in(0);
        CHECK(lw_strings_intern(t, "backward", 8, &id, &err));
        CHECK_EQ(id, 1);
        lw_strings_free(t);
    }
}

TEST(a_table_that_cannot_be_made_is_null)
{
    for (unsigned n = 1; n <= 2; n++) {
        struct lw_error err;

        lw_alloc_fail_in(n);
        CHECK(lw_strings_new(&err) == NULL);
        CHECK_EQ(err.code, LW_ERR_NOMEM);
    }
}
