/* Trace event JSON: what chrome://tracing, Perfetto's viewer and torch's tools open.
 *
 *     {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"MainThread"}}
 *     {"ph":"X","pid":1,"tid":2,"ts":0.001,"dur":5.000,"name":"step",...}      a span
 *     {"ph":"C","pid":1,"ts":7.000,"name":"rss [bytes]","args":{"value":3}}    a counter
 *     {"ph":"s","pid":1,"tid":2,"ts":0.001,"id":1,"cat":"fwdbwd",...}          from an op
 *     {"ph":"f","pid":1,"tid":2,"ts":9.001,"id":1,"cat":"fwdbwd",...}    to its backward
 *
 * Times are microseconds with three decimals, from the earliest one on: viewers hold them
 * as doubles, and of a clock that runs since the machine was started the last digits
 * would be lost. Spans of a thread must nest, so those that overlap lie on tracks beside
 * it (writers/timeline.h). A thread without a timeline of its calls is drawn from its
 * sums, on a track of its own that says so (writers/laid_out.h). Such tracks have thread
 * numbers that no kernel gives. What was read from such a file is given back as it was
 * (chrome_trace.c). */

#include <inttypes.h>
#include <string.h>

#include "base/json_out.h"
#include "model/losses.h"
#include "writers/chrome_trace.h"
#include "writers/labels.h"
#include "writers/laid_out.h"
#include "writers/op_flows.h"
#include "writers/timeline.h"
#include "writers/trace_processes.h"
#include "writers/writer.h"

#define FIRST_OWN_TID 1000000000u /* Linux has at most 2^22 */

struct writing {
    const struct lw_profile *profile;
    struct lw_timeline timeline;
    struct lw_labels labels;
    struct lw_op_flows flows;
    struct lw_buf *out;
    uint64_t origin_ns;
    uint64_t next_tid; /* for the next track that is no thread */
    bool has_events;
};

static const char *category(const struct lw_frame *frame)
{
    switch (frame->kind) {
    case LW_FRAME_C: return "c";
    case LW_FRAME_NATIVE: return "native";
    case LW_FRAME_MARK: return "mark";
    case LW_FRAME_NOTE: return "note";
    case LW_FRAME_OP: return "op";
    case LW_FRAME_PHASE: return "phase";
    default: return "python";
    }
}

static void add_string(struct lw_json_out *json, const struct lw_profile *profile,
                       const char *key, lw_string_id id)
{
    lw_json_key(json, key);
    lw_json_text(json, lw_profile_text(profile, id),
                 lw_strings_len(profile->strings, id));
}

/* "name":"step","cat":"python","args":{"file":"train.py","line":10 -- what is behind
 * the last brackets is left to the event. */
static void label_frame(const struct lw_profile *profile, const struct lw_frame *frame,
                        struct lw_buf *out)
{
    struct lw_json_out json;

    lw_json_start(&json, out, false);
    add_string(&json, profile, "name", frame->name);
    lw_json_key_text(&json, "cat", category(frame));
    lw_json_key(&json, "args");
    lw_json_object(&json);
    if (frame->file)
        add_string(&json, profile, frame->kind == LW_FRAME_PHASE ? "class" : "file",
                   frame->file);
    if (frame->first_line)
        lw_json_key_u64(&json, "line", frame->first_line);
}

/* Before each event. */
static void part(struct writing *w)
{
    lw_buf_add_text(w->out, w->has_events ? ",\n" : "\n");
    w->has_events = true;
}

static void add_microseconds(struct lw_buf *out, uint64_t ns)
{
    char part[4] = { '.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                     (char)('0' + ns % 10) };

    lw_buf_add_decimal(out, ns / 1000);
    lw_buf_add(out, part, sizeof(part));
}

static void write_duration(struct writing *w, uint64_t duration_ns)
{
    lw_buf_add_text(w->out, "\"dur\":");
    add_microseconds(w->out, duration_ns);
    lw_buf_add_char(w->out, ',');
}

/* PHASE is Chrome's word for the kind of event: X lasts, i does not. */
static void open_event(struct writing *w, char phase, uint64_t pid, uint64_t tid,
                       uint64_t start_ns)
{
    part(w);
    lw_buf_add_text(w->out, "{\"ph\":\"");
    lw_buf_add_char(w->out, phase);
    lw_buf_add_text(w->out, "\",\"pid\":");
    lw_buf_add_decimal(w->out, pid);
    lw_buf_add_text(w->out, ",\"tid\":");
    lw_buf_add_decimal(w->out, tid);
    lw_buf_add_text(w->out, ",\"ts\":");
    add_microseconds(w->out, start_ns);
    lw_buf_add_char(w->out, ',');
}

/* "called from":"model.py:12(Net.forward)" of the op whose arrow END is of. */
static void add_line(struct writing *w, const struct lw_op_flow_end *end)
{
    struct lw_json_out json;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_op_flows_add_line(&w->flows, w->profile, end, &text);
    if (text.failure) {
        w->out->failure = text.failure;
    } else if (text.len > 0) {
        lw_json_start(&json, w->out, false);
        lw_json_key(&json, "called from");
        lw_json_text(&json, text.bytes, text.len);
    }
    lw_buf_release(&text);
}

static void write_flow_end(struct writing *w, uint64_t pid, uint64_t tid,
                           uint64_t time_ns, const struct lw_op_flow_end *end)
{
    open_event(w, end->is_start ? 's' : 'f', pid, tid, time_ns);
    lw_buf_addf(w->out, "\"id\":%" PRIu32 ",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\"%s}",
                end->id, end->is_start ? "" : ",\"bp\":\"e\"");
}

static void write_span(struct writing *w, uint64_t pid, uint64_t tid, uint32_t index)
{
    const struct lw_span *span = &w->profile->spans[index];
    bool is_instant = lw_span_is_instant(w->profile, span);
    uint64_t start_ns = span->start_ns - w->origin_ns;
    size_t end_count;
    const struct lw_op_flow_end *ends = lw_op_flows_of(&w->flows, index, &end_count);

    open_event(w, is_instant ? 'i' : 'X', pid, tid, start_ns);
    if (is_instant)
        lw_buf_add_text(w->out, "\"s\":\"t\","); /* of its thread */
    else
        write_duration(w, span->duration_ns);
    lw_labels_add(&w->labels, lw_span_frame(w->profile, span), w->out);
    if (end_count)
        add_line(w, &ends[0]);
    lw_buf_add_text(w->out, "}}");
    for (size_t i = 0; i < end_count; i++)
        write_flow_end(w, pid, tid, start_ns, &ends[i]);
}

static void write_node(struct writing *w, uint64_t pid, uint64_t tid,
                       const struct lw_laid_out *laid, size_t number)
{
    const struct lw_calltree_node *node = &laid->tree.nodes[number];

    open_event(w, 'X', pid, tid, laid->starts_ns[number]);
    write_duration(w, node->total_ns);
    lw_labels_add(&w->labels, node->frame, w->out);
    if (w->out->len && w->out->bytes[w->out->len - 1] != '{')
        lw_buf_add_char(w->out, ',');
    if (laid->tree.source == LW_GRAPH_CALLS)
        lw_buf_addf(w->out, "\"calls\":%" PRIu64 ",", node->calls);
    lw_buf_addf(w->out, "\"self_ns\":%" PRIu64 "}}", node->self_ns);
}

/* A fact about a process or thread: NAME is the fact's, `value` of it TEXT. */
static void write_fact(struct writing *w, const char *fact, uint64_t pid, uint64_t tid,
                       const char *key, const char *text, size_t len)
{
    struct lw_json_out json;

    part(w);
    lw_json_start(&json, w->out, false);
    lw_json_object(&json);
    lw_json_key_text(&json, "ph", "M");
    lw_json_key_text(&json, "name", fact);
    lw_json_key_u64(&json, "pid", pid);
    lw_json_key_u64(&json, "tid", tid);
    lw_json_key(&json, "args");
    lw_json_object(&json);
    lw_json_key(&json, key);
    lw_json_text(&json, text, len);
    lw_json_end(&json, '}');
    lw_json_end(&json, '}');
}

/* A track beside THREAD, named after it and WHAT; returns its number. */
static uint64_t name_track(struct writing *w, const struct lw_thread *thread,
                           const char *what)
{
    uint64_t tid = w->next_tid++;
    struct lw_buf name;

    lw_buf_init(&name, 0);
    lw_buf_addf(&name, "%s %" PRIu64 ": %s", lw_profile_text(w->profile, thread->name),
                thread->tid, what);
    if (name.failure)
        w->out->failure = name.failure;
    else
        write_fact(w, "thread_name", w->profile->processes[thread->process].pid, tid,
                   "name", name.bytes, name.len);
    lw_buf_release(&name);
    return tid;
}

static void write_names(struct writing *w)
{
    const struct lw_profile *profile = w->profile;

    for (size_t i = 0; i < profile->process_count; i++) {
        lw_string_id command = profile->processes[i].command;

        if (command)
            write_fact(w, "process_name", profile->processes[i].pid, 0, "name",
                       lw_profile_text(profile, command),
                       lw_strings_len(profile->strings, command));
    }
    for (size_t i = 0; i < profile->thread_count; i++) {
        const struct lw_thread *thread = &profile->threads[i];

        if (thread->name)
            write_fact(w, "thread_name", profile->processes[thread->process].pid,
                       thread->tid, "name", lw_profile_text(profile, thread->name),
                       lw_strings_len(profile->strings, thread->name));
    }
}

static void write_tracks(struct writing *w)
{
    const struct lw_profile *profile = w->profile;

    for (size_t i = 0; i < w->timeline.track_count; i++) {
        const struct lw_timeline_track *track = &w->timeline.tracks[i];
        const struct lw_thread *thread = &profile->threads[track->thread];
        uint64_t pid = profile->processes[thread->process].pid;
        uint64_t tid =
            track->number ? name_track(w, thread, "overlapping spans") : thread->tid;

        for (size_t k = 0; k < track->count; k++)
            write_span(w, pid, tid, w->timeline.order[track->first + k]);
    }
}

static bool write_tree(struct writing *w, uint32_t thread, struct lw_error *err)
{
    const struct lw_thread *t = &w->profile->threads[thread];
    uint64_t pid = w->profile->processes[t->process].pid;
    struct lw_laid_out laid;
    bool done = lw_laid_out_init(&laid, w->profile, thread, err);

    if (done && laid.tree.node_count > 1) {
        uint64_t tid = name_track(w, t, LW_LAID_OUT_TITLE);

        for (size_t i = 1; i < laid.tree.node_count; i++)
            write_node(w, pid, tid, &laid, i);
    }
    lw_laid_out_release(&laid);
    return done;
}

static void write_counters(struct writing *w)
{
    const struct lw_profile *profile = w->profile;
    struct lw_json_out json;

    for (size_t i = 0; i < profile->counter_count; i++) {
        const struct lw_counter_point *point = &profile->counters[i];
        uint64_t at_ns = point->time_ns - w->origin_ns;

        part(w);
        lw_buf_addf(w->out,
                    "{\"ph\":\"C\",\"pid\":%" PRIu64 ",\"ts\":%" PRIu64 ".%03u,",
                    profile->processes[point->process].pid, at_ns / 1000,
                    (unsigned)(at_ns % 1000));
        lw_json_start(&json, w->out, false);
        add_string(&json, profile, "name", point->name);
        lw_json_key(&json, "args");
        lw_json_object(&json);
        lw_json_key_double(&json, "value", point->value);
        lw_json_end(&json, '}');
        lw_buf_add_char(w->out, '}');
    }
}

static void add_remark(struct writing *w, struct lw_json_out *json)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_losses_add_line(w->profile, &text);
    if (text.failure)
        w->out->failure = text.failure;
    else if (text.len > 0)
        lw_json_key_text(json, "note", text.bytes);
    lw_buf_release(&text);
}

/* What has no place among the events: what the run was, when it began, what is
 * missing. */
static void write_rest(struct writing *w)
{
    const struct lw_profile *profile = w->profile;
    struct lw_json_out json;

    lw_buf_add_text(w->out, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":");
    lw_json_start(&json, w->out, false);
    lw_json_object(&json);
    lw_json_key_text(&json, "exporter", "lapwing");
    lw_json_key_u64(&json, "origin_ns", w->origin_ns);
    add_remark(w, &json);
    if (w->next_tid > FIRST_OWN_TID)
        lw_json_key_text(
            &json, "tracks",
            "threads numbered from 1000000000 on are none: they hold spans that overlap "
            "those of a thread, or its call tree laid out by its sums");
    for (size_t i = 0; i < profile->fact_count; i++)
        add_string(&json, profile, lw_profile_text(profile, profile->facts[i].key),
                   profile->facts[i].value);
    lw_json_end(&json, '}');
    lw_buf_add_text(w->out, "}\n");
}

/* The earliest of all times. */
static uint64_t find_origin(const struct lw_profile *profile)
{
    uint64_t first_ns = UINT64_MAX;

    for (size_t i = 0; i < profile->span_count; i++)
        if (profile->spans[i].start_ns < first_ns)
            first_ns = profile->spans[i].start_ns;
    for (size_t i = 0; i < profile->counter_count; i++)
        if (profile->counters[i].time_ns < first_ns)
            first_ns = profile->counters[i].time_ns;
    return first_ns == UINT64_MAX ? 0 : first_ns;
}

static bool write_events(struct writing *w, struct lw_error *err)
{
    const struct lw_profile *profile = w->profile;
    bool has_sums = profile->call_count || profile->sample_count;

    lw_buf_add_text(w->out, "{\"traceEvents\":[");
    write_names(w);
    write_tracks(w);
    for (uint32_t i = 0; has_sums && i < profile->thread_count; i++)
        if (!w->timeline.has_calls[i] && !write_tree(w, i, err))
            return false;
    write_counters(w);
    write_rest(w);
    return true;
}

static bool write_chrome(const struct lw_profile *profile, struct lw_buf *out,
                         struct lw_error *err)
{
    struct writing w = { .profile = profile, .out = out, .next_tid = FIRST_OWN_TID };
    bool done;

    if (lw_trace_is_there(profile))
        return lw_trace_is_alone(profile, err) &&
               lw_chrome_write_trace(profile, out, err);
    if (!lw_trace_has_any(profile, err))
        return false;
    w.origin_ns = find_origin(profile);
    done = lw_timeline_init(&w.timeline, profile, err) &&
           lw_labels_init(&w.labels, profile, label_frame, err) &&
           lw_op_flows_init(&w.flows, profile, err) && write_events(&w, err);
    lw_labels_release(&w.labels);
    lw_op_flows_release(&w.flows);
    lw_timeline_release(&w.timeline);
    return done;
}

const struct lw_writer lw_writer_chrome = {
    .name = "chrome",
    .summary =
        "trace events, for chrome://tracing, Perfetto's viewer and torch's tools",
    .suffixes = ".trace.json .chrome.json",
    .lacks = "when functions were called, unless there is a timeline, and the single "
             "samples of a sampler",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS | LW_WANT_SPANS | LW_WANT_COUNTERS |
            LW_WANT_ORIGINS | LW_WANT_TRACE | LW_WANT_ARGS | LW_WANT_TRACE_ALONE,
    .viewer_bytes = (uint64_t)500 << 20,
    .viewer_fails = "chrome://tracing shows nothing of files of that size; Perfetto "
                    "opens what --to perfetto writes, and --split step makes a file "
                    "for each step",
    .write = write_chrome,
};
