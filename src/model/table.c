/* Cells in one array, row by row; text, title and notes in the table's arena. */

#include "model/table.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

void lw_table_init(struct lw_table *table, const struct lw_column *columns,
                   size_t column_count)
{
    lw_assert(column_count > 0);
    memset(table, 0, sizeof(*table));
    table->columns = columns;
    table->column_count = column_count;
    lw_arena_init(&table->arena);
}

void lw_table_release(struct lw_table *table)
{
    lw_free(table->values);
    lw_free(table->depths);
    lw_free(table->sayings);
    lw_free(table->notes);
    lw_arena_release(&table->arena);
    memset(table, 0, sizeof(*table));
}

/* The formatted text in the arena, or NULL and the table has failed. */
static char *format_text(struct lw_table *table, const char *format, va_list args)
    LW_PRINTF(2, 0);

static char *format_text(struct lw_table *table, const char *format, va_list args)
{
    struct lw_buf buf;
    char *text = NULL;

    if (table->failure)
        return NULL;
    lw_buf_init(&buf, 0);
    lw_buf_addv(&buf, format, args);
    if (!buf.failure)
        text = lw_arena_copy(&table->arena, buf.bytes, buf.len, NULL);
    if (!text)
        table->failure = LW_ERR_NOMEM;
    lw_buf_release(&buf);
    return text;
}

void lw_table_set_title(struct lw_table *table, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    table->title = format_text(table, format, args);
    va_end(args);
}

void lw_table_note(struct lw_table *table, const char *format, ...)
{
    char *note;
    va_list args;

    va_start(args, format);
    note = format_text(table, format, args);
    va_end(args);
    if (!note)
        return;
    if (!lw_grow(&table->notes, &table->note_capacity, table->note_count + 1,
                 sizeof(*table->notes), NULL)) {
        table->failure = LW_ERR_NOMEM;
        return;
    }
    table->notes[table->note_count++] = note;
}

static const char *copy_text(struct lw_table *table, const char *text)
{
    const char *copy = lw_arena_copy(&table->arena, text, strlen(text), NULL);

    if (!copy)
        table->failure = LW_ERR_NOMEM;
    return copy;
}

void lw_table_set_unmatched(struct lw_table *table, const char *word, const char *noun,
                            const char *nearest)
{
    if (table->failure || table->unmatched.noun)
        return;
    table->unmatched.word = word ? copy_text(table, word) : NULL;
    table->unmatched.noun = noun;
    table->unmatched.nearest = nearest ? copy_text(table, nearest) : NULL;
}

void lw_table_row(struct lw_table *table, uint32_t depth)
{
    size_t row = table->row_count;
    size_t row_size = table->column_count * sizeof(*table->values);
    uint32_t deepest = row ? table->depths[row - 1] + 1 : 0;

    if (table->failure)
        return;
    if (!lw_grow(&table->values, &table->row_capacity, row + 1, row_size, NULL) ||
        !lw_grow(&table->depths, &table->depth_capacity, row + 1,
                 sizeof(*table->depths), NULL)) {
        table->failure = LW_ERR_NOMEM;
        return;
    }
    memset(&table->values[row * table->column_count], 0, row_size);
    table->depths[row] = depth < deepest ? depth : deepest;
    table->row_count++;
    table->filled = 0;
}

#define TEXT_UNITS (1u << LW_UNIT_TEXT)
#define INTEGER_UNITS \
    (1u << LW_UNIT_COUNT | 1u << LW_UNIT_NS | 1u << LW_UNIT_BYTES | 1u << LW_UNIT_TIME)
#define NUMBER_UNITS \
    (1u << LW_UNIT_SECONDS | 1u << LW_UNIT_SHARE | 1u << LW_UNIT_NUMBER | \
     1u << LW_UNIT_PERCENT | 1u << LW_UNIT_BYTES_S)
#define OWN_UNIT (1u << LW_UNIT_OWN)
#define ANY_UNIT (TEXT_UNITS | INTEGER_UNITS | NUMBER_UNITS | OWN_UNIT)

/* The next cell of the row being built, whose column has one of UNITS; NULL after a
 * failure. */
static struct lw_value *next_cell(struct lw_table *table, unsigned units)
{
    size_t column = table->filled;

    if (table->failure)
        return NULL;
    lw_assert(table->row_count > 0 && column < table->column_count);
    lw_assert(1u << table->columns[column].unit & units);
    table->filled++;
    return &table->values[(table->row_count - 1) * table->column_count + column];
}

void lw_table_add_text(struct lw_table *table, const char *text, size_t len)
{
    struct lw_value *cell = next_cell(table, TEXT_UNITS);

    if (!cell)
        return;
    cell->as.text.bytes = lw_arena_copy(&table->arena, text, len, NULL);
    cell->as.text.len = len;
    cell->present = cell->as.text.bytes != NULL;
    if (!cell->present)
        table->failure = LW_ERR_NOMEM;
}

void lw_table_add_integer(struct lw_table *table, int64_t value)
{
    struct lw_value *cell = next_cell(table, INTEGER_UNITS);

    if (!cell)
        return;
    cell->as.integer = value;
    cell->present = true;
}

void lw_table_add_number(struct lw_table *table, double value)
{
    struct lw_value *cell = next_cell(table, NUMBER_UNITS);

    if (!cell)
        return;
    cell->as.number = value;
    cell->present = true;
}

void lw_table_add_own(struct lw_table *table, double value, enum lw_unit unit)
{
    struct lw_value *cell = next_cell(table, OWN_UNIT);

    lw_assert(1u << unit & (NUMBER_UNITS | 1u << LW_UNIT_BYTES));
    if (!cell)
        return;
    cell->unit = (unsigned char)unit;
    cell->as.number = value;
    cell->present = true;
}

void lw_table_add_none(struct lw_table *table)
{
    (void)next_cell(table, ANY_UNIT); /* zeroed by lw_table_row */
}

void lw_table_say(struct lw_table *table, const char *format, ...)
{
    char *saying;
    va_list args;

    va_start(args, format);
    saying = format_text(table, format, args);
    va_end(args);
    if (!saying)
        return;
    lw_assert(table->row_count > 0);
    if (!lw_grow(&table->sayings, &table->saying_capacity, table->row_count,
                 sizeof(*table->sayings), NULL)) {
        table->failure = LW_ERR_NOMEM;
        return;
    }
    table->sayings[table->row_count - 1] = saying;
}

bool lw_table_check(const struct lw_table *table, struct lw_error *err)
{
    if (!table->failure)
        return true;
    return lw_fail(err, table->failure, "out of memory after %zu rows of a table",
                   table->row_count);
}
