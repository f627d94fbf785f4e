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

struct lw_dump_process {
    pid_t pid;
    lw_string_id command;
    lw_string_id python;  /* its version */
    lw_string_id problem; /* why nothing is known of it; 0: none */
    bool is_stopped;      /* by a signal or a debugger */
};

struct lw_dump_thread {
    uint32_t process; /* index */
    uint64_t tid;     /* 0: not known */
    lw_string_id name;
    uint8_t state; /* enum lw_sample_state */
    lw_stack_id stack;
};

struct lw_dump {
    struct lw_strings *strings; /* owned, as all here */
    struct lw_stacks *stacks;
    struct lw_dump_process *processes;
    size_t process_count, process_capacity;
    struct lw_dump_thread *threads;
    size_t thread_count, thread_capacity;
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

/* A thread of the process added last. */
bool lw_dump_add_thread(struct lw_dump *dump, uint64_t tid, const char *name,
                        uint8_t state, lw_stack_id stack, struct lw_error *err)
    LW_MUST_CHECK;

/* Both bring the threads into the order in which they are shown. */
bool lw_dump_add_text(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;
/* {"processes": [{"pid", "command", "python", "is_stopped", "problem"} ...],
 * "other_processes": COUNT, "stacks": [{"threads": [{"pid", "tid", "name", "state",
 * "has_gil"} ...], "frames": [{"function", "file", "first_line", "line"} ...]} ...]}, the
 * innermost frame first; what is not known is null. */
bool lw_dump_add_json(struct lw_dump *dump, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;

#endif
