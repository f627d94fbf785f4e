/* Three passes: what each event is called within (parents come before their children, so
 * one look at the parent is enough), which events are parts, and which parts are alike.
 * Likeness is found by sorting: parts of one rank that are alike are counted through, and
 * then those of all ranks with the same count lie side by side. */

#include "analyses/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/trace_steps.h"
#include "analyses/work_kinds.h"
#include "base/alloc.h"
#include "base/text.h"

/* Values of `when`; from LATER on it is the name of a step. */
enum { WITHOUT_STEPS, BEFORE_STEPS, BESIDE_STEPS, LATER };

/* What is known while parts are looked for. */
struct search {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_collectives *all;
    uint8_t *work;                /* owned: kinds of work of all events */
    uint32_t *within;             /* owned: of each event on the host, the nearest
                                     that says which collective this is */
    struct lw_trace_steps *steps; /* owned: of each rank */
    uint8_t *names;               /* owned: of each string, enum said */
};

enum said { NOT_READ, SAYS_NOTHING, IS_RANGE, IS_HOST_RANGE };

static enum said what_name_says(const struct search *s, lw_string_id name)
{
    uint8_t *said = &s->names[name];

    if (*said == NOT_READ) {
        const char *text = lw_profile_text(s->profile, name);

        *said = lw_collective_is_host_range(text) ? IS_HOST_RANGE
                : lw_collective_is_range(text)    ? IS_RANGE
                                                  : SAYS_NOTHING;
    }
    return (enum said) * said;
}

static bool is_op(const struct lw_event *event)
{
    return event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE;
}

static const struct lw_op_detail *op_of(const struct lw_trace *trace, uint32_t event)
{
    uint32_t detail = trace->events[event].detail;

    return is_op(&trace->events[event]) && detail != LW_NONE ? &trace->ops[detail]
                                                             : NULL;
}

static bool says_collective(const struct search *s, uint32_t index)
{
    const struct lw_event *event = &s->trace->events[index];
    const struct lw_op_detail *op = op_of(s->trace, index);

    return is_op(event) && ((op && op->collective != LW_NONE) ||
                            what_name_says(s, event->name) >= IS_RANGE);
}

static void find_within(struct search *s)
{
    const struct lw_trace *trace = s->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        uint32_t parent = trace->events[i].parent;

        if (lw_event_is_on_device(&trace->events[i]))
            s->within[i] = LW_NONE;
        else if (says_collective(s, i))
            s->within[i] = i;
        else
            s->within[i] = parent == LW_NONE ? LW_NONE : s->within[parent];
    }
}

/* Parts */

/* A message of so many elements in and out: the larger is the whole of it. */
static int64_t told_bytes(const struct search *s, const struct lw_collective *told)
{
    const char *type = lw_profile_text(s->profile, told->dtype);

    return lw_collective_bytes(told->in_count > told->out_count ? told->in_count
                                                                : told->out_count,
                               lw_collective_element_bytes(type, strlen(type)));
}

static void take_told(const struct search *s, const struct lw_collective *told,
                      struct lw_collective_part *part)
{
    enum lw_collective_kind kind =
        lw_collective_kind_of(lw_profile_text(s->profile, told->name));

    if (kind != LW_COLLECTIVE_OTHER || part->kind == LW_COLLECTIVE_OTHER) {
        part->kind = (uint8_t)kind;
        part->name = told->name;
    }
    if (told->group || told->ranks) {
        part->group = told->group;
        part->group_text = told->group_text;
        part->group_ranks = told->ranks;
    }
    if (told->group_size > 0)
        part->group_size = told->group_size;
    if (part->bytes < 0)
        part->bytes = told_bytes(s, told);
}

/* The tensors that go in; of a gather those of all ranks are the message. */
static int64_t range_bytes(const struct search *s, const struct lw_op_detail *op,
                           const struct lw_collective_part *part)
{
    int64_t world_size = s->trace->ranks[part->rank].world_size;
    int64_t bytes = lw_collective_tensor_bytes(lw_profile_text(s->profile, op->shapes),
                                               lw_profile_text(s->profile, op->types),
                                               lw_collective_element_bytes);

    if (part->kind != LW_COLLECTIVE_ALL_GATHER)
        return bytes;
    return lw_collective_bytes(bytes,
                               part->group_size > 0 ? part->group_size : world_size);
}

static void take_range(const struct search *s, uint32_t index,
                       struct lw_collective_part *part)
{
    const struct lw_op_detail *op = op_of(s->trace, index);
    lw_string_id name = s->trace->events[index].name;
    const char *text = lw_profile_text(s->profile, name);

    if (part->kind == LW_COLLECTIVE_OTHER || part->kind == LW_COLLECTIVE_SEND_RECV) {
        part->kind = (uint8_t)lw_collective_kind_of(text);
        part->name = name;
    }
    if (part->kind == LW_COLLECTIVE_SEND_RECV &&
        lw_collective_pair(text, &part->source, &part->sink))
        part->role = strstr(text, "->") ? LW_ROLE_SENDER : LW_ROLE_RECEIVER;
    if (op && part->bytes < 0 && op->shapes && op->types)
        part->bytes = range_bytes(s, op, part);
}

/* A range, the call recorded around it, and perhaps one that adds several. */
#define LEVELS 3

/* All that what PART's event is within says of it: calls tell more than ranges. */
static void take_within(const struct search *s, uint32_t index,
                        struct lw_collective_part *part)
{
    uint32_t levels[LEVELS];
    int count = 0;

    while (count < LEVELS && index != LW_NONE) {
        uint32_t parent = s->trace->events[index].parent;

        levels[count++] = index;
        index = parent == LW_NONE ? LW_NONE : s->within[parent];
    }
    for (int i = 0; i < count; i++) {
        const struct lw_op_detail *op = op_of(s->trace, levels[i]);

        if (op && op->collective != LW_NONE)
            take_told(s, &s->trace->collectives[op->collective], part);
    }
    for (int i = 0; i < count; i++)
        if (what_name_says(s, s->trace->events[levels[i]].name) >= IS_RANGE)
            take_range(s, levels[i], part);
}

/* In which step it was launched at TIME_NS. */
static void take_step(const struct search *s, uint64_t time_ns, bool is_launched,
                      struct lw_collective_part *part)
{
    const struct lw_trace_steps *steps = &s->steps[part->rank];
    const struct lw_trace_step *step;

    if (!steps->is_marked) {
        part->when = WITHOUT_STEPS;
        return;
    }
    step = is_launched ? lw_trace_steps_at(steps, time_ns) : NULL;
    part->step = step ? step->name : 0;
    if (step)
        part->when = LATER + step->name;
    else
        part->when = !is_launched || time_ns < steps->list[0].host_start_ns
                         ? BEFORE_STEPS
                         : BESIDE_STEPS;
}

static bool add_part(struct search *s, uint32_t index, struct lw_error *err)
{
    const struct lw_trace *trace = s->trace;
    const struct lw_event *event = &trace->events[index];
    bool is_host = !lw_event_is_on_device(event);
    uint32_t launch = is_host ? index : event->parent;
    struct lw_collective_part part = {
        .event = index,
        .rank = trace->tracks[event->track].rank,
        .name = event->name,
        .group_size = -1,
        .source = -1,
        .sink = -1,
        .bytes = -1,
    };

    if (!is_host && event->detail != LW_NONE &&
        trace->works[event->detail].collective != LW_NONE)
        take_told(s, &trace->collectives[trace->works[event->detail].collective],
                  &part);
    if (launch != LW_NONE)
        take_within(s, s->within[launch], &part);
    if (part.kind == LW_COLLECTIVE_OTHER)
        part.kind =
            (uint8_t)lw_collective_kind_of(lw_profile_text(s->profile, event->name));
    take_step(s, launch == LW_NONE ? event->start_ns : trace->events[launch].start_ns,
              launch != LW_NONE, &part);
    if (!part.group && !part.group_ranks)
        s->all->ungrouped_count++;
    if (!lw_grow(&s->all->parts, &s->all->part_capacity, s->all->part_count + 1,
                 sizeof(part), err))
        return false;
    s->all->parts[s->all->part_count++] = part;
    return true;
}

static bool find_parts(struct search *s, struct lw_error *err)
{
    for (uint32_t i = 0; i < s->trace->event_count; i++) {
        const struct lw_event *event = &s->trace->events[i];
        bool is_part = s->work[i] == LW_WORK_COMMUNICATION ||
                       (is_op(event) && s->within[i] == i &&
                        what_name_says(s, event->name) == IS_HOST_RANGE);

        if (is_part && !add_part(s, i, err))
            return false;
    }
    return true;
}

/* Matching */

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Are they of one group, kind and step? Names only count where the kind says nothing. */
static int compare_likes(const struct lw_collective_part *a,
                         const struct lw_collective_part *b)
{
    const uint64_t keys[][2] = {
        { a->group, b->group },
        { a->group_ranks, b->group_ranks },
        { a->kind, b->kind },
        { a->kind == LW_COLLECTIVE_OTHER ? a->name : 0,
          b->kind == LW_COLLECTIVE_OTHER ? b->name : 0 },
        { (uint64_t)a->source, (uint64_t)b->source },
        { (uint64_t)a->sink, (uint64_t)b->sink },
        { a->when, b->when },
    };
    int order = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && order == 0; i++)
        order = compare_u64(keys[i][0], keys[i][1]);
    return order;
}

static int compare_in_rank(const struct lw_collective_part *a,
                           const struct lw_collective_part *b)
{
    int order = compare_likes(a, b);

    if (order == 0)
        order = compare_u64(a->rank, b->rank);
    return order ? order : compare_u64(a->role, b->role);
}

static int by_time_in_rank(const void *x, const void *y, void *trace)
{
    const struct lw_collective_part *a = x, *b = y;
    const struct lw_event *events = ((const struct lw_trace *)trace)->events;
    int order = compare_in_rank(a, b);

    if (order == 0)
        order = compare_u64(events[a->event].start_ns, events[b->event].start_ns);
    return order ? order : compare_u64(a->event, b->event);
}

static int by_order(const void *x, const void *y)
{
    const struct lw_collective_part *a = x, *b = y;
    int order = compare_likes(a, b);

    if (order == 0)
        order = compare_u64(a->order, b->order);
    if (order == 0)
        order = compare_u64(a->rank, b->rank);
    return order ? order : compare_u64(a->role, b->role);
}

static void count_through(struct lw_collectives *all)
{
    struct lw_collective_part *parts = all->parts;

    for (size_t first = 0, end; first < all->part_count; first = end) {
        end = first + 1;
        while (end < all->part_count &&
               compare_in_rank(&parts[first], &parts[end]) == 0)
            end++;
        for (size_t i = first; i < end; i++)
            parts[i].order =
                (uint32_t)(parts[i].when == BEFORE_STEPS ? end - 1 - i : i - first);
    }
}

/* How many ranks take part: as the trace tells, at least as many as are seen. Of one that
 * was seen in one rank only, nobody knows without being told. */
static int64_t size_of_group(const struct lw_collectives *all,
                             const struct lw_collective_match *match)
{
    const struct lw_collective_part *part = &all->parts[match->first];
    int64_t size = part->group_size;

    if (part->kind == LW_COLLECTIVE_SEND_RECV && part->source >= 0)
        return 2;
    if (size < 0 && !part->group && !part->group_ranks)
        size = all->trace->ranks[part->rank].world_size;
    if (size < 0 && match->count == 1)
        return 0;
    return size > (int64_t)match->count ? size : match->count;
}

static void measure_match(const struct lw_collectives *all,
                          struct lw_collective_match *match)
{
    match->transfer_ns = UINT64_MAX;
    match->bytes = -1;
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        uint64_t ns = lw_collective_part_ns(all, &all->parts[i]);

        if (ns < match->transfer_ns) {
            match->transfer_ns = ns;
            match->last = i;
        }
        if (ns > match->longest_ns)
            match->longest_ns = ns;
        if (all->parts[i].bytes > match->bytes)
            match->bytes = all->parts[i].bytes;
    }
    for (uint32_t i = match->first; i < match->first + match->count; i++)
        match->wait_ns += lw_collective_wait_ns(all, match, &all->parts[i]);
    match->size = size_of_group(all, match);
}

static bool find_matches(struct lw_collectives *all, struct lw_error *err)
{
    for (size_t first = 0, end; first < all->part_count; first = end) {
        const struct lw_collective_part *a = &all->parts[first];
        struct lw_collective_match match = { .first = (uint32_t)first };

        end = first + 1;
        while (end < all->part_count && compare_likes(a, &all->parts[end]) == 0 &&
               a->order == all->parts[end].order)
            end++;
        match.count = (uint32_t)(end - first);
        measure_match(all, &match);
        if (!lw_grow(&all->matches, &all->match_capacity, all->match_count + 1,
                     sizeof(match), err))
            return false;
        all->matches[all->match_count++] = match;
    }
    return true;
}

static uint64_t end_of(const struct lw_collectives *all,
                       const struct lw_collective_match *match)
{
    return lw_event_end_ns(&all->trace->events[all->parts[match->first].event]);
}

static int by_end(const void *x, const void *y, void *all)
{
    const struct lw_collective_match *a = x, *b = y;
    int order = compare_u64(end_of(all, a), end_of(all, b));

    return order ? order : compare_u64(a->first, b->first);
}

static bool match_parts(struct lw_collectives *all, struct lw_error *err)
{
    if (all->part_count == 0)
        return true;
    qsort_r(all->parts, all->part_count, sizeof(*all->parts), by_time_in_rank,
            (void *)all->trace);
    count_through(all);
    qsort(all->parts, all->part_count, sizeof(*all->parts), by_order);
    if (!find_matches(all, err))
        return false;
    qsort_r(all->matches, all->match_count, sizeof(*all->matches), by_end, all);
    return true;
}

static bool find_steps(struct search *s, struct lw_error *err)
{
    for (uint32_t i = 0; i < s->trace->rank_count; i++)
        if (!lw_trace_steps_init(&s->steps[i], s->profile, i, LW_COMPAT_NONE, err))
            return false;
    return true;
}

bool lw_collectives_init(struct lw_collectives *all, const struct lw_profile *profile,
                         struct lw_error *err)
{
    const struct lw_trace *trace = profile->trace;
    struct search s = { .profile = profile, .trace = trace, .all = all };
    bool done;

    memset(all, 0, sizeof(*all));
    all->trace = trace;
    s.work = lw_work_kinds_new(profile, LW_COMPAT_NONE, err);
    s.within =
        s.work ? lw_alloc(trace->event_count * sizeof(*s.within) + 1, err) : NULL;
    s.names = s.within ? lw_zalloc(lw_strings_count(profile->strings), 1, err) : NULL;
    s.steps = s.names ? lw_zalloc(trace->rank_count + 1, sizeof(*s.steps), err) : NULL;
    done = s.steps && find_steps(&s, err);
    if (done) {
        find_within(&s);
        done = find_parts(&s, err) && match_parts(all, err);
    }
    for (size_t i = 0; s.steps && i < trace->rank_count; i++)
        lw_trace_steps_release(&s.steps[i]);
    lw_free(s.steps);
    lw_free(s.names);
    lw_free(s.within);
    lw_free(s.work);
    return done;
}

void lw_collectives_release(struct lw_collectives *all)
{
    lw_free(all->parts);
    lw_free(all->matches);
    all->parts = NULL;
    all->matches = NULL;
    all->part_count = all->match_count = 0;
}

double lw_collective_bandwidth(const struct lw_collective_match *match)
{
    return match->bytes >= 0 && match->transfer_ns > 0
               ? (double)match->bytes / ((double)match->transfer_ns / 1e9)
               : -1;
}

double lw_collective_bus_bandwidth(const struct lw_collectives *all,
                                   const struct lw_collective_match *match)
{
    double n = (double)match->size;

    switch ((enum lw_collective_kind)all->parts[match->first].kind) {
    case LW_COLLECTIVE_ALL_REDUCE:
        return lw_collective_bandwidth(match) * 2 * (n - 1) / n;
    case LW_COLLECTIVE_ALL_GATHER:
    case LW_COLLECTIVE_REDUCE_SCATTER:
    case LW_COLLECTIVE_ALL_TO_ALL:
    case LW_COLLECTIVE_GATHER:
    case LW_COLLECTIVE_SCATTER: return lw_collective_bandwidth(match) * (n - 1) / n;
    default: return lw_collective_bandwidth(match);
    }
}
