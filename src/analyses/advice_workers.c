/* Workers that every epoch starts anew (persistent_workers=False, the default).
 *
 * What that costs an epoch is what the training spends in starting and ending them, by its
 * samples, and what the first step waits for its batch beyond the making of one, by its
 * spans. That they were started anew is seen: there are more of them than at a time. */

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyses/advice_batches.h"
#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

#define GAIN_SHARE 0.02 /* of the whole training; less is within what runs differ by */
#define LEAST 0.6       /* of the cost: epochs begin with a wait in any case */
#define MOST 1.3        /* of it: new workers are slow at first, and all else waits */

struct looking {
    const struct lw_advice *advice;
    const struct lw_step_track *track;
    struct lw_batches batches;
    uint64_t starts;  /* of workers, after the first */
    double handle_ns; /* starting and ending them, in all */
    double wait_ns;   /* of first steps for their batch, beyond the making of one */
};

/* In the loader's own file, whose class the recording does not tell: its constructor
 * starts the workers. */
static bool is_handling(const struct lw_profile *profile, lw_frame_id id)
{
    const struct lw_frame *frame = lw_profile_frame(profile, id);
    const char *name = lw_profile_text(profile, frame->name);

    return (strcmp(name, "__init__") == 0 || strcmp(name, "_shutdown_workers") == 0) &&
           lw_text_ends(lw_profile_text(profile, frame->file),
                        "torch/utils/data/dataloader.py");
}

static bool add_samples(struct looking *l, struct lw_error *err)
{
    const struct lw_profile *profile = l->advice->profile;
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &count);
    uint8_t *handles = lw_zalloc(count + 1, 1, err); /* of each stack */

    if (!handles)
        return false;
    for (lw_stack_id s = 1; s < count; s++)
        handles[s] = handles[stacks[s].parent] || is_handling(profile, stacks[s].frame);
    for (size_t i = 0; i < profile->sample_count; i++) {
        const struct lw_sample *sample = &profile->samples[i];

        if (sample->thread == l->track->thread && sample->count > 0 &&
            handles[sample->stack] && lw_steps_at(l->track, sample->time_ns))
            l->handle_ns += (double)sample->weight_ns;
    }
    lw_free(handles);
    return true;
}

static void add_first_steps(struct looking *l)
{
    double make_ns = lw_batches_worker_ns(&l->batches) * l->batches.each;
    bool is_begun = false;

    for (size_t i = 0; i < l->track->step_count; i++) {
        const struct lw_step *step = &l->track->steps[i];

        if (step->is_eval || step->is_cut || !step->is_first)
            continue;
        if (is_begun) {
            l->starts++;
            l->wait_ns += fmax((double)step->ns[LW_PHASE_DATA] - make_ns, 0);
        }
        is_begun = true;
    }
}

static void describe(const struct looking *l, struct lw_buf *out)
{
    double starts = (double)l->starts;

    lw_steps_add_who(&l->advice->steps, l->track, out);
    lw_buf_addf(out,
                "%severy epoch starts its %zu worker%s anew: that and their end take ",
                out->len ? ": " : "", l->batches.at_a_time,
                l->batches.at_a_time == 1 ? "" : "s");
    lw_units_add_ns(out, (int64_t)(l->handle_ns / starts));
    lw_buf_add_text(out, " of each, and its first step waits ");
    lw_units_add_ns(out, (int64_t)(l->wait_ns / starts));
    lw_buf_add_text(out, " for its batch beyond the making of one; ");
    lw_units_add_ns(out, (int64_t)(l->handle_ns + l->wait_ns));
    lw_buf_addf(out, " in %" PRIu64 " epoch%s after the first", l->starts,
                l->starts == 1 ? "" : "s");
}

static bool look_at(struct lw_advice *advice, struct looking *l, struct lw_error *err)
{
    struct lw_finding finding = { .rule = &lw_advice_rule_workers,
                                  .change = "Keep the workers from one epoch to the "
                                            "next: DataLoader(..., "
                                            "persistent_workers=True)" };
    double whole_ns = (double)lw_advice_track_ns(l->track), cost;
    struct lw_buf evidence;

    if (l->batches.worker_count <= l->batches.at_a_time)
        return true; /* they stayed, or there are none */
    add_first_steps(l);
    if (!add_samples(l, err))
        return false;
    cost = (l->handle_ns + l->wait_ns) / whole_ns;
    if (l->starts == 0 || cost < GAIN_SHARE)
        return true;
    lw_buf_init(&evidence, 0);
    describe(l, &evidence);
    finding.gain_low = LEAST * cost;
    finding.gain_high = fmin(MOST * cost, 1);
    return lw_advice_add_at(advice, &finding, &evidence, l->batches.loop.frame, err);
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    bool done = true;

    for (size_t i = 0; done && i < advice->steps.track_count; i++) {
        struct looking l = { .advice = advice, .track = &advice->steps.tracks[i] };

        done = lw_batches_init(&l.batches, advice, l.track, err) &&
               look_at(advice, &l, err);
        lw_batches_release(&l.batches);
    }
    return done;
}

const struct lw_advice_rule lw_advice_rule_workers = {
    .name = "workers",
    .question = "Does every epoch start its workers anew?",
    .needs = LW_ADVICE_STEPS | LW_ADVICE_SAMPLES,
    .look = look,
};
