/* Where steps begin and end. First the events of a thread are cut into slices, at what
 * bounds its steps; each slice is then training, evaluation, or neither. */

#include "analyses/steps_slices.h"
#include "base/alloc.h"

/* Above so many updates a batch, a loader gave what all of the training uses (the whole
 * set of data at once), and the optimizer bounds the steps. With one batch alone there is
 * no second to compare with, and less is enough. */
#define UPDATES_MAX 64
#define UPDATES_OF_ONE_MAX 4
#define LOOP_TIMES 4        /* as many updates as usual: not of one batch any more */
#define DATA_TOGETHER_MAX 8 /* loaders of one step */

/* ---- bounded by lapwing.step() ------------------------------------------------------ */

static bool slice_by_marks(struct lw_step_slices *slices,
                           const struct lw_step_events *events, struct lw_error *err)
{
    size_t next = 0, at = 0;
    uint64_t end_ns = 0;

    for (size_t i = 0; i < events->mark_count; i++) {
        const struct lw_step_event *mark = &events->marks[i];
        struct lw_step_slice *slice;

        if (mark->end_ns <= end_ns || mark->end_ns == mark->start_ns)
            continue; /* in one that was before it, or empty */
        while (next < events->count && events->list[next].start_ns < mark->start_ns)
            next++;
        if (!lw_step_slices_add(slices,
                                mark->start_ns > end_ns ? mark->start_ns : end_ns,
                                (uint32_t)next, err))
            return false;
        slice = &slices->list[slices->count - 1];
        slice->end_ns = end_ns = mark->end_ns;
        slice->is_ended = true;
        for (; next < events->count && events->list[next].start_ns < end_ns; next++)
            lw_slice_add_event(slice, &events->list[next],
                               &events->kinds[events->list[next].kind]);
    }
    at = next;
    if (at == events->count)
        return true;
    if (!lw_step_slices_add(slices, end_ns, (uint32_t)at,
                            err)) /* what no step() ended */
        return false;
    for (; at < events->count; at++)
        lw_slice_add_event(&slices->list[slices->count - 1], &events->list[at],
                           &events->kinds[events->list[at].kind]);
    return true;
}

static bool bound_by_marks(struct lw_step_track *track,
                           const struct lw_step_events *events, struct lw_error *err)
{
    struct lw_step_slices slices = { 0 };
    bool done = slice_by_marks(&slices, events, err);

    track->bound = LW_BOUND_MARKS;
    for (size_t i = 0; done && i < slices.count; i++) {
        const struct lw_step_slice *slice = &slices.list[i];
        struct lw_step step = {
            .start_ns = slice->start_ns,
            .end_ns = slice->is_ended ? slice->end_ns : slice->last_ns,
            .updates = slice->updates,
            .is_eval =
                lw_slice_class_of(slice) == LW_SLICE_EVAL && slice->forwards == 0,
            .is_first = i == 0,
            .is_cut = !slice->is_ended,
        };

        if (slice->is_ended || lw_slice_class_of(slice) == LW_SLICE_TRAIN ||
            slice->forwards > 0)
            done = lw_steps_add_step(track, &step, err);
    }
    lw_free(slices.list);
    return done;
}

/* ---- bounded by a loader ------------------------------------------------------------ */

/* A batch is asked for: what went before ends here, or where a pass over a loader began
 * since, from which on its workers start. *PASS is the first that began later. */
static bool begin_batch(struct lw_step_slices *slices,
                        const struct lw_step_events *events, size_t event, size_t *pass,
                        struct lw_error *err)
{
    uint64_t start_ns = events->list[event].start_ns, pass_ns = 0;

    for (; *pass < events->pass_count && events->passes[*pass].start_ns <= start_ns;
         (*pass)++)
        if (!pass_ns)
            pass_ns = events->passes[*pass].start_ns;
    if (slices->count > 0)
        slices->list[slices->count - 1].end_ns = pass_ns ? pass_ns : start_ns;
    if (!lw_step_slices_add(slices, start_ns, (uint32_t)event, err))
        return false;
    slices->list[slices->count - 1].pass_ns = pass_ns;
    return true;
}

static bool slice_by_data(struct lw_step_slices *slices,
                          const struct lw_step_events *events, struct lw_error *err)
{
    size_t pass = 0;

    for (size_t i = 0; i < events->count; i++) {
        const struct lw_step_event *event = &events->list[i];

        if (event->role == LW_ROLE_STEP_DATA && !event->in_data &&
            !begin_batch(slices, events, i, &pass, err))
            return false;
        if (slices->count > 0)
            lw_slice_add_event(&slices->list[slices->count - 1], event,
                               &events->kinds[event->kind]);
    }
    if (slices->count > 0) {
        struct lw_step_slice *last = &slices->list[slices->count - 1];

        last->end_ns = last->last_ns;
    }
    return true;
}

/* Who asks each time a new pass for its first batch (`next(iter(loader))`) has no epochs:
 * the start of a pass is part of its step. */
static void join_passes(struct lw_step_slices *slices)
{
    size_t passes = 0, used = 0;

    for (size_t i = 0; i < slices->count; i++) {
        passes += slices->list[i].pass_ns > 0;
        used += lw_slice_class_of(&slices->list[i]) != LW_SLICE_EMPTY;
    }
    if (2 * passes <= used || 2 * (slices->count - used) >= passes)
        return;
    for (size_t i = 0; i < slices->count; i++) {
        struct lw_step_slice *slice = &slices->list[i];

        if (slice->pass_ns)
            slice->start_ns = slice->pass_ns;
        slice->pass_ns = 0;
    }
}

/* How many empty slices a slice of CLASS usually has between it and the one before: what
 * zipped loaders gave before the last of them did. */
static size_t usual_lead(const struct lw_step_slices *slices,
                         const enum lw_slice_class *classes, enum lw_slice_class class)
{
    size_t seen[DATA_TOGETHER_MAX] = { 0 }, most = 0, empty = 0;

    for (size_t i = 0; i < slices->count; i++) {
        if (slices->list[i].pass_ns)
            empty = 0; /* those before it said that a pass was over */
        if (classes[i] == LW_SLICE_EMPTY) {
            empty++;
            continue;
        }
        if (classes[i] == class && empty < DATA_TOGETHER_MAX)
            seen[empty]++;
        empty = 0;
    }
    for (size_t i = 1; i < DATA_TOGETHER_MAX; i++)
        if (seen[i] > seen[most])
            most = i;
    return most;
}

/* A batch that nothing was learnt from, at the very end: did the recording end in it? */
static bool is_cut_off(const struct lw_step_slice *last, enum lw_slice_class class,
                       bool always_updates, bool is_killed, bool after_train)
{
    if (class == LW_SLICE_TRAIN)
        return last->updates == 0 && always_updates;
    if (class == LW_SLICE_EVAL)
        return last->evals == 0 && after_train;
    return is_killed && after_train;
}

struct by_data {
    struct lw_step_track *track;
    const struct lw_step_events *events;
    const struct lw_step_slices *slices;
    uint32_t usual_updates;       /* of a batch */
    enum lw_slice_class *classes; /* owned */
    size_t lead[3];               /* by class */
    bool always_updates;          /* each batch that was learnt from */
    uint32_t passes;              /* for training, that began so far */
};

static bool add_data_step(struct by_data *d, size_t first, size_t last, bool is_first,
                          bool is_cut, struct lw_error *err)
{
    const struct lw_step_slice *slice = &d->slices->list[last];
    struct lw_step step = {
        .start_ns = d->slices->list[first].start_ns,
        .end_ns = slice->end_ns,
        .epoch = d->passes > 0 ? d->passes - 1 : 0,
        .updates = slice->updates,
        .is_eval = d->classes[last] == LW_SLICE_EVAL && !is_cut,
        .is_first = is_first,
        .is_cut = is_cut,
    };

    return lw_steps_add_step(d->track, &step, err);
}

/* How many updates half of the batches that were learnt from have at most; above
 * UPDATES_MAX, that and one. */
static uint32_t usual_updates(const struct lw_step_slices *slices, size_t *batches)
{
    size_t seen[UPDATES_MAX + 2] = { 0 }, below = 0;
    uint32_t usual = 0;

    *batches = 0;
    for (size_t i = 0; i < slices->count; i++)
        if (lw_slice_class_of(&slices->list[i]) == LW_SLICE_TRAIN) {
            uint32_t updates = slices->list[i].updates;

            seen[updates <= UPDATES_MAX ? updates : UPDATES_MAX + 1]++;
            (*batches)++;
        }
    while (usual <= UPDATES_MAX && 2 * (below += seen[usual]) < *batches)
        usual++;
    return usual;
}

/* Far more updates than a batch usually has: after the loader's end, a loop went on without
 * one, and its optimizer bounds the steps. */
static bool is_loop(const struct by_data *d, const struct lw_step_slice *slice)
{
    return slice->updates > UPDATES_OF_ONE_MAX &&
           slice->updates >= LOOP_TIMES * d->usual_updates;
}

static bool add_loop(struct by_data *d, const struct lw_step_slice *slice,
                     struct lw_error *err)
{
    struct lw_step_events inside = *d->events;
    size_t before = d->track->step_count;
    bool done;

    inside.list += slice->first_event;
    inside.count = slice->event_count;
    done = lw_steps_bound_by_end(d->track, &inside, LW_ROLE_STEP_OPTIMIZER, err);
    d->track->bound = LW_BOUND_DATA;
    for (size_t i = before; i < d->track->step_count; i++)
        d->track->steps[i].epoch = d->passes; /* in none: after the last */
    return done;
}

/* What was asked of loaders since the last batch that something was done with. */
struct asked {
    size_t empty;      /* batches that nothing was done with */
    size_t in_pass;    /* of those, since a pass began */
    bool has_pass;     /* one did */
    bool begins_epoch; /* with the batch that comes now */
};

/* How many of the empty ones belong to a batch of CLASS, which comes now. */
static size_t find_lead(const struct by_data *d, struct asked *asked,
                        enum lw_slice_class class)
{
    size_t usual = d->lead[class == LW_SLICE_EMPTY ? LW_SLICE_TRAIN : class];
    size_t lead = asked->empty < usual ? asked->empty : usual;

    asked->begins_epoch = asked->has_pass && asked->in_pass >= usual;
    if (asked->begins_epoch && asked->in_pass < DATA_TOGETHER_MAX)
        return asked->in_pass; /* more than usual, if the loop asks ahead */
    /* One of several loaders was over, and went round in the middle of this step. */
    if (asked->has_pass && !asked->begins_epoch && asked->empty < DATA_TOGETHER_MAX)
        return asked->empty;
    return lead;
}

static bool add_data_steps(struct by_data *d, bool is_killed, struct lw_error *err)
{
    size_t count = d->slices->count;
    enum lw_slice_class before = LW_SLICE_EMPTY; /* of the last that was not empty */
    struct asked asked = { 0 };
    bool has_train = false, is_over = false;

    for (size_t i = 0; i < count; i++) {
        const struct lw_step_slice *slice = &d->slices->list[i];
        enum lw_slice_class class = d->classes[i];
        bool has_loop = is_loop(d, slice), is_first;
        bool is_cut = i + 1 == count && is_cut_off(slice, class, d->always_updates,
                                                   is_killed, before == LW_SLICE_TRAIN);
        size_t lead;

        if (slice->pass_ns) {
            asked.has_pass = true;
            asked.in_pass = 0;
        }
        if (class == LW_SLICE_EMPTY && !is_cut) {
            asked.empty++;
            asked.in_pass++;
            continue;
        }
        lead = find_lead(d, &asked, class);
        is_over |= has_train && (asked.empty > lead || has_loop);
        if (class == LW_SLICE_TRAIN || is_cut) {
            is_first = asked.begins_epoch || !has_train;
            d->passes += asked.begins_epoch;
            has_train = true;
            class = LW_SLICE_TRAIN;
        } else {
            is_first = asked.begins_epoch || before != LW_SLICE_EVAL;
        }
        if (!(has_loop ? add_loop(d, slice, err)
                       : add_data_step(d, i - lead, i, is_first, is_cut, err)))
            return false;
        before = class;
        asked = (struct asked){ 0 };
    }
    is_over |= has_train && asked.empty > 0;
    d->track->epoch_count = d->passes > 1 || is_over ? d->passes : 0;
    return true;
}

static bool bound_by_data(struct lw_step_track *track,
                          const struct lw_step_events *events,
                          const struct lw_step_slices *slices, struct lw_error *err)
{
    struct by_data d = {
        .track = track, .events = events, .slices = slices, .always_updates = true
    };
    size_t batches;
    bool done;

    track->bound = LW_BOUND_DATA;
    d.classes = lw_alloc(slices->count * sizeof(*d.classes) + 1, err);
    if (!d.classes)
        return false;
    for (size_t i = 0; i < slices->count; i++) {
        d.classes[i] = lw_slice_class_of(&slices->list[i]);
        if (d.classes[i] == LW_SLICE_TRAIN && i + 1 < slices->count)
            d.always_updates &= slices->list[i].updates > 0;
    }
    d.lead[LW_SLICE_TRAIN] = usual_lead(slices, d.classes, LW_SLICE_TRAIN);
    d.lead[LW_SLICE_EVAL] = usual_lead(slices, d.classes, LW_SLICE_EVAL);
    d.usual_updates = usual_updates(slices, &batches);
    done = add_data_steps(&d, events->is_killed, err);
    lw_free(d.classes);
    return done;
}

/* Does the loader give a batch a step? */
static bool has_batches(const struct lw_step_slices *slices)
{
    size_t batches, evals = 0;
    uint32_t usual = usual_updates(slices, &batches);

    for (size_t i = 0; i < slices->count; i++)
        evals += lw_slice_class_of(&slices->list[i]) == LW_SLICE_EVAL;
    if (batches == 0)
        return evals > 0;
    return usual <= (batches == 1 ? UPDATES_OF_ONE_MAX : UPDATES_MAX);
}

/* ---- nothing is trained ------------------------------------------------------------- */

/* A step is a call of what was called first, with the calls of others that follow it: a
 * model, and what its loss would be. */
static bool bound_by_calls(struct lw_step_track *track,
                           const struct lw_step_events *events, struct lw_error *err)
{
    uint32_t first_kind = LW_NONE;
    uint64_t end_ns = 0;

    track->bound = LW_BOUND_CALLS;
    for (size_t i = 0; i < events->count; i++) {
        const struct lw_step_event *event = &events->list[i];
        struct lw_step step = { .start_ns = event->start_ns,
                                .end_ns = event->end_ns,
                                .is_eval = true,
                                .is_first = track->step_count == 0 };

        if (event->in_data || event->start_ns < end_ns ||
            (event->role != LW_ROLE_STEP_EVAL && event->role != LW_ROLE_STEP_FORWARD))
            continue;
        if (first_kind == LW_NONE)
            first_kind = event->kind;
        end_ns = event->end_ns;
        if (event->kind != first_kind)
            track->steps[track->step_count - 1].end_ns = end_ns;
        else if (!lw_steps_add_step(track, &step, err))
            return false;
    }
    return true;
}

static bool has_role(const struct lw_step_events *events, enum lw_step_role role)
{
    for (size_t i = 0; i < events->count; i++)
        if (events->list[i].role == role && !events->list[i].in_data)
            return true;
    return false;
}

bool lw_steps_find_bounds(struct lw_step_track *track,
                          const struct lw_step_events *events, struct lw_error *err)
{
    struct lw_step_slices slices = { 0 };
    bool done;

    if (events->mark_count > 0)
        return bound_by_marks(track, events, err);
    done = slice_by_data(&slices, events, err);
    join_passes(&slices);
    if (done && has_batches(&slices))
        done = bound_by_data(track, events, &slices, err);
    else if (done && has_role(events, LW_ROLE_STEP_OPTIMIZER))
        done = lw_steps_bound_by_end(track, events, LW_ROLE_STEP_OPTIMIZER, err);
    else if (done && has_role(events, LW_ROLE_STEP_BACKWARD))
        done = lw_steps_bound_by_end(track, events, LW_ROLE_STEP_BACKWARD, err);
    else if (done)
        done = bound_by_calls(track, events, err);
    lw_free(slices.list);
    return done;
}
