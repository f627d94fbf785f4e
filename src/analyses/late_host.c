#include "analyses/late_host.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/tb_events.h"
#include "base/alloc.h"
#include "base/text.h"

/* Events that are open at once are looked through so far: no program nests deeper. */
#define DEEPEST 4096

/* What a name says. */
enum word {
    NOT_JUDGED,
    PLAIN,
    STEP,
    LOADER,
    OPTIMIZER,
    MEMORY_CALL,
};

/* The two threads of a rank that launch most. */
struct launchers {
    uint32_t tracks[2]; /* LW_NONE: none */
    uint32_t counts[2];
};

struct finding {
    struct lw_late_host *late;
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_tb_events names;
    uint8_t *words;              /* owned: of each string, enum word */
    bool *is_wait;               /* owned: of each event, whether it is a wait's call */
    uint32_t *launch_counts;     /* owned: of each track */
    struct launchers *launchers; /* owned: of each rank */
};

/* ---- names -------------------------------------------------------------------------- */

/* Calls that take memory from the driver, or give it back: slow, and what torch's caching
 * allocator is there to avoid. */
static bool is_memory_call(const char *name)
{
    const char *rest = lw_text_starts(name, "cuda")  ? name + 4
                       : lw_text_starts(name, "cu")  ? name + 2
                       : lw_text_starts(name, "hip") ? name + 3
                                                     : NULL;

    return rest &&
           (lw_text_starts(rest, "Malloc") || lw_text_starts(rest, "MemAlloc") ||
            lw_text_starts(rest, "MemCreate") || lw_text_starts(rest, "HostAlloc") ||
            lw_text_starts(rest, "HostMalloc") ||
            lw_text_starts(rest, "HostRegister") || strcmp(rest, "Free") == 0 ||
            strcmp(rest, "MemFree") == 0 || strcmp(rest, "FreeHost") == 0 ||
            strcmp(rest, "HostFree") == 0);
}

static enum word word_of(struct finding *f, lw_string_id id)
{
    const char *name = lw_profile_text(f->profile, id);
    uint8_t *word = &f->words[id];
    enum lw_tb_name known;

    if (*word != NOT_JUDGED)
        return (enum word) * word;
    known = lw_tb_name(&f->names, id);
    *word = known == LW_TB_STEP_NAME                  ? STEP
            : known == LW_TB_LOADER                   ? LOADER
            : lw_text_starts(name, "Optimizer.step#") ? OPTIMIZER
            : is_memory_call(name)                    ? MEMORY_CALL
                                                      : PLAIN;
    return (enum word) * word;
}

/* torch before 1.12 wrote ranges as ops. */
static bool is_range(struct finding *f, const struct lw_event *event)
{
    enum word word;

    if (event->kind != LW_EVENT_RANGE && event->kind != LW_EVENT_OP)
        return false;
    word = word_of(f, event->name);
    return word == LOADER || word == OPTIMIZER ||
           (event->kind == LW_EVENT_RANGE && word != STEP);
}

/* ---- what an event is of ------------------------------------------------------------ */

/* A parent on its track is before an event, so one pass does it. */
static void find_ranges(struct finding *f)
{
    const struct lw_trace *trace = f->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t parent = lw_event_is_on_device(event) ? LW_NONE : event->parent;

        if (is_range(f, event))
            f->late->ranges[i] = i;
        else
            f->late->ranges[i] = parent == LW_NONE ? LW_NONE : f->late->ranges[parent];
    }
}

static void find_launchers(struct finding *f)
{
    const struct lw_trace *trace = f->trace;

    for (uint32_t i = 0; i < trace->event_count; i++)
        if (lw_trace_is_launched(trace, i))
            f->launch_counts[trace->events[trace->events[i].parent].track]++;
    for (size_t i = 0; i < trace->rank_count; i++)
        f->launchers[i].tracks[0] = f->launchers[i].tracks[1] = LW_NONE;
    for (uint32_t t = 0; t < trace->track_count; t++) {
        struct launchers *most = &f->launchers[trace->tracks[t].rank];
        uint32_t count = f->launch_counts[t];

        if (count > most->counts[0]) {
            most->tracks[1] = most->tracks[0];
            most->counts[1] = most->counts[0];
            most->tracks[0] = t;
            most->counts[0] = count;
        } else if (count > most->counts[1]) {
            most->tracks[1] = t;
            most->counts[1] = count;
        }
    }
}

static enum lw_late_cause cause_of(struct finding *f, uint32_t event)
{
    const struct lw_late_host *late = f->late;
    const struct lw_event *e;
    uint32_t range;

    if (event == LW_NONE)
        return LW_LATE_PYTHON;
    e = &f->trace->events[event];
    range = late->ranges[event];
    if (range != LW_NONE && word_of(f, f->trace->events[range].name) == LOADER)
        return LW_LATE_LOADER;
    if (e->kind == LW_EVENT_RUNTIME) {
        if (f->is_wait[event])
            return LW_LATE_WAIT;
        return word_of(f, e->name) == MEMORY_CALL ? LW_LATE_MEMORY : LW_LATE_OPS;
    }
    return late->askers.ops[event] != LW_NONE && e->kind != LW_EVENT_PYTHON &&
                   range != event
               ? LW_LATE_OPS
               : LW_LATE_PYTHON;
}

/* The event whose name says what the host did. */
static uint32_t named_by(const struct finding *f, enum lw_late_cause cause,
                         uint32_t event)
{
    const struct lw_late_host *late = f->late;

    if (event == LW_NONE)
        return LW_NONE;
    switch (cause) {
    case LW_LATE_LOADER: return late->ranges[event];
    case LW_LATE_WAIT:
    case LW_LATE_MEMORY: return event;
    case LW_LATE_OPS:
    case LW_LATE_LONG: return late->askers.ops[event];
    default:
        return late->askers.lines[event] != LW_NONE ? late->askers.lines[event]
                                                    : late->ranges[event];
    }
}

/* ---- adding up ---------------------------------------------------------------------- */

static bool same_group(const void *owner, uint32_t number, const void *key)
{
    const struct lw_late_host *late = owner;
    const struct lw_late_group *a = &late->groups[number - 1], *b = key;

    return a->cause == b->cause && a->name == b->name;
}

static bool add_to_group(struct lw_late_host *late, const struct lw_late_group *part,
                         struct lw_error *err)
{
    uint64_t hash = lw_hash_u64((uint64_t)part->cause << 32 | part->name);
    uint32_t number = lw_map_find(&late->map, hash, same_group, late, part);
    struct lw_late_group *group;

    if (number == 0) {
        if (!lw_grow(&late->groups, &late->group_capacity, late->group_count + 1,
                     sizeof(*part), err) ||
            !lw_map_add(&late->map, hash, (uint32_t)late->group_count + 1, err))
            return false;
        late->groups[late->group_count++] = *part;
        return true;
    }
    group = &late->groups[number - 1];
    group->ns += part->ns;
    group->count++;
    if (part->longest_ns > group->longest_ns) {
        group->longest_ns = part->longest_ns;
        group->event = part->event;
        group->late = part->late;
    }
    return true;
}

/* Some time of a gap, in which nothing began or ended on the host. */
struct stretch {
    uint32_t event;    /* index: what the host was in; LW_NONE: nothing */
    uint64_t since_ns; /* when it began, maybe before the gap */
    uint64_t from_ns, to_ns;
};

static bool add_part(struct finding *f, const struct lw_idle_gap *gap,
                     const struct stretch *in, struct lw_error *err)
{
    uint32_t event = in->event;
    uint64_t long_ns = in->to_ns - in->since_ns;
    struct lw_late_host *late = f->late;
    uint32_t rank = late->gaps.lanes[gap->lane].rank;
    enum lw_late_cause cause = cause_of(f, event);
    bool is_long = cause == LW_LATE_OPS && long_ns >= LW_LATE_LONG_NS;
    uint32_t named = named_by(f, cause, event);
    uint32_t range = event == LW_NONE ? LW_NONE : late->ranges[event];
    struct lw_late_group part = {
        .cause = (uint8_t)(is_long ? LW_LATE_LONG : cause),
        .name = named == LW_NONE ? 0 : f->trace->events[named].name,
        .ns = lw_advice_in_steps(late->trace, rank, in->from_ns, in->to_ns),
        .count = 1,
        .longest_ns = in->to_ns - in->from_ns,
        .event = named,
        .late = gap->event,
    };

    if (part.ns == 0)
        return true;
    late->ns[part.cause] += part.ns;
    if (part.cause == LW_LATE_OPS && range != LW_NONE &&
        word_of(f, f->trace->events[range].name) == OPTIMIZER)
        late->optimizer_ns += part.ns;
    return add_to_group(late, &part, err);
}

/* ---- what was open ------------------------------------------------------------------ */

/* EVENT, or what it is in, if that is on its track and open at TIME_NS. */
static uint32_t open_at(const struct lw_trace *trace, uint32_t event, uint64_t time_ns)
{
    uint32_t track = event == LW_NONE ? LW_NONE : trace->events[event].track;

    for (size_t i = 0; event != LW_NONE && i < DEEPEST; i++) {
        const struct lw_event *e = &trace->events[event];

        if (e->track != track)
            return LW_NONE;
        if (e->start_ns <= time_ns && lw_event_end_ns(e) > time_ns)
            return event;
        event = e->parent;
    }
    return LW_NONE;
}

static bool walk(struct finding *f, const struct lw_idle_gap *gap, uint32_t track,
                 uint32_t other, uint64_t from_ns, uint64_t to_ns,
                 struct lw_error *err);

/* Where TRACK's own thread shows nothing, the other may. */
static bool add_or_ask(struct finding *f, const struct lw_idle_gap *gap,
                       const struct stretch *in, uint32_t other, struct lw_error *err)
{
    if (other != LW_NONE && cause_of(f, in->event) == LW_LATE_PYTHON) {
        uint32_t next = lw_trace_lower_bound(f->trace, other, in->from_ns + 1);
        const struct lw_track *track = &f->trace->tracks[other];
        bool is_busy = (next < track->first + track->count &&
                        f->trace->events[next].start_ns < in->to_ns) ||
                       (next > track->first &&
                        open_at(f->trace, next - 1, in->from_ns) != LW_NONE);

        if (is_busy)
            return walk(f, gap, other, LW_NONE, in->from_ns, in->to_ns, err);
    }
    return add_part(f, gap, in, err);
}

/* Since when nothing began or ended before NEXT, the first event behind what is OPEN. */
static uint64_t quiet_since(const struct lw_trace *trace, uint32_t open, uint32_t next)
{
    const struct lw_event *before = &trace->events[next - 1];

    return open == next - 1 || lw_event_end_ns(before) < trace->events[open].start_ns
               ? trace->events[open].start_ns
               : lw_event_end_ns(before);
}

/* Give each moment of GAP from FROM_NS to TO_NS to the innermost event of TRACK. */
static bool walk(struct finding *f, const struct lw_idle_gap *gap, uint32_t track,
                 uint32_t other, uint64_t from_ns, uint64_t to_ns, struct lw_error *err)
{
    const struct lw_event *events = f->trace->events;
    const struct lw_track *on = &f->trace->tracks[track];
    uint32_t next = lw_trace_lower_bound(f->trace, track, from_ns + 1);
    struct stretch in = { .event = LW_NONE, .since_ns = from_ns, .from_ns = from_ns };

    if (next > on->first)
        in.event = open_at(f->trace, next - 1, from_ns);
    if (in.event != LW_NONE)
        in.since_ns = quiet_since(f->trace, in.event, next);
    while (in.from_ns < to_ns) {
        bool is_next;

        in.to_ns = to_ns;
        if (in.event != LW_NONE && lw_event_end_ns(&events[in.event]) < in.to_ns)
            in.to_ns = lw_event_end_ns(&events[in.event]);
        is_next = next < on->first + on->count && events[next].start_ns < in.to_ns;
        if (is_next)
            in.to_ns = events[next].start_ns;
        if (in.to_ns > in.from_ns && !add_or_ask(f, gap, &in, other, err))
            return false;
        in.since_ns = in.from_ns = in.to_ns;
        in.event = open_at(f->trace, is_next ? next++ : in.event, in.from_ns);
    }
    return true;
}

/* A gap's end, from the launch on, is the launch's. */
static bool add_gap(struct finding *f, const struct lw_idle_gap *gap,
                    struct lw_error *err)
{
    uint32_t launch = f->trace->events[gap->event].parent;
    const struct lw_event *call = &f->trace->events[launch];
    uint64_t end_ns = gap->start_ns + (uint64_t)gap->duration_ns;
    uint64_t launch_ns = call->start_ns < end_ns ? call->start_ns : end_ns;
    const struct stretch last = { launch, launch_ns, launch_ns, end_ns };
    const struct launchers *launchers =
        &f->launchers[f->late->gaps.lanes[gap->lane].rank];
    uint32_t other = launchers->tracks[launchers->tracks[0] == call->track];

    return walk(f, gap, call->track, other, gap->start_ns, launch_ns, err) &&
           add_part(f, gap, &last, err);
}

/* ---- all of it ---------------------------------------------------------------------- */

static int compare_groups(const void *a, const void *b)
{
    const struct lw_late_group *x = a, *y = b;

    if (x->cause != y->cause)
        return x->cause < y->cause ? -1 : 1;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

static bool add_gaps(struct finding *f, struct lw_error *err)
{
    struct lw_late_host *late = f->late;

    for (size_t i = 0; i < late->gaps.lane_count; i++)
        if (!late->gaps.lanes[i].is_part) {
            late->device_count++;
            late->lane_ns += late->trace->ranks[late->gaps.lanes[i].rank].ns;
        }
    for (size_t i = 0; i < late->gaps.gap_count; i++) {
        const struct lw_idle_gap *gap = &late->gaps.gaps[i];

        if (gap->cause == LW_IDLE_HOST && !late->gaps.lanes[gap->lane].is_part &&
            !add_gap(f, gap, err))
            return false;
    }
    if (late->group_count > 1)
        qsort(late->groups, late->group_count, sizeof(*late->groups), compare_groups);
    return true;
}

static bool finding_init(struct finding *f, struct lw_error *err)
{
    const struct lw_trace *trace = f->trace;

    f->late->ranges = lw_alloc(trace->event_count * sizeof(uint32_t) + 1, err);
    if (!f->late->ranges || !lw_tb_events_init(&f->names, f->profile, err))
        return false;
    f->words = lw_zalloc(lw_strings_count(f->profile->strings), 1, err);
    f->is_wait = f->words ? lw_zalloc(trace->event_count + 1, sizeof(bool), err) : NULL;
    f->launch_counts =
        f->is_wait ? lw_zalloc(trace->track_count + 1, sizeof(uint32_t), err) : NULL;
    f->launchers = f->launch_counts
                       ? lw_zalloc(trace->rank_count + 1, sizeof(*f->launchers), err)
                       : NULL;
    if (!f->launchers)
        return false;
    for (size_t i = 0; i < f->late->waits.count; i++)
        f->is_wait[f->late->waits.list[i].call] = true;
    find_ranges(f);
    find_launchers(f);
    return true;
}

bool lw_late_host_init(struct lw_late_host *late, const struct lw_advice_trace *trace,
                       struct lw_error *err)
{
    struct finding f = { .late = late,
                         .profile = trace->scope.profile,
                         .trace = trace->scope.trace };
    bool done;

    memset(late, 0, sizeof(*late));
    late->trace = trace;
    lw_map_init(&late->map);
    done = lw_idle_gaps_init(&late->gaps, &trace->scope, err) &&
           lw_askers_init(&late->askers, f.profile, err) &&
           lw_waits_init(&late->waits, f.profile, err) && finding_init(&f, err) &&
           add_gaps(&f, err);
    lw_tb_events_release(&f.names);
    lw_free(f.words);
    lw_free(f.is_wait);
    lw_free(f.launch_counts);
    lw_free(f.launchers);
    return done;
}

void lw_late_host_release(struct lw_late_host *late)
{
    lw_idle_gaps_release(&late->gaps);
    lw_askers_release(&late->askers);
    lw_waits_release(&late->waits);
    lw_map_release(&late->map);
    lw_free(late->ranges);
    lw_free(late->groups);
    memset(late, 0, sizeof(*late));
}

bool lw_late_host_look(struct lw_advice *advice,
                       bool (*find)(const struct lw_late_host *late,
                                    struct lw_error *err),
                       struct lw_error *err)
{
    struct lw_advice_trace trace;
    struct lw_late_host late = { 0 };
    bool done = lw_advice_trace_init(&trace, advice, err) &&
                lw_late_host_init(&late, &trace, err) && find(&late, err);

    lw_late_host_release(&late);
    lw_advice_trace_release(&trace);
    return done;
}

const struct lw_late_group *lw_late_host_most(const struct lw_late_host *late,
                                              enum lw_late_cause cause)
{
    for (size_t i = 0; i < late->group_count; i++)
        if (late->groups[i].cause == cause)
            return &late->groups[i];
    return NULL;
}
