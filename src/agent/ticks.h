/* The agent's clock: the processor's counter where it is invariant (about 10 ns a
 * read), else CLOCK_MONOTONIC. The recorder turns ticks into ns. */
#ifndef LW_AGENT_TICKS_H
#define LW_AGENT_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#if defined(__x86_64__)
__attribute__((cold)) /* since the counter is nearly always of use */
#endif
uint64_t
lw_ticks_monotonic_ns(void);

/* The TSC runs at one rate in every power state and on every core. */
static inline bool lw_ticks_tsc_is_invariant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#else
    return false;
#endif
}

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
