/* A table as aligned text, for a terminal, a pipe or an e-mail.
 *
 *     Functions by self time                         title (bold)
 *
 *      calls     self  share  function               titles of columns (dim)
 *      1,000   1.23 s  83.1 %  train.py:10(step)     numbers to the right
 *
 *     12 functions more: --limit 0 shows them.       notes (dim)
 *
 * Every cell is formatted once into one buffer, then columns get their widths, then
 * lines are put together. Colour never says anything that the text does not. */

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"
#include "writers/render.h"

#define GAP 2             /* columns between columns */
#define INDENT 2          /* columns a level */
#define DEEPEST_INDENT 30 /* levels; deeper rows say their depth as a number */
#define NARROWEST 16      /* a cut name shorter than this says nothing */
#define USUAL_WIDTH 80    /* of a terminal that does not say */
#define LARGE_SHARE 0.1   /* shown bright: one line in ten is worth a look */
#define SMALL_SHARE 0.01  /* shown dim */

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"
#define CUT "\xe2\x80\xa6" /* the ellipsis, one column wide */

struct lw_render_options lw_render_options_for_fd(int fd)
{
    struct lw_render_options options = { 0 };
    const char *columns = getenv("COLUMNS");
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    struct winsize size;
    uint64_t width;

    if (!isatty(fd))
        return options;
    if (columns && lw_text_u64(columns, strlen(columns), &width) && width > 0)
        options.width = (size_t)width;
    else if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        options.width = size.ws_col;
    else
        options.width = USUAL_WIDTH;
    options.colour = (!no_colour || !*no_colour) && term && strcmp(term, "dumb") != 0;
    return options;
}

size_t lw_render_lines_of_fd(int fd)
{
    const char *lines = getenv("LINES");
    struct winsize size;
    uint64_t count;

    if (!isatty(fd))
        return 0;
    if (lines && lw_text_u64(lines, strlen(lines), &count) && count > 0)
        return (size_t)count;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

struct cell {
    size_t offset; /* of its text in layout.text */
    size_t len;
    size_t width; /* columns, without the indent */
};

struct layout {
    const struct lw_table *table;
    bool colour;
    struct lw_buf text;   /* of all cells, one behind the other */
    struct cell *cells;   /* as the table's values */
    size_t *widths;       /* of columns */
    size_t indent_column; /* the first text; column_count: none */
};

/* Measuring */

static size_t indent_of(const struct layout *layout, size_t row, size_t column)
{
    uint32_t depth = layout->table->depths[row];

    if (column != layout->indent_column)
        return 0;
    return INDENT * (size_t)(depth < DEEPEST_INDENT ? depth : DEEPEST_INDENT);
}

static void format_cell(struct layout *layout, size_t row, size_t column)
{
    const struct lw_table *table = layout->table;
    struct cell *cell = &layout->cells[row * table->column_count + column];
    uint32_t depth = table->depths[row];
    size_t width;

    cell->offset = layout->text.len;
    if (column == layout->indent_column && depth > DEEPEST_INDENT)
        lw_buf_addf(&layout->text, "[%u] ", depth);
    lw_units_add_value(&layout->text, table->columns[column].unit,
                       lw_table_value(table, row, column));
    if (layout->text.failure)
        return;
    cell->len = layout->text.len - cell->offset;
    cell->width =
        cell->len ? lw_text_width(layout->text.bytes + cell->offset, cell->len) : 0;
    width = cell->width + indent_of(layout, row, column);
    if (width > layout->widths[column])
        layout->widths[column] = width;
}

static bool layout_init(struct layout *layout, const struct lw_table *table,
                        struct lw_error *err)
{
    size_t columns = table->column_count;

    memset(layout, 0, sizeof(*layout));
    layout->table = table;
    lw_buf_init(&layout->text, 0);
    lw_buf_add_text(&layout->text, ""); /* so that there are bytes to point at */
    layout->widths = lw_zalloc(columns, sizeof(*layout->widths), err);
    if (!layout->widths)
        return false;
    layout->cells = lw_zalloc(table->row_count * columns, sizeof(*layout->cells), err);
    if (!layout->cells)
        return false;
    while (layout->indent_column < columns &&
           table->columns[layout->indent_column].unit != LW_UNIT_TEXT)
        layout->indent_column++;
    for (size_t i = 0; i < columns; i++) {
        const char *title = table->columns[i].title;

        layout->widths[i] = lw_text_width(title, strlen(title));
    }
    for (size_t row = 0; row < table->row_count; row++)
        for (size_t i = 0; i < columns; i++)
            format_cell(layout, row, i);
    return lw_buf_check(&layout->text, err);
}

static void layout_release(struct layout *layout)
{
    lw_buf_release(&layout->text);
    lw_free(layout->cells);
    lw_free(layout->widths);
}

/* Take columns from the widest stretch column, one by one, until the line fits or
 * none can give more. Then the line is too long: better than a number cut. */
static void fit_to(struct layout *layout, size_t width)
{
    const struct lw_table *table = layout->table;
    size_t total = GAP * (table->column_count - 1);

    for (size_t i = 0; i < table->column_count; i++)
        total += layout->widths[i];
    for (; total > width; total--) {
        size_t widest = table->column_count;

        for (size_t i = 0; i < table->column_count; i++)
            if (table->columns[i].stretch && layout->widths[i] > NARROWEST &&
                (widest == table->column_count ||
                 layout->widths[i] > layout->widths[widest]))
                widest = i;
        if (widest == table->column_count)
            return;
        layout->widths[widest]--;
    }
}

/* Cutting */

/* A path, maybe with a line and a function behind: its end matters most. */
static bool is_path(const char *text, size_t len)
{
    for (size_t i = 0; i < len && text[i] != ' ' && text[i] != '('; i++)
        if (text[i] == '/')
            return true;
    return false;
}

/* The longest end of TEXT that takes at most WIDTH columns, of TOTAL it has. */
static size_t end_that_fits(const char *text, size_t len, size_t total, size_t width)
{
    size_t start = lw_text_fit(text, len, total - width);

    if (lw_text_width(text + start, len - start) > width) { /* a wide one in the way */
        uint32_t code;

        start += lw_text_utf8(text + start, len - start, &code);
    }
    return len - start;
}

/* Does a number go on from the byte before AT to that at it? */
static bool is_in_number(const char *text, size_t len, size_t at)
{
    return at > 0 && at < len && strchr("0123456789.,", text[at - 1]) &&
           strchr("0123456789.,", text[at]);
}

/* Returns the columns that were used. */
static size_t add_cut(struct lw_buf *out, const char *text, size_t len, size_t total,
                      size_t width)
{
    bool path = is_path(text, len);
    size_t head, head_width, tail;
    const char *end;

    if (total <= width) {
        lw_buf_add(out, text, len);
        return total;
    }
    if (width == 0)
        return 0;
    head = path ? 0 : lw_text_fit(text, len, (width - 1) / 2);
    while (is_in_number(text, len, head)) /* half a number is another number */
        head--;
    head_width = lw_text_width(text, head);
    tail = end_that_fits(text, len, total, width - 1 - head_width);
    end = text + len - tail;
    while (is_in_number(text, len, (size_t)(end - text)))
        end++;
    tail = (size_t)(text + len - end);
    if (path) { /* rather whole names of folders, if that costs little */
        const char *slash = memchr(end, '/', tail / 2);

        if (slash)
            end = slash;
    }
    tail = (size_t)(text + len - end);
    lw_buf_add(out, text, head);
    lw_buf_add_text(out, CUT);
    lw_buf_add(out, end, tail);
    return head_width + 1 + lw_text_width(end, tail);
}

/* Lines */

/* Text in a colour, if there are colours. */
static void add_styled(const struct layout *layout, const char *style, const char *text,
                       size_t len, struct lw_buf *out)
{
    if (layout->colour && *style)
        lw_buf_add_text(out, style);
    lw_buf_add(out, text, len);
    if (layout->colour && *style)
        lw_buf_add_text(out, PLAIN);
}

static const char *style_of(enum lw_unit unit, const struct lw_value *value)
{
    if (unit != LW_UNIT_SHARE || !value->present)
        return "";
    if (value->as.number >= LARGE_SHARE)
        return BOLD;
    return value->as.number < SMALL_SHARE ? DIM : "";
}

static bool is_right(const struct lw_column *column)
{
    return column->unit != LW_UNIT_TEXT;
}

/* Spaces are owed and only paid before text, so that no line ends in any. */
static void add_row(const struct layout *layout, size_t row, struct lw_buf *out)
{
    const struct lw_table *table = layout->table;
    size_t owed = 0;

    for (size_t i = 0; i < table->column_count; i++) {
        const struct cell *cell = &layout->cells[row * table->column_count + i];
        const char *text = layout->text.bytes + cell->offset;
        size_t width = layout->widths[i], used = cell->width;

        if (i)
            owed += GAP;
        if (cell->len == 0) {
            owed += width;
        } else if (is_right(&table->columns[i])) {
            lw_buf_add_repeat(out, ' ', owed + width - used);
            add_styled(layout,
                       style_of(table->columns[i].unit, lw_table_value(table, row, i)),
                       text, cell->len, out);
            owed = 0;
        } else {
            size_t indent = indent_of(layout, row, i);

            if (indent > width / 2)
                indent = width / 2;
            lw_buf_add_repeat(out, ' ', owed + indent);
            used = add_cut(out, text, cell->len, used, width - indent);
            owed = width - indent - used;
        }
    }
    lw_buf_add_char(out, '\n');
}

static void add_header(const struct layout *layout, struct lw_buf *out)
{
    const struct lw_table *table = layout->table;
    size_t owed = 0;
    bool any = false;

    for (size_t i = 0; i < table->column_count; i++)
        any = any || *table->columns[i].title;
    if (!any)
        return;
    for (size_t i = 0; i < table->column_count; i++) {
        const char *title = table->columns[i].title;
        size_t len = strlen(title), used = lw_text_width(title, len);
        size_t width = layout->widths[i] > used ? layout->widths[i] : used;
        bool right = is_right(&table->columns[i]);

        owed += (i ? GAP : 0) + (right ? width - used : 0);
        if (len) {
            lw_buf_add_repeat(out, ' ', owed);
            add_styled(layout, DIM, title, len, out);
            owed = 0;
        }
        owed += right ? 0 : width - used;
    }
    lw_buf_add_char(out, '\n');
}

/* A sentence, broken at spaces to fit WIDTH (0: any). Its first line begins where OUT
 * stands, INDENT columns from the left; those that follow, below it. */
static void add_sentence(const struct layout *layout, const char *style,
                         const char *text, size_t len, size_t indent, size_t width,
                         struct lw_buf *out)
{
    size_t room = width > indent + NARROWEST ? width - indent : width;
    struct lw_buf line;
    size_t at = 0;

    lw_buf_init(&line, 0);
    lw_text_add_printable(&line, text, len);
    while (!line.failure) {
        const char *rest = line.bytes + at;
        size_t left = line.len - at;
        size_t fitting = room ? lw_text_fit(rest, left, room) : left;
        const char *space;

        if (fitting == 0)
            fitting = left; /* nothing fits */
        space =
            fitting < left && rest[fitting] != ' ' ? memrchr(rest, ' ', fitting) : NULL;
        if (space && space > rest)
            fitting = (size_t)(space - rest);
        if (at > 0)
            lw_buf_add_repeat(out, ' ', indent);
        add_styled(layout, style, rest, fitting, out);
        lw_buf_add_char(out, '\n');
        at += fitting;
        while (at < line.len && line.bytes[at] == ' ')
            at++;
        if (at == line.len)
            break;
    }
    if (line.failure && !out->failure)
        out->failure = line.failure;
    lw_buf_release(&line);
}

/* What a row says: "1. " and its heading, its other lines below that. */
static void add_saying(const struct layout *layout, size_t row, size_t width,
                       struct lw_buf *out)
{
    const char *line = layout->table->sayings[row];
    const char *style = BOLD;
    size_t indent, before = out->len;

    lw_buf_addf(out, "%zu. ", row + 1);
    indent = out->len - before;
    while (*line) {
        size_t len = strcspn(line, "\n");

        add_sentence(layout, style, line, len, indent, width, out);
        line += len + (line[len] != '\0');
        if (*line)
            lw_buf_add_repeat(out, ' ', indent);
        style = "";
    }
    if (row + 1 < layout->table->row_count)
        lw_buf_add_char(out, '\n');
}

#define FEWEST_ROWS 3 /* a screen too low for these is scrolled */

/* Lines that sentences and header take, and the note about rows that are left out. */
static size_t lines_without_rows(const struct layout *layout, size_t width)
{
    const struct lw_table *table = layout->table;
    struct lw_buf text;
    size_t count = 0;

    lw_buf_init(&text, 0);
    if (table->title)
        add_sentence(layout, "", table->title, strlen(table->title), 0, width, &text);
    for (size_t i = 0; i < table->note_count; i++)
        add_sentence(layout, "", table->notes[i], strlen(table->notes[i]), 0, width,
                     &text);
    for (size_t i = 0; i < text.len; i++)
        count += text.bytes[i] == '\n';
    lw_buf_release(&text);
    return count + (table->title ? 1 : 0) + 1 /* header */ + 1 /* before the notes */ +
           2 /* the note about rows, maybe broken */ + 1 /* the shell's prompt */;
}

/* How many of the rows fit; the first are the best. */
static size_t rows_that_fit(const struct layout *layout,
                            const struct lw_render_options *options)
{
    size_t others, rows = layout->table->row_count;

    if (!options->lines || layout->table->sayings)
        return rows;
    others = lines_without_rows(layout, options->width);
    if (rows + others <= options->lines + 2) /* no such note then */
        return rows;
    rows = options->lines > others ? options->lines - others : 0;
    return rows < FEWEST_ROWS ? FEWEST_ROWS : rows;
}

static void add_left_out(const struct layout *layout, size_t count,
                         const struct lw_render_options *options, struct lw_buf *out)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)count);
    lw_buf_addf(&text, " more row%s %s not fit on this screen; %s.",
                count == 1 ? "" : "s", count == 1 ? "does" : "do", options->more);
    if (text.failure)
        out->failure = out->failure ? out->failure : text.failure;
    else
        add_sentence(layout, DIM, text.bytes, text.len, 0, options->width, out);
    lw_buf_release(&text);
}

void lw_render_text(const struct lw_table *table,
                    const struct lw_render_options *options, struct lw_buf *out)
{
    struct layout layout;
    struct lw_error err;
    size_t rows;

    if (!layout_init(&layout, table, &err)) {
        if (!out->failure)
            out->failure = err.code;
        layout_release(&layout);
        return;
    }
    layout.colour = options->colour;
    if (options->width)
        fit_to(&layout, options->width);
    if (table->title) {
        add_sentence(&layout, BOLD, table->title, strlen(table->title), 0,
                     options->width, out);
        if (table->row_count || table->note_count)
            lw_buf_add_char(out, '\n');
    }
    if (table->row_count && !table->sayings)
        add_header(&layout, out);
    rows = rows_that_fit(&layout, options);
    for (size_t row = 0; row < rows && row < table->row_count; row++)
        if (table->sayings)
            add_saying(&layout, row, options->width, out);
        else
            add_row(&layout, row, out);
    if (table->row_count && (table->note_count || rows < table->row_count))
        lw_buf_add_char(out, '\n');
    if (rows < table->row_count)
        add_left_out(&layout, table->row_count - rows, options, out);
    for (size_t i = 0; i < table->note_count; i++)
        add_sentence(&layout, DIM, table->notes[i], strlen(table->notes[i]), 0,
                     options->width, out);
    layout_release(&layout);
}
