/* What `go tool pprof`, pprof, Speedscope, Grafana Pyroscope and many others open:
 * profile.proto of the pprof project, a protocol buffer in gzip.
 *
 *     sample_type   what the values of a sample are: calls, nanoseconds
 *     sample        a stack (locations, the last called first), values, labels
 *     location      a function and a line in it      here: a frame
 *     function      name, file and first line        here: frames that print alike
 *     string_table  what all of them refer to by number; the first is empty
 *
 * A function's system_name stays empty: pprof takes a name that is equal to it for C++ and
 * strips what is in angle brackets, which is all of "<module>".
 *
 * Each (thread, stack) of the profile is a sample that carries the thread as labels, so
 * `pprof -tagfocus` can ask for one thread. Samplers count no calls, so a profile of
 * samples has nanoseconds only. */

#include <string.h>

#include "base/alloc.h"
#include "base/deflate.h"
#include "model/codes.h"
#include "model/losses.h"
#include "model/measure.h"
#include "writers/proto.h"
#include "writers/weights.h"
#include "writers/writer.h"

/* Field numbers, as profile.proto has them. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,
    VALUE_TYPE_TYPE = 1,
    VALUE_TYPE_UNIT = 2,
    SAMPLE_LOCATION_ID = 1,
    SAMPLE_VALUE = 2,
    SAMPLE_LABEL = 3,
    LABEL_KEY = 1,
    LABEL_STR = 2,
    LABEL_NUM = 3,
    LOCATION_ID = 1,
    LOCATION_LINE = 4,
    LINE_FUNCTION_ID = 1,
    LINE_LINE = 2,
    LINE_COLUMN = 3,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_FILENAME = 4,
    FUNCTION_START_LINE = 5,
};

/* The texts that are not the profile's, first in the table. */
enum word {
    WORD_EMPTY,
    WORD_CALLS,
    WORD_COUNT,
    WORD_TIME,
    WORD_NANOSECONDS,
    WORD_WEIGHTS,
    WORD_BYTES,
    WORD_THREAD,
    WORD_TID,
    WORD_PID,
    WORDS
};

static const char *const words[WORDS] = {
    [WORD_EMPTY] = "",
    [WORD_CALLS] = "calls",
    [WORD_COUNT] = "count",
    [WORD_TIME] = "time",
    [WORD_NANOSECONDS] = "nanoseconds",
    [WORD_WEIGHTS] = "weights",
    [WORD_BYTES] = "bytes",
    [WORD_THREAD] = "thread",
    [WORD_TID] = "tid",
    [WORD_PID] = "pid",
};

struct writing {
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    struct lw_codes codes;
    struct lw_weights weights;
    uint32_t *number_of; /* by string: its number in the table; 0: not there yet */
    struct lw_buf table; /* the strings, as fields */
    uint32_t string_count;
    struct lw_buf message, inner, packed; /* scratch, from the outside in */
    struct lw_buf labels;                 /* of the thread at hand, as fields */
    struct lw_buf *out;
};

/* The number of a string of the profile in the table of the file. */
static uint32_t number_of(struct writing *w, lw_string_id id)
{
    if (id == 0)
        return WORD_EMPTY;
    if (w->number_of[id] == 0) {
        lw_proto_add_text(&w->table, PROFILE_STRING_TABLE,
                          lw_profile_text(w->profile, id),
                          lw_strings_len(w->profile->strings, id));
        w->number_of[id] = w->string_count++;
    }
    return w->number_of[id];
}

/* What is missing is a comment, which `pprof -comments` prints. */
static void write_remark(struct writing *w)
{
    lw_losses_add_line(w->profile, &w->message);
    if (w->message.len > 0 && !w->message.failure) {
        lw_proto_add_text(&w->table, PROFILE_STRING_TABLE, w->message.bytes,
                          w->message.len);
        lw_proto_add_u64(w->out, PROFILE_COMMENT, w->string_count++);
        lw_buf_reset(&w->message);
    }
}

static void start_table(struct writing *w)
{
    for (size_t i = 0; i < WORDS; i++)
        lw_proto_add_text(&w->table, PROFILE_STRING_TABLE, words[i], strlen(words[i]));
    w->string_count = WORDS;
}

static void write_sample_type(struct writing *w, enum word type, enum word unit)
{
    lw_proto_add_u64(&w->message, VALUE_TYPE_TYPE, type);
    lw_proto_add_u64(&w->message, VALUE_TYPE_UNIT, unit);
    lw_proto_add_message(w->out, PROFILE_SAMPLE_TYPE, &w->message);
}

static void write_head(struct writing *w)
{
    const struct lw_profile *profile = w->profile;
    enum lw_unit measure = lw_measure_unit(profile);
    enum word type =
        measure == LW_UNIT_COUNT || measure == LW_UNIT_BYTES ? WORD_WEIGHTS : WORD_TIME;
    enum word unit = measure == LW_UNIT_COUNT   ? WORD_COUNT
                     : measure == LW_UNIT_BYTES ? WORD_BYTES
                                                : WORD_NANOSECONDS;

    if (w->weights.source == LW_GRAPH_CALLS)
        write_sample_type(w, WORD_CALLS, WORD_COUNT);
    write_sample_type(w, type, unit);
    lw_proto_add_u64(w->out, PROFILE_DEFAULT_SAMPLE_TYPE, type);
    if (profile->wall_start_ns)
        lw_proto_add_u64(w->out, PROFILE_TIME_NANOS, profile->wall_start_ns);
    if (profile->end_ns > profile->start_ns)
        lw_proto_add_u64(w->out, PROFILE_DURATION_NANOS,
                         profile->end_ns - profile->start_ns);
    for (size_t i = 0; i < profile->process_count; i++)
        if (profile->processes[i].command)
            lw_proto_add_u64(w->out, PROFILE_COMMENT,
                             number_of(w, profile->processes[i].command));
    write_remark(w);
}

static void write_functions(struct writing *w)
{
    for (size_t i = 0; i < w->codes.count; i++) {
        const struct lw_frame *frame = lw_profile_frame(w->profile, w->codes.first[i]);

        lw_proto_add_u64(&w->message, FUNCTION_ID, i + 1);
        lw_proto_add_u64(&w->message, FUNCTION_NAME, number_of(w, frame->name));
        lw_proto_add_u64(&w->message, FUNCTION_FILENAME, number_of(w, frame->file));
        lw_proto_add_u64(&w->message, FUNCTION_START_LINE, frame->first_line);
        lw_proto_add_message(w->out, PROFILE_FUNCTION, &w->message);
    }
}

static void write_locations(struct writing *w)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(w->profile->stacks, &count);

    for (size_t i = 0; i < count; i++) {
        uint32_t line = frames[i].line ? frames[i].line : frames[i].first_line;

        lw_proto_add_u64(&w->inner, LINE_FUNCTION_ID, w->codes.code_of[i] + 1);
        lw_proto_add_u64(&w->inner, LINE_LINE, line);
        if (frames[i].column)
            lw_proto_add_u64(&w->inner, LINE_COLUMN, frames[i].column);
        lw_proto_add_u64(&w->message, LOCATION_ID, i + 1);
        lw_proto_add_message(&w->message, LOCATION_LINE, &w->inner);
        lw_proto_add_message(w->out, PROFILE_LOCATION, &w->message);
    }
}

static void add_label(struct writing *w, enum word key, uint32_t field, uint64_t value)
{
    lw_proto_add_u64(&w->inner, LABEL_KEY, key);
    lw_proto_add_u64(&w->inner, field, value);
    lw_proto_add_message(&w->labels, SAMPLE_LABEL, &w->inner);
}

static void label_thread(struct writing *w, const struct lw_thread *thread)
{
    lw_buf_reset(&w->labels);
    if (thread->name)
        add_label(w, WORD_THREAD, LABEL_STR, number_of(w, thread->name));
    add_label(w, WORD_TID, LABEL_NUM, thread->tid);
    add_label(w, WORD_PID, LABEL_NUM, w->profile->processes[thread->process].pid);
}

static void write_sample(struct writing *w, const struct lw_call_row *row)
{
    for (lw_stack_id s = row->stack; s != LW_NO_STACK; s = w->stacks[s].parent)
        lw_buf_add_varint(&w->packed, (uint64_t)w->stacks[s].frame + 1);
    lw_proto_add_message(&w->message, SAMPLE_LOCATION_ID, &w->packed);
    if (w->weights.source == LW_GRAPH_CALLS)
        lw_buf_add_varint(&w->packed, row->calls);
    lw_buf_add_varint(&w->packed, row->self_ns);
    lw_proto_add_message(&w->message, SAMPLE_VALUE, &w->packed);
    lw_buf_add(&w->message, w->labels.bytes, w->labels.len);
    lw_proto_add_message(w->out, PROFILE_SAMPLE, &w->message);
}

static bool write_profile(struct writing *w, struct lw_error *err)
{
    const struct lw_call_row *rows = w->weights.rows;

    w->number_of =
        lw_zalloc(lw_strings_count(w->profile->strings), sizeof(*w->number_of), err);
    if (!w->number_of)
        return false;
    start_table(w);
    write_head(w);
    for (size_t i = 0; i < w->weights.count; i++) {
        if (i == 0 || rows[i].thread != rows[i - 1].thread) {
            label_thread(w, &w->profile->threads[rows[i].thread]);
            if (!lw_buf_check(&w->labels, err)) /* the next reset would forget it */
                return false;
        }
        write_sample(w, &rows[i]);
    }
    write_locations(w);
    write_functions(w);
    if (!lw_buf_check(&w->table, err))
        return false;
    lw_buf_add(w->out, w->table.bytes, w->table.len);
    return lw_buf_check(w->out, err);
}

static bool write_pprof(const struct lw_profile *profile, struct lw_buf *out,
                        struct lw_error *err)
{
    struct lw_buf plain;
    struct writing w = { .profile = profile, .out = &plain };
    size_t count;
    bool done;

    lw_buf_init(&plain, 0);
    w.stacks = lw_stacks_list(profile->stacks, &count);
    done = lw_weights_init(&w.weights, profile, err) &&
           lw_codes_init(&w.codes, profile, LW_ALIKE_NAME, err) &&
           write_profile(&w, err) && lw_deflate(plain.bytes, plain.len, out, err);
    lw_buf_release(&w.message);
    lw_buf_release(&w.inner);
    lw_buf_release(&w.packed);
    lw_buf_release(&w.labels);
    lw_buf_release(&w.table);
    lw_buf_release(&plain);
    lw_free(w.number_of);
    lw_codes_release(&w.codes);
    lw_weights_release(&w.weights);
    return done;
}

const struct lw_writer lw_writer_pprof = {
    .name = "pprof",
    .summary =
        "what go tool pprof opens: calls and nanoseconds of stacks, with threads",
    .suffixes = ".pb.gz .pprof",
    .is_binary = true,
    .lacks = "when functions were called; counters",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_pprof,
};
