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

/* Nobody waits but we; and it may have to wait for a processor itself. */
#define LW_PAUSE_DEADLINE_NS 10000000ull

/* A thread that was seized and is not let go yet. */
struct lw_paused {
    pid_t pid, tid;
    bool is_late; /* the deadline passed: let it go when it stops */
};

struct lw_pause {
    struct lw_paused *threads; /* owned */
    size_t count, capacity;
    uint64_t stood_ns; /* when the one that stands now did; 0: none */

    uint64_t stops;      /* so far: threads that stood still */
    uint64_t misses;     /* that did not in time, or were not asked to for that */
    uint64_t refused;    /* that somebody else traces, or that we may not trace */
    uint64_t longest_ns; /* that one stood still */
};

void lw_pause_init(struct lw_pause *pause);
void lw_pause_release(struct lw_pause *pause); /* zeroed is fine */

/* Stop thread TID of process PID. False: it did not in time, cannot be stopped, or is
 * gone. Another of its process must not stand, nor still be to stop (then it is refused):
 * a thread that calls exec waits for all others to end, those that are traced end only
 * when we have taken notice, and until exec is done we would wait for it here. */
bool lw_pause_stop(struct lw_pause *pause, pid_t pid, pid_t tid) LW_MUST_CHECK;
/* Does it stand still now? */
bool lw_pause_has(const struct lw_pause *pause, pid_t tid);
/* The registers of one that does. */
bool lw_pause_registers(pid_t tid, struct lw_registers *registers) LW_MUST_CHECK;
/* Let go of the one that stands. */
void lw_pause_resume(struct lw_pause *pause);

/* Let go of what stopped after its deadline. True: there are still some to come. */
bool lw_pause_settle(struct lw_pause *pause);

#endif
