/* The recorder's loop body: hellos, deaths, looks, and keeping to the size. */

#include "recorder/recorder.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "lap/thin.h"
#include "lap/traces.h"
#include "recorder/processes.h"

#define MS 1000000ull

/* At most 100 ms shall be lost when we are killed: a look every 50 leaves as much again
 * for the look itself and the disk. */
#define TICK_NS (50 * MS)
#define TICK_LEAST_NS (5 * MS) /* when rings fill quickly */
/* Reading large trees may take this share of the time, no more; time that was not used
 * is saved up, for when a tree grows all at once. */
#define SCAN_SHARE 0.05
#define SCAN_SAVED_NS (25 * MS)

/* How often the size is looked at; where a second's worth is a large part of the whole,
 * more often. */
#define THIN_NS (1000 * MS)
#define THIN_SMALL_NS (100 * MS)
#define THIN_SMALL_BYTES (64u << 20)

/* What an epoll event is about: a process by its number, or one of these. */
enum { EVENT_TIMER = 0, EVENT_HELLO = UINT32_MAX };

/* ---- opening ----------------------------------------------------------------------- */

static bool wait_on(struct lw_recorder *recorder, int fd, uint32_t events,
                    uint32_t what)
{
    struct epoll_event event = { .events = events, .data.u32 = what };

    return epoll_ctl(recorder->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void set_timer(struct lw_recorder *recorder, uint64_t in_ns)
{
    struct itimerspec when = { .it_value = { (time_t)(in_ns / 1000000000u),
                                             (long)(in_ns % 1000000000u) } };

    timerfd_settime(recorder->timer_fd, 0, &when, NULL);
}

void lw_recorder_init(struct lw_recorder *recorder)
{
    memset(recorder, 0, sizeof(*recorder));
    recorder->fd = recorder->timer_fd = -1;
    recorder->listener.fd = recorder->listener.socket_fd = -1;
    recorder->child_exit_code = -1;
}

static bool start_sampler(struct lw_recorder *recorder,
                          const struct lw_recorder_options *options,
                          struct lw_error *err)
{
    const struct lw_sampler_options sampler = {
        .rate = options->sample_rate,
        .pause = options->sample_pause,
        .native = options->sample_native,
    };

    recorder->sampler = lw_sampler_start(&sampler, err);
    return recorder->sampler != NULL;
}

bool lw_recorder_open(struct lw_recorder *recorder,
                      const struct lw_recorder_options *options, struct lw_error *err)
{
    lw_recorder_init(recorder);
    lw_file_raise_limit();
    recorder->max_bytes = options->max_bytes;
    recorder->is_attached = options->is_attached;
    recorder->sample_rate = options->sample_rate;
    recorder->sample_pause = options->sample_pause;
    recorder->tick_ns = TICK_NS;
    recorder->last_look_ns = lw_clock_ns();
    lw_calibration_init(&recorder->calibration);
    recorder->has_run = true;
    if (!lw_run_create(&recorder->run, options->path, NULL, options->program, err)) {
        lw_recorder_release(recorder);
        return false;
    }
    if (!lw_listener_open(&recorder->listener, err) ||
        (options->system && !(recorder->system = lw_system_new(err))) ||
        (options->sample_rate > 0 && !start_sampler(recorder, options, err)))
        goto fail;
    lw_listener_show_run(&recorder->listener, &recorder->run.folder);
    recorder->fd = epoll_create1(EPOLL_CLOEXEC);
    recorder->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (recorder->fd < 0 || recorder->timer_fd < 0 ||
        !wait_on(recorder, recorder->timer_fd, EPOLLIN, EVENT_TIMER) ||
        !wait_on(recorder, recorder->listener.fd, EPOLLIN, EVENT_HELLO)) {
        lw_fail_errno(err, "cannot set up the recorder");
        goto fail;
    }
    set_timer(recorder, TICK_NS);
    return true;

fail:
    lw_recorder_discard(recorder);
    return false;
}

void lw_recorder_release(struct lw_recorder *recorder)
{
    lw_system_free(recorder->system);
    while (recorder->process_count > 0) {
        struct lw_watched_look look = lw_processes_look(recorder);

        if (!lw_watched_close(recorder->processes[--recorder->process_count], &look, -1,
                              NULL))
            recorder->unsaved_count++;
    }
    for (size_t i = 0; i < recorder->late_count; i++) {
        lw_hello_close(&recorder->late[i].hello);
        lw_free(recorder->late[i].text);
    }
    lw_free(recorder->late);
    lw_free(recorder->processes);
    lw_sampler_stop(recorder->sampler); /* its processes have let go of it */
    lw_follow_release(&recorder->follow);
    lw_listener_close(&recorder->listener);
    if (recorder->timer_fd >= 0)
        close(recorder->timer_fd);
    if (recorder->fd >= 0)
        close(recorder->fd);
    if (recorder->has_run)
        lw_run_close(&recorder->run);
    lw_recorder_init(recorder);
}

void lw_recorder_discard(struct lw_recorder *recorder)
{
    const char *path = recorder->run.path;
    char *folder = path ? lw_copy_text(path, strlen(path), NULL) : NULL;

    lw_recorder_release(recorder);
    if (folder && !lw_file_remove_folder(folder, NULL)) {
        /* Then it stays: an empty run. */
    }
    lw_free(folder);
}

/* ---- looks ------------------------------------------------------------------------- */

/* Traces cannot be thinned. They may have half of the room, and leave the segments the
 * rest; of more than that, the oldest go. Returns what they take then. */
static uint64_t keep_traces_to_size(struct lw_recorder *recorder)
{
    const char *path = recorder->run.path;
    uint64_t bytes = lw_traces_bytes(path), half = recorder->max_bytes / 2, dropped;

    if (bytes <= half)
        return bytes;
    dropped = lw_traces_drop(path, bytes - half);
    if (dropped > 0 &&
        !lw_run_info_add_loss(&recorder->run.info,
                              "windows of torch's profiler were removed to keep to "
                              "--max-size",
                              "windows", dropped, NULL))
        recorder->unsaved_count++;
    return dropped > 0 ? lw_traces_bytes(path) : bytes;
}

/* Twice what came since the last look may come until the next. */
static uint64_t room_to_grow(const struct lw_recorder *recorder, uint64_t bytes)
{
    uint64_t grown =
        bytes > recorder->thinned_bytes ? bytes - recorder->thinned_bytes : 0;

    return grown < recorder->max_bytes / 8 ? 2 * grown : recorder->max_bytes / 4;
}

static void keep_to_size(struct lw_recorder *recorder, bool is_at_end)
{
    const char *path = recorder->run.path;
    uint64_t max = recorder->max_bytes, traces, bytes, limit;

    if (max == 0)
        return;
    traces = keep_traces_to_size(recorder);
    bytes = lw_lap_bytes(path);
    limit = max - (traces < max / 2 ? traces : max / 2);
    if (!is_at_end)
        limit -= room_to_grow(recorder, bytes);
    if (bytes <= limit || lw_lap_thin(path, limit, &bytes, NULL))
        recorder->is_over_size = bytes + traces > max;
    recorder->thinned_bytes = bytes;
}

static void keep_to_size_if_due(struct lw_recorder *recorder, uint64_t now_ns)
{
    if (now_ns < recorder->next_thin_ns)
        return;
    recorder->next_thin_ns =
        now_ns + (recorder->max_bytes < THIN_SMALL_BYTES ? THIN_SMALL_NS : THIN_NS);
    keep_to_size(recorder, false);
}

/* Sooner if a ring was more than a quarter full, later if hardly anything was in it. */
static uint64_t next_tick(uint64_t tick_ns, double fill)
{
    if (fill > 0.25)
        tick_ns /= 2;
    else if (fill < 0.06)
        tick_ns *= 2;
    if (tick_ns < TICK_LEAST_NS)
        return TICK_LEAST_NS;
    return tick_ns < TICK_NS ? tick_ns : TICK_NS;
}

static void close_those_over(struct lw_recorder *recorder)
{
    for (size_t i = recorder->process_count; i-- > 0;) {
        const struct lw_watched *watched = recorder->processes[i];

        if (!lw_watched_is_over(watched))
            continue;
        if ((pid_t)watched->pid == recorder->asked_by)
            recorder->is_over = true;
        lw_processes_close(recorder, i);
    }
}

static void look_at_system(struct lw_recorder *recorder)
{
    struct lw_system_guest *guests =
        recorder->system
            ? lw_alloc((recorder->process_count + 1) * sizeof(*guests), NULL)
            : NULL;
    size_t count = 0;

    if (!guests)
        return;
    for (size_t i = 0; i < recorder->process_count; i++) {
        const struct lw_watched *watched = recorder->processes[i];

        if (!watched->death_ns)
            guests[count++] =
                (struct lw_system_guest){ { watched->number, (pid_t)watched->pid },
                                          watched->writer };
    }
    lw_system_look(recorder->system, guests, count);
    lw_free(guests);
}

/* Every process in turn, beginning with another each time, so that none always finds the
 * budget spent. */
static void look_at_all(struct lw_recorder *recorder)
{
    struct lw_watched_look look = lw_processes_look(recorder);
    uint64_t start_ns = lw_clock_ns(), took_ns;
    uint64_t earned_ns =
        (uint64_t)((double)(start_ns - recorder->last_look_ns) * SCAN_SHARE);
    size_t first =
        recorder->process_count ? recorder->turn++ % recorder->process_count : 0;
    double fullest = 0;

    recorder->last_look_ns = start_ns;
    recorder->budget_ns += earned_ns;
    if (recorder->budget_ns > SCAN_SAVED_NS)
        recorder->budget_ns = SCAN_SAVED_NS;
    look.budget_ns = &recorder->budget_ns;
    look_at_system(recorder);
    for (size_t i = 0; i < recorder->process_count; i++) {
        size_t turn = (first + i) % recorder->process_count;
        struct lw_watched *watched = recorder->processes[turn];
        double fill;

        if (watched->death_ns)
            continue;
        if (!lw_watched_read(watched, &look, &fill, &recorder->trouble)) {
            /* Told again by the next look. */
        }
        fullest = fill > fullest ? fill : fullest;
    }
    close_those_over(recorder);
    lw_processes_find_dead(recorder);
    lw_processes_bury(recorder);
    lw_follow_look(recorder, start_ns);
    lw_processes_greet_late(recorder, false);
    keep_to_size_if_due(recorder, start_ns);
    recorder->tick_ns = next_tick(recorder->tick_ns, fullest);
    took_ns = lw_clock_ns() - start_ns;
    set_timer(recorder, took_ns < recorder->tick_ns ? recorder->tick_ns - took_ns : MS);
}

void lw_recorder_hurry(struct lw_recorder *recorder)
{
    recorder->tick_ns = TICK_LEAST_NS;
    set_timer(recorder, TICK_LEAST_NS);
}

void lw_recorder_work(struct lw_recorder *recorder)
{
    struct epoll_event events[64];
    int count = epoll_wait(recorder->fd, events, 64, 0);
    bool is_due = false;

    for (int i = 0; i < count; i++) {
        uint32_t what = events[i].data.u32;
        uint64_t ticks;

        if (what == EVENT_TIMER)
            is_due = read(recorder->timer_fd, &ticks, sizeof(ticks)) > 0 || is_due;
        else if (what != EVENT_HELLO)
            lw_processes_died(recorder, what);
    }
    if (lw_processes_take_hellos(recorder) || is_due)
        look_at_all(recorder);
    else
        lw_processes_bury(recorder);
    if (recorder->has_more_hellos)
        set_timer(recorder, MS);
}

void lw_recorder_ended(struct lw_recorder *recorder, pid_t pid, int exit_code)
{
    recorder->child_pid = pid;
    recorder->child_exit_code = exit_code;
    lw_processes_take_last_hellos(recorder); /* its own may still be waiting */
    for (size_t i = recorder->process_count; i-- > 0;) {
        if ((pid_t)recorder->processes[i]->pid == pid)
            lw_processes_close(recorder, i);
    }
}

/* ---- the end ----------------------------------------------------------------------- */

/* Those of whose death we have not heard yet are not "still running". */
static void close_those_dead(struct lw_recorder *recorder)
{
    lw_processes_find_dead(recorder);
    for (size_t i = recorder->process_count; i-- > 0;) {
        const struct lw_watched *watched = recorder->processes[i];
        struct pollfd pollfd = { watched->pid_fd, POLLIN, 0 };

        if (!watched->death_ns && watched->pid_fd >= 0 && poll(&pollfd, 1, 0) > 0)
            lw_processes_died(recorder, watched->number);
        if (watched->death_ns)
            lw_processes_close(recorder, i);
    }
}

static bool set_number(struct lw_run_info *info, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return lw_run_info_set_fact(info, key, text, NULL);
}

/* How well the sampler kept to its times. */
static void note_sampling(struct lw_recorder *recorder)
{
    struct lw_run_info *info = &recorder->run.info;
    struct lw_sampler_counts counts;

    if (!recorder->sampler)
        return;
    counts = lw_sampler_counts(recorder->sampler);
    if (!set_number(info, "sample_rate", (uint64_t)recorder->sample_rate) ||
        !set_number(info, "samples_taken", counts.taken) ||
        !set_number(info, "samples_late", counts.late) ||
        (counts.interrupted > 0 &&
         !set_number(info, "samples_interrupted", counts.interrupted)) ||
        (counts.stops > 0 &&
         (!set_number(info, "samples_stops", counts.stops) ||
          !set_number(info, "samples_longest_stop_ns", counts.longest_stop_ns))) ||
        (recorder->sample_pause && counts.stop_misses > 0 &&
         !lw_run_info_add_loss(info,
                               "a thread did not stop in time and was read running",
                               "stops", counts.stop_misses, NULL)) ||
        (recorder->sample_pause && counts.stop_refusals > 0 &&
         !lw_run_info_add_loss(info,
                               "a thread could not be stopped (does a debugger hold "
                               "it?) and was read running",
                               "stops", counts.stop_refusals, NULL)) ||
        (counts.missed > 0 &&
         !lw_run_info_add_loss(info, "not taken, the processors were busy", "samples",
                               counts.missed, NULL)))
        recorder->unsaved_count++;
}

/* Windows of torch's profiler, whose processes are gone or on their own from now. */
static void finish_traces(struct lw_recorder *recorder)
{
    uint64_t cut;

    if (!lw_traces_finish(recorder->run.path, &cut, &recorder->trouble))
        recorder->unsaved_count++;
    if (cut > 0 &&
        !lw_run_info_add_loss(&recorder->run.info,
                              "a program ended while torch wrote a window of its "
                              "profiler, which is lost",
                              "windows", cut, NULL))
        recorder->unsaved_count++;
}

bool lw_recorder_finish(struct lw_recorder *recorder, struct lw_error *err)
{
    struct lw_run_info *info = &recorder->run.info;
    bool done;

    lw_processes_take_last_hellos(recorder);
    lw_run_free_reserve(&recorder->run);
    lw_processes_greet_late(recorder, true);
    close_those_dead(recorder);
    if (!recorder->is_attached)
        lw_processes_note_loss(recorder, "still running when the recording ended",
                               recorder->process_count);
    while (recorder->process_count > 0)
        lw_processes_close(recorder, recorder->process_count - 1);
    lw_processes_note_loss(recorder,
                           "could not be recorded: the recorder was stopped, or too "
                           "many came at once",
                           lw_listener_missed(&recorder->listener));
    finish_traces(recorder);
    keep_to_size(recorder, true);
    lw_processes_note_loss(recorder, "not all could be written",
                           recorder->unsaved_count);
    note_sampling(recorder);
    info->end_ns = lw_clock_ns();
    info->wall_end_ns = lw_clock_wall_ns();
    info->state = LW_RUN_FINISHED;
    done = lw_run_save(&recorder->run, err);
    if (done && recorder->unsaved_count > 0)
        done = lw_fail(err, LW_ERR_IO, "%s: not all could be written: %s",
                       recorder->run.path, recorder->trouble.text);
    return done;
}
