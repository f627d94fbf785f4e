/* lapwing dump: where every thread of some processes is, now.
 *
 * Nothing in a process has to run for it, so a process that hangs, is stopped, or holds
 * the GIL for ever is shown like any other. */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/command.h"
#include "cmd/dump_stacks.h"
#include "cmd/family.h"
#include "recorder/facts.h"
#include "sampler/os.h"
#include "sampler/repr.h"
#include "sampler/tasks.h"

/* A stack that changes while it is read is read again, for so long. */
#define PATIENCE_NS 200000000ull
#define PAUSE_NS 1000000 /* between two looks */

/* A program may be deep in a recursion, with much in each call: variables are read for the
 * innermost calls, of a process for so long. */
#define LOCALS_DEPTH 100
#define LOCALS_NS 500000000ull
#define LOCAL_BYTES 100 /* of a value */

struct args {
    bool json;
    bool locals;
    bool no_children;
    bool all_users;
};

/* clang-format off */
#define OPT(name, kind, field, arg, help) \
    { 0, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT("json", LW_ARG_FLAG, json, NULL, "print JSON"),
    OPT("locals", LW_ARG_FLAG, locals, NULL,
        "show the variables of the innermost calls; they may hold secrets"),
    OPT("no-children", LW_ARG_FLAG, no_children, NULL,
        "only these processes, not those that they started"),
    OPT("all-users", LW_ARG_FLAG, all_users, NULL, LW_OPT_ALL_USERS_HELP),
    LW_OPT_END
};
/* clang-format on */

static bool has_settled(const struct lw_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++)
        if (!target->threads[i].has_stack || target->threads[i].walk.is_moving)
            return false;
    return true;
}

/* Look until every stack held still for a look, or patience ends: then what moves is
 * shown as far as it held still. False: the process has ended. */
static bool look(struct lw_target *target)
{
    const struct timespec pause = { 0, PAUSE_NS };
    uint64_t start_ns = lw_clock_ns();

    for (;;) {
        if (!lw_target_sample(target, lw_clock_ns()))
            return false;
        if (has_settled(target) || lw_clock_ns() - start_ns > PATIENCE_NS)
            return true;
        nanosleep(&pause, NULL);
    }
}

static bool push_frame(struct lw_dump *dump, const struct lw_target *target,
                       const struct lw_walk_frame *walked, lw_stack_id *stack,
                       struct lw_error *err)
{
    const struct lw_py_code *code = &target->codes.codes[walked->code];
    struct lw_dump_frame frame = {
        .name = code->name,
        .file = code->file,
        .name_len = code->name_len,
        .file_len = code->file_len,
        .first_line = code->first_line,
    };
    struct lw_position position;

    if (lw_target_position(target, walked, &position) && position.line > 0)
        frame.line = (uint32_t)position.line;
    return lw_dump_push(dump, stack, &frame, err);
}

/* ---- variables ---------------------------------------------------------------------- */

/* Those of one frame, in their order. */
struct locals {
    struct lw_dump *dump;
    struct lw_objects objects;
    struct lw_dump_local *locals; /* owned */
    size_t count, capacity;
    uint64_t end_ns; /* when it has to be done */
    bool has_memory;
};

static void add_local(void *context, const struct lw_local *local)
{
    struct locals *locals = context;
    struct lw_dump_local added = { .kind = local->kind };
    struct lw_strings *strings = locals->dump->strings;
    struct lw_buf value;

    if (lw_clock_ns() >= locals->end_ns)
        return;
    lw_buf_init(&value, 0);
    lw_repr_add(&locals->objects, local->value, LOCAL_BYTES, &value);
    if (lw_buf_check(&value, NULL) &&
        lw_strings_intern(strings, local->name, strlen(local->name), &added.name,
                          NULL) &&
        lw_strings_intern(strings, value.bytes, value.len, &added.value, NULL) &&
        lw_grow(&locals->locals, &locals->capacity, locals->count + 1,
                sizeof(*locals->locals), NULL))
        locals->locals[locals->count++] = added;
    else
        locals->has_memory = false;
    lw_buf_release(&value);
}

/* A frame that has gone since its stack was read has none. */
static bool push_locals(struct lw_dump *dump, struct lw_target *target,
                        const struct lw_walk_frame *frame, uint64_t end_ns,
                        lw_stack_id *stack, struct lw_error *err)
{
    struct locals locals = { .dump = dump,
                             .end_ns = end_ns,
                             .objects = { &target->memory, &target->layout },
                             .has_memory = true };
    bool done = true;

    if (lw_locals_list(&locals.objects, &target->codes, frame, add_local, &locals)) {
        while (done && locals.count > 0)
            done = lw_dump_push_local(dump, stack, &locals.locals[--locals.count], err);
    }
    lw_free(locals.locals);
    if (!locals.has_memory)
        return lw_fail(err, LW_ERR_NOMEM, "no memory for the variables of process %d",
                       (int)target->pid);
    return done;
}

/* The COUNT frames at FRAMES, root first; variables are read up to LOCALS_END_NS, 0: not
 * at all. */
static bool push_frames(struct lw_dump *dump, struct lw_target *target,
                        const struct lw_walk_frame *frames, size_t count,
                        uint64_t locals_end_ns, lw_stack_id *stack,
                        struct lw_error *err)
{
    for (size_t i = 0; i < count; i++) {
        bool has_locals =
            locals_end_ns && count - i <= LOCALS_DEPTH && lw_clock_ns() < locals_end_ns;

        if (has_locals &&
            !push_locals(dump, target, &frames[i], locals_end_ns, stack, err))
            return false;
        if (!push_frame(dump, target, &frames[i], stack, err))
            return false;
    }
    return true;
}

/* ---- threads and tasks -------------------------------------------------------------- */

static bool add_thread(struct lw_dump *dump, struct lw_target *target,
                       const struct lw_target_thread *thread, uint64_t locals_end_ns,
                       struct lw_error *err)
{
    const char *note = thread->walk.is_moving ? "(moving)" : NULL;
    lw_stack_id stack = LW_NO_STACK;

    if (!thread->has_stack)
        note = "(cannot be read)";
    else if (!thread->has_python)
        note = "(no Python)";
    if (thread->has_python &&
        !push_frames(dump, target, thread->walk.frames, thread->walk.count,
                     locals_end_ns, &stack, err))
        return false;
    if (note && !lw_dump_push_note(dump, &stack, note, err))
        return false;
    return lw_dump_add_thread(dump, thread->tid, thread->name, thread->state, stack,
                              err);
}

/* New threads come first in the interpreter's list, the main thread last. */
static bool add_threads(struct lw_dump *dump, struct lw_target *target,
                        uint64_t locals_end_ns, struct lw_error *err)
{
    for (size_t i = target->thread_count; i-- > 0;)
        if (!add_thread(dump, target, &target->threads[i], locals_end_ns, err))
            return false;
    return true;
}

/* Whom it waits for begins at *WAIT, and ends there afterwards. */
static bool add_task(struct lw_dump *dump, struct lw_target *target,
                     const struct lw_tasks *tasks, uint32_t index, size_t *wait,
                     uint64_t locals_end_ns, struct lw_error *err)
{
    const struct lw_task *task = &tasks->tasks[index];
    struct lw_dump_task added = { .name = task->name,
                                  .is_running = task->is_running,
                                  .awaits = task->awaits };

    if (!push_frames(dump, target, task->frames, task->count, locals_end_ns,
                     &added.stack, err) ||
        !lw_dump_add_task(dump, &added, err))
        return false;
    for (; *wait < tasks->wait_count && tasks->waits[*wait].waiter == index; ++*wait)
        if (!lw_dump_add_wait(dump, tasks->tasks[tasks->waits[*wait].awaited].name,
                              err))
            return false;
    return true;
}

/* The tasks of asyncio, also those that are on no stack. Where they cannot be had, that is
 * said, and the threads are shown all the same. */
static bool add_tasks(struct lw_dump *dump, struct lw_target *target,
                      uint64_t locals_end_ns, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_tasks tasks;
    size_t wait = 0;
    bool done = true;

    if (!lw_tasks_read(&tasks, target, lw_clock_ns(), &why)) {
        if (why.code != LW_ERR_NOMEM)
            return lw_dump_miss_tasks(dump, why.text, err);
        return lw_fail(err, why.code, "%s", why.text);
    }
    for (uint32_t i = 0; done && i < tasks.count; i++)
        done = add_task(dump, target, &tasks, i, &wait, locals_end_ns, err);
    if (done && tasks.unreadable > 0) {
        lw_fail(&why, LW_ERR_IO, "process %d: %zu of its asyncio tasks %s not read",
                (int)target->pid, tasks.unreadable,
                tasks.unreadable == 1 ? "was" : "were");
        done = lw_dump_miss_tasks(dump, why.text, err);
    }
    lw_tasks_release(&tasks);
    return done;
}

static bool add_about(struct lw_dump *dump, const struct lw_target *target, pid_t pid,
                      const char *problem, struct lw_error *err)
{
    struct lw_dump_about about = { .pid = pid, .problem = problem };
    struct lw_os_process process;
    struct lw_buf command, python;
    bool done;

    lw_buf_init(&command, 0);
    lw_buf_init(&python, 0);
    if (target)
        lw_layout_add_version(&python, &target->layout);
    about.is_stopped = lw_os_process(pid, &process, NULL) &&
                       (process.state == 'T' || process.state == 't');
    done = lw_facts_add_command_of(&command, pid, err) && lw_buf_check(&python, err);
    if (done) {
        about.command = command.len ? command.bytes : "";
        about.python = python.len ? python.bytes : "";
        done = lw_dump_add_process(dump, &about, err);
    }
    lw_buf_release(&command);
    lw_buf_release(&python);
    return done;
}

/* False only if memory runs out; *PROBLEM is whatever else went wrong. A process that was
 * not asked for and has ended since, or is not Python, is nothing to speak of. */
static bool add_process(struct lw_dump *dump, pid_t pid, bool is_asked,
                        struct lw_error *problem, struct lw_error *err)
{
    struct lw_target *target = lw_target_open(pid, -1, problem);
    struct lw_os_process process;
    bool done = true;

    if (target && !look(target)) {
        lw_fail(problem, LW_ERR_IO, "process %d has ended", (int)pid);
        lw_target_free(target);
        target = NULL;
    }
    if (target) {
        uint64_t locals_end_ns = dump->has_locals ? lw_clock_ns() + LOCALS_NS : 0;

        done = add_about(dump, target, pid, NULL, err) &&
               add_threads(dump, target, locals_end_ns, err) &&
               add_tasks(dump, target, locals_end_ns, err);
    } else if (problem->code == LW_ERR_NOMEM)
        done = lw_fail(err, LW_ERR_NOMEM, "%s", problem->text);
    else if (problem->code == LW_ERR_UNSUPPORTED)
        dump->other_count++;
    else if (is_asked || lw_os_process(pid, &process, NULL))
        done = add_about(dump, NULL, pid, problem->text, err);
    lw_target_free(target);
    return done;
}

static bool print(struct lw_dump *dump, const struct args *args, struct lw_error *err)
{
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    done = args->json ? lw_dump_add_json(dump, &out, err)
                      : lw_dump_add_text(dump, &out, err);
    if (done)
        fwrite(out.bytes, 1, out.len, stdout);
    lw_buf_release(&out);
    return done;
}

/* The first problem with a process that was asked for is the command's own; but one that
 * is only not Python, as a script that starts some, does no harm if others are. */
static bool dump_all(struct lw_dump *dump, const struct lw_family *family,
                     const struct args *args, struct lw_error *err)
{
    struct lw_error problem, first = { LW_OK, "" };
    size_t good = 0;

    dump->has_locals = args->locals;
    for (size_t i = 0; i < family->count; i++) {
        bool is_asked = family->members[i].is_asked;

        problem.code = LW_OK;
        if (!add_process(dump, family->members[i].pid, is_asked, &problem, err))
            return false;
        good += problem.code == LW_OK;
        if (is_asked && problem.code &&
            (!first.code || first.code == LW_ERR_UNSUPPORTED))
            first = problem;
    }
    if ((good || args->json) && !print(dump, args, err))
        return false;
    if (!first.code || (first.code == LW_ERR_UNSUPPORTED && good))
        return true;
    *err = first;
    return false;
}

static int run(const void *given, int argc, char **argv, struct lw_error *err)
{
    const struct args *args = given;
    struct lw_family family = { .all_users = args->all_users };
    struct lw_dump dump = { 0 };
    bool done = lw_family_add(&family, "dump", argv, argc, err);
    int code = LW_EXIT_FAILED;

    if (!done && err->code == LW_ERR_USAGE)
        code = LW_EXIT_USAGE;
    done = done && (args->no_children || lw_family_grow(&family, err)) &&
           lw_dump_init(&dump, err) && dump_all(&dump, &family, args, err);
    lw_dump_release(&dump);
    lw_family_release(&family);
    return done ? LW_EXIT_DONE : code;
}

/* py-spy's. */
static const struct lw_habit habits[] = {
    { "--pid", "name the process itself: lapwing dump PID" },
    { "-p", "name the process itself: lapwing dump PID" },
    { NULL, NULL },
};

const struct lw_command lw_cmd_dump = {
    .name = "dump",
    .habits = habits,
    .summary = "print every thread's stack of running processes, now",
    .usage = "lapwing dump [OPTIONS] PID...",
    .description =
        "Prints where each thread of the processes is, and of all processes that they "
        "started, the innermost call first. Threads at the same place are shown "
        "together, and the places where the fewest are come first: in a job that hangs, "
        "that is who the others wait for.\n"
        "\n"
        "Asyncio's tasks follow, also those that wait and are on no stack, each with the "
        "coroutines that it is in and the tasks that it waits for.\n"
        "\n"
        "The processes are not stopped and need not run, nor let go of the GIL.",
    .args_size = sizeof(struct args),
    .options = options,
    .operands_min = 1,
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
