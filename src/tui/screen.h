/* What is to be seen on a terminal, as rows of text: made by a function of some state,
 * drawn or compared with a file.
 *
 * Rows are added from the top. Each is cut to the width by what its characters take on
 * a terminal, and what is not printable in it is shown as \xNN, so a name cannot steer
 * the terminal; rows below the last are dropped. Failure is sticky, as that of struct
 * lw_buf. */
#ifndef LW_TUI_SCREEN_H
#define LW_TUI_SCREEN_H

#include "base/buf.h"

enum lw_screen_style {
    LW_SCREEN_PLAIN,
    LW_SCREEN_BOLD,
    LW_SCREEN_DIM,
    LW_SCREEN_REVERSE, /* over the whole width */
};

struct lw_screen_row {
    size_t start, len; /* in the screen's text */
    enum lw_screen_style style;
};

struct lw_screen {
    size_t height, width;       /* rows and columns of the terminal */
    struct lw_screen_row *rows; /* owned */
    size_t row_count, row_capacity;
    struct lw_buf text;
};

void lw_screen_init(struct lw_screen *screen);
void lw_screen_release(struct lw_screen *screen);
/* Empty it, for a terminal of this size. */
void lw_screen_reset(struct lw_screen *screen, size_t height, size_t width);

void lw_screen_add(struct lw_screen *screen, enum lw_screen_style style,
                   const char *text, size_t len);
void lw_screen_addf(struct lw_screen *screen, enum lw_screen_style style,
                    const char *format, ...) LW_PRINTF(3, 4);
/* One row for each line of TEXT. */
void lw_screen_add_lines(struct lw_screen *screen, enum lw_screen_style style,
                         const char *text, size_t len);
/* Add empty rows until there are COUNT. */
void lw_screen_fill(struct lw_screen *screen, size_t count);
/* How many rows can still be added. */
size_t lw_screen_left(const struct lw_screen *screen);

/* The rows as lines of plain text. */
void lw_screen_add_plain(const struct lw_screen *screen, struct lw_buf *out);
/* What makes a terminal show the rows, whatever it shows now; it does not flicker. */
void lw_screen_add_escapes(const struct lw_screen *screen, struct lw_buf *out);

bool lw_screen_check(const struct lw_screen *screen, struct lw_error *err)
    LW_MUST_CHECK;

#endif
