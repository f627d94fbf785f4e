#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/os_sleep.h"

#define PROC_PATH_BYTES 128
#define TEXT_BYTES 512

static int open_of_thread(pid_t pid, pid_t tid, const char *name)
{
    char path[PROC_PATH_BYTES];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The file's text, ended by NUL. */
static bool read_small(int fd, char *text)
{
    ssize_t len = pread(fd, text, TEXT_BYTES - 1, 0);

    if (len <= 0)
        return false;
    text[len] = '\0';
    return true;
}

int lw_os_runs_open(pid_t pid, pid_t tid)
{
    return open_of_thread(pid, tid, "schedstat");
}

/* "NS_RUN NS_WAITED RUNS" */
bool lw_os_runs(int fd, uint64_t *runs)
{
    char text[TEXT_BYTES];
    const char *last;

    if (fd < 0 || !read_small(fd, text))
        return false;
    last = strrchr(text, ' ');
    *runs = last ? strtoull(last, NULL, 10) : 0;
    return *runs > 0;
}

/* "running", or "CALL ARGUMENT... STACK PC" in a call of the system, or "-1 STACK PC" */
bool lw_os_sleeps_at(pid_t pid, pid_t tid, uint64_t *stack, uint64_t *pc)
{
    int fd = open_of_thread(pid, tid, "syscall");
    char text[TEXT_BYTES];
    char *at, *before;
    bool done;

    if (fd < 0)
        return false;
    done = read_small(fd, text);
    close(fd);
    if (!done || (text[0] != '-' && (text[0] < '0' || text[0] > '9')))
        return false;
    at = strrchr(text, ' ');
    if (!at)
        return false;
    *at = '\0';
    before = strrchr(text, ' ');
    if (!before)
        return false;
    *stack = strtoull(before + 1, NULL, 16);
    *pc = strtoull(at + 1, NULL, 16);
    return *stack != 0 && *pc != 0;
}
