/* lapwing attach --torch: a window of torch's own profiler out of a running job, which
 * `lapwing run` records (recorder/window_order.h) or whose torch asks us for orders
 * (recorder/kineto_daemon.h). The traces go into a run, or one of them into a file, and are
 * shown as `lapwing report` shows them. */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deflate.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/attach.h"
#include "cmd/family.h"
#include "lap/traces.h"
#include "recorder/facts.h"
#include "recorder/kineto_daemon_job.h"
#include "sampler/os.h"

#define MS 1000000ull
#define USUAL_MS 1000     /* of a window */
#define LONGEST_MS 600000 /* ten minutes are some gigabytes */
#define LOOK_MS 100       /* between looks at who is done */
#define DEVICE_WARMUP_S 5 /* Kineto's own; without a device nothing has to warm up */

struct session {
    const struct lw_attach_torch *args;
    struct lw_afterwards after;
    struct lw_kineto_job job;
    struct lw_run run;       /* where the traces go, if `is_run` */
    struct lw_folder traces; /* in it */
    struct lw_file_out file; /* or the one trace, if `is_file` */
    bool is_run, is_file;
    bool is_interrupted;
    int signal_fd;
};

/* ---- whom --------------------------------------------------------------------------- */

static void say(void *to, const char *text)
{
    lw_afterwards_say(to, text);
}

/* Why none of FAMILY takes an order: it is about one that has torch, if there is any. */
static bool explain(const struct lw_family *family, struct lw_error *err)
{
    pid_t pid = family->members[0].pid;

    for (size_t i = family->count; i-- > 0;)
        if (lw_kineto_client_has_torch(family->members[i].pid))
            pid = family->members[i].pid;
    return lw_kineto_client_explain(pid, err);
}

/* Add those of FAMILY that take orders. That a child cannot be seen is no failure. */
static bool add_family(struct session *session, const struct lw_family *family,
                       struct lw_error *err)
{
    for (size_t i = 0; i < family->count; i++) {
        const struct lw_family_member *member = &family->members[i];
        struct lw_error why = { LW_OK, "" };
        bool added;

        if (lw_kineto_job_add(&session->job, member->pid, &added, &why))
            continue;
        if (member->is_asked || why.code == LW_ERR_NOMEM)
            return lw_fail(err, why.code, "%s", why.text);
        if (lw_os_lives(member->pid))
            lw_afterwards_sayf(&session->after, "%s; it is left out", why.text);
    }
    return session->job.count > 0 || explain(family, err);
}

static bool find_processes(struct session *session, int argc, char **argv,
                           struct lw_error *err)
{
    struct lw_family family = { .all_users = session->args->all_users };
    bool done = lw_family_add(&family, "attach", argv, argc, err) &&
                (session->args->no_children || lw_family_grow(&family, err)) &&
                add_family(session, &family, err);

    if (done)
        lw_attach_say_others(&session->after, &family);
    lw_family_release(&family);
    return done;
}

/* Is a library of NVIDIA's or AMD's profiler in process PID? */
static bool has_device(pid_t pid)
{
    struct lw_os_images images = { 0 };
    bool found = false;

    if (!lw_os_images(pid, &images, NULL))
        return false;
    for (size_t i = 0; !found && i < images.count; i++) {
        const char *name = lw_text_basename(images.images[i].path);

        found = lw_text_starts(name, "libcuda.so") ||
                lw_text_starts(name, "libcupti") ||
                lw_text_starts(name, "librocprofiler") ||
                lw_text_starts(name, "libroctracer");
    }
    lw_os_images_release(&images);
    return found;
}

/* Those that are recorded know it themselves. */
static bool check_stacks(const struct session *session, struct lw_error *err)
{
    for (size_t i = 0; i < session->job.count; i++) {
        const struct lw_kineto_process *process = &session->job.processes[i];

        if (session->args->what & LW_KINETO_STACK && !process->recorder &&
            lw_kineto_client_crashes_with_stacks(process->pid))
            return lw_fail(
                err, LW_ERR_UNSUPPORTED,
                "process %d would crash: its torch is older than 2.7, whose "
                "profiler cannot record stacks on Python 3.13 and later; ask "
                "for a window without",
                (int)process->pid);
    }
    return true;
}

static void choose_window(struct session *session)
{
    struct lw_kineto_window *window = &session->job.window;
    const struct lw_attach_torch *args = session->args;

    window->what = args->what;
    window->iterations = args->iterations;
    window->duration_ms =
        args->duration_ns ? (args->duration_ns + MS - 1) / MS : USUAL_MS;
    for (size_t i = 0; i < session->job.count; i++)
        if (has_device(session->job.processes[i].pid))
            window->warmup_s = DEVICE_WARMUP_S;
}

/* ---- where to ----------------------------------------------------------------------- */

static bool is_trace_file(const char *output)
{
    return output &&
           (lw_text_ends(output, ".json") || lw_text_ends(output, ".json.gz"));
}

/* The folder of the traces, and what can be said of the job. */
static bool fill_run(struct session *session, pid_t pid, char *const *argv,
                     struct lw_error *err)
{
    struct lw_folder *traces = &session->traces;
    bool done;

    session->run.info.start_ns = lw_clock_ns();
    done = lw_attach_describe(&session->run.info, pid, argv, err) &&
           lw_run_save(&session->run, err) &&
           lw_folder_make_in(traces, &session->run.folder, LW_TRACES_FOLDER, err);
    return done;
}

static bool open_run(struct session *session, struct lw_error *err)
{
    const char *name = session->args->recording->name;
    pid_t first = session->job.processes[0].pid;
    char **argv;
    const char *usual_name = lw_attach_name(first, &argv, err);
    bool done = false;

    if (!usual_name)
        return false;
    session->is_run = lw_run_create(&session->run, session->after.run_path, NULL,
                                    name ? name : usual_name, err);
    if (session->is_run)
        done = fill_run(session, first, argv, err);
    else
        lw_run_close(&session->run);
    lw_free(argv);
    return done;
}

/* Can there be but one trace? Of the processes that are recorded, those of one rank are a
 * training and what it started; the first to make a step is that. */
static bool is_for_one(const struct lw_kineto_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (!job->processes[i].recorder || lw_facts_rank(job->processes[i].pid) !=
                                               lw_facts_rank(job->processes[0].pid))
            return job->count == 1;
    return true;
}

/* That it can be written is known before anybody gets an order. */
static bool open_output(struct session *session, struct lw_error *err)
{
    const char *output = session->after.output;

    if (is_trace_file(output)) {
        session->job.is_for_one = is_for_one(&session->job);
        if (!session->job.is_for_one)
            return lw_fail(
                err, LW_ERR_USAGE,
                "%s would hold one trace, but %zu processes take windows: name a run "
                "(-o NAME.lap), or one process with --no-children",
                output, session->job.count);
        session->is_file = lw_file_out_open(&session->file, output, err);
        return session->is_file;
    }
    if (output && lw_writer_for_path(output))
        return lw_fail(
            err, LW_ERR_USAGE,
            "%s: a window goes into a run, or into a file that ends in .json "
            "or .json.gz; lapwing export makes others of it",
            output);
    return lw_afterwards_choose(&session->after, err) && open_run(session, err);
}

/* Nothing came of it: leave nothing behind. */
static void discard_output(struct session *session)
{
    lw_folder_close(&session->traces);
    if (session->is_run)
        lw_run_discard(&session->run);
    if (session->is_file)
        lw_file_out_abandon(&session->file);
    session->is_run = session->is_file = false;
}

/* ---- the window --------------------------------------------------------------------- */

static void wait_for_windows(struct session *session)
{
    struct lw_kineto_job *job = &session->job;
    struct pollfd polls[] = { { job->daemon.fd, POLLIN, 0 },
                              { session->signal_fd, POLLIN, 0 } };

    while (lw_kineto_job_work(job)) {
        if (poll(polls, 2, LOOK_MS) > 0 && polls[1].revents) {
            session->is_interrupted = true;
            return;
        }
    }
}

static bool has_text(const struct lw_file_view *trace, const char *text)
{
    return memmem(trace->bytes, trace->len, text, strlen(text)) != NULL;
}

/* Did anything run in the window? A launcher has torch too, but it only waits. */
static bool has_work(const struct lw_file_view *trace)
{
    return has_text(trace, "\"cpu_op\"") || has_text(trace, "\"kernel\"");
}

/* "rank0-000001.pt.trace.json", or by its pid, if it has no rank or a helper of it has the
 * same. */
static void choose_name(const struct session *session, pid_t pid, char *name,
                        size_t size)
{
    int64_t rank = lw_facts_rank(pid);
    struct stat about;

    snprintf(name, size, "rank%lld-000001.pt.trace.json", (long long)rank);
    if (rank < 0 || fstatat(session->traces.fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0)
        snprintf(name, size, "pid%d-000001.pt.trace.json", (int)pid);
}

static bool put_in_file(struct session *session, const struct lw_file_view *trace,
                        struct lw_error *err)
{
    struct lw_buf packed;
    bool done;

    lw_buf_init(&packed, 0);
    if (lw_text_ends(session->after.output, ".gz"))
        done = lw_deflate(trace->bytes, trace->len, &packed, err) &&
               lw_buf_check(&packed, err) &&
               lw_file_out_write(&session->file, packed.bytes, packed.len, err);
    else
        done = lw_file_out_write(&session->file, trace->bytes, trace->len, err);
    session->is_file = done; /* a write that fails closes it */
    lw_buf_release(&packed);
    return done;
}

static bool put_in_run(struct session *session, pid_t pid,
                       const struct lw_file_view *trace, struct lw_error *err)
{
    char name[80];

    choose_name(session, pid, name, sizeof(name));
    return lw_folder_replace(&session->traces, name, trace->bytes, trace->len, err);
}

/* Put the trace of PROCESS where it was asked to be; *TAKEN: there was something in it. */
static bool take_trace(struct session *session, const struct lw_kineto_process *process,
                       size_t *taken, struct lw_error *err)
{
    struct lw_file_view trace = { 0 };
    bool done = lw_kineto_folder_read(&process->folder, process->trace, 0, &trace, err);

    if (done && session->job.count > 1 && !has_work(&trace)) {
        lw_afterwards_sayf(
            &session->after,
            "process %d ran nothing of torch in the window; it is left out",
            (int)process->pid);
    } else if (done) {
        done = session->is_file ? put_in_file(session, &trace, err)
                                : put_in_run(session, process->pid, &trace, err);
        *taken += done;
        /* torch 2.13 hooks allocations of threads that start a profiler themselves, as
         * our agent does. */
        if (session->args->what & LW_KINETO_MEMORY && !has_text(&trace, "\"[memory]\""))
            lw_afterwards_sayf(
                &session->after,
                "process %d recorded no memory: its torch does not do so "
                "on demand; one that 'lapwing run' started does",
                (int)process->pid);
    }
    lw_file_close(&trace);
    return done;
}

/* Say what became of those without a trace, and whether one may still come. Of one process
 * alone, that is the failure itself. */
static void say_what_is_missing(const struct session *session)
{
    size_t left_out = 0;

    for (size_t i = 0; i < session->job.count; i++) {
        const struct lw_kineto_process *process = &session->job.processes[i];

        left_out += process->state == LW_KINETO_LEFT_OUT;
        if (process->state == LW_KINETO_FAILED && session->job.count > 1)
            lw_afterwards_say(&session->after, process->why.text);
        if (lw_kineto_job_is_ordered(&session->job, i))
            lw_afterwards_sayf(&session->after,
                               "process %d has its order and cannot be told to stop: "
                               "its trace may still come, into %s",
                               (int)process->pid, process->folder.folder.path);
    }
    if (left_out > 0)
        lw_afterwards_sayf(
            &session->after,
            "%zu of %zu processes made no step meanwhile, as launchers and "
            "a loader's workers do not, and %s left out",
            left_out, session->job.count, left_out == 1 ? "is" : "are");
}

static bool take_traces(struct session *session, struct lw_error *err)
{
    const struct lw_kineto_job *job = &session->job;
    size_t taken = 0;
    bool done = true;

    for (size_t i = 0; done && i < job->count; i++)
        if (job->processes[i].state == LW_KINETO_DONE)
            done = take_trace(session, &job->processes[i], &taken, err);
    if (done && taken > 0)
        return true;
    if (done && session->is_interrupted)
        return lw_fail(err, LW_ERR_IO, "no window was taken: interrupted");
    if (done && job->count == 1 && job->processes[0].state == LW_KINETO_FAILED)
        return lw_fail(err, job->processes[0].why.code, "%s",
                       job->processes[0].why.text);
    if (done)
        return lw_fail(err, LW_ERR_IO, "no window was taken in any of %zu processes",
                       job->count);
    return false;
}

/* ---- the end ------------------------------------------------------------------------ */

static bool finish_run(struct session *session, struct lw_error *err)
{
    struct lw_run_info *info = &session->run.info;
    uint64_t cut;

    if (!lw_traces_finish(&session->run.folder, &cut, err))
        return false;
    info->end_ns = lw_clock_ns();
    info->wall_end_ns = lw_clock_wall_ns();
    info->state = LW_RUN_FINISHED;
    return lw_run_save(&session->run, err);
}

/* What `lapwing report NAME overview` prints. */
static bool show(const struct session *session, char *name, struct lw_error *err)
{
    char view[] = "overview";
    char *words[] = { name, view, NULL };

    if (session->after.quiet || session->after.no_summary)
        return true;
    return lw_cmd_report.run(lw_cmd_report.defaults, 2, words, err) == LW_EXIT_DONE;
}

static bool finish(struct session *session, struct lw_error *err)
{
    char *name = session->is_run ? session->run.path : (char *)session->after.output;
    bool is_latest = session->is_run && !session->after.run_path;
    bool done;

    if (session->is_run) {
        done = finish_run(session, err);
    } else {
        done = lw_file_out_end(&session->file, err);
        session->is_file = false;
    }
    if (!done)
        return false;
    name = lw_copy_text(name, strlen(name), err);
    if (!name)
        return false;
    if (session->is_run)
        lw_run_close(&session->run);
    session->is_run = false;
    done = show(session, name, err);
    fflush(stdout); /* what comes next is for people, and on stderr */
    lw_afterwards_sayf(&session->after, "the %s is %s; next: lapwing report %s%sops",
                       is_trace_file(name) ? "trace" : "run", name,
                       is_latest ? "" : name, is_latest ? "" : " ");
    lw_free(name);
    return done;
}

static bool run_session(struct session *session, int argc, char **argv,
                        struct lw_error *err)
{
    if (!find_processes(session, argc, argv, err) || !check_stacks(session, err))
        return false;
    choose_window(session);
    session->signal_fd = lw_attach_signals(err);
    if (session->signal_fd < 0 || !open_output(session, err) ||
        !lw_kineto_job_open(&session->job, err))
        return false;
    wait_for_windows(session);
    lw_kineto_daemon_close(&session->job.daemon);
    say_what_is_missing(session);
    return take_traces(session, err) && finish(session, err);
}

int lw_attach_torch(const struct lw_attach_torch *args, int argc, char **argv,
                    struct lw_error *err)
{
    struct session *session;
    bool done;

    if (args->duration_ns > LONGEST_MS * MS)
        return lw_usage(err, "--duration of a window is at most %d minutes",
                        LONGEST_MS / 60000);
    if (args->iterations > INT_MAX)
        return lw_usage(err, "--iterations is at most %d", INT_MAX);
    session = lw_zalloc(1, sizeof(*session), err);
    if (!session)
        return LW_EXIT_FAILED;
    session->args = args;
    session->after = lw_afterwards_of(args->recording);
    session->signal_fd = -1;
    lw_kineto_job_init(&session->job);
    session->job.say = say;
    session->job.say_to = &session->after;
    done = run_session(session, argc, argv, err);
    discard_output(session);
    lw_kineto_job_release(&session->job);
    lw_afterwards_release(&session->after);
    if (session->signal_fd >= 0)
        close(session->signal_fd);
    lw_free(session);
    if (done)
        return LW_EXIT_DONE;
    return err->code == LW_ERR_USAGE ? LW_EXIT_USAGE : LW_EXIT_FAILED;
}
