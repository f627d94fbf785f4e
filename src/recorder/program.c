/* Starts the program and stands between it and the signals meant for it. */

#include "recorder/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

/* env(1)'s, and the shell's. */
#define CODE_CANNOT_RUN 126
#define CODE_NOT_FOUND 127

/* Everything that can be sent to a program on purpose. Faults stay ours. */
static void fill_signals(sigset_t *set)
{
    static const int signals[] = {
        SIGHUP,    SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,  SIGUSR2, SIGALRM,
        SIGVTALRM, SIGPROF, SIGTSTP, SIGTTIN, SIGTTOU,  SIGCONT, SIGCHLD,
        SIGURG,    SIGXCPU, SIGIO,   SIGPWR,  SIGWINCH,
    };

    sigemptyset(set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(set, signals[i]);
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
        sigaddset(set, signal);
}

static const int no_kill[] = { SIGPIPE, SIGXFSZ };

/* Ignore SIGNAL if nobody did before, and note it in `no_kill`. */
static void disarm(struct lw_program *program, int signal)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct sigaction old;

    if (sigaction(signal, NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
        sigaction(signal, &ignore, NULL);
        sigaddset(&program->no_kill, signal);
    }
}

static bool wait_on(const struct lw_program *program, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return epoll_ctl(program->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool lw_program_init(struct lw_program *program, struct lw_error *err)
{
    sigset_t set;

    memset(program, 0, sizeof(*program));
    program->witness.fd = program->timer_fd = -1;
    if (getrlimit(RLIMIT_NOFILE, &program->files) != 0)
        program->files.rlim_max = 0;
    sigemptyset(&program->no_kill);
    for (size_t i = 0; i < sizeof(no_kill) / sizeof(no_kill[0]); i++)
        disarm(program, no_kill[i]);
    fill_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &program->old_mask);
    program->fd = epoll_create1(EPOLL_CLOEXEC);
    program->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (program->fd < 0 || program->signal_fd < 0 ||
        !wait_on(program, program->signal_fd)) {
        lw_fail_errno(err, "cannot listen to signals");
        lw_program_release(program);
        return false;
    }
    program->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (program->timer_fd >= 0 && wait_on(program, program->timer_fd))
        lw_witness_start(&program->witness, &set);
    if (program->witness.fd >= 0 && !wait_on(program, program->witness.fd))
        lw_witness_stop(&program->witness);
    return true;
}

static void restore_signals(const struct lw_program *program)
{
    const struct sigaction usual = { .sa_handler = SIG_DFL };

    for (size_t i = 0; i < sizeof(no_kill) / sizeof(no_kill[0]); i++) {
        if (sigismember(&program->no_kill, no_kill[i]))
            sigaction(no_kill[i], &usual, NULL);
    }
    sigprocmask(SIG_SETMASK, &program->old_mask, NULL);
}

void lw_program_release(struct lw_program *program)
{
    int *fds[] = { &program->signal_fd, &program->timer_fd, &program->fd };

    lw_witness_stop(&program->witness);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    restore_signals(program);
}

/* ---- starting ---------------------------------------------------------------------- */

static bool can_run(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *lw_program_find(const char *name, struct lw_error *err)
{
    const char *path = getenv("PATH");
    const char *end;

    if (strchr(name, '/'))
        return lw_copy_text(name, strlen(name), err);
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (; path; path = *end ? end + 1 : NULL) {
        char *folder, *file;

        end = strchrnul(path, ':');
        folder = end > path ? lw_copy_text(path, (size_t)(end - path), err)
                            : lw_copy_text(".", 1, err);
        file = folder ? lw_path_join(folder, name, err) : NULL;
        lw_free(folder);
        if (!file || can_run(file))
            return file;
        lw_free(file);
    }
    lw_fail(err, LW_ERR_USAGE, "%s: no such command", name);
    return NULL;
}

/* In the new process: signals and limits as they were before us, then the program. Comes
 * back only if that failed, with errno. */
static void become(const struct lw_program *program, const char *file,
                   char *const *argv, char *const *environment)
{
    restore_signals(program);
    if (program->files.rlim_max > 0 && setrlimit(RLIMIT_NOFILE, &program->files) != 0) {
        /* It is never refused: the soft limit goes down, the hard one stays. */
    }
    execve(file, argv, environment);
}

/* Note what came before the program was there to get its own: a group that is ended, or
 * Ctrl-C, while we are starting. What only stops or resizes a terminal's job is not of
 * the program. */
static void read_early(struct lw_program *program)
{
    static const int others[] = {
        SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH
    };
    struct signalfd_siginfo info;

    sigemptyset(&program->early);
    while (read(program->signal_fd, &info, sizeof(info)) == sizeof(info))
        sigaddset(&program->early, (int)info.ssi_signo);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        sigdelset(&program->early, others[i]);
}

static void pass_early(struct lw_program *program)
{
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (sigismember(&program->early, signal) == 1)
            kill(program->pid, signal);
    sigemptyset(&program->early);
}

/* Start FILE; 0 or the errno of exec, which comes back through a pipe that a successful
 * exec closes. Not posix_spawn(): glibc's leaves the program two signals ignored. */
static int spawn(struct lw_program *program, const char *file, char *const *argv,
                 char *const *environment)
{
    int ends[2], problem = 0;

    if (program->is_replacing) {
        become(program, file, argv, environment);
        return errno;
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    read_early(program);
    program->pid = fork();
    if (program->pid == 0) {
        become(program, file, argv, environment);
        problem = errno;
        if (write(ends[1], &problem, sizeof(problem)) < 0)
            _exit(CODE_CANNOT_RUN);
        _exit(CODE_NOT_FOUND);
    }
    if (program->pid < 0) {
        problem = errno;
        program->cannot_fork = true;
    }
    close(ends[1]);
    if (program->pid > 0 && read(ends[0], &problem, sizeof(problem)) > 0) {
        while (waitpid(program->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    close(ends[0]);
    if (problem == 0)
        pass_early(program);
    return problem;
}

/* FILE has no format the kernel knows: sh FILE ARGUMENTS. */
static int spawn_by_shell(struct lw_program *program, const char *file,
                          char *const *argv, char *const *environment)
{
    char shell[] = "/bin/sh";
    char **words;
    size_t count = 0;
    int problem;

    while (argv[count])
        count++;
    words = lw_zalloc(count + 2, sizeof(*words), NULL);
    if (!words)
        return ENOMEM;
    words[0] = shell;
    words[1] = (char *)(uintptr_t)file;
    for (size_t i = 1; i < count; i++)
        words[i + 1] = argv[i];
    problem = spawn(program, shell, words, environment);
    lw_free(words);
    return problem;
}

bool lw_program_start(struct lw_program *program, char *const *argv,
                      char *const *environment, struct lw_error *err)
{
    char *file = lw_program_find(argv[0], err);
    int problem;

    program->failure_code = CODE_NOT_FOUND;
    if (!file)
        return false;
    problem = spawn(program, file, argv, environment);
    if (problem == ENOEXEC)
        problem = spawn_by_shell(program, file, argv, environment);
    lw_free(file);
    if (problem == 0)
        return true;
    program->pid = 0;
    if (problem != ENOENT)
        program->failure_code = CODE_CANNOT_RUN;
    errno = problem;
    return lw_fail_errno(err, "%s: cannot be run", argv[0]);
}

void lw_program_replace_us(struct lw_program *program, char *const *argv,
                           char *const *environment, struct lw_error *err)
{
    lw_program_release(program);
    program->is_replacing = true;
    if (!lw_program_start(program, argv, environment, err))
        program->is_replacing = false;
}

/* ---- signals ----------------------------------------------------------------------- */

static bool is_stop_request(int signal)
{
    return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* Stop as the program did, until somebody continues us: a SIGCONT is dealt with like any
 * other signal. In a process group without a shell the kernel ignores the stop, and the
 * program stays stopped until it is continued itself: so it would be without us. */
static void stop_alike(struct lw_program *program)
{
    sigset_t set;
    int signal = program->stop_signal;

    program->stop_signal = 0;
    sigemptyset(&set);
    sigaddset(&set, signal);
    raise(signal);                        /* blocked, so it waits ... */
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* ... until here, where we stop */
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The sampler stops threads of the program for a moment (sampler/pause.h), and we, being
 * its parent, hear of that as well: of an event of tracing, or of a signal that is only
 * about to be delivered. */
static bool is_of_sampler(int status)
{
    return WIFSTOPPED(status) &&
           (status >> 16 != 0 ||
            (WSTOPSIG(status) != SIGSTOP && !is_stop_request(WSTOPSIG(status))));
}

static void wait_for(struct lw_program *program)
{
    int status;
    pid_t pid;

    while (program->pid > 0 && (pid = waitpid(program->pid, &status,
                                              WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (is_of_sampler(status))
            continue;
        program->is_stopped = WIFSTOPPED(status);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            program->wait_status = status;
            program->has_ended = true;
            program->pid = 0;
        }
    }
}

/* ---- for whom a signal is ---------------------------------------------------------- */

/* Where a signal goes that was meant for us alone. What the program sends to its parent is
 * for the process that would be its parent without us. */
static pid_t addressee(const struct lw_program *program, pid_t sender)
{
    return sender == program->pid ? getppid() : program->pid;
}

/* Was HELD sent to the witness too, at about the same time? */
static bool is_seen(const struct lw_program *program, const struct lw_held_signal *held)
{
    size_t count = program->seen_count < LW_PROGRAM_HELD_MOST ? program->seen_count
                                                              : LW_PROGRAM_HELD_MOST;

    for (size_t i = 0; i < count; i++) {
        const struct lw_held_signal *seen = &program->seen[i];
        uint64_t gap_ns = seen->at_ns > held->at_ns ? seen->at_ns - held->at_ns
                                                    : held->at_ns - seen->at_ns;

        if (seen->what.signal == held->what.signal &&
            seen->what.sender == held->what.sender && gap_ns <= LW_PROGRAM_HOLD_NS)
            return true;
    }
    return false;
}

static void hear_witness(struct lw_program *program)
{
    struct lw_sighting what;

    while (lw_witness_read(&program->witness, &what)) {
        struct lw_held_signal *seen =
            &program->seen[program->seen_count++ % LW_PROGRAM_HELD_MOST];

        *seen = (struct lw_held_signal){ what, lw_clock_ns() };
        /* However late the witness came to its report, each signal that is still held was
         * sent when this one was, for all that anybody can tell. */
        for (size_t i = 0; i < program->held_count; i++) {
            if (program->held[i].what.signal == what.signal &&
                program->held[i].what.sender == what.sender)
                seen->at_ns = program->held[i].at_ns;
        }
    }
}

static void set_timer(const struct lw_program *program, uint64_t in_ns)
{
    struct itimerspec when = { .it_value = { 0, (long)in_ns } };

    timerfd_settime(program->timer_fd, 0, &when, NULL);
}

/* Drop what the witness got as well, pass on what has been held long enough, and keep the
 * rest. */
static void settle(struct lw_program *program)
{
    uint64_t now_ns = lw_clock_ns();
    size_t kept = 0;

    if (program->pid <= 0) /* it has ended */
        program->held_count = 0;
    for (size_t i = 0; i < program->held_count; i++) {
        struct lw_held_signal held = program->held[i];
        bool is_due = now_ns - held.at_ns >= LW_PROGRAM_HOLD_NS;
        enum lw_witness_word word = LW_WITNESS_IS_BUSY;

        if (is_seen(program, &held))
            continue;
        if (is_due) {
            word = lw_witness_ask(&program->witness, held.what.signal);
            hear_witness(program); /* what it reported before it was asked */
            if (word == LW_WITNESS_HAS_IT || is_seen(program, &held))
                continue;
        }
        if (word == LW_WITNESS_IS_BUSY)
            program->held[kept++] = held;
        else
            kill(addressee(program, held.what.sender), held.what.signal);
    }
    program->held_count = kept;
    if (kept > 0)
        set_timer(program, LW_PROGRAM_HOLD_NS / 4);
}

/* Only kill() reaches a group: what has another code was sent to us alone, and is passed
 * on with the value it may carry. */
static void take_signal(struct lw_program *program, const struct signalfd_siginfo *info)
{
    struct lw_sighting what = { (int)info->ssi_signo, (pid_t)info->ssi_pid };
    pid_t to = addressee(program, what.sender);

    if (info->ssi_code > 0 || what.signal == SIGCHLD || program->pid <= 0)
        return;
    if (info->ssi_code == SI_QUEUE)
        sigqueue(to, what.signal,
                 (union sigval){ .sival_ptr = (void *)(uintptr_t)info->ssi_ptr });
    else if (info->ssi_code == SI_USER && program->witness.pid > 0 &&
             program->held_count < LW_PROGRAM_HELD_MOST)
        program->held[program->held_count++] =
            (struct lw_held_signal){ what, lw_clock_ns() };
    else
        kill(to, what.signal);
}

void lw_program_signals(struct lw_program *program)
{
    struct signalfd_siginfo info;
    uint64_t ticks;

    while (read(program->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        int signal = (int)info.ssi_signo;

        if (is_stop_request(signal))
            program->stop_signal = signal;
        if (signal == SIGCONT)
            program->stop_signal = 0;
        take_signal(program, &info);
    }
    if (program->timer_fd >= 0 &&
        read(program->timer_fd, &ticks, sizeof(ticks)) != sizeof(ticks)) {
        /* It has not run out yet. */
    }
    hear_witness(program);
    settle(program);
    wait_for(program);
    if (program->is_stopped && program->stop_signal != 0)
        stop_alike(program);
}

/* ---- the end ----------------------------------------------------------------------- */

int lw_program_exit_code(const struct lw_program *program)
{
    if (WIFSIGNALED(program->wait_status))
        return 128 + WTERMSIG(program->wait_status);
    return WEXITSTATUS(program->wait_status);
}

void lw_program_die_alike(const struct lw_program *program)
{
    const struct rlimit none = { 0, 0 };
    sigset_t set;
    int signal;

    if (!program->has_ended || !WIFSIGNALED(program->wait_status))
        return;
    signal = WTERMSIG(program->wait_status);
    setrlimit(RLIMIT_CORE, &none);
    sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
    raise(signal);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}
