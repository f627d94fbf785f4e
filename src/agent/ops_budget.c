/* Saving and spending; see agent/ops_budget.h. */

#include "agent/ops_budget.h"

#include <string.h>

/* So much may be saved up for steps to come, or twice what one takes: a program that did
 * something else for an hour does not get an hour's worth of slow steps in a row. */
static const double most_saved_ms = 10;
/* The first step to be recorded, of which nothing is known, has at least this. */
static const double first_ms = 1;
/* An op costs so many times the least until more is known, and at most. */
static const double first_factor = 4, most_factor = 16;
/* How much of what is known of steps the last one is. */
static const double newest = 0.25;
static const unsigned longest_row = 7;
/* Of a ring: what stays for records that are no ops, and what a step that is as large or of
 * which nothing is known may need. */
static const double kept_room = 0.125, most_room = 0.75;

void lw_ops_budget_init(struct lw_ops_budget *budget, double least_op_ticks,
                        double ticks_per_ms)
{
    memset(budget, 0, sizeof(*budget));
    budget->least_op_ticks = least_op_ticks;
    budget->op_ticks = first_factor * least_op_ticks;
    budget->ticks_per_ms = ticks_per_ms;
}

/* Steps differ: what most of the last few had. One that had far more is a pause of the
 * program's. */
static void learn(double *usual, double seen)
{
    if (*usual > 0 && seen > 2 * *usual)
        seen = 2 * *usual;
    *usual = *usual > 0 ? (1 - newest) * *usual + newest * seen : seen;
}

/* A step of OPS recorded ones took so long. */
static void learn_cost(struct lw_ops_budget *budget, double step_ticks, uint64_t ops)
{
    double seen, most = most_factor * budget->least_op_ticks;

    if (ops == 0 || budget->other_ticks == 0)
        return;
    seen = (step_ticks - budget->other_ticks) / (double)ops;
    if (seen < budget->least_op_ticks)
        seen = budget->least_op_ticks;
    learn(&budget->op_ticks, seen < most ? seen : most);
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
    double step_ticks =
        now > budget->last_ticks ? (double)(now - budget->last_ticks) : 0;
    double need;

    if (was_recorded) {
        learn_cost(budget, step_ticks, ops);
        budget->saved_ticks -= (double)ops * budget->op_ticks;
        learn(&budget->step_ops, (double)ops);
    } else if (budget->steps > 1 && !budget->gave_up) {
        learn(&budget->other_ticks, step_ticks);
    }
    budget->row = was_recorded ? budget->row + 1 : 0;
    budget->gave_up = false;
    earn(budget, now);
    /* What goes before the first bound, and the first step, is not like those after. */
    if (budget->steps++ == 0 || budget->row >= longest_row)
        return false;
    need = budget->step_ops > 0 ? budget->step_ops * budget->op_ticks
                                : first_ms * budget->ticks_per_ms;
    if (budget->saved_ticks < need)
        return false;
    budget->allowed_ticks =
        budget->saved_ticks > 2 * need ? budget->saved_ticks : 2 * need;
    return true;
}

bool lw_ops_budget_has_room(const struct lw_ops_budget *budget, uint64_t room,
                            uint64_t capacity)
{
    /* An op is two records, with its origin, and a step may have twice as many as usual. */
    double most = most_room * (double)capacity, need = most;

    if (budget->step_ops > 0)
        need = 4 * budget->step_ops + kept_room * (double)capacity;
    return (double)room >= (need < most ? need : most);
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
    budget->gave_up = true;
}
