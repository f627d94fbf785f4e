/* The chains of the host: all points of a thread in order of time.
 *
 * A backward pass runs in a thread of its own while the one that called it waits, so
 * the two are one chain. Events of a thread may overlap (ranges that are not well
 * nested): what is innermost then is what started last of those that are open. */

#include <stdlib.h>
#include <string.h>

#include "analyses/critical.h"
#include "analyses/trace_scope.h"
#include "base/alloc.h"
#include "base/text.h"

/* ---- which threads ------------------------------------------------------------------ */

uint32_t lw_critical_main(const struct lw_critical *c)
{
    const struct lw_trace *trace = c->trace;
    uint32_t found = LW_NONE, most = 0;

    for (uint32_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];
        uint32_t ops = 0;

        if (track->rank != c->rank || track->is_device)
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++) {
            const struct lw_event *event = &trace->events[i];

            if (event->kind == LW_EVENT_RANGE &&
                lw_trace_is_step(lw_profile_text(c->profile, event->name)))
                return t;
            ops += event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RUNTIME;
        }
        if (ops > most) {
            most = ops;
            found = t;
        }
    }
    return found;
}

/* Does autograd's engine work in it? */
static bool is_backward(const struct lw_critical *c, const struct lw_track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++)
        if (c->trace->events[i].kind == LW_EVENT_OP &&
            lw_text_starts(lw_profile_text(c->profile, c->trace->events[i].name),
                           "autograd::engine::evaluate_function"))
            return true;
    return false;
}

/* The only thread in which an op or range has WORD in its name, by its tid; 0: there is
 * none, or another one. */
static lw_string_id only_thread(const struct lw_critical *c, const char *word,
                                uint8_t *judgements)
{
    const struct lw_trace *trace = c->trace;
    lw_string_id found = 0;

    memset(judgements, 0, lw_strings_count(c->profile->strings));
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint8_t *has = &judgements[event->name];
        lw_string_id tid = trace->tracks[event->track].tid;

        if ((event->kind != LW_EVENT_OP && event->kind != LW_EVENT_RANGE) ||
            !lw_critical_has(c, i, LW_TAKEN_HOST))
            continue;
        if (!*has)
            *has = strstr(lw_profile_text(c->profile, event->name), word) ? 2 : 1;
        if (*has != 2 || tid == found)
            continue;
        if (found)
            return 0;
        found = tid;
    }
    return found;
}

/* As Holistic Trace Analysis finds it: by "autograd" and "forward" in names. */
static bool join_as_hta(const struct lw_critical *c, uint32_t *groups,
                        struct lw_error *err)
{
    const struct lw_track *tracks = c->trace->tracks;
    uint8_t *judgements = lw_alloc(lw_strings_count(c->profile->strings) + 1, err);
    lw_string_id forward, backward;

    if (!judgements)
        return false;
    forward = only_thread(c, "forward", judgements);
    backward = only_thread(c, "autograd", judgements);
    lw_free(judgements);
    if (!forward || !backward || forward == backward)
        return true;
    for (uint32_t f = 0; f < c->trace->track_count; f++) {
        if (tracks[f].rank != c->rank || tracks[f].is_device ||
            tracks[f].tid != forward)
            continue;
        for (uint32_t b = 0; b < c->trace->track_count; b++)
            if (tracks[b].rank == c->rank && !tracks[b].is_device &&
                tracks[b].tid == backward && tracks[b].pid == tracks[f].pid)
                groups[b] = f;
        break; /* the process in which both are */
    }
    return true;
}

uint32_t *lw_critical_groups(const struct lw_critical *c, uint32_t main_track,
                             struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    uint32_t *groups = lw_alloc(trace->track_count * sizeof(*groups) + 1, err);

    if (!groups)
        return NULL;
    for (uint32_t t = 0; t < trace->track_count; t++)
        groups[t] = t;
    if (c->is_hta) {
        if (join_as_hta(c, groups, err))
            return groups;
        lw_free(groups);
        return NULL;
    }
    for (uint32_t t = 0; main_track != LW_NONE && t < trace->track_count; t++)
        if (t != main_track && trace->tracks[t].rank == c->rank &&
            !trace->tracks[t].is_device && is_backward(c, &trace->tracks[t]))
            groups[t] = main_track;
    return groups;
}

/* ---- their points in order ---------------------------------------------------------- */

struct moment {
    int64_t time;
    int64_t duration; /* of the event */
    uint32_t event;
    bool is_end;
};

struct walk {
    struct lw_critical *c;
    struct moment *moments; /* owned: of the threads that are one */
    size_t moment_count, moment_capacity;
    uint32_t *open; /* owned: events, the innermost last */
    size_t open_count, open_capacity;
    bool is_main;

    uint32_t last;        /* point; LW_NONE: none yet */
    uint32_t last_parent; /* of its event, for HTA; LW_NONE: none */
    size_t depth;         /* how many with points are open */
    size_t loading;       /* how many ranges of a DataLoader are */
};

/* An end before a start, the longer of two starts first, the shorter of two ends. */
static int compare_moments(const void *x, const void *y)
{
    const struct moment *a = x, *b = y;
    int order;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->is_end != b->is_end)
        return a->is_end ? -1 : 1;
    order = a->duration != b->duration ? (a->duration > b->duration ? -1 : 1)
            : a->event != b->event     ? (a->event < b->event ? -1 : 1)
                                       : 0;
    return a->is_end ? -order : order;
}

static bool push(struct walk *w, uint32_t event)
{
    if (!lw_grow(&w->open, &w->open_capacity, w->open_count + 1, sizeof(*w->open),
                 w->c->err))
        return false;
    w->open[w->open_count++] = event;
    return true;
}

static bool emit(struct walk *w, uint32_t event, bool is_end)
{
    struct moment moment = {
        w->c->times[is_end ? lw_critical_end(event) : lw_critical_start(event)],
        lw_critical_duration(w->c, event), event, is_end
    };

    if (!lw_grow(&w->moments, &w->moment_capacity, w->moment_count + 1, sizeof(moment),
                 w->c->err))
        return false;
    w->moments[w->moment_count++] = moment;
    return true;
}

/* What nests well, as nearly all does, is in order already then. */
static bool emit_track(struct walk *w, const struct lw_track *track)
{
    struct lw_critical *c = w->c;

    w->open_count = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        if (!lw_critical_has(c, i, LW_TAKEN_HOST))
            continue;
        while (w->open_count > 0) {
            uint32_t top = w->open[w->open_count - 1];

            if (c->times[lw_critical_end(top)] > c->times[lw_critical_start(i)])
                break;
            if (!emit(w, top, true))
                return false;
            w->open_count--;
        }
        if (!emit(w, i, false) || !push(w, i))
            return false;
    }
    while (w->open_count > 0)
        if (!emit(w, w->open[--w->open_count], true))
            return false;
    return true;
}

static void sort_moments(struct walk *w)
{
    for (size_t i = 1; i < w->moment_count; i++)
        if (compare_moments(&w->moments[i - 1], &w->moments[i]) > 0) {
            qsort(w->moments, w->moment_count, sizeof(*w->moments), compare_moments);
            return;
        }
}

/* ---- the chain ---------------------------------------------------------------------- */

static uint32_t top_of(const struct walk *w)
{
    return w->open_count ? w->open[w->open_count - 1] : LW_NONE;
}

/* Calls that hold the runtime's lock are joined in critical_hta.c, unless one begins
 * when the other has ended. */
static bool is_joined(const struct walk *w, uint32_t point)
{
    const struct lw_critical *c = w->c;

    return lw_critical_has(c, w->last / 2, LW_TAKEN_LOCKS) &&
           lw_critical_has(c, point / 2, LW_TAKEN_LOCKS) &&
           (w->last % 2 == 0 || point % 2 == 1);
}

static void chain(struct walk *w, uint32_t point, bool is_timed, bool is_free)
{
    struct lw_critical_edge edge = { .from = w->last,
                                     .to = point,
                                     .event = LW_NONE,
                                     .kind = LW_CRITICAL_DEPENDENCY,
                                     .is_free = !is_timed || is_free };

    if (w->last == LW_NONE || is_joined(w, point))
        return;
    if (is_timed) {
        edge.kind = LW_CRITICAL_OPERATOR;
        edge.bound = w->loading ? LW_BOUND_DATA : LW_BOUND_HOST;
        edge.event = top_of(w);
        if (w->c->is_hta)
            edge.event = w->last % 2 == 0 ? w->last / 2
                         : point % 2 == 1 ? point / 2
                                          : w->last_parent;
    }
    lw_critical_add(w->c, &edge);
}

/* Does it stand for loading data? As torch's DataLoader and DataPipe name their ranges. */
static bool is_loading(const struct lw_critical *c, uint32_t index)
{
    const struct lw_event *event = &c->trace->events[index];
    const char *name;

    if (c->is_hta || (event->kind != LW_EVENT_RANGE && event->kind != LW_EVENT_OP))
        return false;
    name = lw_profile_text(c->profile, event->name);
    return lw_text_starts(name, "enumerate(Data");
}

static bool enter(struct walk *w, uint32_t event)
{
    uint32_t parent = top_of(w);

    if (lw_critical_has(w->c, event, LW_TAKEN_POINTS)) {
        uint32_t point = lw_critical_start(event);

        chain(w, point, w->depth > 0 || w->is_main, false);
        w->last = point;
        w->last_parent = parent;
        w->depth++;
    }
    w->loading += is_loading(w->c, event);
    return push(w, event);
}

/* EVENT ends, and for HTA whatever is innermost. */
static void leave(struct walk *w, uint32_t event)
{
    struct lw_critical *c = w->c;

    if (c->is_hta)
        event = w->open[--w->open_count];
    if (lw_critical_has(c, event, LW_TAKEN_POINTS)) {
        uint32_t point = lw_critical_end(event);

        chain(w, point, true, lw_critical_has(c, event, LW_TAKEN_WAITED));
        w->last = point;
        w->last_parent = top_of(w);
        w->depth--;
    }
    w->loading -= is_loading(c, event);
    c->taken[event] |= LW_TAKEN_CLOSED;
    while (!c->is_hta && w->open_count > 0 &&
           lw_critical_has(c, top_of(w), LW_TAKEN_CLOSED))
        w->open_count--;
}

static bool walk_moments(struct walk *w)
{
    w->open_count = w->depth = w->loading = 0;
    w->last = w->last_parent = LW_NONE;
    for (size_t i = 0; i < w->moment_count; i++) {
        const struct moment *moment = &w->moments[i];

        if (moment->is_end)
            leave(w, moment->event);
        else if (!enter(w, moment->event))
            return false;
    }
    return !w->c->failed;
}

/* ---- all threads -------------------------------------------------------------------- */

struct ordering {
    const struct lw_critical *c;
    const uint32_t *groups;
};

static int64_t number_of(const struct lw_critical *c, lw_string_id text)
{
    int64_t number = -1;

    lw_text_i64(lw_profile_text(c->profile, text),
                lw_strings_len(c->profile->strings, text), &number);
    return number;
}

/* By process, by thread: the order in which HTA goes through them. */
static int compare_tracks(const void *x, const void *y, void *context)
{
    const struct ordering *o = context;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    const struct lw_track *left = &o->c->trace->tracks[o->groups[a]];
    const struct lw_track *right = &o->c->trace->tracks[o->groups[b]];
    int64_t p = number_of(o->c, left->pid), q = number_of(o->c, right->pid);

    if (p != q)
        return p < q ? -1 : 1;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    if (o->groups[a] != o->groups[b])
        return o->groups[a] < o->groups[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool walk_group(struct walk *w, const uint32_t *tracks, size_t count)
{
    w->moment_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!emit_track(w, &w->c->trace->tracks[tracks[i]]))
            return false;
    sort_moments(w);
    return walk_moments(w);
}

bool lw_critical_add_host(struct lw_critical *c, const uint32_t *groups,
                          uint32_t main_track, struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    struct ordering ordering = { c, groups };
    struct walk w = { .c = c };
    uint32_t *tracks = lw_alloc(trace->track_count * sizeof(*tracks) + 1, err);
    size_t count = 0;
    bool done = tracks != NULL;

    for (uint32_t t = 0; done && t < trace->track_count; t++)
        if (trace->tracks[t].rank == c->rank && !trace->tracks[t].is_device)
            tracks[count++] = t;
    if (done && count > 1)
        qsort_r(tracks, count, sizeof(*tracks), compare_tracks, &ordering);
    for (size_t at = 0, end; done && at < count; at = end) {
        end = at + 1;
        while (end < count && groups[tracks[end]] == groups[tracks[at]])
            end++;
        w.is_main = !c->is_hta && groups[tracks[at]] == main_track;
        done = walk_group(&w, tracks + at, end - at);
    }
    lw_free(tracks);
    lw_free(w.moments);
    lw_free(w.open);
    return done;
}
