/* To which phase each moment of a thread belongs: one walk over its events with the stack
 * of those that are open, which also cuts at the bounds of steps. */

#include <stdlib.h>

#include "analyses/steps_events.h"
#include "base/alloc.h"

/* An event that is open, or, at the bottom, the thread itself. */
struct level {
    uint32_t event;    /* index; LW_NONE: the thread */
    uint8_t last_role; /* of what ended last in it and says what comes; 0: nothing */
};

struct walk {
    struct lw_step_track *track;
    const struct lw_step_events *events;
    size_t phase_count;
    uint8_t
        *next_role; /* owned: of each event, and what follows it beside it, the first
                           role that says what comes */
    struct level *open; /* owned */
    size_t open_count, open_capacity;
    struct lw_step_call *calls; /* owned: of each kind, in training and in evaluation */
    uint64_t at_ns;             /* as far as pieces are */
    size_t step;                /* index of the first that ends after that */
    bool eval_is_forward;       /* what training steps call without gradients */
};

/* Does ROLE say what the time beside it is for? What zeroes gradients may stand anywhere,
 * and the program's own words mean what they like. */
static bool says_what_comes(uint8_t role)
{
    return role != LW_ROLE_STEP_OWN && role != LW_ROLE_STEP_ZERO_GRAD &&
           role != LW_ROLE_STEP_TRANSFER;
}

static bool find_next_roles(struct walk *w, struct lw_error *err)
{
    size_t count = w->events->count;
    uint8_t *later = lw_zalloc(count + 1, 1, err); /* by parent; the thread's at last */

    w->next_role = later ? lw_zalloc(count + 1, 1, err) : NULL;
    for (size_t i = count; w->next_role && i-- > 0;) {
        const struct lw_step_event *event = &w->events->list[i];
        uint8_t *its = &later[event->parent == LW_NONE ? count : event->parent];

        if (says_what_comes(event->role))
            *its = event->role;
        w->next_role[i] = *its;
    }
    lw_free(later);
    return w->next_role != NULL;
}

/* In more than half of the training steps: a teacher, or a GAN's generator. */
static bool evals_are_usual(const struct lw_step_track *track,
                            const struct lw_step_events *events)
{
    size_t trains = 0, with_evals = 0, at = 0;

    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];
        bool has_evals = false;

        while (at < events->count && events->list[at].start_ns < step->start_ns)
            at++;
        for (; at < events->count && events->list[at].start_ns < step->end_ns; at++)
            has_evals |=
                events->list[at].role == LW_ROLE_STEP_EVAL && !events->list[at].in_data;
        trains += !step->is_eval;
        with_evals += !step->is_eval && has_evals;
    }
    return 2 * with_evals > trains;
}

/* ---- pieces ------------------------------------------------------------------------- */

static uint16_t phase_in(const struct walk *w, uint16_t phase,
                         const struct lw_step *step)
{
    if (phase != LW_PHASE_EVAL)
        return phase;
    return !step || step->is_eval || w->eval_is_forward ? LW_PHASE_FORWARD
                                                        : LW_PHASE_EVAL;
}

/* The phase of EVENT itself, before it is known in which step; with EVENT LW_NONE, of what
 * is in none. */
static uint16_t phase_of(const struct walk *w, uint32_t event)
{
    const struct lw_step_event *its;

    if (event == LW_NONE)
        return LW_PHASE_OTHER;
    its = &w->events->list[event];
    if (its->in_data && its->role != LW_ROLE_STEP_OWN)
        return LW_PHASE_DATA;
    return w->events->kinds[its->kind].phase;
}

static bool add_piece(struct walk *w, uint64_t start_ns, uint16_t phase, uint32_t step,
                      struct lw_error *err)
{
    struct lw_step_track *track = w->track;
    struct lw_step_piece piece = { start_ns, step, phase };
    const struct lw_step_piece *last =
        track->piece_count ? &track->pieces[track->piece_count - 1] : NULL;

    if (last && last->phase == phase && last->step == step)
        return true; /* it goes on */
    if (!lw_grow(&track->pieces, &track->piece_capacity, track->piece_count + 1,
                 sizeof(piece), err))
        return false;
    track->pieces[track->piece_count++] = piece;
    return true;
}

/* The call of EVENT's kind in a step that is evaluation or not. */
static struct lw_step_call *call_of(const struct walk *w, uint32_t event, bool is_eval)
{
    return &w->calls[2 * w->events->list[event].kind + is_eval];
}

/* All until END_NS is of PHASE, which is EVENT's if that is not LW_NONE. */
static bool go_to(struct walk *w, uint64_t end_ns, uint16_t phase, uint32_t event,
                  struct lw_error *err)
{
    struct lw_step_track *track = w->track;

    while (w->at_ns < end_ns && w->step < track->step_count) {
        struct lw_step *step = &track->steps[w->step];
        bool is_before = w->at_ns < step->start_ns;
        uint64_t bound_ns = is_before ? step->start_ns : step->end_ns;
        uint64_t to_ns = end_ns < bound_ns ? end_ns : bound_ns;
        uint16_t its = phase_in(w, phase, is_before ? NULL : step);

        if (is_before && w->step == 0) { /* nothing is said of what was before */
            w->at_ns = to_ns;
            continue;
        }
        if (!add_piece(w, w->at_ns, its, is_before ? LW_NONE : (uint32_t)w->step, err))
            return false;
        if (!is_before)
            track->times[w->step * w->phase_count + its] += to_ns - w->at_ns;
        if (!is_before && !step->is_cut && event != LW_NONE)
            call_of(w, event, step->is_eval)->ns += to_ns - w->at_ns;
        w->at_ns = to_ns;
        if (!is_before && to_ns == step->end_ns)
            w->step++;
    }
    return true;
}

/* What is between what ended last in the innermost open event and what NEXT_ROLE begins. */
static bool add_gap(struct walk *w, uint64_t end_ns, uint8_t next_role,
                    struct lw_error *err)
{
    const struct level *level = &w->open[w->open_count - 1];
    bool may_be_loss =
        level->event == LW_NONE ||
        w->events->list[level->event].role == LW_ROLE_STEP_OPTIMIZER; /* LBFGS */
    bool is_loss =
        may_be_loss &&
        (level->last_role == LW_ROLE_STEP_FORWARD ||
         level->last_role == LW_ROLE_STEP_LOSS) &&
        (next_role == LW_ROLE_STEP_BACKWARD || next_role == LW_ROLE_STEP_LOSS);

    return go_to(w, end_ns, is_loss ? LW_PHASE_LOSS : phase_of(w, level->event),
                 is_loss ? LW_NONE : level->event, err);
}

/* Close what ends by TIME_NS. */
static bool close_until(struct walk *w, uint64_t time_ns, struct lw_error *err)
{
    while (w->open_count > 1) {
        uint32_t event = w->open[w->open_count - 1].event;
        const struct lw_step_event *its = &w->events->list[event];

        if (its->end_ns > time_ns)
            return true;
        if (!add_gap(w, its->end_ns, 0, err))
            return false;
        w->open_count--;
        if (says_what_comes(its->role))
            w->open[w->open_count - 1].last_role = its->role;
    }
    return true;
}

static bool open_event(struct walk *w, uint32_t event, struct lw_error *err)
{
    struct level level = { .event = event };

    if (!lw_grow(&w->open, &w->open_capacity, w->open_count + 1, sizeof(level), err))
        return false;
    w->open[w->open_count++] = level;
    return true;
}

static void count_call(struct walk *w, uint32_t event)
{
    const struct lw_step_event *its = &w->events->list[event];
    const struct lw_step *step =
        w->step < w->track->step_count ? &w->track->steps[w->step] : NULL;
    struct lw_step_call *call;

    if (!step || step->is_cut || its->start_ns < step->start_ns)
        return;
    call = call_of(w, event, step->is_eval);
    call->phase = phase_in(w, phase_of(w, event), step);
    call->count++;
}

static bool walk_events(struct walk *w, struct lw_error *err)
{
    const struct lw_step_track *track = w->track;

    w->at_ns = 0;
    if (!open_event(w, LW_NONE, err))
        return false;
    for (uint32_t i = 0; i < w->events->count; i++) {
        const struct lw_step_event *event = &w->events->list[i];

        if (!close_until(w, event->start_ns, err) ||
            !add_gap(w, event->start_ns, w->next_role[i], err) ||
            !open_event(w, i, err))
            return false;
        count_call(w, i);
    }
    return close_until(w, UINT64_MAX, err) && add_gap(w, UINT64_MAX, 0, err) &&
           add_piece(w, track->steps[track->step_count - 1].end_ns, LW_PHASE_OTHER,
                     LW_NONE, err);
}

/* ---- what is kept of it ------------------------------------------------------------- */

/* By phase, the longest first. */
static int compare_calls(const void *a, const void *b)
{
    const struct lw_step_call *x = a, *y = b;

    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->of < y->of ? -1 : x->of > y->of;
}

static bool keep_calls(struct walk *w, struct lw_error *err)
{
    struct lw_step_track *track = w->track;

    for (size_t i = 0; i < 2 * w->events->kind_count; i++) {
        const struct lw_step_kind *kind = &w->events->kinds[i / 2];
        struct lw_step_call call = w->calls[i];

        if (call.count == 0)
            continue;
        if (!lw_grow(&track->calls, &track->call_capacity, track->call_count + 1,
                     sizeof(call), err))
            return false;
        call.is_eval = i % 2;
        call.name = kind->name;
        call.of = kind->of;
        track->calls[track->call_count++] = call;
    }
    if (track->call_count > 0)
        qsort(track->calls, track->call_count, sizeof(*track->calls), compare_calls);
    return true;
}

static void join_steps(struct walk *w)
{
    struct lw_step_track *track = w->track;

    for (size_t i = 0; i < track->step_count; i++)
        track->steps[i].ns = &track->times[i * w->phase_count];
    for (size_t i = 0; i < track->piece_count; i++) {
        uint32_t number = track->pieces[i].step;

        if (number == LW_NONE)
            continue;
        if (track->steps[number].piece_count++ == 0)
            track->steps[number].first_piece = (uint32_t)i;
    }
}

bool lw_steps_find_pieces(struct lw_step_track *track,
                          const struct lw_step_events *events, size_t phase_count,
                          struct lw_error *err)
{
    struct walk w = { .track = track, .events = events, .phase_count = phase_count };
    bool done;

    if (track->step_count == 0)
        return true;
    w.eval_is_forward = evals_are_usual(track, events);
    track->times = lw_zalloc(track->step_count * phase_count, sizeof(uint64_t), err);
    w.calls = track->times
                  ? lw_zalloc(2 * events->kind_count + 1, sizeof(*w.calls), err)
                  : NULL;
    done = w.calls && find_next_roles(&w, err) && walk_events(&w, err) &&
           keep_calls(&w, err);
    if (done)
        join_steps(&w);
    lw_free(w.calls);
    lw_free(w.open);
    lw_free(w.next_role);
    return done;
}
