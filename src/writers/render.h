/* Any table, for a person or for a program.
 *
 * Text and Markdown show values as people read them (1.23 s, 12.3 %); JSON and CSV hold
 * them raw, under the columns' machine names: whole nanoseconds, shares from 0 to 1.
 * Names may hold any bytes, and none of them can steer a terminal: text, Markdown and CSV
 * show what is not printable as \xNN; JSON escapes it (\u009b) and puts U+FFFD for what is
 * not UTF-8. Failure is the buffer's: lw_buf_check() once at the end. */
#ifndef LW_WRITERS_RENDER_H
#define LW_WRITERS_RENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json_out.h"
#include "model/table.h"

struct lw_render_options {
    size_t width; /* columns to fit into, by cutting stretch columns; 0: any */
    bool colour;  /* with the escapes of a terminal */
    size_t lines; /* to fit into, by leaving out the last rows of a long table; 0: any */
    const char *more; /* how to see those: "--limit 0 shows all"; NULL: lines is 0 */
};

/* What suits FD: as wide as the terminal (COLUMNS goes before what the terminal says)
 * and in colour, unless NO_COLOR is set or TERM is dumb; no limit and plain if FD is no
 * terminal. */
struct lw_render_options lw_render_options_for_fd(int fd);
/* How many lines FD's terminal has (LINES goes before what it says); 0: it is none. */
size_t lw_render_lines_of_fd(int fd);

/* Aligned columns, numbers to the right, nested rows indented, notes below. A name too
 * long is cut in its middle, a path at its front. */
void lw_render_text(const struct lw_table *table,
                    const struct lw_render_options *options, struct lw_buf *out);

/* {"title": ..., "columns": [{"name", "title", "unit"} ...], "rows": [{NAME: value ...}
 * ...], "notes": [...]}, a row a line; absent cells are null. Nested rows are their
 * parent's "children". From LW_RENDER_DEPTH on they are listed side by side under the last
 * parent instead, each with its true "depth". */
#define LW_RENDER_DEPTH \
    100 /* two levels of JSON each; readers give up at 1,000 or so */
void lw_render_json(const struct lw_table *table, struct lw_buf *out);
/* The same as one value of a larger document. */
void lw_render_json_value(const struct lw_table *table, struct lw_json_out *json);

/* RFC 4180, with a header. If rows nest, a first column "depth". Text that a spreadsheet
 * would run (=, +, -, @ in front) has an apostrophe before it. */
void lw_render_csv(const struct lw_table *table, struct lw_buf *out);

/* A table as GitHub draws it, with title and notes around. */
void lw_render_markdown(const struct lw_table *table, struct lw_buf *out);

#endif
