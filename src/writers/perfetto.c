/* What ui.perfetto.dev and trace_processor open: a protocol buffer, Trace, that is a
 * list of packets. Tracks are described first, then come the events on them.
 *
 *     TrackDescriptor   a number; a process, a thread, or a track beside its parent
 *     TrackEvent        opens or closes a slice on a track, or gives a counter's value
 *     InternedData      names and places, each once, before the first event
 *
 * Any number of tracks may lie under a thread, so spans that overlap are all kept, each
 * on the first further track where it nests (writers/timeline.h). A thread without a
 * timeline of its calls is drawn from its sums (writers/laid_out.h), on a track that
 * says so. Times are the recording's own nanoseconds; field numbers are those of
 * Perfetto's protos/perfetto/trace. */

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/losses.h"
#include "writers/laid_out.h"
#include "writers/proto.h"
#include "writers/timeline.h"
#include "writers/writer.h"

enum {
    TRACE_PACKET = 1,
    PACKET_CHROME_EVENTS = 5,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    CHROME_EVENTS_METADATA = 2,
    METADATA_NAME = 1,
    METADATA_STRING_VALUE = 2,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT_UUID = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    COUNTER_UNIT_NAME = 6,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
    EVENT_SOURCE_LOCATION_IID = 34,
    EVENT_DOUBLE_COUNTER_VALUE = 44,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_SOURCE_LOCATIONS = 4,
    NAME_IID = 1,
    NAME_NAME = 2,
    LOCATION_IID = 1,
    LOCATION_FILE_NAME = 2,
    LOCATION_FUNCTION_NAME = 3,
    LOCATION_LINE_NUMBER = 4,
};

enum event_type {
    SLICE_BEGIN = 1,
    SLICE_END = 2,
    COUNTER = 4,
};

enum sequence_flags {
    STATE_CLEARED = 1, /* what is interned starts anew */
    NEEDS_STATE = 2,
};

#define SEQUENCE 1 /* one writer, so all packets are of one sequence */

struct writing {
    const struct lw_profile *profile;
    struct lw_timeline timeline;
    struct lw_buf packet, message, inner; /* scratch, from the outside in */
    struct lw_buf *out;
    uint64_t next_track; /* number of the next track that is described */
    uint64_t *process_tracks, *thread_tracks; /* owned: by index */
};

static void end_packet(struct writing *w)
{
    lw_proto_add_u64(&w->packet, PACKET_SEQUENCE_ID, SEQUENCE);
    lw_proto_add_message(w->out, TRACE_PACKET, &w->packet);
}

static void add_string(struct writing *w, struct lw_buf *out, uint32_t field,
                       lw_string_id id)
{
    lw_proto_add_text(out, field, lw_profile_text(w->profile, id),
                      lw_strings_len(w->profile->strings, id));
}

/* Tracks */

static uint64_t open_descriptor(struct writing *w)
{
    lw_proto_add_u64(&w->message, TRACK_UUID, w->next_track);
    return w->next_track++;
}

static void end_descriptor(struct writing *w)
{
    lw_proto_add_message(&w->packet, PACKET_TRACK_DESCRIPTOR, &w->message);
    end_packet(w);
}

static void describe_process(struct writing *w, size_t index)
{
    const struct lw_process *process = &w->profile->processes[index];

    w->process_tracks[index] = open_descriptor(w);
    lw_proto_add_u64(&w->inner, PROCESS_PID, process->pid);
    if (process->command)
        add_string(w, &w->inner, PROCESS_NAME, process->command);
    lw_proto_add_message(&w->message, TRACK_PROCESS, &w->inner);
    end_descriptor(w);
}

static void describe_thread(struct writing *w, size_t index)
{
    const struct lw_thread *thread = &w->profile->threads[index];

    w->thread_tracks[index] = open_descriptor(w);
    lw_proto_add_u64(&w->message, TRACK_PARENT_UUID,
                     w->process_tracks[thread->process]);
    lw_proto_add_u64(&w->inner, THREAD_PID, w->profile->processes[thread->process].pid);
    lw_proto_add_u64(&w->inner, THREAD_TID, thread->tid);
    if (thread->name)
        add_string(w, &w->inner, THREAD_NAME, thread->name);
    lw_proto_add_message(&w->message, TRACK_THREAD, &w->inner);
    end_descriptor(w);
}

/* A track under that of THREAD. */
static uint64_t describe_beside(struct writing *w, uint32_t thread, const char *name)
{
    uint64_t track = open_descriptor(w);

    lw_proto_add_text(&w->message, TRACK_NAME, name, strlen(name));
    lw_proto_add_u64(&w->message, TRACK_PARENT_UUID, w->thread_tracks[thread]);
    end_descriptor(w);
    return track;
}

/* Names */

/* Names and places are known by the number of their frame, and 1. */
static void write_interned(struct writing *w)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(w->profile->stacks, &count);

    for (size_t i = 0; i < count; i++) {
        lw_proto_add_u64(&w->inner, NAME_IID, i + 1);
        add_string(w, &w->inner, NAME_NAME, frames[i].name);
        lw_proto_add_message(&w->message, INTERNED_EVENT_NAMES, &w->inner);
    }
    for (size_t i = 0; i < count; i++) {
        if (!frames[i].file)
            continue;
        lw_proto_add_u64(&w->inner, LOCATION_IID, i + 1);
        add_string(w, &w->inner, LOCATION_FILE_NAME, frames[i].file);
        add_string(w, &w->inner, LOCATION_FUNCTION_NAME, frames[i].name);
        lw_proto_add_u64(&w->inner, LOCATION_LINE_NUMBER, frames[i].first_line);
        lw_proto_add_message(&w->message, INTERNED_SOURCE_LOCATIONS, &w->inner);
    }
    lw_proto_add_message(&w->packet, PACKET_INTERNED_DATA, &w->message);
    lw_proto_add_u64(&w->packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
    end_packet(w);
}

/* Events */

static void end_event(struct writing *w, uint64_t time_ns)
{
    lw_proto_add_u64(&w->packet, PACKET_TIMESTAMP, time_ns);
    lw_proto_add_u64(&w->packet, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
    lw_proto_add_message(&w->packet, PACKET_TRACK_EVENT, &w->message);
    end_packet(w);
}

/* Of slices there are millions: one is put together here and added at once. */
struct piece {
    unsigned char bytes[8 * LW_PROTO_U64_BYTES]; /* no packet has more numbers */
    size_t len;
};

static void put_u64(struct piece *piece, uint32_t field, uint64_t value)
{
    piece->len +=
        lw_proto_put(piece->bytes + piece->len, field, LW_PROTO_VARINT, value);
}

static void write_slice(struct writing *w, const struct piece *event, uint64_t time_ns)
{
    struct piece packet;

    packet.len = 0;
    put_u64(&packet, PACKET_TIMESTAMP, time_ns);
    put_u64(&packet, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
    packet.len += lw_proto_put(packet.bytes + packet.len, PACKET_TRACK_EVENT,
                               LW_PROTO_BYTES, event->len);
    memcpy(packet.bytes + packet.len, event->bytes, event->len);
    packet.len += event->len;
    put_u64(&packet, PACKET_SEQUENCE_ID, SEQUENCE);
    lw_proto_add_bytes(w->out, TRACE_PACKET, packet.bytes, packet.len);
}

static void write_begin(struct writing *w, uint64_t track, lw_frame_id frame,
                        uint64_t time_ns)
{
    struct piece event;

    event.len = 0;
    put_u64(&event, EVENT_TYPE, SLICE_BEGIN);
    put_u64(&event, EVENT_TRACK_UUID, track);
    put_u64(&event, EVENT_NAME_IID, (uint64_t)frame + 1);
    if (lw_profile_frame(w->profile, frame)->file)
        put_u64(&event, EVENT_SOURCE_LOCATION_IID, (uint64_t)frame + 1);
    write_slice(w, &event, time_ns);
}

static void write_end(struct writing *w, uint64_t track, uint64_t time_ns)
{
    struct piece event;

    event.len = 0;
    put_u64(&event, EVENT_TYPE, SLICE_END);
    put_u64(&event, EVENT_TRACK_UUID, track);
    write_slice(w, &event, time_ns);
}

static bool write_track(struct writing *w, const struct lw_timeline_track *track,
                        struct lw_error *err)
{
    uint64_t number = w->thread_tracks[track->thread];
    struct lw_lane_walk walk = lw_timeline_walk(&w->timeline, track);
    struct lw_lane_event event;

    if (track->number)
        number = describe_beside(w, track->thread, "overlapping spans");
    while (lw_lane_walk_next(&walk, &event)) {
        if (event.is_open)
            write_begin(w, number,
                        lw_span_frame(w->profile, &w->profile->spans[event.index]),
                        event.time_ns);
        else
            write_end(w, number, event.time_ns);
    }
    return lw_lane_walk_end(&walk, err);
}

/* Sums */

/* A tree's nodes in the order of their places, by links: child, sibling, parent. */
struct links {
    uint32_t *first_child, *next_sibling; /* by node; 0: none */
};

static bool links_init(struct links *links, const struct lw_calltree *tree,
                       struct lw_error *err)
{
    links->first_child = lw_zalloc(tree->node_count, sizeof(uint32_t), err);
    links->next_sibling = lw_zalloc(tree->node_count, sizeof(uint32_t), err);
    if (!links->first_child || !links->next_sibling)
        return false;
    for (size_t i = tree->node_count; i-- > 1;) {
        uint32_t parent = tree->nodes[i].parent;

        links->next_sibling[i] = links->first_child[parent];
        links->first_child[parent] = (uint32_t)i;
    }
    return true;
}

static void links_release(struct links *links)
{
    lw_free(links->first_child);
    lw_free(links->next_sibling);
}

static void write_nodes(struct writing *w, uint64_t track, uint64_t base_ns,
                        const struct lw_laid_out *laid, const struct links *links)
{
    const struct lw_calltree_node *nodes = laid->tree.nodes;
    uint32_t at = links->first_child[0];

    while (at) {
        write_begin(w, track, nodes[at].frame, base_ns + laid->starts_ns[at]);
        if (links->first_child[at]) {
            at = links->first_child[at];
            continue;
        }
        for (bool up = false;; up = true) {
            if (up)
                at = nodes[at].parent;
            if (!at)
                break;
            write_end(w, track, base_ns + laid->starts_ns[at] + nodes[at].total_ns);
            if (links->next_sibling[at]) {
                at = links->next_sibling[at];
                break;
            }
        }
    }
}

static bool write_tree(struct writing *w, uint32_t thread, struct lw_error *err)
{
    struct links links = { 0 };
    struct lw_laid_out laid;
    bool done = lw_laid_out_init(&laid, w->profile, thread, err) &&
                links_init(&links, &laid.tree, err);

    if (done && laid.tree.node_count > 1)
        write_nodes(w, describe_beside(w, thread, LW_LAID_OUT_TITLE),
                    w->profile->threads[thread].start_ns, &laid, &links);
    links_release(&links);
    lw_laid_out_release(&laid);
    return done;
}

/* Counters */

struct counter {
    uint32_t process;
    lw_string_id name;
    uint64_t track;
};

struct counters {
    struct counter *list; /* owned; few, so they are looked through */
    size_t count, capacity;
};

/* What stands in brackets at the end of a counter's name. */
static void add_unit(struct lw_buf *out, const char *name)
{
    const char *open = strrchr(name, '[');

    if (open && lw_text_ends(open, "]"))
        lw_proto_add_text(out, COUNTER_UNIT_NAME, open + 1, strlen(open) - 2);
}

static uint64_t describe_counter(struct writing *w,
                                 const struct lw_counter_point *point)
{
    uint64_t track = open_descriptor(w);

    add_string(w, &w->message, TRACK_NAME, point->name);
    lw_proto_add_u64(&w->message, TRACK_PARENT_UUID, w->process_tracks[point->process]);
    add_unit(&w->inner, lw_profile_text(w->profile, point->name));
    lw_proto_add_message(&w->message, TRACK_COUNTER, &w->inner);
    end_descriptor(w);
    return track;
}

static bool find_counter(struct writing *w, struct counters *counters,
                         const struct lw_counter_point *point, uint64_t *track,
                         struct lw_error *err)
{
    for (size_t i = 0; i < counters->count; i++)
        if (counters->list[i].name == point->name &&
            counters->list[i].process == point->process) {
            *track = counters->list[i].track;
            return true;
        }
    if (!lw_grow(&counters->list, &counters->capacity, counters->count + 1,
                 sizeof(*counters->list), err))
        return false;
    *track = describe_counter(w, point);
    counters->list[counters->count++] =
        (struct counter){ point->process, point->name, *track };
    return true;
}

static bool write_counters(struct writing *w, struct lw_error *err)
{
    struct counters counters = { 0 };
    bool done = true;

    for (size_t i = 0; done && i < w->profile->counter_count; i++) {
        const struct lw_counter_point *point = &w->profile->counters[i];
        uint64_t track;

        done = find_counter(w, &counters, point, &track, err);
        if (done) {
            lw_proto_add_u64(&w->message, EVENT_TYPE, COUNTER);
            lw_proto_add_u64(&w->message, EVENT_TRACK_UUID, track);
            lw_proto_add_double(&w->message, EVENT_DOUBLE_COUNTER_VALUE, point->value);
            end_event(w, point->time_ns);
        }
    }
    lw_free(counters.list);
    return done;
}

/* The whole */

/* What is missing, where trace_processor has it in its table `metadata`. */
static void write_remark(struct writing *w)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_losses_add_line(w->profile, &text);
    if (text.failure) {
        w->out->failure = text.failure;
    } else if (text.len > 0) {
        lw_proto_add_text(&w->inner, METADATA_NAME, "note", 4);
        lw_proto_add_text(&w->inner, METADATA_STRING_VALUE, text.bytes, text.len);
        lw_proto_add_message(&w->message, CHROME_EVENTS_METADATA, &w->inner);
        lw_proto_add_message(&w->packet, PACKET_CHROME_EVENTS, &w->message);
        end_packet(w);
    }
    lw_buf_release(&text);
}

static bool write_trace(struct writing *w, struct lw_error *err)
{
    const struct lw_profile *profile = w->profile;
    bool has_sums = profile->call_count || profile->sample_count;

    w->process_tracks =
        lw_zalloc(profile->process_count, sizeof(*w->process_tracks), err);
    w->thread_tracks = lw_zalloc(profile->thread_count, sizeof(*w->thread_tracks), err);
    if (!w->process_tracks || !w->thread_tracks)
        return false;
    write_interned(w);
    write_remark(w);
    for (size_t i = 0; i < profile->process_count; i++)
        describe_process(w, i);
    for (size_t i = 0; i < profile->thread_count; i++)
        describe_thread(w, i);
    for (size_t i = 0; i < w->timeline.track_count; i++)
        if (!write_track(w, &w->timeline.tracks[i], err))
            return false;
    for (uint32_t i = 0; has_sums && i < profile->thread_count; i++)
        if (!w->timeline.has_calls[i] && !write_tree(w, i, err))
            return false;
    return write_counters(w, err);
}

static bool write_perfetto(const struct lw_profile *profile, struct lw_buf *out,
                           struct lw_error *err)
{
    struct writing w = { .profile = profile, .out = out, .next_track = 1 };
    bool done;

    if (!lw_trace_has_any(profile, err))
        return false;
    done = lw_timeline_init(&w.timeline, profile, err) && write_trace(&w, err);
    lw_buf_release(&w.packet);
    lw_buf_release(&w.message);
    lw_buf_release(&w.inner);
    lw_free(w.process_tracks);
    lw_free(w.thread_tracks);
    lw_timeline_release(&w.timeline);
    return done;
}

const struct lw_writer lw_writer_perfetto = {
    .name = "perfetto",
    .summary = "what ui.perfetto.dev and trace_processor open, with every span",
    .suffixes = ".pftrace .perfetto-trace",
    .is_binary = true,
    .lacks =
        "when and how often functions were called, unless there is a timeline, and "
        "the single samples of a sampler",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS | LW_WANT_SPANS | LW_WANT_COUNTERS,
    .write = write_perfetto,
};
