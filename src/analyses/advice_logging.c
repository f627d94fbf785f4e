/* What the loop calls in the time that no phase has (logging, metrics, pictures), where
 * that is much of it.
 *
 * How long that time is, the phases bound exactly; who has it, the samples say, and how far
 * they can be off is part of the range, as is how much two processes differ that do the
 * same. Done a tenth as often, nine tenths of it are saved; left out, all. Whether the
 * training needs it only the person knows, so that is said as a condition; what belongs to
 * torch itself (clipping, schedulers, scalers) is no finding, whoever calls it. */

#include <math.h>
#include <string.h>

#include "analyses/advice_places.h"
#include "analyses/steps_view.h"
#include "base/text.h"
#include "model/mine.h"
#include "model/units.h"

#define STEP_SHARE 0.05  /* of a step; less is within what steps differ by anyway */
#define WHOLE_SHARE 0.02 /* and of the whole training: evaluation may be rare */
#define RARER 0.1        /* a tenth as often */
#define AFTERMATH 1.25   /* with what it leaves to the collector and in the caches */
#define AGAIN 0.85       /* what the same call takes in another process, at least */
#define TOOLS \
    0.5 /* of a call's time in torch's own parts of a training: it is theirs */

struct looking {
    struct lw_advice *advice;
    const struct lw_step_track *track;
    struct lw_called_list calls;
    bool is_eval;
    bool is_lightning;             /* its Trainer runs the loop */
    uint64_t step_count, steps_ns; /* of that kind */
    struct lw_mine mine;
};

/* torch's, and ours, which takes windows of torch's profiler: nothing the training does. */
static bool is_of_tools(const char *file)
{
    return (strstr(file, "-packages/torch/") &&
            !strstr(file, "/torch/serialization")) ||
           strstr(file, "-packages/lapwing/") || strstr(file, "/_lapwing_");
}

/* What torch has for a training loop to call: clipping, schedulers, averages of weights. A
 * metric calls torch too, but not this. */
static bool is_of_trainings(const char *file)
{
    static const char *const parts[] = { "/torch/nn/utils/", "/torch/optim/",
                                         "/torch/amp/", "/torch/distributed/" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (strstr(file, parts[i]))
            return true;
    return false;
}

/* Is what CALL does a tool's, behind whatever name (accelerate's clip_grad_norm_)? */
static bool is_tools(const struct looking *l, const struct lw_called *call, bool *is,
                     struct lw_error *err)
{
    const struct lw_profile *profile = l->advice->profile;
    const struct lw_frame *frame = lw_profile_frame(profile, call->function);
    double share = 0;

    *is = is_of_tools(lw_profile_text(profile, frame->file));
    if (*is || call->function == call->caller)
        return true;
    if (!lw_advice_share_in(l->advice, l->track, l->is_eval, call->function,
                            is_of_trainings, &share, err))
        return false;
    *is = share >= TOOLS;
    return true;
}

/* Where to change it: the line of the loop, or the function where the loop is a
 * library's. */
static bool find_place(struct looking *l, const struct lw_called *call,
                       struct lw_finding *finding, struct lw_error *err)
{
    const struct lw_profile *profile = l->advice->profile;
    const struct lw_frame *function = lw_profile_frame(profile, call->function);
    const struct lw_frame *caller = lw_profile_frame(profile, call->caller);
    const char *file = lw_profile_text(profile, function->file);
    const char *caller_file = lw_profile_text(profile, caller->file);
    struct lw_error reason = { 0 };
    bool is_called =
        call->caller != 0 && (lw_mine_has(&l->mine, caller_file, &reason) ||
                              !lw_mine_has(&l->mine, file, &reason));
    const struct lw_frame *place = is_called ? caller : function;

    finding->file = is_called ? caller_file : file;
    finding->line = is_called && place->line ? place->line : place->first_line;
    if (reason.code && err)
        *err = reason;
    return reason.code == LW_OK;
}

static bool describe(const struct looking *l, const struct lw_called *call,
                     struct lw_buf *change, struct lw_buf *evidence,
                     struct lw_error *err)
{
    const struct lw_profile *profile = l->advice->profile;
    const char *name =
        lw_profile_text(profile, lw_profile_frame(profile, call->function)->name);
    const char *kind = l->is_eval ? "step of evaluation" : "training step";
    bool is_loop = call->function == call->caller;
    struct lw_advice_place hot = { 0 };

    if (!is_loop &&
        !lw_advice_find_hot(l->advice, l->track, l->is_eval, call->function, &hot, err))
        return false;
    if (l->is_eval && l->is_lightning)
        lw_buf_add_text(change, "Evaluate less often: "
                                "Trainer(check_val_every_n_epoch=10), or "
                                "limit_val_batches for fewer batches of it");
    else
        lw_buf_addf(change,
                    "%s %s%s a tenth as often, or not at all, if the training does not "
                    "need it",
                    is_loop ? "Do what" : "Call", name,
                    is_loop ? " does in this line" : "");
    lw_steps_add_who(&l->advice->steps, l->track, evidence);
    lw_buf_addf(evidence, "%sa %s spends ", evidence->len ? ": " : "", kind);
    lw_units_add_ns(evidence, (int64_t)(call->ns / l->step_count));
    lw_buf_add_text(evidence, " of ");
    lw_units_add_ns(evidence, (int64_t)(l->steps_ns / l->step_count));
    lw_buf_add_text(evidence, " (");
    lw_units_add_share(evidence, (double)call->ns / (double)l->steps_ns);
    lw_buf_addf(evidence, ") in %s%s, which is no phase of the training (",
                is_loop ? "that line of " : "", name);
    lw_units_add_counted(evidence, (int64_t)call->samples, "sample");
    lw_buf_add_text(evidence, ")");
    if (hot.frame) {
        lw_buf_add_text(evidence, "; ");
        lw_units_add_share(evidence, hot.share);
        lw_buf_add_text(evidence, " of that in ");
        lw_advice_add_place(evidence, profile, hot.frame);
    }
    return lw_buf_check(change, err) && lw_buf_check(evidence, err);
}

static bool add_finding(struct looking *l, const struct lw_called *call, double error,
                        struct lw_error *err)
{
    double whole_ns = (double)lw_advice_track_ns(l->track);
    double other = (double)l->calls.ns / whole_ns; /* share of the whole */
    double share = (double)call->samples / (double)l->calls.samples;
    struct lw_finding finding = {
        .rule = &lw_advice_rule_logging,
        .gain_low = (share - error) * other * (1 - RARER) * AGAIN,
        .gain_high = fmin(fmin(share + error, 1) * other * AFTERMATH, 1),
    };
    struct lw_buf change, evidence;
    bool done;

    lw_buf_init(&change, 0);
    lw_buf_init(&evidence, 0);
    done = describe(l, call, &change, &evidence, err) &&
           find_place(l, call, &finding, err);
    if (done) {
        finding.change = change.bytes;
        finding.evidence = evidence.bytes;
        done = lw_advice_add(l->advice, &finding, err);
    }
    lw_buf_release(&change);
    lw_buf_release(&evidence);
    return done;
}

static bool look_at_calls(struct looking *l, struct lw_error *err)
{
    uint64_t whole_ns = lw_advice_track_ns(l->track);

    for (size_t i = 0; i < l->calls.count; i++) {
        const struct lw_called *call = &l->calls.list[i];
        double error =
            lw_analysis_error((int64_t)call->samples, (int64_t)l->calls.samples);
        bool is_theirs;

        if ((double)call->ns < STEP_SHARE * (double)l->steps_ns ||
            (double)call->ns < WHOLE_SHARE * (double)whole_ns)
            return true; /* those that follow have less */
        if (!is_tools(l, call, &is_theirs, err))
            return false;
        if (!is_theirs &&
            lw_advice_is_sure((int64_t)call->samples, (int64_t)l->calls.samples) &&
            !add_finding(l, call, error, err))
            return false;
    }
    return true;
}

static bool look_at(struct looking *l, struct lw_error *err)
{
    const struct lw_step_track *track = l->track;
    bool done;

    l->step_count = l->is_eval ? track->eval_count : track->train_count;
    l->steps_ns = l->is_eval ? track->eval_ns : track->train_ns;
    if (l->step_count == 0)
        return true;
    done = lw_steps_find_other(&l->calls, &l->advice->steps, track, l->is_eval, err) &&
           look_at_calls(l, err);
    lw_called_release(&l->calls);
    return done;
}

/* Does Lightning's Trainer run the loop? Then how often what is done is an argument of
 * it, and no line of the person's. */
static bool is_lightning(const struct lw_profile *profile)
{
    static const char *const trainers[] = { "lightning/pytorch/trainer/trainer.py",
                                            "pytorch_lightning/trainer/trainer.py" };
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(profile->stacks, &count);

    for (size_t i = 0; i < count; i++)
        for (size_t t = 0; t < sizeof(trainers) / sizeof(trainers[0]); t++)
            if (lw_text_ends(lw_profile_text(profile, frames[i].file), trainers[t]))
                return true;
    return false;
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    struct looking l = { .advice = advice,
                         .is_lightning = is_lightning(advice->profile) };
    bool done = lw_mine_init(&l.mine, advice->profile, err);

    for (size_t i = 0; done && i < advice->steps.track_count; i++) {
        l.track = &advice->steps.tracks[i];
        l.is_eval = false;
        done = look_at(&l, err);
        l.is_eval = true;
        done = done && look_at(&l, err);
    }
    lw_mine_release(&l.mine);
    return done;
}

const struct lw_advice_rule lw_advice_rule_logging = {
    .name = "logging",
    .question = "Does logging or a metric take much of a step?",
    .needs = LW_ADVICE_STEPS | LW_ADVICE_SAMPLES,
    .look = look,
};
