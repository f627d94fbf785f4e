/* The stack of a span is the spans of its thread that hold it wholly: they are sorted and
 * swept once. Its own time is what it does not share with spans right below it; so each
 * becomes a call, too, and functions and trees can be asked for. Our own writer says of
 * a span that stands for many calls how many ("calls" among its arguments).
 *
 * Times are microseconds with decimals, and become whole ns without ever being a double:
 * a clock that counts from 1970 has 16 digits before the point. */

#include "readers/trace_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/map.h"
#include "base/text.h"
#include "lap/reader.h" /* enum lw_want */
#include "readers/frames.h"

/* What names a process or thread: numbers and texts both do, and 7 is not "7". */
struct piece {
    lw_string_id text;
    uint8_t form; /* enum lw_value_form; LW_VALUE_NONE: no name */
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
    uint32_t index; /* in the builder */
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

struct lw_trace_spans {
    struct lw_builder *out; /* borrowed */
    unsigned want;
    int64_t rank;
    struct lw_buf text;
    struct process *processes;
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
    struct lw_trace_losses *losses; /* borrowed */
};

struct lw_trace_spans *lw_trace_spans_new(struct lw_builder *out, unsigned want,
                                          int64_t rank, struct lw_trace_losses *losses,
                                          struct lw_error *err)
{
    struct lw_trace_spans *r = lw_zalloc(1, sizeof(*r), err);

    if (!r)
        return NULL;
    r->out = out;
    r->want = want;
    r->rank = rank;
    r->losses = losses;
    lw_buf_init(&r->text, 0);
    return r;
}

void lw_trace_spans_free(struct lw_trace_spans *r)
{
    if (!r)
        return;
    lw_buf_release(&r->text);
    lw_map_release(&r->process_map);
    lw_map_release(&r->track_map);
    lw_free(r->processes);
    lw_free(r->tracks);
    lw_free(r->opens);
    lw_free(r->spans);
    lw_free(r->levels);
    lw_free(r);
}

/* The text of VALUE: *TEXT is good until the next call. */
static bool text_of(struct lw_trace_spans *r, const struct lw_value *value,
                    const char **text, size_t *len, struct lw_error *err)
{
    *text = value->form == LW_VALUE_TEXT ? value->text : "";
    *len = value->form == LW_VALUE_TEXT ? value->len : 0;
    if (value->form != LW_VALUE_TEXT || !value->escaped)
        return true;
    lw_buf_reset(&r->text);
    lw_json_unescape_text(value->text, value->len, &r->text);
    *text = r->text.bytes ? r->text.bytes : "";
    *len = r->text.len;
    return lw_buf_check(&r->text, err);
}

static bool string_of(struct lw_trace_spans *r, const struct lw_value *value,
                      lw_string_id *id, struct lw_error *err)
{
    const char *text;
    size_t len;

    return text_of(r, value, &text, &len, err) &&
           lw_builder_string(r->out, text, len, id, err);
}

/* Processes and threads */

static bool is_number(const struct lw_value *value)
{
    return value->form == LW_VALUE_WORD &&
           (*value->text == '-' || (*value->text >= '0' && *value->text <= '9'));
}

static bool piece_of(struct lw_trace_spans *r, const struct lw_value *value,
                     struct piece *piece, struct lw_error *err)
{
    piece->text = 0;
    piece->form = LW_VALUE_NONE;
    if (value->form != LW_VALUE_TEXT && !is_number(value))
        return true;
    piece->form = value->form;
    return value->form == LW_VALUE_TEXT
               ? string_of(r, value, &piece->text, err)
               : lw_builder_string(r->out, value->text, value->len, &piece->text, err);
}

static bool same_piece(const struct piece *a, const struct piece *b)
{
    return a->text == b->text && a->form == b->form;
}

static uint64_t hash_piece(const struct piece *piece)
{
    return (uint64_t)piece->text << 2 | piece->form;
}

static bool is_process(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace_spans *r = owner;

    return same_piece(&r->processes[number - 1].pid, key);
}

static bool is_track(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace_spans *r = owner;
    const struct place *a = &r->tracks[number - 1].place, *b = key;

    return same_piece(&a->pid, &b->pid) && same_piece(&a->tid, &b->tid);
}

/* What has no number, or a negative one, is named instead. */
static bool number_of(const struct lw_value *value, uint64_t *number)
{
    return value->form == LW_VALUE_WORD && lw_text_u64(value->text, value->len, number);
}

static bool find_process(struct lw_trace_spans *r, const struct lw_value *value,
                         uint32_t *index, struct lw_error *err)
{
    struct lw_process process = { .rank = r->rank, .exit_code = -1 };
    struct process added;
    uint64_t hash;
    uint32_t found;

    if (!piece_of(r, value, &added.pid, err))
        return false;
    hash = lw_hash_u64(hash_piece(&added.pid));
    found = lw_map_find(&r->process_map, hash, is_process, r, &added.pid);
    if (found) {
        *index = r->processes[found - 1].index;
        return true;
    }
    if (!number_of(value, &process.pid))
        process.command = added.pid.text;
    if (!lw_builder_process(r->out, &process, index, err) ||
        !lw_grow(&r->processes, &r->process_capacity, r->process_count + 1,
                 sizeof(*r->processes), err) ||
        !lw_map_add(&r->process_map, hash, (uint32_t)r->process_count + 1, err))
        return false;
    added.index = *index;
    r->processes[r->process_count++] = added;
    return true;
}

static bool find_track(struct lw_trace_spans *r, const struct lw_trace_event *event,
                       struct track **track, struct lw_error *err)
{
    struct track added = { 0 };
    struct lw_thread thread = { 0 };
    uint64_t hash;
    uint32_t found;

    if (!piece_of(r, &event->pid, &added.place.pid, err) ||
        !piece_of(r, &event->tid, &added.place.tid, err))
        return false;
    hash =
        lw_hash_u64(hash_piece(&added.place.pid) << 32 ^ hash_piece(&added.place.tid));
    found = lw_map_find(&r->track_map, hash, is_track, r, &added.place);
    if (!found) {
        if (!number_of(&event->tid, &thread.tid))
            thread.name = added.place.tid.text;
        if (!find_process(r, &event->pid, &thread.process, err) ||
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

static const struct lw_value *find_arg(const struct lw_trace_event *event,
                                       const char *key)
{
    static const struct lw_value none = { .text = "" };

    for (size_t i = 0; i < event->member_count; i++)
        if (lw_member_is(&event->members[i], key))
            return &event->members[i].value;
    return &none;
}

/* VizTracer puts file and line behind the name, we put them among the arguments. */
static bool frame_of(struct lw_trace_spans *r, const struct lw_trace_event *event,
                     lw_frame_id *id, struct lw_error *err)
{
    const struct lw_value *file = find_arg(event, "file");
    struct lw_told_frame told = { 0 };
    struct lw_frame frame = { .kind = LW_FRAME_MARK };
    const char *text;
    size_t len;
    uint64_t line;

    if (!text_of(r, &event->name, &text, &len, err))
        return false;
    if (file->form == LW_VALUE_TEXT) {
        if (!lw_builder_string(r->out, text, len, &told.name, err) ||
            !string_of(r, file, &told.file, err))
            return false;
        if (number_of(find_arg(event, "line"), &line) && line <= UINT32_MAX)
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

static uint64_t calls_of(const struct lw_trace_event *event)
{
    uint64_t calls;

    return number_of(find_arg(event, "calls"), &calls) && calls <= INT64_MAX ? calls
                                                                             : 1;
}

static bool add_span(struct lw_trace_spans *r, const struct span *span,
                     struct lw_error *err)
{
    if (!lw_grow(&r->spans, &r->span_capacity, r->span_count + 1, sizeof(*span), err))
        return false;
    r->spans[r->span_count++] = *span;
    return true;
}

static bool add_whole(struct lw_trace_spans *r, const struct lw_trace_event *event,
                      const struct track *track, int64_t start_ns, struct lw_error *err)
{
    struct span span = { .thread = track->thread, .start_ns = start_ns };

    if (event->phase == 'X') {
        span.calls = calls_of(event);
        span.duration_ns = lw_trace_event_duration(event, r->losses);
    }
    return frame_of(r, event, &span.frame, err) && add_span(r, &span, err);
}

static bool add_begin(struct lw_trace_spans *r, const struct lw_trace_event *event,
                      struct track *track, int64_t start_ns, struct lw_error *err)
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

static bool end_open(struct lw_trace_spans *r, struct track *track, int64_t end_ns,
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
static bool add_counter(struct lw_trace_spans *r, const struct lw_trace_event *event,
                        int64_t time_ns, struct lw_error *err)
{
    struct lw_counter_point point = { .time_ns = (uint64_t)time_ns };

    if (event->member_count && !find_process(r, &event->pid, &point.process, err))
        return false;
    for (size_t i = 0; i < event->member_count; i++) {
        const struct lw_member *member = &event->members[i];

        if (member->value.form != LW_VALUE_WORD ||
            !lw_value_double(&member->value, &point.value))
            continue;
        lw_buf_reset(&r->text);
        if (event->name.form == LW_VALUE_TEXT)
            lw_json_unescape_text(event->name.text, event->name.len, &r->text);
        if (!lw_member_is(member, "value")) {
            lw_buf_add_char(&r->text, ' ');
            lw_json_unescape_text(member->key, member->key_len, &r->text);
        }
        if (!lw_buf_check(&r->text, err) ||
            !lw_builder_string(r->out, r->text.bytes ? r->text.bytes : "", r->text.len,
                               &point.name, err) ||
            !lw_builder_counter(r->out, &point, err))
            return false;
    }
    return true;
}

static bool add_metadata(struct lw_trace_spans *r, const struct lw_trace_event *event,
                         struct lw_error *err)
{
    const struct lw_profile *profile = lw_builder_profile(r->out);
    const struct lw_value *name = find_arg(event, "name");

    if (name->form != LW_VALUE_TEXT)
        return true;
    if (lw_value_is(&event->name, "thread_name")) {
        struct lw_thread thread;
        struct track *track;

        if (!find_track(r, event, &track, err))
            return false;
        thread = profile->threads[track->thread];
        return string_of(r, name, &thread.name, err) &&
               lw_builder_update_thread(r->out, track->thread, &thread, err);
    }
    if (lw_value_is(&event->name, "process_name")) {
        struct lw_process process;
        uint32_t index;

        if (!find_process(r, &event->pid, &index, err))
            return false;
        process = profile->processes[index];
        return string_of(r, name, &process.command, err) &&
               lw_builder_update_process(r->out, index, &process, err);
    }
    return true;
}

bool lw_trace_spans_add(struct lw_trace_spans *r, const struct lw_trace_event *event,
                        struct lw_error *err)
{
    struct track *track;
    int64_t time_ns;

    if (event->phase == 'M')
        return add_metadata(r, event, err);
    if (!event->phase || !strchr("XBEiIRC", event->phase)) {
        r->losses->others += !event->phase || !strchr("stf", event->phase);
        return true;
    }
    if (!lw_trace_event_time(event, r->losses, &time_ns))
        return true;
    if (event->phase == 'C')
        return add_counter(r, event, time_ns, err);
    if (event->phase != 'X' && lw_value_is(&event->name, "Record Window End"))
        return true; /* of torch's profiler, with a time of its own, often absurd */
    if (!find_track(r, event, &track, err))
        return false;
    if (event->phase == 'B')
        return add_begin(r, event, track, time_ns, err);
    if (event->phase != 'E')
        return add_whole(r, event, track, time_ns, err);
    if (!track->open) {
        r->losses->unopened++;
        return true;
    }
    return end_open(r, track, time_ns, err);
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
static bool sort_spans(struct lw_trace_spans *r, struct lw_error *err)
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

static bool leave(struct lw_trace_spans *r, uint32_t thread, struct lw_error *err)
{
    const struct level *level = &r->levels[--r->depth];
    struct lw_call_row row = { thread, level->stack, level->calls, level->self_ns };

    return !(row.calls || row.self_ns) || lw_builder_calls(r->out, &row, err);
}

/* Take SPAN under the innermost open one that holds it wholly. */
static bool enter(struct lw_trace_spans *r, const struct span *span,
                  struct lw_error *err)
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

static bool nest(struct lw_trace_spans *r, struct lw_error *err)
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

/* What never ended, ends with the last thing that is known. */
static bool end_all(struct lw_trace_spans *r, struct lw_error *err)
{
    int64_t last_ns = 0;

    for (size_t i = 0; i < r->span_count; i++) {
        int64_t end_ns = r->spans[i].start_ns + (int64_t)r->spans[i].duration_ns;

        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    for (size_t i = 0; i < r->track_count; i++)
        for (; r->tracks[i].open; r->losses->unclosed++)
            if (!end_open(r, &r->tracks[i], last_ns, err))
                return false;
    return true;
}

bool lw_trace_spans_finish(struct lw_trace_spans *r, struct lw_error *err)
{
    return end_all(r, err) && sort_spans(r, err) && nest(r, err);
}
