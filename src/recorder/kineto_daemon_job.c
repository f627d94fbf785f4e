/* Gives out orders and waits for what comes of them. */

#include "recorder/kineto_daemon_job.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "recorder/facts.h"
#include "recorder/window_order.h"
#include "sampler/os.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define HEAR_MAX 256 /* messages at a time: who floods us shall not stop us */
#define TRACE_NAME "trace.pt.trace.json"

void lw_kineto_job_init(struct lw_kineto_job *job)
{
    *job = (struct lw_kineto_job){
        .daemon.fd = -1,
        .ask_ns = 5 * SECOND,
        .tick_ns = SECOND,
        .silence_ns = 15 * SECOND,
        .busy_ns = 60 * SECOND,
        .step_ns = 60 * SECOND,
        .late_ns = 2 * SECOND,
    };
}

static void release_process(struct lw_kineto_process *process, bool is_ordered)
{
    if (process->pid_fd >= 0)
        close(process->pid_fd);
    if (process->recorder)
        lw_order_withdraw(process->pid, process->recorder, &process->folder);
    lw_free(process->recorder);
    if (is_ordered)
        lw_kineto_folder_release(&process->folder);
    else
        lw_kineto_folder_remove(&process->folder);
    lw_free(process->trace);
}

void lw_kineto_job_release(struct lw_kineto_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        release_process(&job->processes[i], lw_kineto_job_is_ordered(job, i));
    lw_free(job->processes);
    lw_free(job->daemon_folder);
    lw_kineto_daemon_close(&job->daemon);
    lw_kineto_job_init(job);
}

void lw_kineto_job_say(const struct lw_kineto_job *job, const char *format, ...)
{
    char text[1000];
    va_list list;

    if (!job->say)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    job->say(job->say_to, text);
}

/* ---- who ---------------------------------------------------------------------------- */

static bool is_known(const struct lw_kineto_job *job, uint64_t inode)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->processes[i].inode == inode)
            return true;
    return false;
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Add PROCESS, of which only how it gets its order is known. */
static bool add_process(struct lw_kineto_job *job, struct lw_kineto_process process,
                        struct lw_error *err)
{
    if (!lw_grow(&job->processes, &job->capacity, job->count + 1, sizeof(process), err))
        return false;
    process.image = lw_facts_image(process.pid);
    process.pid_fd = pidfd_open(process.pid, 0);
    if (process.pid_fd < 0)
        return lw_fail_errno(err, "process %d", (int)process.pid);
    if (!lw_kineto_folder_make(process.pid, &process.folder, err)) {
        close(process.pid_fd);
        return false;
    }
    job->processes[job->count++] = process;
    return true;
}

static bool add_client(struct lw_kineto_job *job, pid_t pid,
                       struct lw_kineto_client *client, struct lw_error *err)
{
    struct lw_kineto_process process = { .pid = pid, .inode = client->inode };
    const struct lw_kineto_process *other = NULL;

    for (size_t i = 0; i < job->count; i++)
        if (!job->processes[i].recorder)
            other = &job->processes[i];
    if (!lw_kineto_client_is_near(pid, client, err))
        return false;
    if (other && !is_same_text(client->folder, job->daemon_folder))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "processes %d and %d look for their daemon at different places "
                       "(KINETO_IPC_SOCKET_DIR): attach to one at a time",
                       (int)other->pid, (int)pid);
    if (!add_process(job, process, err))
        return false;
    if (!other) {
        job->daemon_user = job->processes[job->count - 1].folder.theirs;
        job->daemon_folder = client->folder;
        client->folder = NULL;
    }
    job->asking_count++;
    return true;
}

/* Add process PID if it is recorded, and its agent takes orders. */
static bool add_recorded(struct lw_kineto_job *job, pid_t pid, bool *added,
                         struct lw_error *err)
{
    struct lw_kineto_process process = { .pid = pid };
    const char *reason;

    if (!lw_kineto_client_has_torch(pid))
        return true;
    if (!lw_order_find(pid, &process.recorder, &reason, err))
        return false;
    if (!process.recorder)
        return true;
    *added = add_process(job, process, err);
    if (!*added)
        lw_free(process.recorder);
    return *added;
}

bool lw_kineto_job_add(struct lw_kineto_job *job, pid_t pid, bool *added,
                       struct lw_error *err)
{
    struct lw_kineto_client client;
    bool done;

    *added = false;
    if (!add_recorded(job, pid, added, err))
        return false;
    if (*added)
        return true;
    if (!lw_kineto_client_find(pid, &client, err))
        return false;
    if (client.inode == 0 || is_known(job, client.inode)) {
        lw_kineto_client_release(&client);
        return true;
    }
    done = *added = add_client(job, pid, &client, err);
    lw_kineto_client_release(&client);
    return done;
}

/* What is waited for. */
static void say_waiting(const struct lw_kineto_job *job)
{
    char who[40];

    if (job->count == 1)
        snprintf(who, sizeof(who), "process %d", (int)job->processes[0].pid);
    else
        snprintf(who, sizeof(who), "%zu processes", job->count);
    if (job->asking_count == 0)
        lw_kineto_job_say(job, "waiting for the next step of %s", who);
    else
        lw_kineto_job_say(job, "waiting for %s to ask, as %s every %d s", who,
                          job->count == 1 ? "it does" : "they do",
                          (int)(job->ask_ns / SECOND));
}

/* Those that ask get theirs when they do. */
static bool give_orders(struct lw_kineto_job *job, struct lw_error *err)
{
    for (size_t i = 0; i < job->count; i++) {
        struct lw_kineto_process *process = &job->processes[i];

        process->since_ns = job->began_ns;
        if (process->recorder && !lw_order_give(process->pid, process->recorder,
                                                &job->window, &process->folder, err))
            return false;
    }
    return true;
}

bool lw_kineto_job_open(struct lw_kineto_job *job, struct lw_error *err)
{
    uint64_t ahead_ns = job->ask_ns + 2 * job->tick_ns +
                        job->window.warmup_s * SECOND; /* till all have asked */

    if (job->asking_count > 0 &&
        !lw_kineto_daemon_open(&job->daemon, job->daemon_folder, &job->daemon_user,
                               err))
        return false;
    job->began_ns = lw_clock_ns();
    if (job->asking_count > 0 && job->count > 1 && job->window.iterations == 0) {
        job->start_ns = job->began_ns + ahead_ns;
        job->window.start_ms = (lw_clock_wall_ns() + ahead_ns) / MS;
    }
    if (!give_orders(job, err))
        return false;
    say_waiting(job);
    return true;
}

/* ---- orders ------------------------------------------------------------------------- */

void lw_kineto_process_enter(struct lw_kineto_process *process,
                             enum lw_kineto_state state)
{
    process->state = state;
    process->since_ns = lw_clock_ns();
}

void lw_kineto_process_give_up(struct lw_kineto_process *process, const char *format,
                               ...)
{
    char text[sizeof(process->why.text)];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    lw_fail(&process->why, LW_ERR_IO, "process %d %s", (int)process->pid, text);
    lw_kineto_process_enter(process, LW_KINETO_FAILED);
}

/* Is there still time to be ready for the common start? */
static bool is_in_time(const struct lw_kineto_job *job)
{
    return job->start_ns == 0 ||
           lw_clock_ns() + job->tick_ns / 2 + job->window.warmup_s * SECOND <
               job->start_ns;
}

/* When the window that PROCESS was ordered to take is over, by the clock. */
static uint64_t expected_end(const struct lw_kineto_job *job,
                             const struct lw_kineto_process *process)
{
    uint64_t start_ns = job->start_ns ? job->start_ns
                                      : process->since_ns + 2 * job->tick_ns +
                                            job->window.warmup_s * SECOND;

    return start_ns + job->window.duration_ms * MS;
}

static void order(struct lw_kineto_job *job, struct lw_kineto_process *process,
                  const struct lw_kineto_message *message)
{
    struct lw_buf text;
    char *file = lw_path_join(process->folder.folder.path, TRACE_NAME, NULL);

    lw_buf_init(&text, 0);
    if (file)
        lw_kineto_window_add_order(&text, &job->window, file);
    if (file && lw_buf_check(&text, NULL) &&
        lw_kineto_daemon_answer(&job->daemon, message, text.bytes, text.len)) {
        lw_kineto_process_enter(process, LW_KINETO_ORDERED);
        process->has_order = true;
        if (job->window.iterations > 0)
            lw_kineto_job_say(
                job, "process %d has its order: %llu iterations from its next one on",
                (int)process->pid, (unsigned long long)job->window.iterations);
        else
            lw_kineto_job_say(job,
                              "process %d has its order: %.3g s of its time, in %.1f s",
                              (int)process->pid, (double)job->window.duration_ms / 1e3,
                              (double)(expected_end(job, process) -
                                       job->window.duration_ms * MS - lw_clock_ns()) /
                                  1e9);
    }
    lw_buf_release(&text);
    lw_free(file);
}

bool lw_kineto_process_has_ended(const struct lw_kineto_process *process)
{
    struct pollfd poll_fd = { process->pid_fd, POLLIN, 0 };

    return poll(&poll_fd, 1, 0) == 1;
}

/* Is the file FD of PROCESS a trace to its end? Kineto gives it its name when it has
 * written it, but before torch 2.1 it did not wait: so it must end as JSON does, and not
 * have grown since the last look. */
static bool is_whole(struct lw_kineto_process *process, int fd, bool is_last_look)
{
    struct stat about;
    char last = '\n';
    uint64_t bytes;

    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return false;
    for (off_t at = about.st_size; at > 0 && last == '\n'; at--)
        if (pread(fd, &last, 1, at - 1) != 1)
            return false;
    bytes = process->seen_bytes;
    process->seen_bytes = (uint64_t)about.st_size;
    return last == '}' && (is_last_look || bytes == process->seen_bytes);
}

/* Look into FOLDER of PROCESS for a trace. */
static void look_into(struct lw_kineto_process *process, DIR *folder, bool is_last_look,
                      bool *is_begun)
{
    const struct dirent *entry;

    while (!process->trace && (entry = readdir(folder))) {
        struct stat about;
        int fd;

        if (entry->d_name[0] == '.')
            continue;
        *is_begun = true;
        if (!lw_text_ends(entry->d_name, ".json"))
            continue;
        fd = lw_folder_find(&process->folder.folder, entry->d_name, &about, NULL);
        if (fd >= 0 && is_whole(process, fd, is_last_look))
            process->trace = lw_copy_text(entry->d_name, strlen(entry->d_name), NULL);
        if (fd >= 0)
            close(fd);
    }
}

/* Look for the trace of PROCESS: if it is whole, PROCESS is done. *IS_BEGUN: there is at
 * least a part of it. */
bool lw_kineto_process_find_trace(struct lw_kineto_process *process, bool *is_begun)
{
    bool is_last_look = lw_kineto_process_has_ended(process);
    struct lw_trust_acting acting;

    *is_begun = false;
    if (lw_theirs_begin(&acting, &process->folder.theirs, NULL)) {
        DIR *folder = lw_folder_list(&process->folder.folder);

        if (folder) {
            look_into(process, folder, is_last_look, is_begun);
            closedir(folder);
        }
        lw_trust_act_end(&acting);
    }
    if (process->trace) {
        process->has_order = false;
        lw_kineto_process_enter(process, LW_KINETO_DONE);
    }
    return process->trace != NULL;
}

/* An order came to nothing. Kineto may drop one that it looks at a moment too late, so a
 * process that begins when it likes gets another. */
static void refused(struct lw_kineto_job *job, struct lw_kineto_process *process)
{
    process->has_order = false;
    if (job->count > 1 || process->is_second) {
        lw_kineto_process_give_up(
            process, "took its order, but no window: a profiler of its own came "
                     "first, or it was too busy to begin in time; try again");
        return;
    }
    lw_kineto_job_say(job, "process %d did not begin in time; it gets another order",
                      (int)process->pid);
    process->is_second = true;
    lw_kineto_process_enter(process, LW_KINETO_WAITING);
}

/* PROCESS has asked. */
static void hear(struct lw_kineto_job *job, struct lw_kineto_process *process,
                 const struct lw_kineto_message *message)
{
    bool was_busy = process->is_busy;
    bool is_begun;

    process->heard_ns = lw_clock_ns();
    process->is_busy = !message->is_idle;
    if (process->state == LW_KINETO_WAITING && message->is_idle) {
        if (is_in_time(job)) {
            order(job, process, message);
            return;
        }
        lw_kineto_process_give_up(
            process, "asked too late for the common start, and is left out");
    } else if (process->state == LW_KINETO_WAITING && !was_busy) {
        lw_kineto_job_say(
            job, "process %d has a profiler of its own running; waiting for its end",
            (int)process->pid);
    } else if (process->state == LW_KINETO_ORDERED && message->is_idle &&
               job->window.iterations == 0 &&
               process->heard_ns > expected_end(job, process) + 3 * job->tick_ns) {
        /* While it takes the window and writes it, it is not idle. */
        if (!lw_kineto_process_find_trace(process, &is_begun) && !is_begun)
            refused(job, process);
    }
    if (!lw_kineto_daemon_answer(&job->daemon, message, NULL, 0)) {
        /* It asks again. */
    }
}

static void hear_all(struct lw_kineto_job *job)
{
    struct lw_kineto_message message;

    for (int n = 0; n < HEAR_MAX && lw_kineto_daemon_next(&job->daemon, &message);
         n++) {
        struct lw_kineto_process *process = NULL;

        for (size_t i = 0; i < job->count; i++)
            if (message.pid > 0 && job->processes[i].pid == message.pid &&
                !lw_kineto_process_has_ended(&job->processes[i]))
                process = &job->processes[i];
        if (process && message.kind == LW_KINETO_REQUEST)
            hear(job, process, &message);
        /* Other jobs on the machine ask too; theirs is nothing to do. */
        else if (!lw_kineto_daemon_answer(&job->daemon, &message, NULL, 0)) {
            /* It asks again. */
        }
    }
}

/* ---- how far ------------------------------------------------------------------------ */

static bool is_stopped(pid_t pid)
{
    struct lw_os_process about;

    return lw_os_process(pid, &about, NULL) &&
           (about.state == 'T' || about.state == 't');
}

/* PROCESS has said nothing for too long. */
static void fall_silent(struct lw_kineto_process *process, uint64_t silence_ns)
{
    if (is_stopped(process->pid))
        lw_kineto_process_give_up(
            process, "is stopped, and does not ask: let it go on (kill -CONT %d)",
            (int)process->pid);
    else
        lw_kineto_process_give_up(
            process,
            "has not asked for %d s, though its torch should: is it at an "
            "end, or does KINETO_CONFIG say how often?",
            (int)(silence_ns / SECOND));
}

static void look_waiting(struct lw_kineto_job *job, struct lw_kineto_process *process,
                         uint64_t now_ns)
{
    uint64_t waited_ns = now_ns - process->since_ns;

    if (process->heard_ns == 0 && waited_ns > job->silence_ns)
        fall_silent(process, job->silence_ns);
    else if (process->heard_ns > 0 && waited_ns > job->busy_ns)
        lw_kineto_process_give_up(
            process,
            "has had a profiler of its own running for %d s: try again when "
            "that is over",
            (int)(job->busy_ns / SECOND));
}

static void look_ordered(struct lw_kineto_job *job, struct lw_kineto_process *process,
                         uint64_t now_ns)
{
    bool is_begun;

    if (lw_kineto_process_find_trace(process, &is_begun) || is_begun)
        return; /* if it writes, that takes what it takes */
    if (job->window.iterations > 0) {
        if (!process->is_busy && now_ns - process->since_ns > job->step_ns)
            lw_kineto_process_give_up(
                process,
                "has made no step of a torch optimizer in %d s, which is "
                "what --iterations counts; --duration needs none",
                (int)(job->step_ns / SECOND));
    } else if (now_ns > expected_end(job, process) + job->silence_ns &&
               now_ns - process->heard_ns > job->silence_ns) {
        fall_silent(process, job->silence_ns);
    }
}

bool lw_kineto_job_work(struct lw_kineto_job *job)
{
    bool goes_on = false;

    if (job->asking_count > 0)
        hear_all(job);
    for (size_t i = 0; i < job->count; i++) {
        struct lw_kineto_process *process = &job->processes[i];
        bool ended = lw_kineto_process_has_ended(process);

        if (process->recorder && process->state < LW_KINETO_DONE)
            lw_kineto_recorded_look(job, process, lw_clock_ns());
        else if (process->state == LW_KINETO_WAITING)
            look_waiting(job, process, lw_clock_ns());
        else if (process->state == LW_KINETO_ORDERED)
            look_ordered(job, process, lw_clock_ns());
        /* The look was after its end, so a trace that is not whole never will be. */
        if (ended && process->state < LW_KINETO_DONE)
            lw_kineto_process_give_up(process, "ended before its window was over");
        goes_on |= process->state < LW_KINETO_DONE;
    }
    return goes_on;
}

bool lw_kineto_job_is_ordered(const struct lw_kineto_job *job, size_t index)
{
    const struct lw_kineto_process *process = &job->processes[index];

    return process->has_order && !lw_kineto_process_has_ended(process);
}
