/* Who is recorded: hellos, deaths, exit codes, and those who come at a bad time. */

#include "recorder/processes.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "recorder/facts.h"

/* Segments a small share of the maximum, so that thinning has something to take. */
#define SEGMENTS_IN_MAX 16
#define SEGMENT_BYTES_LEAST (64u << 10)
#define SEGMENT_BYTES_MOST (8u << 20)

/* Processes kept while the disk is full; each holds two descriptors. */
#define LATE_MOST 256

/* The kernel knows a process's exit code once its parent has asked for it; one that
 * nobody asks for is not waited for longer, nor are more than so many at once: each has
 * its memory still. */
#define EXIT_CODE_NS 1000000000ull
#define DEAD_MOST 64

/* Hellos taken before deaths and looks have their turn: where processes are forked as fast
 * as we can greet them, there would never be a last one. */
#define HELLOS_AT_ONCE LW_LISTENER_GUESTS
/* How often that is done at the end of the recording. */
#define HELLO_TURNS_AT_END 128

/* Processes recorded at once. Each takes some hundred kilobytes, and as much address space
 * as its region is large. */
#define PROCESSES_MOST 4096

void lw_processes_note_loss(struct lw_recorder *recorder, const char *cause,
                            uint64_t count)
{
    if (count > 0 &&
        !lw_run_info_add_loss(&recorder->run.info, cause, "processes", count, NULL))
        recorder->unsaved_count++;
}

/* It matters only where an agent has stamped with the counter. */
static void say_jumps(struct lw_recorder *recorder)
{
    uint64_t count = recorder->calibration.jump_count - recorder->told_jumps;
    bool is_used = false;

    recorder->told_jumps += count;
    for (size_t i = 0; i < recorder->process_count; i++)
        is_used = is_used || (recorder->processes[i]->shared.bytes &&
                              recorder->processes[i]->shared.clock == LW_CLOCK_TSC);
    if (count > 0 && is_used &&
        !lw_run_info_add_loss(&recorder->run.info,
                              "the processor's clock jumped (was the machine suspended "
                              "or moved?), and times around that moment are not exact",
                              "times", count, NULL))
        recorder->unsaved_count++;
}

struct lw_watched_look lw_processes_look(struct lw_recorder *recorder)
{
    lw_calibration_look(&recorder->calibration);
    say_jumps(recorder);
    return (struct lw_watched_look){ .calibration = &recorder->calibration };
}

static int exit_code_of(const struct lw_recorder *recorder,
                        const struct lw_watched *watched)
{
    if (recorder->child_pid > 0 && (pid_t)watched->pid == recorder->child_pid)
        return recorder->child_exit_code;
    return watched->death_ns ? lw_facts_exit_code(watched->pid_fd) : -1;
}

void lw_processes_close(struct lw_recorder *recorder, size_t index)
{
    struct lw_watched *watched = recorder->processes[index];
    struct lw_watched_look look = lw_processes_look(recorder);

    look.is_last = true;
    look.end_ticks = watched->death_ticks;
    recorder->processes[index] = recorder->processes[--recorder->process_count];
    if (recorder->trouble.code != LW_OK) /* the disk is full: now is the time */
        lw_run_free_reserve(&recorder->run);
    if (!lw_watched_close(watched, &look, exit_code_of(recorder, watched),
                          &recorder->trouble))
        recorder->unsaved_count++;
}

/* ---- deaths ------------------------------------------------------------------------- */

void lw_processes_died(struct lw_recorder *recorder, uint32_t number)
{
    struct lw_watched_look look = lw_processes_look(recorder);
    struct lw_watched *watched = NULL;
    double fill;

    for (size_t i = 0; !watched && i < recorder->process_count; i++) {
        if (recorder->processes[i]->number == number)
            watched = recorder->processes[i];
    }
    if (!watched || watched->death_ns)
        return;
    if (watched->pid_fd >= 0)
        epoll_ctl(recorder->fd, EPOLL_CTL_DEL, watched->pid_fd, NULL);
    watched->death_ns = lw_clock_ns();
    watched->death_ticks = lw_calibration_now(watched->shared.clock);
    look.is_last = true;
    look.end_ticks = watched->death_ticks;
    if (!lw_watched_read(watched, &look, &fill, &recorder->trouble)) {
        /* There is one more look when it is closed. */
    }
}

void lw_processes_find_dead(struct lw_recorder *recorder)
{
    for (size_t i = recorder->process_count; i-- > 0;) {
        const struct lw_watched *watched = recorder->processes[i];

        if (watched->pid_fd < 0 && !watched->death_ns &&
            !lw_os_lives((pid_t)watched->pid))
            lw_processes_died(recorder, watched->number);
    }
}

/* May the exit code of this dead process still become known? */
static bool may_have_exit_code(const struct lw_recorder *recorder,
                               const struct lw_watched *watched, uint64_t now_ns)
{
    return exit_code_of(recorder, watched) < 0 && watched->pid_fd >= 0 &&
           now_ns - watched->death_ns <= EXIT_CODE_NS;
}

void lw_processes_bury(struct lw_recorder *recorder)
{
    size_t dead = recorder->process_count - lw_processes_live(recorder);
    uint64_t now_ns = lw_clock_ns();

    for (size_t i = recorder->process_count; i-- > 0;) {
        const struct lw_watched *watched = recorder->processes[i];

        /* The hello of one that was adopted may still wait among those. */
        if (recorder->has_more_hellos && !watched->shared.bytes)
            continue;
        if (watched->death_ns &&
            (dead > DEAD_MOST || !may_have_exit_code(recorder, watched, now_ns))) {
            lw_processes_close(recorder, i);
            dead--;
        }
    }
}

size_t lw_processes_live(const struct lw_recorder *recorder)
{
    size_t count = 0;

    for (size_t i = 0; i < recorder->process_count; i++)
        count += recorder->processes[i]->death_ns == 0;
    return count;
}

/* ---- hellos ------------------------------------------------------------------------- */

static bool has_ended(int pid_fd)
{
    struct pollfd pollfd = { pid_fd, POLLIN, 0 };

    return pid_fd >= 0 && poll(&pollfd, 1, 0) > 0;
}

/* Is ADOPTED, which has no agent, the program that HELLO comes from? Of a process that has
 * ended nobody knows by now whether it was another program in between (exec); most
 * never are. */
static bool is_program_of(const struct lw_watched *adopted,
                          const struct lw_hello *hello)
{
    uint64_t image;

    if (adopted->pid_fd >= 0 && hello->pid_fd >= 0) {
        bool had_ended = has_ended(adopted->pid_fd);
        bool is_gone = has_ended(hello->pid_fd);

        /* Else one number was given to two processes. In this order, one that ends just
         * now is not taken for two. */
        if (is_gone ? !has_ended(adopted->pid_fd) : had_ended)
            return false;
    }
    image = lw_facts_image(hello->pid);
    return image == 0 || adopted->image == 0 || image == adopted->image;
}

/* Who is slow to say hello, or waited while we were slow to hear it, was adopted as one
 * that says nothing. NULL: HELLO does not come from such a process. */
static struct lw_watched *find_adopted(const struct lw_recorder *recorder,
                                       const struct lw_hello *hello)
{
    for (size_t i = 0; i < recorder->process_count; i++) {
        struct lw_watched *watched = recorder->processes[i];

        if ((pid_t)watched->pid == hello->pid && !watched->shared.bytes &&
            is_program_of(watched, hello))
            return watched;
    }
    return NULL;
}

/* A process that says hello again has replaced itself (exec): what it was before ended
 * when the new region was made. */
static void close_predecessor(struct lw_recorder *recorder,
                              const struct lw_watched *now)
{
    for (size_t i = 0; i < recorder->process_count; i++) {
        struct lw_watched *before = recorder->processes[i];

        if (before->pid != now->pid)
            continue;
        if (before->shared.clock == now->shared.clock && !before->death_ticks)
            before->death_ticks = now->shared.start_ticks;
        lw_processes_close(recorder, i);
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

static uint64_t segment_bytes(const struct lw_recorder *recorder)
{
    uint64_t bytes = recorder->max_bytes / SEGMENTS_IN_MAX;

    if (bytes > SEGMENT_BYTES_MOST || recorder->max_bytes == 0)
        return SEGMENT_BYTES_MOST;
    return bytes < SEGMENT_BYTES_LEAST ? SEGMENT_BYTES_LEAST : bytes;
}

/* ADOPTED is the process that HELLO comes from, if that is recorded already, or NULL. */
static struct lw_watched *open_process(struct lw_recorder *recorder,
                                       struct lw_watched *adopted,
                                       struct lw_hello *hello, struct lw_error *err)
{
    struct lw_hello_text text;
    struct lw_watched_facts facts = { .pid = (uint64_t)hello->pid,
                                      .segment_bytes = segment_bytes(recorder) };
    struct lw_watched *watched = NULL;

    if (hello->region_fd < 0) {
        lw_fail(err, LW_ERR_FORMAT, "it handed over no memory");
        return NULL;
    }
    if (!adopted && recorder->process_count >= PROCESSES_MOST) {
        lw_fail(err, LW_ERR_LIMIT, "more than %d processes at once", PROCESSES_MOST);
        return NULL;
    }
    if (lw_facts_read_hello(&text, hello->text, hello->text_len, err)) {
        facts.command = text.command.bytes;
        facts.python = text.python;
        facts.rank = lw_facts_rank(hello->pid);
        set_python(recorder, text.python);
        if (!adopted) {
            watched = lw_watched_open(&recorder->run.folder, recorder->last_number + 1,
                                      hello->region_fd, hello->pid_fd, &facts, err);
            if (watched)
                hello->pid_fd = -1;
        } else if (lw_watched_join(adopted, hello->region_fd, &facts, err)) {
            watched = adopted;
        }
    }
    lw_buf_release(&text.command);
    return watched;
}

static void hurry_for(struct lw_recorder *recorder, const struct lw_watched *watched)
{
    if (watched->shared.flags & (LW_AGENT_TIMELINE | LW_AGENT_ALL_OPS))
        lw_recorder_hurry(recorder); /* until we know how quickly its rings fill */
}

static void follow(struct lw_recorder *recorder, struct lw_watched *watched)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = watched->number };

    hurry_for(recorder, watched);
    if (watched->pid_fd >= 0 &&
        (lw_file_is_scarce(watched->pid_fd) ||
         epoll_ctl(recorder->fd, EPOLL_CTL_ADD, watched->pid_fd, &event) != 0)) {
        close(watched->pid_fd);
        watched->pid_fd = -1;
    }
    if (watched->pid_fd < 0 && !lw_os_lives((pid_t)watched->pid))
        lw_processes_died(recorder, watched->number);
}

/* A sentence to show with the run, once. */
void lw_processes_add_note(struct lw_recorder *recorder, const char *sentence)
{
    struct lw_run_info *info = &recorder->run.info;
    const char *before = lw_run_info_fact(info, "note");
    struct lw_buf note;

    if (before && strstr(before, sentence))
        return;
    lw_buf_init(&note, LW_HELLO_TEXT_BYTES);
    lw_buf_addf(&note, "%s%s%s", before ? before : "", before ? "; " : "", sentence);
    if (!lw_buf_check(&note, NULL) ||
        !lw_run_info_set_fact(info, "note", note.bytes, NULL))
        recorder->unsaved_count++;
    lw_buf_release(&note);
}

/* What ERR says of PID is why; but many a child is just too quick. */
static void note_not_sampled(struct lw_recorder *recorder, pid_t pid,
                             struct lw_error *err)
{
    lw_error_prefix(err, "not sampled");
    lw_processes_note_loss(
        recorder, lw_os_lives(pid) ? err->text : "ended before they could be sampled",
        1);
}

/* MEMORY_FD is ours. */
static void sample(struct lw_recorder *recorder, struct lw_watched *watched,
                   int memory_fd)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_target *target = lw_target_open((pid_t)watched->pid, memory_fd, &err);

    if (target && lw_memory_is_through_descriptor(&target->memory))
        lw_processes_add_note(
            recorder, "this machine does not let Lapwing read other processes "
                      "(Yama, a container or seccomp), so they are sampled through "
                      "a descriptor that they hand over");
    if (!target || !lw_watched_sample(watched, recorder->sampler, target, &err))
        note_not_sampled(recorder, (pid_t)watched->pid, &err);
}

/* Begin to record who said hello. */
static bool greet(struct lw_recorder *recorder, struct lw_hello *hello,
                  struct lw_error *err)
{
    struct lw_watched *adopted = find_adopted(recorder, hello), *watched;

    if (!lw_grow(&recorder->processes, &recorder->process_capacity,
                 recorder->process_count + 1, sizeof(*recorder->processes), err) ||
        !(watched = open_process(recorder, adopted, hello, err)))
        return false;
    if (adopted) {
        if (watched->death_ns) /* which it had on the clock of those without an agent */
            watched->death_ticks = lw_calibration_now(watched->shared.clock);
        hurry_for(recorder, watched);
    } else {
        recorder->last_number++;
        inherit_image(recorder, watched);
        close_predecessor(recorder, watched);
        recorder->processes[recorder->process_count++] = watched;
        follow(recorder, watched);
    }
    if (recorder->sampler && !watched->death_ns && !watched->samples.sampled) {
        sample(recorder, watched, hello->memory_fd);
        hello->memory_fd = -1;
    }
    return true;
}

/* ---- those who say nothing ---------------------------------------------------------- */

static struct lw_watched *open_silent(struct lw_recorder *recorder,
                                      const struct lw_target *target,
                                      struct lw_error *err)
{
    struct lw_os_process process;
    struct lw_watched_facts facts = { .pid = (uint64_t)target->pid,
                                      .rank = lw_facts_rank(target->pid),
                                      .segment_bytes = segment_bytes(recorder) };
    struct lw_watched *watched = NULL;
    struct lw_buf command, python;
    int pid_fd = pidfd_open(target->pid, 0);

    lw_buf_init(&command, 0);
    lw_buf_init(&python, 0);
    lw_layout_add_version(&python, &target->layout);
    if (lw_os_process(target->pid, &process, err) &&
        lw_facts_add_command_of(&command, target->pid, err) &&
        lw_buf_check(&python, err)) {
        facts.parent_pid = (uint64_t)process.parent;
        facts.command = command.bytes;
        facts.python = python.bytes;
        set_python(recorder, python.bytes);
        watched = lw_watched_open(&recorder->run.folder, recorder->last_number + 1, -1,
                                  pid_fd, &facts, err);
    }
    if (!watched && pid_fd >= 0)
        close(pid_fd);
    lw_buf_release(&command);
    lw_buf_release(&python);
    return watched;
}

bool lw_processes_adopt(struct lw_recorder *recorder, struct lw_target *target)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_watched *watched = NULL;

    if (lw_grow(&recorder->processes, &recorder->process_capacity,
                recorder->process_count + 1, sizeof(*recorder->processes), &err))
        watched = open_silent(recorder, target, &err);
    if (!watched) {
        note_not_sampled(recorder, target->pid, &err);
        lw_target_free(target);
        return false;
    }
    recorder->last_number++;
    recorder->processes[recorder->process_count++] = watched;
    if (!lw_watched_sample(watched, recorder->sampler, target, &err))
        note_not_sampled(recorder, (pid_t)watched->pid, &err);
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
    *guest = (struct lw_late_guest){ *hello, text };
    guest->hello.text = text;
    hello->region_fd = hello->memory_fd = hello->pid_fd = -1;
    return true;
}

static void refuse(struct lw_recorder *recorder, struct lw_error *err)
{
    lw_error_prefix(err, "could not be recorded");
    lw_processes_note_loss(recorder, err->text, 1);
    recorder->refused_count++;
}

void lw_processes_greet_late(struct lw_recorder *recorder, bool at_end)
{
    size_t done = 0;

    while (done < recorder->late_count) {
        struct lw_late_guest *guest = &recorder->late[done];
        struct lw_error err = { LW_OK, "" };

        if (!greet(recorder, &guest->hello, &err)) {
            if (!at_end)
                break;
            refuse(recorder, &err);
        }
        lw_hello_close(&guest->hello);
        lw_free(guest->text);
        done++;
    }
    recorder->late_count -= done;
    if (done > 0)
        memmove(recorder->late, recorder->late + done,
                recorder->late_count * sizeof(*recorder->late));
}

/* ---- sentences and hellos ----------------------------------------------------------- */

/* A sentence from a process: why it is not recorded, or something to know. */
static void take_sentence(struct lw_recorder *recorder, const struct lw_hello *hello)
{
    if (hello->kind == LW_HELLO_REFUSED) {
        lw_processes_note_loss(recorder, hello->text, 1);
        recorder->refused_count++;
    } else {
        lw_processes_add_note(recorder, hello->text);
    }
}

/* There is an order for a process (agent/layout.h): let its agent know. */
static void pass_order(const struct lw_recorder *recorder, const struct lw_hello *hello)
{
    uint64_t pid;

    if (!lw_text_u64(hello->text, hello->text_len, &pid))
        return;
    for (size_t i = 0; i < recorder->process_count; i++) {
        const struct lw_watched *watched = recorder->processes[i];

        if (watched->pid == pid && watched->shared.bytes)
            atomic_fetch_add(&lw_shared_header(&watched->shared)->orders, 1);
    }
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
    } else if (hello->kind == LW_HELLO_ORDER) {
        pass_order(recorder, hello);
    }
    lw_hello_close(hello);
}

/* Hellos that the listener had to throw away. */
static void note_cut(struct lw_recorder *recorder)
{
    uint64_t count = recorder->listener.cut_count;

    recorder->listener.cut_count = 0;
    recorder->refused_count += count;
    lw_processes_note_loss(
        recorder,
        "could not be recorded: Lapwing has no file descriptors left "
        "(allow more: ulimit -n)",
        count);
}

bool lw_processes_take_hellos(struct lw_recorder *recorder)
{
    struct lw_hello hello;
    size_t count = 0;
    bool came = false, more;

    do { /* once more after the last: a full house makes room as it is heard */
        size_t before = count;

        more = lw_listener_accept(&recorder->listener);
        came = came || more;
        while (lw_listener_next(&recorder->listener, &hello)) {
            take_hello(recorder, &hello);
            count++;
        }
        more = more || count > before;
    } while (more && count < HELLOS_AT_ONCE);
    recorder->has_more_hellos = more;
    note_cut(recorder);
    return came;
}

void lw_processes_take_last_hellos(struct lw_recorder *recorder)
{
    for (int turn = 0; turn < HELLO_TURNS_AT_END; turn++) {
        if (!lw_processes_take_hellos(recorder))
            break;
        lw_processes_find_dead(recorder);
        lw_processes_bury(recorder);
    }
}
