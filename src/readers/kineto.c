/* torch's profiler writes its events kind by kind: ops and ranges, calls into the runtime,
 * what ran on devices, then names of processes and threads, and says a good deal in their
 * arguments (kineto_args.c) and beside the list of events (kineto_head.c).
 *
 * There are two vocabularies of categories, up to torch 1.12 ("Operator", "Kernel") and
 * since ("cpu_op", "kernel"). In the older one a ProfilerStep#N is an Operator; here it is
 * a range, as it is in the newer. A thread may be 5555 in one event and "5555" in another,
 * and a stream 7 or "stream 7": a track is known by what is between the quotes.
 *
 * Instants are marks, beside the events: the time of "Record Window End" is the
 * profiler's, often absurd, and must not stretch anything. */

#include "readers/kineto.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/map.h"
#include "base/text.h"
#include "lap/reader.h" /* enum lw_want */
#include "readers/kineto_args.h"
#include "readers/kineto_head.h"

#define CATEGORIES 32 /* known at a glance; Kineto has 20 */

/* What was said of one (pid, tid). */
struct place {
    lw_string_id pid, tid;
    uint32_t track; /* LW_NONE: no event lies there */
    uint32_t open;  /* the innermost B without E: an event; LW_NONE: none */
    lw_string_id name;
    int64_t sort_index;
};

struct process {
    lw_string_id pid;
    lw_string_id name, labels;
    int64_t sort_index;
};

struct category {
    lw_string_id id;
    uint8_t kind;
};

struct lw_kineto {
    struct lw_builder *out; /* borrowed, as the next */
    struct lw_trace *trace;
    unsigned want;
    uint32_t rank; /* index */
    size_t first;  /* event of the file: index */
    uint32_t last; /* place of the last event; LW_NONE: none */
    struct lw_buf text;
    struct lw_kineto_head head;
    struct place *places;
    size_t place_count, place_capacity;
    struct lw_map place_map;
    struct process *processes;
    size_t process_count, process_capacity;
    struct lw_map process_map;
    struct category categories[CATEGORIES];
    size_t category_count;
    struct lw_trace_losses *losses; /* borrowed */
};

struct lw_kineto *lw_kineto_new(struct lw_builder *out, const char *name, unsigned want,
                                struct lw_trace_losses *losses, struct lw_error *err)
{
    struct lw_kineto *k = lw_zalloc(1, sizeof(*k), err);
    struct lw_trace_rank rank = { .world_size = -1 };
    struct lw_trace *trace;

    if (!k)
        return NULL;
    trace = lw_builder_trace(out, err);
    rank.rank = lw_kineto_rank_of_name(name);
    if (!trace || !lw_builder_string(out, name, strlen(name), &rank.file, err) ||
        !lw_grow(&trace->ranks, &trace->rank_capacity, trace->rank_count + 1,
                 sizeof(rank), err)) {
        lw_free(k);
        return NULL;
    }
    trace->ranks[trace->rank_count] = rank;
    k->out = out;
    k->trace = trace;
    k->want = want;
    k->losses = losses;
    k->rank = (uint32_t)trace->rank_count++;
    k->first = trace->event_count;
    k->last = LW_NONE;
    lw_buf_init(&k->text, 0);
    lw_kineto_head_init(&k->head, out, k->rank);
    return k;
}

void lw_kineto_free(struct lw_kineto *k)
{
    if (!k)
        return;
    lw_buf_release(&k->text);
    lw_kineto_head_release(&k->head);
    lw_map_release(&k->place_map);
    lw_map_release(&k->process_map);
    lw_free(k->places);
    lw_free(k->processes);
    lw_free(k);
}

static bool string_of(struct lw_kineto *k, const struct lw_value *value,
                      lw_string_id *id, struct lw_error *err)
{
    return lw_kineto_string(k->out, value, &k->text, id, err);
}

/* Where an event lies */

static bool is_text(const struct lw_kineto *k, lw_string_id id,
                    const struct lw_value *value)
{
    const struct lw_strings *strings = lw_builder_profile(k->out)->strings;

    return !value->escaped && lw_strings_len(strings, id) == value->len &&
           memcmp(lw_strings_text(strings, id), value->text, value->len) == 0;
}

static bool is_place(const void *owner, uint32_t number, const void *key)
{
    const struct place *a = &((const struct lw_kineto *)owner)->places[number - 1];
    const struct place *b = key;

    return a->pid == b->pid && a->tid == b->tid;
}

static bool find_place(struct lw_kineto *k, const struct lw_trace_event *event,
                       struct place **found, struct lw_error *err)
{
    struct place place = { .track = LW_NONE, .open = LW_NONE };
    uint64_t hash;
    uint32_t number;

    if (k->last != LW_NONE && is_text(k, k->places[k->last].tid, &event->tid) &&
        is_text(k, k->places[k->last].pid, &event->pid)) {
        *found = &k->places[k->last];
        return true;
    }
    if (!string_of(k, &event->pid, &place.pid, err) ||
        !string_of(k, &event->tid, &place.tid, err))
        return false;
    hash = lw_hash_u64((uint64_t)place.pid << 32 | place.tid);
    number = lw_map_find(&k->place_map, hash, is_place, k, &place);
    if (!number) {
        if (k->place_count >= LW_NONE - 1)
            return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 threads");
        if (!lw_grow(&k->places, &k->place_capacity, k->place_count + 1, sizeof(place),
                     err) ||
            !lw_map_add(&k->place_map, hash, (uint32_t)k->place_count + 1, err))
            return false;
        k->places[k->place_count++] = place;
        number = (uint32_t)k->place_count;
    }
    k->last = number - 1;
    *found = &k->places[k->last];
    return true;
}

/* "5555", "stream 7"; -1: no number. */
static int64_t number_of(const char *text, size_t len)
{
    const char *digits = text;
    int64_t number;

    if (len > 7 && memcmp(text, "stream ", 7) == 0)
        digits += 7;
    return lw_text_i64(digits, len - (size_t)(digits - text), &number) && number >= 0
               ? number
               : -1;
}

static bool find_track(struct lw_kineto *k, const struct lw_trace_event *event,
                       struct place **place, struct lw_error *err)
{
    const struct lw_strings *strings = lw_builder_profile(k->out)->strings;
    struct lw_trace *trace = k->trace;
    struct lw_track track = { .rank = k->rank, .device = -1 };

    if (!find_place(k, event, place, err))
        return false;
    if ((*place)->track != LW_NONE)
        return true;
    track.pid = (*place)->pid;
    track.tid = (*place)->tid;
    track.number = number_of(lw_strings_text(strings, track.tid),
                             lw_strings_len(strings, track.tid));
    if (trace->track_count >= LW_NONE)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 tracks");
    if (!lw_grow(&trace->tracks, &trace->track_capacity, trace->track_count + 1,
                 sizeof(track), err))
        return false;
    (*place)->track = (uint32_t)trace->track_count;
    trace->tracks[trace->track_count++] = track;
    return true;
}

/* What kind of event it is */

static enum lw_event_kind kind_of_category(const struct lw_value *category)
{
    static const struct {
        const char *text;
        enum lw_event_kind kind;
    } kinds[] = {
        { "cpu_op", LW_EVENT_OP },
        { "Operator", LW_EVENT_OP },
        { "user_annotation", LW_EVENT_RANGE },
        { "python_function", LW_EVENT_PYTHON },
        { "cuda_runtime", LW_EVENT_RUNTIME },
        { "cuda_driver", LW_EVENT_RUNTIME },
        { "Runtime", LW_EVENT_RUNTIME },
        { "xpu_runtime", LW_EVENT_RUNTIME },
        { "xpu_driver", LW_EVENT_RUNTIME },
        { "mtia_runtime", LW_EVENT_RUNTIME },
        { "glow_runtime", LW_EVENT_RUNTIME },
        { "privateuse1_runtime", LW_EVENT_RUNTIME },
        { "privateuse1_driver", LW_EVENT_RUNTIME },
        { "overhead", LW_EVENT_OVERHEAD },
        { "kernel", LW_EVENT_KERNEL },
        { "Kernel", LW_EVENT_KERNEL },
        { "concurrent_kernel", LW_EVENT_KERNEL },
        { "mtia_ccp_events", LW_EVENT_KERNEL },
        { "hpu_op", LW_EVENT_KERNEL },
        { "gpu_memcpy", LW_EVENT_MEMCPY },
        { "Memcpy", LW_EVENT_MEMCPY },
        { "gpu_memset", LW_EVENT_MEMSET },
        { "Memset", LW_EVENT_MEMSET },
        { "gpu_user_annotation", LW_EVENT_DEVICE_RANGE },
        { "cuda_sync", LW_EVENT_SYNC },
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (lw_value_is(category, kinds[i].text))
            return kinds[i].kind;
    return LW_EVENT_OTHER;
}

static bool find_category(struct lw_kineto *k, const struct lw_value *value,
                          struct category *category, struct lw_error *err)
{
    for (size_t i = 0; i < k->category_count; i++)
        if (is_text(k, k->categories[i].id, value)) {
            *category = k->categories[i];
            return true;
        }
    category->kind = (uint8_t)kind_of_category(value);
    if (!string_of(k, value, &category->id, err))
        return false;
    if (k->category_count < CATEGORIES)
        k->categories[k->category_count++] = *category;
    return true;
}

static bool starts(const struct lw_value *value, const char *prefix)
{
    size_t len = strlen(prefix);

    return value->len >= len && memcmp(value->text, prefix, len) == 0;
}

/* Adding */

static bool too_many(const char *what, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 %s", what);
}

/* Append ITEM to an array of the trace, whose number goes to *INDEX. */
static bool append(void *items, size_t *count, size_t *capacity, const void *item,
                   size_t size, uint32_t *index, struct lw_error *err)
{
    char *array;

    if (*count >= LW_NONE)
        return too_many("events", err);
    if (*count == *capacity && !lw_grow_bytes(items, capacity, *count + 1, size, err))
        return false;
    memcpy(&array, items, sizeof(array));
    memcpy(array + *count * size, item, size);
    *index = (uint32_t)(*count)++;
    return true;
}
#define APPEND(trace, what, item, index, err) \
    append(&(trace)->what##s, &(trace)->what##_count, &(trace)->what##_capacity, item, \
           sizeof(*(trace)->what##s), index, err)

static bool add_detail(struct lw_kineto *k, struct lw_event *event,
                       struct lw_kineto_args *args, struct lw_error *err)
{
    uint32_t collective = LW_NONE;

    event->correlation = args->correlation;
    event->external = args->external;
    event->detail = LW_NONE;
    if (args->has_collective &&
        !APPEND(k->trace, collective, &args->collective, &collective, err))
        return false;
    args->op.collective = args->work.collective = collective;
    switch (event->kind) {
    case LW_EVENT_OP:
    case LW_EVENT_RANGE:
        return !(args->has_op || args->has_collective) ||
               APPEND(k->trace, op, &args->op, &event->detail, err);
    case LW_EVENT_PYTHON:
        return !args->has_python ||
               APPEND(k->trace, python, &args->python, &event->detail, err);
    case LW_EVENT_OTHER:
    case LW_EVENT_OVERHEAD: return true;
    default:
        return !(args->has_work || args->has_collective) ||
               APPEND(k->trace, work, &args->work, &event->detail, err);
    }
}

/* The text of the arguments, behind those of the events before. */
static bool add_args(struct lw_kineto *k, const struct lw_trace_event *from, size_t at,
                     struct lw_error *err)
{
    struct lw_trace *trace = k->trace;
    lw_string_id id = 0;

    if (!(k->want & LW_WANT_ARGS))
        return true;
    if (!lw_builder_string(k->out, from->args.text, from->args.len, &id, err) ||
        !lw_grow(&trace->args, &trace->args_capacity, at + 1, sizeof(id), err))
        return false;
    trace->args[at] = id;
    return true;
}

/* An event from TIME_NS on; one that is just begun is as long as its end says. */
static bool add_span(struct lw_kineto *k, const struct lw_trace_event *from,
                     int64_t time_ns, struct lw_error *err)
{
    struct lw_event event = { .start_ns = (uint64_t)time_ns, .parent = LW_NONE };
    struct lw_kineto_args args;
    struct category category;
    struct place *place;
    uint32_t index;

    if (from->phase == 'X')
        event.duration_ns = lw_trace_event_duration(from, k->losses);
    if (!find_track(k, from, &place, err) ||
        !find_category(k, &from->category, &category, err) ||
        !string_of(k, &from->name, &event.name, err) ||
        !lw_kineto_args_read(&args, from, k->out, &k->text, err))
        return false;
    event.track = place->track;
    event.category = category.id;
    event.kind = category.kind;
    if (event.kind == LW_EVENT_OP && starts(&from->name, "ProfilerStep#"))
        event.kind = LW_EVENT_RANGE;
    if (from->phase == 'B')
        event.parent = place->open;
    if (!add_detail(k, &event, &args, err) ||
        !add_args(k, from, k->trace->event_count, err) ||
        !APPEND(k->trace, event, &event, &index, err))
        return false;
    if (from->phase == 'B')
        place->open = index;
    return true;
}

static void end_open(struct lw_kineto *k, struct place *place, uint64_t end_ns)
{
    struct lw_event *event = &k->trace->events[place->open];

    if (end_ns > event->start_ns)
        event->duration_ns = end_ns - event->start_ns;
    place->open = event->parent;
    event->parent = LW_NONE;
}

static bool add_end(struct lw_kineto *k, const struct lw_trace_event *from,
                    int64_t time_ns, struct lw_error *err)
{
    struct place *place;

    if (!find_place(k, from, &place, err))
        return false;
    if (place->open == LW_NONE)
        k->losses->unopened++;
    else
        end_open(k, place, (uint64_t)time_ns);
    return true;
}

static bool add_memory(struct lw_kineto *k, const struct lw_trace_event *from,
                       int64_t time_ns, struct lw_error *err)
{
    struct lw_trace *trace = k->trace;
    struct lw_kineto_args args;
    struct place *place;
    uint32_t index;

    if (!find_track(k, from, &place, err) ||
        !lw_kineto_args_read(&args, from, k->out, &k->text, err) ||
        (k->want & LW_WANT_ARGS && !string_of(k, &from->args, &args.memory.args, err)))
        return false;
    args.memory.time_ns = (uint64_t)time_ns;
    args.memory.track = place->track;
    return append(&trace->memory, &trace->memory_count, &trace->memory_capacity,
                  &args.memory, sizeof(args.memory), &index, err);
}

static bool add_instant(struct lw_kineto *k, const struct lw_trace_event *from,
                        int64_t time_ns, struct lw_error *err)
{
    struct lw_trace_mark mark = { .time_ns = (uint64_t)time_ns };
    struct category category;
    struct place *place;
    uint32_t index;

    if (lw_value_is(&from->name, "[memory]"))
        return add_memory(k, from, time_ns, err);
    if (!find_track(k, from, &place, err) ||
        !find_category(k, &from->category, &category, err) ||
        !string_of(k, &from->name, &mark.name, err) ||
        (k->want & LW_WANT_ARGS && !string_of(k, &from->args, &mark.args, err)))
        return false;
    mark.category = category.id;
    mark.track = place->track;
    if (from->scope.form == LW_VALUE_TEXT && from->scope.len == 1)
        mark.scope = *from->scope.text;
    return APPEND(k->trace, mark, &mark, &index, err);
}

/* What launches what is known by correlation; only forward and backward are joined by
 * flows alone. */
static bool add_flow(struct lw_kineto *k, const struct lw_trace_event *from,
                     struct lw_error *err)
{
    struct lw_flow_end end = { .is_backward = from->phase == 'f' };
    struct place *place;
    int64_t time_ns;
    uint32_t index;

    if (!lw_value_is(&from->category, "fwdbwd") &&
        !lw_value_is(&from->category, "forward_backward"))
        return true;
    if (!lw_trace_event_time(from, k->losses, &time_ns))
        return true;
    if (!lw_value_u64(&from->id, &end.id))
        end.id = lw_hash_bytes(from->id.text, from->id.len);
    if (!find_track(k, from, &place, err))
        return false;
    end.time_ns = (uint64_t)time_ns;
    end.track = place->track;
    return APPEND(k->trace, flow_end, &end, &index, err);
}

/* One point for each number; the name is the event's, or that and the argument's. */
static bool add_counter(struct lw_kineto *k, const struct lw_trace_event *from,
                        int64_t time_ns, struct lw_error *err)
{
    struct lw_trace_point point = { .time_ns = (uint64_t)time_ns, .rank = k->rank };
    uint32_t index;

    for (size_t i = 0; i < from->member_count; i++) {
        const struct lw_member *member = &from->members[i];

        if (!lw_value_double(&member->value, &point.value))
            continue;
        lw_buf_reset(&k->text);
        lw_json_unescape_text(from->name.text, from->name.len, &k->text);
        if (!lw_member_is(member, "value")) {
            lw_buf_add_char(&k->text, ' ');
            lw_json_unescape_text(member->key, member->key_len, &k->text);
        }
        if (!lw_buf_check(&k->text, err) ||
            !lw_builder_string(k->out, k->text.bytes ? k->text.bytes : "", k->text.len,
                               &point.name, err) ||
            !APPEND(k->trace, point, &point, &index, err))
            return false;
    }
    return true;
}

/* Names */

static bool is_process(const void *owner, uint32_t number, const void *key)
{
    const struct lw_kineto *k = owner;

    return k->processes[number - 1].pid == *(const lw_string_id *)key;
}

static uint32_t find_process(const struct lw_kineto *k, lw_string_id pid)
{
    return lw_map_find(&k->process_map, lw_hash_u64(pid), is_process, k, &pid);
}

/* The process of FROM, whose pointer is good until another is met. */
static bool get_process(struct lw_kineto *k, const struct lw_trace_event *from,
                        struct process **process, struct lw_error *err)
{
    struct process added = { 0 };
    uint32_t number;

    if (!string_of(k, &from->pid, &added.pid, err))
        return false;
    number = find_process(k, added.pid);
    if (!number) {
        if (!lw_grow(&k->processes, &k->process_capacity, k->process_count + 1,
                     sizeof(added), err) ||
            !lw_map_add(&k->process_map, lw_hash_u64(added.pid),
                        (uint32_t)k->process_count + 1, err))
            return false;
        k->processes[k->process_count++] = added;
        number = (uint32_t)k->process_count;
    }
    *process = &k->processes[number - 1];
    return true;
}

static bool add_of_process(struct lw_kineto *k, const struct lw_trace_event *from,
                           const struct lw_member *member, struct lw_error *err)
{
    struct process *process;

    if (!get_process(k, from, &process, err))
        return false;
    if (lw_member_is(member, "name"))
        return string_of(k, &member->value, &process->name, err);
    if (lw_member_is(member, "labels"))
        return string_of(k, &member->value, &process->labels, err);
    if (lw_member_is(member, "sort_index"))
        (void)lw_value_i64(&member->value, &process->sort_index);
    return true;
}

static bool add_of_thread(struct lw_kineto *k, const struct lw_trace_event *from,
                          const struct lw_member *member, struct lw_error *err)
{
    struct place *place;

    if (!find_place(k, from, &place, err))
        return false;
    if (lw_member_is(member, "name"))
        return string_of(k, &member->value, &place->name, err);
    if (lw_member_is(member, "sort_index"))
        (void)lw_value_i64(&member->value, &place->sort_index);
    return true;
}

static bool add_metadata(struct lw_kineto *k, const struct lw_trace_event *from,
                         struct lw_error *err)
{
    bool is_thread = starts(&from->name, "thread_");
    bool is_process = starts(&from->name, "process_");

    for (size_t i = 0; i < from->member_count; i++) {
        const struct lw_member *member = &from->members[i];

        if ((is_thread && !add_of_thread(k, from, member, err)) ||
            (is_process && !add_of_process(k, from, member, err)))
            return false;
    }
    return true;
}

bool lw_kineto_add_event(struct lw_kineto *k, const struct lw_trace_event *event,
                         struct lw_error *err)
{
    int64_t time_ns;

    switch (event->phase) {
    case 'M': return add_metadata(k, event, err);
    case 's':
    case 'f': return add_flow(k, event, err);
    case 't': return true;
    case 'X':
    case 'B':
    case 'E':
    case 'i':
    case 'I':
    case 'R':
    case 'C': break;
    default: k->losses->others++; return true;
    }
    if (!lw_trace_event_time(event, k->losses, &time_ns))
        return true;
    switch (event->phase) {
    case 'X':
    case 'B': return add_span(k, event, time_ns, err);
    case 'E': return add_end(k, event, time_ns, err);
    case 'C': return add_counter(k, event, time_ns, err);
    default: return add_instant(k, event, time_ns, err);
    }
}

bool lw_kineto_add_member(struct lw_kineto *k, const struct lw_member *member,
                          struct lw_error *err)
{
    return lw_kineto_head_add(&k->head, member, err);
}

/* The end */

static uint64_t last_ns(const struct lw_kineto *k)
{
    uint64_t last = 0;

    for (size_t i = 0; i < k->trace->event_count; i++) {
        uint64_t end = lw_event_end_ns(&k->trace->events[i]);

        if (k->trace->tracks[k->trace->events[i].track].rank == k->rank && end > last)
            last = end;
    }
    return last;
}

bool lw_kineto_finish(struct lw_kineto *k, uint64_t event_count, struct lw_error *err)
{
    uint64_t end_ns = 0;

    for (size_t i = 0; i < k->place_count; i++) {
        struct place *place = &k->places[i];
        struct lw_track *track;
        uint32_t number;

        for (; place->open != LW_NONE; k->losses->unclosed++) {
            end_ns = end_ns ? end_ns : last_ns(k);
            end_open(k, place, end_ns);
        }
        if (place->track == LW_NONE)
            continue;
        track = &k->trace->tracks[place->track];
        track->name = place->name;
        track->sort_index = place->sort_index;
        number = find_process(k, place->pid);
        if (number) {
            const struct process *process = &k->processes[number - 1];

            track->process_name = process->name;
            track->process_labels = process->labels;
            track->process_sort_index = process->sort_index;
        }
    }
    k->trace->ranks[k->rank].event_count = event_count;
    if (k->trace->event_count > k->first)
        k->trace->ranks[k->rank].first_ns = k->trace->events[k->first].start_ns;
    return lw_kineto_head_finish(&k->head, err);
}
