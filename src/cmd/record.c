/* lapwing record: the recorder that `lapwing.record()` starts for its own process. It
 * detaches, so that neither the terminal nor the program's wait() meets it, and talks to
 * the starter as recorder/recorder.h says. */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "cmd/command.h"
#include "recorder/commit.h"
#include "recorder/facts.h"
#include "recorder/recorder.h"

#define COMMIT_NS 300000000ull /* how long git may still take at the end */

/* py-spy has a command of this name. */
#define INSTEAD \
    "record is what lapwing.record() starts in a program; from a shell, record a " \
    "program with 'lapwing run -o FILE.svg train.py', and one that runs already with " \
    "'lapwing attach -o FILE.svg PID'"

struct args {
    uint64_t pid;
    const char *output;
    const char *name;
    uint64_t max_bytes;
};

static const struct args defaults = { .name = "block", .max_bytes = 2ull << 30 };

/* clang-format off */
#define OPT(letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT(0, "for", LW_ARG_COUNT, pid, "PID", "the process that asks"),
    OPT('o', "output", LW_ARG_PATH, output, "RUN", "the folder to make for the run"),
    OPT(0, "name", LW_ARG_TEXT, name, "NAME", "name the run after NAME"),
    OPT(0, "max-size", LW_ARG_SIZE, max_bytes, "SIZE",
        "keep the run below SIZE by thinning out its middle (2G)"),
    LW_OPT_END
};
/* clang-format on */

struct session {
    struct lw_recorder recorder;
    struct lw_commit commit;
    int asker_fd;  /* pidfd of the process that asks; -1: it is gone */
    int answer_fd; /* the pipe to it */
};

static bool open_session(struct session *session, const struct args *args,
                         struct lw_error *err)
{
    struct lw_recorder_options recorder = {
        .path = args->output,
        .program = args->name,
        .max_bytes = args->max_bytes,
        .system = true,
    };
    char **argv = lw_facts_command_line((pid_t)args->pid, err);
    bool done = argv && lw_recorder_open(&session->recorder, &recorder, err);

    if (done && !(lw_facts_describe(&session->recorder.run.info, argv, err) &&
                  lw_run_save(&session->recorder.run, err))) {
        lw_recorder_discard(&session->recorder);
        done = false;
    }
    session->recorder.asked_by = (pid_t)args->pid;
    lw_free(argv);
    return done;
}

/* The first line of the answer; from then on only the answer's pipe is left to us. */
static bool answer(struct session *session, struct lw_error *err)
{
    char path[PATH_MAX];
    struct lw_buf line;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool done;

    lw_buf_init(&line, 0);
    lw_buf_addf(
        &line, "%s\t%s\n", session->recorder.listener.path,
        realpath(session->recorder.run.path, path) ? path : session->recorder.run.path);
    session->answer_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
    done = lw_buf_check(&line, err);
    if (done && (nothing < 0 || session->answer_fd < 0 ||
                 !lw_file_write_fd(session->answer_fd, line.bytes, line.len)))
        done = lw_fail_errno(err, "cannot answer the process that asked");
    lw_buf_release(&line);
    for (int fd = 0; done && fd <= 2; fd++)
        dup2(nothing, fd);
    if (nothing >= 0)
        close(nothing);
    return done;
}

/* Nothing more can come: the asker has ended the recording, or everybody is gone, or
 * the asker lost interest (it closed the pipe) before it began. */
static bool is_over(const struct session *session, bool asker_listens)
{
    const struct lw_recorder *recorder = &session->recorder;

    if (recorder->is_over)
        return true;
    return recorder->process_count == 0 &&
           (session->asker_fd < 0 || (recorder->last_number == 0 && !asker_listens));
}

static void record(struct session *session)
{
    bool asker_listens = true;

    while (!is_over(session, asker_listens)) {
        struct pollfd polls[] = {
            { session->recorder.fd, POLLIN, 0 },
            { session->asker_fd, POLLIN, 0 },
            { session->commit.fd, POLLIN, 0 },
            { asker_listens ? session->answer_fd : -1, 0, 0 }, /* only POLLERR */
        };

        if (poll(polls, sizeof(polls) / sizeof(polls[0]), -1) < 0)
            continue;
        if (polls[0].revents)
            lw_recorder_work(&session->recorder);
        if (polls[1].revents) {
            lw_recorder_work(&session->recorder); /* its hello may be waiting */
            close(session->asker_fd);
            session->asker_fd = -1;
        }
        if (polls[2].revents)
            lw_commit_read(&session->commit);
        if (polls[3].revents)
            asker_listens = false;
    }
}

/* Complete the run, then say so. A run in which nothing happened is not kept. */
static void finish(struct session *session)
{
    struct lw_run_info *info = &session->recorder.run.info;
    bool complete;

    if (session->recorder.last_number == 0) {
        lw_recorder_discard(&session->recorder);
        return;
    }
    lw_commit_wait(&session->commit, lw_clock_ns() + COMMIT_NS);
    complete = !session->commit.is_known ||
               (lw_run_info_set_fact(info, "commit", session->commit.id, NULL) &&
                lw_run_info_set_fact(info, "dirty",
                                     session->commit.is_dirty ? "yes" : "no", NULL));
    complete = lw_recorder_finish(&session->recorder, NULL) && complete;
    lw_recorder_release(&session->recorder);
    if (complete && !lw_file_write_fd(session->answer_fd, "finished\n", 9)) {
        /* The asker is gone; the run is there all the same. */
    }
}

/* True in the process that is left: no child of who started us, in no terminal's
 * session. */
static bool detach(struct lw_error *err)
{
    pid_t pid = fork();

    if (pid < 0)
        lw_fail_errno(err, "cannot start a recorder");
    if (pid != 0)
        return false;
    setsid();
    if (fork() != 0)
        _exit(LW_EXIT_DONE);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    return true;
}

static int run(const void *arguments, int argc, char **argv, struct lw_error *err)
{
    const struct args *args = arguments;
    struct session *session;
    int code = LW_EXIT_FAILED;

    (void)argc;
    (void)argv;
    if (args->pid == 0 || args->pid > INT_MAX)
        return lw_usage(err, "%s", INSTEAD);
    if (!detach(err))
        return err->code == LW_OK ? LW_EXIT_DONE : LW_EXIT_FAILED;
    session = lw_zalloc(1, sizeof(*session), err);
    if (!session)
        return code;
    lw_recorder_init(&session->recorder);
    session->commit.fd = session->answer_fd = -1;
    session->asker_fd = pidfd_open((pid_t)args->pid, 0);
    if (open_session(session, args, err)) {
        if (answer(session, err)) {
            lw_commit_ask(&session->commit);
            record(session);
            finish(session);
            code = LW_EXIT_DONE;
        } else {
            lw_recorder_discard(&session->recorder);
        }
    }
    lw_commit_release(&session->commit);
    if (session->asker_fd >= 0)
        close(session->asker_fd);
    if (session->answer_fd >= 0)
        close(session->answer_fd);
    lw_free(session);
    return code;
}

const struct lw_command lw_cmd_record = {
    .name = "record",
    .summary = "the recorder that lapwing.record() starts in a program",
    .usage = "lapwing record --for PID [OPTIONS]",
    .is_internal = true,
    .instead = INSTEAD,
    .args_size = sizeof(struct args),
    .defaults = &defaults,
    .options = options,
    .run = run,
};
