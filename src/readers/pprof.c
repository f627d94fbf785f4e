/* pprof's profile.proto: what Go, perf_to_profile, memray, Pyroscope and many others
 * write for `pprof`, as a protocol buffer, nearly always in gzip.
 *
 *     Profile                           field
 *       sample_type   ValueType          1     what the values of a sample are
 *       sample        Sample             2     locations (the last called first), values
 *       mapping       Mapping            3     files of machine code
 *       location      Location           4     an address: lines, the innermost first
 *       function      Function           5     name, file, first line
 *       string_table  string             6     what all others refer to by number
 *       time_nanos, duration_nanos       9, 10
 *       period_type, period             11, 12
 *       default_sample_type             14
 *
 * A message may be in any order and refer to what comes later, so it is walked twice:
 * first all but the samples, then those. A location with several lines is a function with
 * what was inlined into it, and becomes as many frames; one without lines is an address.
 *
 * Of the values one is taken: a time if there is one, a count times the period if that
 * is a time, else the default, and then the fact "unit" says what 1 ns is. Calls that
 * are counted beside a time (we write them) make rows of calls. Labels say the thread.
 *
 * The wire format is simple enough to be read by hand (encoding: protobuf.dev): a field
 * is a tag (number << 3 | type) and a varint, 4 or 8 bytes, or a length and bytes.
 * Messages are nested three deep, each read by a loop of its own. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/varint.h"
#include "model/measure.h"
#include "readers/frames.h"
#include "readers/reader.h"

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
    uint32_t number;
    enum wire wire;
    uint64_t value;         /* of a number; of bytes: how many */
    struct lw_cursor bytes; /* of a string or message */
};

struct text {
    const char *bytes;
    size_t len;
};

struct value_type {
    uint64_t type, unit; /* strings */
};

/* Things that are known by any number that the file likes. */
struct numbered {
    uint64_t *ids;
    size_t count;
    size_t capacity;
    struct lw_map map; /* index + 1 */
};

struct location {
    size_t first_line; /* in `lines` */
    size_t line_count;
};

struct thread {
    uint64_t pid, tid;
    lw_string_id name;
    uint32_t index;
};

struct reading {
    const unsigned char *start;
    struct lw_builder *out;
    struct text *strings;
    size_t string_count;
    size_t string_capacity;
    struct value_type *types;
    size_t type_count;
    size_t type_capacity;
    struct numbered function_ids;
    struct lw_told_frame *functions;
    size_t function_capacity;
    struct numbered location_ids;
    struct location *locations;
    size_t location_capacity;
    struct numbered mapping_ids;
    lw_string_id *mappings; /* their files */
    size_t mapping_capacity;
    struct lw_told_frame *lines; /* of all locations */
    size_t line_count;
    size_t line_capacity;
    lw_frame_id *frames;         /* of the lines */
    struct numbered process_ids; /* their index is the builder's */
    struct thread *threads;
    size_t thread_count;
    size_t thread_capacity;
    struct lw_map thread_map; /* index + 1 */
    uint64_t *stack;          /* locations of the sample at hand */
    size_t stack_len;
    size_t stack_capacity;
    uint64_t *values;
    size_t value_count;
    size_t value_capacity;
    struct value_type period_type;
    uint64_t period, time_ns, duration_ns, default_type;
    size_t weight; /* which value is taken */
    size_t calls;  /* which counts calls; type_count: none */
    uint64_t scale;
    bool is_time;
};

static bool fail_at(const struct reading *r, const struct lw_cursor *at,
                    const char *what, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s", (size_t)(at->next - r->start),
                   what);
}

/* The wire */

/* The next field; false at the end, or if it is none, and then the cursor failed. */
static bool next_field(struct lw_cursor *in, struct field *field)
{
    uint64_t tag;
    const void *bytes;

    field->bytes = lw_cursor_make(in->next, 0);
    if (in->failed || lw_cursor_left(in) == 0)
        return false;
    tag = lw_cursor_varint(in);
    field->number = (uint32_t)(tag >> 3);
    field->wire = (enum wire)(tag & 7);
    if (tag > UINT32_MAX || field->number == 0)
        in->failed = true;
    switch (field->wire) {
    case WIRE_VARINT: field->value = lw_cursor_varint(in); break;
    case WIRE_64: field->value = lw_cursor_u64(in); break;
    case WIRE_32: field->value = lw_cursor_u32(in); break;
    case WIRE_BYTES:
        field->value = lw_cursor_varint(in);
        bytes = lw_cursor_bytes(in, field->value);
        if (bytes)
            field->bytes = lw_cursor_make(bytes, (size_t)field->value);
        else
            in->failed = true;
        break;
    default: in->failed = true;
    }
    return !in->failed;
}

static bool ended(const struct reading *r, const struct lw_cursor *in,
                  struct lw_error *err)
{
    return !in->failed || fail_at(r, in, "not a field of a protocol buffer", err);
}

static bool is_message(const struct field *field)
{
    return field->wire == WIRE_BYTES;
}

/* Numbers that may be packed into bytes, or come one by one. */
static bool add_numbers(const struct reading *r, const struct field *field,
                        uint64_t **list, size_t *count, size_t *capacity,
                        struct lw_error *err)
{
    struct lw_cursor in = field->bytes;

    if (field->wire != WIRE_BYTES) {
        if (!lw_grow(list, capacity, *count + 1, sizeof(**list), err))
            return false;
        (*list)[(*count)++] = field->value;
        return true;
    }
    while (lw_cursor_left(&in) > 0 && !in.failed) {
        if (*count == *capacity &&
            !lw_grow(list, capacity, *count + 1, sizeof(**list), err))
            return false;
        (*list)[(*count)++] = lw_cursor_varint(&in);
    }
    return ended(r, &in, err);
}

/* Numbers that the file gives */

static bool is_id(const void *owner, uint32_t number, const void *key)
{
    return ((const struct numbered *)owner)->ids[number - 1] == *(const uint64_t *)key;
}

/* Index + 1 of what has this number; 0: nothing has. Files mostly count from 1. */
static uint32_t find_id(const struct numbered *numbered, uint64_t id)
{
    if (id - 1 < numbered->count && numbered->ids[id - 1] == id)
        return (uint32_t)id;
    return lw_map_find(&numbered->map, lw_hash_u64(id), is_id, numbered, &id);
}

static bool add_id(struct numbered *numbered, uint64_t id, struct lw_error *err)
{
    if (numbered->count >= LW_NONE - 1)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 of a kind");
    if (!lw_grow(&numbered->ids, &numbered->capacity, numbered->count + 1,
                 sizeof(*numbered->ids), err))
        return false;
    if (!find_id(numbered, id) && !lw_map_add(&numbered->map, lw_hash_u64(id),
                                              (uint32_t)numbered->count + 1, err))
        return false;
    numbered->ids[numbered->count++] = id;
    return true;
}

static void release_ids(struct numbered *numbered)
{
    lw_free(numbered->ids);
    lw_map_release(&numbered->map);
}

/* The first walk */

static bool string_id(struct reading *r, const struct lw_cursor *at, uint64_t number,
                      lw_string_id *id, struct lw_error *err)
{
    if (number >= r->string_count)
        return fail_at(r, at, "a string that is not in the table", err);
    return lw_builder_string(r->out, r->strings[number].bytes, r->strings[number].len,
                             id, err);
}

static bool is_text(const struct reading *r, uint64_t number, const char *text)
{
    return number < r->string_count && r->strings[number].len == strlen(text) &&
           memcmp(r->strings[number].bytes, text, r->strings[number].len) == 0;
}

static bool read_value_type(const struct reading *r, struct lw_cursor in,
                            struct value_type *type, struct lw_error *err)
{
    struct field field;

    *type = (struct value_type){ 0, 0 };
    while (next_field(&in, &field)) {
        if (field.number == 1)
            type->type = field.value;
        else if (field.number == 2)
            type->unit = field.value;
    }
    return ended(r, &in, err);
}

static bool read_function(struct reading *r, struct lw_cursor in, struct lw_error *err)
{
    uint64_t id = 0, name = 0, file = 0, line = 0;
    struct lw_told_frame told = { 0 };
    struct field field;

    while (next_field(&in, &field)) {
        switch (field.number) {
        case 1: id = field.value; break;
        case 2: name = field.value; break;
        case 4: file = field.value; break;
        case 5: line = field.value; break;
        default: break;
        }
    }
    if (!ended(r, &in, err) || !string_id(r, &in, name, &told.name, err) ||
        !string_id(r, &in, file, &told.file, err) ||
        !lw_grow(&r->functions, &r->function_capacity, r->function_ids.count + 1,
                 sizeof(told), err))
        return false;
    told.first_line = line <= UINT32_MAX ? (uint32_t)line : 0;
    r->functions[r->function_ids.count] = told;
    return add_id(&r->function_ids, id, err);
}

static bool read_mapping(struct reading *r, struct lw_cursor in, struct lw_error *err)
{
    uint64_t id = 0, file = 0;
    lw_string_id string;
    struct field field;

    while (next_field(&in, &field)) {
        if (field.number == 1)
            id = field.value;
        else if (field.number == 5)
            file = field.value;
    }
    if (!ended(r, &in, err) || !string_id(r, &in, file, &string, err) ||
        !lw_grow(&r->mappings, &r->mapping_capacity, r->mapping_ids.count + 1,
                 sizeof(string), err))
        return false;
    r->mappings[r->mapping_ids.count] = string;
    return add_id(&r->mapping_ids, id, err);
}

static bool add_line(struct reading *r, const struct lw_told_frame *told,
                     struct lw_error *err)
{
    if (!lw_grow(&r->lines, &r->line_capacity, r->line_count + 1, sizeof(*told), err))
        return false;
    r->lines[r->line_count++] = *told;
    return true;
}

static bool read_line(struct reading *r, struct lw_cursor in, struct lw_error *err)
{
    uint64_t function = 0, line = 0, column = 0;
    struct lw_told_frame told;
    struct field field;
    uint32_t number;

    while (next_field(&in, &field)) {
        if (field.number == 1)
            function = field.value;
        else if (field.number == 2)
            line = field.value;
        else if (field.number == 3)
            column = field.value;
    }
    if (!ended(r, &in, err))
        return false;
    number = find_id(&r->function_ids, function);
    if (!number)
        return fail_at(r, &in, "a line of a function that is not there", err);
    told = r->functions[number - 1];
    told.line = line <= UINT32_MAX ? (uint32_t)line : 0;
    told.column = column <= UINT16_MAX ? (uint16_t)column : 0;
    if (told.line == told.first_line && told.column == 0)
        told.line = 0; /* the function, as we write it */
    return add_line(r, &told, err);
}

static bool add_address(struct reading *r, uint64_t address, uint64_t mapping,
                        struct lw_error *err)
{
    uint32_t number = find_id(&r->mapping_ids, mapping);
    struct lw_told_frame told = { .file = number ? r->mappings[number - 1] : 0 };
    char name[24]; /* 0x and 16 digits */

    snprintf(name, sizeof(name), "0x%" PRIx64, address);
    return lw_builder_string(r->out, name, strlen(name), &told.name, err) &&
           add_line(r, &told, err);
}

static bool read_location(struct reading *r, struct lw_cursor in, struct lw_error *err)
{
    struct location location = { .first_line = r->line_count };
    uint64_t id = 0, mapping = 0, address = 0;
    struct field field;

    while (next_field(&in, &field)) {
        if (field.number == 1)
            id = field.value;
        else if (field.number == 2)
            mapping = field.value;
        else if (field.number == 3)
            address = field.value;
        else if (field.number == 4 && is_message(&field) &&
                 !read_line(r, field.bytes, err))
            return false;
    }
    if (!ended(r, &in, err) ||
        (r->line_count == location.first_line &&
         !add_address(r, address, mapping, err)) ||
        !lw_grow(&r->locations, &r->location_capacity, r->location_ids.count + 1,
                 sizeof(location), err))
        return false;
    location.line_count = r->line_count - location.first_line;
    r->locations[r->location_ids.count] = location;
    return add_id(&r->location_ids, id, err);
}

static bool read_string(struct reading *r, const struct field *field,
                        struct lw_error *err)
{
    struct text text = { (const char *)field->bytes.next, (size_t)field->value };

    if (!lw_grow(&r->strings, &r->string_capacity, r->string_count + 1, sizeof(text),
                 err))
        return false;
    r->strings[r->string_count++] = text;
    return true;
}

static bool read_type(struct reading *r, struct lw_cursor in, struct lw_error *err)
{
    return lw_grow(&r->types, &r->type_capacity, r->type_count + 1, sizeof(*r->types),
                   err) &&
           read_value_type(r, in, &r->types[r->type_count++], err);
}

/* What needs nothing else, then what names strings, then what names those. */
enum pass { PASS_STRINGS, PASS_FUNCTIONS, PASS_LOCATIONS, PASS_SAMPLES };

static bool read_sample(struct reading *r, struct lw_cursor in, struct lw_error *err);

static bool read_field(struct reading *r, enum pass pass, const struct field *field,
                       struct lw_error *err)
{
    if (pass == PASS_STRINGS) {
        switch (field->number) {
        case 1: return !is_message(field) || read_type(r, field->bytes, err);
        case 6: return !is_message(field) || read_string(r, field, err);
        case 9: r->time_ns = field->value; return true;
        case 10: r->duration_ns = field->value; return true;
        case 11:
            return !is_message(field) ||
                   read_value_type(r, field->bytes, &r->period_type, err);
        case 12: r->period = field->value; return true;
        case 14: r->default_type = field->value; return true;
        default: return true;
        }
    }
    if (!is_message(field))
        return true;
    if (pass == PASS_FUNCTIONS && field->number == 5)
        return read_function(r, field->bytes, err);
    if (pass == PASS_FUNCTIONS && field->number == 3)
        return read_mapping(r, field->bytes, err);
    if (pass == PASS_LOCATIONS && field->number == 4)
        return read_location(r, field->bytes, err);
    if (pass == PASS_SAMPLES && field->number == 2)
        return read_sample(r, field->bytes, err);
    return true;
}

static bool walk(struct reading *r, size_t len, enum pass pass, struct lw_error *err)
{
    struct lw_cursor in = lw_cursor_make(r->start, len);
    struct field field;

    while (next_field(&in, &field))
        if (!read_field(r, pass, &field, err))
            return false;
    return ended(r, &in, err);
}

/* Which value */

static uint64_t time_scale(const struct reading *r, uint64_t unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } times[] = { { "nanoseconds", 1 },        { "ns", 1 },
                  { "microseconds", 1000 },    { "us", 1000 },
                  { "milliseconds", 1000000 }, { "ms", 1000000 },
                  { "seconds", 1000000000 },   { "s", 1000000000 } };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (is_text(r, unit, times[i].name))
            return times[i].ns;
    return 0;
}

static void choose_value(struct reading *r)
{
    r->calls = r->type_count;
    r->weight = r->type_count ? r->type_count - 1 : 0; /* pprof's own choice */
    for (size_t i = r->type_count; i-- > 0;) {
        if (r->default_type && r->types[i].type == r->default_type)
            r->weight = i;
        if (is_text(r, r->types[i].type, "calls") &&
            is_text(r, r->types[i].unit, "count"))
            r->calls = i;
    }
    if (r->type_count == 0)
        return;
    for (size_t i = 0; i < r->type_count; i++)
        if (!time_scale(r, r->types[r->weight].unit) && time_scale(r, r->types[i].unit))
            r->weight = i;
    r->scale = time_scale(r, r->types[r->weight].unit);
    if (!r->scale && r->period && time_scale(r, r->period_type.unit) &&
        is_text(r, r->types[r->weight].unit, "count") &&
        __builtin_mul_overflow(r->period, time_scale(r, r->period_type.unit),
                               &r->scale))
        r->scale = 0;
    r->is_time = r->scale > 0;
    if (!r->is_time)
        r->scale = 1;
}

/* "bytes of inuse_space" */
static void add_type(const struct reading *r, const struct value_type *type,
                     struct lw_buf *text)
{
    if (type->unit < r->string_count)
        lw_buf_add(text, r->strings[type->unit].bytes, r->strings[type->unit].len);
    lw_buf_add_text(text, " of ");
    if (type->type < r->string_count)
        lw_buf_add(text, r->strings[type->type].bytes, r->strings[type->type].len);
}

static bool add_unit(struct reading *r, struct lw_error *err)
{
    const struct value_type *type;
    struct lw_buf text;
    bool done, is_bytes;

    if (r->is_time || r->type_count == 0)
        return true;
    type = &r->types[r->weight];
    is_bytes = is_text(r, type->unit, "bytes");
    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "1 ns is 1 ");
    add_type(r, type, &text);
    done = lw_buf_check(&text, err) &&
           lw_builder_fact(r->out, "unit", text.bytes, text.len, err);
    lw_buf_reset(&text);
    lw_buf_add_text(&text, "Figures are ");
    if (is_text(r, type->unit, "count") && type->type < r->string_count)
        lw_buf_add(&text, r->strings[type->type].bytes, r->strings[type->type].len);
    else
        add_type(r, type, &text);
    lw_buf_add_text(&text, ", not times");
    done = done && lw_buf_check(&text, err) &&
           lw_measure_set(r->out, is_bytes ? LW_UNIT_BYTES : LW_UNIT_COUNT, text.bytes,
                          err);
    lw_buf_release(&text);
    return done;
}

/* Samples */

static bool is_thread(const void *owner, uint32_t number, const void *key)
{
    const struct thread *a = &((const struct reading *)owner)->threads[number - 1];
    const struct thread *b = key;

    return a->pid == b->pid && a->tid == b->tid && a->name == b->name;
}

static bool find_process(struct reading *r, uint64_t pid, uint32_t *index,
                         struct lw_error *err)
{
    struct lw_process process = { .pid = pid, .rank = -1, .exit_code = -1 };
    uint32_t found = find_id(&r->process_ids, pid);

    if (found) {
        *index = found - 1;
        return true;
    }
    return add_id(&r->process_ids, pid, err) &&
           lw_builder_process(r->out, &process, index, err);
}

static bool find_thread(struct reading *r, struct thread *key, uint32_t *index,
                        struct lw_error *err)
{
    uint64_t hash =
        lw_hash_u64(lw_hash_u64(key->pid ^ (uint64_t)key->name << 32) + key->tid);
    uint32_t found = lw_map_find(&r->thread_map, hash, is_thread, r, key);
    struct lw_thread thread = { .tid = key->tid, .name = key->name };

    if (!found) {
        if (!find_process(r, key->pid, &thread.process, err) ||
            !lw_builder_thread(r->out, &thread, &key->index, err) ||
            !lw_grow(&r->threads, &r->thread_capacity, r->thread_count + 1,
                     sizeof(*key), err) ||
            !lw_map_add(&r->thread_map, hash, (uint32_t)r->thread_count + 1, err))
            return false;
        r->threads[r->thread_count++] = *key;
        found = (uint32_t)r->thread_count;
    }
    *index = r->threads[found - 1].index;
    return true;
}

static bool read_label(struct reading *r, struct lw_cursor in, struct thread *thread,
                       struct lw_error *err)
{
    uint64_t key = 0, text = 0, number = 0;
    struct field field;

    while (next_field(&in, &field)) {
        if (field.number == 1)
            key = field.value;
        else if (field.number == 2)
            text = field.value;
        else if (field.number == 3)
            number = field.value;
    }
    if (!ended(r, &in, err))
        return false;
    if (is_text(r, key, "pid"))
        thread->pid = number;
    else if (is_text(r, key, "tid") || is_text(r, key, "thread_id"))
        thread->tid = number;
    else if (text && (is_text(r, key, "thread") || is_text(r, key, "thread_name")))
        return string_id(r, &in, text, &thread->name, err);
    return true;
}

/* From the root: the last location first, and of each the last line first. */
static bool push_stack(struct reading *r, const struct lw_cursor *at,
                       lw_stack_id *stack, struct lw_error *err)
{
    *stack = LW_NO_STACK;
    for (size_t i = r->stack_len; i-- > 0;) {
        uint32_t number = find_id(&r->location_ids, r->stack[i]);
        const struct location *location;

        if (!number)
            return fail_at(r, at, "a sample of a location that is not there", err);
        location = &r->locations[number - 1];
        for (size_t line = location->line_count; line-- > 0;)
            if (!lw_builder_push(r->out, *stack, r->frames[location->first_line + line],
                                 stack, err))
                return false;
    }
    return true;
}

static bool read_sample_fields(struct reading *r, struct lw_cursor *in,
                               struct thread *thread, struct lw_error *err)
{
    struct field field;

    r->stack_len = r->value_count = 0;
    while (next_field(in, &field)) {
        bool done = true;

        if (field.number == 1)
            done = add_numbers(r, &field, &r->stack, &r->stack_len, &r->stack_capacity,
                               err);
        else if (field.number == 2)
            done = add_numbers(r, &field, &r->values, &r->value_count,
                               &r->value_capacity, err);
        else if (field.number == 3 && is_message(&field))
            done = read_label(r, field.bytes, thread, err);
        if (!done)
            return false;
    }
    return ended(r, in, err);
}

static bool read_sample(struct reading *r, struct lw_cursor in, struct lw_error *err)
{
    struct thread key = { 0 };
    struct lw_sample sample = { .time_ns = 0 };
    uint64_t value, calls;

    if (!read_sample_fields(r, &in, &key, err) ||
        !find_thread(r, &key, &sample.thread, err) ||
        !push_stack(r, &in, &sample.stack, err))
        return false;
    if (r->value_count != r->type_count)
        return fail_at(r, &in, "a sample with more or fewer values than types", err);
    value = r->type_count ? r->values[r->weight] : 0;
    calls = r->calls < r->type_count ? r->values[r->calls] : 0;
    if (value > INT64_MAX || calls > INT64_MAX)
        return fail_at(r, &in, "a value below 0: a difference is no profile", err);
    if (__builtin_mul_overflow(value, r->scale, &sample.weight_ns) ||
        sample.weight_ns > INT64_MAX)
        return fail_at(r, &in, "a value of more than 2^63 ns", err);
    if (r->calls < r->type_count && r->is_time) {
        struct lw_call_row row = { sample.thread, sample.stack, calls,
                                   sample.weight_ns };

        return lw_builder_calls(r->out, &row, err);
    }
    return sample.weight_ns == 0 || lw_builder_samples(r->out, &sample, 1, err);
}

static bool read_message(struct reading *r, size_t len, struct lw_error *err)
{
    if (!walk(r, len, PASS_STRINGS, err) || !walk(r, len, PASS_FUNCTIONS, err) ||
        !walk(r, len, PASS_LOCATIONS, err))
        return false;
    choose_value(r);
    r->frames = lw_alloc((r->line_count + 1) * sizeof(*r->frames), err);
    return r->frames &&
           lw_told_frames_add(r->lines, r->line_count, r->frames, r->out, err) &&
           walk(r, len, PASS_SAMPLES, err) && add_unit(r, err);
}

static bool read_pprof(const struct lw_source *source,
                       unsigned want __attribute__((unused)), struct lw_builder *out,
                       struct lw_error *err)
{
    struct reading r = { .start = source->view.bytes, .out = out, .scale = 1 };
    bool done = read_message(&r, source->view.len, err);

    if (done && r.time_ns && r.duration_ns <= INT64_MAX)
        lw_builder_set_times(out, 1, 1 + r.duration_ns, r.time_ns);
    lw_free(r.strings);
    lw_free(r.types);
    lw_free(r.functions);
    lw_free(r.locations);
    lw_free(r.mappings);
    lw_free(r.lines);
    lw_free(r.frames);
    lw_free(r.threads);
    lw_free(r.stack);
    lw_free(r.values);
    lw_map_release(&r.thread_map);
    release_ids(&r.process_ids);
    release_ids(&r.function_ids);
    release_ids(&r.location_ids);
    release_ids(&r.mapping_ids);
    return done;
}

/* A message of two small numbers at most, as a ValueType is. */
static bool is_value_type(struct lw_cursor in)
{
    struct field field;
    unsigned count = 0;

    while (next_field(&in, &field)) {
        if ((field.number != 1 && field.number != 2) || field.wire != WIRE_VARINT)
            return false;
        count++;
    }
    return !in.failed && count > 0 && count <= 2;
}

/* There is no magic. But every writer begins with what the samples are, and then all of
 * the head must be fields that a Profile has, of their types. */
static bool sniff_pprof(const struct lw_source *source)
{
    /* by field: a message or string (2), a number (0), packed or not (3) */
    static const char wires[] = "?222222000020300";
    struct lw_cursor in = lw_cursor_make(source->head, source->head_len);
    struct field field;
    size_t count = 0;

    while (next_field(&in, &field)) {
        if (field.number >= sizeof(wires) - 1)
            return false;
        if (count == 0 &&
            (field.number != 1 || !is_message(&field) || !is_value_type(field.bytes)))
            return false;
        if (wires[field.number] != '3' &&
            (unsigned)field.wire != (unsigned)(wires[field.number] - '0'))
            return false;
        count++;
    }
    return count > 2 || (count > 0 && !in.failed);
}

const struct lw_reader lw_reader_pprof = {
    .name = "pprof",
    .summary = "profile.proto, plain or in gzip (go tool pprof, perf, Pyroscope)",
    .suffixes = ".pprof .pb",
    .sniff = sniff_pprof,
    .read = read_pprof,
};
