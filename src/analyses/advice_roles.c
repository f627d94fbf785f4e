#include "analyses/advice_roles.h"

#include <string.h>

#include "analyses/work_kinds.h"
#include "base/alloc.h"

static bool add_rank(const struct lw_advice_trace *trace, uint32_t rank,
                     const uint8_t *kinds, uint64_t ns[LW_ROLE_COUNT],
                     struct lw_error *err)
{
    const struct lw_trace_steps *steps = &trace->ranks[rank].steps;
    struct lw_step_times *times = lw_zalloc(steps->count + 1, sizeof(*times), err);
    struct lw_busy_times busy = { 0 };
    bool done = times &&
                lw_busy_times_init(&busy, trace->scope.profile, kinds, rank,
                                   LW_COMPAT_NONE, err) &&
                lw_step_times_fill(times, &busy, steps, LW_COMPAT_NONE, err);

    for (size_t i = 0; done && i < steps->count; i++)
        for (size_t role = 0; role < LW_ROLE_COUNT; role++)
            ns[role] += times[i].ns[role];
    lw_busy_times_release(&busy);
    lw_free(times);
    return done;
}

bool lw_advice_roles(const struct lw_advice_trace *trace, uint64_t ns[LW_ROLE_COUNT],
                     struct lw_error *err)
{
    uint8_t *kinds = lw_work_kinds_new(trace->scope.profile, LW_COMPAT_NONE, err);
    bool done = kinds != NULL;

    memset(ns, 0, LW_ROLE_COUNT * sizeof(*ns));
    for (uint32_t i = 0; done && i < trace->scope.trace->rank_count; i++)
        if (trace->scope.ranks[i])
            done = add_rank(trace, i, kinds, ns, err);
    lw_free(kinds);
    return done;
}
