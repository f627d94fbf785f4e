#include "test.h"

#include <errno.h>

#include "base/error.h"

TEST(a_failure_holds_code_and_sentence_and_is_false)
{
    struct lw_error err = { LW_OK, "" };

    CHECK(!lw_fail(&err, LW_ERR_FORMAT, "line %d: no weight", 7));
    CHECK_EQ(err.code, LW_ERR_FORMAT);
    CHECK_STR(err.text, "line 7: no weight");
}

TEST(nobody_needs_to_listen_to_a_failure)
{
    CHECK(!lw_fail(NULL, LW_ERR_IO, "unheard"));
    CHECK(!lw_fail_errno(NULL, "unheard"));
    lw_error_prefix(NULL, "unheard");
}

TEST(what_errno_means_stands_behind_the_sentence)
{
    struct lw_error err;

    errno = ENOENT;
    CHECK(!lw_fail_errno(&err, "cannot open %s", "x.lap"));
    CHECK_EQ(err.code, LW_ERR_IO);
    CHECK_STR(err.text, "cannot open x.lap: No such file or directory");
    errno = ENOMEM;
    CHECK(!lw_fail_errno(&err, "cannot map"));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
}

TEST(a_prefix_names_the_file_and_keeps_the_code)
{
    struct lw_error err;

    lw_fail(&err, LW_ERR_LIMIT, "too long");
    lw_error_prefix(&err, "%s", "x.prof");
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    CHECK_STR(err.text, "x.prof: too long");
}

TEST(the_old_sentence_may_be_part_of_the_new)
{
    struct lw_error err;

    lw_fail(&err, LW_ERR_IO, "inner");
    lw_fail(&err, LW_ERR_IO, "outer (%s)", err.text);
    CHECK_STR(err.text, "outer (inner)");
}

TEST(a_sentence_too_long_is_cut)
{
    struct lw_error err;
    char path[3000];

    memset(path, 'p', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    lw_fail(&err, LW_ERR_IO, "%s", path);
    CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
    lw_error_prefix(&err, "%s", path);
    CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
    errno = EIO;
    lw_fail_errno(&err, "%s", path);
    CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
}
