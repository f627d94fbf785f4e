/* What cProfile, profile, yappi, pyinstrument and Python's own sampler save for pstats:
 * one dict in Python's marshal format.
 *
 *     { (file, line, name): (primitive calls, calls, self s, total s, callers), ... }
 *     callers: { (file, line, name): (calls, primitive calls, self s, total s), ... }
 *
 * Mind the order of the two counts: it is turned round in callers. profile.py and the
 * sampler of 3.15 give a caller a plain count instead of a tuple; the sampler also adds
 * ("__sampled__",): True. A caller need not be a key of the dict itself (yappi filters):
 * it becomes a function whose costs are not known.
 *
 * Where such a mark, or our own (model/pstats_marks.h), says that the counts are of samples,
 * they are taken as samples: on top of the stack (first) and anywhere in it (second).
 *
 * Nearly every key after the first is a reference to a tuple or to names met before, so
 * what was made of each is noted with the reference, and most of the file is read
 * without hashing a string. Nothing here is deeper than the drawing above, so nothing
 * recurses. The bytes are data: they are checked, never executed. */

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/marshal_code.h"
#include "model/pstats_marks.h"
#include "readers/reader.h"

/* A caller as it stands in the file; its function may come later. */
struct caller {
    lw_frame_id frame;
    uint32_t callee; /* index of a function */
    struct lw_graph_cost cost;
};

/* Whether a frame was met before, and as what. */
struct known {
    uint32_t function; /* 1 + its index; 0: not met as a key */
    uint32_t calls;    /* 1 + the callee whose callers it was met in last; 0: none */
};

struct reading {
    struct lw_marshal_in in;
    struct lw_builder *out;
    struct known *known; /* by frame */
    size_t known_count;
    size_t known_capacity;
    struct caller *callers;
    size_t caller_count;
    size_t caller_capacity;
    bool has_samples;   /* the counts are of samples */
    bool has_no_counts; /* or of nothing: they are all 1 */
};

static bool fail_kind(const struct lw_marshal_value *value, const char *wanted,
                      struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s where %s should be",
                   value->offset, lw_marshal_kind_name(value->kind), wanted);
}

static bool fail_twice(const struct lw_marshal_value *key, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a function for the second time",
                   key->offset);
}

static bool next_of(struct reading *r, enum lw_marshal_kind kind, const char *wanted,
                    struct lw_marshal_value *value, struct lw_error *err)
{
    if (!lw_marshal_next(&r->in, value, err))
        return false;
    return value->kind == kind || fail_kind(value, wanted, err);
}

/* A code object for a name, as profile.py has it for the program it runs: named as its
 * repr is, but for the address. */
static bool name_code(struct reading *r, const struct lw_marshal_value *value,
                      lw_string_id *id, struct lw_error *err)
{
    struct lw_marshal_code code;
    struct lw_buf text;
    bool done;

    if (!lw_marshal_read_code(&r->in, value, &code, err))
        return false;
    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "<code object ");
    lw_buf_add(&text, code.name, code.name_len);
    lw_buf_add_text(&text, ", file \"");
    lw_buf_add(&text, code.file, code.file_len);
    lw_buf_addf(&text, "\", line %u>", code.first_line);
    done = lw_buf_check(&text, err) &&
           lw_builder_string(r->out, text.bytes, text.len, id, err);
    lw_buf_release(&text);
    return done;
}

static bool read_text(struct reading *r, const char *wanted, lw_string_id *id,
                      struct lw_error *err)
{
    struct lw_marshal_value value;
    uint32_t made;

    if (!lw_marshal_next(&r->in, &value, err))
        return false;
    if (value.kind != LW_MARSHAL_TEXT && value.kind != LW_MARSHAL_CODE)
        return fail_kind(&value, wanted, err);
    made = lw_marshal_made(&r->in, &value);
    if (made) {
        *id = made - 1;
        if (value.again)
            lw_marshal_end(&r->in, &value);
        return true;
    }
    if (!(value.kind == LW_MARSHAL_TEXT
              ? lw_builder_string(r->out, value.text, value.len, id, err)
              : name_code(r, &value, id, err)))
        return false;
    lw_marshal_note(&r->in, &value, *id + 1);
    return true;
}

static bool read_line_number(struct reading *r, uint32_t *line, struct lw_error *err)
{
    struct lw_marshal_value value;

    if (!next_of(r, LW_MARSHAL_INT, "a line number", &value, err))
        return false;
    if (value.integer < 0 || value.integer > UINT32_MAX)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a line number of %.0f",
                       value.offset, value.number);
    *line = (uint32_t)value.integer;
    return true;
}

static bool know_frame(struct reading *r, lw_frame_id id, struct lw_error *err)
{
    if (!lw_grow(&r->known, &r->known_capacity, (size_t)id + 1, sizeof(*r->known), err))
        return false;
    while (r->known_count <= id)
        r->known[r->known_count++] = (struct known){ 0 };
    return true;
}

/* The frame of a key whose tuple is KEY, just begun. */
static bool read_key(struct reading *r, const struct lw_marshal_value *key,
                     lw_frame_id *id, struct lw_error *err)
{
    struct lw_frame frame = { 0 };
    uint32_t made;

    if (key->kind != LW_MARSHAL_TUPLE || key->count != 3)
        return fail_kind(key, "a function's (file, line, name)", err);
    made = lw_marshal_made(&r->in, key);
    if (made && key->again) {
        lw_marshal_end(&r->in, key);
        *id = made - 1;
        return true;
    }
    if (!read_text(r, "a file's name", &frame.file, err) ||
        !read_line_number(r, &frame.first_line, err) ||
        !read_text(r, "a function's name", &frame.name, err))
        return false;
    if (frame.first_line == 0 &&
        strcmp(lw_profile_text(lw_builder_profile(r->out), frame.file), "~") == 0) {
        frame.file = 0;
        frame.kind = LW_FRAME_C;
    }
    if (!lw_builder_frame(r->out, &frame, id, err) || !know_frame(r, *id, err))
        return false;
    lw_marshal_note(&r->in, key, *id + 1);
    lw_marshal_end(&r->in, key);
    return true;
}

/* What the counts of COST are, a mark has said. */
static void take_counts(const struct reading *r, struct lw_graph_cost *cost)
{
    if (r->has_samples) {
        cost->self_samples = cost->primitive_calls;
        cost->total_samples = cost->calls;
    }
    if (r->has_samples || r->has_no_counts)
        cost->calls = cost->primitive_calls = 0;
}

/* Is frame ID our mark, a builtin whose name is a sentence? From here on it holds. */
static bool is_our_mark(struct reading *r, lw_frame_id id)
{
    const struct lw_profile *profile = lw_builder_profile(r->out);
    const struct lw_frame *frame = lw_profile_frame(profile, id);
    const char *name = lw_profile_text(profile, frame->name);

    if (frame->kind != LW_FRAME_C || frame->file != 0)
        return false;
    r->has_samples |= strcmp(name, LW_PSTATS_SAMPLES) == 0;
    r->has_no_counts |= strcmp(name, LW_PSTATS_NO_COUNTS) == 0;
    return strcmp(name, LW_PSTATS_SAMPLES) == 0 ||
           strcmp(name, LW_PSTATS_NO_COUNTS) == 0;
}

static bool read_calls(struct reading *r, int64_t *calls, struct lw_error *err)
{
    struct lw_marshal_value value;

    if (!next_of(r, LW_MARSHAL_INT, "a number of calls", &value, err))
        return false;
    if (value.number >= 0x1p63 || value.number < -0x1p63)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a number of calls above 2^63",
                       value.offset);
    *calls = value.integer;
    return true;
}

static bool read_seconds(struct reading *r, double *seconds, struct lw_error *err)
{
    struct lw_marshal_value value;

    if (!lw_marshal_next(&r->in, &value, err))
        return false;
    if (value.kind != LW_MARSHAL_FLOAT && value.kind != LW_MARSHAL_INT)
        return fail_kind(&value, "a time in seconds", err);
    if (!isfinite(value.number))
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a time that is no number",
                       value.offset);
    *seconds = value.number;
    return true;
}

static bool read_caller_cost(struct reading *r, struct lw_graph_cost *cost,
                             struct lw_error *err)
{
    struct lw_marshal_value value;

    *cost = (struct lw_graph_cost){ 0 };
    if (!lw_marshal_next(&r->in, &value, err))
        return false;
    if (value.kind == LW_MARSHAL_INT && fabs(value.number) < 0x1p63) {
        cost->calls = cost->primitive_calls = value.integer;
        cost->self_s = cost->total_s = NAN; /* profile.py counts only */
        take_counts(r, cost);
        cost->self_samples = 0;
        return true;
    }
    if (value.kind != LW_MARSHAL_TUPLE || value.count != 4)
        return fail_kind(&value, "a caller's (calls, primitive calls, self, total)",
                         err);
    if (!read_calls(r, &cost->calls, err) ||
        !read_calls(r, &cost->primitive_calls, err) ||
        !read_seconds(r, &cost->self_s, err) || !read_seconds(r, &cost->total_s, err))
        return false;
    take_counts(r, cost);
    cost->self_samples = 0; /* of a pair that is not said */
    lw_marshal_end(&r->in, &value);
    return true;
}

static bool read_callers(struct reading *r, uint32_t callee, struct lw_error *err)
{
    struct lw_marshal_value dict, key;

    if (!next_of(r, LW_MARSHAL_DICT, "a dict of callers", &dict, err))
        return false;
    for (;;) {
        struct caller *caller;

        if (!lw_marshal_next(&r->in, &key, err))
            return false;
        if (key.kind == LW_MARSHAL_NULL)
            break;
        if (!lw_grow(&r->callers, &r->caller_capacity, r->caller_count + 1,
                     sizeof(*r->callers), err))
            return false;
        caller = &r->callers[r->caller_count++];
        caller->callee = callee;
        if (!read_key(r, &key, &caller->frame, err) ||
            !read_caller_cost(r, &caller->cost, err))
            return false;
        if (r->known[caller->frame].calls == callee + 1)
            return fail_twice(&key, err);
        r->known[caller->frame].calls = callee + 1;
    }
    lw_marshal_end(&r->in, &dict);
    return true;
}

static bool read_function(struct reading *r, const struct lw_marshal_value *key,
                          struct lw_error *err)
{
    struct lw_graph_function function = { 0 };
    struct lw_marshal_value value;
    size_t callers_before = r->caller_count;
    uint32_t index = LW_NONE; /* of a mark: it is no function */
    bool is_mark;

    if (!read_key(r, key, &function.frame, err))
        return false;
    if (r->known[function.frame].function)
        return fail_twice(key, err);
    if (!next_of(r, LW_MARSHAL_TUPLE, "a function's figures", &value, err))
        return false;
    if (value.count != 5)
        return lw_fail(err, LW_ERR_FORMAT,
                       "at byte %zu: a function with %u figures instead of 5",
                       value.offset, value.count);
    if (!read_calls(r, &function.cost.primitive_calls, err) ||
        !read_calls(r, &function.cost.calls, err) ||
        !read_seconds(r, &function.cost.self_s, err) ||
        !read_seconds(r, &function.cost.total_s, err))
        return false;
    is_mark = is_our_mark(r, function.frame);
    take_counts(r, &function.cost);
    if (!is_mark && !lw_builder_function(r->out, &function, &index, err))
        return false;
    if (!is_mark)
        r->known[function.frame].function = index + 1;
    if (!read_callers(r, index, err))
        return false;
    if (is_mark)
        r->caller_count = callers_before; /* ours has none */
    lw_marshal_end(&r->in, &value);
    return true;
}

/* ("__sampled__",): True, by which Python 3.15 marks what its sampler saved. */
static bool read_mark(struct reading *r, const struct lw_marshal_value *key,
                      struct lw_error *err)
{
    struct lw_marshal_value text, value;

    if (!next_of(r, LW_MARSHAL_TEXT, "a mark's name", &text, err))
        return false;
    if (text.len != 11 || memcmp(text.text, "__sampled__", 11) != 0)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a mark that is not known",
                       text.offset);
    lw_marshal_end(&r->in, key);
    r->has_samples = true;
    return next_of(r, LW_MARSHAL_BOOL, "a mark's value", &value, err);
}

static bool read_functions(struct reading *r, struct lw_error *err)
{
    struct lw_marshal_value dict, key;
    bool done = true;

    if (!next_of(r, LW_MARSHAL_DICT, "the dict of a saved profile", &dict, err))
        return false;
    while (done) {
        if (!lw_marshal_next(&r->in, &key, err))
            return false;
        if (key.kind == LW_MARSHAL_NULL)
            return true; /* what may follow is nothing that pstats would read */
        if (key.kind == LW_MARSHAL_TUPLE && key.count == 1)
            done = read_mark(r, &key, err);
        else
            done = read_function(r, &key, err);
    }
    return false;
}

/* Now that all functions are there, callers that are not among them are added. */
static bool add_edges(struct reading *r, struct lw_error *err)
{
    for (size_t i = 0; i < r->caller_count; i++) {
        const struct caller *caller = &r->callers[i];
        struct known *known = &r->known[caller->frame];
        struct lw_graph_edge edge = { .callee = caller->callee, .cost = caller->cost };

        if (!known->function) {
            const struct lw_graph_function function = {
                .frame = caller->frame,
                .cost = { .self_s = NAN, .total_s = NAN },
            };
            uint32_t index;

            if (!lw_builder_function(r->out, &function, &index, err))
                return false;
            known->function = index + 1;
        }
        edge.caller = known->function - 1;
        if (!lw_builder_edge(r->out, &edge, err))
            return false;
    }
    return true;
}

static bool read_pstats(const struct lw_source *source, unsigned want,
                        struct lw_builder *out, struct lw_error *err)
{
    struct reading r = { .out = out };
    bool done;

    (void)want; /* there is nothing in the file but calls */
    lw_marshal_init(&r.in, source->view.bytes, source->view.len);
    done = read_functions(&r, err) && add_edges(&r, err);
    lw_marshal_release(&r.in);
    lw_free(r.known);
    lw_free(r.callers);
    return done;
}

/* A dict, and in it a tuple or nothing. No JSON text begins so; if there is only one
 * byte, a profile that was cut short is as good a guess as any. */
static bool sniff_pstats(const struct lw_source *source)
{
    unsigned char second;

    if (source->head_len == 0 || (source->head[0] & 0x7f) != '{')
        return false;
    if (source->head_len == 1)
        return true;
    second = source->head[1] & 0x7f;
    return second == ')' || second == '(' || second == '0';
}

const struct lw_reader lw_reader_pstats = {
    .name = "pstats",
    .summary = "what cProfile, profile, yappi and pyinstrument save for pstats",
    .suffixes = ".prof .pstats .pstat .cprof .profile",
    .sniff = sniff_pstats,
    .read = read_pstats,
};
