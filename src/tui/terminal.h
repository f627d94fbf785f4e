/* A terminal that shows one screen: keys arrive as they are pressed, what was there
 * before comes back at the end.
 *
 * The end may be any: a signal that kills us, our own bug, Ctrl-Z. Whatever it is, the
 * terminal is given back first. One terminal can be open at a time. */
#ifndef LW_TUI_TERMINAL_H
#define LW_TUI_TERMINAL_H

#include <termios.h>

#include "tui/keys.h"
#include "tui/screen.h"

struct lw_terminal {
    int in, out; /* borrowed descriptors of the terminal */
    struct termios before;
    bool is_gone; /* it was closed: nothing will come from it */
    unsigned char pending[64];
    size_t pending_count; /* bytes of keys that are not whole yet */
};

/* Whether IN and OUT are a terminal that can show screens, as opposed to a pipe, a file
 * or one whose TERM is "dumb". */
bool lw_terminal_is_able(int in, int out);

/* Take over the terminal. */
bool lw_terminal_open(struct lw_terminal *terminal, int in, int out,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_terminal_close(struct lw_terminal *terminal);

/* Rows and columns; 24 and 80 if it does not say. */
void lw_terminal_size(const struct lw_terminal *terminal, size_t *height,
                      size_t *width);
/* Whether its size may have changed, or what it shows was lost, since the last asking. */
bool lw_terminal_was_disturbed(struct lw_terminal *terminal);

/* Wait up to WAIT_NS for a key. LW_KEY_NONE: none was pressed, a signal came or the
 * terminal is gone. */
uint32_t lw_terminal_key(struct lw_terminal *terminal, uint64_t wait_ns);

bool lw_terminal_draw(struct lw_terminal *terminal, const struct lw_screen *screen,
                      struct lw_error *err) LW_MUST_CHECK;

#endif
