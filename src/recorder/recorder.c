/* The recorder's loop body: hellos, deaths, looks, and keeping to the size. */

#include "recorder/recorder.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "lap/thin.h"
#include "recorder/facts.h"

#define MS 1000000ull

/* At most 100 ms shall be lost when we are killed: a look every 50 leaves as much again
 * for the look itself and the disk. */
#define TICK_NS (50 * MS)
#define TICK_LEAST_NS (5 * MS) /* when rings fill quickly */
/* Reading large trees may take this share of the time, no more; time that was not used
 * is saved up, for when a tree grows all at once. */
#define SCAN_SHARE 0.05
#define SCAN_SAVED_NS (25 * MS)
#define LATE_MOST \
    1024 /* processes kept while the disk is full: some descriptors each */
#define THIN_NS (1000 * MS)
#define THIN_SMALL_NS \
    (100 * MS) /* where a second's worth is a large part of the whole */
#define THIN_SMALL_BYTES (64u << 20)

/* Segments a small share of the maximum, so that thinning has something to take. */
#define SEGMENTS_IN_MAX 16
#define SEGMENT_BYTES_LEAST (64u << 10)
#define SEGMENT_BYTES_MOST (8u << 20)

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

bool lw_recorder_open(struct lw_recorder *recorder,
                      const struct lw_recorder_options *options, struct lw_error *err)
{
    lw_recorder_init(recorder);
    recorder->max_bytes = options->max_bytes;
    recorder->tick_ns = TICK_NS;
    recorder->last_look_ns = lw_clock_ns();
    lw_calibration_init(&recorder->calibration);
    recorder->has_run = true;
    if (!lw_run_create(&recorder->run, options->path, NULL, options->program, err)) {
        lw_recorder_release(recorder);
        return false;
    }
    if (!lw_listener_open(&recorder->listener, err))
        goto fail;
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

static struct lw_watched_look make_look(struct lw_recorder *recorder)
{
    lw_calibration_look(&recorder->calibration);
    return (struct lw_watched_look){ .calibration = &recorder->calibration };
}

void lw_recorder_release(struct lw_recorder *recorder)
{
    while (recorder->process_count > 0) {
        struct lw_watched_look look = make_look(recorder);

        if (!lw_watched_close(recorder->processes[--recorder->process_count], &look, -1,
                              NULL))
            recorder->unsaved_count++;
    }
    for (size_t i = 0; i < recorder->late_count; i++) {
        close(recorder->late[i].region_fd);
        if (recorder->late[i].pid_fd >= 0)
            close(recorder->late[i].pid_fd);
        lw_free(recorder->late[i].text);
    }
    lw_free(recorder->late);
    lw_free(recorder->processes);
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

/* ---- processes --------------------------------------------------------------------- */

/* For what the report shall say; there is nobody to tell when even that fails. */
static void note_loss(struct lw_recorder *recorder, const char *cause, uint64_t count)
{
    if (count > 0 &&
        !lw_run_info_add_loss(&recorder->run.info, cause, "processes", count, NULL))
        recorder->unsaved_count++;
}

static void close_process(struct lw_recorder *recorder, size_t index,
                          struct lw_watched_look look, int exit_code)
{
    struct lw_watched *watched = recorder->processes[index];

    look.is_last = true;
    recorder->processes[index] = recorder->processes[--recorder->process_count];
    if (!lw_watched_close(watched, &look, exit_code, &recorder->trouble))
        recorder->unsaved_count++;
}

/* A process that says hello again has replaced itself (exec): what it was before ended
 * when the new region was made. */
static void close_predecessor(struct lw_recorder *recorder,
                              const struct lw_watched *now)
{
    for (size_t i = 0; i < recorder->process_count; i++) {
        struct lw_watched_look look = make_look(recorder);

        if (recorder->processes[i]->pid != now->pid)
            continue;
        if (recorder->processes[i]->shared.clock == now->shared.clock)
            look.end_ticks = now->shared.start_ticks;
        close_process(recorder, i, look, -1);
        return;
    }
}

/* A forked process starts as its parent's image, and may have become another program
 * before we came to look. */
static void inherit_image(const struct lw_recorder *recorder, struct lw_watched *child)
{
    if (!(child->shared.flags & LW_AGENT_FORKED))
        return;
    for (size_t i = 0; i < recorder->process_count; i++) {
        const struct lw_watched *watched = recorder->processes[i];

        if (watched->pid == child->shared.parent_pid && !watched->is_replaced)
            child->image = watched->image;
    }
}

static void set_python(struct lw_recorder *recorder, const char *version)
{
    struct lw_run_info *info = &recorder->run.info;

    if (version[0] == '\0' || lw_run_info_fact(info, "python"))
        return;
    if (!lw_run_info_set_fact(info, "python", version, NULL) ||
        !lw_run_save(&recorder->run, &recorder->trouble)) {
        /* run.json is saved again at the end. */
    }
}

static struct lw_watched *open_process(struct lw_recorder *recorder,
                                       struct lw_hello *hello, struct lw_error *err)
{
    struct lw_hello_text text;
    struct lw_watched_facts facts = { .pid = (uint64_t)hello->pid };
    struct lw_watched *watched = NULL;
    uint64_t segment_bytes = recorder->max_bytes / SEGMENTS_IN_MAX;

    if (segment_bytes > SEGMENT_BYTES_MOST || recorder->max_bytes == 0)
        segment_bytes = SEGMENT_BYTES_MOST;
    if (segment_bytes < SEGMENT_BYTES_LEAST)
        segment_bytes = SEGMENT_BYTES_LEAST;
    facts.segment_bytes = segment_bytes;
    if (lw_facts_read_hello(&text, hello->text, hello->text_len, err)) {
        facts.command = text.command.bytes;
        facts.python = text.python;
        facts.rank = lw_facts_rank(hello->pid);
        set_python(recorder, text.python);
        watched = lw_watched_open(recorder->run.path, recorder->last_number + 1,
                                  hello->region_fd, hello->pid_fd, &facts, err);
        if (watched)
            hello->pid_fd = -1;
    }
    lw_buf_release(&text.command);
    return watched;
}

static int exit_code_of(const struct lw_recorder *recorder, uint64_t pid)
{
    return (pid_t)pid == recorder->child_pid ? recorder->child_exit_code : -1;
}

static void follow(struct lw_recorder *recorder, struct lw_watched *watched)
{
    if (watched->shared.flags & LW_AGENT_TIMELINE) {
        /* Until we know how quickly its rings fill. */
        recorder->tick_ns = TICK_LEAST_NS;
        set_timer(recorder, TICK_LEAST_NS);
    }
    if (watched->pid_fd < 0 ||
        !wait_on(recorder, watched->pid_fd, EPOLLIN, watched->number))
        close_process(recorder, recorder->process_count - 1, make_look(recorder),
                      exit_code_of(recorder, watched->pid));
}

/* Begin to record who said hello. */
static bool greet(struct lw_recorder *recorder, struct lw_hello *hello,
                  struct lw_error *err)
{
    struct lw_watched *watched;

    if (!lw_grow(&recorder->processes, &recorder->process_capacity,
                 recorder->process_count + 1, sizeof(*recorder->processes), err) ||
        !(watched = open_process(recorder, hello, err)))
        return false;
    recorder->last_number++;
    inherit_image(recorder, watched);
    close_predecessor(recorder, watched);
    recorder->processes[recorder->process_count++] = watched;
    follow(recorder, watched);
    return true;
}

/* ---- those who come when the disk is full ------------------------------------------- */

static bool keep_for_later(struct lw_recorder *recorder, struct lw_hello *hello)
{
    struct lw_late_guest *guest;
    char *text;

    if (recorder->late_count == LATE_MOST ||
        !lw_grow(&recorder->late, &recorder->late_capacity, recorder->late_count + 1,
                 sizeof(*recorder->late), NULL) ||
        !(text = lw_copy_text(hello->text, hello->text_len, NULL)))
        return false;
    guest = &recorder->late[recorder->late_count++];
    *guest = (struct lw_late_guest){ hello->pid, hello->region_fd, hello->pid_fd, text,
                                     hello->text_len };
    hello->region_fd = hello->pid_fd = -1;
    return true;
}

static void refuse(struct lw_recorder *recorder, struct lw_error *err)
{
    lw_error_prefix(err, "could not be recorded");
    note_loss(recorder, err->text, 1);
    recorder->refused_count++;
}

/* Try again, oldest first, until one fails; AT_END: then refuse it and go on. */
static void greet_late(struct lw_recorder *recorder, bool at_end)
{
    size_t done = 0;

    while (done < recorder->late_count) {
        struct lw_late_guest *guest = &recorder->late[done];
        struct lw_error err = { LW_OK, "" };
        struct lw_hello hello = { LW_HELLO_REGION, guest->pid,  guest->region_fd,
                                  guest->pid_fd,   guest->text, guest->text_len };

        if (!greet(recorder, &hello, &err)) {
            if (!at_end)
                break;
            refuse(recorder, &err);
            if (hello.pid_fd >= 0)
                close(hello.pid_fd);
        }
        close(hello.region_fd);
        lw_free(guest->text);
        done++;
    }
    recorder->late_count -= done;
    if (done > 0)
        memmove(recorder->late, recorder->late + done,
                recorder->late_count * sizeof(*recorder->late));
}

/* ---- hellos ------------------------------------------------------------------------- */

/* A sentence from a process: why it is not recorded, or something to know. */
static void take_sentence(struct lw_recorder *recorder, const struct lw_hello *hello)
{
    struct lw_run_info *info = &recorder->run.info;
    const char *before = lw_run_info_fact(info, "note");
    struct lw_buf note;

    if (hello->kind == LW_HELLO_REFUSED) {
        note_loss(recorder, hello->text, 1);
        recorder->refused_count++;
        return;
    }
    if (before && strstr(before, hello->text))
        return;
    lw_buf_init(&note, LW_HELLO_TEXT_BYTES);
    lw_buf_addf(&note, "%s%s%s", before ? before : "", before ? "; " : "", hello->text);
    if (!lw_buf_check(&note, NULL) ||
        !lw_run_info_set_fact(info, "note", note.bytes, NULL))
        recorder->unsaved_count++;
    lw_buf_release(&note);
}

static void take_hello(struct lw_recorder *recorder, struct lw_hello *hello)
{
    struct lw_error err = { LW_OK, "" };

    if (hello->kind == LW_HELLO_REGION) {
        if (!greet(recorder, hello, &err) &&
            !(err.code == LW_ERR_IO && keep_for_later(recorder, hello)))
            refuse(recorder, &err);
    } else if (hello->kind == LW_HELLO_REFUSED || hello->kind == LW_HELLO_NOTE) {
        take_sentence(recorder, hello);
    }
    if (hello->region_fd >= 0)
        close(hello->region_fd);
    if (hello->pid_fd >= 0)
        close(hello->pid_fd);
}

/* True if anybody came. */
static bool take_hellos(struct lw_recorder *recorder)
{
    struct lw_hello hello;
    bool came = false, more;

    do { /* once more after the last: a full house makes room as it is heard */
        more = lw_listener_accept(&recorder->listener);
        came = came || more;
        while (lw_listener_next(&recorder->listener, &hello))
            take_hello(recorder, &hello);
    } while (more);
    return came;
}

/* ---- looks ------------------------------------------------------------------------- */

static void keep_to_size(struct lw_recorder *recorder, uint64_t now_ns)
{
    uint64_t bytes;

    if (recorder->max_bytes == 0 || now_ns < recorder->next_thin_ns)
        return;
    recorder->next_thin_ns =
        now_ns + (recorder->max_bytes < THIN_SMALL_BYTES ? THIN_SMALL_NS : THIN_NS);
    if (lw_lap_thin(recorder->run.path, recorder->max_bytes, &bytes, NULL))
        recorder->is_over_size = bytes > recorder->max_bytes;
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

static void close_those_over(struct lw_recorder *recorder, struct lw_watched_look look)
{
    for (size_t i = recorder->process_count; i-- > 0;) {
        const struct lw_watched *watched = recorder->processes[i];

        if (!lw_watched_is_over(watched))
            continue;
        if ((pid_t)watched->pid == recorder->asked_by)
            recorder->is_over = true;
        close_process(recorder, i, look, -1);
    }
}

/* Every process in turn, beginning with another each time, so that none always finds the
 * budget spent. */
static void look_at_all(struct lw_recorder *recorder)
{
    struct lw_watched_look look = make_look(recorder);
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
    for (size_t i = 0; i < recorder->process_count; i++) {
        size_t turn = (first + i) % recorder->process_count;
        double fill;

        if (!lw_watched_read(recorder->processes[turn], &look, &fill,
                             &recorder->trouble)) {
            /* Told again by the next look. */
        }
        fullest = fill > fullest ? fill : fullest;
    }
    close_those_over(recorder, look);
    greet_late(recorder, false);
    keep_to_size(recorder, start_ns);
    recorder->tick_ns = next_tick(recorder->tick_ns, fullest);
    took_ns = lw_clock_ns() - start_ns;
    set_timer(recorder, took_ns < recorder->tick_ns ? recorder->tick_ns - took_ns : MS);
}

static void process_died(struct lw_recorder *recorder, uint32_t number)
{
    for (size_t i = 0; i < recorder->process_count; i++) {
        struct lw_watched *watched = recorder->processes[i];

        if (watched->number != number)
            continue;
        epoll_ctl(recorder->fd, EPOLL_CTL_DEL, watched->pid_fd, NULL);
        if ((pid_t)watched->pid != recorder->child_pid ||
            recorder->child_exit_code >= 0)
            close_process(recorder, i, make_look(recorder),
                          exit_code_of(recorder, watched->pid));
        return;
    }
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
            process_died(recorder, what);
    }
    if (take_hellos(recorder) || is_due)
        look_at_all(recorder);
}

void lw_recorder_ended(struct lw_recorder *recorder, pid_t pid, int exit_code)
{
    recorder->child_pid = pid;
    recorder->child_exit_code = exit_code;
    take_hellos(recorder); /* its own may still be waiting */
    for (size_t i = recorder->process_count; i-- > 0;) {
        if ((pid_t)recorder->processes[i]->pid == pid)
            close_process(recorder, i, make_look(recorder), exit_code);
    }
}

/* ---- the end ----------------------------------------------------------------------- */

/* Those of whose death we have not heard yet are not "still running". */
static void close_those_dead(struct lw_recorder *recorder)
{
    for (size_t i = recorder->process_count; i-- > 0;) {
        const struct lw_watched *watched = recorder->processes[i];
        struct pollfd pollfd = { watched->pid_fd, POLLIN, 0 };

        if (poll(&pollfd, 1, 0) > 0)
            close_process(recorder, i, make_look(recorder),
                          exit_code_of(recorder, watched->pid));
    }
}

bool lw_recorder_finish(struct lw_recorder *recorder, struct lw_error *err)
{
    struct lw_run_info *info = &recorder->run.info;
    bool done;

    take_hellos(recorder);
    lw_run_free_reserve(&recorder->run);
    greet_late(recorder, true);
    close_those_dead(recorder);
    note_loss(recorder, "still running when the recording ended",
              recorder->process_count);
    while (recorder->process_count > 0)
        close_process(recorder, recorder->process_count - 1, make_look(recorder), -1);
    recorder->next_thin_ns = 0;
    keep_to_size(recorder, lw_clock_ns());
    note_loss(recorder, "not all could be written", recorder->unsaved_count);
    info->end_ns = lw_clock_ns();
    info->wall_end_ns = lw_clock_wall_ns();
    info->state = LW_RUN_FINISHED;
    done = lw_run_save(&recorder->run, err);
    if (done && recorder->unsaved_count > 0)
        done = lw_fail(err, LW_ERR_IO, "%s: not all could be written: %s",
                       recorder->run.path, recorder->trouble.text);
    return done;
}
