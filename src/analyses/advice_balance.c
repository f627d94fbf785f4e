/* One worker of a loader that is slower than those beside it, or that has more to do.
 *
 * A loader hands its batches out in turn and takes them back in that order, so the slowest
 * worker paces all: with it a round of N batches takes what its one batch does, without it
 * what they take on average. It costs something only where the training waits. */

#include <inttypes.h>
#include <math.h>

#include "analyses/advice_batches.h"
#include "analyses/steps_view.h"
#include "model/units.h"

#define WAIT_SHARE 0.05 /* of a step; else nobody waits for the slow one */
#define SLOWER 1.5      /* than the others, on average: more than batches differ by */
#define MORE 1.5        /* batches than the others */
#define FEWEST 8        /* batches of each that make an average */
#define GAIN_SHARE 0.02 /* of the whole training; less is within what runs differ by */
#define LEAST 0.4       /* of what is saved if all take the mean: others get its work */
#define MOST 1.1

struct looking {
    struct lw_advice *advice;
    const struct lw_step_track *track;
    struct lw_batches batches;
};

/* A worker, and those that worked beside it. */
struct group {
    const struct lw_advice_worker *one;
    size_t others;
    uint64_t batches, most, ns; /* of the others; the most that one of them made */
};

static struct group find_group(const struct lw_batches *b,
                               const struct lw_advice_worker *one)
{
    struct group group = { .one = one };

    for (size_t i = 0; i < b->worker_count; i++) {
        const struct lw_advice_worker *other = &b->workers[i];

        if (other == one || other->start_ns >= one->end_ns ||
            one->start_ns >= other->end_ns)
            continue;
        group.others++;
        group.batches += other->batches;
        group.ns += other->ns;
        if (other->batches > group.most)
            group.most = other->batches;
    }
    return group;
}

static double batch_ns(const struct group *group)
{
    return (double)group->one->ns / (double)group->one->batches;
}

static double other_ns(const struct group *group)
{
    return (double)group->ns / (double)group->batches;
}

/* What the training would be spared if all of GROUP took as long for a batch. */
static double slow_ns(const struct looking *l, const struct group *group)
{
    double count = (double)group->others + 1;
    double mean_ns = (batch_ns(group) + other_ns(group) * (count - 1)) / count;
    double rest_ns =
        (l->batches.step_ns - l->batches.data_ns) / l->batches.each * count;

    if (batch_ns(group) < SLOWER * other_ns(group))
        return 0;
    return (double)group->one->batches *
           (fmax(batch_ns(group), rest_ns) - fmax(mean_ns, rest_ns));
}

/* And if all of them made as many: what is left at the end, it makes alone. */
static double more_ns(const struct looking *l, const struct group *group)
{
    double rest_ns = (l->batches.step_ns - l->batches.data_ns) / l->batches.each;
    double alone_ns = fmax(batch_ns(group), rest_ns);
    double shared_ns = fmax(batch_ns(group) / ((double)group->others + 1), rest_ns);

    if ((double)group->one->batches * (double)group->others <
        MORE * (double)group->batches)
        return 0;
    return (double)(group->one->batches - group->most) * (alone_ns - shared_ns);
}

static void describe(const struct looking *l, const struct group *group,
                     struct lw_buf *out)
{
    const struct lw_step_worker *worker = group->one->worker;

    lw_steps_add_who(&l->advice->steps, l->track, out);
    lw_buf_addf(out, "%sworker %" PRIu64 " made %" PRIu64 " batch%s in ",
                out->len ? ": " : "",
                l->advice->profile->processes[worker->process].pid, group->one->batches,
                group->one->batches == 1 ? "" : "es");
    lw_units_add_ns(out, (int64_t)batch_ns(group));
    lw_buf_addf(out, " each, the %zu beside it %.3g on average in ", group->others,
                (double)group->batches / (double)group->others);
    lw_units_add_ns(out, (int64_t)other_ns(group));
    lw_buf_add_text(out, "; a training step waits ");
    lw_units_add_ns(out, (int64_t)l->batches.data_ns);
    lw_buf_add_text(out, " of ");
    lw_units_add_ns(out, (int64_t)l->batches.step_ns);
    lw_buf_add_text(out, " for its batch");
}

static bool add_finding(const struct looking *l, const struct group *group,
                        bool is_slow, double saved, struct lw_error *err)
{
    struct lw_finding finding = {
        .rule = &lw_advice_rule_balance,
        .change = is_slow ? "Have every worker take as long for a batch: the slowest "
                            "paces all"
                          : "Have every worker make as many batches: split the dataset "
                            "evenly (torch.utils.data.get_worker_info())",
        .gain_low = LEAST * saved,
        .gain_high = MOST * saved,
    };
    struct lw_buf evidence;

    lw_buf_init(&evidence, 0);
    describe(l, group, &evidence);
    return lw_advice_add_at(l->advice, &finding, &evidence, l->batches.hot.frame, err);
}

/* Of each epoch's workers one may be slow: their cost is added up, and the worst is
 * shown. */
static bool look_at(const struct looking *l, struct lw_error *err)
{
    const struct lw_batches *b = &l->batches;
    double slow_sum_ns = 0, more_sum_ns = 0, most_ns = 0, saved;
    struct group worst = { 0 };

    if (b->step_count == 0 || b->data_ns < WAIT_SHARE * b->step_ns)
        return true;
    for (size_t i = 0; i < b->worker_count; i++) {
        struct group group = find_group(b, &b->workers[i]);
        double slow, more;

        if (group.one->batches < FEWEST || group.batches < FEWEST * group.others ||
            group.others == 0)
            continue;
        slow = slow_ns(l, &group);
        more = more_ns(l, &group);
        slow_sum_ns += slow;
        more_sum_ns += more;
        if (slow + more > most_ns) {
            most_ns = slow + more;
            worst = group;
        }
    }
    saved = (slow_sum_ns + more_sum_ns) / (double)lw_advice_track_ns(l->track);
    return saved < GAIN_SHARE ||
           add_finding(l, &worst, slow_sum_ns >= more_sum_ns, saved, err);
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    bool done = true;

    for (size_t i = 0; done && i < advice->steps.track_count; i++) {
        struct looking l = { .advice = advice, .track = &advice->steps.tracks[i] };

        done = lw_batches_init(&l.batches, advice, l.track, err) && look_at(&l, err);
        lw_batches_release(&l.batches);
    }
    return done;
}

const struct lw_advice_rule lw_advice_rule_balance = {
    .name = "balance",
    .question = "Is one worker slower than the others, or has it more to do?",
    .needs = LW_ADVICE_STEPS | LW_ADVICE_SAMPLES,
    .look = look,
};
