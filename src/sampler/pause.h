/* Making threads of other processes stand still for a moment, so that what is read of
 * them belongs together.
 *
 * A thread is seized, interrupted, and let go whole: between two samples nobody traces it,
 * so signals, debuggers, exec and exit are as they would be without us, and when we are
 * killed at any instant the kernel lets it run. A signal that is just being delivered when
 * the thread stops is handed on.
 *
 * It is waited for only until a deadline. One that did not get there (it waits for a disk,
 * or for a processor) is left on a list and let go as soon as it stops: until that list is
 * empty lw_pause_settle() has to be called every now and then.
 *
 * All calls come from one thread: the kernel knows a tracer by its thread. */
#ifndef LW_SAMPLER_PAUSE_H
#define LW_SAMPLER_PAUSE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "sampler/unwind_registers.h"

/* How long to wait in all for threads that are to stop together: those that stand wait as
 * well. For one alone nobody waits but we, and it may have to wait for a processor. */
#define LW_PAUSE_TOGETHER_NS 2000000ull
#define LW_PAUSE_ALONE_NS 10000000ull

/* A thread that was seized and is not let go yet. */
struct lw_paused {
    pid_t pid, tid;
    bool is_stopped;
    bool is_late; /* the deadline passed: let it go when it stops */
};

struct lw_pause {
    struct lw_paused *threads; /* owned */
    size_t count, capacity;
    uint64_t asked_ns; /* when the first of those not let go yet was; 0: none */
    uint64_t stood_ns; /* when the first of those that stand now did; 0: none */

    uint64_t stops;      /* so far: threads that stood still */
    uint64_t misses;     /* that did not stop in time */
    uint64_t refused;    /* that somebody else traces, or that we may not trace */
    uint64_t longest_ns; /* that threads stood still together */
};

void lw_pause_init(struct lw_pause *pause);
void lw_pause_release(struct lw_pause *pause); /* zeroed is fine */

/* Ask thread TID of process PID to stop. False: it cannot be stopped, and is counted; or
 * it is gone. */
bool lw_pause_ask(struct lw_pause *pause, pid_t pid, pid_t tid) LW_MUST_CHECK;
/* Wait for all that were asked, for WAIT_NS since the first was. */
void lw_pause_wait(struct lw_pause *pause, uint64_t wait_ns);
/* Does it stand still now? */
bool lw_pause_has(const struct lw_pause *pause, pid_t tid);
/* The registers of one that does. */
bool lw_pause_registers(pid_t tid, struct lw_registers *registers) LW_MUST_CHECK;
/* Let go of all that stand still. */
void lw_pause_resume(struct lw_pause *pause);

/* Let go of what stopped after its deadline. True: there are still some to come. */
bool lw_pause_settle(struct lw_pause *pause);

#endif
