/* The three kinds of line tables.
 *
 *   lnotab      pairs: the bytecode advances by u8 bytes, then the line by s8. What is
 *               before the next advance has the line so far; the last goes on for ever.
 *   linetable   pairs: u8 bytes of bytecode, whose line is s8 further; -128: no line.
 *   locations   entries of some bytes, the first of which alone has its top bit set:
 *
 *                   1 k k k k n n n     kind k, for n + 1 code units
 *
 *                   kind 0..9    the same line, columns 8 * k + c to e further, which
 *                                are in one byte more: 0 c c c e e e e
 *                   kind 10..12  k - 10 lines further; bytes: column, end column
 *                   kind 13      lines further (signed), no columns
 *                   kind 14      lines further (signed), lines to the end, column + 1,
 *                                end column + 1 (0: none)
 *                   kind 15      no line
 *
 *               Numbers without a unit of their own are groups of 6 bits, the lowest
 *               first; bit 6: more follow. Signed ones have the sign in their lowest
 *               bit. */

#include "sampler/lines.h"

#include "base/varint.h"

#define CODE_UNIT_BYTES 2
#define NO_LINE (-128) /* in a linetable */

enum { KIND_LINES_FURTHER = 10, KIND_NO_COLUMNS = 13, KIND_LONG = 14, KIND_NONE = 15 };

static const struct lw_position nowhere = { -1, -1, -1, -1 };

static unsigned next_byte(struct lw_cursor *table)
{
    if (table->next == table->end) {
        table->failed = true;
        return 0;
    }
    return *table->next++;
}

/* CPython writes numbers of at most 32 bits: one that goes on is not from it. */
static int64_t next_number(struct lw_cursor *table)
{
    uint64_t value = 0;
    unsigned byte;

    for (unsigned shift = 0; shift < 36; shift += 6) {
        byte = next_byte(table);
        value |= (uint64_t)(byte & 0x3f) << shift;
        if (!(byte & 0x40))
            return (int64_t)value;
    }
    table->failed = true;
    return 0;
}

static int64_t next_signed(struct lw_cursor *table)
{
    int64_t value = next_number(table);

    return value & 1 ? -(value >> 1) : value >> 1;
}

/* A line or column as a position has it; what does not fit is unknown. */
static int32_t clamp(int64_t value)
{
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

static void set_line(struct lw_position *position, int64_t line)
{
    position->line = position->end_line = clamp(line);
}

static void find_lnotab(struct lw_cursor *table, int64_t line, int64_t offset,
                        struct lw_position *position)
{
    int64_t at = 0;

    while (lw_cursor_left(table) >= 2) {
        at += next_byte(table);
        if (at > offset)
            break;
        line += (int8_t)next_byte(table);
    }
    set_line(position, line);
}

static void find_linetable(struct lw_cursor *table, int64_t line, int64_t offset,
                           struct lw_position *position)
{
    int64_t end = 0;
    int8_t further;

    while (lw_cursor_left(table) >= 2) {
        end += next_byte(table);
        further = (int8_t)next_byte(table);
        if (further != NO_LINE)
            line += further;
        if (end > offset) {
            if (further != NO_LINE)
                set_line(position, line);
            return;
        }
    }
}

/* The rest of an entry of KIND; *LINE is that of the entry before it, and then of this
 * one. A kind without a line leaves it as it was. */
static void next_location(struct lw_cursor *table, unsigned kind, int64_t *line,
                          struct lw_position *position)
{
    int64_t column = -1, end_column = -1, lines = 0;

    if (kind == KIND_NONE) {
        *position = nowhere;
        return;
    }
    if (kind >= KIND_NO_COLUMNS)
        *line += next_signed(table);
    if (kind == KIND_LONG) {
        lines = next_number(table);
        column = next_number(table) - 1;
        end_column = next_number(table) - 1;
    } else if (kind < KIND_LINES_FURTHER) {
        unsigned byte = next_byte(table);

        column = 8 * kind + (byte >> 4 & 7);
        end_column = column + (byte & 15);
    } else if (kind < KIND_NO_COLUMNS) {
        *line += kind - KIND_LINES_FURTHER;
        column = next_byte(table);
        end_column = next_byte(table);
    }
    position->line = clamp(*line);
    position->end_line = clamp(*line + lines);
    position->column = clamp(column);
    position->end_column = clamp(end_column);
}

static void find_location(struct lw_cursor *table, int64_t line, int64_t offset,
                          struct lw_position *position)
{
    int64_t end = 0;

    while (end <= offset) {
        unsigned first = next_byte(table);

        end += CODE_UNIT_BYTES * ((first & 7) + 1);
        next_location(table, first >> 3 & 15, &line, position);
        if (table->failed || !(first & 0x80)) {
            *position = nowhere;
            return;
        }
    }
}

bool lw_lines_find(enum lw_line_format format, const void *table, size_t len,
                   int32_t first_line, int64_t byte_offset,
                   struct lw_position *position)
{
    struct lw_cursor cursor = lw_cursor_make(table, len);

    *position = nowhere;
    if (byte_offset < 0)
        set_line(position, first_line);
    else if (format == LW_LINES_LNOTAB)
        find_lnotab(&cursor, first_line, byte_offset, position);
    else if (format == LW_LINES_LINETABLE)
        find_linetable(&cursor, first_line, byte_offset, position);
    else
        find_location(&cursor, first_line, byte_offset, position);
    if (position->line < 0)
        *position = nowhere;
    return position->line >= 0;
}
