/* Sorting a trace and joining its events.
 *
 * A profiler writes its events kind by kind, each kind nearly in order of time, so a
 * merge sort that starts from the runs that are there has little to do. Only keys are
 * sorted; the events move once, in place: a trace of gigabytes has no room for two. */

#include "model/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

void lw_trace_free(struct lw_trace *trace)
{
    if (!trace)
        return;
    lw_free(trace->events);
    lw_free(trace->args);
    lw_free(trace->ops);
    lw_free(trace->pythons);
    lw_free(trace->works);
    lw_free(trace->collectives);
    lw_free(trace->memory);
    lw_free(trace->segments);
    lw_free(trace->blocks);
    lw_free(trace->flows);
    lw_free(trace->flow_ends);
    lw_free(trace->points);
    lw_free(trace->marks);
    lw_free(trace->tracks);
    lw_free(trace->gpus);
    lw_free(trace->ranks);
    lw_free(trace);
}

/* Checking */

static size_t detail_limit(const struct lw_trace *trace, const struct lw_event *event)
{
    switch (event->kind) {
    case LW_EVENT_OP:
    case LW_EVENT_RANGE: return trace->op_count;
    case LW_EVENT_PYTHON: return trace->python_count;
    case LW_EVENT_OTHER:
    case LW_EVENT_OVERHEAD: return 0;
    default: return trace->work_count;
    }
}

static bool check_events(const struct lw_trace *trace, size_t strings,
                         struct lw_error *err)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        if (event->track >= trace->track_count || event->name >= strings ||
            event->category >= strings || event->kind > LW_EVENT_SYNC ||
            event->duration_ns > UINT64_MAX - event->start_ns ||
            (trace->args && trace->args[i] >= strings) ||
            (event->detail != LW_NONE && event->detail >= detail_limit(trace, event)))
            return lw_fail(err, LW_ERR_FORMAT, "event %zu of the trace is not whole",
                           i);
    }
    return trace->event_count < LW_NONE ||
           lw_fail(err, LW_ERR_LIMIT, "more than 2^32 events");
}

static bool is_collective(const struct lw_trace *trace, uint32_t index)
{
    return index == LW_NONE || index < trace->collective_count;
}

static bool check_details(const struct lw_trace *trace, size_t strings,
                          struct lw_error *err)
{
    bool good = true;

    for (size_t i = 0; i < trace->op_count; i++) {
        const struct lw_op_detail *op = &trace->ops[i];

        good &= op->shapes < strings && op->types < strings && op->strides < strings &&
                op->values < strings && op->stack < strings &&
                is_collective(trace, op->collective);
    }
    for (size_t i = 0; i < trace->work_count; i++)
        good &= is_collective(trace, trace->works[i].collective);
    for (size_t i = 0; i < trace->collective_count; i++) {
        const struct lw_collective *c = &trace->collectives[i];

        good &= c->name < strings && c->dtype < strings && c->group < strings &&
                c->group_text < strings && c->ranks < strings &&
                c->in_split < strings && c->out_split < strings;
    }
    return good || lw_fail(err, LW_ERR_FORMAT, "a detail of the trace is not whole");
}

static bool check_memory(const struct lw_trace *trace, size_t strings, size_t stacks,
                         struct lw_error *err)
{
    bool good = true;

    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct lw_memory_event *event = &trace->memory[i];

        good &= event->track < trace->track_count && event->stack < stacks &&
                event->args < strings && event->kind <= LW_MEMORY_FAILED &&
                event->category < LW_MEMORY_CATEGORY_COUNT;
    }
    for (size_t i = 0; i < trace->segment_count; i++) {
        const struct lw_memory_segment *segment = &trace->segments[i];

        good &= segment->rank < trace->rank_count && segment->stack < stacks &&
                segment->pool < strings && segment->first_block <= trace->block_count &&
                segment->block_count <= trace->block_count - segment->first_block;
    }
    for (size_t i = 0; i < trace->block_count; i++)
        good &= trace->blocks[i].stack < stacks && trace->blocks[i].state < strings;
    return good ||
           lw_fail(err, LW_ERR_FORMAT, "an allocation of the trace is not whole");
}

static bool check_places(const struct lw_trace *trace, size_t strings,
                         struct lw_error *err)
{
    bool good = true;

    for (size_t i = 0; i < trace->flow_end_count; i++)
        good &= trace->flow_ends[i].track < trace->track_count;
    for (size_t i = 0; i < trace->point_count; i++)
        good &= trace->points[i].rank < trace->rank_count &&
                trace->points[i].name < strings;
    for (size_t i = 0; i < trace->mark_count; i++) {
        const struct lw_trace_mark *mark = &trace->marks[i];

        good &= mark->track < trace->track_count && mark->name < strings &&
                mark->category < strings && mark->args < strings;
    }
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct lw_track *track = &trace->tracks[i];

        good &= track->rank < trace->rank_count && track->pid < strings &&
                track->tid < strings && track->name < strings &&
                track->process_name < strings && track->process_labels < strings;
    }
    for (size_t i = 0; i < trace->gpu_count; i++)
        good &=
            trace->gpus[i].rank < trace->rank_count && trace->gpus[i].name < strings;
    for (size_t i = 0; i < trace->rank_count; i++) {
        const struct lw_trace_rank *rank = &trace->ranks[i];

        good &= rank->file < strings && rank->backend < strings &&
                rank->host < strings && rank->info < strings;
    }
    return good || lw_fail(err, LW_ERR_FORMAT, "a track of the trace is not whole");
}

/* Sorting */

#define NEIGHBOURS \
    64 /* that are sorted by insertion, also where all are the wrong way */

struct key {
    uint64_t start_ns;
    uint64_t duration_ns;
    uint32_t event; /* index, as it was added */
};

static inline bool is_after(const struct key *a, const struct key *b)
{
    return a->start_ns > b->start_ns ||
           (a->start_ns == b->start_ns && a->duration_ns < b->duration_ns);
}

/* The end of the run of keys in order that starts at AT. */
static size_t run_end(const struct key *keys, size_t at, size_t count)
{
    while (at + 1 < count && !is_after(&keys[at], &keys[at + 1]))
        at++;
    return at < count ? at + 1 : count;
}

static void merge(const struct key *from, size_t a, size_t middle, size_t end,
                  struct key *to)
{
    size_t b = middle;

    for (size_t i = a; i < end; i++)
        to[i] = a < middle && (b == end || !is_after(&from[a], &from[b])) ? from[a++]
                                                                          : from[b++];
}

/* Profilers write an op when it ends, behind those that it called: each is a few places
 * from where it should be. */
static void sort_neighbours(struct key *keys, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct key key = keys[i];
        size_t to = i;

        for (; to > 0 && is_after(&keys[to - 1], &key); to--)
            keys[to] = keys[to - 1];
        if (to < i)
            keys[to] = key;
    }
}

/* A stable merge sort of the runs that are there: each round merges neighbours. SPARE has
 * as much room as KEYS. */
static void sort_keys(struct key *keys, struct key *spare, size_t count)
{
    struct key *from = keys, *to = spare;

    for (size_t at = 0; at < count; at += NEIGHBOURS)
        sort_neighbours(keys + at, count - at < NEIGHBOURS ? count - at : NEIGHBOURS);
    while (run_end(from, 0, count) < count) {
        struct key *swap = from;
        size_t at = 0;

        while (at < count) {
            size_t middle = run_end(from, at, count);
            size_t end = run_end(from, middle, count);

            merge(from, at, middle, end, to);
            at = end;
        }
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, count * sizeof(*keys));
}

/* Where the events of each track begin, in `first` and `count` of the tracks. */
static void count_tracks(struct lw_trace *trace)
{
    uint32_t at = 0;

    for (size_t i = 0; i < trace->track_count; i++)
        trace->tracks[i].count = 0;
    for (size_t i = 0; i < trace->event_count; i++)
        trace->tracks[trace->events[i].track].count++;
    for (size_t i = 0; i < trace->track_count; i++) {
        trace->tracks[i].first = at;
        at += trace->tracks[i].count;
    }
}

static void fill_keys(struct lw_trace *trace, struct key *keys)
{
    for (size_t i = 0; i < trace->track_count; i++)
        trace->tracks[i].count = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        struct lw_track *track = &trace->tracks[event->track];
        struct key key = { event->start_ns, event->duration_ns, i };

        keys[track->first + track->count++] = key;
    }
}

/* Move every event to where ORDER has it, round by round of the permutation. */
static void permute(struct lw_trace *trace, uint32_t *order)
{
    for (uint32_t start = 0; start < trace->event_count; start++) {
        struct lw_event held = trace->events[start];
        lw_string_id held_args = trace->args ? trace->args[start] : 0;
        uint32_t to = start, from;

        if (order[start] == start)
            continue;
        while ((from = order[to]) != start) {
            trace->events[to] = trace->events[from];
            if (trace->args)
                trace->args[to] = trace->args[from];
            order[to] = to;
            to = from;
        }
        trace->events[to] = held;
        if (trace->args)
            trace->args[to] = held_args;
        order[to] = to;
    }
}

static bool sort_events(struct lw_trace *trace, struct lw_error *err)
{
    size_t count = trace->event_count;
    struct key *keys = lw_alloc(2 * count * sizeof(*keys) + 1, err);
    uint32_t *order;

    if (!keys)
        return false;
    count_tracks(trace);
    fill_keys(trace, keys);
    for (size_t i = 0; i < trace->track_count; i++)
        sort_keys(keys + trace->tracks[i].first, keys + count, trace->tracks[i].count);
    order =
        (uint32_t *)(void *)(keys + count); /* small, so that rounds stay in cache */
    for (size_t i = 0; i < count; i++)
        order[i] = keys[i].event;
    permute(trace, order);
    lw_free(keys);
    return true;
}

static int compare_memory(const void *a, const void *b)
{
    const struct lw_memory_event *x = a, *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static bool is_memory_sorted(const struct lw_trace *trace)
{
    for (size_t i = 1; i < trace->memory_count; i++)
        if (compare_memory(&trace->memory[i - 1], &trace->memory[i]) > 0)
            return false;
    return true;
}

/* Stable, so that a free and an allocation of one moment stay as they came. */
static bool sort_memory(struct lw_trace *trace, struct lw_error *err)
{
    size_t count = trace->memory_count;
    struct lw_memory_event *sorted;
    struct key *keys;

    if (is_memory_sorted(trace))
        return true;
    sorted = lw_alloc(count * sizeof(*sorted), err);
    keys = sorted ? lw_alloc(2 * count * sizeof(*keys), err) : NULL;
    if (!keys) {
        lw_free(sorted);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct key key = { trace->memory[i].time_ns, 0, i };

        keys[i] = key;
    }
    sort_keys(keys, keys + count, count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = trace->memory[keys[i].event];
    lw_free(keys);
    lw_free(trace->memory);
    trace->memory = sorted;
    trace->memory_capacity = count;
    return true;
}

/* Joining */

/* A track is a device's if anything on it ran on one. */
static void find_devices(struct lw_trace *trace)
{
    for (size_t i = 0; i < trace->track_count; i++) {
        struct lw_track *track = &trace->tracks[i];

        for (uint32_t e = track->first; e < track->first + track->count; e++)
            if (lw_event_is_on_device(&trace->events[e])) {
                uint32_t detail = trace->events[e].detail;

                track->is_device = true;
                if (detail != LW_NONE && trace->works[detail].device >= 0) {
                    track->device = trace->works[detail].device;
                    break;
                }
            }
    }
}

/* As torch nests: what starts after the end of another, or ends after it, is not in it.
 * Only events of the host hold others: the parent of what ran on a device is what launched
 * it, and were that inside it, on a track that a file mixes, they would hold each other. */
static void nest_track(struct lw_trace *trace, const struct lw_track *track)
{
    uint32_t open = LW_NONE; /* the innermost */

    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        struct lw_event *event = &trace->events[i];

        if (lw_event_is_on_device(event))
            continue;
        while (open != LW_NONE &&
               (event->start_ns >= lw_event_end_ns(&trace->events[open]) ||
                lw_event_end_ns(event) > lw_event_end_ns(&trace->events[open])))
            open = trace->events[open].parent;
        event->parent = open;
        open = i;
    }
}

/* Which event has an id: of a rank its correlations of calls, or ids of ops. */
struct ids {
    struct lw_trace *trace;
    struct lw_map map; /* index of the event + 1 */
    bool by_external;
};

struct id {
    uint32_t rank;
    uint64_t number;
};

static uint64_t hash_id(const struct id *id)
{
    return lw_hash_u64(id->number * 31 + id->rank);
}

static struct id id_of(const struct ids *ids, uint32_t index)
{
    const struct lw_event *event = &ids->trace->events[index];
    struct id id = { ids->trace->tracks[event->track].rank,
                     ids->by_external ? event->external : event->correlation };

    return id;
}

static bool is_id(const void *owner, uint32_t number, const void *key)
{
    struct id a = id_of(owner, number - 1);
    const struct id *b = key;

    return a.rank == b->rank && a.number == b->number;
}

static uint32_t find_id(const struct ids *ids, const struct id *id)
{
    uint32_t found =
        id->number ? lw_map_find(&ids->map, hash_id(id), is_id, ids, id) : 0;

    return found ? found - 1 : LW_NONE;
}

static bool add_ids(struct ids *ids, enum lw_event_kind kind, struct lw_error *err)
{
    for (uint32_t i = 0; i < ids->trace->event_count; i++) {
        struct id id = id_of(ids, i);

        if (ids->trace->events[i].kind == kind && id.number &&
            find_id(ids, &id) == LW_NONE &&
            !lw_map_add(&ids->map, hash_id(&id), i + 1, err))
            return false;
    }
    return true;
}

/* Is it the id of an op that says whose EVENT, which ran on a device, is? Up to torch 2.2 what
 * ran there carries its correlation as "External id" too, which is no op's. */
static bool is_of_op(const struct lw_event *event)
{
    return event->parent == LW_NONE && event->kind != LW_EVENT_DEVICE_RANGE &&
           event->external && event->external != event->correlation;
}

/* What ran on a device is of the call that launched it. *LEFT: some are of none. */
static bool join_calls(struct lw_trace *trace, bool *left, struct lw_error *err)
{
    struct ids calls = { .trace = trace };
    bool done = add_ids(&calls, LW_EVENT_RUNTIME, err);

    for (uint32_t i = 0; done && i < trace->event_count; i++) {
        struct lw_event *event = &trace->events[i];
        struct id call;

        if (!lw_event_is_on_device(event))
            continue;
        call = id_of(&calls, i);
        event->parent =
            event->kind == LW_EVENT_DEVICE_RANGE ? LW_NONE : find_id(&calls, &call);
        *left |= is_of_op(event);
    }
    lw_map_release(&calls.map);
    return done;
}

/* The rest is of an op, if one is known. Mostly there is no rest, and no need to have all ops
 * in a map. */
static bool join_ops(struct lw_trace *trace, struct lw_error *err)
{
    struct ids ops = { .trace = trace, .by_external = true };
    bool done = add_ids(&ops, LW_EVENT_OP, err);

    for (uint32_t i = 0; done && i < trace->event_count; i++) {
        struct id op = id_of(&ops, i);

        if (lw_event_is_on_device(&trace->events[i]) && is_of_op(&trace->events[i]))
            trace->events[i].parent = find_id(&ops, &op);
    }
    lw_map_release(&ops.map);
    return done;
}

static bool join_launches(struct lw_trace *trace, struct lw_error *err)
{
    bool left = false;

    return join_calls(trace, &left, err) && (!left || join_ops(trace, err));
}

/* More events than this do not start in one ns but in a hostile file. */
#define STARTS_TOGETHER 64

/* The op of TRACK that starts at TIME_NS; of several the first with a sequence number. */
static uint32_t op_at(const struct lw_trace *trace, uint32_t track, uint64_t time_ns)
{
    uint32_t end = trace->tracks[track].first + trace->tracks[track].count;
    uint32_t first = lw_trace_lower_bound(trace, track, time_ns);
    uint32_t found = LW_NONE;

    if (end - first > STARTS_TOGETHER)
        end = first + STARTS_TOGETHER;
    for (uint32_t i = first; i < end && trace->events[i].start_ns == time_ns; i++) {
        const struct lw_event *event = &trace->events[i];

        if (event->kind != LW_EVENT_OP)
            continue;
        if (event->detail != LW_NONE && trace->ops[event->detail].sequence >= 0)
            return i;
        if (found == LW_NONE)
            found = i;
    }
    return found;
}

/* Forward ends are looked up by id; the ids are their map's numbers. */
static bool is_flow(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace *trace = owner;
    const struct lw_flow_end *a = &trace->flow_ends[number - 1], *b = key;

    return a->id == b->id &&
           trace->tracks[a->track].rank == trace->tracks[b->track].rank;
}

static uint64_t hash_flow(const struct lw_trace *trace, const struct lw_flow_end *end)
{
    struct id id = { trace->tracks[end->track].rank, end->id };

    return hash_id(&id);
}

static bool join_flows(struct lw_trace *trace, struct lw_error *err)
{
    struct lw_map forwards = { 0 };
    bool done = true;

    for (uint32_t i = 0; done && i < trace->flow_end_count; i++) {
        const struct lw_flow_end *end = &trace->flow_ends[i];

        if (!end->is_backward &&
            !lw_map_find(&forwards, hash_flow(trace, end), is_flow, trace, end))
            done = lw_map_add(&forwards, hash_flow(trace, end), i + 1, err);
    }
    for (size_t i = 0; done && i < trace->flow_end_count; i++) {
        const struct lw_flow_end *end = &trace->flow_ends[i], *forward;
        struct lw_flow flow;
        uint32_t found;

        if (!end->is_backward)
            continue;
        found = lw_map_find(&forwards, hash_flow(trace, end), is_flow, trace, end);
        if (!found)
            continue;
        forward = &trace->flow_ends[found - 1];
        flow.forward = op_at(trace, forward->track, forward->time_ns);
        flow.backward = op_at(trace, end->track, end->time_ns);
        if (flow.forward == LW_NONE || flow.backward == LW_NONE)
            continue;
        done = lw_grow(&trace->flows, &trace->flow_capacity, trace->flow_count + 1,
                       sizeof(flow), err);
        if (done)
            trace->flows[trace->flow_count++] = flow;
    }
    lw_map_release(&forwards);
    lw_free(trace->flow_ends);
    trace->flow_ends = NULL;
    trace->flow_end_count = trace->flow_end_capacity = 0;
    return done;
}

bool lw_trace_finish(struct lw_trace *trace, size_t string_count, size_t stack_count,
                     struct lw_error *err)
{
    if (!check_events(trace, string_count, err) ||
        !check_details(trace, string_count, err) ||
        !check_memory(trace, string_count, stack_count, err) ||
        !check_places(trace, string_count, err) || !sort_events(trace, err) ||
        !sort_memory(trace, err))
        return false;
    find_devices(trace);
    for (size_t i = 0; i < trace->track_count; i++)
        nest_track(trace, &trace->tracks[i]);
    return join_launches(trace, err) && join_flows(trace, err);
}

/* Looking */

uint32_t lw_trace_ancestor(const struct lw_trace *trace, uint32_t event,
                           enum lw_event_kind kind)
{
    do
        event = trace->events[event].parent;
    while (event != LW_NONE && trace->events[event].kind != kind);
    return event;
}

uint32_t lw_trace_lower_bound(const struct lw_trace *trace, uint32_t track,
                              uint64_t time_ns)
{
    uint32_t low = trace->tracks[track].first;
    uint32_t count = trace->tracks[track].count;

    while (count > 0) {
        uint32_t half = count / 2;

        if (trace->events[low + half].start_ns < time_ns) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}
