/* Stacks that are equal have one number in the table of stacks, so to bring like threads
 * together is to sort by it. */

#include "cmd/dump_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_out.h"
#include "base/text.h"
#include "model/profile.h"

#define REPEATS_SHOWN 3 /* of one line in a recursion */

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

/* Order */

struct order {
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
    int by = compare_numbers(a->group, b->group);

    by = by ? by : compare_numbers(a->first, b->first);
    by = by ? by : compare_numbers(a->state, b->state);
    return by ? by : compare_numbers(a->index, b->index);
}

/* The rarest stacks first; stacks as rare as each other as they came; their threads by
 * process and state. */
static bool sort_threads(struct lw_dump *dump, struct lw_error *err)
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

        orders[i] = (struct order){ groups[thread->stack], firsts[thread->stack],
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

/* How many threads from FIRST on stand where it does. */
static size_t group_size(const struct lw_dump *dump, size_t first)
{
    size_t count = 1;

    while (first + count < dump->thread_count &&
           dump->threads[first + count].stack == dump->threads[first].stack)
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

static void add_thread_name(const struct lw_dump *dump,
                            const struct lw_dump_thread *thread, struct lw_buf *out)
{
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
            last->state == thread->state) {
            lw_buf_add_text(out, ", ");
            add_thread_name(dump, thread, out);
            continue;
        }
        if (i > first)
            lw_buf_add_char(out, '\n');
        if (!is_alone)
            lw_buf_addf(out, "  process %d, ", dump->processes[thread->process].pid);
        if (!is_alone)
            add_state(thread->state, out);
        lw_buf_add_text(out, is_alone ? "thread " : ": ");
        add_thread_name(dump, thread, out);
        if (is_alone && dump->process_count > 1)
            lw_buf_addf(out, " of process %d", dump->processes[thread->process].pid);
        if (is_alone) {
            lw_buf_add_text(out, ", ");
            add_state(thread->state, out);
        }
    }
    lw_buf_add_char(out, '\n');
}

static void add_frame(const struct lw_dump *dump, const struct lw_frame *frame,
                      struct lw_buf *out)
{
    uint32_t line = frame->line ? frame->line : frame->first_line;

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
    }
    if (dump->other_count)
        lw_buf_addf(out, "%zu %s not a Python that can be looked into\n",
                    dump->other_count,
                    dump->other_count == 1 ? "process more is" : "processes more are");
}

bool lw_dump_add_text(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
{
    if (!sort_threads(dump, err))
        return false;
    add_processes(dump, out);
    for (size_t i = 0, count; i < dump->thread_count; i += count) {
        count = group_size(dump, i);
        lw_buf_add_char(out, '\n');
        if (count > 1)
            lw_buf_addf(out, "%zu of %zu threads\n", count, dump->thread_count);
        add_threads(dump, i, count, out);
        add_stack(dump, dump->threads[i].stack, out);
    }
    return lw_buf_check(out, err);
}

/* JSON */

static void json_string(struct lw_json_out *json, const struct lw_dump *dump,
                        const char *key, lw_string_id id)
{
    lw_json_key(json, key);
    if (id)
        lw_json_text(json, lw_strings_text(dump->strings, id),
                     lw_strings_len(dump->strings, id));
    else
        lw_json_null(json);
}

static void json_number(struct lw_json_out *json, const char *key, uint64_t number)
{
    lw_json_key(json, key);
    if (number)
        lw_json_u64(json, number);
    else
        lw_json_null(json);
}

static void json_process(struct lw_json_out *json, const struct lw_dump *dump,
                         const struct lw_dump_process *process)
{
    lw_json_object(json);
    lw_json_key_i64(json, "pid", process->pid);
    json_string(json, dump, "command", process->command);
    json_string(json, dump, "python", process->python);
    lw_json_key_bool(json, "is_stopped", process->is_stopped);
    json_string(json, dump, "problem", process->problem);
    lw_json_end(json, '}');
}

static void json_thread(struct lw_json_out *json, const struct lw_dump *dump,
                        const struct lw_dump_thread *thread)
{
    static const char *const words[] = {
        [LW_STATE_UNKNOWN] = "unknown", [LW_STATE_CPU] = "cpu",
        [LW_STATE_WAIT] = "wait",       [LW_STATE_GC] = "gc",
        [LW_STATE_GIL_WAIT] = "gil",
    };
    uint8_t what = thread->state & (uint8_t)~LW_STATE_HAS_GIL;

    lw_json_object(json);
    lw_json_key_i64(json, "pid", dump->processes[thread->process].pid);
    json_number(json, "tid", thread->tid);
    json_string(json, dump, "name", thread->name);
    lw_json_key_text(json, "state",
                     words[what < sizeof(words) / sizeof(words[0]) ? what : 0]);
    lw_json_key_bool(json, "has_gil", thread->state & LW_STATE_HAS_GIL);
    lw_json_end(json, '}');
}

static void json_frames(struct lw_json_out *json, const struct lw_dump *dump,
                        lw_stack_id stack)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(dump->stacks, &count);
    const struct lw_stack *stacks = lw_stacks_list(dump->stacks, &count);

    lw_json_array(json);
    for (; stack != LW_NO_STACK; stack = stacks[stack].parent) {
        const struct lw_frame *frame = &frames[stacks[stack].frame];

        lw_json_object(json);
        json_string(json, dump, "function", frame->name);
        json_string(json, dump, "file", frame->file);
        json_number(json, "first_line", frame->first_line);
        json_number(json, "line", frame->line);
        lw_json_end(json, '}');
    }
    lw_json_end(json, ']');
}

bool lw_dump_add_json(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
{
    struct lw_json_out json;

    if (!sort_threads(dump, err))
        return false;
    lw_json_start(&json, out, true);
    lw_json_object(&json);
    lw_json_key(&json, "processes");
    lw_json_array(&json);
    for (size_t i = 0; i < dump->process_count; i++)
        json_process(&json, dump, &dump->processes[i]);
    lw_json_end(&json, ']');
    lw_json_key_u64(&json, "other_processes", dump->other_count);
    lw_json_key(&json, "stacks");
    lw_json_array(&json);
    for (size_t i = 0, count; i < dump->thread_count; i += count) {
        count = group_size(dump, i);
        lw_json_object(&json);
        lw_json_key(&json, "threads");
        lw_json_array(&json);
        for (size_t j = i; j < i + count; j++)
            json_thread(&json, dump, &dump->threads[j]);
        lw_json_end(&json, ']');
        lw_json_key(&json, "frames");
        json_frames(&json, dump, dump->threads[i].stack);
        lw_json_end(&json, '}');
    }
    lw_json_end(&json, ']');
    lw_json_end(&json, '}');
    return lw_buf_check(out, err);
}
