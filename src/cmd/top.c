/* lapwing top: what running processes do, now and since we began to look. */

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/command.h"
#include "cmd/top_watch.h"
#include "tui/terminal.h"
#include "tui/top.h"
#include "writers/render.h"

#define KEY_NS 50000000ull /* how long a key may wait, and samples for being counted */
#define DRAW_NS 250000000ull /* between two pictures, if nothing is pressed */
#define RATE_MAX 20000
#define PIPE_WIDTH 1000 /* in a pipe nothing is cut, within reason */
#define LINES_ABOVE 6   /* of a table in a batch: five lines and the titles */

struct args {
    uint64_t rate;
    bool native;
    bool pause;
    uint64_t duration_ns;
    uint64_t interval_ns;
    uint64_t rows;
    bool batch;
    bool no_children;
    unsigned sort;
    bool lines;
    unsigned time;
};

static const struct args defaults = { .rate = 200,
                                      .interval_ns = 1000000000,
                                      .rows = 20 };

/* clang-format off */
#define OPT(name, kind, field, arg, help) \
    { 0, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT("rate", LW_ARG_COUNT, rate, "HZ", "samples a second (200)"),
    OPT("native", LW_ARG_FLAG, native, NULL,
        "C and C++ functions too, and threads without Python; each thread that runs is "
        "stopped for some microseconds a sample"),
    OPT("pause", LW_ARG_FLAG, pause, NULL,
        "stop Python's threads while their stacks are read: none is ever torn"),
    OPT("no-children", LW_ARG_FLAG, no_children, NULL,
        "only these processes, not those that they started"),
    OPT("duration", LW_ARG_DURATION, duration_ns, "TIME", "end after TIME"),
    LW_OPT_HEADING("What to show first"),
    OPT("sort", LW_ARG_CHOICE, sort, "self|total", "sort by self or total time"),
    OPT("lines", LW_ARG_FLAG, lines, NULL, "show lines, not functions"),
    OPT("time", LW_ARG_CHOICE, time, "running|gil|wall",
        "count time on a processor, time holding the GIL, or all time"),
    LW_OPT_HEADING("Without a terminal"),
    OPT("batch", LW_ARG_FLAG, batch, NULL,
        "print one table after the other; so it is in a pipe, too"),
    OPT("interval", LW_ARG_DURATION, interval_ns, "TIME", "between two tables (1s)"),
    OPT("rows", LW_ARG_COUNT, rows, "COUNT", "of each table (20)"),
    LW_OPT_END
};
/* clang-format on */

struct session {
    const struct args *args;
    struct lw_watch watch;
    struct lw_top top;
    struct lw_screen screen;
    uint64_t start_ns;
};

static bool is_over(const struct session *session, uint64_t now_ns)
{
    uint64_t duration_ns = session->args->duration_ns;

    return duration_ns && now_ns - session->start_ns >= duration_ns;
}

static bool count_samples(struct session *session, struct lw_error *err)
{
    uint64_t now_ns = lw_clock_ns();

    if (!lw_watch_take(&session->watch, &session->top, now_ns, err))
        return false;
    lw_top_tick(&session->top, now_ns);
    return true;
}

/* At a terminal */

static bool draw(struct session *session, struct lw_terminal *terminal,
                 struct lw_error *err)
{
    size_t height, width;

    lw_terminal_size(terminal, &height, &width);
    lw_screen_reset(&session->screen, height, width);
    return lw_top_draw(&session->top, &session->watch.status, &session->screen, true,
                       err) &&
           lw_terminal_draw(terminal, &session->screen, err);
}

static bool show(struct session *session, struct lw_terminal *terminal,
                 struct lw_error *err)
{
    uint64_t drawn_ns = 0;

    while (!session->top.has_quit && !terminal->is_gone &&
           !is_over(session, lw_clock_ns())) {
        uint32_t key = lw_terminal_key(terminal, KEY_NS);
        bool is_new = lw_terminal_was_disturbed(terminal) || key != LW_KEY_NONE ||
                      lw_clock_ns() - drawn_ns >= DRAW_NS;

        if (!count_samples(session, err) || !lw_top_press(&session->top, key, err) ||
            (is_new && !draw(session, terminal, err)))
            return false;
        if (is_new)
            drawn_ns = lw_clock_ns();
    }
    return true;
}

static bool show_at_terminal(struct session *session, struct lw_error *err)
{
    struct lw_terminal terminal;
    bool done;

    if (!lw_terminal_open(&terminal, STDIN_FILENO, STDOUT_FILENO, err))
        return false;
    done = show(session, &terminal, err);
    lw_terminal_close(&terminal);
    return done;
}

/* In a pipe */

static bool print_table(struct session *session, struct lw_error *err)
{
    struct lw_render_options look = lw_render_options_for_fd(STDOUT_FILENO);
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    lw_screen_reset(&session->screen, LINES_ABOVE + session->args->rows,
                    look.width ? look.width : PIPE_WIDTH);
    done = lw_top_draw(&session->top, &session->watch.status, &session->screen, false,
                       err);
    if (done) {
        lw_screen_add_plain(&session->screen, &out);
        lw_buf_add_char(&out, '\n');
        done = lw_buf_check(&out, err);
    }
    if (done) {
        fwrite(out.bytes, 1, out.len, stdout);
        fflush(stdout);
    }
    lw_buf_release(&out);
    return done;
}

static bool print_tables(struct session *session, struct lw_error *err)
{
    const struct timespec pause = { 0, KEY_NS };
    uint64_t printed_ns = session->start_ns, now_ns = printed_ns;
    bool has_ended = false;

    while (!has_ended && !is_over(session, now_ns) && !ferror(stdout)) {
        nanosleep(&pause, NULL);
        if (!count_samples(session, err))
            return false;
        now_ns = lw_clock_ns();
        has_ended = session->watch.status.has_ended;
        if (!has_ended && !is_over(session, now_ns) &&
            now_ns - printed_ns < session->args->interval_ns)
            continue;
        if (!print_table(session, err))
            return false;
        printed_ns += session->args->interval_ns;
    }
    return true;
}

static bool check_args(const struct args *args, struct lw_error *err)
{
    if (args->rate < 1 || args->rate > RATE_MAX)
        return lw_fail(err, LW_ERR_USAGE, "top: --rate is from 1 to %d", RATE_MAX);
    if (args->interval_ns < KEY_NS)
        return lw_fail(err, LW_ERR_USAGE, "top: --interval is at least 50ms");
    if (args->rows < 1 || args->rows > 100000)
        return lw_fail(err, LW_ERR_USAGE, "top: --rows is from 1 to 100000");
    return true;
}

static int run(const void *given, int argc, char **argv, struct lw_error *err)
{
    const struct args *args = given;
    struct lw_watch_options how = { .rate = (double)args->rate,
                                    .native = args->native,
                                    .pause = args->pause,
                                    .no_children = args->no_children };
    struct session session = { .args = args };
    bool is_batch = args->batch || !lw_terminal_is_able(STDIN_FILENO, STDOUT_FILENO);
    bool done;

    lw_screen_init(&session.screen);
    done = check_args(args, err) && lw_top_init(&session.top, err);
    session.top.by_total = args->sort == 1;
    session.top.by_line = args->lines;
    session.top.time = args->time;
    done = done && lw_watch_start(&session.watch, &how, argv, argc, err);
    session.start_ns = lw_clock_ns();
    if (done) {
        lw_top_tick(&session.top, session.start_ns);
        done = is_batch ? print_tables(&session, err) : show_at_terminal(&session, err);
    }
    lw_watch_release(&session.watch);
    lw_top_release(&session.top);
    lw_screen_release(&session.screen);
    if (!done)
        return err->code == LW_ERR_USAGE ? LW_EXIT_USAGE : LW_EXIT_FAILED;
    return LW_EXIT_DONE;
}

static void explain(struct lw_help *help)
{
    lw_help_heading(help, "Keys");
    for (const struct lw_top_key *key = lw_top_keys; key->keys; key++)
        lw_help_row(help, key->keys, key->help);
}

/* py-spy's. */
static const struct lw_habit habits[] = {
    { "--pid", "name the process itself: lapwing top PID" },
    { "-p", "name the process itself: lapwing top PID" },
    { NULL, NULL },
};

const struct lw_command lw_cmd_top = {
    .name = "top",
    .habits = habits,
    .summary = "show what running processes do, live",
    .usage = "lapwing top [OPTIONS] PID...",
    .description =
        "Shows which functions or lines the processes run, and all that they start, a few "
        "times a second: how much of the recent time, and how long since the start. "
        "Shares are of the time that passed, so several threads together may have more "
        "than 100 %. The processes are not stopped and do not notice.",
    .explain = explain,
    .args_size = sizeof(struct args),
    .defaults = &defaults,
    .options = options,
    .operands_min = 1,
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
