/* The agent's clock: the processor's counter where the kernel itself keeps time by it
 * (about 10 ns a read), else CLOCK_MONOTONIC. The recorder turns ticks into ns. */
#ifndef LW_AGENT_TICKS_H
#define LW_AGENT_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#if defined(__x86_64__)
__attribute__((cold)) /* since the counter is nearly always of use */
#endif
uint64_t
lw_ticks_monotonic_ns(void);

#define LW_TICKS_CLOCKSOURCE \
    "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* May the TSC be used? The processor must say that it runs at one rate in every power state
 * and on every core, and the kernel, which checks that while it runs, must still keep time
 * by it: PATH (LW_TICKS_CLOCKSOURCE) has the name of what it keeps time by. */
bool lw_ticks_tsc_is_trusted(const char *path);

static inline uint64_t lw_ticks_now(bool use_tsc)
{
#if defined(__x86_64__)
    if (__builtin_expect(use_tsc, 1))
        return __rdtsc();
#endif
    (void)use_tsc;
    return lw_ticks_monotonic_ns();
}

#endif
