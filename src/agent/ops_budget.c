/* Saving and spending; see agent/ops_budget.h. */

#include "agent/ops_budget.h"

#include <string.h>

/* So much may be saved up for steps to come, or twice what one takes: a program that did
 * something else for an hour does not get an hour's worth of slow steps in a row. */
static const double most_saved_ms = 10;
/* The first step to be recorded, of which nothing is known, has at least this. */
static const double first_ms = 1;

void lw_ops_budget_init(struct lw_ops_budget *budget, double op_ticks,
                        double ticks_per_ms)
{
    memset(budget, 0, sizeof(*budget));
    budget->op_ticks = op_ticks;
    budget->ticks_per_ms = ticks_per_ms;
}

static void earn(struct lw_ops_budget *budget, uint64_t now)
{
    double step_ticks = budget->step_ops * budget->op_ticks;
    double most = most_saved_ms * budget->ticks_per_ms;

    if (most < 2 * step_ticks)
        most = 2 * step_ticks;
    if (now > budget->last_ticks)
        budget->saved_ticks += LW_OPS_SHARE * (double)(now - budget->last_ticks);
    if (budget->saved_ticks > most)
        budget->saved_ticks = most;
    budget->last_ticks = now;
}

bool lw_ops_budget_step(struct lw_ops_budget *budget, uint64_t now, bool was_recorded,
                        uint64_t ops)
{
    double need;

    if (was_recorded) {
        budget->saved_ticks -= (double)ops * budget->op_ticks;
        /* Steps differ: what most of the last few had. */
        budget->step_ops = budget->step_ops > 0
                               ? 0.75 * budget->step_ops + 0.25 * (double)ops
                               : (double)ops;
    }
    earn(budget, now);
    /* What goes before the first bound, and the first step, is not like those after. */
    if (budget->steps++ == 0)
        return false;
    need = budget->step_ops > 0 ? budget->step_ops * budget->op_ticks
                                : first_ms * budget->ticks_per_ms;
    if (budget->saved_ticks < need)
        return false;
    budget->allowed_ticks =
        budget->saved_ticks > 2 * need ? budget->saved_ticks : 2 * need;
    return true;
}

bool lw_ops_budget_is_spent(struct lw_ops_budget *budget, uint64_t ops)
{
    return (double)ops * budget->op_ticks > budget->allowed_ticks;
}

void lw_ops_budget_give_up(struct lw_ops_budget *budget, uint64_t ops)
{
    budget->saved_ticks -= (double)ops * budget->op_ticks;
    if (budget->step_ops < 2 * (double)ops)
        budget->step_ops = 2 * (double)ops;
}
