/* Where the time went that no phase has, by what the training's loop called then.
 *
 * The loop is found from the samples: the longest path of functions that nearly all of
 * those taken inside of steps have in common. What a sample in other time has below it is
 * what the loop called, and the loop's line says where. Where the loop is a library's
 * (Lightning's), the first function of the person's own below it is named instead.
 *
 *     <module>  main  fit_epoch  forward ...          } the loop: <module> main fit_epoch
 *     <module>  main  fit_epoch:57  log_metrics  dump    57 calls log_metrics */

#include <stdlib.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "base/map.h"
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
    uint8_t *is_mine;  /* owned: of each file's string, 1 no, 2 yes; 0: not asked */
    struct lw_map map; /* of calls */
    struct lw_other_calls *calls;
};

static bool is_same(const struct looking *l, lw_frame_id a, lw_frame_id b)
{
    const struct lw_frame *x = lw_profile_frame(l->profile, a);
    const struct lw_frame *y = lw_profile_frame(l->profile, b);

    return a == b || (x->name == y->name && x->file == y->file &&
                      x->first_line == y->first_line && x->kind == y->kind);
}

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
           is_same(l, frame, l->frames[path->first + l->loop_depth]);
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
        if (votes_ns == 0 || is_same(l, *next, frame))
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

struct key {
    const struct looking *l;
    lw_frame_id function, caller;
};

static bool same_call(const void *owner, uint32_t number, const void *key)
{
    const struct looking *l = owner;
    const struct key *k = key;
    const struct lw_other_call *call = &l->calls->list[number - 1];
    const struct lw_frame *a = lw_profile_frame(l->profile, call->caller);
    const struct lw_frame *b = lw_profile_frame(l->profile, k->caller);

    return is_same(l, call->function, k->function) &&
           is_same(l, call->caller, k->caller) && a->line == b->line;
}

static uint64_t hash_of(const struct looking *l, lw_frame_id function,
                        lw_frame_id caller)
{
    const struct lw_frame *f = lw_profile_frame(l->profile, function);
    const struct lw_frame *c = lw_profile_frame(l->profile, caller);

    return lw_hash_u64(lw_hash_u64((uint64_t)f->name << 32 | f->first_line) ^
                       ((uint64_t)c->file << 32 | c->line));
}

static bool add_call(struct looking *l, lw_frame_id function, lw_frame_id caller,
                     const struct path *path, struct lw_error *err)
{
    struct lw_other_calls *calls = l->calls;
    struct key key = { l, function, caller };
    uint64_t hash = hash_of(l, function, caller);
    uint32_t number = lw_map_find(&l->map, hash, same_call, l, &key);
    struct lw_other_call call = { .function = function, .caller = caller };

    if (number == 0) {
        if (!lw_grow(&calls->list, &calls->capacity, calls->count + 1, sizeof(call),
                     err) ||
            !lw_map_add(&l->map, hash, (uint32_t)calls->count + 1, err))
            return false;
        calls->list[calls->count++] = call;
        number = (uint32_t)calls->count;
    }
    calls->list[number - 1].ns += path->other_ns;
    calls->list[number - 1].samples += path->other_samples;
    calls->samples += path->other_samples;
    return true;
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

static int compare_calls(const void *a, const void *b)
{
    const struct lw_other_call *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->caller < y->caller ? -1 : x->caller > y->caller;
}

/* How long other time was is known exactly, and of samples only how it is divided: the
 * calls have so much of it as they have of the samples. */
static void scale(struct lw_other_calls *calls, const struct lw_step_track *track,
                  bool is_eval)
{
    double sampled_ns = 0;

    for (size_t i = 0; i < track->step_count; i++)
        if (track->steps[i].is_eval == is_eval && !track->steps[i].is_cut)
            calls->ns += track->steps[i].ns[LW_PHASE_OTHER];
    for (size_t i = 0; i < calls->count; i++)
        sampled_ns += (double)calls->list[i].ns;
    for (size_t i = 0; i < calls->count; i++)
        calls->list[i].ns =
            (uint64_t)((double)calls->list[i].ns / sampled_ns * (double)calls->ns);
}

static bool add_paths(struct looking *l, struct lw_error *err)
{
    l->is_mine = lw_zalloc(lw_strings_count(l->profile->strings) + 1, 1, err);
    if (!l->is_mine || !lw_mine_init(&l->mine, l->profile, err))
        return false;
    for (size_t i = 0; i < l->path_count; i++)
        if (l->paths[i].other_ns > 0 && !add_path(l, &l->paths[i], err))
            return false;
    if (l->calls->count > 0)
        qsort(l->calls->list, l->calls->count, sizeof(*l->calls->list), compare_calls);
    return true;
}

bool lw_other_calls_init(struct lw_other_calls *calls, const struct lw_steps *steps,
                         const struct lw_step_track *track, bool is_eval,
                         struct lw_error *err)
{
    struct looking l = { .profile = steps->profile, .calls = calls };
    bool done;

    memset(calls, 0, sizeof(*calls));
    lw_map_init(&l.map);
    done = add_samples(&l, track, is_eval, err) && find_paths(&l, err);
    if (done)
        find_loop(&l);
    done = done && add_paths(&l, err);
    scale(calls, track, is_eval);
    lw_mine_release(&l.mine);
    lw_map_release(&l.map);
    lw_free(l.is_mine);
    lw_free(l.paths);
    lw_free(l.path_of);
    lw_free(l.frames);
    return done;
}

void lw_other_calls_release(struct lw_other_calls *calls)
{
    lw_free(calls->list);
    memset(calls, 0, sizeof(*calls));
}

void lw_other_call_add_name(const struct lw_steps *steps,
                            const struct lw_other_call *call, struct lw_buf *out)
{
    const struct lw_profile *profile = steps->profile;
    const struct lw_frame *place =
        lw_profile_frame(profile, call->caller ? call->caller : call->function);
    struct lw_function function, caller;
    uint32_t line = place->line ? place->line : place->first_line;

    lw_function_init(&function, profile, call->function);
    lw_function_init(&caller, profile, call->caller ? call->caller : call->function);
    lw_function_strip(&caller);
    lw_buf_add(out, function.name, function.name_len);
    if (call->function == call->caller)
        lw_buf_add_text(out, " itself");
    if (line > 0) {
        lw_buf_add_text(out, " (");
        lw_buf_add(out, caller.file, caller.file_len);
        lw_buf_addf(out, ":%u)", line);
    }
}
