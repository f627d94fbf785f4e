#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tui/keys.h"
#include "tui/top.h"

#define SECOND 1000000000ull
#define TICK (SECOND / 100)

/* What `top` shows is compared with a file in tests/unit/screens, which
 * LAPWING_UPDATE_SCREENS=1 writes anew. */
static void check_screen(struct lw_top *top, const char *name, size_t height,
                         size_t width)
{
    static const struct lw_top_status status = {
        .command = "python train.py --epochs 3",
        .python = "3.11.7",
        .pid = 4242,
        .processes = 2,
        .threads = 3,
        .cpu_share = 1.873,
        .rss_bytes = 1288490189,
        .rate_asked = 100,
        .rate_real = 99.8,
        .rounds = 990,
        .late = 4,
        .missed = 10,
    };
    const char *root = getenv("SRCDIR");
    struct lw_error err = { LW_OK, "" };
    struct lw_screen screen;
    struct lw_buf out, wanted;
    struct lw_file_view want;
    char path[1000];

    lw_screen_init(&screen);
    lw_buf_init(&out, 0);
    lw_screen_reset(&screen, height, width);
    CHECK(lw_top_draw(top, &status, &screen, true, &err));
    CHECK(screen.row_count <= height);
    lw_screen_add_plain(&screen, &out);
    CHECK(lw_buf_check(&out, &err));
    snprintf(path, sizeof(path), "%s/tests/unit/screens/%s", root ? root : ".", name);
    if (getenv("LAPWING_UPDATE_SCREENS"))
        CHECK(lw_file_replace(path, out.bytes, out.len, &err));
    CHECK(lw_file_read(&want, path, 1 << 20, &err));
    lw_buf_init(&wanted, 0);
    lw_buf_add(&wanted, want.bytes, want.len);
    CHECK_STR(out.bytes, wanted.bytes);
    lw_buf_release(&wanted);
    lw_file_close(&want);
    lw_buf_release(&out);
    lw_screen_release(&screen);
}

static void press(struct lw_top *top, const char *keys)
{
    for (; *keys; keys++)
        CHECK(lw_top_press(top, (unsigned char)*keys, NULL));
}

static struct lw_top_frame frame(const char *name, const char *file, uint32_t first,
                                 uint32_t line)
{
    return (struct lw_top_frame){ name, file, strlen(name), strlen(file), first, line };
}

/* A thread at each of COUNT ticks from now on, of one state. */
static void run_for(struct lw_top *top, uint32_t thread, uint8_t state, bool is_moving,
                    const struct lw_top_frame *frames, size_t frame_count)
{
    struct lw_top_sample sample = { .thread = thread,
                                    .frames = frames,
                                    .frame_count = frame_count,
                                    .is_moving = is_moving,
                                    .state = state,
                                    .weight_ns = TICK };

    CHECK(lw_top_add(top, &sample, NULL));
}

/* Ten seconds of a training: the main thread computes with the GIL for 60 ms of each 100
 * ms, reads for 10 ms, waits for 30 ms; a second thread of it sleeps; a worker decodes
 * on a processor without the GIL. */
static void train(struct lw_top *top)
{
    struct lw_top_frame forward[] = { frame("<module>", "train.py", 1, 90),
                                      frame("main", "train.py", 40, 52),
                                      frame("Model.forward", "model.py", 7, 12) };
    struct lw_top_frame again[] = { forward[0], forward[1], forward[2],
                                    frame("Model.forward", "model.py", 7, 14) };
    struct lw_top_frame next[] = { forward[0], forward[1],
                                   frame("gr\xc3\xb6\xc3\x9f"
                                         "e",
                                         "/usr/lib/python3/data/loader.py", 30, 31) };
    struct lw_top_frame sleeps[] = { frame("run", "threading.py", 900, 910),
                                     frame("wait", "threading.py", 300, 305) };
    struct lw_top_frame decodes[] = { frame("_loop", "worker.py", 5, 9),
                                      frame("decode\x1b[2J", "image.py", 70, 71) };
    uint32_t main_thread, sleeper, worker;

    CHECK(lw_top_thread(top, 4242, 4242, "MainThread", &main_thread, NULL));
    CHECK(lw_top_thread(top, 4242, 4250, "pin-memory", &sleeper, NULL));
    CHECK(lw_top_thread(top, 4300, 4300, "MainThread", &worker, NULL));
    lw_top_tick(top, SECOND);
    for (unsigned i = 0; i < 1000; i++) {
        if (i % 10 < 6)
            run_for(top, main_thread, LW_STATE_CPU | LW_STATE_HAS_GIL, false,
                    i % 2 ? again : forward, i % 2 ? 4 : 3);
        else
            run_for(top, main_thread, i % 10 == 6 ? LW_STATE_CPU : LW_STATE_WAIT,
                    i % 10 == 6, next, 3);
        run_for(top, sleeper, LW_STATE_WAIT, false, sleeps, 2);
        run_for(top, worker, LW_STATE_CPU, false, decodes, 2);
        lw_top_tick(top, SECOND + (i + 1) * TICK);
    }
}

static void start(struct lw_top *top)
{
    CHECK(lw_top_init(top, NULL));
    train(top);
}

TEST(functions_are_shown_by_the_time_they_run_themselves)
{
    struct lw_top top;

    start(&top);
    check_screen(&top, "functions", 24, 80);
    check_screen(&top, "functions-wide", 24, 130);
    lw_top_release(&top);
}

TEST(nothing_is_shown_before_the_first_sample)
{
    struct lw_top top;

    CHECK(lw_top_init(&top, NULL));
    check_screen(&top, "nothing", 24, 80);
    lw_top_release(&top);
}

TEST(keys_choose_what_is_shown)
{
    struct lw_top top;

    start(&top);
    press(&top, "tl");
    check_screen(&top, "lines-by-total", 24, 80);
    press(&top, "wfs");
    check_screen(&top, "gil", 24, 80);
    press(&top, "wa");
    check_screen(&top, "wall-since-the-start", 24, 80);
    press(&top, "p ");
    check_screen(&top, "one-process-paused", 24, 80);
    press(&top, " hh");
    check_screen(&top, "one-thread", 24, 80);
    press(&top, "?");
    check_screen(&top, "help", 24, 80);
    press(&top, "x");
    CHECK(!top.has_quit);
    press(&top, "q");
    CHECK(top.has_quit);
    lw_top_release(&top);
}

TEST(processes_and_threads_are_gone_through_in_a_circle)
{
    struct lw_top top;

    start(&top);
    press(&top, "p");
    CHECK_EQ(top.pid, 4242);
    press(&top, "h");
    CHECK_EQ(top.threads[top.thread - 1].tid, 4242);
    press(&top, "h");
    CHECK_EQ(top.threads[top.thread - 1].tid, 4250);
    press(&top, "h");
    CHECK_EQ(top.thread, 0);
    press(&top, "hp");
    CHECK_EQ(top.pid, 4300);
    CHECK_EQ(top.thread, 0);
    press(&top, "p");
    CHECK_EQ(top.pid, 0);
    lw_top_release(&top);
}

TEST(a_filter_is_typed_taken_and_left)
{
    struct lw_top top;

    start(&top);
    press(&top, "/forwq");
    CHECK(!top.has_quit);
    CHECK(lw_top_press(&top, LW_KEY_BACKSPACE, NULL));
    check_screen(&top, "filter-being-typed", 24, 80);
    CHECK(lw_top_press(&top, LW_KEY_ENTER, NULL));
    check_screen(&top, "filtered", 24, 80);
    press(&top, "/(");
    CHECK(lw_top_press(&top, LW_KEY_ENTER, NULL));
    check_screen(&top, "filter-that-is-none", 24, 80);
    press(&top, "/xyz");
    CHECK(lw_top_press(&top, LW_KEY_ESCAPE, NULL));
    CHECK_STR(top.filter.bytes, "forw");
    press(&top, "/");
    for (int i = 0; i < 6; i++) /* more than there is to take back */
        CHECK(lw_top_press(&top, LW_KEY_BACKSPACE, NULL));
    CHECK(lw_top_press(&top, 0xf6, NULL)); /* an o with two dots */
    CHECK_STR(top.typing.bytes, "\xc3\xb6");
    CHECK(lw_top_press(&top, LW_KEY_BACKSPACE, NULL));
    CHECK(lw_top_press(&top, LW_KEY_ENTER, NULL));
    CHECK_EQ(top.filter.len, 0);
    CHECK(!top.pattern.is_compiled);
    lw_top_release(&top);
}

TEST(low_and_narrow_windows_show_what_fits)
{
    struct lw_top top;
    struct lw_top_status status = { .command = "x", .python = "3.11.7" };
    struct lw_screen screen;

    start(&top);
    check_screen(&top, "low", 7, 80);
    check_screen(&top, "narrow", 12, 50);
    check_screen(&top, "narrower", 12, 30);
    lw_screen_init(&screen);
    for (size_t height = 0; height < 12; height++)
        for (size_t width = 0; width < 40; width++) {
            lw_screen_reset(&screen, height, width);
            CHECK(lw_top_draw(&top, &status, &screen, true, NULL));
            CHECK(screen.row_count <= height);
        }
    lw_screen_release(&screen);
    lw_top_release(&top);
}

TEST(rows_are_moved_through_to_the_last_and_no_further)
{
    struct lw_top top;

    start(&top);
    check_screen(&top, "low", 7, 80);
    CHECK_EQ(top.page, 4);
    CHECK(lw_top_press(&top, LW_KEY_PAGE_DOWN, NULL));
    check_screen(&top, "low-end", 7, 80);
    CHECK(lw_top_press(&top, LW_KEY_END, NULL));
    CHECK(lw_top_press(&top, LW_KEY_DOWN, NULL));
    check_screen(&top, "low-end", 7, 80);
    CHECK(lw_top_press(&top, LW_KEY_UP, NULL));
    CHECK(lw_top_press(&top, LW_KEY_PAGE_UP, NULL));
    CHECK(lw_top_press(&top, LW_KEY_UP, NULL));
    CHECK_EQ(top.first, 0);
    check_screen(&top, "low", 7, 80);
    lw_top_release(&top);
}

TEST(while_paused_nothing_is_counted_and_no_time_passes)
{
    struct lw_top_frame one = frame("f", "f.py", 1, 1);
    struct lw_top top;

    start(&top);
    press(&top, " ");
    run_for(&top, 0, LW_STATE_CPU, false, &one, 1);
    lw_top_tick(&top, 100 * SECOND);
    CHECK_EQ(top.samples, 3000);
    CHECK_NEAR(top.elapsed_ns, 10e9);
    press(&top, " ");
    lw_top_tick(&top, 101 * SECOND);
    CHECK_NEAR(top.elapsed_ns, 11e9);
    lw_top_release(&top);
}

TEST(a_reset_counts_from_now_on)
{
    struct lw_top top;

    start(&top);
    press(&top, "r");
    check_screen(&top, "nothing", 24, 80);
    lw_top_release(&top);
}

/* After it stopped, a function's recent share halves every 1.4 s; what it has had since
 * the start stays. */
TEST(recent_shares_fade)
{
    struct lw_top top;
    struct lw_table table;

    start(&top);
    for (int i = 0; i < 1400; i++)
        lw_top_tick(&top, top.now_ns + SECOND / 1000);
    lw_table_init(&table, lw_top_columns, lw_top_column_count);
    lw_top_fill(&top, 1, &table);
    CHECK(lw_table_check(&table, NULL));
    CHECK(lw_table_value(&table, 0, 3)->as.number > 0.47);
    CHECK(lw_table_value(&table, 0, 3)->as.number < 0.53);
    CHECK_EQ(lw_table_value(&table, 0, 1)->as.integer, 10 * SECOND);
    lw_table_release(&table);
    lw_top_release(&top);
}

TEST(running_out_of_memory_is_told_each_time)
{
    struct lw_error err;
    struct lw_top top;

    for (uint64_t n = 1;; n++) {
        lw_alloc_fail_in(n);
        if (lw_top_init(&top, &err))
            break;
        CHECK_EQ(err.code, LW_ERR_NOMEM);
    }
    lw_alloc_fail_in(0);
    train(&top);
    for (uint64_t n = 1, drawn = 0; !drawn; n++) {
        struct lw_screen screen;
        struct lw_top_status status = { .command = "x", .python = "3.11.7" };

        lw_screen_init(&screen);
        lw_screen_reset(&screen, 24, 80);
        lw_alloc_fail_in(n);
        drawn = lw_top_draw(&top, &status, &screen, true, &err);
        lw_alloc_fail_in(0);
        if (!drawn)
            CHECK_EQ(err.code, LW_ERR_NOMEM);
        lw_screen_release(&screen);
    }
    lw_top_release(&top);
}
