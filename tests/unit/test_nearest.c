#include "test.h"

#include "base/nearest.h"

static const char *nearest(const char *word)
{
    static const char *const names[] = { "functions", "lines", "ops", "steps", "tree" };
    struct lw_nearest near;

    lw_nearest_init(&near, word);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        lw_nearest_offer(&near, names[i]);
    return near.name ? near.name : "none";
}

TEST(a_slip_of_the_finger_is_near)
{
    CHECK_STR(nearest("functoins"), "functions");
    CHECK_STR(nearest("fnctons"), "functions");
    CHECK_STR(nearest("setps"), "steps");
    CHECK_STR(nearest("opss"), "ops");
    CHECK_STR(nearest("tree"), "tree");
}

TEST(another_word_is_not)
{
    CHECK_STR(nearest("train"), "none");
    CHECK_STR(nearest("time"), "none");
    CHECK_STR(nearest("o"), "none");
    CHECK_STR(nearest(""), "none");
}
