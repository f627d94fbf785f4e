/* What a training step would take if workers made its batches: from measured times, and
 * from the processors that there are.
 *
 * Workers make a batch while the training does the rest of its step. So a step then takes
 * the longest of three: that rest, the making of its batches over the workers, and all
 * work of processors a step over the processors that are free.
 *
 *     now      [make a batch .......][forward backward ...]
 *     then     [forward backward ...][forward backward ...]
 *     worker   [make a batch .......][make a batch .......]
 *
 * The worst case has what can be in the way: batches cost something to pack and send, and
 * processors share caches and memory. */
#ifndef LW_ANALYSES_ADVICE_PLAN_H
#define LW_ANALYSES_ADVICE_PLAN_H

#include "analyses/advice_batches.h"
#include "analyses/advice_machine.h"

struct lw_workers_plan {
    double workers;           /* whole; at least 1, and as many as have processors */
    double best_ns, worst_ns; /* a step, with them */
    bool lacks_cpus;          /* it is processors that a step then waits for */
};

/* MACHINE's figures must be known. */
void lw_workers_plan_init(struct lw_workers_plan *plan,
                          const struct lw_batches *batches,
                          const struct lw_advice_machine *machine);

#endif
