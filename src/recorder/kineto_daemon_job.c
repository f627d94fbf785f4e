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
    };
}

static void release_process(struct lw_kineto_process *process, bool is_ordered)
{
    if (process->pid_fd >= 0)
        close(process->pid_fd);
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

LW_PRINTF(2, 3)
static void say(const struct lw_kineto_job *job, const char *format, ...)
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

static bool add_client(struct lw_kineto_job *job, pid_t pid,
                       struct lw_kineto_client *client, struct lw_error *err)
{
    struct lw_kineto_process process = { .pid = pid, .inode = client->inode };

    if (!lw_kineto_client_is_near(pid, client, err))
        return false;
    if (job->count > 0 && !is_same_text(client->folder, job->daemon_folder))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "processes %d and %d look for their daemon at different places "
                       "(KINETO_IPC_SOCKET_DIR): attach to one at a time",
                       (int)job->processes[0].pid, (int)pid);
    if (!lw_grow(&job->processes, &job->capacity, job->count + 1, sizeof(process), err))
        return false;
    process.pid_fd = pidfd_open(pid, 0);
    if (process.pid_fd < 0)
        return lw_fail_errno(err, "process %d", (int)pid);
    if (!lw_kineto_folder_make(pid, &process.folder, err)) {
        close(process.pid_fd);
        return false;
    }
    if (job->count == 0) {
        job->daemon_folder = client->folder;
        client->folder = NULL;
    }
    job->processes[job->count++] = process;
    return true;
}

bool lw_kineto_job_add(struct lw_kineto_job *job, pid_t pid, bool *added,
                       struct lw_error *err)
{
    struct lw_kineto_client client;
    bool done;

    *added = false;
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

bool lw_kineto_job_open(struct lw_kineto_job *job, struct lw_error *err)
{
    uint64_t ahead_ns = job->ask_ns + 2 * job->tick_ns +
                        job->window.warmup_s * SECOND; /* till all have asked */

    if (!lw_kineto_daemon_open(&job->daemon, job->daemon_folder, err))
        return false;
    job->began_ns = lw_clock_ns();
    if (job->count > 1 && job->window.iterations == 0) {
        job->start_ns = job->began_ns + ahead_ns;
        job->window.start_ms = (lw_clock_wall_ns() + ahead_ns) / MS;
    }
    for (size_t i = 0; i < job->count; i++)
        job->processes[i].since_ns = job->began_ns;
    if (job->count == 1)
        say(job, "waiting for process %d to ask, as it does every %d s",
            (int)job->processes[0].pid, (int)(job->ask_ns / SECOND));
    else
        say(job, "waiting for %zu processes to ask, as they do every %d s", job->count,
            (int)(job->ask_ns / SECOND));
    return true;
}

/* ---- orders ------------------------------------------------------------------------- */

static void enter(struct lw_kineto_process *process, enum lw_kineto_state state)
{
    process->state = state;
    process->since_ns = lw_clock_ns();
}

LW_PRINTF(2, 3)
static void give_up(struct lw_kineto_process *process, const char *format, ...)
{
    char text[sizeof(process->why.text)];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    lw_fail(&process->why, LW_ERR_IO, "process %d %s", (int)process->pid, text);
    enter(process, LW_KINETO_FAILED);
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
    char *file = lw_path_join(process->folder.inside, TRACE_NAME, NULL);

    lw_buf_init(&text, 0);
    if (file)
        lw_kineto_window_add_order(&text, &job->window, file);
    if (file && lw_buf_check(&text, NULL) &&
        lw_kineto_daemon_answer(&job->daemon, message, text.bytes, text.len)) {
        enter(process, LW_KINETO_ORDERED);
        process->has_order = true;
        if (job->window.iterations > 0)
            say(job, "process %d has its order: %llu iterations from its next one on",
                (int)process->pid, (unsigned long long)job->window.iterations);
        else
            say(job, "process %d has its order: %.3g s of its time, in %.1f s",
                (int)process->pid, (double)job->window.duration_ms / 1e3,
                (double)(expected_end(job, process) - job->window.duration_ms * MS -
                         lw_clock_ns()) /
                    1e9);
    }
    lw_buf_release(&text);
    lw_free(file);
}

static bool has_ended(const struct lw_kineto_process *process)
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

/* Look for the trace of PROCESS: if it is whole, PROCESS is done. *IS_BEGUN: there is at
 * least a part of it. */
static bool find_trace(struct lw_kineto_process *process, bool *is_begun)
{
    bool is_last_look = has_ended(process);
    DIR *folder = opendir(process->folder.path);
    const struct dirent *entry;

    *is_begun = false;
    while (folder && !process->trace && (entry = readdir(folder))) {
        int fd;

        if (entry->d_name[0] == '.')
            continue;
        *is_begun = true;
        if (!lw_text_ends(entry->d_name, ".json"))
            continue;
        fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && is_whole(process, fd, is_last_look))
            process->trace = lw_path_join(process->folder.path, entry->d_name, NULL);
        if (fd >= 0)
            close(fd);
    }
    if (folder)
        closedir(folder);
    if (process->trace) {
        process->has_order = false;
        enter(process, LW_KINETO_DONE);
    }
    return process->trace != NULL;
}

/* An order came to nothing. Kineto may drop one that it looks at a moment too late, so a
 * process that begins when it likes gets another. */
static void refused(struct lw_kineto_job *job, struct lw_kineto_process *process)
{
    process->has_order = false;
    if (job->count > 1 || process->is_second) {
        give_up(process, "took its order, but no window: a profiler of its own came "
                         "first, or it was too busy to begin in time; try again");
        return;
    }
    say(job, "process %d did not begin in time; it gets another order",
        (int)process->pid);
    process->is_second = true;
    enter(process, LW_KINETO_WAITING);
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
        give_up(process, "asked too late for the common start, and is left out");
    } else if (process->state == LW_KINETO_WAITING && !was_busy) {
        say(job, "process %d has a profiler of its own running; waiting for its end",
            (int)process->pid);
    } else if (process->state == LW_KINETO_ORDERED && message->is_idle &&
               job->window.iterations == 0 &&
               process->heard_ns > expected_end(job, process) + 3 * job->tick_ns) {
        /* While it takes the window and writes it, it is not idle. */
        if (!find_trace(process, &is_begun) && !is_begun)
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
                !has_ended(&job->processes[i]))
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
        give_up(process, "is stopped, and does not ask: let it go on (kill -CONT %d)",
                (int)process->pid);
    else
        give_up(process,
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
        give_up(process,
                "has had a profiler of its own running for %d s: try again when "
                "that is over",
                (int)(job->busy_ns / SECOND));
}

static void look_ordered(struct lw_kineto_job *job, struct lw_kineto_process *process,
                         uint64_t now_ns)
{
    bool is_begun;

    if (find_trace(process, &is_begun) || is_begun)
        return; /* if it writes, that takes what it takes */
    if (job->window.iterations > 0) {
        if (!process->is_busy && now_ns - process->since_ns > job->step_ns)
            give_up(process,
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

    hear_all(job);
    for (size_t i = 0; i < job->count; i++) {
        struct lw_kineto_process *process = &job->processes[i];
        bool ended = has_ended(process);

        if (process->state == LW_KINETO_WAITING)
            look_waiting(job, process, lw_clock_ns());
        else if (process->state == LW_KINETO_ORDERED)
            look_ordered(job, process, lw_clock_ns());
        /* The look was after its end, so a trace that is not whole never will be. */
        if (ended && process->state < LW_KINETO_DONE)
            give_up(process, "ended before its window was over");
        goes_on |= process->state < LW_KINETO_DONE;
    }
    return goes_on;
}

bool lw_kineto_job_is_ordered(const struct lw_kineto_job *job, size_t index)
{
    const struct lw_kineto_process *process = &job->processes[index];

    return process->has_order && !has_ended(process);
}
