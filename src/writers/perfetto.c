/* What ui.perfetto.dev and trace_processor open: a protocol buffer, Trace, that is a
 * list of packets. Tracks are described first, then come the events on them
 * (writers/perfetto_out.h).
 *
 * Any number of tracks may lie under a thread, so spans that overlap are all kept, each
 * on the first further track where it nests (writers/timeline.h). A thread without a
 * timeline of its calls is drawn from its sums (writers/laid_out.h), on a track that
 * says so. Times are the recording's own nanoseconds. A torch profiler's trace has a file
 * of its own (perfetto_trace.c). */

#include <string.h>

#include "base/alloc.h"
#include "writers/laid_out.h"
#include "writers/op_flows.h"
#include "writers/perfetto_out.h"
#include "writers/perfetto_trace.h"
#include "writers/timeline.h"
#include "writers/trace_processes.h"
#include "writers/writer.h"

struct writing {
    const struct lw_profile *profile;
    struct lw_timeline timeline;
    struct lw_op_flows flows;
    struct lw_perfetto_out p;
    uint64_t *process_tracks, *thread_tracks; /* owned: by index */
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
    const struct lw_process *process = &w->profile->processes[index];

    w->process_tracks[index] = lw_perfetto_open_track(&w->p);
    lw_proto_add_u64(&w->p.inner, PROCESS_PID, process->pid);
    if (process->command)
        add_string(w, &w->p.inner, PROCESS_NAME, process->command);
    lw_proto_add_message(&w->p.message, TRACK_PROCESS, &w->p.inner);
    lw_perfetto_end_track(&w->p);
}

static void describe_thread(struct writing *w, size_t index)
{
    const struct lw_thread *thread = &w->profile->threads[index];

    w->thread_tracks[index] = lw_perfetto_open_track(&w->p);
    lw_proto_add_u64(&w->p.message, TRACK_PARENT_UUID,
                     w->process_tracks[thread->process]);
    lw_proto_add_u64(&w->p.inner, THREAD_PID,
                     w->profile->processes[thread->process].pid);
    lw_proto_add_u64(&w->p.inner, THREAD_TID, thread->tid);
    if (thread->name)
        add_string(w, &w->p.inner, THREAD_NAME, thread->name);
    lw_proto_add_message(&w->p.message, TRACK_THREAD, &w->p.inner);
    lw_perfetto_end_track(&w->p);
}

/* A track under that of THREAD. */
static uint64_t describe_beside(struct writing *w, uint32_t thread, const char *name)
{
    return lw_perfetto_track(&w->p, w->thread_tracks[thread], name, strlen(name));
}

/* Names */

/* The `file` of a phase is a class, which is no place. */
static bool has_place(const struct lw_frame *frame)
{
    return frame->file && frame->kind != LW_FRAME_PHASE;
}

/* Names and places are known by the number of their frame, and 1. */
static void write_interned(struct writing *w)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(w->profile->stacks, &count);

    for (size_t i = 0; i < count; i++) {
        lw_proto_add_u64(&w->p.inner, NAME_IID, i + 1);
        add_string(w, &w->p.inner, NAME_NAME, frames[i].name);
        lw_proto_add_message(&w->p.message, INTERNED_EVENT_NAMES, &w->p.inner);
    }
    for (size_t i = 0; i < count; i++) {
        if (!has_place(&frames[i]))
            continue;
        lw_proto_add_u64(&w->p.inner, LOCATION_IID, i + 1);
        add_string(w, &w->p.inner, LOCATION_FILE_NAME, frames[i].file);
        add_string(w, &w->p.inner, LOCATION_FUNCTION_NAME, frames[i].name);
        lw_proto_add_u64(&w->p.inner, LOCATION_LINE_NUMBER, frames[i].first_line);
        lw_proto_add_message(&w->p.message, INTERNED_SOURCE_LOCATIONS, &w->p.inner);
    }
    lw_proto_add_message(&w->p.packet, PACKET_INTERNED_DATA, &w->p.message);
    lw_proto_add_u64(&w->p.packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
    lw_perfetto_end_packet(&w->p);
}

/* Events */

/* TYPE is SLICE_BEGIN or INSTANT. */
static void write_event(struct writing *w, uint64_t type, uint64_t track,
                        lw_frame_id frame, uint64_t time_ns)
{
    struct lw_perfetto_piece event;

    event.len = 0;
    lw_perfetto_put(&event, EVENT_TYPE, type);
    lw_perfetto_put(&event, EVENT_TRACK_UUID, track);
    lw_perfetto_put(&event, EVENT_NAME_IID, (uint64_t)frame + 1);
    if (has_place(lw_profile_frame(w->profile, frame)))
        lw_perfetto_put(&event, EVENT_SOURCE_LOCATION_IID, (uint64_t)frame + 1);
    lw_perfetto_add_piece(&w->p, &event, time_ns);
}

/* The line that asked for the op whose arrow END is of, as an argument. */
static void add_line(struct writing *w, const struct lw_op_flow_end *end)
{
    static const char name[] = "called from";
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_op_flows_add_line(&w->flows, w->profile, end, &text);
    if (text.failure) {
        w->p.out->failure = text.failure;
    } else if (text.len > 0) {
        lw_proto_add_text(&w->p.inner, ANNOTATION_NAME, name, sizeof(name) - 1);
        lw_proto_add_text(&w->p.inner, ANNOTATION_STRING, text.bytes, text.len);
        lw_proto_add_message(&w->p.message, EVENT_DEBUG_ANNOTATIONS, &w->p.inner);
    }
    lw_buf_release(&text);
}

/* The beginning of a span from or to which arrows go. */
static void write_linked(struct writing *w, uint64_t track, lw_frame_id frame,
                         uint64_t time_ns, const struct lw_op_flow_end *ends,
                         size_t count)
{
    lw_proto_add_u64(&w->p.message, EVENT_TYPE, SLICE_BEGIN);
    lw_proto_add_u64(&w->p.message, EVENT_TRACK_UUID, track);
    lw_proto_add_u64(&w->p.message, EVENT_NAME_IID, (uint64_t)frame + 1);
    for (size_t i = 0; i < count; i++)
        lw_proto_add_fixed(&w->p.message, EVENT_FLOW_IDS, ends[i].id);
    add_line(w, &ends[0]);
    lw_perfetto_end_event(&w->p, time_ns);
}

static void write_open(struct writing *w, uint64_t track, uint32_t index,
                       uint64_t time_ns)
{
    const struct lw_span *span = &w->profile->spans[index];
    lw_frame_id frame = lw_span_frame(w->profile, span);
    bool is_instant = lw_span_is_instant(w->profile, span);
    size_t count;
    const struct lw_op_flow_end *ends = lw_op_flows_of(&w->flows, index, &count);

    if (count && !is_instant)
        write_linked(w, track, frame, time_ns, ends, count);
    else
        write_event(w, is_instant ? INSTANT : SLICE_BEGIN, track, frame, time_ns);
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
            write_open(w, number, event.index, event.time_ns);
        else if (!lw_span_is_instant(w->profile, &w->profile->spans[event.index]))
            lw_perfetto_slice_end(&w->p, number, event.time_ns);
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
        write_event(w, SLICE_BEGIN, track, nodes[at].frame,
                    base_ns + laid->starts_ns[at]);
        if (links->first_child[at]) {
            at = links->first_child[at];
            continue;
        }
        for (bool up = false;; up = true) {
            if (up)
                at = nodes[at].parent;
            if (!at)
                break;
            lw_perfetto_slice_end(&w->p, track,
                                  base_ns + laid->starts_ns[at] + nodes[at].total_ns);
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
    *track = lw_perfetto_counter(&w->p, w->process_tracks[point->process],
                                 lw_profile_text(w->profile, point->name),
                                 lw_strings_len(w->profile->strings, point->name));
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
        if (done)
            lw_perfetto_value(&w->p, track, point->time_ns, point->value);
    }
    lw_free(counters.list);
    return done;
}

/* The whole */

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
    lw_perfetto_remark(&w->p, profile);
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
    struct writing w = { .profile = profile, .p = { .out = out, .next_track = 1 } };
    bool done;

    if (lw_trace_is_there(profile))
        return lw_trace_is_alone(profile, err) &&
               lw_perfetto_write_trace(profile, out, err);
    if (!lw_trace_has_any(profile, err))
        return false;
    done = lw_timeline_init(&w.timeline, profile, err) &&
           lw_op_flows_init(&w.flows, profile, err) && write_trace(&w, err);
    lw_perfetto_release(&w.p);
    lw_free(w.process_tracks);
    lw_free(w.thread_tracks);
    lw_op_flows_release(&w.flows);
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
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS | LW_WANT_SPANS | LW_WANT_COUNTERS |
            LW_WANT_ORIGINS | LW_WANT_TRACE | LW_WANT_ARGS | LW_WANT_TRACE_ALONE,
    .write = write_perfetto,
};
