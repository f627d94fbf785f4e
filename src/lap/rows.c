/* Columns of numbers, from one table.
 *
 * A column is coded in one loop over the rows that touches a single field, so that
 * values of a kind lie together, which is what zstd likes. Each loop is made once for
 * each width of field by inlining `code` and `width` as constants. */

#include "lap/rows.h"

#include <string.h>

enum column_code {
    VARINT,
    STEP,  /* zigzag difference to the row before */
    BELOW, /* own number minus the value: always at least 1 */
    FIXED, /* 8 bytes as they are: doubles do not get smaller */
};

struct column {
    enum column_code code;
    unsigned width; /* of the field in memory, bytes */
    size_t offset;  /* of the field in the row */
};

#define COLUMN(code, row, field) \
    { \
        code, sizeof(((struct row *)NULL)->field), offsetof(struct row, field) \
    }
#define COLUMNS_MAX 9

/* clang-format off */
static const struct layout {
    const char *unit;
    unsigned lead_count; /* varints before the columns */
    unsigned late_count; /* columns at the end that a recording may lack: all zero */
    size_t row_bytes;
    struct column columns[COLUMNS_MAX]; /* up to the first of width 0 */
} layouts[LW_CHUNK_KINDS] = {
    [LW_CHUNK_META] = { "facts", 0, 0, 0, { { 0 } } },
    [LW_CHUNK_STRINGS] = { "names", 1, 0, 0, { { 0 } } },
    [LW_CHUNK_FRAMES] = { "functions", 1, 3, sizeof(struct lw_frame), {
        COLUMN(STEP, lw_frame, name),
        COLUMN(STEP, lw_frame, file),
        COLUMN(STEP, lw_frame, first_line),
        COLUMN(STEP, lw_frame, line),
        COLUMN(VARINT, lw_frame, variant),
        COLUMN(VARINT, lw_frame, kind),
        COLUMN(VARINT, lw_frame, column),
        COLUMN(VARINT, lw_frame, end_column),
        COLUMN(VARINT, lw_frame, more_lines) } },
    [LW_CHUNK_STACKS] = { "stacks", 1, 0, sizeof(struct lw_stack), {
        COLUMN(BELOW, lw_stack, parent),
        COLUMN(STEP, lw_stack, frame) } },
    [LW_CHUNK_THREADS] = { "threads", 0, 0, sizeof(struct lw_thread_row), {
        COLUMN(VARINT, lw_thread_row, number),
        COLUMN(VARINT, lw_thread_row, tid),
        COLUMN(VARINT, lw_thread_row, name),
        COLUMN(VARINT, lw_thread_row, start_ns),
        COLUMN(VARINT, lw_thread_row, end_ns) } },
    [LW_CHUNK_CALLS] = { "call counts", 2, 0, sizeof(struct lw_call_row), {
        COLUMN(STEP, lw_call_row, thread),
        COLUMN(STEP, lw_call_row, stack),
        COLUMN(VARINT, lw_call_row, calls),
        COLUMN(VARINT, lw_call_row, self_ns) } },
    [LW_CHUNK_SAMPLES] = { "samples", 0, 0, sizeof(struct lw_sample), {
        COLUMN(STEP, lw_sample, time_ns),
        COLUMN(VARINT, lw_sample, weight_ns),
        COLUMN(STEP, lw_sample, thread),
        COLUMN(STEP, lw_sample, stack),
        COLUMN(VARINT, lw_sample, state) } },
    [LW_CHUNK_SPANS] = { "spans", 0, 0, sizeof(struct lw_span), {
        COLUMN(STEP, lw_span, start_ns),
        COLUMN(VARINT, lw_span, duration_ns),
        COLUMN(STEP, lw_span, thread),
        COLUMN(STEP, lw_span, stack) } },
    [LW_CHUNK_COUNTERS] = { "counter values", 0, 0, sizeof(struct lw_counter_row), {
        COLUMN(STEP, lw_counter_row, time_ns),
        COLUMN(VARINT, lw_counter_row, name),
        COLUMN(FIXED, lw_counter_row, value) } },
    [LW_CHUNK_LOSSES] = { "losses", 0, 0, sizeof(struct lw_loss_row), {
        COLUMN(VARINT, lw_loss_row, cause),
        COLUMN(VARINT, lw_loss_row, unit),
        COLUMN(VARINT, lw_loss_row, count) } },
    [LW_CHUNK_THINNED] = { "thinned things", 2, 0, sizeof(struct lw_thinned_row), {
        COLUMN(VARINT, lw_thinned_row, kind),
        COLUMN(VARINT, lw_thinned_row, what),
        COLUMN(VARINT, lw_thinned_row, rows) } },
    [LW_CHUNK_ORIGINS] = { "origins of ops", 0, 0, sizeof(struct lw_origin), {
        COLUMN(STEP, lw_origin, start_ns),
        COLUMN(STEP, lw_origin, thread),
        COLUMN(STEP, lw_origin, forward_thread),
        COLUMN(STEP, lw_origin, sequence),
        COLUMN(VARINT, lw_origin, function),
        COLUMN(VARINT, lw_origin, line),
        COLUMN(VARINT, lw_origin, is_backward) } },
};
/* clang-format on */

const char *lw_rows_unit(unsigned kind)
{
    const char *unit = kind < LW_CHUNK_KINDS ? layouts[kind].unit : NULL;

    return unit ? unit : "rows";
}

size_t lw_rows_size(unsigned kind)
{
    return kind < LW_CHUNK_KINDS ? layouts[kind].row_bytes : 0;
}

static inline uint64_t load(const unsigned char *field, unsigned width)
{
    uint64_t wide;
    uint32_t word;
    uint16_t half;

    switch (width) {
    case 8: memcpy(&wide, field, sizeof(wide)); return wide;
    case 4: memcpy(&word, field, sizeof(word)); return word;
    case 2: memcpy(&half, field, sizeof(half)); return half;
    default: return *field;
    }
}

static inline void store(unsigned char *field, unsigned width, uint64_t value)
{
    uint32_t word = (uint32_t)value;
    uint16_t half = (uint16_t)value;

    switch (width) {
    case 8: memcpy(field, &value, sizeof(value)); break;
    case 4: memcpy(field, &word, sizeof(word)); break;
    case 2: memcpy(field, &half, sizeof(half)); break;
    default: *field = (unsigned char)value; break;
    }
}

/* Inlined always: left to itself, gcc makes one loop with a switch in it for all. */
#define ONE_LOOP_EACH static inline __attribute__((always_inline))

/* NUMBER is that of the first row, for BELOW. */
ONE_LOOP_EACH size_t encode(enum column_code code, unsigned width,
                            const unsigned char *field, size_t stride, size_t count,
                            uint64_t number, unsigned char *out)
{
    unsigned char *start = out;
    uint64_t before = 0;

    for (size_t i = 0; i < count; i++, field += stride) {
        uint64_t value = load(field, width);

        if (code == FIXED) {
            for (unsigned b = 0; b < 8; b++)
                *out++ = (unsigned char)(value >> (8 * b));
        } else if (code == STEP) {
            out += lw_varint_put(out, lw_zigzag((int64_t)(value - before)));
            before = value;
        } else if (code == BELOW) {
            out += lw_varint_put(out, number + i - value);
        } else {
            out += lw_varint_put(out, value);
        }
    }
    return (size_t)(out - start);
}

/* False: a value is too large for the field. (A cursor that ran out says so itself.) */
ONE_LOOP_EACH bool decode(enum column_code code, unsigned width, unsigned char *field,
                          size_t stride, size_t count, uint64_t number,
                          struct lw_cursor *in)
{
    uint64_t most = width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * width)) - 1;
    uint64_t block[512], before = 0, largest = 0;

    for (size_t done = 0; done < count;) {
        size_t n = count - done;

        if (n > sizeof(block) / sizeof(*block))
            n = sizeof(block) / sizeof(*block);
        if (code != FIXED)
            lw_cursor_varints(in, block, n);
        for (size_t i = 0; i < n; i++, field += stride) {
            uint64_t value = code == FIXED ? lw_cursor_u64(in) : block[i];

            if (code == STEP) {
                value = before + (uint64_t)lw_unzigzag(value);
                before = value;
            } else if (code == BELOW) {
                if (value == 0 || value > number + done + i)
                    return false;
                value = number + done + i - value;
            }
            largest |= value;
            store(field, width, value);
        }
        done += n;
    }
    return largest <= most; /* of all bits set in any: most is all ones */
}

/* The pairs of code and width that the table has, each with a loop of its own. */
#define EACH_LOOP(LOOP) \
    LOOP(STEP, 8) \
    LOOP(STEP, 4) \
    LOOP(VARINT, 8) \
    LOOP(VARINT, 4) LOOP(VARINT, 2) LOOP(VARINT, 1) LOOP(BELOW, 4) LOOP(FIXED, 8)
#define LOOP_KEY(code, width) ((unsigned)(code)*16 + (width))

static size_t encode_column(const struct column *column, const void *rows,
                            size_t stride, size_t count, uint64_t number,
                            unsigned char *out)
{
    const unsigned char *field = (const unsigned char *)rows + column->offset;

#define LOOP(code, width) \
    case LOOP_KEY(code, width): \
        return encode(code, width, field, stride, count, number, out);
    switch (LOOP_KEY(column->code, column->width)) {
        EACH_LOOP(LOOP)
    default: lw_assert(false); return 0;
    }
#undef LOOP
}

static bool decode_column(const struct column *column, void *rows, size_t stride,
                          size_t count, uint64_t number, struct lw_cursor *in)
{
    unsigned char *field = (unsigned char *)rows + column->offset;

#define LOOP(code, width) \
    case LOOP_KEY(code, width): \
        return decode(code, width, field, stride, count, number, in);
    switch (LOOP_KEY(column->code, column->width)) {
        EACH_LOOP(LOOP)
    default: lw_assert(false); return false;
    }
#undef LOOP
}

static size_t column_count(const struct layout *layout)
{
    size_t n = 0;

    while (n < COLUMNS_MAX && layout->columns[n].width)
        n++;
    return n;
}

void lw_rows_encode(unsigned kind, const uint64_t *lead, const void *rows, size_t count,
                    struct lw_buf *out)
{
    const struct layout *layout = &layouts[kind];
    size_t columns = column_count(layout);

    lw_assert(layout->row_bytes && count <= LW_CHUNK_ROWS_MAX);
    for (unsigned i = 0; i < layout->lead_count; i++)
        lw_buf_add_varint(out, lead[i]);
    for (size_t i = 0; i < columns; i++) {
        size_t most = count * LW_VARINT_MAX_BYTES;
        unsigned char *room = lw_buf_extend(out, most);

        if (!room)
            return;
        out->len -= most;
        out->len += encode_column(&layout->columns[i], rows, layout->row_bytes, count,
                                  layout->lead_count ? lead[0] : 0, room);
    }
}

bool lw_rows_decode(unsigned kind, struct lw_cursor *body, size_t count,
                    uint64_t lead[2], void *rows)
{
    const struct layout *layout = &layouts[kind];
    size_t columns = column_count(layout);
    size_t first_late = columns - layout->late_count;

    lw_assert(layout->row_bytes && count <= LW_CHUNK_ROWS_MAX);
    lead[0] = lead[1] = 0;
    for (unsigned i = 0; i < layout->lead_count; i++)
        lead[i] = lw_cursor_varint(body);
    if (count * first_late > lw_cursor_left(body))
        return false;
    memset(rows, 0, count * layout->row_bytes); /* padding, and fields not stored */
    for (size_t i = 0; i < columns; i++) {
        if (i == first_late && lw_cursor_left(body) == 0)
            break;
        if (!decode_column(&layout->columns[i], rows, layout->row_bytes, count, lead[0],
                           body))
            return false;
    }
    return !body->failed;
}

/* Well below LW_CHUNK_BYTES_MAX with one more text of LW_LAP_TEXT_MAX. */
#define BATCH_BYTES (1u << 20)

void lw_string_batch_release(struct lw_string_batch *batch)
{
    lw_buf_release(&batch->lengths);
    lw_buf_release(&batch->bytes);
    batch->count = 0;
}

void lw_string_batch_add(struct lw_string_batch *batch, const char *text, size_t len)
{
    lw_buf_add_varint(&batch->lengths, len);
    lw_buf_add(&batch->bytes, text, len);
    batch->count++;
}

bool lw_string_batch_is_full(const struct lw_string_batch *batch)
{
    return batch->count >= LW_CHUNK_ROWS_MAX || batch->bytes.len >= BATCH_BYTES;
}

void lw_string_batch_encode(struct lw_string_batch *batch, struct lw_buf *out)
{
    lw_buf_add_varint(out, batch->first);
    lw_buf_add(out, batch->lengths.bytes, batch->lengths.len);
    lw_buf_add(out, batch->bytes.bytes, batch->bytes.len);
    if (!out->failure && batch->lengths.failure)
        out->failure = batch->lengths.failure;
    if (!out->failure && batch->bytes.failure)
        out->failure = batch->bytes.failure;
    lw_buf_reset(&batch->lengths);
    lw_buf_reset(&batch->bytes);
    batch->first += batch->count;
    batch->count = 0;
}

bool lw_string_walk_start(struct lw_string_walk *walk, struct lw_cursor *body,
                          size_t count)
{
    uint64_t total = 0;

    walk->first = lw_cursor_varint(body);
    walk->lengths = *body;
    if (count > lw_cursor_left(body))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t len = lw_cursor_varint(body);

        if (len > LW_LAP_TEXT_MAX)
            return false;
        total += len;
    }
    walk->bytes = lw_cursor_bytes(body, total);
    return walk->bytes != NULL;
}

const char *lw_string_walk_next(struct lw_string_walk *walk, size_t *len)
{
    const char *text = walk->bytes;

    *len = (size_t)lw_cursor_varint(&walk->lengths);
    walk->bytes += *len;
    return text;
}

void lw_rows_encode_pair(const char *key, const char *value, size_t value_len,
                         struct lw_buf *out)
{
    size_t key_len = strlen(key);

    lw_buf_add_varint(out, key_len);
    lw_buf_add(out, key, key_len);
    lw_buf_add_varint(out, value_len);
    lw_buf_add(out, value, value_len);
}

bool lw_rows_next_pair(struct lw_cursor *body, const char **key, size_t *key_len,
                       const char **value, size_t *value_len)
{
    *key_len = (size_t)lw_cursor_varint(body);
    *key = lw_cursor_bytes(body, *key_len);
    *value_len = (size_t)lw_cursor_varint(body);
    *value = lw_cursor_bytes(body, *value_len);
    return !body->failed && *key_len <= LW_LAP_TEXT_MAX &&
           *value_len <= LW_LAP_TEXT_MAX;
}
