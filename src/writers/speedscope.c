/* What speedscope opens: one JSON document with a list of frames and, for each thread,
 * a profile of one of two types.
 *
 *     evented   opening and closing of frames at instants: from the spans of a timeline
 *     sampled   stacks, root first, and a weight for each: from calls or samples
 *
 * Spans that overlap without nesting have no place in an evented profile and are
 * profiles of their own (writers/timeline.h). Times are nanoseconds from the first span
 * on: JavaScript's numbers are exact up to 104 days of them. A thread of which only
 * marked ranges are on the timeline has both: the marks, and its calls. */

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/json_out.h"
#include "base/text.h"
#include "model/codes.h"
#include "model/losses.h"
#include "model/measure.h"
#include "writers/timeline.h"
#include "writers/weights.h"
#include "writers/writer.h"

struct writing {
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    struct lw_codes codes; /* the frames of the document */
    struct lw_weights weights;
    struct lw_timeline timeline;
    struct lw_json_out json;
    struct lw_buf *out;
    uint64_t origin_ns;
    uint32_t *path; /* the codes of a stack, the last first */
    size_t path_capacity;
};

static void write_string(struct writing *w, const char *key, lw_string_id id)
{
    lw_json_key(&w->json, key);
    lw_json_text(&w->json, lw_profile_text(w->profile, id),
                 lw_strings_len(w->profile->strings, id));
}

static void write_frames(struct writing *w)
{
    lw_json_key(&w->json, "shared");
    lw_json_object(&w->json);
    lw_json_key(&w->json, "frames");
    lw_json_array(&w->json);
    for (size_t i = 0; i < w->codes.count; i++) {
        const struct lw_frame *frame = lw_profile_frame(w->profile, w->codes.first[i]);

        lw_json_object(&w->json);
        write_string(w, "name", frame->name);
        if (frame->file)
            write_string(w, "file", frame->file);
        if (frame->first_line)
            lw_json_key_u64(&w->json, "line", frame->first_line);
        lw_json_end(&w->json, '}');
        lw_buf_add_char(w->out, '\n');
    }
    lw_json_end(&w->json, ']');
    lw_json_end(&w->json, '}');
}

/* "MainThread 4711", with the process if there are several and WHAT behind it. */
static void write_name(struct writing *w, uint32_t thread, const char *what)
{
    const struct lw_profile *profile = w->profile;
    const struct lw_thread *t = &profile->threads[thread];
    struct lw_buf name;

    lw_buf_init(&name, 0);
    if (profile->process_count > 1)
        lw_buf_addf(&name, "process %" PRIu64 ", ", profile->processes[t->process].pid);
    lw_buf_addf(&name, "%s%s%" PRIu64 "%s", lw_profile_text(profile, t->name),
                t->name ? " " : "thread ", t->tid, what);
    if (name.failure)
        w->out->failure = name.failure;
    else
        lw_json_key_text(&w->json, "name", name.bytes);
    lw_buf_release(&name);
}

static const char *unit_of(const struct lw_profile *profile)
{
    enum lw_unit unit = lw_measure_unit(profile);

    return unit == LW_UNIT_COUNT   ? "none"
           : unit == LW_UNIT_BYTES ? "bytes"
                                   : "nanoseconds";
}

static void open_profile(struct writing *w, const char *type, uint32_t thread,
                         const char *what, uint64_t start, uint64_t end)
{
    lw_json_object(&w->json);
    lw_json_key_text(&w->json, "type", type);
    write_name(w, thread, what);
    lw_json_key_text(&w->json, "unit", unit_of(w->profile));
    lw_json_key_u64(&w->json, "startValue", start);
    lw_json_key_u64(&w->json, "endValue", end);
}

static uint64_t track_end_ns(const struct writing *w,
                             const struct lw_timeline_track *track)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < track->count; i++) {
        uint32_t span = w->timeline.order[track->first + i];
        uint64_t end_ns = lw_span_end_ns(&w->profile->spans[span]);

        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    return last_ns;
}

static bool write_track(struct writing *w, const struct lw_timeline_track *track,
                        struct lw_error *err)
{
    uint64_t start_ns = w->profile->spans[w->timeline.order[track->first]].start_ns;
    bool only_marks = !w->timeline.has_calls[track->thread];
    struct lw_lane_walk walk = lw_timeline_walk(&w->timeline, track);
    struct lw_lane_event event;
    char what[64];
    bool is_first = true;

    snprintf(what, sizeof(what), track->number ? "%s, overlapping %" PRIu32 : "%s",
             only_marks ? ", marks" : "", track->number);
    open_profile(w, "evented", track->thread, what, start_ns - w->origin_ns,
                 track_end_ns(w, track) - w->origin_ns);
    lw_json_key(&w->json, "events");
    lw_json_array(&w->json);
    while (lw_lane_walk_next(&walk, &event)) {
        lw_buf_add_text(w->out, is_first ? "" : ",\n");
        lw_buf_add_text(w->out, event.is_open ? "{\"type\":\"O\",\"frame\":"
                                              : "{\"type\":\"C\",\"frame\":");
        lw_buf_add_decimal(w->out, w->codes.code_of[lw_span_frame(
                                       w->profile, &w->profile->spans[event.index])]);
        lw_buf_add_text(w->out, ",\"at\":");
        lw_buf_add_decimal(w->out, event.time_ns - w->origin_ns);
        lw_buf_add_char(w->out, '}');
        is_first = false;
    }
    lw_json_end(&w->json, ']');
    lw_json_end(&w->json, '}');
    return lw_lane_walk_end(&walk, err);
}

/* One stack, as the numbers of its frames. */
static bool write_stack(struct writing *w, lw_stack_id stack, struct lw_error *err)
{
    size_t depth = 0;

    for (lw_stack_id s = stack; s != LW_NO_STACK; s = w->stacks[s].parent) {
        if (depth == w->path_capacity &&
            !lw_grow(&w->path, &w->path_capacity, depth + 1, sizeof(*w->path), err))
            return false;
        w->path[depth++] = w->codes.code_of[w->stacks[s].frame];
    }
    lw_buf_add_char(w->out, '[');
    while (depth-- > 0) {
        lw_buf_add_decimal(w->out, w->path[depth]);
        if (depth)
            lw_buf_add_char(w->out, ',');
    }
    lw_buf_add_char(w->out, ']');
    return true;
}

static bool write_weights(struct writing *w, size_t first, size_t end,
                          struct lw_error *err)
{
    const struct lw_call_row *rows = w->weights.rows;
    uint64_t total_ns = 0;
    const char *part = "";

    for (size_t i = first; i < end; i++)
        total_ns += rows[i].self_ns;
    open_profile(w, "sampled", rows[first].thread, "", 0, total_ns);
    lw_json_key(&w->json, "samples");
    lw_json_array(&w->json);
    for (size_t i = first; i < end; i++, part = ",\n") {
        lw_buf_add_text(w->out, part);
        if (!write_stack(w, rows[i].stack, err))
            return false;
    }
    lw_json_end(&w->json, ']');
    lw_json_key(&w->json, "weights");
    lw_json_array(&w->json);
    for (size_t i = first; i < end; i++) {
        lw_buf_add_text(w->out, i > first ? "," : "");
        lw_buf_add_decimal(w->out, rows[i].self_ns);
    }
    lw_json_end(&w->json, ']');
    lw_json_end(&w->json, '}');
    return true;
}

static bool write_profiles(struct writing *w, struct lw_error *err)
{
    bool done = true;

    lw_json_key(&w->json, "profiles");
    lw_json_array(&w->json);
    for (size_t i = 0; done && i < w->timeline.track_count; i++)
        done = write_track(w, &w->timeline.tracks[i], err);
    for (size_t i = 0; done && i < w->weights.count;) {
        size_t end = lw_weights_thread_end(&w->weights, i);

        if (!w->timeline.has_calls[w->weights.rows[i].thread])
            done = write_weights(w, i, end, err);
        i = end;
    }
    lw_json_end(&w->json, ']');
    return done;
}

/* The name of the document is its only place for a remark, and speedscope shows it. */
static void write_title(struct writing *w)
{
    const char *command = lw_profile_fact(w->profile, "command");
    struct lw_buf title, remark;

    lw_buf_init(&title, 0);
    lw_buf_init(&remark, 0);
    lw_losses_add_line(w->profile, &remark);
    lw_buf_add_text(&title, command ? command : "");
    if (remark.len > 0)
        lw_buf_addf(&title, "%s(%s)", command ? " " : "", remark.bytes);
    if (title.failure || remark.failure)
        w->out->failure = title.failure ? title.failure : remark.failure;
    else
        lw_json_key_text(&w->json, "name", title.len ? title.bytes : "");
    lw_buf_release(&title);
    lw_buf_release(&remark);
}

static bool write_document(struct writing *w, struct lw_error *err)
{
    bool done;

    lw_json_start(&w->json, w->out, false);
    lw_json_object(&w->json);
    lw_json_key_text(&w->json, "$schema",
                     "https://www.speedscope.app/file-format-schema.json");
    lw_json_key_text(&w->json, "exporter", "lapwing");
    write_title(w);
    lw_json_key_u64(&w->json, "activeProfileIndex", 0);
    write_frames(w);
    done = write_profiles(w, err);
    lw_json_end(&w->json, '}');
    lw_buf_add_char(w->out, '\n');
    return done;
}

static bool write_speedscope(const struct lw_profile *profile, struct lw_buf *out,
                             struct lw_error *err)
{
    struct writing w = { .profile = profile, .out = out, .origin_ns = UINT64_MAX };
    bool only_spans =
        profile->span_count && !profile->call_count && !profile->sample_count;
    size_t count;
    bool done;

    w.stacks = lw_stacks_list(profile->stacks, &count);
    for (size_t i = 0; i < profile->span_count; i++)
        if (profile->spans[i].start_ns < w.origin_ns)
            w.origin_ns = profile->spans[i].start_ns;
    done = (only_spans || lw_weights_init(&w.weights, profile, err)) &&
           lw_timeline_init(&w.timeline, profile, err) &&
           lw_codes_init(&w.codes, profile, LW_ALIKE_NAME, err) &&
           write_document(&w, err);
    lw_free(w.path);
    lw_codes_release(&w.codes);
    lw_timeline_release(&w.timeline);
    lw_weights_release(&w.weights);
    return done;
}

const struct lw_writer lw_writer_speedscope = {
    .name = "speedscope",
    .summary = "what speedscope opens, a profile for each thread",
    .suffixes = ".speedscope.json .speedscope",
    .lacks = "how often functions were called, unless there is a timeline; counters",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS | LW_WANT_SPANS,
    .write = write_speedscope,
};
