/* What torch.profiler's export_memory_timeline() writes: how much memory was there for
 * what, over time, of one device. Which device, and who allocated, it does not say.
 *
 *     raw.json.gz  [ [ns, action, bytes, category], ... ]    ns is -1 for what was there
 *                  action: 1 there before, 2 created, 3 another version of it (twice: out
 *                  of its old category and into its new), 4 destroyed
 *     json         [ [µs, ...], [ [0, bytes of each category ...], ... ] ]
 *
 * Of the second form it cannot be told what was allocated and what only changed. */

#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/text.h"
#include "readers/reader.h"
#include "readers/snapshot.h"

#define CATEGORY_COUNT \
    8 /* in the order of enum lw_memory_category, unknown at the end */

struct reading {
    struct lw_json_in json;
    struct lw_trace *trace;
    uint64_t *times_ns; /* owned */
    size_t time_count, time_capacity;
    int64_t sizes[CATEGORY_COUNT]; /* so far */
    int64_t allocated;
};

static uint8_t category_of(int64_t number)
{
    return number == CATEGORY_COUNT - 1 ? LW_MEMORY_UNKNOWN : (uint8_t)(number + 1);
}

static bool fail_at(const struct reading *r, const char *problem, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s",
                   (size_t)(r->json.next - r->json.start), problem);
}

/* The token that the parser is at, which must be a whole number. */
static bool get_integer(struct reading *r, enum lw_json_token token, int64_t *number,
                        struct lw_error *err)
{
    if (token == LW_JSON_ERROR)
        return lw_json_fail(&r->json, err);
    if (token != LW_JSON_NUMBER || !lw_text_i64(r->json.text, r->json.len, number))
        return fail_at(r, "a whole number should be here", err);
    return true;
}

static bool add_event(struct reading *r, uint64_t time_ns, enum lw_memory_kind kind,
                      int64_t bytes, int64_t category, struct lw_error *err)
{
    struct lw_trace *trace = r->trace;
    struct lw_memory_event event = { .time_ns = time_ns,
                                     .bytes = bytes,
                                     .reserved = -1,
                                     .device_type = -1,
                                     .device = -1,
                                     .kind = (uint8_t)kind,
                                     .category = category_of(category) };

    if (__builtin_add_overflow(r->allocated, bytes, &r->allocated))
        return fail_at(r, "more bytes than there can be", err);
    event.allocated = r->allocated < 0 ? 0 : r->allocated;
    if (!lw_grow(&trace->memory, &trace->memory_capacity, trace->memory_count + 1,
                 sizeof(event), err))
        return false;
    trace->memory[trace->memory_count++] = event;
    return true;
}

/* The raw form */

static const enum lw_memory_kind action_kinds[] = {
    [1] = LW_MEMORY_BEFORE,
    [2] = LW_MEMORY_BLOCK,
    [3] = LW_MEMORY_CHANGE,
    [4] = LW_MEMORY_BLOCK,
};

static bool add_raw(struct reading *r, const int64_t row[4], struct lw_error *err)
{
    uint64_t time_ns = row[0] < 0 ? 0 : (uint64_t)row[0];

    if (row[1] < 1 || row[1] > 4)
        return fail_at(r, "an action that is none of 1 to 4", err);
    if (row[3] < 0 || row[3] >= CATEGORY_COUNT)
        return fail_at(r, "a category that is none of 0 to 7", err);
    return add_event(r, time_ns, action_kinds[row[1]], row[2], row[3], err);
}

/* Rows behind the first, whose bracket TOKEN was. */
static bool read_raw(struct reading *r, enum lw_json_token token, struct lw_error *err)
{
    for (; token == LW_JSON_ARRAY; token = lw_json_next(&r->json)) {
        int64_t row[4];

        for (size_t i = 0; i < 4; i++)
            if (!get_integer(r, lw_json_next(&r->json), &row[i], err))
                return false;
        if (lw_json_next(&r->json) != LW_JSON_ARRAY_END)
            return fail_at(r, "a row that has not four numbers", err);
        if (!add_raw(r, row, err))
            return false;
    }
    if (token == LW_JSON_ERROR)
        return lw_json_fail(&r->json, err);
    return token == LW_JSON_ARRAY_END || fail_at(r, "a row should be here", err);
}

/* What was there before has the time of what came first. */
static void set_before(struct lw_trace *trace)
{
    uint64_t first_ns = 0;

    for (size_t i = 0; i < trace->memory_count && first_ns == 0; i++)
        first_ns = trace->memory[i].time_ns;
    for (size_t i = 0; i < trace->memory_count; i++)
        if (trace->memory[i].time_ns == 0)
            trace->memory[i].time_ns = first_ns;
}

/* The other form */

static bool add_sizes(struct reading *r, size_t index, struct lw_error *err)
{
    int64_t size, change;

    if (index >= r->time_count)
        return fail_at(r, "more rows than times", err);
    if (!get_integer(r, lw_json_next(&r->json), &size, err)) /* nobody's */
        return false;
    for (int64_t i = 0; i < CATEGORY_COUNT; i++) {
        if (!get_integer(r, lw_json_next(&r->json), &size, err))
            return false;
        if (__builtin_sub_overflow(size, r->sizes[i], &change))
            return fail_at(r, "more bytes than there can be", err);
        r->sizes[i] = size;
        if (change != 0 && !add_event(r, r->times_ns[index],
                                      index == 0 ? LW_MEMORY_BEFORE : LW_MEMORY_CHANGE,
                                      change, i, err))
            return false;
    }
    return lw_json_next(&r->json) == LW_JSON_ARRAY_END ||
           fail_at(r, "a row that has not nine numbers", err);
}

/* Behind the bracket of the list of rows, and that of its first row. */
static bool read_sizes(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token = LW_JSON_ARRAY;
    size_t index = 0;

    for (; token == LW_JSON_ARRAY; token = lw_json_next(&r->json))
        if (!add_sizes(r, index++, err))
            return false;
    if (token == LW_JSON_ERROR)
        return lw_json_fail(&r->json, err);
    return token == LW_JSON_ARRAY_END || fail_at(r, "a row should be here", err);
}

/* Numbers up to the end of the list that has begun. */
static bool read_times(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token;

    while ((token = lw_json_next(&r->json)) != LW_JSON_ARRAY_END) {
        int64_t number;

        if (!get_integer(r, token, &number, err) ||
            !lw_grow(&r->times_ns, &r->time_capacity, r->time_count + 1,
                     sizeof(*r->times_ns), err))
            return false;
        r->times_ns[r->time_count++] = (uint64_t)number;
    }
    return true;
}

static bool scale_times(struct reading *r, struct lw_error *err)
{
    for (size_t i = 0; i < r->time_count; i++) {
        if (r->times_ns[i] > INT64_MAX / 1000)
            return fail_at(r, "a time that is none", err);
        r->times_ns[i] *= 1000;
    }
    return true;
}

/* Which form it is, what comes behind the first list says: another like it, or a list of
 * lists. */
static bool read_lists(struct reading *r, struct lw_error *err)
{
    enum lw_json_token token;
    int64_t row[4];

    if (lw_json_next(&r->json) != LW_JSON_ARRAY ||
        lw_json_next(&r->json) != LW_JSON_ARRAY)
        return fail_at(r, "a list of lists of numbers should be here", err);
    if (!read_times(r, err))
        return false;
    token = lw_json_next(&r->json);
    if (token == LW_JSON_ARRAY && r->json.next < r->json.end) {
        struct lw_json_in ahead = r->json;

        if (lw_json_next(&ahead) == LW_JSON_ARRAY) {
            r->json = ahead;
            return scale_times(r, err) && read_sizes(r, err);
        }
    }
    if (r->time_count != 4)
        return fail_at(r, "a row that has not four numbers", err);
    for (size_t i = 0; i < 4; i++)
        row[i] = (int64_t)r->times_ns[i];
    if (!add_raw(r, row, err) || !read_raw(r, token, err))
        return false;
    set_before(r->trace);
    return true;
}

static bool read_timeline(const struct lw_source *source, unsigned want,
                          struct lw_builder *out, struct lw_error *err)
{
    struct reading r = { .allocated = 0 };
    bool done;

    if (!(want & LW_WANT_TRACE))
        return true;
    lw_json_in_init(&r.json, (const char *)source->view.bytes, source->view.len);
    done = (r.trace = lw_builder_trace(out, err)) && lw_snapshot_track(r.trace, err) &&
           read_lists(&r, err);
    lw_free(r.times_ns);
    return done;
}

/* Lists of numbers in a list, which trace events never are. */
static bool sniff_timeline(const struct lw_source *source)
{
    const unsigned char *p = source->head, *end = p + source->head_len;
    unsigned brackets = 0;

    for (; p < end && (*p == '[' || strchr(" \t\r\n", *p)) && brackets <= 2; p++) {
        if (!*p)
            return false;
        brackets += *p == '[';
    }
    return brackets == 2 && p < end && (*p == '-' || (*p >= '0' && *p <= '9'));
}

const struct lw_reader lw_reader_memory_timeline = {
    .name = "memory_timeline",
    .summary =
        "torch.profiler's export_memory_timeline(), .json or raw.json.gz, for the "
        "view memory",
    .suffixes = ".json",
    .sniff = sniff_timeline,
    .read = read_timeline,
};
