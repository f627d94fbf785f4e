/* How many workers, and what a step then takes. */

#include "analyses/advice_plan.h"

#include <math.h>

#define CLOSE 0.8        /* workers busier than that have no room for a slow batch */
#define MOST_WORKERS 16  /* beyond, those who wait for a disk wait in line */
#define SLOWER 1.15      /* what everything loses when more runs beside it ... */
#define SHARED 1.5       /* ... on what may be the other half of its own core */
#define PACKING 1.2      /* what a batch costs more in a worker than in the training */
#define SEND_NS 1e5      /* what taking a batch from a worker costs at least ... */
#define SEND_MOST_NS 1e6 /* ... and at most, for batches of usual size */

static double longest(double a, double b, double c)
{
    return fmax(fmax(a, b), c);
}

void lw_workers_plan_init(struct lw_workers_plan *plan,
                          const struct lw_batches *batches,
                          const struct lw_advice_machine *machine)
{
    const struct lw_batches *b = batches;
    double rest_ns = fmax(b->step_ns - b->data_ns, 1);
    double make_ns = b->by_workers ? lw_batches_worker_ns(b) * b->each : b->data_ns;
    double cpus = fmax(machine->cpus - machine->others, machine->family);
    double work_ns = machine->family * b->step_ns;
    double rest_cpus = fmax(work_ns - b->on_cpu * make_ns, 0) / rest_ns;
    double room =
        b->on_cpu > 0 ? (cpus - fmin(rest_cpus, 1)) / b->on_cpu : MOST_WORKERS;
    double needed = ceil(make_ns / rest_ns);
    double slower;

    needed += make_ns > CLOSE * needed * rest_ns;
    plan->workers = fmax(floor(fmin(fmin(needed, room), MOST_WORKERS)), 1);
    plan->best_ns = longest(rest_ns + (b->by_workers ? 0 : SEND_NS * b->each),
                            make_ns / plan->workers, work_ns / cpus);
    plan->lacks_cpus = needed > plan->workers || plan->best_ns <= work_ns / cpus;
    /* Two processors may be one core, and in a virtual machine nobody says so. */
    slower =
        work_ns / plan->best_ns + machine->others > machine->cpus / 2 ? SHARED : SLOWER;
    plan->worst_ns =
        longest(rest_ns * slower + (b->by_workers ? 0 : SEND_MOST_NS * b->each),
                make_ns * slower * (b->by_workers ? 1 : PACKING) / plan->workers,
                work_ns * slower / cpus);
}
