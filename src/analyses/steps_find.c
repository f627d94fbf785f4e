/* From the spans of a profile to the steps of its threads: sort the spans by thread, make
 * a forest of each thread's, and have the steps found in it. */

#include <stdlib.h>
#include <string.h>

#include "analyses/steps_events.h"
#include "base/alloc.h"

static const struct {
    const char *word;
    uint8_t role;
    uint8_t phase;
} words[] = {
    { "data", LW_ROLE_STEP_DATA, LW_PHASE_DATA },
    { "fetch", LW_ROLE_STEP_FETCH, LW_PHASE_DATA },
    { "collate", LW_ROLE_STEP_COLLATE, LW_PHASE_DATA },
    { "transfer", LW_ROLE_STEP_TRANSFER, LW_PHASE_TRANSFER },
    { "forward", LW_ROLE_STEP_FORWARD, LW_PHASE_FORWARD },
    { "loss", LW_ROLE_STEP_LOSS, LW_PHASE_LOSS },
    { "backward", LW_ROLE_STEP_BACKWARD, LW_PHASE_BACKWARD },
    { "optimizer", LW_ROLE_STEP_OPTIMIZER, LW_PHASE_OPTIMIZER },
    { "zero_grad", LW_ROLE_STEP_ZERO_GRAD, LW_PHASE_OPTIMIZER },
    { "scaler", LW_ROLE_STEP_ZERO_GRAD,
      LW_PHASE_OPTIMIZER }, /* what is around a step */
    { "eval", LW_ROLE_STEP_EVAL, LW_PHASE_EVAL },
    { "loader_pass", LW_ROLE_STEP_PASS, LW_PHASE_OTHER },
    { "step", LW_ROLE_STEP_MARK, LW_PHASE_OTHER },
};

#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static const char *const phase_names[LW_PHASE_OWN] = {
    [LW_PHASE_DATA] = "data",         [LW_PHASE_TRANSFER] = "transfer",
    [LW_PHASE_FORWARD] = "forward",   [LW_PHASE_LOSS] = "loss",
    [LW_PHASE_BACKWARD] = "backward", [LW_PHASE_OPTIMIZER] = "optimizer",
    [LW_PHASE_EVAL] = "eval",         [LW_PHASE_OTHER] = "other",
};

struct finding {
    struct lw_steps *steps;
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    uint32_t *kind_of; /* owned: of each frame, its kind + 1; 0: no phase */
    struct lw_step_kind *kinds;
    size_t kind_count, kind_capacity;
    struct lw_step_event *events; /* owned: those of a thread stand together */
    size_t *first;                /* owned: of each thread, and where the last ends */
};

/* ---- kinds -------------------------------------------------------------------------- */

static uint16_t own_phase(struct lw_steps *steps, const char *text)
{
    size_t i = LW_PHASE_OWN;

    while (i < steps->phase_count && strcmp(steps->phases[i].text, text) != 0)
        i++;
    if (i == LW_PHASES_MAX)
        return LW_PHASES_MAX - 1;
    if (i == steps->phase_count) {
        steps->phases[i].text = i == LW_PHASES_MAX - 1 ? "(more)" : text;
        steps->phase_count++;
    }
    return (uint16_t)i;
}

static bool add_kind(struct finding *f, lw_frame_id id, struct lw_error *err)
{
    const struct lw_frame *frame = lw_profile_frame(f->profile, id);
    const char *text = lw_profile_text(f->profile, frame->name);
    struct lw_step_kind kind = { .name = frame->name, .of = frame->file };
    size_t i = 0;

    if (!lw_grow(&f->kinds, &f->kind_capacity, f->kind_count + 1, sizeof(kind), err))
        return false;
    while (i < WORD_COUNT && strcmp(words[i].word, text) != 0)
        i++;
    kind.role = i < WORD_COUNT ? words[i].role : LW_ROLE_STEP_OWN;
    kind.phase = i < WORD_COUNT ? words[i].phase : own_phase(f->steps, text);
    f->kinds[f->kind_count++] = kind;
    f->kind_of[id] = (uint32_t)f->kind_count;
    return true;
}

static bool find_kinds(struct finding *f, struct lw_error *err)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(f->profile->stacks, &count);

    f->kind_of = lw_zalloc(count + 1, sizeof(*f->kind_of), err);
    if (!f->kind_of)
        return false;
    for (lw_frame_id i = 0; i < count; i++)
        if (frames[i].kind == LW_FRAME_PHASE && !add_kind(f, i, err))
            return false;
    return true;
}

/* ---- events of a thread ------------------------------------------------------------- */

static uint32_t kind_of_span(const struct finding *f, const struct lw_span *span)
{
    return span->stack == LW_NO_STACK ? 0 : f->kind_of[f->stacks[span->stack].frame];
}

static bool sort_by_thread(struct finding *f, const bool *threads, struct lw_error *err)
{
    const struct lw_profile *profile = f->profile;
    size_t all = 0;

    f->first = lw_zalloc(profile->thread_count + 2, sizeof(*f->first), err);
    if (!f->first)
        return false;
    for (size_t i = 0; i < profile->span_count; i++) {
        const struct lw_span *span = &profile->spans[i];

        if (kind_of_span(f, span) && (!threads || threads[span->thread]))
            f->first[span->thread + 2]++;
    }
    for (size_t i = 2; i < profile->thread_count + 2; i++) {
        all += f->first[i];
        f->first[i] = all;
    }
    f->steps->span_count = all;
    f->events = lw_alloc(all * sizeof(*f->events) + 1, err);
    if (!f->events)
        return false;
    for (size_t i = 0; i < profile->span_count; i++) {
        const struct lw_span *span = &profile->spans[i];
        uint32_t kind = kind_of_span(f, span);

        if (!kind || (threads && !threads[span->thread]))
            continue;
        f->events[f->first[span->thread + 1]++] = (struct lw_step_event){
            .start_ns = span->start_ns,
            .end_ns = span->start_ns + span->duration_ns,
            .kind = kind - 1,
            .parent = (uint32_t)i, /* until it is known: what was written later is
                                      around what was written before */
            .role = f->kinds[kind - 1].role,
        };
    }
    return true;
}

/* Phases, then passes, then marks. */
static int group_of(const struct lw_step_event *event)
{
    return event->role < LW_ROLE_STEP_PASS ? 0 : event->role;
}

static int compare_events(const void *a, const void *b)
{
    const struct lw_step_event *x = a, *y = b;

    if (group_of(x) != group_of(y))
        return group_of(x) - group_of(y);
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns ? -1 : 1;
    return x->parent > y->parent ? -1 : x->parent < y->parent;
}

/* Parents, in one pass with the stack of what is open. A span that ends after the one
 * around it (a generator's, or by the clock's last digit) is taken to end with it. */
static void nest(struct lw_step_events *events)
{
    uint32_t open = LW_NONE;

    for (size_t i = 0; i < events->count; i++) {
        struct lw_step_event *event = &events->list[i];
        const struct lw_step_event *around;

        while (open != LW_NONE && events->list[open].end_ns <= event->start_ns)
            open = events->list[open].parent;
        event->parent = open;
        if (open != LW_NONE) {
            around = &events->list[open];
            if (event->end_ns > around->end_ns)
                event->end_ns = around->end_ns;
            event->in_data = around->in_data || around->role == LW_ROLE_STEP_DATA;
        }
        if (event->end_ns > event->start_ns)
            open = (uint32_t)i;
    }
}

/* How many events of ROLE are at the end of EVENTS, which lose them. */
static size_t take_off(struct lw_step_events *events, uint8_t role)
{
    size_t count = events->count;

    while (events->count > 0 && events->list[events->count - 1].role == role)
        events->count--;
    return count - events->count;
}

static struct lw_step_events events_of(const struct finding *f, size_t thread)
{
    const struct lw_thread *about = &f->profile->threads[thread];
    const struct lw_process *process = &f->profile->processes[about->process];
    struct lw_step_events events = {
        .list = f->events + f->first[thread],
        .count = f->first[thread + 1] - f->first[thread],
        .kinds = f->kinds,
        .kind_count = f->kind_count,
        .is_killed = process->exit_code < 0 || process->exit_code > 128,
        .hole_start_ns = process->thinned_start_ns,
        .hole_end_ns = process->thinned_end_ns,
    };

    if (events.count > 0)
        qsort(events.list, events.count, sizeof(*events.list), compare_events);
    events.mark_count = take_off(&events, LW_ROLE_STEP_MARK);
    events.marks = events.list + events.count;
    events.pass_count = take_off(&events, LW_ROLE_STEP_PASS);
    events.passes = events.list + events.count;
    nest(&events);
    return events;
}

/* ---- who makes batches -------------------------------------------------------------- */

static uint64_t length_ns(const struct lw_step_event *event)
{
    return event->end_ns - event->start_ns;
}

/* What is fetched inside of "data" is the trainer's own work, and seen there. */
static bool add_worker(struct lw_steps *steps, const struct lw_step_events *events,
                       uint32_t process, uint32_t thread, struct lw_error *err)
{
    struct lw_step_worker worker = { .process = process, .thread = thread };

    for (size_t i = 0; i < events->count; i++) {
        const struct lw_step_event *event = &events->list[i];
        const struct lw_step_event *around =
            event->parent == LW_NONE ? NULL : &events->list[event->parent];

        if (event->in_data ||
            (event->role != LW_ROLE_STEP_FETCH && event->role != LW_ROLE_STEP_COLLATE))
            continue;
        if (worker.end_ns == 0)
            worker.start_ns = event->start_ns;
        if (event->end_ns > worker.end_ns)
            worker.end_ns = event->end_ns;
        if (event->role == LW_ROLE_STEP_FETCH) {
            worker.batches++;
            worker.fetch_ns += length_ns(event);
        } else {
            worker.collate_ns += length_ns(event);
            if (around && around->role == LW_ROLE_STEP_FETCH)
                worker.fetch_ns -= length_ns(event);
        }
    }
    if (worker.end_ns == 0)
        return true;
    if (!lw_grow(&steps->workers, &steps->worker_capacity, steps->worker_count + 1,
                 sizeof(worker), err))
        return false;
    steps->workers[steps->worker_count++] = worker;
    return true;
}

/* ---- all threads -------------------------------------------------------------------- */

static void release_track(struct lw_step_track *track)
{
    lw_free(track->steps);
    lw_free(track->pieces);
    lw_free(track->calls);
    lw_free(track->times);
}

static void add_up(struct lw_step_track *track)
{
    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];

        if (step->is_cut) {
            track->cut_count++;
        } else if (step->is_eval) {
            track->eval_count++;
            track->eval_ns += step->end_ns - step->start_ns;
        } else {
            track->train_count++;
            track->update_count += step->updates;
            track->train_ns += step->end_ns - step->start_ns;
        }
    }
}

/* A step that has lost spans is none to count with. */
static void cut_at_hole(struct lw_step_track *track,
                        const struct lw_step_events *events)
{
    for (size_t i = 0; i < track->step_count; i++) {
        struct lw_step *step = &track->steps[i];

        step->is_cut |= step->start_ns < events->hole_end_ns &&
                        step->end_ns > events->hole_start_ns;
    }
}

static bool add_track(struct lw_steps *steps, const struct lw_step_events *events,
                      uint32_t process, uint32_t thread, struct lw_error *err)
{
    struct lw_step_track *track;

    if (!lw_grow(&steps->tracks, &steps->track_capacity, steps->track_count + 1,
                 sizeof(*track), err))
        return false;
    track = &steps->tracks[steps->track_count++];
    *track = (struct lw_step_track){ .process = process, .thread = thread };
    if (!lw_steps_find_bounds(track, events, err))
        return false;
    cut_at_hole(track, events);
    if (!lw_steps_find_pieces(track, events, steps->phase_count, err))
        return false;
    add_up(track);
    if (track->step_count == 0) {
        release_track(track);
        steps->track_count--;
    }
    return true;
}

/* Of a process that trains, threads that only call models are helpers of the one that
 * trains (DataParallel's replicas): they have no steps of their own. */
static bool drop_helpers(struct lw_steps *steps, struct lw_error *err)
{
    bool *trains = lw_zalloc(steps->profile->process_count + 1, sizeof(*trains), err);
    size_t kept = 0;

    if (!trains)
        return false;
    for (size_t i = 0; i < steps->track_count; i++)
        trains[steps->tracks[i].process] |= steps->tracks[i].bound != LW_BOUND_CALLS;
    for (size_t i = 0; i < steps->track_count; i++) {
        struct lw_step_track *track = &steps->tracks[i];

        if (track->bound == LW_BOUND_CALLS && trains[track->process])
            release_track(track);
        else
            steps->tracks[kept++] = *track;
    }
    steps->track_count = kept;
    lw_free(trains);
    return true;
}

static bool find_all(struct finding *f, const bool *threads, struct lw_error *err)
{
    if (!find_kinds(f, err) || (f->kind_count > 0 && !sort_by_thread(f, threads, err)))
        return false;
    for (uint32_t i = 0; f->kind_count > 0 && i < f->profile->thread_count; i++) {
        uint32_t process = f->profile->threads[i].process;
        struct lw_step_events events = events_of(f, i);

        if (!add_track(f->steps, &events, process, i, err) ||
            !add_worker(f->steps, &events, process, i, err))
            return false;
    }
    return drop_helpers(f->steps, err);
}

bool lw_steps_init(struct lw_steps *steps, const struct lw_profile *profile,
                   const bool *threads, struct lw_error *err)
{
    struct finding f = { .steps = steps, .profile = profile };
    size_t stack_count;
    bool done;

    memset(steps, 0, sizeof(*steps));
    steps->profile = profile;
    steps->phase_count = LW_PHASE_OWN;
    for (size_t i = 0; i < LW_PHASE_OWN; i++)
        steps->phases[i].text = phase_names[i];
    f.stacks = lw_stacks_list(profile->stacks, &stack_count);
    done = find_all(&f, threads, err);
    lw_free(f.kind_of);
    lw_free(f.kinds);
    lw_free(f.events);
    lw_free(f.first);
    return done;
}

void lw_steps_release(struct lw_steps *steps)
{
    for (size_t i = 0; i < steps->track_count; i++)
        release_track(&steps->tracks[i]);
    lw_free(steps->tracks);
    lw_free(steps->workers);
    memset(steps, 0, sizeof(*steps));
}

const struct lw_step_piece *lw_steps_at(const struct lw_step_track *track,
                                        uint64_t time_ns)
{
    size_t low = 0, high = track->piece_count; /* of the first that begins later */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (track->pieces[middle].start_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 || low == track->piece_count ? NULL : &track->pieces[low - 1];
}
