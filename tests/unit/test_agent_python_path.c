/* PYTHONPATH with our folder in it, whatever launchers make of it. */

#include <stdlib.h>
#include <string.h>

#include "agent/python_path.h"
#include "test.h"

#define FOLDER "/x/_inject"

static void check_way_back(const char *own, const char *with)
{
    char *made = lw_python_path_with(own, own ? strlen(own) : 0, FOLDER), *back;
    bool is_unset;

    CHECK_STR(made, with);
    CHECK(lw_python_path_has(made, strlen(made), FOLDER));
    back = lw_python_path_without(made, FOLDER, &is_unset);
    CHECK_EQ(is_unset, own == NULL);
    if (own)
        CHECK_STR(back, own);
    else
        CHECK(!back);
    free(back);
    free(made);
}

TEST(the_programs_own_value_is_found_again)
{
    check_way_back(NULL, FOLDER);
    check_way_back("", FOLDER "/.");
    check_way_back("/a", FOLDER "/:/a");
    check_way_back(":/a::b:", FOLDER "/::/a::b:");
}

/* VALUE is what a shell makes of a line with $PYTHONPATH in it under us, OWN without. */
static void check_without(const char *value, const char *own)
{
    bool is_unset;
    char *back = lw_python_path_without(value, FOLDER, &is_unset);

    CHECK(!is_unset && back);
    CHECK_STR(back, own);
    free(back);
}

TEST(a_value_that_a_launcher_made_of_it_is_as_without_us)
{
    check_without("src:" FOLDER, "src:");
    check_without(FOLDER ":src", ":src");
    check_without("a:" FOLDER ":b", "a::b");
    check_without("src:" FOLDER "/.", "src:");
    check_without("src:" FOLDER "/:/a:/b", "src:/a:/b");
    check_without(FOLDER "/:/a:src:" FOLDER "/:/a", "/a:src:/a");
    check_without("src", "src");
    check_without("src::", "src::");
}

TEST(only_whole_entries_are_ours)
{
    check_without("/x/_injected:a", "/x/_injected:a");
    check_without(FOLDER "/torch:a", FOLDER "/torch:a");
    check_without("/y" FOLDER ":a", "/y" FOLDER ":a");
    CHECK(!lw_python_path_has("/x/_inj:a", 9, FOLDER));
    CHECK(!lw_python_path_has("", 0, FOLDER));
    CHECK(lw_python_path_has("a:" FOLDER, strlen("a:" FOLDER), FOLDER));
}
