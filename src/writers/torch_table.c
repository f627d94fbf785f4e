/* torch's own text, after _build_table() in torch/autograd/profiler_util.py of 2.13.
 *
 * Widths, titles and sums are of all rows, also of those behind the limit. */

#include "writers/torch_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define GAP 2
#define NAME_WIDTH_MAX 55
#define SHAPES_WIDTH_MAX 80
#define SOURCE_WIDTH_MAX 75
#define NUMBER_WIDTH 12
#define COLUMNS_MAX 20

/* Where in the table what is; ABSENT: nowhere. */
#define ABSENT SIZE_MAX

struct places {
    size_t key, count, self_cpu, cpu, cpu_avg, self_device, device, device_avg;
    size_t self_cpu_memory, cpu_memory, self_device_memory, device_memory;
    size_t flops, shapes, stack, device_type, kind;
};

struct column {
    char title[32];
    size_t width;
    bool is_left; /* aligned to the left */
};

struct printing {
    const struct lw_table *table;
    const struct lw_torch_table_options *options;
    struct lw_buf *out;
    struct places at;
    struct column columns[COLUMNS_MAX];
    size_t column_count;
    size_t next;        /* column of the line that is being printed */
    size_t source;      /* column of the stack; ABSENT: none */
    bool has_flops;     /* of any op */
    double flops_scale; /* FLOPs are shown in these */
    double self_cpu_us; /* of all */
    double self_device_us;
    double hidden_us; /* of self_cpu_us, of rows that are left out */
    size_t hidden_count;
    const char *device; /* "CUDA"; NULL: none */
};

/* Reading the table */

static size_t find_column(const struct lw_table *table, const char *name)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return ABSENT;
}

static void find_columns(struct printing *p)
{
    const struct lw_table *t = p->table;

    p->at.key = find_column(t, "key");
    p->at.count = find_column(t, "count");
    p->at.self_cpu = find_column(t, "self_cpu_time_total");
    p->at.cpu = find_column(t, "cpu_time_total");
    p->at.cpu_avg = find_column(t, "cpu_time");
    p->at.self_device = find_column(t, "self_device_time_total");
    p->at.device = find_column(t, "device_time_total");
    p->at.device_avg = find_column(t, "device_time");
    p->at.self_cpu_memory = find_column(t, "self_cpu_memory_usage");
    p->at.cpu_memory = find_column(t, "cpu_memory_usage");
    p->at.self_device_memory = find_column(t, "self_device_memory_usage");
    p->at.device_memory = find_column(t, "device_memory_usage");
    p->at.flops = find_column(t, "flops");
    p->at.shapes = find_column(t, "input_shapes");
    p->at.stack = find_column(t, "stack");
    p->at.device_type = find_column(t, "device_type");
    p->at.kind = find_column(t, "kind");
}

static double number_of(const struct printing *p, size_t row, size_t column)
{
    return lw_table_value(p->table, row, column)->as.number;
}

static int64_t integer_of(const struct printing *p, size_t row, size_t column)
{
    return lw_table_value(p->table, row, column)->as.integer;
}

static bool is_text(const struct printing *p, size_t row, size_t column,
                    const char *text)
{
    const struct lw_value *value = lw_table_value(p->table, row, column);

    return value->as.text.len == strlen(text) &&
           memcmp(value->as.text.bytes, text, value->as.text.len) == 0;
}

static bool is_hidden(const struct printing *p, size_t row)
{
    return !p->options->is_exact && is_text(p, row, p->at.kind, "python");
}

/* Measuring, in characters, as Python counts them */

static void widen(size_t *width, const char *text, size_t len)
{
    size_t count = lw_text_characters(text, len);

    if (count > *width)
        *width = count;
}

/* The longest line of TEXT. */
static void widen_by_lines(size_t *width, const char *text, size_t len)
{
    while (len > 0) {
        const char *newline = memchr(text, '\n', len);
        size_t line = newline ? (size_t)(newline - text) : len;

        widen(width, text, line);
        text += line + (newline != NULL);
        len -= line + (newline != NULL);
    }
}

/* The longest text of COLUMN and 4, at most MAX. */
static size_t column_width(const struct printing *p, size_t column, size_t max)
{
    size_t width = 0;

    for (size_t row = 0; row < p->table->row_count; row++) {
        const struct lw_value *value = lw_table_value(p->table, row, column);

        if (!is_hidden(p, row))
            widen_by_lines(&width, value->as.text.bytes, value->as.text.len);
    }
    return width + 4 < max ? width + 4 : max;
}

/* Is there a text in COLUMN that is not EMPTY? */
static bool has_any(const struct printing *p, size_t column, const char *empty)
{
    if (column == ABSENT)
        return false;
    for (size_t row = 0; row < p->table->row_count; row++)
        if (!is_hidden(p, row) && !is_text(p, row, column, empty))
            return true;
    return false;
}

static void sum_up(struct printing *p)
{
    for (size_t row = 0; row < p->table->row_count; row++) {
        double self_us = number_of(p, row, p->at.self_cpu);

        p->self_cpu_us += self_us;
        if (is_hidden(p, row)) {
            p->hidden_us += self_us;
            p->hidden_count++;
        }
        if (is_text(p, row, p->at.device_type, "CPU"))
            continue;
        p->device = lw_table_value(p->table, row, p->at.device_type)->as.text.bytes;
        if (p->at.self_device != ABSENT && !is_text(p, row, p->at.kind, "range"))
            p->self_device_us += number_of(p, row, p->at.self_device);
    }
}

/* Columns */

static void add_column(struct printing *p, size_t width, bool is_left,
                       const char *format, const char *word)
{
    struct column *column = &p->columns[p->column_count++];

    column->width = width;
    column->is_left = is_left;
    snprintf(column->title, sizeof(column->title), format, word);
}

/* The scale is that of the smallest: all are shown in it. */
static void add_flops_column(struct printing *p)
{
    static const char *const units[] = { "FLOPs",  "KFLOPs", "MFLOPs",
                                         "GFLOPs", "TFLOPs", "PFLOPs" };
    int64_t smallest = 0;
    double thousands;

    if (p->at.flops == ABSENT)
        return;
    for (size_t row = 0; row < p->table->row_count; row++) {
        int64_t flops = integer_of(p, row, p->at.flops);

        if (flops > 0 && (smallest == 0 || flops < smallest))
            smallest = flops;
    }
    if (smallest == 0)
        return;
    thousands = fmin(log10((double)smallest) / 3, 5);
    p->has_flops = true;
    p->flops_scale = pow(10, floor(thousands) * -3);
    add_column(p, NUMBER_WIDTH, false, "Total %s", units[(int)thousands]);
}

static void add_columns(struct printing *p)
{
    static const char *const times[] = { "Self CPU %", "Self CPU", "CPU total %",
                                         "CPU total", "CPU time avg" };
    const char *device = p->device ? p->device : "CUDA";

    add_column(p, column_width(p, p->at.key, NAME_WIDTH_MAX), false, "%s", "Name");
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        add_column(p, NUMBER_WIDTH, false, "%s", times[i]);
    if (p->at.self_device != ABSENT) {
        add_column(p, NUMBER_WIDTH, false, "Self %s", device);
        add_column(p, NUMBER_WIDTH, false, "Self %s %%", device);
        add_column(p, NUMBER_WIDTH, false, "%s total", device);
        add_column(p, NUMBER_WIDTH, false, "%s time avg", device);
    }
    if (p->at.cpu_memory != ABSENT) {
        add_column(p, NUMBER_WIDTH, false, "%s", "CPU Mem");
        add_column(p, NUMBER_WIDTH, false, "%s", "Self CPU Mem");
    }
    if (p->at.device_memory != ABSENT) {
        add_column(p, NUMBER_WIDTH, false, "%s Mem", device);
        add_column(p, NUMBER_WIDTH, false, "Self %s Mem", device);
    }
    add_column(p, NUMBER_WIDTH, false, "%s", "# of Calls");
    if (has_any(p, p->at.shapes, "[]"))
        add_column(p, column_width(p, p->at.shapes, SHAPES_WIDTH_MAX), false, "%s",
                   "Input Shapes");
    else
        p->at.shapes = ABSENT;
    p->source = ABSENT;
    if (has_any(p, p->at.stack, "")) {
        p->source = p->column_count;
        add_column(p, column_width(p, p->at.stack, SOURCE_WIDTH_MAX), true, "%s",
                   "Source Location");
    }
    add_flops_column(p);
}

/* Printing */

/* The next cell of a line: LEN bytes that take CHARACTERS. */
static void put(struct printing *p, const char *text, size_t len)
{
    const struct column *column = &p->columns[p->next++];
    size_t characters = lw_text_characters(text, len);
    size_t padding = characters < column->width ? column->width - characters : 0;

    if (!column->is_left)
        lw_buf_add_repeat(p->out, ' ', padding);
    lw_text_add_printable(p->out, text, len);
    lw_buf_add_repeat(p->out, ' ', (column->is_left ? padding : 0) + GAP);
}

static void put_text(struct printing *p, const char *text)
{
    put(p, text, strlen(text));
}

static void end_line(struct printing *p)
{
    while (p->next < p->column_count)
        put(p, "", 0);
    lw_buf_add_char(p->out, '\n');
    p->next = 0;
}

static void print_rule(struct printing *p)
{
    for (size_t i = 0; i < p->column_count; i++) {
        lw_buf_add_repeat(p->out, '-', p->columns[i].width);
        lw_buf_add_repeat(p->out, ' ', GAP);
    }
    lw_buf_add_char(p->out, '\n');
}

#define CELL_MAX 400 /* "%.3f" of the largest double has 313 characters */

static void format_time(char *text, double us)
{
    if (us >= 1e6)
        snprintf(text, CELL_MAX, "%.3fs", us / 1e6);
    else if (us >= 1e3)
        snprintf(text, CELL_MAX, "%.3fms", us / 1e3);
    else
        snprintf(text, CELL_MAX, "%.3fus", us);
}

static void put_time(struct printing *p, double us)
{
    char text[CELL_MAX];

    format_time(text, us);
    put_text(p, text);
}

static void put_share(struct printing *p, double part, double whole)
{
    char text[CELL_MAX];

    if (whole == 0)
        snprintf(text, sizeof(text), "NaN");
    else
        snprintf(text, sizeof(text), "%.2f%%", part * 100 / whole);
    put_text(p, text);
}

static void put_memory(struct printing *p, int64_t bytes)
{
    static const char *const units[] = { "GB", "MB", "KB" };
    char text[CELL_MAX];
    double unit = 1024.0 * 1024 * 1024;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++, unit /= 1024)
        if (fabs((double)bytes) >= unit) {
            snprintf(text, sizeof(text), "%.2f %s", (double)bytes / unit, units[i]);
            put_text(p, text);
            return;
        }
    snprintf(text, sizeof(text), "%" PRId64 " B", bytes);
    put_text(p, text);
}

/* How many bytes the first COUNT characters of TEXT take. */
static size_t first_characters(const char *text, size_t len, size_t count)
{
    size_t at = 0;

    for (; at < len; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && count-- == 0)
            break;
    return at;
}

static void put_name(struct printing *p, size_t row)
{
    const struct lw_value *value = lw_table_value(p->table, row, p->at.key);
    const char *text = value->as.text.bytes;
    size_t len = value->as.text.len;
    char cut[4 * NAME_WIDTH_MAX];

    if (lw_text_characters(text, len) >= NAME_WIDTH_MAX - 3) {
        size_t kept = first_characters(text, len, NAME_WIDTH_MAX - 3);

        if (kept + 4 > sizeof(cut)) /* bytes that are no characters */
            kept = sizeof(cut) - 4;
        memcpy(cut, text, kept);
        memcpy(cut + kept, "...", 4);
        put(p, cut, kept + 3);
        return;
    }
    put(p, text, len);
}

static void put_shapes(struct printing *p, size_t row)
{
    const struct lw_value *value = lw_table_value(p->table, row, p->at.shapes);

    put(p, value->as.text.bytes,
        first_characters(value->as.text.bytes, value->as.text.len,
                         p->columns[p->next].width));
}

/* The end of a function's place, if it is too long for its column. */
static void put_place(struct printing *p, const char *text, size_t len)
{
    size_t width = p->columns[p->source].width;
    size_t characters = lw_text_characters(text, len), skipped;
    struct lw_buf cut;

    if (characters <= width) {
        put(p, text, len);
        return;
    }
    skipped = first_characters(text, len, characters - width + 3);
    lw_buf_init(&cut, 0);
    lw_buf_add_text(&cut, "...");
    lw_buf_add(&cut, text + skipped, len - skipped);
    if (cut.failure)
        p->out->failure = cut.failure;
    else
        put(p, cut.bytes, cut.len);
    lw_buf_release(&cut);
}

static void put_flops(struct printing *p, size_t row)
{
    char text[CELL_MAX];
    int64_t flops = integer_of(p, row, p->at.flops);

    if (flops > 0)
        snprintf(text, sizeof(text), "%8.3f", (double)flops * p->flops_scale);
    else
        snprintf(text, sizeof(text), "--");
    put_text(p, text);
}

/* The innermost function; returns where the next ones are. */
static const char *put_source(struct printing *p, size_t row)
{
    const char *text = lw_table_value(p->table, row, p->at.stack)->as.text.bytes;
    size_t len = strcspn(text, "\n");

    put_place(p, text, len);
    return text + len;
}

/* The functions that called it, one a line, and an empty line. */
static void print_callers(struct printing *p, const char *text)
{
    size_t column = p->options->is_exact ? p->column_count - 1 : p->source;

    while (*text == '\n') {
        size_t len = strcspn(++text, "\n");

        while (p->next < column)
            put(p, "", 0);
        put_place(p, text, len);
        end_line(p);
        text += len;
    }
    end_line(p);
}

static void print_row(struct printing *p, size_t row)
{
    char count[CELL_MAX];
    const char *callers = "";

    put_name(p, row);
    put_share(p, number_of(p, row, p->at.self_cpu), p->self_cpu_us);
    put_time(p, number_of(p, row, p->at.self_cpu));
    put_share(p, number_of(p, row, p->at.cpu), p->self_cpu_us);
    put_time(p, number_of(p, row, p->at.cpu));
    put_time(p, number_of(p, row, p->at.cpu_avg));
    if (p->at.self_device != ABSENT) {
        put_time(p, number_of(p, row, p->at.self_device));
        put_share(p, number_of(p, row, p->at.self_device), p->self_device_us);
        put_time(p, number_of(p, row, p->at.device));
        put_time(p, number_of(p, row, p->at.device_avg));
    }
    if (p->at.cpu_memory != ABSENT) {
        put_memory(p, integer_of(p, row, p->at.cpu_memory));
        put_memory(p, integer_of(p, row, p->at.self_cpu_memory));
    }
    if (p->at.device_memory != ABSENT) {
        put_memory(p, integer_of(p, row, p->at.device_memory));
        put_memory(p, integer_of(p, row, p->at.self_device_memory));
    }
    snprintf(count, sizeof(count), "%" PRId64, integer_of(p, row, p->at.count));
    put_text(p, count);
    if (p->at.shapes != ABSENT)
        put_shapes(p, row);
    /* torch has titles the other way round. */
    if (p->has_flops && p->options->is_exact)
        put_flops(p, row);
    if (p->source != ABSENT)
        callers = put_source(p, row);
    if (p->has_flops && !p->options->is_exact)
        put_flops(p, row);
    end_line(p);
    if (p->source != ABSENT)
        print_callers(p, callers);
}

static void print_footer(struct printing *p)
{
    char text[CELL_MAX];

    format_time(text, p->self_cpu_us);
    lw_buf_addf(p->out, "Self CPU time total: %s\n", text);
    if (p->at.self_device != ABSENT) {
        format_time(text, p->self_device_us);
        lw_buf_addf(p->out, "Self %s time total: %s\n", p->device ? p->device : "CUDA",
                    text);
    }
    if (p->hidden_count > 0)
        lw_buf_addf(p->out,
                    "(%zu Python functions, %.2f%% of the self CPU time, are not "
                    "listed; --compat torch lists them among the ops, as torch does)\n",
                    p->hidden_count,
                    p->self_cpu_us != 0 ? p->hidden_us * 100 / p->self_cpu_us : 0.0);
}

bool lw_torch_table_print(const struct lw_table *table,
                          const struct lw_torch_table_options *options,
                          struct lw_buf *out, struct lw_error *err)
{
    struct printing p = { .table = table, .options = options, .out = out };
    uint64_t printed = 0;

    if (!lw_table_check(table, err))
        return false;
    if (table->row_count == 0)
        return true;
    find_columns(&p);
    sum_up(&p);
    add_columns(&p);
    print_rule(&p);
    for (size_t i = 0; i < p.column_count; i++)
        put_text(&p, p.columns[i].title);
    end_line(&p);
    print_rule(&p);
    for (size_t row = 0; row < table->row_count; row++) {
        if (is_hidden(&p, row))
            continue;
        if (options->row_limit && printed++ == options->row_limit)
            break;
        print_row(&p, row);
    }
    print_rule(&p);
    print_footer(&p);
    return lw_buf_check(out, err);
}
