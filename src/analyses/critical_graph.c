/* The graph itself: its edges in the order in which they were added, and the longest
 * path through them.
 *
 * Points are taken in waves, first those that nothing leads to, then those that are
 * free when these are gone; every edge is looked at once. Of equally long ways to a
 * point the edge that was added first is taken, and of equally far points the first in
 * that order: so does networkx, which Holistic Trace Analysis leaves it to. */

#include <string.h>

#include "analyses/critical.h"
#include "base/alloc.h"

/* Two points an event. */
#define EVENTS_MAX (UINT32_MAX / 2 - 1)
/* A trace has about two edges an event. More than these has only one that was made to:
 * of a hundred thousand streams, each waited for by every call. */
#define EDGES_OF_EVENT 8
#define EDGES_MORE 100000

static void set_times(struct lw_critical *c)
{
    for (uint32_t i = 0; i < c->trace->event_count; i++) {
        const struct lw_event *event = &c->trace->events[i];

        c->times[lw_critical_start(i)] =
            c->is_hta ? lw_hta_start_us(&c->hta, event) : (int64_t)event->start_ns;
        c->times[lw_critical_end(i)] =
            c->is_hta ? lw_hta_end_us(&c->hta, event) : (int64_t)lw_event_end_ns(event);
    }
}

bool lw_critical_init(struct lw_critical *c, const struct lw_profile *profile,
                      uint32_t rank, bool is_hta, struct lw_error *err)
{
    size_t count = profile->trace->event_count;

    memset(c, 0, sizeof(*c));
    c->profile = profile;
    c->trace = profile->trace;
    c->rank = rank;
    c->is_hta = is_hta;
    c->err = err;
    if (count > EVENTS_MAX)
        return lw_fail(err, LW_ERR_LIMIT, "a path of more than %u events is not found",
                       EVENTS_MAX);
    c->window.start = INT64_MIN;
    c->window.end = INT64_MAX;
    c->times = lw_alloc(2 * count * sizeof(*c->times) + 1, err);
    c->taken = c->times ? lw_zalloc(count + 1, 1, err) : NULL;
    c->works = c->taken ? lw_alloc(count * sizeof(*c->works) + 1, err) : NULL;
    if (c->works)
        memset(c->works, 0xff, count * sizeof(*c->works)); /* LW_NONE */
    if (!c->works || (is_hta && !lw_hta_init(&c->hta, profile, err)))
        return false;
    set_times(c);
    return true;
}

void lw_critical_release(struct lw_critical *c)
{
    lw_free(c->times);
    lw_free(c->taken);
    lw_free(c->works);
    lw_free(c->edges);
    lw_free(c->path);
    lw_hta_release(&c->hta);
    memset(c, 0, sizeof(*c));
}

bool lw_critical_is_named(const struct lw_critical *c, uint32_t event, const char *name)
{
    return strcmp(lw_profile_text(c->profile, c->trace->events[event].name), name) == 0;
}

void lw_critical_add(struct lw_critical *c, const struct lw_critical_edge *edge)
{
    size_t most = c->trace->event_count * EDGES_OF_EVENT + EDGES_MORE;

    if (!c->failed && c->edge_count >= (most < LW_NONE ? most : LW_NONE))
        c->failed = !lw_fail(c->err, LW_ERR_LIMIT,
                             "the trace has more dependencies than a path is found in");
    if (!c->failed && !lw_grow(&c->edges, &c->edge_capacity, c->edge_count + 1,
                               sizeof(*c->edges), c->err))
        c->failed = true;
    if (!c->failed)
        c->edges[c->edge_count++] = *edge;
}

/* What finding the path needs of each point. */
struct search {
    struct lw_critical *c;
    size_t point_count;
    uint32_t *first;  /* where a point's edges begin in `out`; one more than points */
    uint32_t *out;    /* edges by their start, in order; LW_NONE: one that is twice */
    uint32_t *before; /* how many edges to it are left */
    uint32_t *best;   /* the edge that it is reached by; LW_NONE: none */
    int64_t *reached; /* how far it is; -1: no edge touches it */
    uint32_t *order;  /* the points that edges touch, in order of appearance; then in
                         waves */
    size_t order_count;
};

static bool search_init(struct search *s, struct lw_critical *c, struct lw_error *err)
{
    size_t points = 2 * c->trace->event_count;
    size_t size = points * sizeof(uint32_t) + 1;

    memset(s, 0, sizeof(*s));
    s->c = c;
    s->point_count = points;
    s->first = lw_zalloc(points + 2, sizeof(*s->first), err);
    s->out = s->first ? lw_alloc(c->edge_count * sizeof(*s->out) + 1, err) : NULL;
    s->before = s->out ? lw_zalloc(points + 1, sizeof(*s->before), err) : NULL;
    s->best = s->before ? lw_alloc(size, err) : NULL;
    s->reached = s->best ? lw_alloc(points * sizeof(*s->reached) + 1, err) : NULL;
    s->order = s->reached ? lw_alloc(size, err) : NULL;
    return s->order != NULL;
}

static void search_release(struct search *s)
{
    lw_free(s->first);
    lw_free(s->out);
    lw_free(s->before);
    lw_free(s->best);
    lw_free(s->reached);
    lw_free(s->order);
}

static void meet(struct search *s, uint32_t point)
{
    if (s->reached[point] < 0) {
        s->reached[point] = 0;
        s->order[s->order_count++] = point;
    }
}

/* Edges by the point that they start from, and the points in order of appearance. */
static void sort_edges(struct search *s)
{
    const struct lw_critical *c = s->c;

    for (size_t i = 0; i < s->point_count; i++) {
        s->reached[i] = -1;
        s->best[i] = LW_NONE;
    }
    for (size_t i = 0; i < c->edge_count; i++) {
        meet(s, c->edges[i].from);
        meet(s, c->edges[i].to);
        s->first[c->edges[i].from + 2]++;
    }
    for (size_t i = 2; i < s->point_count + 2; i++)
        s->first[i] += s->first[i - 1];
    for (uint32_t i = 0; i < c->edge_count; i++)
        s->out[s->first[c->edges[i].from + 1]++] = i;
}

/* An edge that was added twice is one: in the place of the first, as the last has it. */
static void join_doubles(struct search *s)
{
    struct lw_critical_edge *edges = s->c->edges;

    for (size_t i = 0; i < s->order_count; i++) {
        uint32_t from = s->order[i];

        for (uint32_t at = s->first[from]; at < s->first[from + 1]; at++) {
            struct lw_critical_edge *edge = &edges[s->out[at]];
            uint32_t known = s->best[edge->to];

            if (known == LW_NONE || edges[known].from != from) {
                s->best[edge->to] = s->out[at];
                s->before[edge->to]++;
                continue;
            }
            edge->event = edge->event == LW_NONE ? edges[known].event : edge->event;
            edges[known] = *edge;
            s->out[at] = LW_NONE;
        }
    }
    for (size_t i = 0; i < s->order_count; i++)
        s->best[s->order[i]] = LW_NONE;
}

/* POINT has been reached for good: go on from there. Those that become free are added
 * behind the COUNT points in `order`. */
static size_t go_on(struct search *s, uint32_t point, size_t count)
{
    const struct lw_critical *c = s->c;

    for (uint32_t at = s->first[point]; at < s->first[point + 1]; at++) {
        uint32_t index = s->out[at];
        const struct lw_critical_edge *edge = &c->edges[index];
        int64_t weight, far;

        if (index == LW_NONE)
            continue;
        weight = lw_critical_weight(c, edge);
        far = s->reached[point] + (weight > 0 ? weight : 0);
        if (s->best[edge->to] == LW_NONE || far > s->reached[edge->to] ||
            (far == s->reached[edge->to] && index < s->best[edge->to])) {
            s->best[edge->to] = index;
            s->reached[edge->to] = far;
        }
        if (--s->before[edge->to] == 0)
            s->order[count++] = edge->to;
    }
    return count;
}

/* Every point in waves; *LAST is the farthest. */
static bool run_waves(struct search *s, uint32_t *last, struct lw_error *err)
{
    size_t total = s->order_count, count = 0;

    for (size_t i = 0; i < total; i++)
        if (s->before[s->order[i]] == 0)
            s->order[count++] = s->order[i];
    for (size_t i = 0; i < count; i++)
        count = go_on(s, s->order[i], count);
    if (count < total)
        return lw_fail(err, LW_ERR_FORMAT,
                       "no path: the trace's times say of %zu events that each came "
                       "before the other",
                       (total - count + 1) / 2);
    *last = s->order[0];
    for (size_t i = 1; i < total; i++)
        if (s->reached[s->order[i]] > s->reached[*last])
            *last = s->order[i];
    return true;
}

static bool keep_path(struct search *s, uint32_t last, struct lw_error *err)
{
    struct lw_critical *c = s->c;
    size_t count = 0;

    for (uint32_t at = last; s->best[at] != LW_NONE; at = c->edges[s->best[at]].from)
        count++;
    c->path = lw_alloc(count * sizeof(*c->path) + 1, err);
    if (!c->path)
        return false;
    c->path_count = count;
    for (uint32_t at = last; s->best[at] != LW_NONE; at = c->edges[s->best[at]].from)
        c->path[--count] = s->best[at];
    return true;
}

bool lw_critical_find_path(struct lw_critical *c, struct lw_error *err)
{
    struct search s;
    uint32_t last = 0;
    bool done;

    if (c->failed)
        return false;
    if (c->edge_count == 0)
        return true;
    done = search_init(&s, c, err);
    if (done) {
        sort_edges(&s);
        join_doubles(&s);
        done = run_waves(&s, &last, err) && keep_path(&s, last, err);
    }
    search_release(&s);
    return done;
}
