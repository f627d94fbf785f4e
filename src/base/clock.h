/* Clocks, in nanoseconds. */
#ifndef LW_BASE_CLOCK_H
#define LW_BASE_CLOCK_H

#include <stdint.h>

uint64_t lw_clock_ns(void);      /* CLOCK_MONOTONIC: everything recorded lies on it */
uint64_t lw_clock_wall_ns(void); /* since 1970, for people */

#endif
