/* Every thread's stack at one moment, for a person or a program.
 *
 * Threads that stand at the same place are shown together, and the place where the
 * fewest stand comes first: in a job that hangs, the odd one out is who the others wait
 * for. */

#ifndef LW_CMD_DUMP_STACKS_H
#define LW_CMD_DUMP_STACKS_H

#include <sys/types.h>

#include "base/buf.h"
#include "model/stacks.h"
#include "model/strings.h"
#include "sampler/locals.h"

struct lw_dump_process {
    pid_t pid;
    lw_string_id command;
    lw_string_id python;  /* its version */
    lw_string_id problem; /* why nothing is known of it; 0: none */
    lw_string_id tasks;   /* why its asyncio tasks are not shown; 0: they are */
    bool is_stopped;      /* by a signal or a debugger */
};

/* A thread, or an asyncio task, which stands somewhere just as well. */
struct lw_dump_thread {
    uint32_t process; /* index */
    uint64_t tid;     /* 0: not known; tasks have none */
    lw_string_id name;
    uint8_t state; /* enum lw_sample_state; a task is on the CPU, or waits */
    lw_stack_id stack;

    bool is_task;
    lw_string_id awaits;             /* the type of what it waits for; 0: not known */
    uint32_t first_wait, wait_count; /* the tasks that it waits for, in `waits` */
};

struct lw_dump {
    struct lw_strings *strings; /* owned, as all here */
    struct lw_stacks *stacks;
    struct lw_dump_process *processes;
    size_t process_count, process_capacity;
    struct lw_dump_thread *threads;
    size_t thread_count, thread_capacity;
    lw_string_id *waits; /* names of tasks */
    size_t wait_count, wait_capacity;
    bool has_locals;    /* they were asked for */
    size_t other_count; /* processes that are not Python, or none that we know */
};

bool lw_dump_init(struct lw_dump *dump, struct lw_error *err) LW_MUST_CHECK;
void lw_dump_release(struct lw_dump *dump);

/* What is known of a process. PROBLEM, if not NULL, says why no threads follow. */
struct lw_dump_about {
    pid_t pid;
    const char *command, *python, *problem;
    bool is_stopped;
};
bool lw_dump_add_process(struct lw_dump *dump, const struct lw_dump_about *about,
                         struct lw_error *err) LW_MUST_CHECK;

/* One frame more on top of *STACK, which begins as LW_NO_STACK. */
struct lw_dump_frame {
    const char *name, *file; /* any bytes */
    size_t name_len, file_len;
    uint32_t first_line, line; /* 0: not known */
};
bool lw_dump_push(struct lw_dump *dump, lw_stack_id *stack,
                  const struct lw_dump_frame *frame, struct lw_error *err)
    LW_MUST_CHECK;
/* The same for what is no function: "(moving)". */
bool lw_dump_push_note(struct lw_dump *dump, lw_stack_id *stack, const char *note,
                       struct lw_error *err) LW_MUST_CHECK;

/* A variable of the frame that is pushed next; its last one is pushed first. Threads
 * whose variables differ are not at the same place. */
struct lw_dump_local {
    lw_string_id name, value;
    enum lw_local_kind kind;
};
bool lw_dump_push_local(struct lw_dump *dump, lw_stack_id *stack,
                        const struct lw_dump_local *local, struct lw_error *err)
    LW_MUST_CHECK;

/* A thread of the process added last. */
bool lw_dump_add_thread(struct lw_dump *dump, uint64_t tid, const char *name,
                        uint8_t state, lw_stack_id stack, struct lw_error *err)
    LW_MUST_CHECK;

/* A task of the process added last, and then each task that it waits for. */
struct lw_dump_task {
    const char *name;
    bool is_running;
    const char *awaits; /* the type of what it waits for; "": not known */
    lw_stack_id stack;
};
bool lw_dump_add_task(struct lw_dump *dump, const struct lw_dump_task *task,
                      struct lw_error *err) LW_MUST_CHECK;
bool lw_dump_add_wait(struct lw_dump *dump, const char *awaited, struct lw_error *err)
    LW_MUST_CHECK;
/* Why the tasks of the process added last are not there, or not all of them. */
bool lw_dump_miss_tasks(struct lw_dump *dump, const char *why, struct lw_error *err)
    LW_MUST_CHECK;

/* Is FRAME of a dump a variable? It is a note then, its value in place of a file and its
 * kind in place of the first line. */
bool lw_dump_is_local(const struct lw_frame *frame);

/* Bring the threads into the order in which they are shown, tasks behind threads. */
bool lw_dump_sort(struct lw_dump *dump, struct lw_error *err) LW_MUST_CHECK;
/* How many from FIRST on stand where it does. */
size_t lw_dump_group_size(const struct lw_dump *dump, size_t first);

/* Both bring the threads into the order in which they are shown. */
bool lw_dump_add_text(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;
/* {"processes": [{"pid", "command", "python", "is_stopped", "problem"} ...],
 * "other_processes": COUNT, "stacks": [{"threads": [{"pid", "tid", "name", "state",
 * "has_gil"} ...], "frames": [{"function", "file", "first_line", "line", "locals": [{"name",
 * "kind", "value"} ...]} ...]} ...], "tasks": [{"tasks": [{"pid", "name", "state",
 * "awaits", "waits_for": [NAME ...]} ...], "frames"} ...]}, the innermost frame first; what
 * is not known is null, and "locals" is there if it was asked for. A process has
 * "tasks_problem" as well: why its tasks are not there. */
bool lw_dump_add_json(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;

#endif
