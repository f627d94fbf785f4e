#include "cmd/progress.h"
#include "test.h"

static void check_line(const struct lw_progress_state *state, const char *line)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    lw_progress_add_line(&out, state);
    CHECK(!out.failure);
    CHECK_STR(out.bytes, line);
    lw_buf_release(&out);
}

TEST(a_line_says_how_much_how_fast_and_how_long)
{
    check_line(
        &(struct lw_progress_state){ "reading x", 200 << 20, 800 << 20, 2000000000 },
        "reading x: 200 MB of 800 MB, 100 MB/s, 6 s left");
}

TEST(without_a_total_nothing_is_left)
{
    check_line(&(struct lw_progress_state){ "writing y", 30 << 20, 0, 1500000000 },
               "writing y: 30.0 MB, 20.0 MB/s");
}

TEST(what_is_read_but_not_understood_yet_says_for_how_long)
{
    check_line(
        &(struct lw_progress_state){ "reading z", 50 << 20, 50 << 20, 3000000000 },
        "reading z: 50.0 MB, for 3 s");
}
