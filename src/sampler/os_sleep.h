/* What the kernel tells of a thread that sleeps, without waking it. os_linux_sleep.c reads
 * /proc. */
#ifndef LW_SAMPLER_OS_SLEEP_H
#define LW_SAMPLER_OS_SLEEP_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* A descriptor from which lw_os_runs() is read again and again; -1: gone, or a kernel
 * that does not count them. */
int lw_os_runs_open(pid_t pid, pid_t tid);
/* How often the thread was put on a processor. Asleep at one time, and the same number
 * later: it has not run between. */
bool lw_os_runs(int fd, uint64_t *runs) LW_MUST_CHECK;

/* Where thread TID of PID sleeps: its stack pointer, and the instruction it will go on
 * with. False: it does not sleep. */
bool lw_os_sleeps_at(pid_t pid, pid_t tid, uint64_t *stack, uint64_t *pc) LW_MUST_CHECK;

#endif
