/* Trace event JSON, which chrome://tracing and Perfetto's viewer open and which VizTracer,
 * torch, Bazel, clang's -ftime-trace, Node.js and many others write.
 *
 *     { "traceEvents": [                                      or the list alone
 *         {"ph": "X", "pid": 1, "tid": 2, "ts": 10.5, "dur": 3, "name": "step"},
 *         {"ph": "B", "pid": 1, "tid": 2, "ts": 20, "name": "load"},
 *         {"ph": "E", "pid": 1, "tid": 2, "ts": 27.125},
 *         {"ph": "i", "pid": 1, "tid": 2, "ts": 30, "name": "checkpoint"},
 *         {"ph": "C", "pid": 1, "ts": 30, "name": "memory", "args": {"used": 7}},
 *         {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "main"}}
 *     ] }
 *
 * X, and B with its E, are spans; i, I and R are spans of no length; C are counters; M
 * names processes and threads. Flows (s, t, f) only join spans for the eye and are passed
 * over; all other kinds (asynchronous ones, objects, dumps) are counted as not read. An
 * event's members come in any order, and so do events.
 *
 * The stack of a span is the spans of its thread that hold it wholly: they are sorted and
 * swept once. Its own time is what it does not share with spans right below it; so each
 * becomes a call, too, and functions and trees can be asked for. Our own writer says of
 * a span that stands for many calls how many ("calls" among its arguments).
 *
 * Times are microseconds with decimals, and become whole ns without ever being a double:
 * a clock that counts from 1970 has 16 digits before the point. A list that stops after
 * an event, as a program leaves it that was killed, is whole; the format says so. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/map.h"
#include "base/text.h"
#include "readers/frames.h"
#include "readers/kineto.h"
#include "readers/reader.h"

#define TIME_DIGITS 3 /* ns are the thousandths of microseconds */

/* A value as it lies in the file: numbers and strings both are names of threads. */
struct piece {
    const char *text; /* NULL: there is none */
    size_t len;
    bool is_string;
    bool escaped;
};

struct event {
    char kind; /* 0: none */
    struct piece name, time, duration, pid, tid, file, line, calls;
    struct lw_json_in args; /* where they are, if has_args */
    bool has_args;
};

struct place {
    struct piece pid, tid;
};

struct track {
    struct place place;
    uint32_t thread; /* index in the builder */
    uint32_t open;   /* 1 + the innermost open B; 0: none */
};

struct process {
    struct piece pid;
};

struct open {
    lw_frame_id frame;
    int64_t start_ns;
    uint64_t calls;
    uint32_t below; /* 1 + the next open one of the track; 0: none */
};

struct span {
    uint32_t thread;
    lw_frame_id frame;
    int64_t start_ns;
    uint64_t duration_ns;
    uint64_t calls;
};

/* A span that is open where the sweep is. */
struct level {
    int64_t end_ns;
    lw_stack_id stack;
    uint64_t self_ns;
    uint64_t calls;
};

struct reading {
    struct lw_json_in json;
    struct lw_builder *out;
    unsigned want;
    struct lw_buf text;
    struct process *processes; /* their index is the builder's */
    size_t process_count;
    size_t process_capacity;
    struct lw_map process_map;
    struct track *tracks;
    size_t track_count;
    size_t track_capacity;
    struct lw_map track_map;
    struct open *opens;
    size_t open_count;
    size_t open_capacity;
    uint32_t free_open; /* 1 + the first that can be used again */
    struct span *spans;
    size_t span_count;
    size_t span_capacity;
    struct level *levels;
    size_t depth;
    size_t level_capacity;
    int64_t first_ns; /* the earliest time, if there is any */
    bool has_time;
    uint64_t other_count; /* events that are not read */
    uint64_t unopened;    /* E without B */
};

static bool fail_at(const struct reading *r, const char *at, const char *what,
                    struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s", (size_t)(at - r->json.start),
                   what);
}

/* What came last, if it is a string or a number. */
static struct piece take(const struct lw_json_in *json, enum lw_json_token token)
{
    struct piece none = { NULL, 0, false, false };
    struct piece piece = { json->text, json->len, token == LW_JSON_STRING,
                           json->escaped && token == LW_JSON_STRING };

    return token == LW_JSON_STRING || token == LW_JSON_NUMBER ? piece : none;
}

/* The text of PIECE: *TEXT is good until the next call. */
static bool text_of(struct reading *r, const struct piece *piece, const char **text,
                    size_t *len, struct lw_error *err)
{
    struct lw_json_in json = { .text = piece->text,
                               .len = piece->len,
                               .escaped = piece->escaped };

    *text = piece->text ? piece->text : "";
    *len = piece->text ? piece->len : 0;
    if (!piece->text || !piece->escaped)
        return true;
    lw_buf_reset(&r->text);
    lw_json_unescape(&json, &r->text);
    *text = r->text.bytes ? r->text.bytes : "";
    *len = r->text.len;
    return lw_buf_check(&r->text, err);
}

static bool string_of(struct reading *r, const struct piece *piece, lw_string_id *id,
                      struct lw_error *err)
{
    const char *text;
    size_t len;

    return text_of(r, piece, &text, &len, err) &&
           lw_builder_string(r->out, text, len, id, err);
}

/* Processes and threads */

static bool same_piece(const struct piece *a, const struct piece *b)
{
    return a->len == b->len && a->is_string == b->is_string &&
           (a->len == 0 || memcmp(a->text, b->text, a->len) == 0);
}

static uint64_t hash_piece(const struct piece *piece)
{
    return lw_hash_bytes(piece->text, piece->len) + piece->is_string;
}

static bool is_process(const void *owner, uint32_t number, const void *key)
{
    return same_piece(&((const struct reading *)owner)->processes[number - 1].pid, key);
}

static bool is_track(const void *owner, uint32_t number, const void *key)
{
    const struct place *a = &((const struct reading *)owner)->tracks[number - 1].place;
    const struct place *b = key;

    return same_piece(&a->pid, &b->pid) && same_piece(&a->tid, &b->tid);
}

/* What has no number, or a negative one, is named instead. */
static bool number_of(const struct piece *piece, uint64_t *number)
{
    return !piece->is_string && piece->text &&
           lw_text_u64(piece->text, piece->len, number);
}

static bool find_process(struct reading *r, const struct piece *pid, uint32_t *index,
                         struct lw_error *err)
{
    uint64_t hash = hash_piece(pid);
    uint32_t found = lw_map_find(&r->process_map, hash, is_process, r, pid);
    struct lw_process process = { .rank = -1, .exit_code = -1 };

    if (found) {
        *index = found - 1;
        return true;
    }
    if ((!number_of(pid, &process.pid) && !string_of(r, pid, &process.command, err)) ||
        !lw_grow(&r->processes, &r->process_capacity, r->process_count + 1,
                 sizeof(*r->processes), err) ||
        !lw_map_add(&r->process_map, hash, (uint32_t)r->process_count + 1, err))
        return false;
    r->processes[r->process_count++].pid = *pid;
    return lw_builder_process(r->out, &process, index, err);
}

static bool find_track(struct reading *r, const struct event *event,
                       struct track **track, struct lw_error *err)
{
    struct place place = { event->pid, event->tid };
    uint64_t hash = lw_hash_u64(hash_piece(&place.pid) * 3 + hash_piece(&place.tid));
    uint32_t found = lw_map_find(&r->track_map, hash, is_track, r, &place);
    struct lw_thread thread = { 0 };
    struct track added = { .place = place };

    if (!found) {
        if (!find_process(r, &place.pid, &thread.process, err) ||
            (!number_of(&place.tid, &thread.tid) &&
             !string_of(r, &place.tid, &thread.name, err)) ||
            !lw_builder_thread(r->out, &thread, &added.thread, err) ||
            !lw_grow(&r->tracks, &r->track_capacity, r->track_count + 1, sizeof(added),
                     err) ||
            !lw_map_add(&r->track_map, hash, (uint32_t)r->track_count + 1, err))
            return false;
        r->tracks[r->track_count++] = added;
        found = (uint32_t)r->track_count;
    }
    *track = &r->tracks[found - 1];
    return true;
}

/* Events */

static bool time_of(struct reading *r, const struct piece *piece, int64_t *ns,
                    struct lw_error *err)
{
    if (!piece->text || !lw_text_scaled(piece->text, piece->len, TIME_DIGITS, ns))
        return fail_at(r, piece->text ? piece->text : r->json.next,
                       "an event should have a time, in microseconds", err);
    if (!r->has_time || *ns < r->first_ns)
        r->first_ns = *ns;
    r->has_time = true;
    return true;
}

/* VizTracer puts file and line behind the name, we put them among the arguments. */
static bool frame_of(struct reading *r, const struct event *event, lw_frame_id *id,
                     struct lw_error *err)
{
    struct lw_told_frame told = { 0 };
    struct lw_frame frame = { .kind = LW_FRAME_MARK };
    const char *text;
    size_t len;
    uint64_t line;

    if (!text_of(r, &event->name, &text, &len, err))
        return false;
    if (event->file.text && event->file.is_string) {
        if (!lw_builder_string(r->out, text, len, &told.name, err) ||
            !string_of(r, &event->file, &told.file, err))
            return false;
        if (number_of(&event->line, &line) && line <= UINT32_MAX)
            told.line = (uint32_t)line;
    } else if (!lw_told_frame_parse(&told, text, len, r->out, err)) {
        return false;
    }
    frame.name = told.name;
    frame.file = told.file;
    frame.first_line = told.line;
    if (told.file)
        frame.kind = LW_FRAME_PYTHON;
    return lw_builder_frame(r->out, &frame, id, err);
}

static uint64_t calls_of(const struct event *event)
{
    uint64_t calls;

    return number_of(&event->calls, &calls) && calls <= INT64_MAX ? calls : 1;
}

static bool add_span(struct reading *r, const struct span *span, struct lw_error *err)
{
    if (!lw_grow(&r->spans, &r->span_capacity, r->span_count + 1, sizeof(*span), err))
        return false;
    r->spans[r->span_count++] = *span;
    return true;
}

static bool add_whole(struct reading *r, const struct event *event,
                      const struct track *track, int64_t start_ns, struct lw_error *err)
{
    struct span span = { .thread = track->thread, .start_ns = start_ns };
    int64_t duration_ns = 0, end_ns;

    if (event->kind == 'X') {
        span.calls = calls_of(event);
        if (event->duration.text &&
            (!lw_text_scaled(event->duration.text, event->duration.len, TIME_DIGITS,
                             &duration_ns) ||
             duration_ns < 0 || __builtin_add_overflow(start_ns, duration_ns, &end_ns)))
            return fail_at(r, event->duration.text, "a duration that cannot be", err);
    }
    span.duration_ns = (uint64_t)duration_ns;
    return frame_of(r, event, &span.frame, err) && add_span(r, &span, err);
}

static bool add_begin(struct reading *r, const struct event *event, struct track *track,
                      int64_t start_ns, struct lw_error *err)
{
    struct open open = { .start_ns = start_ns,
                         .calls = calls_of(event),
                         .below = track->open };
    uint32_t number = r->free_open;

    if (!frame_of(r, event, &open.frame, err))
        return false;
    if (number) {
        r->free_open = r->opens[number - 1].below;
    } else {
        if (r->open_count >= LW_NONE - 1)
            return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 open spans");
        if (!lw_grow(&r->opens, &r->open_capacity, r->open_count + 1, sizeof(open),
                     err))
            return false;
        number = (uint32_t)++r->open_count;
    }
    r->opens[number - 1] = open;
    track->open = number;
    return true;
}

static bool end_open(struct reading *r, struct track *track, int64_t end_ns,
                     struct lw_error *err)
{
    struct open *open = &r->opens[track->open - 1];
    struct span span = { .thread = track->thread,
                         .frame = open->frame,
                         .start_ns = open->start_ns,
                         .calls = open->calls };
    uint32_t number = track->open;

    if (end_ns > open->start_ns)
        span.duration_ns = (uint64_t)end_ns - (uint64_t)open->start_ns;
    track->open = open->below;
    open->below = r->free_open;
    r->free_open = number;
    return add_span(r, &span, err);
}

/* One point for each argument; a single one has the name of the event alone. */
static bool add_counter(struct reading *r, const struct event *event, int64_t time_ns,
                        struct lw_error *err)
{
    struct lw_json_in args = event->args;
    struct lw_counter_point point = { .time_ns = (uint64_t)time_ns };
    enum lw_json_token token;

    if (!event->has_args || !find_process(r, &event->pid, &point.process, err))
        return !event->has_args;
    token = lw_json_next(&args);
    if (token != LW_JSON_OBJECT)
        return true;
    while ((token = lw_json_next(&args)) == LW_JSON_KEY) {
        struct piece key = take(&args, LW_JSON_STRING);
        struct lw_buf name;
        bool done = true;

        token = lw_json_next(&args);
        if (token != LW_JSON_NUMBER ||
            !lw_text_double(args.text, args.len, &point.value)) {
            if (!lw_json_skip_rest(&args, token))
                return lw_json_fail(&args, err);
            continue;
        }
        if (key.len == 5 && memcmp(key.text, "value", 5) == 0) {
            done = string_of(r, &event->name, &point.name, err);
        } else {
            const char *text;
            size_t len;

            lw_buf_init(&name, 0);
            done = text_of(r, &event->name, &text, &len, err);
            if (done) {
                lw_buf_add(&name, text, len);
                lw_buf_add_char(&name, ' ');
                done = text_of(r, &key, &text, &len, err);
            }
            if (done)
                lw_buf_add(&name, text, len);
            done = done && lw_buf_check(&name, err) &&
                   lw_builder_string(r->out, name.bytes, name.len, &point.name, err);
            lw_buf_release(&name);
        }
        if (!done || !lw_builder_counter(r->out, &point, err))
            return false;
    }
    return true;
}

static bool is_name(const struct piece *piece, const char *name)
{
    return piece->text && piece->len == strlen(name) &&
           memcmp(piece->text, name, piece->len) == 0;
}

/* The argument "name", which says what a process or thread is called. */
static bool find_name(const struct event *event, struct piece *name)
{
    struct lw_json_in args = event->args;
    enum lw_json_token token;

    if (!event->has_args || lw_json_next(&args) != LW_JSON_OBJECT)
        return false;
    while ((token = lw_json_next(&args)) == LW_JSON_KEY) {
        bool is_it = lw_json_is(&args, "name");

        token = lw_json_next(&args);
        *name = take(&args, token);
        if (is_it && token == LW_JSON_STRING)
            return true;
        if (!lw_json_skip_rest(&args, token))
            return false;
    }
    return false;
}

static bool add_metadata(struct reading *r, const struct event *event,
                         struct lw_error *err)
{
    const struct lw_profile *profile = lw_builder_profile(r->out);
    struct piece name;

    if (is_name(&event->name, "thread_name") && find_name(event, &name)) {
        struct lw_thread thread;
        struct track *track;

        if (!find_track(r, event, &track, err))
            return false;
        thread = profile->threads[track->thread];
        return string_of(r, &name, &thread.name, err) &&
               lw_builder_update_thread(r->out, track->thread, &thread, err);
    }
    if (is_name(&event->name, "process_name") && find_name(event, &name)) {
        struct lw_process process;
        uint32_t index;

        if (!find_process(r, &event->pid, &index, err))
            return false;
        process = profile->processes[index];
        return string_of(r, &name, &process.command, err) &&
               lw_builder_update_process(r->out, index, &process, err);
    }
    return true;
}

static bool add_event(struct reading *r, const struct event *event,
                      struct lw_error *err)
{
    struct track *track;
    int64_t time_ns;

    if (event->kind == 'M')
        return add_metadata(r, event, err);
    if (!event->kind || !strchr("XBEiIRC", event->kind)) {
        r->other_count += !event->kind || !strchr("stf", event->kind);
        return true;
    }
    if (!time_of(r, &event->time, &time_ns, err))
        return false;
    if (event->kind == 'C')
        return add_counter(r, event, time_ns, err);
    if (!find_track(r, event, &track, err))
        return false;
    if (event->kind == 'B')
        return add_begin(r, event, track, time_ns, err);
    if (event->kind != 'E')
        return add_whole(r, event, track, time_ns, err);
    if (!track->open) {
        r->unopened++;
        return true;
    }
    return end_open(r, track, time_ns, err);
}

/* Reading */

/* Of an event's arguments, those that say what it is. */
static bool read_args(struct reading *r, struct event *event, struct lw_error *err)
{
    struct lw_json_in *json = &r->json;
    enum lw_json_token token;

    event->args = *json;
    event->has_args = true;
    token = lw_json_next(json);
    if (token != LW_JSON_OBJECT)
        return lw_json_skip_rest(json, token) || lw_json_fail(json, err);
    while ((token = lw_json_next(json)) == LW_JSON_KEY) {
        struct piece *piece = NULL;

        if (lw_json_is(json, "file"))
            piece = &event->file;
        else if (lw_json_is(json, "line"))
            piece = &event->line;
        else if (lw_json_is(json, "calls"))
            piece = &event->calls;
        token = lw_json_next(json);
        if (piece)
            *piece = take(json, token);
        if (!lw_json_skip_rest(json, token))
            return lw_json_fail(json, err);
    }
    return token == LW_JSON_OBJECT_END || lw_json_fail(json, err);
}

static bool read_event(struct reading *r, struct lw_error *err)
{
    static const struct {
        const char *key;
        size_t offset;
    } members[] = {
        { "name", offsetof(struct event, name) },
        { "ts", offsetof(struct event, time) },
        { "dur", offsetof(struct event, duration) },
        { "pid", offsetof(struct event, pid) },
        { "tid", offsetof(struct event, tid) },
    };
    struct lw_json_in *json = &r->json;
    struct event event;
    enum lw_json_token token;

    memset(&event, 0, offsetof(struct event, args));
    event.has_args = false;
    while ((token = lw_json_next(json)) == LW_JSON_KEY) {
        struct piece *piece = NULL, kind;
        bool is_kind = lw_json_is(json, "ph");

        if (lw_json_is(json, "args")) {
            if (!read_args(r, &event, err))
                return false;
            continue;
        }
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
            if (lw_json_is(json, members[i].key))
                piece = (struct piece *)((char *)&event + members[i].offset);
        token = lw_json_next(json);
        kind = take(json, token);
        if (piece)
            *piece = kind;
        if (is_kind && kind.text && kind.is_string && kind.len == 1)
            event.kind = kind.text[0];
        if (!lw_json_skip_rest(json, token))
            return lw_json_fail(json, err);
    }
    if (token != LW_JSON_OBJECT_END)
        return lw_json_fail(json, err);
    return add_event(r, &event, err);
}

/* Events up to the end of their list; of a bare one the end may be missing. */
static bool read_events(struct reading *r, struct lw_error *err)
{
    struct lw_json_in *json = &r->json;
    enum lw_json_token token;

    while ((token = lw_json_next(json)) == LW_JSON_OBJECT)
        if (!read_event(r, err))
            return false;
    if (token == LW_JSON_ARRAY_END)
        return true;
    if (token != LW_JSON_ERROR)
        return fail_at(r, json->next, "an event should be an object", err);
    return json->depth == 1 && (json->next == json->end || *json->next == ']') &&
                   r->track_count + r->process_count > 0
               ? true
               : lw_json_fail(json, err);
}

static bool read_document(struct reading *r, struct lw_error *err)
{
    struct lw_json_in *json = &r->json;
    enum lw_json_token token = lw_json_next(json);

    if (token == LW_JSON_ARRAY)
        return read_events(r, err);
    if (token != LW_JSON_OBJECT)
        return lw_json_fail(json, err);
    while ((token = lw_json_next(json)) == LW_JSON_KEY) {
        bool is_events = lw_json_is(json, "traceEvents");

        token = lw_json_next(json);
        if (is_events && token == LW_JSON_ARRAY) {
            if (!read_events(r, err))
                return false;
        } else if (!lw_json_skip_rest(json, token)) {
            return lw_json_fail(json, err);
        }
    }
    return (token == LW_JSON_OBJECT_END && lw_json_next(json) == LW_JSON_END) ||
           lw_json_fail(json, err);
}

/* At the end: which span is in which */

/* By thread, then start; of those that start together the longest is around the others;
 * of equal ones the one that was met first. */
static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns ? -1 : 1;
    return 0;
}

static bool is_sorted(const struct span *spans, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (compare_spans(&spans[i - 1], &spans[i]) > 0)
            return false;
    return true;
}

/* A stable merge sort, from runs of one upwards: qsort would leave equal ones anyhow. */
static bool sort_spans(struct reading *r, struct lw_error *err)
{
    size_t count = r->span_count;
    struct span *from = r->spans, *to;

    if (is_sorted(from, count))
        return true;
    to = lw_alloc(count * sizeof(*to), err);
    if (!to)
        return false;
    for (size_t width = 1; width < count; width *= 2) {
        struct span *swap = from;

        for (size_t at = 0; at < count; at += 2 * width) {
            size_t a = at, middle = at + width < count ? at + width : count;
            size_t b = middle, end = middle + width < count ? middle + width : count;

            for (size_t i = at; i < end; i++)
                to[i] =
                    a < middle && (b == end || compare_spans(&from[a], &from[b]) <= 0)
                        ? from[a++]
                        : from[b++];
        }
        from = to;
        to = swap;
    }
    r->spans = from;
    r->span_capacity = count;
    lw_free(to);
    return true;
}

static bool leave(struct reading *r, uint32_t thread, struct lw_error *err)
{
    const struct level *level = &r->levels[--r->depth];
    struct lw_call_row row = { thread, level->stack, level->calls, level->self_ns };

    return !(row.calls || row.self_ns) || lw_builder_calls(r->out, &row, err);
}

/* Take SPAN under the innermost open one that holds it wholly. */
static bool enter(struct reading *r, const struct span *span, struct lw_error *err)
{
    int64_t end_ns = span->start_ns + (int64_t)span->duration_ns;
    struct level level = { .end_ns = end_ns,
                           .self_ns = span->duration_ns,
                           .calls = span->calls };
    struct lw_span row = { .start_ns = (uint64_t)span->start_ns,
                           .duration_ns = span->duration_ns,
                           .thread = span->thread };

    while (r->depth > 0 && (r->levels[r->depth - 1].end_ns < end_ns ||
                            r->levels[r->depth - 1].end_ns <= span->start_ns))
        if (!leave(r, span->thread, err))
            return false;
    if (r->depth > 0) {
        struct level *above = &r->levels[r->depth - 1];

        level.stack = above->stack;
        above->self_ns -=
            span->duration_ns < above->self_ns ? span->duration_ns : above->self_ns;
    }
    if (!lw_builder_push(r->out, level.stack, span->frame, &level.stack, err) ||
        !lw_grow(&r->levels, &r->level_capacity, r->depth + 1, sizeof(level), err))
        return false;
    r->levels[r->depth++] = level;
    row.stack = level.stack;
    return !(r->want & LW_WANT_SPANS) || lw_builder_spans(r->out, &row, 1, err);
}

static bool nest(struct reading *r, struct lw_error *err)
{
    for (size_t i = 0; i < r->span_count; i++) {
        const struct span *span = &r->spans[i];

        if (i > 0 && span[-1].thread != span->thread)
            while (r->depth > 0)
                if (!leave(r, span[-1].thread, err))
                    return false;
        if (!enter(r, span, err))
            return false;
    }
    while (r->depth > 0)
        if (!leave(r, r->spans[r->span_count - 1].thread, err))
            return false;
    return true;
}

/* What never ended, ends with the last thing that is known of its thread. */
static bool end_all(struct reading *r, struct lw_error *err)
{
    int64_t last_ns = r->first_ns;
    uint64_t unclosed = 0;

    for (size_t i = 0; i < r->span_count; i++) {
        int64_t end_ns = r->spans[i].start_ns + (int64_t)r->spans[i].duration_ns;

        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    for (size_t i = 0; i < r->track_count; i++)
        while (r->tracks[i].open) {
            unclosed++;
            if (!end_open(r, &r->tracks[i], last_ns, err))
                return false;
        }
    return (!unclosed ||
            lw_builder_loss(r->out, "begun and not ended; taken to end with the last",
                            "ends of spans", LW_NONE, unclosed, err)) &&
           (!r->unopened || lw_builder_loss(r->out, "ended but not begun", "spans",
                                            LW_NONE, r->unopened, err)) &&
           (!r->other_count ||
            lw_builder_loss(r->out, "asynchronous, objects and the like are not read",
                            "events", LW_NONE, r->other_count, err));
}

static bool finish(struct reading *r, struct lw_error *err)
{
    if (!end_all(r, err) || !sort_spans(r, err))
        return false;
    if (r->first_ns < 0)
        return lw_fail(err, LW_ERR_FORMAT, "an event is before time 0");
    return nest(r, err);
}

/* What was lost on the way to the events. */
static bool add_scan_losses(const struct lw_trace_events *in, struct lw_builder *out,
                            struct lw_error *err)
{
    const struct lw_error *damage = &in->stream->damage;

    return (!in->broken_count || lw_builder_loss(out, "broken JSON", "events", LW_NONE,
                                                 in->broken_count, err)) &&
           (!in->mended_count ||
            lw_builder_loss(out, "quotes inside a text; mended", "events", LW_NONE,
                            in->mended_count, err)) &&
           (!in->is_cut ||
            lw_builder_loss(out,
                            damage->code != LW_OK ? damage->text
                                                  : "the file stops before its end",
                            "files cut short", LW_NONE, 1, err)) &&
           (!in->has_rest || lw_builder_loss(out, "behind the end of the trace",
                                             "texts", LW_NONE, 1, err));
}

static bool read_trace(struct lw_stream *stream, const char *name, unsigned want,
                       struct lw_builder *out, struct lw_error *err)
{
    struct lw_trace_events in;
    struct lw_kineto *kineto = lw_kineto_new(out, name, want, err);
    enum lw_trace_item item = LW_TRACE_EVENT;
    bool done = kineto != NULL;

    lw_trace_events_init(&in, stream);
    while (done && item != LW_TRACE_END) {
        done = lw_trace_events_next(&in, &item, err);
        if (done && item == LW_TRACE_EVENT)
            done = lw_kineto_add_event(kineto, &in.event, err);
        else if (done && item == LW_TRACE_MEMBER)
            done = lw_kineto_add_member(kineto, &in.member, err);
    }
    done = done && lw_kineto_finish(kineto, in.event_count, err) &&
           add_scan_losses(&in, out, err);
    lw_trace_events_release(&in);
    lw_kineto_free(kineto);
    return done;
}

static bool read_as_trace(const struct lw_source *source, unsigned want,
                          struct lw_builder *out, struct lw_error *err)
{
    struct lw_stream stream;
    bool done;

    if (!lw_stream_open_bytes(&stream, source->view.bytes, source->view.len, err))
        return false;
    done = read_trace(&stream, source->name, want, out, err);
    lw_stream_close(&stream);
    return done;
}

static bool read_spans(const struct lw_source *source, unsigned want,
                       struct lw_builder *out, struct lw_error *err)
{
    struct reading r = { .out = out, .want = want };
    bool done;

    lw_json_in_init(&r.json, (const char *)source->view.bytes, source->view.len);
    lw_buf_init(&r.text, 0);
    done = read_document(&r, err) && finish(&r, err);
    lw_buf_release(&r.text);
    lw_map_release(&r.process_map);
    lw_map_release(&r.track_map);
    lw_free(r.processes);
    lw_free(r.tracks);
    lw_free(r.opens);
    lw_free(r.spans);
    lw_free(r.levels);
    return done;
}

static bool read_chrome(const struct lw_source *source, unsigned want,
                        struct lw_builder *out, struct lw_error *err)
{
    unsigned of_trace = LW_WANT_TRACE | LW_WANT_ARGS;

    return (!(want & LW_WANT_TRACE) || read_as_trace(source, want, out, err)) &&
           (!(want & ~of_trace) || read_spans(source, want, out, err));
}

static bool has(const struct lw_source *source, const char *text)
{
    return memmem(source->head, source->head_len, text, strlen(text)) != NULL;
}

/* Kineto's list comes behind what it knows of the machine, which may be long. */
static bool sniff_chrome(const struct lw_source *source)
{
    size_t at = 0;

    while (at < source->head_len && memchr(" \t\r\n", source->head[at], 4))
        at++;
    if (at == source->head_len)
        return false;
    if (source->head[at] == '{')
        return has(source, "\"traceEvents\"") || (has(source, "\"schemaVersion\"") &&
                                                  has(source, "\"deviceProperties\""));
    return source->head[at] == '[' && has(source, "\"ph\"");
}

const struct lw_reader lw_reader_chrome = {
    .name = "chrome",
    .summary = "trace event JSON (chrome://tracing, Perfetto, VizTracer, torch)",
    .suffixes = ".json .trace",
    .sniff = sniff_chrome,
    .read = read_chrome,
};
