#include "cmd/pager.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

#define USUAL_PAGER "less"
#define OTHER_LINES 10 /* title, header, notes and the prompt, as a rule */
#define FEWEST_ROWS 5
#define NO_PROGRAM 126 /* what sh ends with where it cannot run a command */
#define NO_SUCH_PROGRAM 127

const char *lw_pager_choose(bool is_asked)
{
    const char *own = getenv("LAPWING_PAGER"), *usual = getenv("PAGER");

    if (!isatty(STDOUT_FILENO))
        return NULL;
    if (own && *own)
        return own;
    if (!is_asked)
        return NULL;
    return usual && *usual ? usual : USUAL_PAGER;
}

/* In the child: it reads FD. */
static void become_pager(const char *pager, int fd)
{
    dup2(fd, STDIN_FILENO);
    setenv("LESS", "FRX", 0); /* as git has it: end at once if it fits, keep colours */
    execl("/bin/sh", "sh", "-c", pager, (char *)NULL);
    _exit(NO_SUCH_PROGRAM);
}

/* What cannot be paged is shown all the same. */
static void show_without(const char *pager, const struct lw_buf *out, const char *why)
{
    fwrite(out->bytes, 1, out->len, stdout); /* main() sees whether it got out */
    fflush(stdout);
    fprintf(stderr,
            "lapwing: cannot start the pager %s (%s): set LAPWING_PAGER to another\n",
            pager, why);
}

void lw_pager_show(const char *pager, const struct lw_buf *out)
{
    struct sigaction ignored = { .sa_handler = SIG_IGN }, pipe_before, int_before;
    int ends[2], status = 0;
    bool written;
    pid_t pid;

    if (out->len == 0)
        return;
    fflush(stdout);
    if (pipe(ends) < 0) {
        show_without(pager, out, strerror(errno));
        return;
    }
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        become_pager(pager, ends[0]);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        show_without(pager, out, strerror(errno));
        return;
    }
    /* It may be left before it has read all, and Ctrl-C in it is its own. */
    sigaction(SIGPIPE, &ignored, &pipe_before);
    sigaction(SIGINT, &ignored, &int_before);
    written = lw_file_write_fd(ends[1], out->bytes, out->len);
    (void)written;
    close(ends[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &int_before, NULL);
    sigaction(SIGPIPE, &pipe_before, NULL);
    if (WIFEXITED(status) &&
        (WEXITSTATUS(status) == NO_SUCH_PROGRAM || WEXITSTATUS(status) == NO_PROGRAM))
        show_without(pager, out,
                     WEXITSTATUS(status) == NO_PROGRAM ? "it cannot be run"
                                                       : "it is not there");
}

void lw_pager_fit(struct lw_view_args *args, const struct lw_analysis *view,
                  const char *pager)
{
    size_t lines = lw_render_lines_of_fd(STDOUT_FILENO);

    if (pager && view->takes_restrictions && args->limit == LW_NO_LIMIT)
        args->limit = 0;
    if (!pager && lines)
        args->screen_rows =
            lines > OTHER_LINES + FEWEST_ROWS ? lines - OTHER_LINES : FEWEST_ROWS;
}

struct lw_render_options lw_pager_look(const struct lw_analysis *view, bool has_limit,
                                       bool in_shell, const char *pager)
{
    struct lw_render_options look = lw_render_options_for_fd(STDOUT_FILENO);

    if (pager || has_limit)
        return look;
    look.lines = lw_render_lines_of_fd(STDOUT_FILENO);
    if (view->takes_restrictions)
        look.more = in_shell ? "--limit 0 shows all"
                             : "--limit 0 shows all, --pager pages through them";
    else
        look.more = in_shell ? "with LAPWING_PAGER=less set before, all can be paged"
                             : "--pager pages through all";
    return look;
}
