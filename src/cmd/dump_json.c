/* A dump as JSON; dump_stacks.h says what is in it. */

#include "base/json_out.h"
#include "cmd/dump_stacks.h"
#include "model/profile.h"

static void json_text(struct lw_json_out *json, const struct lw_dump *dump,
                      lw_string_id id)
{
    lw_json_text(json, lw_strings_text(dump->strings, id),
                 lw_strings_len(dump->strings, id));
}

static void json_string(struct lw_json_out *json, const struct lw_dump *dump,
                        const char *key, lw_string_id id)
{
    lw_json_key(json, key);
    if (id)
        json_text(json, dump, id);
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
    json_string(json, dump, "tasks_problem", process->tasks);
    lw_json_end(json, '}');
}

static void json_waits(struct lw_json_out *json, const struct lw_dump *dump,
                       const struct lw_dump_thread *task)
{
    json_string(json, dump, "awaits", task->awaits);
    lw_json_key(json, "waits_for");
    lw_json_array(json);
    for (uint32_t i = 0; i < task->wait_count; i++)
        json_text(json, dump, dump->waits[task->first_wait + i]);
    lw_json_end(json, ']');
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
    if (!thread->is_task)
        json_number(json, "tid", thread->tid);
    json_string(json, dump, "name", thread->name);
    lw_json_key_text(json, "state",
                     words[what < sizeof(words) / sizeof(words[0]) ? what : 0]);
    if (thread->is_task)
        json_waits(json, dump, thread);
    else
        lw_json_key_bool(json, "has_gil", thread->state & LW_STATE_HAS_GIL);
    lw_json_end(json, '}');
}

/* The variables that lie from STACK on; returns what lies behind them. */
static lw_stack_id json_locals(struct lw_json_out *json, const struct lw_dump *dump,
                               lw_stack_id stack)
{
    static const char *const kinds[] = {
        [LW_LOCAL_PLAIN] = "local", [LW_LOCAL_CELL] = "cell", [LW_LOCAL_FREE] = "free"
    };
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(dump->stacks, &count);
    const struct lw_stack *stacks = lw_stacks_list(dump->stacks, &count);

    lw_json_key(json, "locals");
    lw_json_array(json);
    for (; stack != LW_NO_STACK; stack = stacks[stack].parent) {
        const struct lw_frame *local = &frames[stacks[stack].frame];

        if (!lw_dump_is_local(local))
            break;
        lw_json_object(json);
        json_string(json, dump, "name", local->name);
        lw_json_key_text(json, "kind", kinds[local->first_line]);
        json_string(json, dump, "value", local->file);
        lw_json_end(json, '}');
    }
    lw_json_end(json, ']');
    return stack;
}

static void json_frames(struct lw_json_out *json, const struct lw_dump *dump,
                        lw_stack_id stack)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(dump->stacks, &count);
    const struct lw_stack *stacks = lw_stacks_list(dump->stacks, &count);

    lw_json_array(json);
    while (stack != LW_NO_STACK) {
        const struct lw_frame *frame = &frames[stacks[stack].frame];

        stack = stacks[stack].parent;
        lw_json_object(json);
        json_string(json, dump, "function", frame->name);
        json_string(json, dump, "file", frame->file);
        json_number(json, "first_line", frame->first_line);
        json_number(json, "line", frame->line);
        if (dump->has_locals)
            stack = json_locals(json, dump, stack);
        lw_json_end(json, '}');
    }
    lw_json_end(json, ']');
}

/* The stacks of threads, or of tasks. */
static void json_stacks(struct lw_json_out *json, const struct lw_dump *dump,
                        const char *stacks, const char *members, bool is_task)
{
    lw_json_key(json, stacks);
    lw_json_array(json);
    for (size_t i = 0, count; i < dump->thread_count; i += count) {
        count = lw_dump_group_size(dump, i);
        if (dump->threads[i].is_task != is_task)
            continue;
        lw_json_object(json);
        lw_json_key(json, members);
        lw_json_array(json);
        for (size_t j = i; j < i + count; j++)
            json_thread(json, dump, &dump->threads[j]);
        lw_json_end(json, ']');
        lw_json_key(json, "frames");
        json_frames(json, dump, dump->threads[i].stack);
        lw_json_end(json, '}');
    }
    lw_json_end(json, ']');
}

bool lw_dump_add_json(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
{
    struct lw_json_out json;

    if (!lw_dump_sort(dump, err))
        return false;
    lw_json_start(&json, out, true);
    lw_json_object(&json);
    lw_json_key(&json, "processes");
    lw_json_array(&json);
    for (size_t i = 0; i < dump->process_count; i++)
        json_process(&json, dump, &dump->processes[i]);
    lw_json_end(&json, ']');
    lw_json_key_u64(&json, "other_processes", dump->other_count);
    json_stacks(&json, dump, "stacks", "threads", false);
    json_stacks(&json, dump, "tasks", "tasks", true);
    lw_json_end(&json, '}');
    return lw_buf_check(out, err);
}
