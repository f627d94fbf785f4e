/* Which line has the most, and how a line is named. */

#include "analyses/advice_places.h"

#include "base/alloc.h"
#include "model/callgraph.h"
#include "model/mine.h"

static bool is_same_function(const struct lw_frame *a, const struct lw_frame *b)
{
    return a->name == b->name && a->file == b->file && a->first_line == b->first_line;
}

struct lw_advice_place lw_advice_find_most(const struct lw_profile *profile,
                                           const uint64_t *ns)
{
    struct lw_advice_place most = { 0 };
    uint64_t all_ns = 0, most_ns = 0;
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(profile->stacks, &count);

    for (lw_frame_id i = 1; i < count; i++) {
        uint64_t its_ns = 0;
        lw_frame_id longest = i;

        all_ns += ns[i];
        for (lw_frame_id k = 1; ns[i] > 0 && k < count; k++) {
            if (ns[k] == 0 || !is_same_function(&frames[i], &frames[k]))
                continue;
            its_ns += ns[k];
            if (ns[k] > ns[longest])
                longest = k;
        }
        if (its_ns > most_ns) {
            most_ns = its_ns;
            most.frame = longest;
        }
    }
    most.share = all_ns ? (double)most_ns / (double)all_ns : 0;
    return most;
}

/* ---- where a call's time goes ------------------------------------------------------- */

struct looking {
    const struct lw_profile *profile;
    const struct lw_step_track *track;
    struct lw_mine mine;
    uint8_t *below;    /* owned: of each stack, whether it is in the call */
    lw_frame_id *hots; /* owned: of each stack, the line that is to blame; 0: none */
    uint64_t *ns;      /* owned: of each frame */
};

/* Parents come before their children, so each takes over what its parent knows. */
static bool sort_stacks(struct looking *l, lw_frame_id function, struct lw_error *err)
{
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(l->profile->stacks, &count);
    const struct lw_frame *called = lw_profile_frame(l->profile, function);
    struct lw_error reason = { 0 };

    for (lw_stack_id s = 1; s < count && !reason.code; s++) {
        lw_stack_id parent = stacks[s].parent;
        const struct lw_frame *frame = lw_profile_frame(l->profile, stacks[s].frame);

        l->below[s] = l->below[parent] || is_same_function(frame, called);
        l->hots[s] = l->hots[parent];
        if (l->below[s] && frame->kind != LW_FRAME_NOTE &&
            (!l->hots[s] ||
             lw_mine_has(&l->mine, lw_profile_text(l->profile, frame->file), &reason)))
            l->hots[s] = stacks[s].frame;
    }
    if (reason.code && err)
        *err = reason;
    return reason.code == LW_OK;
}

/* Is SAMPLE of TRACK's thread, in a step of training or of evaluation, and in no phase? */
static bool is_in_other(const struct lw_step_track *track,
                        const struct lw_sample *sample, bool is_eval)
{
    const struct lw_step_piece *piece;

    if (sample->thread != track->thread || sample->count == 0)
        return false;
    piece = lw_steps_at(track, sample->time_ns);
    return piece && piece->step != LW_NONE && piece->phase == LW_PHASE_OTHER &&
           track->steps[piece->step].is_eval == is_eval;
}

static void add_samples(struct looking *l, bool is_eval)
{
    for (size_t i = 0; i < l->profile->sample_count; i++) {
        const struct lw_sample *sample = &l->profile->samples[i];

        if (l->below[sample->stack] && is_in_other(l->track, sample, is_eval))
            l->ns[l->hots[sample->stack]] += sample->weight_ns;
    }
}

bool lw_advice_find_hot(const struct lw_advice *advice,
                        const struct lw_step_track *track, bool is_eval,
                        lw_frame_id function, struct lw_advice_place *hot,
                        struct lw_error *err)
{
    struct looking l = { .profile = advice->profile, .track = track };
    size_t stack_count, frame_count;
    bool done;

    lw_stacks_list(l.profile->stacks, &stack_count);
    lw_stacks_frames(l.profile->stacks, &frame_count);
    done = lw_mine_init(&l.mine, l.profile, err) &&
           (l.below = lw_zalloc(stack_count + 1, 1, err)) &&
           (l.hots = lw_zalloc(stack_count + 1, sizeof(*l.hots), err)) &&
           (l.ns = lw_zalloc(frame_count + 1, sizeof(*l.ns), err)) &&
           sort_stacks(&l, function, err);
    if (done) {
        add_samples(&l, is_eval);
        *hot = lw_advice_find_most(l.profile, l.ns);
    }
    lw_mine_release(&l.mine);
    lw_free(l.below);
    lw_free(l.hots);
    lw_free(l.ns);
    return done;
}

enum { NOT_BELOW, BELOW, MEANT }; /* what a stack is, as far as its frames go */

bool lw_advice_share_in(const struct lw_advice *advice,
                        const struct lw_step_track *track, bool is_eval,
                        lw_frame_id function, bool (*is_meant)(const char *file),
                        double *share, struct lw_error *err)
{
    const struct lw_profile *profile = advice->profile;
    const struct lw_frame *called = lw_profile_frame(profile, function);
    uint64_t all_ns = 0, meant_ns = 0;
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &count);
    uint8_t *kinds = lw_zalloc(count + 1, 1, err);

    if (!kinds)
        return false;
    for (lw_stack_id s = 1; s < count; s++) {
        const struct lw_frame *frame = lw_profile_frame(profile, stacks[s].frame);

        kinds[s] = kinds[stacks[s].parent];
        if (kinds[s] == NOT_BELOW && is_same_function(frame, called))
            kinds[s] = BELOW;
        if (kinds[s] == BELOW && is_meant(lw_profile_text(profile, frame->file)))
            kinds[s] = MEANT;
    }
    for (size_t i = 0; i < profile->sample_count; i++) {
        const struct lw_sample *sample = &profile->samples[i];

        if (kinds[sample->stack] == NOT_BELOW || !is_in_other(track, sample, is_eval))
            continue;
        all_ns += sample->weight_ns;
        if (kinds[sample->stack] == MEANT)
            meant_ns += sample->weight_ns;
    }
    lw_free(kinds);
    *share = all_ns ? (double)meant_ns / (double)all_ns : 0;
    return true;
}

/* ---- names -------------------------------------------------------------------------- */

void lw_advice_add_place(struct lw_buf *out, const struct lw_profile *profile,
                         lw_frame_id id)
{
    const struct lw_frame *frame = lw_profile_frame(profile, id);
    struct lw_function function;
    uint32_t line = frame->line ? frame->line : frame->first_line;

    lw_function_init(&function, profile, id);
    lw_function_strip(&function);
    lw_buf_add(out, function.name, function.name_len);
    if (line > 0) {
        lw_buf_add_text(out, " (");
        lw_buf_add(out, function.file, function.file_len);
        lw_buf_addf(out, ":%u)", line);
    }
}

void lw_advice_set_place(struct lw_finding *finding, const struct lw_profile *profile,
                         lw_frame_id id)
{
    const struct lw_frame *frame = lw_profile_frame(profile, id);

    if (id == 0)
        return;
    finding->file = lw_profile_text(profile, frame->file);
    finding->line = frame->line ? frame->line : frame->first_line;
}

bool lw_advice_add_at(struct lw_advice *advice, struct lw_finding *finding,
                      struct lw_buf *evidence, lw_frame_id frame, struct lw_error *err)
{
    bool done = lw_buf_check(evidence, err);

    if (done) {
        finding->evidence = evidence->bytes;
        lw_advice_set_place(finding, advice->profile, frame);
        done = lw_advice_add(advice, finding, err);
    }
    lw_buf_release(evidence);
    return done;
}
