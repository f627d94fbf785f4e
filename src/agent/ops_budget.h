/* Which steps of a training are recorded op by op, so that it costs a set share of the
 * run: time passes and earns, an op that is recorded spends.
 *
 * A step is recorded when what is saved covers what such a step usually spends; where ops
 * are few or long that is nearly every step, where they are many and tiny one in a hundred
 * or so, spread over the run. How many ops a step has is seen in the steps that were
 * recorded, and of the first nothing is known: one that spends more than may be is given up
 * (it is not a whole step then) and more is saved for the next.
 *
 * What an op spends is several times what a loop of them says, since in a program nothing
 * of ours is in the caches: it is how much longer recorded steps take than others. So that
 * there are others, one in eight is left out.
 *
 * Times are ticks of any one clock, which may stand still for what shall not earn. Nothing
 * here locks. */
#ifndef LW_AGENT_OPS_BUDGET_H
#define LW_AGENT_OPS_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define LW_OPS_SHARE 0.003 /* of the run's time */

struct lw_ops_budget {
    double least_op_ticks; /* what one op costs, where all of it is in the caches */
    double op_ticks;       /* what one costs in the steps of late */
    double other_ticks;    /* what a step takes that is not recorded; 0: not known */
    double ticks_per_ms;   /* of the clock */
    double saved_ticks;    /* may be below zero: a step spent more than those before */
    double allowed_ticks;  /* what the running step may spend before it is given up */
    double step_ops;       /* in a step, of late; 0: not known */
    uint64_t last_ticks;   /* when it was last asked */
    uint64_t steps;        /* bounds that it was asked at */
    unsigned row;          /* of recorded steps, without one that was not */
    bool gave_up;          /* the step that runs */
};

/* Time earns from the beginning of its clock on. */
void lw_ops_budget_init(struct lw_ops_budget *budget, double least_op_ticks,
                        double ticks_per_ms);

/* A step ends and the next begins; OPS of the one that ends were recorded, if it was
 * (WAS_RECORDED) and is whole. Is the next one to be recorded? */
bool lw_ops_budget_step(struct lw_ops_budget *budget, uint64_t now, bool was_recorded,
                        uint64_t ops);

/* May it be, where the ring that its records go to has room for so many of CAPACITY? Steps
 * that are recorded one after the other must not fill it before it is read: they would not
 * be whole, and what is always recorded, such as phases, would be lost with them. */
bool lw_ops_budget_has_room(const struct lw_ops_budget *budget, uint64_t room,
                            uint64_t capacity);

/* The step that is recorded has had OPS so far: is it to be given up? */
bool lw_ops_budget_is_spent(struct lw_ops_budget *budget, uint64_t ops);

/* It was, after OPS. */
void lw_ops_budget_give_up(struct lw_ops_budget *budget, uint64_t ops);

#endif
