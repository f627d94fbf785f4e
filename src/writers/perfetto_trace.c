/* A torch profiler's trace for Perfetto, with all that it lost as JSON.
 *
 * Perfetto drops every event of a JSON file that overlaps another one of its thread, and
 * kernels of one stream do overlap. Here each track is laid out in lanes (writers/lanes.h)
 * and every further lane is a track of its own under the first, so that all events are
 * there. Arguments are debug annotations (numbers as numbers; lists and objects as their
 * JSON text), launches and backward ops are flows, [memory] are instants and, by device,
 * counters. Times are those of the trace: ns since its base. */

#include "writers/perfetto_trace.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/map.h"
#include "base/text.h"
#include "writers/args.h"
#include "writers/lanes.h"
#include "writers/perfetto_out.h"
#include "writers/trace_flows.h"
#include "writers/trace_processes.h"

enum known {
    KNOWN_NAME = 1, /* interned as the name of an event, as a category */
    KNOWN_CATEGORY = 2,
};

/* Who has a track of values. */
struct counter {
    uint32_t rank;
    lw_string_id name; /* in `counter_names` */
    uint64_t track;
};

struct writing {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_perfetto_out p;
    struct lw_trace_processes processes;
    struct lw_trace_flows flows;
    uint64_t *process_tracks; /* owned: by process */
    uint64_t *tracks;         /* owned: by track */
    uint8_t *known;           /* owned: by string, enum known */
    struct lw_buf interned, scratch, text;
    struct lw_strings *keys; /* owned: names of arguments that are interned */
    size_t key_count;        /* of them that have been written */

    struct lw_lanes lanes;
    uint32_t *lane_of, *order; /* owned: of the track at hand */
    size_t *lane_starts;       /* owned: in `order`, and behind the last one the end */
    size_t lane_capacity;

    struct lw_strings *counter_names; /* owned */
    struct counter *counters;         /* owned */
    size_t counter_count, counter_capacity;
    struct lw_map counter_map;
};

static void add_string(struct writing *w, struct lw_buf *out, uint32_t field,
                       lw_string_id id)
{
    lw_proto_add_text(out, field, lw_profile_text(w->profile, id),
                      lw_strings_len(w->profile->strings, id));
}

/* Tracks */

static void describe_process(struct writing *w, size_t index)
{
    const struct lw_trace_process *process = &w->processes.list[index];
    struct lw_perfetto_out *p = &w->p;

    w->process_tracks[index] = lw_perfetto_open_track(p);
    lw_proto_add_u64(&p->inner, PROCESS_PID, process->number);
    lw_buf_reset(&w->text);
    lw_trace_process_add_name(w->profile, process, &w->text);
    if (w->text.failure)
        p->out->failure = w->text.failure;
    lw_proto_add_text(&p->inner, PROCESS_NAME, w->text.bytes ? w->text.bytes : "",
                      w->text.len);
    if (process->labels)
        add_string(w, &p->inner, PROCESS_LABELS, process->labels);
    if (process->sort_index > 0 && process->sort_index <= INT32_MAX)
        lw_proto_add_u64(&p->inner, PROCESS_LEGACY_SORT_INDEX,
                         (uint64_t)process->sort_index);
    lw_proto_add_message(&p->message, TRACK_PROCESS, &p->inner);
    lw_perfetto_end_track(p);
}

/* A thread of the host is one for Perfetto, too; a stream is a track with a name. */
static void describe_track(struct writing *w, uint32_t index)
{
    const struct lw_track *track = &w->trace->tracks[index];
    const struct lw_trace_process *process =
        &w->processes.list[w->processes.of_track[index]];
    uint64_t parent = w->process_tracks[w->processes.of_track[index]];
    lw_string_id name = track->name ? track->name : track->tid;
    struct lw_perfetto_out *p = &w->p;

    if (track->is_device || track->number < 0) {
        w->tracks[index] =
            lw_perfetto_track(p, parent, lw_profile_text(w->profile, name),
                              lw_strings_len(w->profile->strings, name));
        return;
    }
    w->tracks[index] = lw_perfetto_open_track(p);
    lw_proto_add_u64(&p->message, TRACK_PARENT_UUID, parent);
    lw_proto_add_u64(&p->inner, THREAD_PID, process->number);
    lw_proto_add_u64(&p->inner, THREAD_TID, w->processes.threads[index]);
    add_string(w, &p->inner, THREAD_NAME, name);
    if (track->sort_index > 0 && track->sort_index <= INT32_MAX)
        lw_proto_add_u64(&p->inner, THREAD_LEGACY_SORT_INDEX,
                         (uint64_t)track->sort_index);
    lw_proto_add_message(&p->message, TRACK_THREAD, &p->inner);
    lw_perfetto_end_track(p);
}

/* Names, each written with the first event that has it */

static void intern(struct writing *w, uint32_t field, uint64_t iid, const char *text,
                   size_t len)
{
    lw_proto_add_u64(&w->p.inner, NAME_IID, iid);
    lw_proto_add_text(&w->p.inner, NAME_NAME, text, len);
    lw_proto_add_message(&w->interned, field, &w->p.inner);
}

static uint64_t intern_string(struct writing *w, lw_string_id id, enum known as)
{
    if (!(w->known[id] & as)) {
        w->known[id] |= (uint8_t)as;
        intern(w, as == KNOWN_NAME ? INTERNED_EVENT_NAMES : INTERNED_EVENT_CATEGORIES,
               (uint64_t)id + 1, lw_profile_text(w->profile, id),
               lw_strings_len(w->profile->strings, id));
    }
    return (uint64_t)id + 1;
}

/* Decoded, if it is escaped: good until the next. */
static const char *decoded(struct writing *w, const struct lw_json_in *json,
                           size_t *len)
{
    *len = json->len;
    if (!json->escaped)
        return json->text;
    lw_buf_reset(&w->text);
    lw_json_unescape(json, &w->text);
    if (w->text.failure)
        w->p.out->failure = w->text.failure;
    *len = w->text.len;
    return w->text.bytes ? w->text.bytes : "";
}

static bool intern_key(struct writing *w, const struct lw_json_in *json, uint64_t *iid,
                       struct lw_error *err)
{
    size_t len;
    const char *text = decoded(w, json, &len);
    lw_string_id id;

    if (!lw_strings_intern(w->keys, text, len, &id, err))
        return false;
    *iid = (uint64_t)id + 1;
    if (id >= w->key_count) {
        intern(w, INTERNED_DEBUG_ANNOTATION_NAMES, *iid, text, len);
        w->key_count = id + 1;
    }
    return true;
}

/* Arguments */

static void add_number(struct lw_buf *out, const struct lw_json_in *json)
{
    uint64_t natural;
    int64_t integer;
    double number;

    if (lw_text_u64(json->text, json->len, &natural))
        lw_proto_add_u64(out, ANNOTATION_UINT, natural);
    else if (lw_text_i64(json->text, json->len, &integer))
        lw_proto_add_u64(out, ANNOTATION_INT, (uint64_t)integer);
    else if (lw_text_double(json->text, json->len, &number))
        lw_proto_add_double(out, ANNOTATION_DOUBLE, number);
    else
        lw_proto_add_text(out, ANNOTATION_STRING, json->text, json->len);
}

static bool add_annotation(struct writing *w, struct lw_json_in *json,
                           struct lw_error *err)
{
    struct lw_buf *out = &w->p.inner;
    enum lw_json_token token;
    const char *start, *text;
    uint64_t iid;
    size_t len;

    if (!intern_key(w, json, &iid, err))
        return false;
    lw_proto_add_u64(out, ANNOTATION_NAME_IID, iid);
    token = lw_json_next(json);
    start = json->next - 1; /* of a bracket */
    switch (token) {
    case LW_JSON_NUMBER: add_number(out, json); break;
    case LW_JSON_TRUE:
    case LW_JSON_FALSE:
        lw_proto_add_u64(out, ANNOTATION_BOOL, token == LW_JSON_TRUE);
        break;
    case LW_JSON_STRING:
        text = decoded(w, json, &len);
        lw_proto_add_text(out, ANNOTATION_STRING, text, len);
        break;
    case LW_JSON_OBJECT:
    case LW_JSON_ARRAY:
        (void)lw_json_skip_rest(json, token); /* it was whole when it was looked at */
        lw_proto_add_text(out, ANNOTATION_STRING, start, (size_t)(json->next - start));
        break;
    default: lw_proto_add_text(out, ANNOTATION_STRING, "null", 4); break;
    }
    lw_proto_add_message(&w->p.message, EVENT_DEBUG_ANNOTATIONS, out);
    return true;
}

static bool add_args(struct writing *w, lw_string_id args, struct lw_error *err)
{
    struct lw_json_in json;
    const char *text;
    size_t len;

    if (!args)
        return true;
    text = lw_args_json(lw_profile_text(w->profile, args),
                        lw_strings_len(w->profile->strings, args), &w->scratch, &len);
    if (!lw_buf_check(&w->scratch, err))
        return false;
    lw_json_in_init(&json, text, len);
    (void)lw_json_next(&json);
    while (lw_json_next(&json) == LW_JSON_KEY)
        if (!add_annotation(w, &json, err))
            return false;
    return true;
}

/* Events */

static void open_event(struct writing *w, enum lw_perfetto_event_type type,
                       uint64_t track, lw_string_id name, lw_string_id category)
{
    lw_proto_add_u64(&w->p.message, EVENT_TYPE, type);
    lw_proto_add_u64(&w->p.message, EVENT_TRACK_UUID, track);
    lw_proto_add_u64(&w->p.message, EVENT_NAME_IID, intern_string(w, name, KNOWN_NAME));
    if (category)
        lw_proto_add_u64(&w->p.message, EVENT_CATEGORY_IIDS,
                         intern_string(w, category, KNOWN_CATEGORY));
}

static void end_event(struct writing *w, uint64_t time_ns)
{
    if (w->interned.len || w->interned.failure)
        lw_proto_add_message(&w->p.packet, PACKET_INTERNED_DATA, &w->interned);
    lw_perfetto_end_event(&w->p, time_ns);
}

static bool write_begin(struct writing *w, uint64_t track, uint32_t index,
                        struct lw_error *err)
{
    const struct lw_event *event = &w->trace->events[index];
    const struct lw_trace_flow_end *ends;
    size_t count;

    open_event(w, SLICE_BEGIN, track, event->name, event->category);
    ends = lw_trace_flows_of(&w->flows, index, &count);
    for (size_t i = 0; i < count; i++)
        lw_proto_add_fixed(&w->p.message, EVENT_FLOW_IDS, ends[i].id);
    if (!add_args(w, w->trace->args ? w->trace->args[index] : 0, err))
        return false;
    end_event(w, event->start_ns);
    return true;
}

static void event_bounds(const void *owner, uint32_t index, uint64_t *start_ns,
                         uint64_t *end_ns)
{
    const struct lw_trace *trace = owner;

    *start_ns = trace->events[index].start_ns;
    *end_ns = lw_event_end_ns(&trace->events[index]);
}

static bool write_lane(struct writing *w, uint64_t number, const uint32_t *order,
                       size_t count, struct lw_error *err)
{
    struct lw_lane_walk walk = {
        .owner = w->trace, .order = order, .count = count, .bounds = event_bounds
    };
    struct lw_lane_event event;
    bool done = true;

    while (done && lw_lane_walk_next(&walk, &event)) {
        if (event.is_open)
            done = write_begin(w, number, event.index, err);
        else
            lw_perfetto_slice_end(&w->p, number, event.time_ns);
    }
    return lw_lane_walk_end(&walk, err) && done;
}

/* Put the events of TRACK into lanes: `order` and `lane_starts`. */
static bool fill_lanes(struct writing *w, const struct lw_track *track,
                       struct lw_error *err)
{
    lw_lanes_reset(&w->lanes);
    for (uint32_t i = 0; i < track->count; i++) {
        const struct lw_event *event = &w->trace->events[track->first + i];

        if (!lw_lanes_place(&w->lanes, event->start_ns, lw_event_end_ns(event),
                            &w->lane_of[i], err))
            return false;
    }
    if (!lw_grow(&w->lane_starts, &w->lane_capacity, w->lanes.count + 2,
                 sizeof(*w->lane_starts), err))
        return false;
    memset(w->lane_starts, 0, (w->lanes.count + 2) * sizeof(*w->lane_starts));
    for (uint32_t i = 0; i < track->count; i++)
        w->lane_starts[w->lane_of[i] + 2]++;
    for (size_t i = 2; i < w->lanes.count + 2; i++)
        w->lane_starts[i] += w->lane_starts[i - 1];
    for (uint32_t i = 0; i < track->count; i++)
        w->order[w->lane_starts[w->lane_of[i] + 1]++] = track->first + i;
    return true;
}

static bool write_track(struct writing *w, uint32_t index, struct lw_error *err)
{
    static const char overlapping[] = "overlapping";

    if (!fill_lanes(w, &w->trace->tracks[index], err))
        return false;
    for (size_t lane = 0; lane < w->lanes.count; lane++) {
        uint64_t number = w->tracks[index];

        if (lane > 0)
            number =
                lw_perfetto_track(&w->p, number, overlapping, sizeof(overlapping) - 1);
        if (!write_lane(w, number, w->order + w->lane_starts[lane],
                        w->lane_starts[lane + 1] - w->lane_starts[lane], err))
            return false;
    }
    return true;
}

static bool write_tracks(struct writing *w, struct lw_error *err)
{
    uint32_t most = 0;

    for (size_t i = 0; i < w->trace->track_count; i++)
        if (w->trace->tracks[i].count > most)
            most = w->trace->tracks[i].count;
    w->lane_of = lw_zalloc(most, sizeof(uint32_t), err);
    w->order = lw_zalloc(most, sizeof(uint32_t), err);
    if (!w->lane_of || !w->order)
        return false;
    for (uint32_t i = 0; i < w->trace->track_count; i++)
        if (!write_track(w, i, err))
            return false;
    return true;
}

static bool write_marks(struct writing *w, struct lw_error *err)
{
    for (size_t i = 0; i < w->trace->mark_count; i++) {
        const struct lw_trace_mark *mark = &w->trace->marks[i];

        open_event(w, INSTANT, w->tracks[mark->track], mark->name, mark->category);
        if (!add_args(w, mark->args, err))
            return false;
        end_event(w, mark->time_ns);
    }
    return true;
}

/* Values over time */

static bool is_counter(const void *owner, uint32_t number, const void *key)
{
    const struct counter *a = &((const struct writing *)owner)->counters[number - 1];
    const struct counter *b = key;

    return a->rank == b->rank && a->name == b->name;
}

static bool write_value(struct writing *w, uint32_t rank, const char *name, size_t len,
                        uint64_t time_ns, double value, struct lw_error *err)
{
    struct counter counter = { .rank = rank };
    uint32_t process = w->processes.of_rank[rank];
    uint64_t hash;
    uint32_t found;

    if (!lw_strings_intern(w->counter_names, name, len, &counter.name, err))
        return false;
    hash = lw_hash_u64((uint64_t)rank << 32 | counter.name);
    found = lw_map_find(&w->counter_map, hash, is_counter, w, &counter);
    if (!found) {
        if (!lw_grow(&w->counters, &w->counter_capacity, w->counter_count + 1,
                     sizeof(counter), err) ||
            !lw_map_add(&w->counter_map, hash, (uint32_t)w->counter_count + 1, err))
            return false;
        counter.track = lw_perfetto_counter(
            &w->p, process == LW_NONE ? 0 : w->process_tracks[process], name, len);
        w->counters[w->counter_count++] = counter;
        found = (uint32_t)w->counter_count;
    }
    lw_perfetto_value(&w->p, w->counters[found - 1].track, time_ns, value);
    return true;
}

static bool write_points(struct writing *w, struct lw_error *err)
{
    for (size_t i = 0; i < w->trace->point_count; i++) {
        const struct lw_trace_point *point = &w->trace->points[i];

        if (!write_value(w, point->rank, lw_profile_text(w->profile, point->name),
                         lw_strings_len(w->profile->strings, point->name),
                         point->time_ns, point->value, err))
            return false;
    }
    return true;
}

static bool write_total(struct writing *w, const struct lw_memory_event *memory,
                        const char *what, int64_t bytes, struct lw_error *err)
{
    if (bytes < 0)
        return true;
    lw_buf_reset(&w->text);
    if (memory->device < 0 || memory->device_type == 0)
        lw_buf_addf(&w->text, "CPU memory %s [bytes]", what);
    else
        lw_buf_addf(&w->text, "GPU %" PRId32 " memory %s [bytes]", memory->device,
                    what);
    return lw_buf_check(&w->text, err) &&
           write_value(w, w->trace->tracks[memory->track].rank, w->text.bytes,
                       w->text.len, memory->time_ns, (double)bytes, err);
}

static bool write_memory(struct writing *w, struct lw_error *err)
{
    for (size_t i = 0; i < w->trace->memory_count; i++) {
        const struct lw_memory_event *memory = &w->trace->memory[i];

        lw_proto_add_u64(&w->p.message, EVENT_TYPE, INSTANT);
        lw_proto_add_u64(&w->p.message, EVENT_TRACK_UUID, w->tracks[memory->track]);
        lw_proto_add_text(&w->p.message, EVENT_NAME, "[memory]", 8);
        if (!add_args(w, memory->args, err))
            return false;
        end_event(w, memory->time_ns);
        if (!write_total(w, memory, "allocated", memory->allocated, err) ||
            !write_total(w, memory, "reserved", memory->reserved, err))
            return false;
    }
    return true;
}

/* The whole */

/* The head of a sequence, and when time 0 was. */
static void write_head(struct writing *w)
{
    static const char base[] = "baseTimeNanoseconds";
    struct lw_perfetto_out *p = &w->p;

    lw_proto_add_u64(&p->packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
    if (w->trace->base_ns) {
        lw_proto_add_text(&p->inner, METADATA_NAME, base, sizeof(base) - 1);
        lw_proto_add_u64(&p->inner, METADATA_INT_VALUE, w->trace->base_ns);
        lw_proto_add_message(&p->message, CHROME_EVENTS_METADATA, &p->inner);
        lw_proto_add_message(&p->packet, PACKET_CHROME_EVENTS, &p->message);
    }
    lw_perfetto_end_packet(p);
    lw_perfetto_remark(p, w->profile);
}

static bool write_all(struct writing *w, struct lw_error *err)
{
    const struct lw_trace *trace = w->trace;

    w->process_tracks = lw_zalloc(w->processes.count, sizeof(uint64_t), err);
    w->tracks = lw_zalloc(trace->track_count, sizeof(uint64_t), err);
    w->known = lw_zalloc(lw_strings_count(w->profile->strings), 1, err);
    w->keys = lw_strings_new(err);
    w->counter_names = lw_strings_new(err);
    if (!w->process_tracks || !w->tracks || !w->known || !w->keys || !w->counter_names)
        return false;
    write_head(w);
    for (size_t i = 0; i < w->processes.count; i++)
        describe_process(w, i);
    for (uint32_t i = 0; i < trace->track_count; i++)
        describe_track(w, i);
    return write_tracks(w, err) && write_marks(w, err) && write_memory(w, err) &&
           write_points(w, err);
}

bool lw_perfetto_write_trace(const struct lw_profile *profile, struct lw_buf *out,
                             struct lw_error *err)
{
    struct writing w = { .profile = profile,
                         .trace = profile->trace,
                         .p = { .out = out, .next_track = 1 } };
    bool done = lw_trace_processes_init(&w.processes, profile, err) &&
                lw_trace_flows_init(&w.flows, profile->trace, err) &&
                write_all(&w, err);

    lw_trace_processes_release(&w.processes);
    lw_trace_flows_release(&w.flows);
    lw_perfetto_release(&w.p);
    lw_buf_release(&w.interned);
    lw_buf_release(&w.scratch);
    lw_buf_release(&w.text);
    lw_strings_free(w.keys);
    lw_strings_free(w.counter_names);
    lw_map_release(&w.counter_map);
    lw_lanes_release(&w.lanes);
    lw_free(w.process_tracks);
    lw_free(w.tracks);
    lw_free(w.known);
    lw_free(w.lane_of);
    lw_free(w.order);
    lw_free(w.lane_starts);
    lw_free(w.counters);
    return done;
}
