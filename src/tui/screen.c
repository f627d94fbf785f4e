/* Rows lie one after the other in one buffer. To draw is to go home and write each over
 * what is there, and to clear only the rest of a row and what is below: nothing is ever
 * blank in between. */

#include "tui/screen.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"
#define PLAIN "\033[0m"

static const char *const style_escapes[] = {
    [LW_SCREEN_PLAIN] = "",
    [LW_SCREEN_BOLD] = "\033[1m",
    [LW_SCREEN_DIM] = "\033[2m",
    [LW_SCREEN_REVERSE] = "\033[7m",
};

void lw_screen_init(struct lw_screen *screen)
{
    *screen = (struct lw_screen){ 0 };
    lw_buf_init(&screen->text, 0);
}

void lw_screen_release(struct lw_screen *screen)
{
    lw_free(screen->rows);
    lw_buf_release(&screen->text);
    lw_screen_init(screen);
}

void lw_screen_reset(struct lw_screen *screen, size_t height, size_t width)
{
    screen->height = height;
    screen->width = width;
    screen->row_count = 0;
    lw_buf_reset(&screen->text);
}

size_t lw_screen_left(const struct lw_screen *screen)
{
    return screen->height - screen->row_count;
}

void lw_screen_add(struct lw_screen *screen, enum lw_screen_style style,
                   const char *text, size_t len)
{
    size_t start = screen->text.len;
    struct lw_screen_row *row;

    if (!lw_screen_left(screen) || screen->text.failure)
        return;
    if (!lw_grow(&screen->rows, &screen->row_capacity, screen->row_count + 1,
                 sizeof(*screen->rows), NULL)) {
        screen->text.failure = LW_ERR_NOMEM;
        return;
    }
    lw_text_add_printable(&screen->text, text, len);
    if (screen->text.failure)
        return;
    len = screen->text.len - start;
    if (len)
        len = lw_text_fit(screen->text.bytes + start, len, screen->width);
    screen->text.len = start + len;
    row = &screen->rows[screen->row_count++];
    *row = (struct lw_screen_row){ start, len, style };
}

void lw_screen_addf(struct lw_screen *screen, enum lw_screen_style style,
                    const char *format, ...)
{
    struct lw_buf line;
    va_list args;

    lw_buf_init(&line, 0);
    va_start(args, format);
    lw_buf_addv(&line, format, args);
    va_end(args);
    if (line.failure)
        screen->text.failure = line.failure;
    lw_screen_add(screen, style, line.bytes, line.len);
    lw_buf_release(&line);
}

void lw_screen_add_lines(struct lw_screen *screen, enum lw_screen_style style,
                         const char *text, size_t len)
{
    const char *end = text + len;

    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((newline ? newline : end) - text);

        lw_screen_add(screen, style, text, line);
        text += line + 1;
    }
}

void lw_screen_fill(struct lw_screen *screen, size_t count)
{
    while (screen->row_count < count && lw_screen_left(screen) && !screen->text.failure)
        lw_screen_add(screen, LW_SCREEN_PLAIN, "", 0);
}

void lw_screen_add_plain(const struct lw_screen *screen, struct lw_buf *out)
{
    for (size_t i = 0; i < screen->row_count; i++) {
        const struct lw_screen_row *row = &screen->rows[i];
        size_t len = row->len;

        while (len && screen->text.bytes[row->start + len - 1] == ' ')
            len--;
        if (len)
            lw_buf_add(out, screen->text.bytes + row->start, len);
        lw_buf_add_char(out, '\n');
    }
}

void lw_screen_add_escapes(const struct lw_screen *screen, struct lw_buf *out)
{
    lw_buf_add_text(out, HOME);
    for (size_t i = 0; i < screen->row_count; i++) {
        const struct lw_screen_row *row = &screen->rows[i];
        const char *text = screen->text.bytes + row->start;
        size_t used = row->len ? lw_text_width(text, row->len) : 0;

        if (i)
            lw_buf_add_text(out, "\r\n");
        lw_buf_add_text(out, style_escapes[row->style]);
        if (row->len)
            lw_buf_add(out, text, row->len);
        if (row->style == LW_SCREEN_REVERSE)
            lw_buf_add_repeat(out, ' ', screen->width - used);
        if (row->style != LW_SCREEN_PLAIN)
            lw_buf_add_text(out, PLAIN);
        /* In the last column some terminals would clear the last character. */
        if (used < screen->width && row->style != LW_SCREEN_REVERSE)
            lw_buf_add_text(out, CLEAR_LINE);
    }
    if (screen->row_count < screen->height)
        lw_buf_add_text(out, CLEAR_BELOW);
}

bool lw_screen_check(const struct lw_screen *screen, struct lw_error *err)
{
    return lw_buf_check(&screen->text, err);
}
