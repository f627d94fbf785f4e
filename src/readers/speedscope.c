/* speedscope's own format: JSON with frames that all profiles share, and profiles, one a
 * thread.
 *
 *     { "shared":   { "frames": [{ "name": "step", "file": "train.py", "line": 12 }] },
 *       "profiles": [{ "type": "sampled", "name": "main", "unit": "seconds",
 *                      "samples": [[0, 1], [0]], "weights": [0.01, 0.02] },
 *                    { "type": "evented", "name": "loader", "unit": "microseconds",
 *                      "events": [{ "type": "O", "frame": 0, "at": 0 },
 *                                 { "type": "C", "frame": 0, "at": 17.5 }] }] }
 *
 * Members come in any order (py-spy has the profiles before the frames), so stacks are
 * followed by the numbers of their frames, and what those are is asked at the end.
 * Samples become samples, events spans and calls. "none" and "bytes" are units, too: a
 * value of 1 is then 1 ns (1 s in a profile with decimals) and the fact "unit" says so.
 *
 * Nearly all of a large file is samples, each a list of numbers that begins as the one
 * before: what is the same is not looked at again. Or events, which look alike. */

#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/text.h"
#include "model/measure.h"
#include "readers/event_shape.h"
#include "readers/frames.h"
#include "readers/paths.h"
#include "readers/reader.h"

/* A frame of the sample at hand, or one that is open. */
struct step {
    size_t end; /* of its number in the sample's text */
    uint32_t path;
    uint32_t frame;
    uint64_t start_ns;
    uint64_t callees_ns;
    size_t span; /* its number, if spans are wanted */
};

struct span {
    uint32_t path;
    uint64_t start_ns;
    uint64_t duration_ns;
};

struct unit {
    const char *name;
    unsigned digits; /* of ns behind its point */
    bool is_time;
};

static const struct unit units[] = {
    { "nanoseconds", 0, true },  { "microseconds", 3, true },
    { "milliseconds", 6, true }, { "seconds", 9, true },
    { "none", 0, false },        { "bytes", 0, false },
};

static const struct unit *const no_unit = &units[4];

/* One of the file's profiles. */
struct one {
    const struct unit *unit; /* NULL: not met yet */
    unsigned digits;         /* the unit's, or 9 if that is no time but has decimals */
    uint32_t thread;
    uint32_t root;       /* path, of the samples */
    uint32_t event_root; /* likewise of the events */
    struct lw_thread about;
    uint64_t start_ns;
    size_t first_sample;       /* in `samples` */
    struct lw_json_in weights; /* where they are */
    struct lw_json_in events;  /* where they are, if they came before the unit */
    bool has_samples, has_weights, has_events, has_decimals;
};

struct reading {
    struct lw_json_in json;
    struct lw_builder *out;
    unsigned want;
    uint32_t process;
    struct lw_buf text; /* of what has escapes */

    struct lw_told_frame *frames;
    size_t frame_count;
    size_t frame_capacity;
    uint32_t frame_max;  /* the largest number met in a stack, + 1 */
    size_t frame_max_at; /* the byte where */

    struct lw_paths sampled;
    struct lw_paths evented;
    uint32_t *samples; /* path of each */
    size_t sample_count;
    size_t sample_capacity;
    struct lw_sample *rows; /* their times and weights; `stack` is a path yet */
    size_t row_count;
    size_t row_capacity;
    struct span *spans;
    size_t span_count;
    size_t span_capacity;
    struct step *steps;
    size_t depth;
    size_t step_capacity;
    const struct unit *odd_unit; /* one that is no time; NULL: none met */
    bool has_odd_decimals;
    bool has_times;
    bool is_mixed;     /* its profiles are of several units */
    bool is_ours;      /* our writer says where functions begin, not which line ran */
    uint64_t unclosed; /* spans */
};

static bool fail_at(const struct reading *r, const char *at, const char *what,
                    struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s", (size_t)(at - r->json.start),
                   what);
}

/* The next token, which must be WANTED. */
static bool expect(struct reading *r, struct lw_json_in *json,
                   enum lw_json_token wanted, const char *what, struct lw_error *err)
{
    enum lw_json_token token = lw_json_next(json);

    if (token == LW_JSON_ERROR)
        return lw_json_fail(json, err);
    return token == wanted || fail_at(r, json->next, what, err);
}

/* The string that is the next value, as a string of the builder. */
static bool read_name(struct reading *r, lw_string_id *id, struct lw_error *err)
{
    if (!expect(r, &r->json, LW_JSON_STRING, "a name should be text", err))
        return false;
    if (!r->json.escaped)
        return lw_builder_string(r->out, r->json.text, r->json.len, id, err);
    lw_buf_reset(&r->text);
    lw_json_unescape(&r->json, &r->text);
    return lw_buf_check(&r->text, err) &&
           lw_builder_string(r->out, r->text.bytes, r->text.len, id, err);
}

/* Frames */

static bool read_frame(struct reading *r, struct lw_error *err)
{
    struct lw_told_frame told = { 0 };
    enum lw_json_token token;
    int64_t line;

    while ((token = lw_json_next(&r->json)) == LW_JSON_KEY) {
        bool done;

        if (lw_json_is(&r->json, "name")) {
            done = read_name(r, &told.name, err);
        } else if (lw_json_is(&r->json, "file") || lw_json_is(&r->json, "line")) {
            bool is_file = lw_json_is(&r->json, "file");
            struct lw_json_in before = r->json;

            token = lw_json_next(&r->json);
            done = true;
            if (is_file && token == LW_JSON_STRING) {
                r->json = before;
                done = read_name(r, &told.file, err);
            } else if (!is_file && token == LW_JSON_NUMBER) {
                if (lw_text_scaled(r->json.text, r->json.len, 0, &line) && line > 0 &&
                    line <= UINT32_MAX)
                    told.line = (uint32_t)line;
            } else if (!lw_json_skip_rest(&r->json, token)) {
                done = lw_json_fail(&r->json, err);
            }
        } else {
            done = lw_json_skip(&r->json) || lw_json_fail(&r->json, err);
        }
        if (!done)
            return false;
    }
    if (token != LW_JSON_OBJECT_END)
        return lw_json_fail(&r->json, err);
    if (!lw_grow(&r->frames, &r->frame_capacity, r->frame_count + 1, sizeof(told), err))
        return false;
    r->frames[r->frame_count++] = told;
    return true;
}

static bool read_frames(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token;

    if (!expect(r, &r->json, LW_JSON_ARRAY, "the frames should be a list", err))
        return false;
    while ((token = lw_json_next(&r->json)) == LW_JSON_OBJECT)
        if (!read_frame(r, err))
            return false;
    if (token == LW_JSON_ERROR)
        return lw_json_fail(&r->json, err);
    return token == LW_JSON_ARRAY_END ||
           fail_at(r, r->json.next, "a frame should be an object", err);
}

static bool read_shared(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token;

    if (!expect(r, &r->json, LW_JSON_OBJECT, "\"shared\" should be an object", err))
        return false;
    while ((token = lw_json_next(&r->json)) == LW_JSON_KEY) {
        if (lw_json_is(&r->json, "frames")) {
            if (!read_frames(r, err))
                return false;
        } else if (!lw_json_skip(&r->json)) {
            return lw_json_fail(&r->json, err);
        }
    }
    return token == LW_JSON_OBJECT_END || lw_json_fail(&r->json, err);
}

/* Stacks */

static bool push(struct reading *r, struct lw_paths *paths, uint32_t parent,
                 uint32_t frame, const char *at, struct step *step,
                 struct lw_error *err)
{
    if (frame >= r->frame_max) {
        if (frame == LW_NONE)
            return fail_at(r, at, "there are not so many frames", err);
        r->frame_max = frame + 1;
        r->frame_max_at = (size_t)(at - r->json.start);
    }
    step->frame = frame;
    return lw_paths_push(paths, parent, frame, &step->path, err) &&
           lw_grow(&r->steps, &r->step_capacity, r->depth + 1, sizeof(*step), err);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The numbers of TEXT from byte AT on. */
static bool follow(struct reading *r, const char *text, size_t len, size_t at,
                   uint32_t path, struct lw_error *err)
{
    bool after_comma = r->depth > 0;

    for (;;) {
        uint64_t frame = 0;
        size_t start;
        struct step step = { 0 };

        while (at < len && is_space(text[at]))
            at++;
        if (at == len && !after_comma)
            return true;
        for (start = at; at < len && text[at] >= '0' && text[at] <= '9'; at++)
            if (frame <= UINT32_MAX)
                frame = frame * 10 + (uint64_t)(text[at] - '0');
        if (at == start)
            return fail_at(r, text + at, "a sample should be numbers of frames", err);
        if (frame > UINT32_MAX)
            frame = LW_NONE;
        step.end = at;
        if (!push(r, &r->sampled, path, (uint32_t)frame, text + start, &step, err))
            return false;
        r->steps[r->depth++] = step;
        path = step.path;
        while (at < len && is_space(text[at]))
            at++;
        if (at == len)
            return true;
        if (text[at] != ',')
            return fail_at(r, text + at, "a sample should be numbers of frames", err);
        at++;
        after_comma = true;
    }
}

/* LEN bytes at TEXT are one sample; those at BEFORE were the last. A frame is kept if
 * both have the same up to its number and the comma behind it. */
static bool read_sample(struct reading *r, uint32_t root, const char *text, size_t len,
                        const char *before, size_t before_len, struct lw_error *err)
{
    size_t same = lw_text_same_start(before, text, len < before_len ? len : before_len);
    size_t at = 0;
    uint32_t path = root;

    while (r->depth > 0 && (r->steps[r->depth - 1].end >= same ||
                            text[r->steps[r->depth - 1].end] != ','))
        r->depth--;
    if (r->depth > 0) {
        at = r->steps[r->depth - 1].end + 1;
        path = r->steps[r->depth - 1].path;
    }
    if (!follow(r, text, len, at, path, err) ||
        !lw_grow(&r->samples, &r->sample_capacity, r->sample_count + 1,
                 sizeof(*r->samples), err))
        return false;
    r->samples[r->sample_count++] = r->depth ? r->steps[r->depth - 1].path : root;
    return true;
}

static bool read_samples(struct reading *r, const struct one *one, struct lw_error *err)
{
    struct lw_json_in *json = &r->json;
    enum lw_json_token token;
    const char *before = "";
    size_t before_len = 0;

    if (!expect(r, json, LW_JSON_ARRAY, "the samples should be a list", err))
        return false;
    r->depth = 0;
    while ((token = lw_json_next(json)) == LW_JSON_ARRAY) {
        if (!lw_json_numbers(json))
            return lw_json_fail(json, err);
        if (!read_sample(r, one->root, json->text, json->len, before, before_len, err))
            return false;
        before = json->text;
        before_len = json->len;
    }
    if (token == LW_JSON_ERROR)
        return lw_json_fail(json, err);
    return token == LW_JSON_ARRAY_END ||
           fail_at(r, json->next, "a sample should be a list of numbers", err);
}

/* Weights */

/* The next weight of the list at *AT; false: there is none. */
static bool next_weight(const char **at, const char *end, const char **text,
                        size_t *len)
{
    while (*at < end && (is_space(**at) || **at == ','))
        ++*at;
    *text = *at;
    while (*at < end && !is_space(**at) && **at != ',')
        ++*at;
    *len = (size_t)(*at - *text);
    return *len > 0;
}

static bool weigh(struct reading *r, struct one *one, uint32_t path, uint64_t weight_ns,
                  uint64_t *time_ns, struct lw_error *err)
{
    struct lw_sample row = { .time_ns = *time_ns,
                             .weight_ns = weight_ns,
                             .thread = one->thread,
                             .stack = path };

    if (__builtin_add_overflow(*time_ns, weight_ns, time_ns) || *time_ns > INT64_MAX)
        return lw_fail(err, LW_ERR_LIMIT, "the weights add up to more than 2^63 ns");
    if (!(r->want & LW_WANT_SAMPLES)) {
        r->sampled.list[path].self += weight_ns; /* all together fit, see above */
        return true;
    }
    if (!lw_grow(&r->rows, &r->row_capacity, r->row_count + 1, sizeof(row), err))
        return false;
    r->rows[r->row_count++] = row;
    return true;
}

static bool weigh_samples(struct reading *r, struct one *one, struct lw_error *err)
{
    size_t count = r->sample_count - one->first_sample;
    const char *at = one->weights.text;
    const char *end = one->has_weights ? at + one->weights.len : at;
    uint64_t time_ns = one->start_ns;
    int64_t weight = 1;
    const char *text;
    size_t len;

    for (size_t i = 0; i < count; i++) {
        if (one->has_weights) {
            if (!next_weight(&at, end, &text, &len))
                return lw_fail(err, LW_ERR_FORMAT,
                               "at byte %zu: %zu samples, but %zu weights",
                               (size_t)(end - r->json.start), count, i);
            if (!lw_text_scaled(text, len, one->digits, &weight) || weight < 0)
                return fail_at(r, text, "a weight should be a number, 0 or more", err);
        }
        if (!weigh(r, one, r->samples[one->first_sample + i], (uint64_t)weight,
                   &time_ns, err))
            return false;
    }
    if (one->has_weights && next_weight(&at, end, &text, &len))
        return fail_at(r, text, "a weight more than there are samples", err);
    return true;
}

/* Events */

/* Token by token, which also says what the events of this file look like. */
static bool read_event(struct reading *r, struct one *one, struct lw_json_in *json,
                       struct lw_shaped_event *event, struct lw_event_shape *shape,
                       struct lw_error *err)
{
    enum lw_json_token token;
    unsigned met = 0; /* a bit for each of the three */
    uint64_t frame;
    int64_t at_ns;

    lw_event_shape_begin(shape, json->next);
    while ((token = lw_json_next(json)) == LW_JSON_KEY) {
        bool is_type = lw_json_is(json, "type"), is_frame = lw_json_is(json, "frame");
        bool is_at = lw_json_is(json, "at");

        token = lw_json_next(json);
        if (token == LW_JSON_ERROR || !lw_json_skip_rest(json, token))
            return lw_json_fail(json, err);
        lw_event_shape_value(shape,
                             is_type    ? LW_SHAPED_TYPE
                             : is_frame ? LW_SHAPED_FRAME
                             : is_at    ? LW_SHAPED_AT
                                        : LW_SHAPED_OTHER,
                             json->text, json->len);
        if (is_type && token == LW_JSON_STRING && json->len == 1) {
            event->type = json->text[0];
            met |= 1;
        } else if (is_frame && token == LW_JSON_NUMBER &&
                   lw_text_u64(json->text, json->len, &frame) && frame < LW_NONE) {
            event->frame = (uint32_t)frame;
            met |= 2;
        } else if (is_at && token == LW_JSON_NUMBER &&
                   lw_text_scaled(json->text, json->len, one->digits, &at_ns) &&
                   at_ns >= 0) {
            event->at_ns = (uint64_t)at_ns;
            met |= 4;
        }
    }
    if (token != LW_JSON_OBJECT_END)
        return lw_json_fail(json, err);
    if (met != 7 || (event->type != 'O' && event->type != 'C'))
        return fail_at(r, json->next,
                       "an event should have a type (\"O\" or \"C\"), a frame and a "
                       "time",
                       err);
    lw_event_shape_end(shape, json->next - 1);
    return true;
}

/* A span has its place from the start, so that they lie in the order of time. */
static bool open_frame(struct reading *r, struct step *step, struct lw_error *err)
{
    struct span span = { .path = step->path, .start_ns = step->start_ns };

    step->span = r->span_count;
    if (r->want & LW_WANT_SPANS) {
        if (!lw_grow(&r->spans, &r->span_capacity, r->span_count + 1, sizeof(span),
                     err))
            return false;
        r->spans[r->span_count++] = span;
    }
    r->steps[r->depth++] = *step;
    return true;
}

static void close_frame(struct reading *r, uint64_t at_ns)
{
    const struct step *step = &r->steps[--r->depth];
    struct lw_path *path = &r->evented.list[step->path];
    uint64_t duration_ns = at_ns - step->start_ns;

    path->calls++;
    path->self += duration_ns - step->callees_ns;
    if (r->depth > 0)
        r->steps[r->depth - 1].callees_ns += duration_ns;
    if (r->want & LW_WANT_SPANS)
        r->spans[step->span].duration_ns = duration_ns;
}

static bool apply_event(struct reading *r, const struct one *one, const char *where,
                        const struct lw_shaped_event *event, struct lw_error *err)
{
    struct step step = { .start_ns = event->at_ns };

    if (event->type == 'O') {
        uint32_t parent = r->depth ? r->steps[r->depth - 1].path : one->event_root;

        return push(r, &r->evented, parent, event->frame, where, &step, err) &&
               open_frame(r, &step, err);
    }
    if (r->depth == 0)
        return fail_at(r, where, "a frame is closed that is not open", err);
    if (r->steps[r->depth - 1].frame != event->frame)
        return fail_at(r, where, "a frame is closed before one opened later", err);
    close_frame(r, event->at_ns);
    return true;
}

static bool read_events(struct reading *r, struct one *one, struct lw_json_in *json,
                        struct lw_error *err)
{
    enum lw_json_token token;
    struct lw_event_shape shape = { 0 };
    struct lw_shaped_event event = { 0 };
    uint64_t last_ns = 0;

    if (!expect(r, json, LW_JSON_ARRAY, "the events should be a list", err) ||
        !lw_paths_root(&r->evented, one->thread, &one->event_root, err))
        return false;
    r->depth = 0;
    while ((token = lw_json_next(json)) == LW_JSON_OBJECT) {
        const char *where = json->next, *bracket;

        if (lw_event_shape_match(&shape, where, json->end, one->digits, &event,
                                 &bracket))
            lw_json_leave_object(json, bracket);
        else if (!read_event(r, one, json, &event, &shape, err))
            return false;
        if (event.at_ns < last_ns)
            return fail_at(r, where, "an event is earlier than the one before", err);
        last_ns = event.at_ns;
        if (!apply_event(r, one, where, &event, err))
            return false;
    }
    if (token == LW_JSON_ERROR)
        return lw_json_fail(json, err);
    if (token != LW_JSON_ARRAY_END)
        return fail_at(r, json->next, "an event should be an object", err);
    r->unclosed += r->depth;
    while (r->depth > 0)
        close_frame(r, last_ns);
    return true;
}

/* Profiles */

static bool read_unit(struct reading *r, struct one *one, struct lw_error *err)
{
    if (!expect(r, &r->json, LW_JSON_STRING, "a unit should be text", err))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (lw_json_is(&r->json, units[i].name))
            one->unit = &units[i];
    return one->unit != NULL ||
           fail_at(r, r->json.text, "a unit that is not known", err);
}

static bool has_decimals(const char *text, size_t len)
{
    return memchr(text, '.', len) || memchr(text, 'e', len);
}

/* startValue and endValue: when it began, and whether there are decimals. */
static bool read_value(struct reading *r, struct one *one, struct lw_json_in *start,
                       struct lw_error *err)
{
    if (!expect(r, &r->json, LW_JSON_NUMBER, "a value should be a number", err))
        return false;
    one->has_decimals |= has_decimals(r->json.text, r->json.len);
    if (start)
        *start = r->json;
    return true;
}

static bool skip_weights(struct reading *r, struct one *one, struct lw_error *err)
{
    if (!expect(r, &r->json, LW_JSON_ARRAY, "the weights should be a list", err))
        return false;
    if (!lw_json_numbers(&r->json))
        return lw_json_fail(&r->json, err);
    one->weights = r->json;
    one->has_weights = true;
    one->has_decimals |= has_decimals(r->json.text, r->json.len);
    return true;
}

/* What needs the unit waits, if that did not come before it, for the profile's end. */
static bool read_member(struct reading *r, struct one *one, struct lw_json_in *start,
                        struct lw_error *err)
{
    struct lw_json_in *json = &r->json;

    if (lw_json_is(json, "name"))
        return read_name(r, &one->about.name, err);
    if (lw_json_is(json, "unit"))
        return read_unit(r, one, err);
    if (lw_json_is(json, "startValue"))
        return read_value(r, one, start, err);
    if (lw_json_is(json, "endValue"))
        return read_value(r, one, NULL, err);
    if (lw_json_is(json, "samples")) {
        one->has_samples = true;
        return read_samples(r, one, err);
    }
    if (lw_json_is(json, "weights"))
        return skip_weights(r, one, err);
    if (lw_json_is(json, "events")) {
        if (one->unit && one->unit->is_time) {
            one->digits = one->unit->digits;
            return read_events(r, one, json, err);
        }
        one->has_events = true;
        one->events = *json;
    }
    return lw_json_skip(json) || lw_json_fail(json, err);
}

static bool finish_profile(struct reading *r, struct one *one,
                           const struct lw_json_in *start, struct lw_error *err)
{
    struct lw_json_in events = one->events;
    int64_t start_ns = 0;

    if (!one->unit)
        one->unit = no_unit;
    one->digits = one->unit->digits;
    r->is_mixed |= one->unit->is_time ? r->odd_unit != NULL : r->has_times;
    r->has_times |= one->unit->is_time;
    if (!one->unit->is_time) {
        r->is_mixed |= r->odd_unit && (r->odd_unit != one->unit ||
                                       r->has_odd_decimals != one->has_decimals);
        r->odd_unit = one->unit;
        r->has_odd_decimals |= one->has_decimals;
        one->digits = one->has_decimals ? 9 : 0;
    }
    if (start->text &&
        (!lw_text_scaled(start->text, start->len, one->digits, &start_ns) ||
         start_ns < 0))
        return fail_at(r, start->text, "a start before 0", err);
    one->start_ns = one->about.start_ns = (uint64_t)start_ns;
    if (!lw_builder_update_thread(r->out, one->thread, &one->about, err))
        return false;
    if (one->has_samples && !weigh_samples(r, one, err))
        return false;
    return !one->has_events || read_events(r, one, &events, err);
}

static bool read_profile(struct reading *r, struct lw_error *err)
{
    struct one one = { .first_sample = r->sample_count };
    struct lw_json_in start = { 0 };
    enum lw_json_token token;

    one.about.process = r->process;
    if (!lw_builder_thread(r->out, &one.about, &one.thread, err) ||
        !lw_paths_root(&r->sampled, one.thread, &one.root, err))
        return false;
    while ((token = lw_json_next(&r->json)) == LW_JSON_KEY)
        if (!read_member(r, &one, &start, err))
            return false;
    if (token != LW_JSON_OBJECT_END)
        return lw_json_fail(&r->json, err);
    return finish_profile(r, &one, &start, err);
}

static bool read_profiles(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token;

    if (!expect(r, &r->json, LW_JSON_ARRAY, "the profiles should be a list", err))
        return false;
    while ((token = lw_json_next(&r->json)) == LW_JSON_OBJECT)
        if (!read_profile(r, err))
            return false;
    if (token == LW_JSON_ERROR)
        return lw_json_fail(&r->json, err);
    return token == LW_JSON_ARRAY_END ||
           fail_at(r, r->json.next, "a profile should be an object", err);
}

static bool read_exporter(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token = lw_json_next(&r->json);

    r->is_ours = token == LW_JSON_STRING && lw_json_is(&r->json, "lapwing");
    return lw_json_skip_rest(&r->json, token) || lw_json_fail(&r->json, err);
}

static bool read_document(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token;

    if (!expect(r, &r->json, LW_JSON_OBJECT, "not an object", err))
        return false;
    while ((token = lw_json_next(&r->json)) == LW_JSON_KEY) {
        bool done;

        if (lw_json_is(&r->json, "shared"))
            done = read_shared(r, err);
        else if (lw_json_is(&r->json, "profiles"))
            done = read_profiles(r, err);
        else if (lw_json_is(&r->json, "exporter"))
            done = read_exporter(r, err);
        else
            done = lw_json_skip(&r->json) || lw_json_fail(&r->json, err);
        if (!done)
            return false;
    }
    if (token != LW_JSON_OBJECT_END || lw_json_next(&r->json) != LW_JSON_END)
        return lw_json_fail(&r->json, err);
    if (r->frame_max > r->frame_count)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: frame %u, but there are %zu",
                       r->frame_max_at, r->frame_max - 1, r->frame_count);
    return true;
}

/* At the end */

static bool add_spans(struct reading *r, struct lw_error *err)
{
    for (size_t i = 0; i < r->span_count; i++) {
        const struct span *span = &r->spans[i];
        struct lw_span row = { span->start_ns, span->duration_ns,
                               r->evented.threads[span->path],
                               r->evented.stacks[span->path] };

        if (!lw_builder_spans(r->out, &row, 1, err))
            return false;
    }
    return true;
}

static bool add_samples(struct reading *r, struct lw_error *err)
{
    for (size_t i = 0; i < r->row_count; i++)
        r->rows[i].stack = r->sampled.stacks[r->rows[i].stack];
    return lw_builder_samples(r->out, r->rows, r->row_count, err) &&
           lw_paths_add_samples(&r->sampled, 1, r->out, err);
}

static bool add_notes(struct reading *r, struct lw_error *err)
{
    struct lw_buf *text = &r->text;
    bool is_bytes;

    if (r->unclosed && !lw_builder_loss(r->out,
                                        "never closed; taken to end with the "
                                        "last event",
                                        "ends of frames", LW_NONE, r->unclosed, err))
        return false;
    if (!r->odd_unit)
        return true;
    is_bytes = strcmp(r->odd_unit->name, "bytes") == 0;
    lw_buf_reset(text);
    lw_buf_addf(text, "1 %s is %s in the file", r->has_odd_decimals ? "s" : "ns",
                is_bytes ? "1 byte" : "a weight of 1");
    return lw_buf_check(text, err) &&
           lw_builder_fact(r->out, "unit", text->bytes, text->len, err) &&
           (r->is_mixed ||
            lw_measure_set(r->out,
                           r->has_odd_decimals ? LW_UNIT_NUMBER
                           : is_bytes          ? LW_UNIT_BYTES
                                               : LW_UNIT_COUNT,
                           is_bytes ? "Figures are bytes, not times"
                                    : "Figures are weights of the file, not times",
                           err));
}

static bool finish(struct reading *r, struct lw_error *err)
{
    lw_frame_id *ids = lw_alloc((r->frame_count + 1) * sizeof(*ids), err);
    bool done;

    for (size_t i = 0; r->is_ours && i < r->frame_count; i++) {
        r->frames[i].first_line = r->frames[i].line;
        r->frames[i].line = 0;
    }
    done = ids && lw_told_frames_add(r->frames, r->frame_count, ids, r->out, err) &&
           lw_paths_finish(&r->sampled, ids, r->out, err) &&
           lw_paths_finish(&r->evented, ids, r->out, err) && add_samples(r, err) &&
           lw_paths_add_calls(&r->evented, r->out, err) && add_spans(r, err) &&
           add_notes(r, err);
    lw_free(ids);
    return done;
}

static bool read_speedscope(const struct lw_source *source, unsigned want,
                            struct lw_builder *out, struct lw_error *err)
{
    struct lw_process process = { .rank = -1, .exit_code = -1 };
    struct reading r = { .out = out, .want = want };
    bool done;

    lw_json_in_init(&r.json, (const char *)source->view.bytes, source->view.len);
    lw_buf_init(&r.text, 0);
    done = lw_builder_process(out, &process, &r.process, err) &&
           read_document(&r, err) && finish(&r, err);
    lw_paths_release(&r.sampled);
    lw_paths_release(&r.evented);
    lw_buf_release(&r.text);
    lw_free(r.frames);
    lw_free(r.samples);
    lw_free(r.rows);
    lw_free(r.spans);
    lw_free(r.steps);
    return done;
}

static bool has(const struct lw_source *source, const char *text)
{
    return memmem(source->head, source->head_len, text, strlen(text)) != NULL;
}

static bool sniff_speedscope(const struct lw_source *source)
{
    size_t at = 0;

    while (at < source->head_len && is_space((char)source->head[at]))
        at++;
    if (at == source->head_len || source->head[at] != '{')
        return false;
    return has(source, "speedscope.app/file-format-schema") ||
           (has(source, "\"shared\"") && has(source, "\"frames\"")) ||
           (has(source, "\"profiles\"") &&
            (has(source, "\"evented\"") || has(source, "\"sampled\"")));
}

const struct lw_reader lw_reader_speedscope = {
    .name = "speedscope",
    .summary = "speedscope's JSON (py-spy, speedscope.app and many exporters)",
    .suffixes = ".speedscope .json",
    .sniff = sniff_speedscope,
    .read = read_speedscope,
};
