/* The lines a person types, or a script on standard input.
 *
 * At a terminal they can be edited, found again (the history is kept in
 * $XDG_STATE_HOME/lapwing/history, or ~/.local/state) and completed with Tab. In a pipe
 * they are read as they are, and the prompt is written to standard output all the
 * same: that is what Python's input() does, and so its browsers print. */

#ifndef LW_CMD_LINES_H
#define LW_CMD_LINES_H

#include "base/buf.h"

/* What may stand where the LEN bytes at LINE end: append each word that goes on from
 * WORD, the last of them, and a newline. */
typedef void lw_lines_complete(void *context, const char *line, size_t len,
                               const char *word, struct lw_buf *words);

struct lw_lines;

struct lw_lines *lw_lines_open(lw_lines_complete *complete, void *context,
                               struct lw_error *err);
void lw_lines_close(struct lw_lines *lines); /* NULL is fine */

/* The next line, without its newline, in *LINE: borrowed until the next, and may be
 * written to. NULL there is the end. */
bool lw_lines_read(struct lw_lines *lines, const char *prompt, char **line,
                   struct lw_error *err) LW_MUST_CHECK;

#endif
