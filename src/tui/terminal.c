/* ANSI escapes that every terminal of the last decades has, so no terminfo is needed.
 *
 * Signal handlers cannot be given a pointer, so the open terminal is also known to this
 * file. They only call what POSIX allows in a handler: tcsetattr(), write(), raise(). */

#include "tui/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define USUAL_HEIGHT 24
#define USUAL_WIDTH 80
#define ESCAPE_NS 50000000ull /* what belongs to one key comes faster than that */

/* The other screen, no cursor, no wrapping at the right edge; and all back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[0m\033[?1049l"

static struct lw_terminal *volatile open_terminal;
static volatile sig_atomic_t is_disturbed;

/* Those that end us, by somebody's wish or our own bug. */
static const int ends[] = { SIGINT, SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE, SIGSEGV,
                            SIGBUS, SIGFPE,  SIGABRT, SIGILL,  SIGXCPU, SIGALRM };
static const int others[] = { SIGTSTP, SIGCONT, SIGWINCH };

#define END_COUNT (sizeof(ends) / sizeof(ends[0]))
#define OTHER_COUNT (sizeof(others) / sizeof(others[0]))

/* A terminal that takes no more is gone, and there is nobody to tell. */
static void say(const struct lw_terminal *terminal, const char *escapes)
{
    (void)lw_file_write_fd(terminal->out, escapes, strlen(escapes));
}

/* Keys one by one and unseen; those that mean signals still do, so that Ctrl-C works
 * whatever we are busy with. */
static bool enter(const struct lw_terminal *terminal)
{
    struct termios raw = terminal->before;

    raw.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(terminal->in, TCSAFLUSH, &raw) != 0)
        return false;
    say(terminal, ENTER);
    is_disturbed = 1;
    return true;
}

static void leave(const struct lw_terminal *terminal)
{
    say(terminal, LEAVE);
    tcsetattr(terminal->in, TCSAFLUSH, &terminal->before);
}

static void on_end(int signal_number)
{
    struct lw_terminal *terminal = open_terminal;

    open_terminal = NULL;
    if (terminal)
        leave(terminal);
    raise(signal_number); /* it acts as ever, once this handler returns */
}

static void on_other(int signal_number)
{
    int saved = errno;

    if (open_terminal && signal_number == SIGTSTP) {
        leave(open_terminal);
        raise(SIGSTOP);
    } else if (open_terminal && signal_number == SIGCONT) {
        enter(open_terminal);
    }
    is_disturbed = 1;
    errno = saved;
}

/* One that was ignored from the start (nohup) stays so. */
static void catch_signal(int signal_number, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags }, old;

    sigfillset(&action.sa_mask);
    if (sigaction(signal_number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

static void uncatch_signal(int signal_number)
{
    struct sigaction action = { .sa_handler = SIG_DFL }, old;

    if (sigaction(signal_number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

bool lw_terminal_is_able(int in, int out)
{
    const char *term = getenv("TERM");

    return isatty(in) && isatty(out) && term && *term && strcmp(term, "dumb") != 0;
}

bool lw_terminal_open(struct lw_terminal *terminal, int in, int out,
                      struct lw_error *err)
{
    lw_assert(!open_terminal);
    *terminal = (struct lw_terminal){ .in = in, .out = out };
    if (tcgetattr(in, &terminal->before) != 0)
        return lw_fail_errno(err, "cannot use the terminal");
    open_terminal = terminal;
    for (size_t i = 0; i < END_COUNT; i++)
        catch_signal(ends[i], on_end, (int)SA_RESETHAND);
    for (size_t i = 0; i < OTHER_COUNT; i++)
        catch_signal(others[i], on_other, SA_RESTART);
    if (!enter(terminal)) {
        lw_fail_errno(err, "cannot use the terminal");
        lw_terminal_close(terminal);
        return false;
    }
    return true;
}

void lw_terminal_close(struct lw_terminal *terminal)
{
    if (open_terminal != terminal)
        return;
    leave(terminal);
    open_terminal = NULL;
    for (size_t i = 0; i < END_COUNT; i++)
        uncatch_signal(ends[i]);
    for (size_t i = 0; i < OTHER_COUNT; i++)
        uncatch_signal(others[i]);
}

void lw_terminal_size(const struct lw_terminal *terminal, size_t *height, size_t *width)
{
    struct winsize size = { 0 };

    if (ioctl(terminal->out, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){ 0 };
    *height = size.ws_row ? size.ws_row : USUAL_HEIGHT;
    *width = size.ws_col ? size.ws_col : USUAL_WIDTH;
}

bool lw_terminal_was_disturbed(struct lw_terminal *terminal)
{
    bool was = is_disturbed;

    (void)terminal; /* there is one at a time */
    is_disturbed = 0;
    return was;
}

/* Wait for bytes and take them; false: none came. */
static bool take_bytes(struct lw_terminal *terminal, uint64_t wait_ns)
{
    struct pollfd poll_in = { terminal->in, POLLIN, 0 };
    struct timespec wait = { (time_t)(wait_ns / 1000000000),
                             (long)(wait_ns % 1000000000) };
    size_t room = sizeof(terminal->pending) - terminal->pending_count;
    ssize_t got;

    if (terminal->is_gone || ppoll(&poll_in, 1, &wait, NULL) <= 0)
        return false;
    got = read(terminal->in, terminal->pending + terminal->pending_count, room);
    if (got > 0)
        terminal->pending_count += (size_t)got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        terminal->is_gone = true;
    return got > 0;
}

uint32_t lw_terminal_key(struct lw_terminal *terminal, uint64_t wait_ns)
{
    bool is_all = false;
    uint32_t key = LW_KEY_NONE;
    size_t used;

    if (!terminal->pending_count && !take_bytes(terminal, wait_ns))
        return LW_KEY_NONE;
    used = lw_key_decode(terminal->pending, terminal->pending_count, is_all, &key);
    while (!used && !is_all) {
        is_all = !take_bytes(terminal, ESCAPE_NS);
        used = lw_key_decode(terminal->pending, terminal->pending_count, is_all, &key);
    }
    terminal->pending_count -= used;
    memmove(terminal->pending, terminal->pending + used, terminal->pending_count);
    return key;
}

bool lw_terminal_draw(struct lw_terminal *terminal, const struct lw_screen *screen,
                      struct lw_error *err)
{
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    lw_screen_add_escapes(screen, &out);
    done = lw_screen_check(screen, err) && lw_buf_check(&out, err);
    if (done)
        say(terminal, out.bytes);
    lw_buf_release(&out);
    return done;
}
