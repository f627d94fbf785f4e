/* Steps of a live run that consist of very many tiny ops: what each costs is being called,
 * not what it computes.
 *
 *     a step   [op][op][op] ... [op]        1,200 ops of 3 us
 *     instead  [  one op  ]                 fused, foreach, vectorised or compiled
 *
 * Looked at are steps of which every op was recorded. An op is tiny if those of its name
 * and phase take less than TINY_NS themselves, in the mean of those in which the thread was
 * not held up. A part of the step (the optimizer's, the model's, the rest) is named if tiny
 * ops make up much of it; its time without larger ops, that between the ops too, is what
 * the change is about: a loop over tensors that becomes one op loses nearly all of it, a
 * compiled one a good part. */

#include <stdlib.h>

#include "analyses/advice_places.h"
#include "analyses/advice_trace.h"
#include "analyses/op_spans.h"
#include "analyses/op_windows.h"
#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/mine.h"
#include "model/units.h"

#define TINY_NS 10000
#define HELD_UP_NS 200000 /* a preempted thread loses milliseconds */
#define HELD_UP_SHARE 0.2
#define FEWEST_OPS 100  /* tiny ones a step: a loop, not a few leftovers */
#define STEP_SHARE 0.25 /* of the steps is what the change is about */
#define OPS_SHARE 0.4   /* of that is in the tiny ops themselves, not in Python */
#define WHOLE_STEP 0.95 /* of a step that lies in a window: the rest is its edges */
#define FEWEST_STEPS 3
#define SURE 0.3 /* of that time is saved, and at most all of it */

/* Whose change it is. */
enum part {
    OPTIMIZER,
    MODEL, /* its backward has the ops that its forward makes */
    LOOP,
    PARTS,
};

struct tally {
    uint64_t ns;      /* of the steps, in that part */
    int64_t tiny_ns;  /* own time of tiny ops */
    int64_t large_ns; /* of all others */
    uint64_t tiny_calls;
    int64_t usual_ns; /* of those that were not held up */
    uint64_t usual_calls;
    lw_string_id op; /* the tiny one with the most calls */
    uint64_t op_calls;
};

struct looking {
    struct lw_advice *advice;
    const struct lw_step_track *track;
    struct lw_intervals windows; /* in which the track's process recorded ops */
    bool *is_whole;              /* owned: of each step, whether all of it was */
    uint64_t step_count, step_ns;
    struct tally parts[PARTS];
};

static enum part part_of(unsigned phase)
{
    switch (phase) {
    case LW_PHASE_OPTIMIZER: return OPTIMIZER;
    case LW_PHASE_FORWARD:
    case LW_PHASE_LOSS:
    case LW_PHASE_BACKWARD: return MODEL;
    default: return LOOP;
    }
}

/* ---- steps with all their ops ------------------------------------------------------- */

static bool find_steps(struct looking *l, struct lw_error *err)
{
    const struct lw_step_track *track = l->track;

    l->is_whole = lw_zalloc(track->step_count + 1, sizeof(bool), err);
    if (!l->is_whole ||
        !lw_op_windows_find(l->advice->profile, track->process, &l->windows, err))
        return false;
    lw_intervals_merge(&l->windows);
    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];
        uint64_t ns = step->end_ns - step->start_ns;

        if (step->is_eval || step->is_cut || ns == 0 ||
            (double)lw_intervals_within(&l->windows, step->start_ns, step->end_ns) <
                WHOLE_STEP * (double)ns)
            continue;
        l->is_whole[i] = true;
        l->step_count++;
        l->step_ns += ns;
        for (unsigned p = 0; p < l->advice->steps.phase_count; p++)
            if (p != LW_PHASE_DATA)
                l->parts[part_of(p)].ns += step->ns[p];
    }
    return true;
}

/* ---- ops ---------------------------------------------------------------------------- */

/* Groups of ops: by the phase that they are in, and whether they took very long. */
#define NO_GROUP 0u /* in no step that counts */
#define GROUP_OF(phase, is_long) (1u + 2u * (phase) + (is_long))
#define PHASE_OF(group) (((group)-1u) / 2u)
#define IS_LONG(group) ((group) != NO_GROUP && ((group)-1u) % 2u == 1)

static uint32_t group_of(const void *owner, const struct lw_span *span)
{
    const struct looking *l = owner;
    const struct lw_step_piece *piece = lw_steps_at(l->track, span->start_ns);

    if (!piece || piece->step == LW_NONE || !l->is_whole[piece->step] ||
        piece->phase == LW_PHASE_DATA)
        return NO_GROUP;
    return GROUP_OF(piece->phase, span->duration_ns >= HELD_UP_NS);
}

/* By name, then phase, those that took very long behind the others. */
static int compare_rows(const void *a, const void *b)
{
    const struct lw_op_span_row *x = a, *y = b;

    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* Ops of a name and phase that took very long were held up if nearly all of them did
 * not: then how long those were says whether they are tiny. */
static const struct lw_op_span_row *usual_row(const struct lw_op_spans *ops,
                                              size_t index)
{
    const struct lw_op_span_row *row = &ops->rows[index];
    const struct lw_op_span_row *before = index > 0 ? row - 1 : NULL;

    return IS_LONG(row->group) && before && before->frame == row->frame &&
                   before->group == row->group - 1 &&
                   (double)row->calls <= HELD_UP_SHARE * (double)before->calls
               ? before
               : row;
}

static void add_row(struct looking *l, const struct lw_op_spans *ops, size_t index)
{
    const struct lw_op_span_row *row = &ops->rows[index];
    const struct lw_op_span_row *usual = usual_row(ops, index);
    const struct lw_frame *frame = lw_profile_frame(l->advice->profile, row->frame);
    struct tally *part;

    if (row->group == NO_GROUP || frame->kind != LW_FRAME_OP || row->self_ns < 0)
        return;
    part = &l->parts[part_of(PHASE_OF(row->group))];
    if (usual->self_ns >= (int64_t)(usual->calls * TINY_NS)) {
        part->large_ns += row->self_ns;
        return;
    }
    part->tiny_ns += row->self_ns;
    part->tiny_calls += row->calls;
    if (usual == row) {
        part->usual_ns += row->self_ns;
        part->usual_calls += row->calls;
    }
    if (row->calls > part->op_calls) {
        part->op = frame->name;
        part->op_calls = row->calls;
    }
}

static bool add_ops(struct looking *l, struct lw_error *err)
{
    const struct lw_profile *profile = l->advice->profile;
    bool *threads = lw_zalloc(profile->thread_count + 1, sizeof(bool), err);
    struct lw_op_spans ops = { 0 };
    bool done;

    if (!threads)
        return false;
    threads[l->track->thread] = true;
    done = lw_op_spans_init(&ops, profile, threads, group_of, l, err);
    if (done && ops.count > 1)
        qsort(ops.rows, ops.count, sizeof(*ops.rows), compare_rows);
    for (size_t i = 0; done && i < ops.count; i++)
        add_row(l, &ops, i);
    lw_op_spans_release(&ops);
    lw_free(threads);
    return done;
}

/* ---- the line ----------------------------------------------------------------------- */

/* Of each stack the innermost frame of the person's own; 0: none. Parents come before
 * their children, so each takes over what its parent knows. Caller frees; NULL: *ERR. */
static lw_frame_id *find_own_frames(const struct lw_profile *profile,
                                    struct lw_error *err)
{
    enum { NOT_ASKED, NOT_MINE, MINE };
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &count);
    lw_frame_id *own = lw_zalloc(count + 1, sizeof(*own), err);
    uint8_t *files =
        own ? lw_zalloc(lw_strings_count(profile->strings) + 1, 1, err) : NULL;
    struct lw_error reason = { LW_OK, "" };
    struct lw_mine mine = { 0 };
    bool done = files && lw_mine_init(&mine, profile, err);

    for (lw_stack_id s = 1; done && !reason.code && s < count; s++) {
        const struct lw_frame *frame = lw_profile_frame(profile, stacks[s].frame);
        uint8_t *file = &files[frame->file];

        if (*file == NOT_ASKED)
            *file = lw_mine_has(&mine, lw_profile_text(profile, frame->file), &reason)
                        ? MINE
                        : NOT_MINE;
        own[s] = frame->kind == LW_FRAME_PYTHON && *file == MINE
                     ? stacks[s].frame
                     : own[stacks[s].parent];
    }
    lw_mine_release(&mine);
    lw_free(files);
    if (done && !reason.code)
        return own;
    if (reason.code)
        lw_fail(err, reason.code, "%s", reason.text);
    lw_free(own);
    return NULL;
}

/* The line that most samples in PART of the steps were below of; 0: not known. A backward
 * has no lines of its own: what it runs the forward asked for. */
static bool find_line(const struct looking *l, enum part part, lw_frame_id *line,
                      struct lw_error *err)
{
    const struct lw_profile *profile = l->advice->profile;
    lw_frame_id *own = find_own_frames(profile, err);
    uint64_t *weights;
    size_t frame_count;
    bool done;

    lw_stacks_frames(profile->stacks, &frame_count);
    weights = own ? lw_zalloc(frame_count + 1, sizeof(*weights), err) : NULL;
    done = weights != NULL;
    for (size_t i = 0; done && i < profile->sample_count; i++) {
        const struct lw_sample *sample = &profile->samples[i];
        const struct lw_step_piece *piece;
        lw_frame_id frame = own[sample->stack];

        if (sample->thread != l->track->thread || sample->count == 0 || frame == 0)
            continue;
        piece = lw_steps_at(l->track, sample->time_ns);
        if (!piece || piece->step == LW_NONE || part_of(piece->phase) != part ||
            piece->phase == LW_PHASE_DATA || piece->phase == LW_PHASE_BACKWARD)
            continue;
        weights[frame] += sample->weight_ns;
        if (weights[frame] > weights[*line])
            *line = frame;
    }
    lw_free(own);
    lw_free(weights);
    return done;
}

/* ---- what is said ------------------------------------------------------------------- */

static void add_each(struct lw_buf *out, const struct looking *l, uint64_t count)
{
    lw_units_add_count(out, (int64_t)((count + l->step_count / 2) / l->step_count));
}

static bool say(const struct looking *l, enum part which, uint64_t ns,
                struct lw_error *err)
{
    static const char *const changes[] = {
        [OPTIMIZER] = "Let the optimizer treat all parameters at once: fused=True, or "
                      "foreach=True",
        [MODEL] = "Make fewer, larger ops of the model's: torch.compile, or vectorise "
                  "the loop that calls them",
        [LOOP] = "Make fewer, larger ops in the loop: vectorise it (torch._foreach_*, "
                 "stacked tensors), or torch.compile",
    };
    static const char *const names[] = {
        [OPTIMIZER] = "the optimizer's step",
        [MODEL] = "the model's forward and backward",
        [LOOP] = "the loop, outside of model and optimizer",
    };
    const struct lw_profile *profile = l->advice->profile;
    const struct tally *part = &l->parts[which];
    double share = (double)ns / (double)l->step_ns;
    struct lw_advice_words words;
    struct lw_buf *why = &words.evidence;
    lw_frame_id line = 0;
    bool done = find_line(l, which, &line, err);

    lw_advice_words_init(&words, &lw_advice_rule_ops);
    lw_buf_add_text(&words.change, changes[which]);
    lw_steps_add_who(&l->advice->steps, l->track, why);
    lw_buf_addf(why, "%s%s runs ", why->len ? ": " : "", names[which]);
    add_each(why, l, part->tiny_calls);
    lw_buf_add_text(why, " ops a step that take ");
    lw_units_add_ns(why, part->usual_ns / (int64_t)part->usual_calls);
    lw_buf_addf(why, " each (most often %s, ", lw_profile_text(profile, part->op));
    add_each(why, l, part->op_calls);
    lw_buf_add_text(why, " times): with what is between them ");
    lw_units_add_ns(why, (int64_t)(ns / l->step_count));
    lw_buf_add_text(why, " of a step of ");
    lw_units_add_ns(why, (int64_t)(l->step_ns / l->step_count));
    lw_advice_set_place(&words.finding, profile, line);
    share *= (double)l->track->train_ns / (double)lw_advice_track_ns(l->track);
    words.finding.gain_low = SURE * share;
    words.finding.gain_high = share;
    done = done && lw_advice_words_add(&words, l->advice, err);
    lw_advice_words_release(&words);
    return done;
}

/* The part of the step with the most time in and between tiny ops. */
static bool find(struct looking *l, struct lw_error *err)
{
    uint64_t most_ns = 0;
    unsigned most = 0;

    if (!find_steps(l, err))
        return false;
    if (l->step_count < FEWEST_STEPS)
        return true;
    if (!add_ops(l, err))
        return false;
    for (unsigned i = 0; i < PARTS; i++) {
        const struct tally *part = &l->parts[i];
        uint64_t ns = part->ns > (uint64_t)part->large_ns
                          ? part->ns - (uint64_t)part->large_ns
                          : 0;

        if (part->tiny_calls >= FEWEST_OPS * l->step_count &&
            (double)part->tiny_ns >= OPS_SHARE * (double)ns && ns > most_ns) {
            most_ns = ns;
            most = i;
        }
    }
    return (double)most_ns < STEP_SHARE * (double)l->step_ns ||
           say(l, (enum part)most, most_ns, err);
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    for (size_t i = 0; i < advice->steps.track_count; i++) {
        struct looking l = { .advice = advice, .track = &advice->steps.tracks[i] };
        bool done = find(&l, err);

        lw_intervals_release(&l.windows);
        lw_free(l.is_whole);
        if (!done)
            return false;
    }
    return true;
}

const struct lw_advice_rule lw_advice_rule_ops = {
    .name = "ops",
    .question = "Do many tiny ops make up the step?",
    .needs = LW_ADVICE_STEPS | LW_ADVICE_OPS,
    .look = look,
};
