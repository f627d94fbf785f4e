/* The machine's side of a target's threads: C and C++ frames merged with Python's, and
 * the threads that run no Python at all.
 *
 * A thread is stopped alone, for as long as it takes to copy its registers, some of its
 * stack and its Python frames; all else is worked out while it runs on. One that sleeps is
 * not stopped: the kernel tells where it sleeps, and that it has not run between two looks;
 * one that has not run since the last sample is not even looked at. Only if its stack
 * cannot be understood without a register is it woken for that. */
#ifndef LW_SAMPLER_NATIVE_H
#define LW_SAMPLER_NATIVE_H

#include "sampler/native_functions.h"
#include "sampler/pause.h"
#include "sampler/target.h"

/* The most that is copied of a thread's stack. */
#define LW_NATIVE_STACK_BYTES 65536u

/* A thread of the kernel's. */
struct lw_native_thread {
    pid_t tid;
    uint32_t number;             /* the target's; 0: never sampled without Python */
    char name[LW_OS_NAME_BYTES]; /* the kernel's */
    int runs_fd;                 /* see sampler/os_sleep.h */

    unsigned char *copy; /* of its stack; owned */
    size_t copy_capacity;
    uint32_t wanted_bytes; /* of it */
    struct lw_stack_copy stack;
    struct lw_registers registers; /* that go with it */
    struct lw_registers woken;     /* as they were when it was woken to be stopped */
    struct lw_unwound unwound;
    struct lw_merged merged; /* the result */
    uint32_t
        python; /* number of the thread whose Python frames it has; 0: none. A thread
                        of several interpreters is several of the target's, with one tid */

    /* Of the last sample. */
    uint8_t state;   /* enum lw_sample_state */
    bool has_python; /* it has a Python state, and is among the target's threads */
    bool has_stack;  /* `merged` is */
    bool is_same;    /* it has slept since the sample before: all is as it was */
    /* How often it had run when it was seen asleep (0: it was not), and how many Python
     * frames it had. */
    uint64_t slept_runs;
    size_t slept_frames;
};

struct lw_native {
    struct lw_pause *pause; /* borrowed */
    struct lw_unwinder unwinder;
    struct lw_native_functions functions;
    struct lw_native_thread *threads; /* owned */
    size_t thread_count, thread_capacity;
    uint64_t listed_ns;
    pid_t *tids; /* scratch; owned */
    size_t tid_capacity;
    struct lw_native_frame *frames; /* scratch; owned */
    size_t frame_capacity;

    /* So far, of stacks: */
    uint64_t merged;     /* have both sides */
    uint64_t mismatched; /* the two sides did not fit: Python's alone was kept */
    uint64_t uncaught;   /* the thread did not stop: Python's alone, or none */
    uint64_t cut;        /* the outer part of the machine's side is missing */
};

struct lw_native *lw_native_new(struct lw_target *target, struct lw_pause *pause,
                                struct lw_symbols *symbols, struct lw_error *err);
void lw_native_free(struct lw_native *native); /* NULL is fine */

/* After TARGET was sampled: all its threads, one by one. */
void lw_native_sample(struct lw_native *native, struct lw_target *target,
                      uint64_t now_ns);

/* The stack of the target's THREAD as of the last sample; NULL: Python's alone. */
const struct lw_merged *lw_native_of(const struct lw_native *native,
                                     const struct lw_target_thread *thread);

#endif
