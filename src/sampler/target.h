/* One Python process as the sampler sees it: where its interpreter is, its threads, and
 * at each sample every thread's stack and state.
 *
 * A sample is one read of the process's memory (two where something new appeared) and one
 * small read of /proc a thread. Of a thread that has slept since it was last read nothing
 * is read again. The process is not stopped and does not notice. */
#ifndef LW_SAMPLER_TARGET_H
#define LW_SAMPLER_TARGET_H

#include "sampler/os.h"
#include "sampler/rest.h"
#include "sampler/walk.h"

struct lw_native;
struct lw_pause;
struct lw_symbols;

struct lw_target_thread {
    struct lw_snapshot snapshot;
    struct lw_walk walk;         /* the stack, as last sampled */
    uint64_t tid;                /* the kernel's; 0: not known */
    uint64_t identity;           /* what Python had for that then */
    struct lw_rest rest;         /* whether it runs, and has run */
    uint32_t number;             /* grows: tells a thread from another with its tid */
    char name[LW_OS_NAME_BYTES]; /* Python's, or the kernel's */
    bool is_named;               /* by Python */

    /* Of the last sample. */
    uint8_t state;  /* enum lw_sample_state (model/profile.h) */
    bool has_stack; /* `walk` is of this sample; else it could not be read */
    bool
        has_python; /* it runs Python code: `walk` holds at least the part that held still */

    /* While a sample is taken. */
    bool is_pending;
    bool is_resting; /* it has slept on: its stack is what it was */
    uint64_t next;   /* of a resting one: the next thread's state */
    unsigned failures;
    size_t first_range, range_count;
};

struct lw_target {
    pid_t pid;
    struct lw_memory memory;
    struct lw_py_layout layout;
    struct lw_code_cache codes;
    uint64_t runtime;                 /* address of _PyRuntime */
    uint64_t start_time, stack_start; /* which process, and which program in it */
    uint64_t interpreters[8];         /* addresses; more than these are not sampled */
    size_t interpreter_count;
    uint64_t gil[8]; /* of each: address of its GIL; 0: none (free-threaded) */

    bool has_started; /* when it was opened, there was an interpreter in it */

    struct lw_target_thread *threads; /* owned */
    size_t thread_count, thread_capacity;
    uint32_t last_number;
    uint64_t listed_ns;              /* when interpreters were last looked for */
    uint64_t named_ns, all_named_ns; /* when threads were last asked for their names */
    uint32_t named_number;           /* the newest thread then */
    uint32_t
        tid_offset; /* in struct pthread, where Python does not tell; 0: not known */

    struct lw_memory_range *ranges; /* scratch */
    size_t range_capacity;

    uint64_t samples; /* taken so far, and what became of the threads' stacks in them */
    uint64_t stacks, moving, unreadable;

    struct lw_pause *pause;   /* NULL: nobody is stopped to be read; borrowed */
    struct lw_native *native; /* NULL: Python alone */
};

/* Find the Python in process PID. MEM_FD (-1: none) as for lw_memory_open(); it is ours
 * in every case. NULL with a sentence: no such process, not Python, a Python that is not
 * known, no right to look. */
struct lw_target *lw_target_open(pid_t pid, int mem_fd, struct lw_error *err);
void lw_target_free(struct lw_target *target); /* NULL is fine */

/* From now on stop its Python threads while they are read, one after the other, by PAUSE,
 * which must outlive it. */
void lw_target_set_pause(struct lw_target *target, struct lw_pause *pause);
/* From now on sample machine code too (sampler/native.h), stopping one thread at a time.
 * PAUSE and SYMBOLS must outlive it. */
bool lw_target_add_native(struct lw_target *target, struct lw_pause *pause,
                          struct lw_symbols *symbols, struct lw_error *err)
    LW_MUST_CHECK;

/* Look at every thread now. False: the process is gone, or is another program by now;
 * what the threads say then is of the sample before. */
bool lw_target_sample(struct lw_target *target, uint64_t now_ns) LW_MUST_CHECK;

/* Read the stack of one of its threads again, which stands still or sleeps: its state
 * stays what it was. False: it could not be read, or moved after all. */
bool lw_target_read_thread(struct lw_target *target, struct lw_target_thread *thread,
                           uint64_t now_ns) LW_MUST_CHECK;

/* Put Python's own names of the threads that were last sampled in their `name`; one that
 * cannot be read costs that name only, which stays the kernel's. ALL: also of those that
 * have theirs, since a program may rename them. Costs some reads for each module and
 * thread, so lw_target_sample() calls it when there are new threads, and now and then. */
void lw_target_name_threads(struct lw_target *target, bool all);

/* The line and columns that FRAME of a walk is at; false: not known. */
bool lw_target_position(const struct lw_target *target,
                        const struct lw_walk_frame *frame, struct lw_position *position)
    LW_MUST_CHECK;

#endif
