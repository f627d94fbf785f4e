/* torch's profiler writes its events kind by kind: ops and ranges, calls into the runtime,
 * what ran on devices, then names of processes and threads, and says a good deal in their
 * arguments (kineto_args.c) and beside the list of events (kineto_head.c).
 *
 * There are two vocabularies of categories, up to torch 1.12 ("Operator", "Kernel") and
 * since ("cpu_op", "kernel"). In the older one a ProfilerStep#N is an Operator; here it is
 * a range, as it is in the newer. A thread may be 5555 in one event and "5555" in another,
 * and a stream 7 or "stream 7" (kineto_places.c).
 *
 * Instants are marks, beside the events: the time of "Record Window End" is the
 * profiler's, often absurd, and must not stretch anything. */

#include "readers/kineto.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/map.h"
#include "lap/reader.h" /* enum lw_want */
#include "readers/kineto_args.h"
#include "readers/kineto_head.h"
#include "readers/kineto_places.h"

#define CATEGORIES 32                     /* known at a glance; Kineto has 20 */
#define ROOM_BYTES_MIN ((size_t)1 << 20)  /* of a shorter file, arrays are small */
#define ROOM_BYTES_MAX ((size_t)64 << 20) /* for which 40 MB of addresses are taken */

struct category {
    struct lw_kineto_text text;
    lw_string_id id;
    uint8_t kind;
};

struct lw_kineto {
    struct lw_builder *out; /* borrowed, as the next */
    struct lw_trace *trace;
    unsigned want;
    uint32_t rank; /* index */
    size_t first;  /* event of the file: index */
    struct lw_buf text;
    struct lw_kineto_head head;
    struct lw_kineto_places places;
    struct category categories[CATEGORIES];
    size_t category_count;
    size_t last_category;           /* index of the one that was met last */
    struct lw_trace_losses *losses; /* borrowed */
};

/* Room for what BYTES of a file mostly hold: what is not used of it takes no memory, and
 * what is used of it lies in large pages (base/alloc.c). False: there is less, which is no
 * harm; it grows when it is needed. */
static bool make_room(struct lw_trace *trace, uint64_t bytes)
{
    size_t most = bytes < ROOM_BYTES_MAX ? (size_t)bytes : ROOM_BYTES_MAX;

    return bytes >= ROOM_BYTES_MIN && trace->event_count == 0 &&
           lw_grow(&trace->events, &trace->event_capacity, most / 256,
                   sizeof(*trace->events), NULL) &&
           lw_grow(&trace->ops, &trace->op_capacity, most / 512, sizeof(*trace->ops),
                   NULL) &&
           lw_grow(&trace->works, &trace->work_capacity, most / 1024,
                   sizeof(*trace->works), NULL) &&
           lw_grow(&trace->memory, &trace->memory_capacity, most / 1024,
                   sizeof(*trace->memory), NULL);
}

struct lw_kineto *lw_kineto_new(struct lw_builder *out, const char *name, unsigned want,
                                uint64_t bytes, struct lw_trace_losses *losses,
                                struct lw_error *err)
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
    (void)make_room(trace, bytes);
    k->out = out;
    k->trace = trace;
    k->want = want;
    k->losses = losses;
    k->rank = (uint32_t)trace->rank_count++;
    k->first = trace->event_count;
    lw_buf_init(&k->text, 0);
    lw_kineto_head_init(&k->head, out, k->rank);
    lw_kineto_places_init(&k->places, out, k->rank);
    return k;
}

void lw_kineto_free(struct lw_kineto *k)
{
    if (!k)
        return;
    lw_buf_release(&k->text);
    lw_kineto_head_release(&k->head);
    lw_kineto_places_release(&k->places);
    lw_free(k);
}

static bool string_of(struct lw_kineto *k, const struct lw_value *value,
                      lw_string_id *id, struct lw_error *err)
{
    return lw_kineto_string(k->out, value, &k->text, id, err);
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
    for (size_t n = 0, i = k->last_category; n < k->category_count; n++, i++) {
        i = i < k->category_count ? i : 0;
        if (lw_kineto_is_text(&k->categories[i].text, value)) {
            k->last_category = i;
            *category = k->categories[i];
            return true;
        }
    }
    category->kind = (uint8_t)kind_of_category(value);
    if (!string_of(k, value, &category->id, err))
        return false;
    category->text = lw_kineto_text(k->out, category->id);
    if (k->category_count < CATEGORIES)
        k->categories[k->category_count++] = *category;
    return true;
}

/* Adding */

static bool too_many(const char *what, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 %s", what);
}

/* Append ITEM to an array of the trace, whose number goes to *INDEX. Where it is called, SIZE
 * is known, so that to copy it takes a few moves. */
static inline __attribute__((always_inline)) bool append(void *items, size_t *count,
                                                         size_t *capacity,
                                                         const void *item, size_t size,
                                                         uint32_t *index,
                                                         struct lw_error *err)
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
    struct lw_kineto_place *place;
    uint32_t index = LW_NONE;

    if (from->phase == 'X')
        event.duration_ns = lw_trace_event_duration(from, k->losses);
    if (!lw_kineto_track(&k->places, from, &place, err) ||
        !find_category(k, &from->category, &category, err) ||
        !string_of(k, &from->name, &event.name, err) ||
        !lw_kineto_args_read(&args, from, k->out, &k->text, err))
        return false;
    event.track = place->track;
    event.category = category.id;
    event.kind = category.kind;
    if (event.kind == LW_EVENT_OP && lw_value_starts(&from->name, "ProfilerStep#"))
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

static void end_open(struct lw_kineto *k, struct lw_kineto_place *place,
                     uint64_t end_ns)
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
    struct lw_kineto_place *place;

    if (!lw_kineto_place(&k->places, from, &place, err))
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
    struct lw_kineto_place *place;
    uint32_t index;

    if (!lw_kineto_track(&k->places, from, &place, err) ||
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
    struct lw_kineto_place *place;
    uint32_t index;

    if (lw_value_is(&from->name, "[memory]"))
        return add_memory(k, from, time_ns, err);
    if (!lw_kineto_track(&k->places, from, &place, err) ||
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
    struct lw_kineto_place *place;
    int64_t time_ns;
    uint32_t index;

    if (!lw_value_is(&from->category, "fwdbwd") &&
        !lw_value_is(&from->category, "forward_backward"))
        return true;
    if (!lw_trace_event_time(from, k->losses, &time_ns))
        return true;
    if (!lw_value_u64(&from->id, &end.id))
        end.id = lw_hash_bytes(from->id.text, from->id.len);
    if (!lw_kineto_track(&k->places, from, &place, err))
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

bool lw_kineto_add_event(struct lw_kineto *k, const struct lw_trace_event *event,
                         struct lw_error *err)
{
    int64_t time_ns;

    switch (event->phase) {
    case 'M': return lw_kineto_places_name(&k->places, event, err);
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

    for (size_t i = 0; i < k->places.count; i++)
        for (; k->places.list[i].open != LW_NONE; k->losses->unclosed++) {
            end_ns = end_ns ? end_ns : last_ns(k);
            end_open(k, &k->places.list[i], end_ns);
        }
    lw_kineto_places_finish(&k->places);
    k->trace->ranks[k->rank].event_count = event_count;
    if (k->trace->event_count > k->first)
        k->trace->ranks[k->rank].first_ns = k->trace->events[k->first].start_ns;
    return lw_kineto_head_finish(&k->head, err);
}
