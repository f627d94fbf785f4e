/* lapwing run: start a program with the agent in it, record it, and give back its exit
 * code as if we had not been there. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/afterwards.h"
#include "cmd/command.h"
#include "cmd/run_python.h"
#include "cmd/torch_windows.h"
#include "lap/traces.h"
#include "recorder/commit.h"
#include "recorder/facts.h"
#include "recorder/inject.h"
#include "recorder/processes.h"
#include "recorder/program.h"
#include "recorder/recorder.h"

extern char **environ;

#define MS 1000000ull
/* Children that end because the program did (resource trackers, worker pools) get this
 * long before they count as still running. */
#define GRACE_NS (250 * MS)
/* git has had the whole run to answer; after a short one it gets this long more. */
#define COMMIT_NS (300 * MS)

enum { CALLS_OFF, CALLS_PYTHON, CALLS_TIMELINE };

struct args {
    struct lw_recording_args recording;
    bool no_sample;
    unsigned calls; /* CALLS_* */
    bool c_calls;
    uint64_t min_span_ns;
    unsigned ops; /* enum lw_agent_ops */
    bool no_steps;
    bool is_module;
    struct lw_torch_windows torch;
};

static const struct args defaults = {
    .recording = { .max_bytes = LW_RECORDING_MAX_BYTES },
    .ops = LW_OPS_WINDOWS,
};

/* clang-format off */
#define OPT(letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    LW_OPT_HEADING("What to record"),
    LW_OPTS_OF_SAMPLING(args,
        "sample every thread's stack this often a second (200; with --calls not at all)"),
    OPT(0, "no-sample", LW_ARG_FLAG, no_sample, NULL, "take no samples"),
    OPT(0, "calls", LW_ARG_MODE, calls, "timeline",
        "every Python call, exactly, instead of samples; with =timeline each call also "
        "keeps its own start and end"),
    OPT(0, "c-calls", LW_ARG_FLAG, c_calls, NULL, "calls of builtins as well"),
    OPT(0, "min-span", LW_ARG_DURATION, min_span_ns, "DURATION",
        "leave shorter calls out of the timeline (10us, 1ms)"),
    OPT(0, "ops", LW_ARG_CHOICE, ops, "off|windows|all",
        "which of torch's ops: none, those of whole steps now and then, as many as cost "
        "1 % of the run (windows), or every one"),
    OPT(0, "no-steps", LW_ARG_FLAG, no_steps, NULL,
        "do not follow the steps of a training with torch"),
    LW_OPT_NO_SYSTEM(args),
    OPT(0, "torch", LW_ARG_WORDS, torch.words, LW_TORCH_WORDS,
        "windows of torch's own profiler, of a few steps each, for report ops, kernels, "
        "overview and the like; the words are what to record besides ops (modules, for "
        "report modules, takes stacks with it). Where the program uses a GPU there is one "
        "of three steps without being asked for; =off: none"),
    OPT(0, "schedule", LW_ARG_TEXT, torch.schedule, "WORDS",
        "which steps --torch records: after skip_first=N, again and again wait=N, then "
        "warmup=N, then active=N of them, repeat=N times, 0 being without end "
        "(wait=1,warmup=1,active=3,repeat=1)"),
    OPT('m', "module", LW_ARG_FLAG, is_module, NULL, "run a module, as python3 -m does"),
    LW_OPTS_WHERE_TO(args),
    LW_OPT_END
};
/* clang-format on */

/* What to record when nothing was asked for, decided here and nowhere else. Exact calls
 * say all that samples do, so with them there are samples only when asked for. */
static void choose_collectors(struct args *args)
{
    if (args->c_calls && args->calls == CALLS_OFF)
        args->calls = CALLS_PYTHON;
    if (args->no_sample)
        args->recording.rate = 0;
    else if (args->recording.rate == 0 && args->calls == CALLS_OFF)
        args->recording.rate = LW_RATE_DEFAULT;
}

/* One run, from the words of the command line to the exit code. */
struct session {
    struct args args;
    struct lw_buf torch;         /* args.torch as the agent is told it */
    char **argv;                 /* what is started; owned, the words are not */
    struct lw_run_python python; /* which runs the script, if we chose it */
    struct lw_afterwards after;
    struct lw_program program;
    struct lw_recorder recorder;
    struct lw_commit commit;
};

/* Nobody was recorded: why, as far as the command line tells. */
static const char *explain_silence(const struct session *session, char *text,
                                   size_t size)
{
    char option = lw_inject_shut_out(session->argv);

    if (option && session->args.calls != CALLS_OFF)
        snprintf(
            text, size,
            "Python was started with -%c, which keeps Lapwing's agent out: no calls "
            "were recorded",
            option);
    else
        snprintf(text, size,
                 "%s started no Python that Lapwing could enter: nothing was recorded",
                 lw_text_basename(session->argv[0]));
    return text;
}

/* ---- what to start ------------------------------------------------------------------ */

/* Does python3 have to run it? A script, an archive, or a folder that is a program. */
static bool is_for_python(const char *word)
{
    bool is_program;
    int folder;

    if (lw_text_ends(word, ".py") || lw_text_ends(word, ".pyw") ||
        lw_text_ends(word, ".pyz"))
        return true;
    folder = open(word, O_PATH | O_DIRECTORY | O_CLOEXEC);
    is_program = folder >= 0 && faccessat(folder, "__main__.py", F_OK, 0) == 0;
    if (folder >= 0)
        close(folder);
    return is_program;
}

/* train.py x -> PYTHON train.py x; -m train x -> PYTHON -m train x; anything else as it
 * is. */
static bool choose_words(struct session *session, int argc, char **words,
                         struct lw_error *err)
{
    bool by_python = session->args.is_module || is_for_python(words[0]);
    size_t count = 0;

    if (by_python && !session->args.is_module && !lw_file_exists(words[0])) {
        session->program.failure_code = LW_EXIT_NOT_FOUND;
        return lw_fail(err, LW_ERR_IO, "%s: no such file", words[0]);
    }
    session->argv = lw_zalloc((size_t)argc + 3, sizeof(*session->argv), err);
    if (!session->argv)
        return false;
    if (by_python) {
        if (!lw_run_python_choose(&session->python, lw_run_python_lapwing(), err))
            return false;
        session->argv[count++] = session->python.word;
    }
    if (session->args.is_module)
        session->argv[count++] = "-m";
    for (int i = 0; i < argc; i++)
        session->argv[count++] = words[i];
    return true;
}

/* ---- the run ------------------------------------------------------------------------ */

static bool open_recorder(struct session *session, const char *program,
                          struct lw_error *err)
{
    const char *name = session->args.recording.name;
    struct lw_recorder_options recorder =
        lw_recording_options(&session->args.recording);

    recorder.path = session->after.run_path;
    recorder.program = name ? name : program;

    if (!lw_recorder_open(&session->recorder, &recorder, err))
        return false;
    if (lw_facts_describe(&session->recorder.run.info, session->argv, err) &&
        lw_run_save(&session->recorder.run, err))
        return true;
    lw_recorder_discard(&session->recorder);
    return false;
}

static bool start(struct session *session, struct lw_error *err)
{
    struct lw_inject_options inject = {
        .socket = session->recorder.listener.path,
        .calls = session->args.calls != CALLS_OFF,
        .c_calls = session->args.c_calls,
        .sample = session->args.recording.rate > 0,
        .ops = session->args.ops,
        .timeline = session->args.calls == CALLS_TIMELINE,
        .min_span_ns = session->args.min_span_ns,
        .torch = session->torch.len ? session->torch.bytes : NULL,
        .steps = !session->args.no_steps,
    };
    char *folder = lw_inject_find(err);
    char **environment =
        folder ? lw_inject_environment(environ, folder, &inject, err) : NULL;
    bool started = environment &&
                   lw_program_start(&session->program, session->argv, environment, err);

    if (session->args.ops == LW_OPS_OFF &&
        !lw_run_info_set_fact(&session->recorder.run.info, "ops", "off", NULL)) {
        /* Then a report does not know why there are none. */
    }
    session->recorder.child_pid = session->program.pid;
    if (started &&
        !lw_follow_add(&session->recorder.follow, session->program.pid, NULL)) {
        /* Then only those that say hello are recorded. */
    }
    lw_free(environment);
    session->recorder.follow.folder = folder; /* who has no agent should say why */
    return started;
}

static void save_commit(struct session *session)
{
    struct lw_run *run = &session->recorder.run;
    const struct lw_commit *commit = &session->commit;

    if (!commit->is_known || lw_run_info_fact(&run->info, "commit"))
        return;
    if (!lw_run_info_set_fact(&run->info, "commit", commit->id, NULL) ||
        !lw_run_info_set_fact(&run->info, "dirty", commit->is_dirty ? "yes" : "no",
                              NULL) ||
        !lw_run_save(run, NULL)) {
        /* Saved again at the end. */
    }
}

/* Wait for something to do, at most until DEADLINE_NS (0: for ever), and do it. */
static void work(struct session *session, uint64_t deadline_ns)
{
    struct pollfd polls[] = {
        { session->recorder.fd, POLLIN, 0 },
        { session->program.fd, POLLIN, 0 },
        { session->commit.fd, POLLIN, 0 }, /* -1: poll() passes over it */
    };
    uint64_t now_ns = lw_clock_ns();
    int timeout_ms = -1;

    if (deadline_ns > 0)
        timeout_ms = deadline_ns > now_ns ? (int)((deadline_ns - now_ns) / MS) + 1 : 0;
    if (poll(polls, sizeof(polls) / sizeof(polls[0]), timeout_ms) < 0)
        return;
    if (polls[0].revents)
        lw_recorder_work(&session->recorder);
    if (polls[1].revents)
        lw_program_signals(&session->program);
    if (polls[2].revents && lw_commit_read(&session->commit))
        save_commit(session);
}

/* Windows were asked for, and none was ever begun: no agent had a torch that trained, or
 * it has said why. */
static void explain_no_window(struct session *session)
{
    unsigned words = session->args.torch.words;
    struct lw_recorder *recorder = &session->recorder;
    const char *note = lw_run_info_fact(&recorder->run.info, "note");
    char *traces = lw_path_join(recorder->run.path, LW_TRACES_FOLDER, NULL);

    if (words && !(words & LW_TORCH_OFF) && traces && !lw_file_exists(traces) &&
        !(note && strstr(note, "torch's profiler")))
        lw_processes_add_note(
            recorder, "no window of torch's profiler was recorded: the program "
                      "did not import torch, or no optimizer of it made a step");
    lw_free(traces);
}

/* From the start of the program to a run that is complete on disk. */
static void record(struct session *session)
{
    struct lw_recorder *recorder = &session->recorder;
    struct lw_error err = { LW_OK, "" };
    pid_t pid = session->program.pid;
    uint64_t deadline_ns;

    while (!session->program.has_ended)
        work(session, 0);
    recorder->run.info.exit_code = lw_program_exit_code(&session->program);
    lw_recorder_ended(recorder, pid, recorder->run.info.exit_code);

    deadline_ns = lw_clock_ns() + GRACE_NS;
    while (lw_processes_live(recorder) > 0 && lw_clock_ns() < deadline_ns)
        work(session, deadline_ns);
    lw_commit_wait(&session->commit, lw_clock_ns() + COMMIT_NS);
    save_commit(session);
    explain_no_window(session);
    if (!lw_recorder_finish(recorder, &err))
        lw_afterwards_say(&session->after, err.text);
}

/* A script that fails at once often lacks a package that another Python has, and which
 * one it got is nowhere in its traceback. */
static void say_which_python(const struct session *session, const char *script)
{
    const struct lw_run_python *python = &session->python;
    char *path;

    if (!python->word || lw_program_exit_code(&session->program) != LW_EXIT_FAILED)
        return;
    path = lw_program_find(python->word, NULL);
    lw_afterwards_sayf(&session->after,
                       "%s ran with %s (%s); another is named: lapwing run PYTHON %s%s",
                       lw_text_basename(script), path ? path : python->word,
                       python->why, session->args.is_module ? "-m " : "", script);
    lw_free(path);
}

/* -o names a place where there can be no run: better said now than after the program has
 * run without being recorded. A disk that is full, or no place of our own choice, is not
 * the user's mistake. */
static bool is_wrong_output(const struct session *session, const struct lw_error *err)
{
    int reason = session->recorder.place_error;

    return err->code == LW_ERR_USAGE || (session->after.run_path && reason != 0 &&
                                         reason != ENOSPC && reason != EDQUOT);
}

/* The program comes first: without a recorder it runs as if we were not there. Returns the
 * exit code if it cannot run either. */
static int run_unrecorded(struct session *session, struct lw_error *err)
{
    int reason = session->recorder.place_error;
    const char *remedy = "";

    if (reason == ENOSPC || reason == EDQUOT)
        remedy = " (free some space, or name another place with -o)";
    else if (reason != 0)
        remedy = " (name another place with -o)";
    lw_afterwards_sayf(&session->after, "%s runs unrecorded: %s%s",
                       lw_text_basename(session->argv[0]), err->text, remedy);
    lw_program_replace_us(&session->program, session->argv, environ, err);
    return session->program.failure_code;
}

static int run_session(struct session *session, int argc, char **words,
                       struct lw_error *err)
{
    int code = LW_EXIT_RUN_FAILED;
    char silence[2000];

    if (!choose_words(session, argc, words, err))
        return session->program.failure_code ? session->program.failure_code : code;
    if (!lw_afterwards_choose(&session->after, err))
        return code;
    if (!open_recorder(session, words[0], err))
        return is_wrong_output(session, err) ? code : run_unrecorded(session, err);
    if (!start(session, err)) {
        bool can_run =
            session->program.failure_code == 0 || session->program.cannot_fork;

        lw_recorder_discard(&session->recorder);
        return can_run ? run_unrecorded(session, err) : session->program.failure_code;
    }
    lw_commit_ask(&session->commit);
    record(session);
    lw_afterwards_show(&session->after, &session->recorder,
                       explain_silence(session, silence, sizeof(silence)));
    say_which_python(session, words[0]);
    return lw_program_exit_code(&session->program);
}

static int run(const void *given, int argc, char **argv, struct lw_error *err)
{
    const struct args *args = given;
    struct session *session;
    int code = LW_EXIT_RUN_FAILED;

    if (args->min_span_ns && args->calls != CALLS_TIMELINE)
        return lw_usage(err, "--min-span is for --calls=timeline");
    if (args->no_steps && args->torch.words && !(args->torch.words & LW_TORCH_OFF))
        return lw_usage(err,
                        "--torch takes windows of whole steps, and --no-steps finds "
                        "none: give one of them");
    if (args->recording.rate > LW_RATE_MAX)
        return lw_usage(err, "--rate is at most %d", LW_RATE_MAX);
    session = lw_zalloc(1, sizeof(*session), err);
    if (!session)
        return code;
    session->args = *args;
    session->commit.fd = -1;
    if (session->args.no_steps) /* nor the window that a GPU brings */
        session->args.torch.words |= LW_TORCH_OFF;
    lw_buf_init(&session->torch, 0);
    if (!lw_torch_windows_add(&session->args.torch, &session->torch, err)) {
        lw_buf_release(&session->torch);
        lw_free(session);
        return err->code == LW_ERR_USAGE ? LW_EXIT_USAGE : code;
    }
    lw_recorder_init(&session->recorder);
    choose_collectors(&session->args);
    session->after = lw_afterwards_of(&session->args.recording);
    if (lw_program_init(&session->program, err))
        code = run_session(session, argc, argv, err);
    else if (choose_words(session, argc, argv, err))
        code = run_unrecorded(session, err);
    lw_commit_release(&session->commit);
    lw_recorder_release(&session->recorder);
    lw_free(session->argv);
    lw_run_python_release(&session->python);
    lw_afterwards_release(&session->after);
    lw_program_die_alike(&session->program);
    lw_program_release(&session->program);
    lw_buf_release(&session->torch);
    lw_free(session);
    return code;
}

const struct lw_command lw_cmd_run = {
    .name = "run",
    .summary = "record a program from start to end",
    .usage = "lapwing run [OPTIONS] SCRIPT.py [ARGUMENTS...]\n"
             "lapwing run [OPTIONS] -m MODULE [ARGUMENTS...]\n"
             "lapwing run [OPTIONS] [--] COMMAND [ARGUMENTS...]",
    .description =
        "Starts the program, records every Python process in it (children too), and "
        "gives back its exit code. A script or module runs with the Python of the active "
        "virtualenv (VIRTUAL_ENV), else of the virtualenv that this lapwing is in, else "
        "with python3 on PATH; any other command line runs as it is.\n\n"
        "  lapwing run train.py --epochs 3\n"
        "  lapwing run -m package.train\n"
        "  lapwing run -- torchrun --nproc-per-node 2 train.py\n\n"
        "Exit codes of its own: 125 Lapwing failed, 126 the command cannot be run, "
        "127 there is no such command.",
    .args_size = sizeof(struct args),
    .defaults = &defaults,
    .options = options,
    .operands_min = 1,
    .operands_max = LW_ANY_NUMBER,
    .operand_ends_options = true,
    .run = run,
};
