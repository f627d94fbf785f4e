/* A training that waits for its batches: made by itself (num_workers=0), or by workers that
 * are too few. What more of them would gain is worked out in advice_plan.h; where there are
 * no processors for them, only less work helps, and its line is named. */

#include <math.h>

#include "analyses/advice_plan.h"
#include "analyses/steps_view.h"
#include "model/units.h"

#define WAIT_SHARE 0.05 /* of a step; less is within what steps differ by anyway */
#define GAIN_SHARE 0.05 /* of the whole training: what workers must bring at best */
#define BUSY_SHARE 0.7  /* workers less busy than that are not what is waited for */
#define IN_USE 0.8 /* of all processors: from there on trainings are interrupted ... */
#define BUSY_WAIT_SHARE 0.15 /* ... and half of their steps must wait so much */
#define START_NS 5e8         /* to start them, once: nobody has to more than that */

struct looking {
    struct lw_advice *advice;
    const struct lw_step_track *track;
    struct lw_batches batches;
    struct lw_advice_machine machine;
    struct lw_workers_plan plan;
    struct lw_buf change, evidence;
};

/* "a training step waits 14.2 ms of 21.0 ms (67.6 %) for its batch", and what for. */
static void add_evidence(struct looking *l)
{
    const struct lw_batches *b = &l->batches;
    struct lw_buf *out = &l->evidence;

    lw_steps_add_who(&l->advice->steps, l->track, out);
    lw_buf_addf(out, "%sa training step waits ", out->len ? ": " : "");
    lw_units_add_ns(out, (int64_t)b->data_ns);
    lw_buf_add_text(out, " of ");
    lw_units_add_ns(out, (int64_t)b->step_ns);
    lw_buf_add_text(out, " (");
    lw_units_add_share(out, b->data_ns / b->step_ns);
    lw_buf_add_text(out, ") for its batch, which ");
    if (b->by_workers) {
        lw_buf_addf(out, "one of %zu worker%s makes in ", b->at_a_time,
                    b->at_a_time == 1 ? "" : "s");
        lw_units_add_ns(out, (int64_t)lw_batches_worker_ns(b));
    } else {
        lw_buf_add_text(out, "the training makes itself (num_workers=0)");
    }
    if (b->hot.frame) {
        lw_buf_add_text(out, "; ");
        lw_units_add_share(out, b->hot.share);
        lw_buf_add_text(out, " of making it is ");
        lw_advice_add_place(out, l->advice->profile, b->hot.frame);
    }
    lw_buf_addf(out, "; of %.3g CPU%s the training uses %.2g", l->machine.cpus,
                l->machine.cpus == 1 ? "" : "s", l->machine.family);
    if (l->machine.others >= 0.05)
        lw_buf_addf(out, " and others %.2g", l->machine.others);
}

static bool add_finding(struct looking *l, struct lw_finding *finding,
                        struct lw_error *err)
{
    finding->rule = &lw_advice_rule_data;
    add_evidence(l);
    if (!lw_buf_check(&l->change, err) || !lw_buf_check(&l->evidence, err))
        return false;
    finding->change = l->change.bytes;
    finding->evidence = l->evidence.bytes;
    return lw_advice_add(l->advice, finding, err);
}

/* What of the whole training is saved if a step takes STEP_NS. */
static double saved_share(const struct looking *l, double step_ns)
{
    return (1 - step_ns / l->batches.step_ns) * l->batches.train_share;
}

static bool advise_workers(struct looking *l, struct lw_error *err)
{
    const struct lw_batches *b = &l->batches;
    double start = START_NS / (double)lw_advice_track_ns(l->track);
    struct lw_finding finding = {
        /* Whose training is over before its workers have started knows that it was. */
        .gain_low = fmax(saved_share(l, l->plan.worst_ns) - start, -1),
        .gain_high = saved_share(l, l->plan.best_ns),
    };

    lw_buf_addf(&l->change, "Have %.0f worker%s make the batches: DataLoader(..., ",
                l->plan.workers, l->plan.workers == 1 ? "" : "s");
    lw_buf_addf(&l->change, "num_workers=%.0f, persistent_workers=True)",
                l->plan.workers);
    lw_advice_set_place(&finding, l->advice->profile, b->loop.frame);
    return add_finding(l, &finding, err);
}

static bool advise_less(struct looking *l, struct lw_error *err)
{
    struct lw_finding finding = { .gain_low = NAN, .gain_high = NAN };

    lw_buf_add_text(&l->change, "Do less in ");
    lw_advice_add_place(&l->change, l->advice->profile, l->batches.hot.frame);
    lw_buf_addf(&l->change,
                ", or once before the training: for %sworkers there are no "
                "free CPUs",
                l->batches.by_workers ? "more " : "");
    lw_advice_set_place(&finding, l->advice->profile, l->batches.hot.frame);
    return add_finding(l, &finding, err);
}

/* How much of their time the workers that there are make batches. */
static double busy_share(const struct lw_batches *b)
{
    return lw_batches_worker_ns(b) * b->each / (double)b->at_a_time / b->step_ns;
}

/* Does the wait only seem one? A training that is stopped for others to run may be anywhere
 * when it is. */
static bool is_interrupted(const struct looking *l)
{
    return l->batches.by_itself && l->batches.usual_share < BUSY_WAIT_SHARE &&
           l->machine.family + l->machine.others > IN_USE * l->machine.cpus;
}

static bool look_at(struct looking *l, struct lw_error *err)
{
    const struct lw_batches *b = &l->batches;
    double best, worst;

    if (b->step_count == 0 || b->data_ns < WAIT_SHARE * b->step_ns ||
        b->by_itself == b->by_workers)
        return true; /* with loaders of both kinds it is not known whom it waits for */
    if (b->by_workers && (b->at_a_time == 0 || busy_share(b) < BUSY_SHARE))
        return true; /* whatever it waits for, it is not the making of batches */
    l->machine = lw_advice_machine_of(l->advice->profile, l->track);
    if (!isfinite(l->machine.cpus) || !isfinite(l->machine.family))
        return true; /* what workers could do is not known */
    if (is_interrupted(l))
        return true;
    lw_workers_plan_init(&l->plan, b, &l->machine);
    best = saved_share(l, l->plan.best_ns);
    worst = saved_share(l, l->plan.worst_ns);
    if (best >= GAIN_SHARE && best + worst > 0 &&
        l->plan.workers > (double)b->at_a_time)
        return advise_workers(l, err);
    if (l->plan.lacks_cpus && b->hot_is_own &&
        b->data_ns / b->step_ns * b->train_share >= GAIN_SHARE)
        return advise_less(l, err);
    return true;
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    bool done = true;

    for (size_t i = 0; done && i < advice->steps.track_count; i++) {
        struct looking l = { .advice = advice, .track = &advice->steps.tracks[i] };

        lw_buf_init(&l.change, 0);
        lw_buf_init(&l.evidence, 0);
        done = lw_batches_init(&l.batches, advice, l.track, err) && look_at(&l, err);
        lw_batches_release(&l.batches);
        lw_buf_release(&l.change);
        lw_buf_release(&l.evidence);
    }
    return done;
}

const struct lw_advice_rule lw_advice_rule_data = {
    .name = "data",
    .question = "Does the training wait for its batches?",
    .needs = LW_ADVICE_STEPS | LW_ADVICE_SAMPLES | LW_ADVICE_COUNTERS,
    .look = look,
};
