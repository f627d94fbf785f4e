/* The witness is a loop of two system calls: take a signal, write it down a pipe. */

#include "recorder/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TITLE "signal-witness"

/* Read a file of /proc into TEXT, at most SIZE - 1 bytes. Without memory or stdio, because
 * one of the callers has just been forked. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

/* Word NUMBER of /proc/PID/stat, counted as proc(5) does. */
static uint64_t stat_word(const char *stat, int number)
{
    const char *at = strrchr(stat, ')'); /* the end of word 2, which may hold spaces */

    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* Our command line was copied with us: `pkill -f "lapwing run"` must find it only once. */
static void change_title(void)
{
    char stat[2048];
    uintptr_t start, end;

    prctl(PR_SET_NAME, TITLE);
    if (!read_text("/proc/self/stat", stat, sizeof(stat)))
        return;
    start = (uintptr_t)stat_word(stat, 48); /* arg_start, arg_end */
    end = (uintptr_t)stat_word(stat, 49);
    if (start == 0 || end < start + sizeof(TITLE))
        return;
    memset((char *)start, 0, end - start);
    memcpy((char *)start, TITLE, sizeof(TITLE));
}

/* Keep only OUT and the signals, as 0 and 1: other descriptors may be the write end of a
 * pipe whose reader waits for its end. False: even that is refused. */
static bool keep_only(int *signals, int *out)
{
    int high_out = fcntl(*out, F_DUPFD_CLOEXEC, 10);
    int high_signals = fcntl(*signals, F_DUPFD_CLOEXEC, 10);

    if (high_out < 0 || high_signals < 0 || dup2(high_signals, 0) < 0 ||
        dup2(high_out, 1) < 0)
        return false;
    *signals = 0;
    *out = 1;
    if (syscall(SYS_close_range, 2u, ~0u, 0u) != 0) { /* Linux 5.9 */
        for (long fd = sysconf(_SC_OPEN_MAX); fd >= 2; fd--)
            close((int)fd);
    }
    return true;
}

static _Noreturn void watch(const sigset_t *signals, int out, pid_t parent)
{
    struct signalfd_siginfo info;
    int fd = signalfd(-1, signals, SFD_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || getppid() != parent || !keep_only(&fd, &out))
        _exit(0);
    change_title();
    if (chdir("/") != 0) {
        /* Then a file system stays busy until we end, as it does through our parent. */
    }
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        struct lw_sighting sighting = { (int)info.ssi_signo, (pid_t)info.ssi_pid };

        /* What the kernel sends (code > 0) goes to groups only: nobody asks. */
        if (info.ssi_code <= 0 &&
            write(out, &sighting, sizeof(sighting)) != (ssize_t)sizeof(sighting))
            break;
    }
    _exit(0);
}

void lw_witness_start(struct lw_witness *witness, const sigset_t *signals)
{
    pid_t parent = getpid();
    int ends[2];

    *witness = (struct lw_witness){ 0, -1 };
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    witness->pid = fork();
    if (witness->pid == 0)
        watch(signals, ends[1], parent);
    close(ends[1]);
    if (witness->pid > 0) {
        witness->fd = ends[0];
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    } else {
        witness->pid = 0;
        close(ends[0]);
    }
}

void lw_witness_stop(struct lw_witness *witness)
{
    if (witness->pid > 0) {
        kill(witness->pid, SIGKILL);
        while (waitpid(witness->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (witness->fd >= 0)
        close(witness->fd);
    *witness = (struct lw_witness){ 0, -1 };
}

bool lw_witness_read(struct lw_witness *witness, struct lw_sighting *sighting)
{
    ssize_t len;

    if (witness->fd < 0)
        return false;
    len = read(witness->fd, sighting, sizeof(*sighting));
    if (len == 0) /* it is dead */
        lw_witness_stop(witness);
    return len == (ssize_t)sizeof(*sighting);
}

/* The hexadecimal mask behind KEY in TEXT has the bit of SIGNAL. */
static bool mask_has(const char *text, const char *key, int signal)
{
    const char *at = strstr(text, key);

    return at && (strtoull(at + strlen(key), NULL, 16) >> (signal - 1) & 1);
}

enum lw_witness_word lw_witness_ask(const struct lw_witness *witness, int signal)
{
    char path[32], text[4096];
    const char *state;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)witness->pid);
    if (!read_text(path, text, sizeof(text)))
        return LW_WITNESS_SAW_NOTHING;
    if (mask_has(text, "\nShdPnd:\t", signal) || mask_has(text, "\nSigPnd:\t", signal))
        return LW_WITNESS_HAS_IT;
    state = strstr(text, "\nState:\t");
    return state && state[strlen("\nState:\t")] == 'R' ? LW_WITNESS_IS_BUSY
                                                       : LW_WITNESS_SAW_NOTHING;
}
