/* The asyncio tasks of a process: also those that are on no stack, because they wait.
 *
 * A task that waits has a coroutine, which awaits another, and so on: their frames are the
 * stack that the task would have if it ran. */
#ifndef LW_SAMPLER_TASKS_H
#define LW_SAMPLER_TASKS_H

#include "sampler/target.h"

#define LW_TASK_NAME_BYTES 64

struct lw_task {
    uint64_t address;
    char name[LW_TASK_NAME_BYTES];
    bool is_running;              /* its coroutine is on the stack of a thread */
    struct lw_walk_frame *frames; /* root first; owned */
    size_t count, capacity;
    uint64_t waiter;                 /* the future it waits for */
    char awaits[LW_TASK_NAME_BYTES]; /* the type of that; "": not known */
};

/* Task WAITER awaits task AWAITED; both by their place in the list. */
struct lw_task_wait {
    uint32_t waiter, awaited;
};

struct lw_tasks {
    struct lw_task *tasks; /* owned */
    size_t count, capacity;
    struct lw_task_wait *waits; /* by waiter; owned */
    size_t wait_count, wait_capacity;
    size_t
        unreadable; /* tasks that were listed, but could not be read, or not in time */
};

/* The tasks of TARGET as they are now, of all its loops; lw_target_sample() came before
 * it. A program without asyncio has none. False with a sentence: they cannot be listed on
 * this Python, or no memory. */
bool lw_tasks_read(struct lw_tasks *tasks, struct lw_target *target, uint64_t now_ns,
                   struct lw_error *err) LW_MUST_CHECK;
void lw_tasks_release(struct lw_tasks *tasks); /* zeroed is fine */

#endif
