/* The clock where the processor has no counter of use; see ticks.h. */

#include "agent/ticks.h"

#include <time.h>

uint64_t lw_ticks_monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
