/* Where the time of steps went: each moment to the first of these that was busy then.
 *
 *     Kernel > Memcpy > Memset > Communication > Runtime > DataLoader > CPU > Other
 *
 * The order is torch_tb_profiler's, and says what a step waited for at least: what ran on
 * the host while a kernel ran did not cost the step anything. Ours differs from the
 * plugin's in what communication is: every kernel of a collective, whatever it is
 * called, and what a library that works on the host (gloo) is called for. */
#ifndef LW_ANALYSES_STEP_TIMES_H
#define LW_ANALYSES_STEP_TIMES_H

#include "analyses/intervals.h"
#include "analyses/trace_steps.h"

enum lw_role {
    LW_ROLE_KERNEL,
    LW_ROLE_MEMCPY,
    LW_ROLE_MEMSET,
    LW_ROLE_COMMUNICATION,
    LW_ROLE_RUNTIME,
    LW_ROLE_DATA_LOADER,
    LW_ROLE_CPU,
    LW_ROLE_OTHER, /* nothing of these was busy */
    LW_ROLE_COUNT,
};

/* "Kernel", "CPU" */
extern const char *const lw_role_names[LW_ROLE_COUNT];

/* When each of them was busy, whatever else was. */
struct lw_busy_times {
    struct lw_intervals sets[LW_ROLE_OTHER];
};

struct lw_step_times {
    uint64_t ns[LW_ROLE_COUNT]; /* they add up to the step */
};

/* Of RANK, which is an index. KINDS are those of PROFILE's events (work_kinds.h); the
 * plugin's definitions need none. Release in any case. */
bool lw_busy_times_init(struct lw_busy_times *busy, const struct lw_profile *profile,
                        const uint8_t *kinds, uint32_t rank, enum lw_compat compat,
                        struct lw_error *err) LW_MUST_CHECK;
void lw_busy_times_release(struct lw_busy_times *busy); /* zeroed is fine */

/* One row for each of STEPS' count into TIMES, which are zeroed. */
bool lw_step_times_fill(struct lw_step_times *times, const struct lw_busy_times *busy,
                        const struct lw_trace_steps *steps, enum lw_compat compat,
                        struct lw_error *err) LW_MUST_CHECK;

#endif
