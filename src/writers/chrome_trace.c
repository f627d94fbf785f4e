/* A torch profiler's trace, given back as what it was read from.
 *
 *     {"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":2.5,"dur":3,"args":{}}
 *     {"ph":"s","id":1,"cat":"ac2g", ...}     an arrow leaves the call that launched it
 *     {"ph":"f","id":1,"cat":"ac2g","bp":"e", ...}                 and comes to the work
 *
 * Times, names, categories, arguments and places of events are those of the file, times
 * to the ns: they are written as decimals, never through a double. Arrows are made anew,
 * one for each thing that was launched (profilers write one start for many ends, of which
 * a viewer draws the first), and for each backward op. The files of several ranks become
 * one, whose processes are named after their rank (writers/trace_processes.h). */

#include "writers/chrome_trace.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_in.h"
#include "base/json_out.h"
#include "base/text.h"
#include "model/losses.h"
#include "writers/args.h"
#include "writers/trace_processes.h"

/* Room between the processes of two ranks in the order of drawing: Kineto's own are below
 * 5,000,100. */
#define RANK_SORT_STEP 10000000

struct writing {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_trace_processes processes;
    struct lw_buf scratch;
    struct lw_buf *out;
    uint64_t next_flow; /* id */
    bool has_events;
};

/* Values */

static void add_quoted(struct writing *w, lw_string_id id)
{
    struct lw_json_out json;

    lw_json_start(&json, w->out, false);
    lw_json_text(&json, lw_profile_text(w->profile, id),
                 lw_strings_len(w->profile->strings, id));
}

static void add_i64(struct lw_buf *out, int64_t value)
{
    if (value < 0)
        lw_buf_add_char(out, '-');
    lw_buf_add_decimal(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* 12.345; whole microseconds have no point. */
static void add_microseconds(struct lw_buf *out, uint64_t ns)
{
    char part[4] = { '.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                     (char)('0' + ns % 10) };

    lw_buf_add_decimal(out, ns / 1000);
    if (ns % 1000)
        lw_buf_add(out, part, sizeof(part));
}

/* A number as a number: 7, not "7"; anything else in quotes. */
static void add_id(struct writing *w, lw_string_id id)
{
    const char *text = lw_profile_text(w->profile, id);
    size_t len = lw_strings_len(w->profile->strings, id);
    int64_t number;

    if (lw_text_i64(text, len, &number) && (len == 1 || *text != '0') &&
        memcmp(text, "-0", len < 2 ? len : 2) != 0)
        lw_buf_add(w->out, text, len);
    else
        add_quoted(w, id);
}

static void add_process(struct writing *w, const struct lw_trace_process *process)
{
    lw_buf_add_text(w->out, "\"pid\":");
    if (process->keeps_pid)
        add_id(w, process->pid);
    else
        lw_buf_add_decimal(w->out, process->number);
}

static void add_place(struct writing *w, uint32_t track)
{
    add_process(w, &w->processes.list[w->processes.of_track[track]]);
    lw_buf_add_text(w->out, ",\"tid\":");
    add_id(w, w->trace->tracks[track].tid);
}

/* "ph":"X", behind what parts it from the event before. */
static void open_event(struct writing *w, char phase)
{
    lw_buf_drain(w->out);
    lw_buf_add_text(w->out, w->has_events ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    lw_buf_add_char(w->out, phase);
    lw_buf_add_text(w->out, "\",");
    w->has_events = true;
}

static void add_name(struct writing *w, lw_string_id name, lw_string_id category)
{
    if (category) {
        lw_buf_add_text(w->out, "\"cat\":");
        add_quoted(w, category);
        lw_buf_add_char(w->out, ',');
    }
    lw_buf_add_text(w->out, "\"name\":");
    add_quoted(w, name);
    lw_buf_add_char(w->out, ',');
}

static void add_time(struct writing *w, uint64_t time_ns)
{
    lw_buf_add_text(w->out, ",\"ts\":");
    add_microseconds(w->out, time_ns);
}

static void add_args(struct writing *w, lw_string_id args)
{
    const char *json;
    size_t len;

    if (!args)
        return;
    json = lw_args_json(lw_profile_text(w->profile, args),
                        lw_strings_len(w->profile->strings, args), &w->scratch, &len);
    lw_buf_add_text(w->out, ",\"args\":");
    lw_buf_add(w->out, json, len);
    if (w->scratch.failure)
        w->out->failure = w->scratch.failure;
}

/* Names */

static void write_name(struct writing *w, const struct lw_trace_process *process,
                       uint32_t track, const char *fact, const char *key,
                       const char *text, size_t len)
{
    struct lw_json_out json;

    open_event(w, 'M');
    lw_buf_addf(w->out, "\"name\":\"%s\",", fact);
    if (track == LW_NONE) {
        add_process(w, process);
        lw_buf_add_text(w->out, ",\"tid\":0");
    } else {
        add_place(w, track);
    }
    lw_buf_addf(w->out, ",\"args\":{\"%s\":", key);
    lw_json_start(&json, w->out, false);
    lw_json_text(&json, text, len);
    lw_buf_add_text(w->out, "}}");
}

static void write_sort_index(struct writing *w, const struct lw_trace_process *process,
                             uint32_t track, int64_t index)
{
    if (!index)
        return;
    open_event(w, 'M');
    if (track == LW_NONE) {
        lw_buf_add_text(w->out, "\"name\":\"process_sort_index\",");
        add_process(w, process);
        lw_buf_add_text(w->out, ",\"tid\":0");
    } else {
        lw_buf_add_text(w->out, "\"name\":\"thread_sort_index\",");
        add_place(w, track);
    }
    lw_buf_add_text(w->out, ",\"args\":{\"sort_index\":");
    add_i64(w->out, index);
    lw_buf_add_text(w->out, "}}");
}

/* All that is of one rank is drawn together. */
static int64_t process_order(const struct writing *w,
                             const struct lw_trace_process *process)
{
    int64_t within = process->sort_index;

    if (w->trace->rank_count == 1)
        return within;
    if (within < 0 || within >= RANK_SORT_STEP)
        within = RANK_SORT_STEP - 1;
    return ((int64_t)process->rank + 1) * RANK_SORT_STEP + within;
}

static void write_process(struct writing *w, const struct lw_trace_process *process)
{
    struct lw_buf name;

    if (process->name || w->trace->rank_count > 1) {
        lw_buf_init(&name, 0);
        lw_trace_process_add_name(w->profile, process, &name);
        if (name.failure)
            w->out->failure = name.failure;
        else
            write_name(w, process, LW_NONE, "process_name", "name",
                       name.bytes ? name.bytes : "", name.len);
        lw_buf_release(&name);
    }
    if (process->labels)
        write_name(w, process, LW_NONE, "process_labels", "labels",
                   lw_profile_text(w->profile, process->labels),
                   lw_strings_len(w->profile->strings, process->labels));
    write_sort_index(w, process, LW_NONE, process_order(w, process));
}

static void write_names(struct writing *w)
{
    for (size_t i = 0; i < w->processes.count; i++)
        write_process(w, &w->processes.list[i]);
    for (uint32_t i = 0; i < w->trace->track_count; i++) {
        const struct lw_track *track = &w->trace->tracks[i];

        if (track->name)
            write_name(w, NULL, i, "thread_name", "name",
                       lw_profile_text(w->profile, track->name),
                       lw_strings_len(w->profile->strings, track->name));
        write_sort_index(w, NULL, i, track->sort_index);
    }
}

/* Events */

static void write_event(struct writing *w, uint32_t index)
{
    const struct lw_event *event = &w->trace->events[index];

    open_event(w, 'X');
    add_name(w, event->name, event->category);
    add_place(w, event->track);
    add_time(w, event->start_ns);
    lw_buf_add_text(w->out, ",\"dur\":");
    add_microseconds(w->out, event->duration_ns);
    add_args(w, w->trace->args ? w->trace->args[index] : 0);
    lw_buf_add_char(w->out, '}');
}

static void write_flow_end(struct writing *w, char phase, const char *category,
                           uint32_t index)
{
    const struct lw_event *event = &w->trace->events[index];

    open_event(w, phase);
    lw_buf_addf(w->out, "\"id\":%" PRIu64 ",\"cat\":\"%s\",\"name\":\"%s\",%s",
                w->next_flow, category, category, phase == 'f' ? "\"bp\":\"e\"," : "");
    add_place(w, event->track);
    add_time(w, event->start_ns);
    lw_buf_add_char(w->out, '}');
}

static void write_flow(struct writing *w, const char *category, uint32_t from,
                       uint32_t to)
{
    write_flow_end(w, 's', category, from);
    write_flow_end(w, 'f', category, to);
    w->next_flow++;
}

static void write_flows(struct writing *w)
{
    const struct lw_trace *trace = w->trace;

    for (uint32_t i = 0; i < trace->event_count; i++)
        if (lw_trace_is_launched(trace, i))
            write_flow(w, "ac2g", trace->events[i].parent, i);
    for (size_t i = 0; i < trace->flow_count; i++)
        write_flow(w, "fwdbwd", trace->flows[i].forward, trace->flows[i].backward);
}

static void add_told(struct writing *w, const char *key, int64_t value)
{
    if (value < 0)
        return;
    lw_buf_addf(w->out, ",\"%s\":%" PRId64, key, value);
}

static void write_memory(struct writing *w)
{
    for (size_t i = 0; i < w->trace->memory_count; i++) {
        const struct lw_memory_event *memory = &w->trace->memory[i];

        open_event(w, 'i');
        lw_buf_add_text(w->out, "\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":"
                                "\"[memory]\",");
        add_place(w, memory->track);
        add_time(w, memory->time_ns);
        if (memory->args) {
            add_args(w, memory->args);
        } else {
            lw_buf_addf(w->out,
                        ",\"args\":{\"Device Type\":%" PRId32 ",\"Device Id\":%" PRId32
                        ",\"Addr\":%" PRIu64 ",\"Bytes\":%" PRId64,
                        memory->device_type, memory->device, memory->address,
                        memory->bytes);
            add_told(w, "Total Allocated", memory->allocated);
            add_told(w, "Total Reserved", memory->reserved);
            lw_buf_add_char(w->out, '}');
        }
        lw_buf_add_char(w->out, '}');
    }
}

static void write_marks(struct writing *w)
{
    for (size_t i = 0; i < w->trace->mark_count; i++) {
        const struct lw_trace_mark *mark = &w->trace->marks[i];

        open_event(w, 'i');
        if (mark->scope == 'g' || mark->scope == 'p' || mark->scope == 't')
            lw_buf_addf(w->out, "\"s\":\"%c\",", mark->scope);
        add_name(w, mark->name, mark->category);
        add_place(w, mark->track);
        add_time(w, mark->time_ns);
        add_args(w, mark->args);
        lw_buf_add_char(w->out, '}');
    }
}

static void write_points(struct writing *w)
{
    struct lw_json_out json;

    for (size_t i = 0; i < w->trace->point_count; i++) {
        const struct lw_trace_point *point = &w->trace->points[i];
        uint32_t process = w->processes.of_rank[point->rank];

        open_event(w, 'C');
        add_name(w, point->name, 0);
        if (process == LW_NONE)
            lw_buf_add_text(w->out, "\"pid\":0");
        else
            add_process(w, &w->processes.list[process]);
        add_time(w, point->time_ns);
        lw_buf_add_text(w->out, ",\"args\":{\"value\":");
        lw_json_start(&json, w->out, false);
        lw_json_double(&json, point->value);
        lw_buf_add_text(w->out, "}}");
    }
}

/* What is beside the events */

/* The members of a file's head but those that are written anew. */
static void write_info(struct writing *w, lw_string_id info)
{
    static const char *const anew[] = { "baseTimeNanoseconds", "otherData",
                                        "traceEvents" };
    struct lw_json_in json;
    size_t len;
    const char *text;

    if (!info)
        return;
    text = lw_args_json(lw_profile_text(w->profile, info),
                        lw_strings_len(w->profile->strings, info), &w->scratch, &len);
    if (w->scratch.failure)
        w->out->failure = w->scratch.failure;
    lw_json_in_init(&json, text, len);
    if (lw_json_next(&json) != LW_JSON_OBJECT)
        return;
    while (lw_json_next(&json) == LW_JSON_KEY) {
        struct lw_json_in key = json;
        bool is_anew = false;

        for (size_t i = 0; i < sizeof(anew) / sizeof(anew[0]); i++)
            is_anew |= lw_json_is(&key, anew[i]);
        if (!lw_json_skip(&json))
            return;
        if (is_anew)
            continue;
        lw_buf_add_char(w->out, '"');
        lw_buf_add(w->out, key.text, key.len);
        lw_buf_add_text(w->out, "\":");
        lw_buf_add(w->out, key.next, (size_t)(json.next - key.next));
        lw_buf_add_text(w->out, ",\n");
    }
}

/* "ranks":[{"rank":0,"file":"a.json",...}], each with its file's head. */
static void write_ranks(struct writing *w)
{
    lw_buf_add_text(w->out, "\"ranks\":[");
    for (size_t i = 0; i < w->trace->rank_count; i++) {
        const struct lw_trace_rank *rank = &w->trace->ranks[i];

        lw_buf_add_text(w->out, i ? ",\n{" : "\n{");
        write_info(w, rank->info);
        if (rank->rank >= 0)
            lw_buf_addf(w->out, "\"rank\":%" PRId64 ",", rank->rank);
        lw_buf_add_text(w->out, "\"file\":");
        add_quoted(w, rank->file);
        lw_buf_add_char(w->out, '}');
    }
    lw_buf_add_text(w->out, "],\n");
}

static void write_head(struct writing *w)
{
    struct lw_json_out json;
    struct lw_buf note;

    lw_buf_add_text(w->out, "{");
    if (w->trace->rank_count == 1)
        write_info(w, w->trace->ranks[0].info);
    else
        write_ranks(w);
    if (w->trace->base_ns)
        lw_buf_addf(w->out, "\"baseTimeNanoseconds\":%" PRIu64 ",\n",
                    w->trace->base_ns);
    lw_buf_init(&note, 0);
    lw_losses_add_line(w->profile, &note);
    lw_json_start(&json, w->out, false);
    lw_buf_add_text(w->out, "\"otherData\":");
    lw_json_object(&json);
    lw_json_key_text(&json, "exporter", "lapwing");
    if (note.failure)
        w->out->failure = note.failure;
    else if (note.len > 0)
        lw_json_key_text(&json, "note", note.bytes);
    lw_json_end(&json, '}');
    lw_buf_release(&note);
}

bool lw_chrome_write_trace(const struct lw_profile *profile, struct lw_buf *out,
                           struct lw_error *err)
{
    struct writing w = {
        .profile = profile, .trace = profile->trace, .out = out, .next_flow = 1
    };
    bool done = lw_trace_processes_init(&w.processes, profile, err);

    if (done) {
        write_head(&w);
        lw_buf_add_text(out, ",\n\"traceEvents\":[");
        write_names(&w);
        for (uint32_t i = 0; i < w.trace->event_count; i++)
            write_event(&w, i);
        write_memory(&w);
        write_marks(&w);
        write_points(&w);
        write_flows(&w);
        lw_buf_add_text(out, "\n]}\n");
    }
    lw_trace_processes_release(&w.processes);
    lw_buf_release(&w.scratch);
    return done;
}
