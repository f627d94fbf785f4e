/* lapwing attach: sample processes that run already, and what they start, until they end
 * or we are told to stop. They are not stopped and do not notice. */

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/attach.h"
#include "cmd/command.h"
#include "cmd/family.h"
#include "cmd/torch_windows.h"
#include "recorder/facts.h"
#include "recorder/processes.h"
#include "recorder/recorder.h"

#define MS 1000000ull

struct args {
    struct lw_recording_args recording;
    uint64_t duration_ns; /* 0: until they end */
    bool no_children;
    bool all_users;
    unsigned torch; /* 0: samples; else which of its words were given */
    uint64_t iterations;
};

static const struct args defaults = {
    .recording = { .rate = LW_RATE_DEFAULT, .max_bytes = LW_RECORDING_MAX_BYTES },
};

/* clang-format off */
#define OPT(letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    LW_OPT_HEADING("What to record"),
    LW_OPTS_OF_SAMPLING(args, "sample every thread's stack this often a second (200)"),
    OPT(0, "duration", LW_ARG_DURATION, duration_ns, "DURATION",
        "end after this long (30s, 5m); else when they end, or at Ctrl-C; of --torch, how "
        "long the window is (1s)"),
    OPT(0, "no-children", LW_ARG_FLAG, no_children, NULL,
        "only the processes named, not what they start"),
    OPT(0, "all-users", LW_ARG_FLAG, all_users, NULL, LW_OPT_ALL_USERS_HELP),
    LW_OPT_NO_SYSTEM(args),
    LW_OPT_HEADING("Torch"),
    OPT(0, "torch", LW_ARG_WORDS, torch, "shapes,memory,stack,flops,modules",
        "instead of samples, a window of torch's own profiler: every op, and what ran on "
        "GPUs; the words are what to record besides (modules takes stacks with it); of a "
        "job that was started by 'lapwing run' or with KINETO_USE_DAEMON=1"),
    OPT(0, "iterations", LW_ARG_COUNT, iterations, "N",
        "with --torch: this many steps, instead of a time"),
    LW_OPTS_WHERE_TO(args),
    LW_OPT_END
};
/* clang-format on */

struct session {
    struct args args;
    pid_t first; /* of those named: what the run is named after */
    struct lw_afterwards after;
    struct lw_recorder recorder;
    int signal_fd;
};

/* ---- whom --------------------------------------------------------------------------- */

/* Is there Python in any of FAMILY? If not, ERR says what the first of them is. */
static bool has_python(const struct lw_family *family, struct lw_error *err)
{
    struct lw_error first = { LW_OK, "" };

    for (size_t i = 0; i < family->count; i++) {
        struct lw_target *target =
            lw_target_open(family->members[i].pid, -1, i == 0 ? &first : NULL);

        if (target) {
            lw_target_free(target);
            return true;
        }
    }
    return lw_fail(err, first.code, "%s", first.text);
}

void lw_attach_say_others(const struct lw_afterwards *after,
                          const struct lw_family *family)
{
    if (family->others_count > 0)
        lw_afterwards_sayf(
            after, "%zu of the processes below %s and left out; %s--all-users takes %s",
            family->others_count,
            family->others_count == 1 ? "is another user's" : "are other users'",
            geteuid() == 0 ? "" : "sudo with ",
            family->others_count == 1 ? "it" : "them");
}

/* Follow the process that WORD names. */
static bool follow(struct session *session, char *word, struct lw_error *err)
{
    struct lw_family family = { .all_users = session->args.all_users };
    bool done = lw_family_add(&family, "attach", &word, 1, err) &&
                (session->args.no_children || lw_family_grow(&family, err)) &&
                has_python(&family, err) &&
                lw_follow_add(&session->recorder.follow, family.members[0].pid, err);

    if (done && session->first == 0)
        session->first = family.members[0].pid;
    lw_attach_say_others(&session->after, &family);
    lw_family_release(&family);
    return done;
}

/* ---- the recording ------------------------------------------------------------------ */

const char *lw_attach_name(pid_t pid, char ***argv, struct lw_error *err)
{
    char **words = *argv = lw_facts_command_line(pid, err);

    if (!words)
        return NULL;
    if (!words[0])
        return "attached";
    if (words[1] && words[1][0] != '-' &&
        lw_text_starts(lw_text_basename(words[0]), "python"))
        return words[1];
    return words[0];
}

/* Whose own code is whose depends on where the program runs, not on where we do. */
static bool set_folder(struct lw_run_info *info, pid_t pid, struct lw_error *err)
{
    char link[32], folder[PATH_MAX];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
    len = readlink(link, folder, sizeof(folder) - 1);
    if (len <= 0)
        return true; /* not to be seen */
    folder[len] = '\0';
    return lw_run_info_set_fact(info, "cwd", folder, err);
}

bool lw_attach_describe(struct lw_run_info *info, pid_t pid, char *const *argv,
                        struct lw_error *err)
{
    return lw_facts_describe(info, argv, err) && set_folder(info, pid, err);
}

static bool open_recorder(struct session *session, struct lw_error *err)
{
    char **argv;
    const char *usual_name = lw_attach_name(session->first, &argv, err);
    struct lw_follow follow = session->recorder.follow;
    const char *name = session->args.recording.name;
    struct lw_recorder_options recorder =
        lw_recording_options(&session->args.recording);
    bool done;

    if (!usual_name)
        return false;
    recorder.path = session->after.run_path;
    recorder.is_attached = true;
    recorder.program = name ? name : usual_name;
    done = lw_recorder_open(&session->recorder, &recorder, err);
    if (done) {
        session->recorder.follow = follow;
        session->recorder.follow.is_eager = true;
        session->recorder.follow.no_children = session->args.no_children;
        session->recorder.follow.only_ours = !session->args.all_users;
        if (!lw_attach_describe(&session->recorder.run.info, session->first, argv,
                                err) ||
            !lw_run_save(&session->recorder.run, err)) {
            lw_recorder_discard(&session->recorder);
            done = false;
        }
    } else {
        lw_follow_release(&follow);
    }
    lw_free(argv);
    return done;
}

static void record(struct session *session)
{
    struct lw_recorder *recorder = &session->recorder;
    uint64_t end_ns = session->args.duration_ns
                          ? lw_clock_ns() + session->args.duration_ns
                          : UINT64_MAX;
    struct pollfd polls[] = { { recorder->fd, POLLIN, 0 },
                              { session->signal_fd, POLLIN, 0 } };

    while (lw_clock_ns() < end_ns && recorder->follow.count > 0) {
        uint64_t left_ns = end_ns - lw_clock_ns();
        int timeout_ms = left_ns < 3600000 * MS ? (int)(left_ns / MS) + 1 : 3600000;

        if (poll(polls, 2, timeout_ms) < 0)
            continue;
        if (polls[1].revents)
            return;
        if (polls[0].revents)
            lw_recorder_work(recorder);
    }
}

/* What ends us must not leave a run that looks as if its recorder had died. */
int lw_attach_signals(struct lw_error *err)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (fd < 0)
        lw_fail_errno(err, "cannot wait for signals");
    return fd;
}

static int run_session(struct session *session, int argc, char **argv,
                       struct lw_error *err)
{
    struct lw_error trouble = { LW_OK, "" };

    for (int i = 0; i < argc; i++) {
        if (!follow(session, argv[i], err))
            return err->code == LW_ERR_USAGE ? LW_EXIT_USAGE : LW_EXIT_FAILED;
    }
    session->signal_fd = lw_attach_signals(err);
    if (session->signal_fd < 0 || !lw_afterwards_choose(&session->after, err) ||
        !open_recorder(session, err))
        return LW_EXIT_FAILED;
    if (session->args.duration_ns == 0)
        lw_afterwards_sayf(&session->after, "sampling process %d; Ctrl-C ends it",
                           (int)session->first);
    record(session);
    if (!lw_recorder_finish(&session->recorder, &trouble))
        lw_afterwards_say(&session->after, trouble.text);
    lw_afterwards_show(&session->after, &session->recorder,
                       "no Python was found in the process: nothing was recorded");
    return trouble.code == LW_OK ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

static int run_torch(const struct args *args, int argc, char **argv,
                     struct lw_error *err)
{
    struct lw_attach_torch torch = {
        .recording = &args->recording,
        /* The words are in the order of LW_KINETO_*. */
        .what = lw_torch_words_needed(args->torch) >> 1,
        .duration_ns = args->duration_ns,
        .iterations = args->iterations,
        .no_children = args->no_children,
        .all_users = args->all_users,
    };

    if (args->recording.native || args->recording.pause)
        return lw_usage(err, "--%s is for samples, and --torch takes none",
                        args->recording.native ? "native" : "pause");
    if (args->iterations && args->duration_ns)
        return lw_usage(err, "a window has --iterations or a --duration, not both");
    return lw_attach_torch(&torch, argc, argv, err);
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    struct session *session;
    int code = LW_EXIT_FAILED;
    uint64_t rate = ((const struct args *)args)->recording.rate;

    if (((const struct args *)args)->torch)
        return run_torch(args, argc, argv, err);
    if (((const struct args *)args)->iterations)
        return lw_usage(err, "--iterations is for --torch");
    if (rate == 0 || rate > LW_RATE_MAX)
        return lw_usage(err, "--rate is from 1 to %d", LW_RATE_MAX);
    session = lw_zalloc(1, sizeof(*session), err);
    if (!session)
        return code;
    session->args = *(const struct args *)args;
    session->signal_fd = -1;
    session->after = lw_afterwards_of(&session->args.recording);
    lw_recorder_init(&session->recorder);
    code = run_session(session, argc, argv, err);
    lw_recorder_release(&session->recorder);
    lw_afterwards_release(&session->after);
    if (session->signal_fd >= 0)
        close(session->signal_fd);
    lw_free(session);
    return code;
}

/* py-spy's. */
static const struct lw_habit habits[] = {
    { "--pid", "name the process itself: lapwing attach PID" },
    { "-p", "name the process itself: lapwing attach PID" },
    { NULL, NULL },
};

const struct lw_command lw_cmd_attach = {
    .name = "attach",
    .habits = habits,
    .summary = "record processes that run already",
    .usage = "lapwing attach [OPTIONS] PID...",
    .description =
        "Samples every Python thread of the processes and of what they start, without "
        "stopping them, until they end, --duration has passed, or Ctrl-C. CPython 3.9 "
        "to 3.15, whatever its environment; nothing has to be installed there.\n\n"
        "  lapwing attach 4711\n"
        "  lapwing attach --duration 30s -o out.svg $(pgrep -f train.py)\n\n"
        "With --torch, a window of torch's own profiler instead, in all of the processes "
        "at one time: of those that 'lapwing run' started with their next step, of those "
        "with KINETO_USE_DAEMON=1 in their environment within seconds.\n\n"
        "  lapwing attach --torch=shapes,stack --duration 2s 4711\n"
        "  lapwing attach --torch --iterations 3 -o w.pt.trace.json.gz 4711",
    .args_size = sizeof(struct args),
    .defaults = &defaults,
    .options = options,
    .operands_min = 1,
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
