/* Stacks that are equal have one number in the table of stacks, so to bring like threads
 * together is to sort by it. */

#include "cmd/dump_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/profile.h"

#define REPEATS_SHOWN 3 /* of one line in a recursion */
#define WAITS_SHOWN 5   /* tasks that one task waits for */

bool lw_dump_init(struct lw_dump *dump, struct lw_error *err)
{
    *dump = (struct lw_dump){ 0 };
    dump->strings = lw_strings_new(err);
    dump->stacks = dump->strings ? lw_stacks_new(err) : NULL;
    return dump->stacks != NULL;
}

void lw_dump_release(struct lw_dump *dump)
{
    lw_strings_free(dump->strings);
    lw_stacks_free(dump->stacks);
    lw_free(dump->processes);
    lw_free(dump->threads);
    lw_free(dump->waits);
    *dump = (struct lw_dump){ 0 };
}

static bool keep(struct lw_dump *dump, const char *text, lw_string_id *id,
                 struct lw_error *err)
{
    return lw_strings_intern(dump->strings, text, strlen(text), id, err);
}

bool lw_dump_add_process(struct lw_dump *dump, const struct lw_dump_about *about,
                         struct lw_error *err)
{
    struct lw_dump_process process = { .pid = about->pid,
                                       .is_stopped = about->is_stopped };

    if (!keep(dump, about->command, &process.command, err) ||
        !keep(dump, about->python, &process.python, err) ||
        !keep(dump, about->problem ? about->problem : "", &process.problem, err) ||
        !lw_grow(&dump->processes, &dump->process_capacity, dump->process_count + 1,
                 sizeof(*dump->processes), err))
        return false;
    dump->processes[dump->process_count++] = process;
    return true;
}

bool lw_dump_push(struct lw_dump *dump, lw_stack_id *stack,
                  const struct lw_dump_frame *frame, struct lw_error *err)
{
    struct lw_frame kept = { .first_line = frame->first_line, .line = frame->line };
    lw_frame_id id;

    return lw_strings_intern(dump->strings, frame->name, frame->name_len, &kept.name,
                             err) &&
           lw_strings_intern(dump->strings, frame->file, frame->file_len, &kept.file,
                             err) &&
           lw_stacks_frame(dump->stacks, &kept, &id, err) &&
           lw_stacks_push(dump->stacks, *stack, id, stack, err);
}

bool lw_dump_push_note(struct lw_dump *dump, lw_stack_id *stack, const char *note,
                       struct lw_error *err)
{
    struct lw_frame kept = { .kind = LW_FRAME_NOTE };
    lw_frame_id id;

    return keep(dump, note, &kept.name, err) &&
           lw_stacks_frame(dump->stacks, &kept, &id, err) &&
           lw_stacks_push(dump->stacks, *stack, id, stack, err);
}

bool lw_dump_push_local(struct lw_dump *dump, lw_stack_id *stack,
                        const struct lw_dump_local *local, struct lw_error *err)
{
    const struct lw_frame kept = { .kind = LW_FRAME_NOTE,
                                   .name = local->name,
                                   .file = local->value,
                                   .first_line = local->kind };
    lw_frame_id id;

    return lw_stacks_frame(dump->stacks, &kept, &id, err) &&
           lw_stacks_push(dump->stacks, *stack, id, stack, err);
}

bool lw_dump_is_local(const struct lw_frame *frame)
{
    return frame->kind == LW_FRAME_NOTE && frame->file;
}

bool lw_dump_add_thread(struct lw_dump *dump, uint64_t tid, const char *name,
                        uint8_t state, lw_stack_id stack, struct lw_error *err)
{
    struct lw_dump_thread thread = { .process = (uint32_t)dump->process_count - 1,
                                     .tid = tid,
                                     .state = state,
                                     .stack = stack };

    if (!keep(dump, name, &thread.name, err) ||
        !lw_grow(&dump->threads, &dump->thread_capacity, dump->thread_count + 1,
                 sizeof(*dump->threads), err))
        return false;
    dump->threads[dump->thread_count++] = thread;
    return true;
}

bool lw_dump_add_task(struct lw_dump *dump, const struct lw_dump_task *task,
                      struct lw_error *err)
{
    struct lw_dump_thread *added;

    if (!lw_dump_add_thread(dump, 0, task->name,
                            task->is_running ? LW_STATE_CPU : LW_STATE_WAIT,
                            task->stack, err))
        return false;
    added = &dump->threads[dump->thread_count - 1];
    added->is_task = true;
    added->first_wait = (uint32_t)dump->wait_count;
    return keep(dump, task->awaits, &added->awaits, err);
}

bool lw_dump_add_wait(struct lw_dump *dump, const char *awaited, struct lw_error *err)
{
    if (!lw_grow(&dump->waits, &dump->wait_capacity, dump->wait_count + 1,
                 sizeof(*dump->waits), err) ||
        !keep(dump, awaited, &dump->waits[dump->wait_count], err))
        return false;
    dump->wait_count++;
    dump->threads[dump->thread_count - 1].wait_count++;
    return true;
}

bool lw_dump_miss_tasks(struct lw_dump *dump, const char *why, struct lw_error *err)
{
    return keep(dump, why, &dump->processes[dump->process_count - 1].tasks, err);
}

/* Order */

struct order {
    bool is_task;
    size_t group;   /* how many stand there */
    size_t first;   /* index of the first of them */
    uint32_t state; /* like states side by side, within a process */
    size_t index;   /* of the thread */
};

static int compare_numbers(size_t a, size_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_orders(const void *left, const void *right)
{
    const struct order *a = left, *b = right;
    int by = compare_numbers(a->is_task, b->is_task);

    by = by ? by : compare_numbers(a->group, b->group);
    by = by ? by : compare_numbers(a->first, b->first);
    by = by ? by : compare_numbers(a->state, b->state);
    return by ? by : compare_numbers(a->index, b->index);
}

/* The rarest stacks first; stacks as rare as each other as they came; their threads by
 * process and state. */
bool lw_dump_sort(struct lw_dump *dump, struct lw_error *err)
{
    size_t count = dump->thread_count, stack_count;
    struct lw_dump_thread *sorted;
    struct order *orders;
    size_t *groups, *firsts;
    bool done = false;

    lw_stacks_list(dump->stacks, &stack_count);
    orders = lw_zalloc(count + 1, sizeof(*orders), err);
    groups = lw_zalloc(stack_count, sizeof(*groups), err);
    firsts = lw_zalloc(stack_count, sizeof(*firsts), err);
    sorted = lw_zalloc(count + 1, sizeof(*sorted), err);
    if (!orders || !groups || !firsts || !sorted)
        goto out;
    for (size_t i = 0; i < count; i++)
        if (groups[dump->threads[i].stack]++ == 0)
            firsts[dump->threads[i].stack] = i;
    for (size_t i = 0; i < count; i++) {
        const struct lw_dump_thread *thread = &dump->threads[i];

        orders[i] = (struct order){ thread->is_task, groups[thread->stack],
                                    firsts[thread->stack],
                                    thread->process << 8 | thread->state, i };
    }
    qsort(orders, count, sizeof(*orders), compare_orders);
    for (size_t i = 0; i < count; i++)
        sorted[i] = dump->threads[orders[i].index];
    if (count)
        memcpy(dump->threads, sorted, count * sizeof(*sorted));
    done = true;
out:
    lw_free(sorted);
    lw_free(firsts);
    lw_free(groups);
    lw_free(orders);
    return done;
}

size_t lw_dump_group_size(const struct lw_dump *dump, size_t first)
{
    size_t count = 1;

    while (first + count < dump->thread_count &&
           dump->threads[first + count].stack == dump->threads[first].stack &&
           dump->threads[first + count].is_task == dump->threads[first].is_task)
        count++;
    return count;
}

/* Text */

static void add_string(const struct lw_dump *dump, lw_string_id id, struct lw_buf *out)
{
    lw_text_add_printable(out, lw_strings_text(dump->strings, id),
                          lw_strings_len(dump->strings, id));
}

static void add_state(uint8_t state, struct lw_buf *out)
{
    static const char *const words[] = {
        [LW_STATE_UNKNOWN] = "in a state that cannot be seen",
        [LW_STATE_CPU] = "running",
        [LW_STATE_WAIT] = "waiting",
        [LW_STATE_GC] = "collecting garbage",
        [LW_STATE_GIL_WAIT] = "waiting for the GIL",
    };
    uint8_t what = state & (uint8_t)~LW_STATE_HAS_GIL;

    lw_buf_add_text(out, what < sizeof(words) / sizeof(words[0]) ? words[what] : "?");
    if (state & LW_STATE_HAS_GIL)
        lw_buf_add_text(out, ", has the GIL");
}

/* What a thread does, or a task. */
static void add_doing(const struct lw_dump *dump, const struct lw_dump_thread *thread,
                      struct lw_buf *out)
{
    uint32_t shown =
        thread->wait_count < WAITS_SHOWN ? thread->wait_count : WAITS_SHOWN;

    add_state(thread->state, out);
    for (uint32_t i = 0; i < shown; i++) {
        lw_buf_add_text(out, i == 0 ? " for " : ", ");
        add_string(dump, dump->waits[thread->first_wait + i], out);
    }
    if (thread->wait_count > shown)
        lw_buf_addf(out, " and %u more", thread->wait_count - shown);
}

static void add_thread_name(const struct lw_dump *dump,
                            const struct lw_dump_thread *thread, struct lw_buf *out)
{
    if (thread->is_task) {
        add_string(dump, thread->name, out);
        return;
    }
    if (thread->tid)
        lw_buf_addf(out, "%llu", (unsigned long long)thread->tid);
    else
        lw_buf_add_text(out, "(number not known)");
    if (thread->name) {
        lw_buf_add_text(out, " (");
        add_string(dump, thread->name, out);
        lw_buf_add_char(out, ')');
    }
}

/* One line for those of one process and state. */
static void add_threads(const struct lw_dump *dump, size_t first, size_t count,
                        struct lw_buf *out)
{
    bool is_alone = count == 1;

    for (size_t i = first; i < first + count; i++) {
        const struct lw_dump_thread *thread = &dump->threads[i], *last = thread - 1;

        if (i > first && last->process == thread->process &&
            last->state == thread->state && !thread->wait_count && !last->wait_count) {
            lw_buf_add_text(out, ", ");
            add_thread_name(dump, thread, out);
            continue;
        }
        if (i > first)
            lw_buf_add_char(out, '\n');
        if (!is_alone)
            lw_buf_addf(out, "  process %d, ", dump->processes[thread->process].pid);
        if (!is_alone)
            add_doing(dump, thread, out);
        lw_buf_add_text(out, !is_alone ? ": " : thread->is_task ? "task " : "thread ");
        add_thread_name(dump, thread, out);
        if (is_alone && dump->process_count > 1)
            lw_buf_addf(out, " of process %d", dump->processes[thread->process].pid);
        if (is_alone) {
            lw_buf_add_text(out, ", ");
            add_doing(dump, thread, out);
        }
    }
    lw_buf_add_char(out, '\n');
}

static void add_frame(const struct lw_dump *dump, const struct lw_frame *frame,
                      struct lw_buf *out)
{
    static const char *const kinds[] = {
        [LW_LOCAL_PLAIN] = "", [LW_LOCAL_CELL] = " (cell)", [LW_LOCAL_FREE] = " (free)"
    };
    uint32_t line = frame->line ? frame->line : frame->first_line;

    if (lw_dump_is_local(frame)) {
        lw_buf_add_text(out, "        ");
        add_string(dump, frame->name, out);
        lw_buf_addf(out, "%s = ", kinds[frame->first_line]);
        add_string(dump, frame->file, out);
        lw_buf_add_char(out, '\n');
        return;
    }
    lw_buf_add_text(out, "    ");
    add_string(dump, frame->name, out);
    if (frame->file) {
        lw_buf_add_text(out, " (");
        add_string(dump, frame->file, out);
        if (line)
            lw_buf_addf(out, ":%u", line);
        lw_buf_add_char(out, ')');
    }
    lw_buf_add_char(out, '\n');
}

static void add_stack(const struct lw_dump *dump, lw_stack_id stack, struct lw_buf *out)
{
    size_t count, repeats = 0;
    const struct lw_frame *frames = lw_stacks_frames(dump->stacks, &count);
    const struct lw_stack *stacks = lw_stacks_list(dump->stacks, &count);

    for (; stack != LW_NO_STACK; stack = stacks[stack].parent) {
        lw_stack_id below = stacks[stack].parent;
        bool is_last = !below || stacks[below].frame != stacks[stack].frame;

        if (repeats++ < REPEATS_SHOWN)
            add_frame(dump, &frames[stacks[stack].frame], out);
        if (is_last && repeats > REPEATS_SHOWN)
            lw_buf_addf(out, "    ... the same %zu times more\n",
                        repeats - REPEATS_SHOWN);
        repeats = is_last ? 0 : repeats;
    }
}

static void add_processes(const struct lw_dump *dump, struct lw_buf *out)
{
    for (size_t i = 0; i < dump->process_count; i++) {
        const struct lw_dump_process *process = &dump->processes[i];

        if (process->problem) {
            lw_buf_add_text(out, "not looked at: ");
            add_string(dump, process->problem, out);
        } else {
            lw_buf_addf(out, "process %d: Python ", process->pid);
            add_string(dump, process->python, out);
            lw_buf_add_text(out, ", ");
            add_string(dump, process->command, out);
            if (process->is_stopped)
                lw_buf_add_text(out, " (stopped)");
        }
        lw_buf_add_char(out, '\n');
        if (process->tasks) {
            add_string(dump, process->tasks, out);
            lw_buf_add_char(out, '\n');
        }
    }
    if (dump->other_count)
        lw_buf_addf(out, "%zu %s not a Python that can be looked into\n",
                    dump->other_count,
                    dump->other_count == 1 ? "process more is" : "processes more are");
}

static size_t count_like(const struct lw_dump *dump, bool is_task)
{
    size_t count = 0;

    for (size_t i = 0; i < dump->thread_count; i++)
        count += dump->threads[i].is_task == is_task;
    return count;
}

bool lw_dump_add_text(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
{
    if (!lw_dump_sort(dump, err))
        return false;
    add_processes(dump, out);
    for (size_t i = 0, count; i < dump->thread_count; i += count) {
        count = lw_dump_group_size(dump, i);
        lw_buf_add_char(out, '\n');
        if (count > 1)
            lw_buf_addf(out, "%zu of %zu %s\n", count,
                        count_like(dump, dump->threads[i].is_task),
                        dump->threads[i].is_task ? "tasks" : "threads");
        add_threads(dump, i, count, out);
        add_stack(dump, dump->threads[i].stack, out);
    }
    return lw_buf_check(out, err);
}
