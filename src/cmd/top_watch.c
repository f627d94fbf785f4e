#include "cmd/top_watch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "recorder/facts.h"
#include "recorder/proc_text.h"

#define LOOK_NS 500000000ull
/* A thread that the last samples of its process lack has ended. */
#define ALIVE_NS 100000000ull
#define STAT_BYTES 4096 /* /proc/PID/stat has some 300 */

/* Processes */

static void forget_process(struct lw_watch *watch, size_t index)
{
    struct lw_watched_process *process = &watch->processes[index];

    if (process->sampled)
        lw_sampler_remove(watch->sampler, process->sampled);
    lw_free(process->threads);
    watch->process_count--;
    memmove(process, process + 1, (watch->process_count - index) * sizeof(*process));
    lw_family_remove(&watch->family, index);
}

/* What of the process is for the header, if it is the first. */
static void describe(struct lw_watch *watch, const struct lw_target *target)
{
    if (watch->status.pid)
        return;
    watch->status.pid = target->pid;
    lw_layout_add_version(&watch->python, &target->layout);
}

/* Try to sample the process; one that is not Python may become so. */
static bool try_process(struct lw_watch *watch, size_t index, struct lw_error *err)
{
    struct lw_watched_process *process = &watch->processes[index];
    pid_t pid = watch->family.members[index].pid;
    struct lw_target *target;

    process->image = lw_facts_image(pid);
    process->thread_count = 0;
    target = lw_target_open(pid, -1, err);
    if (!target)
        return false;
    describe(watch, target);
    process->sampled = lw_sampler_add(watch->sampler, target, err);
    return process->sampled != NULL;
}

static bool keep_up_with_family(struct lw_watch *watch, struct lw_error *err)
{
    if (!watch->no_children && !lw_family_grow(&watch->family, err))
        return false;
    if (!lw_grow(&watch->processes, &watch->process_capacity, watch->family.count + 1,
                 sizeof(*watch->processes), err))
        return false;
    while (watch->process_count < watch->family.count)
        watch->processes[watch->process_count++] = (struct lw_watched_process){ 0 };
    return true;
}

/* Those that ended go, those that became another program are tried again. */
static bool look_at_processes(struct lw_watch *watch, struct lw_error *err)
{
    if (!keep_up_with_family(watch, err))
        return false;
    for (size_t i = watch->process_count; i-- > 0;) {
        struct lw_watched_process *process = &watch->processes[i];
        uint64_t image = lw_facts_image(watch->family.members[i].pid);
        struct lw_error problem = { LW_OK, "" };

        if (process->sampled && lw_sampled_lives(watch->sampler, process->sampled))
            continue;
        if (process->sampled)
            lw_sampler_remove(watch->sampler, process->sampled);
        process->sampled = NULL;
        if (image == 0)
            forget_process(watch, i);
        else if (image != process->image && !try_process(watch, i, &problem) &&
                 problem.code == LW_ERR_NOMEM)
            return lw_fail(err, LW_ERR_NOMEM, "%s", problem.text);
    }
    return true;
}

/* What they take */

static bool read_stat(pid_t pid, struct lw_proc_stat *stat)
{
    struct lw_file_view view = { 0 };
    char path[64];
    bool done;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!lw_file_read(&view, path, STAT_BYTES, NULL))
        return false;
    done = lw_proc_stat_read(stat,
                             (struct lw_piece){ (const char *)view.bytes, view.len });
    lw_file_close(&view);
    return done;
}

static void look_at_use(struct lw_watch *watch, double seconds)
{
    uint64_t ticks = 0, pages = 0;

    for (size_t i = 0; i < watch->process_count; i++) {
        struct lw_watched_process *process = &watch->processes[i];
        struct lw_proc_stat stat;
        uint64_t used;

        if (!process->sampled || !read_stat(watch->family.members[i].pid, &stat))
            continue;
        used = stat.user_ticks + stat.system_ticks;
        if (process->has_cpu && used > process->cpu_ticks)
            ticks += used - process->cpu_ticks;
        process->cpu_ticks = used;
        process->has_cpu = true;
        pages += stat.rss_pages;
    }
    watch->status.rss_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    if (seconds > 0)
        watch->status.cpu_share =
            (double)ticks / (double)sysconf(_SC_CLK_TCK) / seconds;
}

static bool look(struct lw_watch *watch, uint64_t now_ns, struct lw_error *err)
{
    double seconds = watch->looked_ns ? (double)(now_ns - watch->looked_ns) / 1e9 : 0;
    struct lw_sampler_counts counts = lw_sampler_counts(watch->sampler);
    struct lw_top_status *status = &watch->status;

    if (!look_at_processes(watch, err))
        return false;
    look_at_use(watch, seconds);
    status->rounds = counts.taken;
    status->late = counts.late;
    status->missed = counts.missed;
    if (seconds > 0)
        status->rate_real = (double)(counts.taken - watch->counts.taken) / seconds;
    watch->counts = counts;
    watch->looked_ns = now_ns;
    return true;
}

/* Samples */

/* The frames of STACK, root first, into watch->frames; a note that the leaf is not known
 * is not one of them. */
static bool find_frames(struct lw_watch *watch, const struct lw_sample_log *log,
                        lw_stack_id stack, struct lw_top_sample *sample,
                        struct lw_error *err)
{
    size_t count = 0, ignored;
    const struct lw_frame *frames = lw_stacks_frames(log->stacks, &ignored);
    const struct lw_stack *stacks = lw_stacks_list(log->stacks, &ignored);

    sample->is_moving = stacks[stack].frame == log->moving_frame;
    if (sample->is_moving)
        stack = stacks[stack].parent;
    for (lw_stack_id s = stack; s != LW_NO_STACK; s = stacks[s].parent)
        count++;
    if (!lw_grow(&watch->frames, &watch->frame_capacity, count + 1,
                 sizeof(*watch->frames), err))
        return false;
    sample->frames = watch->frames;
    sample->frame_count = count;
    for (; stack != LW_NO_STACK; stack = stacks[stack].parent) {
        const struct lw_frame *frame = &frames[stacks[stack].frame];

        watch->frames[--count] = (struct lw_top_frame){
            .name = lw_strings_text(log->strings, frame->name),
            .file = lw_strings_text(log->strings, frame->file),
            .name_len = lw_strings_len(log->strings, frame->name),
            .file_len = lw_strings_len(log->strings, frame->file),
            .first_line = frame->first_line,
            .line = frame->line,
        };
    }
    return true;
}

static bool find_threads(struct lw_watched_process *process, pid_t pid,
                         const struct lw_sample_log *log, struct lw_top *top,
                         struct lw_error *err)
{
    if (!lw_grow(&process->threads, &process->thread_capacity, log->thread_count + 1,
                 sizeof(*process->threads), err))
        return false;
    for (; process->thread_count < log->thread_count; process->thread_count++) {
        const struct lw_sampled_thread *thread = &log->threads[process->thread_count];

        if (!lw_top_thread(top, pid, (pid_t)thread->tid, thread->name,
                           &process->threads[process->thread_count], err))
            return false;
    }
    return true;
}

static unsigned count_alive(const struct lw_sample_log *log)
{
    uint64_t newest_ns = 0;
    unsigned count = 0;

    for (size_t i = 0; i < log->thread_count; i++)
        if (log->threads[i].last_ns > newest_ns)
            newest_ns = log->threads[i].last_ns;
    for (size_t i = 0; i < log->thread_count; i++)
        count += newest_ns - log->threads[i].last_ns < ALIVE_NS;
    return count;
}

static bool take_samples(struct lw_watch *watch, size_t index, struct lw_top *top,
                         struct lw_error *err)
{
    struct lw_watched_process *process = &watch->processes[index];
    struct lw_sample_log *log = lw_sampled_lock(watch->sampler, process->sampled);
    bool done = find_threads(process, watch->family.members[index].pid, log, top, err);

    for (size_t i = 0; done && i < log->sample_count; i++) {
        const struct lw_sample *taken = &log->samples[i];
        struct lw_top_sample sample = { .thread = process->threads[taken->thread],
                                        .state = taken->state,
                                        .weight_ns = taken->weight_ns };

        done = find_frames(watch, log, taken->stack, &sample, err) &&
               lw_top_add(top, &sample, err);
    }
    log->sample_count = 0;
    watch->status.threads += count_alive(log);
    lw_sampled_unlock(watch->sampler);
    return done;
}

/* First what those did who may have ended since, then who is there. */
bool lw_watch_take(struct lw_watch *watch, struct lw_top *top, uint64_t now_ns,
                   struct lw_error *err)
{
    struct lw_top_status *status = &watch->status;

    status->threads = 0;
    for (size_t i = 0; i < watch->process_count; i++)
        if (watch->processes[i].sampled && !take_samples(watch, i, top, err))
            return false;
    if (now_ns - watch->looked_ns >= LOOK_NS && !look(watch, now_ns, err))
        return false;
    status->processes = 0;
    for (size_t i = 0; i < watch->process_count; i++)
        status->processes += watch->processes[i].sampled != NULL;
    status->has_ended = status->processes == 0;
    return true;
}

/* Start and end */

static bool try_all(struct lw_watch *watch, struct lw_error *err)
{
    struct lw_error problem = { LW_OK, "" }, first = { LW_OK, "" };

    if (!keep_up_with_family(watch, err))
        return false;
    for (size_t i = 0; i < watch->process_count; i++) {
        if (try_process(watch, i, &problem))
            continue;
        if (!first.code)
            first = problem;
        if (problem.code == LW_ERR_NOMEM ||
            (watch->family.members[i].is_asked && problem.code != LW_ERR_UNSUPPORTED))
            return lw_fail(err, problem.code, "%s", problem.text);
    }
    return watch->status.pid || lw_fail(err, first.code, "%s", first.text);
}

bool lw_watch_start(struct lw_watch *watch, const struct lw_watch_options *options,
                    char **words, int count, struct lw_error *err)
{
    struct lw_sampler_options how = { .rate = options->rate,
                                      .pause = options->pause,
                                      .native = options->native };

    *watch = (struct lw_watch){ .no_children = options->no_children,
                                .family.all_users = options->all_users };
    lw_buf_init(&watch->command, 0);
    lw_buf_init(&watch->python, 0);
    if (!lw_family_add(&watch->family, "top", words, count, err))
        return false;
    watch->sampler = lw_sampler_start(&how, err);
    if (!watch->sampler || !try_all(watch, err) ||
        !lw_facts_add_command_of(&watch->command, watch->status.pid, err) ||
        !lw_buf_check(&watch->python, err))
        return false;
    watch->status.command = watch->command.len ? watch->command.bytes : "";
    watch->status.python = watch->python.bytes;
    watch->status.rate_asked = options->rate;
    watch->status.cpu_share = -1;
    return look(watch, lw_clock_ns(), err);
}

void lw_watch_release(struct lw_watch *watch)
{
    for (size_t i = 0; i < watch->process_count; i++)
        lw_free(watch->processes[i].threads);
    lw_sampler_stop(watch->sampler);
    lw_free(watch->processes);
    lw_free(watch->frames);
    lw_family_release(&watch->family);
    lw_buf_release(&watch->command);
    lw_buf_release(&watch->python);
    *watch = (struct lw_watch){ 0 };
}
