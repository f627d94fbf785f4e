/* Where the time went that no phase has, by what the training's loop called then.
 *
 * The loop is found from the samples: the longest path of functions that nearly all of
 * those taken inside of steps have in common. What a sample in other time has below it is
 * what the loop called, and the loop's line says where. Where the loop is a library's
 * (Lightning's), the first function of the person's own below it is named instead.
 *
 *     <module>  main  fit_epoch  forward ...          } the loop: <module> main fit_epoch
 *     <module>  main  fit_epoch:57  log_metrics  dump    57 calls log_metrics */

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/mine.h"

#define LOOP_SHARE 0.9 /* of the time of steps is below the loop */
#define LOOP_DEPTH 200 /* a loop is not deeper; what is, is taken to be below it */

/* One distinct stack of samples in steps. */
struct path {
    size_t first;    /* of its frames, from the root, in `frames` */
    uint32_t depth;  /* how many they are, at most LOOP_DEPTH */
    uint32_t common; /* how many of the first are the loop's */
    lw_stack_id stack;
    uint64_t ns;       /* in steps */
    uint64_t other_ns; /* in other time */
    uint64_t other_samples;
};

struct looking {
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    struct path *paths; /* owned */
    size_t path_count, path_capacity;
    uint32_t *path_of;   /* owned: of each stack, its path + 1; 0: none */
    lw_frame_id *frames; /* owned */
    size_t frame_count, frame_capacity;
    uint32_t loop_depth; /* how many functions it is */
    struct lw_mine mine;
    uint8_t *is_mine; /* owned: of each file's string, 1 no, 2 yes; 0: not asked */
    struct lw_called_list *calls;
};

/* ---- samples in steps --------------------------------------------------------------- */

static bool add_sample(struct looking *l, const struct lw_sample *sample, bool is_other,
                       struct lw_error *err)
{
    uint32_t *number = &l->path_of[sample->stack];
    struct path *path;

    if (*number == 0) {
        if (!lw_grow(&l->paths, &l->path_capacity, l->path_count + 1, sizeof(*path),
                     err))
            return false;
        l->paths[l->path_count++] = (struct path){ .stack = sample->stack };
        *number = (uint32_t)l->path_count;
    }
    path = &l->paths[*number - 1];
    path->ns += sample->weight_ns;
    if (is_other) {
        path->other_ns += sample->weight_ns;
        path->other_samples += sample->count;
    }
    return true;
}

static bool add_samples(struct looking *l, const struct lw_step_track *track,
                        bool is_eval, struct lw_error *err)
{
    size_t stack_count;

    l->stacks = lw_stacks_list(l->profile->stacks, &stack_count);
    l->path_of = lw_zalloc(stack_count + 1, sizeof(*l->path_of), err);
    if (!l->path_of)
        return false;
    for (size_t i = 0; i < l->profile->sample_count; i++) {
        const struct lw_sample *sample = &l->profile->samples[i];
        const struct lw_step_piece *piece;
        const struct lw_step *step;

        if (sample->thread != track->thread || sample->count == 0)
            continue; /* of sums it is not known when they were */
        piece = lw_steps_at(track, sample->time_ns);
        step = piece && piece->step != LW_NONE ? &track->steps[piece->step] : NULL;
        if (!step || step->is_eval != is_eval || step->is_cut)
            continue;
        if (!add_sample(l, sample, piece->phase == LW_PHASE_OTHER, err))
            return false;
    }
    return true;
}

/* The frames of each path, from the root as far as a loop can be. */
static bool find_paths(struct looking *l, struct lw_error *err)
{
    for (size_t i = 0; i < l->path_count; i++) {
        struct path *path = &l->paths[i];
        uint32_t depth = 0, at;

        for (lw_stack_id s = path->stack; s != LW_NO_STACK; s = l->stacks[s].parent)
            depth +=
                lw_profile_frame(l->profile, l->stacks[s].frame)->kind != LW_FRAME_NOTE;
        path->first = l->frame_count;
        path->depth = depth < LOOP_DEPTH ? depth : LOOP_DEPTH;
        if (!lw_grow(&l->frames, &l->frame_capacity, l->frame_count + path->depth + 1,
                     sizeof(*l->frames), err))
            return false;
        at = depth;
        for (lw_stack_id s = path->stack; s != LW_NO_STACK; s = l->stacks[s].parent) {
            lw_frame_id frame = l->stacks[s].frame;

            if (lw_profile_frame(l->profile, frame)->kind == LW_FRAME_NOTE)
                continue;
            if (--at < path->depth)
                l->frames[path->first + at] = frame;
        }
        l->frame_count += path->depth;
    }
    return true;
}

/* ---- the loop ----------------------------------------------------------------------- */

/* Is FRAME what PATH, which is along the loop until here, has next? */
static bool goes_on(const struct looking *l, const struct path *path, lw_frame_id frame)
{
    return path->common == l->loop_depth && path->depth > l->loop_depth &&
           lw_called_is_same(l->profile, frame, l->frames[path->first + l->loop_depth]);
}

/* The function that most of the paths along the loop have next, if that is nearly all: by
 * votes for and against, since there can only be one such. */
static bool find_next(const struct looking *l, lw_frame_id *next)
{
    uint64_t all_ns = 0, votes_ns = 0, its_ns = 0;
    uint32_t depth = l->loop_depth;

    for (size_t i = 0; i < l->path_count; i++) {
        const struct path *path = &l->paths[i];
        lw_frame_id frame;

        all_ns += path->ns;
        if (path->depth <= depth || path->common < depth)
            continue;
        frame = l->frames[path->first + depth];
        if (votes_ns == 0)
            *next = frame;
        if (votes_ns == 0 || lw_called_is_same(l->profile, *next, frame))
            votes_ns += path->ns;
        else if (votes_ns >= path->ns)
            votes_ns -= path->ns;
        else {
            votes_ns = path->ns - votes_ns;
            *next = frame;
        }
    }
    for (size_t i = 0; votes_ns > 0 && i < l->path_count; i++)
        its_ns += goes_on(l, &l->paths[i], *next) ? l->paths[i].ns : 0;
    return its_ns > 0 && (double)its_ns >= LOOP_SHARE * (double)all_ns;
}

static void find_loop(struct looking *l)
{
    lw_frame_id next = 0;

    while (l->loop_depth < LOOP_DEPTH && find_next(l, &next)) {
        for (size_t i = 0; i < l->path_count; i++)
            l->paths[i].common += goes_on(l, &l->paths[i], next);
        l->loop_depth++;
    }
}

/* ---- what it called ----------------------------------------------------------------- */

static bool is_mine(struct looking *l, lw_frame_id frame, struct lw_error *err)
{
    lw_string_id file = lw_profile_frame(l->profile, frame)->file;
    uint8_t *known = &l->is_mine[file];

    if (!*known)
        *known = 1 + lw_mine_has(&l->mine, lw_profile_text(l->profile, file), err);
    return *known == 2;
}

static bool add_call(struct looking *l, lw_frame_id function, lw_frame_id caller,
                     const struct path *path, struct lw_error *err)
{
    return lw_called_add(l->calls, function, caller, path->other_ns,
                         path->other_samples, err);
}

static bool add_path(struct looking *l, const struct path *path, struct lw_error *err)
{
    const lw_frame_id *frames = &l->frames[path->first];
    uint32_t called = path->common;
    struct lw_error reason = { 0 };

    if (path->depth == 0)
        return true;
    if (called == path->depth) /* in the loop itself, or above it */
        return add_call(l, frames[called - 1], frames[called - 1], path, err);
    for (uint32_t i = called; i < path->depth && !reason.code; i++)
        if (is_mine(l, frames[i], &reason)) {
            /* The loop's own callee, unless the loop is not the person's own. */
            if (called == 0 || !is_mine(l, frames[called - 1], &reason))
                called = i;
            break;
        }
    if (reason.code) {
        if (err)
            *err = reason;
        return false;
    }
    return add_call(l, frames[called], called > 0 ? frames[called - 1] : 0, path, err);
}

static uint64_t other_ns(const struct lw_step_track *track, bool is_eval)
{
    uint64_t ns = 0;

    for (size_t i = 0; i < track->step_count; i++)
        if (track->steps[i].is_eval == is_eval && !track->steps[i].is_cut)
            ns += track->steps[i].ns[LW_PHASE_OTHER];
    return ns;
}

static bool add_paths(struct looking *l, struct lw_error *err)
{
    l->is_mine = lw_zalloc(lw_strings_count(l->profile->strings) + 1, 1, err);
    if (!l->is_mine || !lw_mine_init(&l->mine, l->profile, err))
        return false;
    for (size_t i = 0; i < l->path_count; i++)
        if (l->paths[i].other_ns > 0 && !add_path(l, &l->paths[i], err))
            return false;
    return true;
}

bool lw_steps_find_other(struct lw_called_list *calls, const struct lw_steps *steps,
                         const struct lw_step_track *track, bool is_eval,
                         struct lw_error *err)
{
    struct looking l = { .profile = steps->profile, .calls = calls };
    bool done;

    lw_called_init(calls, steps->profile);
    done = add_samples(&l, track, is_eval, err) && find_paths(&l, err);
    if (done)
        find_loop(&l);
    done = done && add_paths(&l, err);
    lw_called_divide(calls, other_ns(track, is_eval));
    lw_mine_release(&l.mine);
    lw_free(l.is_mine);
    lw_free(l.paths);
    lw_free(l.path_of);
    lw_free(l.frames);
    return done;
}
