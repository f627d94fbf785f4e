#include <sys/stat.h>

#include "lap_fixture.h"
#include "readers/reader.h"

static bool exists(const char *name)
{
    bool found = false;

    CHECK_DONE(lw_profile_exists(name, LW_RUN_BY_ALL, &found, ERR));
    return found;
}

TEST(a_profile_is_a_run_or_a_file_that_a_reader_knows)
{
    char *folder = fixture_folder();

    CHECK(mkdir(in_folder(folder, "first.lap"), 0700) == 0);
    CHECK(mkdir(in_folder(folder, "other"), 0700) == 0);
    fixture_write(in_folder(folder, "first.lap"), 1, 1, NULL);
    CHECK_DONE(lw_file_replace(in_folder(folder, "a.folded"), "a;b 1\n", 6, ERR));
    CHECK_DONE(lw_file_replace(in_folder(folder, "a.txt"), "hello\n", 6, ERR));

    CHECK(exists(in_folder(folder, "first.lap")));
    CHECK(exists(in_folder(folder, "a.folded")));
    CHECK(exists("/dev/null")); /* can be read only once, so nobody looks */
    CHECK(!exists(in_folder(folder, "other")));
    CHECK(!exists(in_folder(folder, "a.txt")));
    CHECK(!exists(in_folder(folder, "none")));
    fixture_remove(folder);
}

/* Without memory nobody knows whether it is a run; "it is none" would be a guess. */
TEST(running_out_of_memory_is_no_answer)
{
    char *folder = fixture_folder();
    struct lw_error err = { LW_OK, "" };
    bool found = false, done = false;
    size_t failures = 0;

    fixture_write(folder, 1, 1, NULL);
    for (uint64_t n = 1; !done; n++) {
        lw_alloc_fail_in(n);
        done = lw_profile_exists(folder, LW_RUN_BY_ALL, &found, &err);
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        failures += !done;
    }
    CHECK(found);
    CHECK(failures > 2);
    fixture_remove(folder);
}
