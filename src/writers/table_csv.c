/* A table as CSV: RFC 4180, raw values, machine names. Title and notes have no place
 * in it. An absent cell is empty.
 *
 * Names come from the watched program or a foreign file, and CSV goes to terminals and
 * spreadsheets. What is not printable stands as \xNN, so a row is always one line; text
 * that a spreadsheet would run as a formula gets an apostrophe in front, which a
 * spreadsheet takes for "this is text". Numbers are written without either. */

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "writers/render.h"

/* By its first mark, behind spaces, which some spreadsheets leave out. The wide forms
 * (U+FF1D, U+FF0B, U+FF0D, U+FF20) are formulas where East Asian input is usual. */
static bool is_formula(const char *text, size_t len)
{
    uint32_t code = 0;

    while (len && *text == ' ') {
        text++;
        len--;
    }
    if (!lw_text_utf8(text, len, &code))
        return false;
    switch (code) {
    case '=':
    case '+':
    case '-':
    case '@':
    case '\t':
    case '\r':
    case 0xff1d:
    case 0xff0b:
    case 0xff0d:
    case 0xff20: return true;
    default: return false;
    }
}

static bool wants_quotes(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '"' || text[i] == ',')
            return true;
    return len && (text[0] == ' ' || text[len - 1] == ' ');
}

static void add_text(struct lw_buf *out, const char *text, size_t len)
{
    bool quoted = wants_quotes(text, len);

    if (quoted)
        lw_buf_add_char(out, '"');
    if (is_formula(text, len))
        lw_buf_add_char(out, '\'');
    while (len) {
        const char *quote = memchr(text, '"', len);
        size_t part = quote ? (size_t)(quote + 1 - text) : len;

        lw_text_add_printable(out, text, part);
        if (quote)
            lw_buf_add_char(out, '"');
        text += part;
        len -= part;
    }
    if (quoted)
        lw_buf_add_char(out, '"');
}

static void add_value(struct lw_buf *out, enum lw_unit unit,
                      const struct lw_value *value)
{
    if (!value->present)
        return;
    switch (unit) {
    case LW_UNIT_TEXT: add_text(out, value->as.text.bytes, value->as.text.len); break;
    case LW_UNIT_COUNT:
    case LW_UNIT_NS:
    case LW_UNIT_BYTES:
    case LW_UNIT_TIME: lw_buf_addf(out, "%" PRId64, value->as.integer); break;
    case LW_UNIT_SECONDS:
    case LW_UNIT_SHARE:
    case LW_UNIT_NUMBER:
    case LW_UNIT_PERCENT:
    case LW_UNIT_BYTES_S:
    case LW_UNIT_OWN:
        if (isfinite(value->as.number))
            lw_buf_add_double(out, value->as.number);
        break;
    }
}

static bool has_nested_rows(const struct lw_table *table)
{
    for (size_t row = 0; row < table->row_count; row++)
        if (table->depths[row])
            return true;
    return false;
}

void lw_render_csv(const struct lw_table *table, struct lw_buf *out)
{
    bool nested = has_nested_rows(table);

    if (nested)
        lw_buf_add_text(out, "depth,");
    for (size_t i = 0; i < table->column_count; i++) {
        if (i)
            lw_buf_add_char(out, ',');
        add_text(out, table->columns[i].name, strlen(table->columns[i].name));
    }
    lw_buf_add_text(out, "\r\n");
    for (size_t row = 0; row < table->row_count; row++) {
        if (nested)
            lw_buf_addf(out, "%" PRIu32 ",", table->depths[row]);
        for (size_t i = 0; i < table->column_count; i++) {
            if (i)
                lw_buf_add_char(out, ',');
            add_value(out, table->columns[i].unit, lw_table_value(table, row, i));
        }
        lw_buf_add_text(out, "\r\n");
    }
}
