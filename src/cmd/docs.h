/* What is made from the command, reader and writer structs for others to read: the
 * manual, shells' completions, the table of formats. Each appends to a buffer, whose
 * failure the caller checks; the same structs make the same bytes. */

#ifndef LW_CMD_DOCS_H
#define LW_CMD_DOCS_H

#include "base/buf.h"

void lw_docs_add_man(struct lw_buf *out);
void lw_docs_add_formats(struct lw_buf *out);
void lw_docs_add_bash(struct lw_buf *out);
void lw_docs_add_zsh(struct lw_buf *out);
void lw_docs_add_fish(struct lw_buf *out);

#endif
