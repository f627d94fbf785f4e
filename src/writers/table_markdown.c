/* A table as GitHub's Markdown. Every mark in a name is escaped: __init__ would become
 * bold, and <listcomp> would be taken for HTML and vanish. */

#include <string.h>

#include "base/text.h"
#include "model/units.h"
#include "writers/render.h"

#define DEEPEST_INDENT 20 /* levels; a browser's column is not wider */

/* What SCRATCH holds, which is then empty again. */
static void add_escaped(struct lw_buf *out, struct lw_buf *scratch)
{
    for (size_t i = 0; i < scratch->len; i++) {
        if (strchr("\\`*_[]<>|~&", scratch->bytes[i]))
            lw_buf_add_char(out, '\\');
        lw_buf_add_char(out, scratch->bytes[i]);
    }
    if (scratch->failure && !out->failure)
        out->failure = scratch->failure;
    lw_buf_reset(scratch);
}

/* A sentence: first what is not printable made so, then marks escaped. */
static void add_line(struct lw_buf *out, struct lw_buf *scratch, const char *text)
{
    lw_text_add_printable(scratch, text, strlen(text));
    add_escaped(out, scratch);
}

static void add_row(const struct lw_table *table, size_t row, struct lw_buf *scratch,
                    struct lw_buf *out)
{
    bool indented = false;

    for (size_t i = 0; i < table->column_count; i++) {
        enum lw_unit unit = table->columns[i].unit;

        lw_buf_add_text(out, i ? " | " : "| ");
        if (unit == LW_UNIT_TEXT && !indented) {
            uint32_t depth = table->depths[row];

            for (uint32_t n = 0; n < depth && n < DEEPEST_INDENT; n++)
                lw_buf_add_text(out, "&nbsp;&nbsp;");
            indented = true;
        }
        lw_units_add_value(scratch, unit, lw_table_value(table, row, i));
        add_escaped(out, scratch);
    }
    lw_buf_add_text(out, " |\n");
}

void lw_render_markdown(const struct lw_table *table, struct lw_buf *out)
{
    struct lw_buf scratch;

    lw_buf_init(&scratch, 0);
    if (table->title) {
        lw_buf_add_text(out, "### ");
        add_line(out, &scratch, table->title);
        lw_buf_add_text(out, "\n\n");
    }
    for (size_t i = 0; i < table->column_count; i++) {
        lw_buf_add_text(out, i ? " | " : "| ");
        add_line(out, &scratch, table->columns[i].title);
    }
    lw_buf_add_text(out, " |\n|");
    for (size_t i = 0; i < table->column_count; i++)
        lw_buf_add_text(out,
                        table->columns[i].unit == LW_UNIT_TEXT ? " --- |" : " ---: |");
    lw_buf_add_char(out, '\n');
    for (size_t row = 0; row < table->row_count; row++)
        add_row(table, row, &scratch, out);
    for (size_t i = 0; i < table->note_count; i++) {
        lw_buf_add_char(out, '\n');
        add_line(out, &scratch, table->notes[i]);
        lw_buf_add_char(out, '\n');
    }
    lw_buf_release(&scratch);
}
