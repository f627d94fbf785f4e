#include "sampler/rest.h"

#include <unistd.h>

#include "base/file.h"
#include "sampler/os.h"
#include "sampler/os_sleep.h"

void lw_rest_init(struct lw_rest *rest)
{
    *rest = (struct lw_rest){ .state_fd = -1, .runs_fd = -1 };
}

static void close_both(struct lw_rest *rest)
{
    if (rest->state_fd >= 0)
        close(rest->state_fd);
    if (rest->runs_fd >= 0)
        close(rest->runs_fd);
    rest->state_fd = rest->runs_fd = -1;
}

void lw_rest_open(struct lw_rest *rest, pid_t pid, pid_t tid)
{
    rest->pid = pid;
    rest->tid = tid;
    rest->state_fd = lw_os_thread_open(pid, tid);
    rest->runs_fd = lw_os_runs_open(pid, tid);
    rest->is_reopened =
        lw_file_is_scarce(rest->state_fd) || lw_file_is_scarce(rest->runs_fd);
    if (rest->is_reopened)
        close_both(rest);
}

void lw_rest_close(struct lw_rest *rest)
{
    close_both(rest);
    lw_rest_init(rest);
}

static char kernel_state(const struct lw_rest *rest)
{
    int fd =
        rest->is_reopened ? lw_os_thread_open(rest->pid, rest->tid) : rest->state_fd;
    char state = fd >= 0 ? lw_os_thread_state(fd) : '\0';

    if (rest->is_reopened && fd >= 0)
        close(fd);
    return state;
}

bool lw_rest_runs(const struct lw_rest *rest, uint64_t *runs)
{
    int fd = rest->is_reopened ? lw_os_runs_open(rest->pid, rest->tid) : rest->runs_fd;
    bool is_known = lw_os_runs(fd, runs);

    if (rest->is_reopened && fd >= 0)
        close(fd);
    return is_known;
}

static bool sleeps(char state)
{
    return state != '\0' && state != 'R';
}

/* It slept at the end of the last look, so if it has not run since, what is read from now
 * on is of a sleeping thread; and if the last look began like that, so was what it
 * read. */
bool lw_rest_begin(struct lw_rest *rest)
{
    uint64_t runs;
    bool has_slept_on =
        rest->is_asleep && lw_rest_runs(rest, &runs) && runs == rest->runs;
    bool is_known = has_slept_on && rest->is_read_asleep;

    rest->is_read_asleep = has_slept_on;
    return is_known;
}

/* It sleeps if it did after its runs were counted: from then on it can only run if they
 * become more. */
char lw_rest_state(struct lw_rest *rest)
{
    char state = kernel_state(rest);
    uint64_t runs = 0;

    rest->is_asleep =
        sleeps(state) && lw_rest_runs(rest, &runs) && sleeps(kernel_state(rest));
    if (!rest->is_asleep || runs != rest->runs)
        rest->is_read_asleep = false;
    rest->runs = runs;
    return state;
}
