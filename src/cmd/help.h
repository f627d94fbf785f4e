/* What --help prints, made from the command structs. */

#ifndef LW_CMD_HELP_H
#define LW_CMD_HELP_H

#include "base/buf.h"
#include "cmd/command.h"

/* Help being written. */
struct lw_help {
    struct lw_buf out;
    size_t width;  /* of the terminal, in columns */
    size_t column; /* where the right side starts */
    bool is_roff;  /* for the manual instead: headings and rows as man's macros */
};

/* Append TEXT so that roff prints it as it is. */
void lw_help_add_roff(struct lw_buf *out, const char *text, size_t len);

/* Print the help of COMMAND, or of the whole program when it is NULL, on stdout,
 * wrapped to the terminal's width (80 columns in a pipe). */
bool lw_help_print(const struct lw_command *command, struct lw_error *err)
    LW_MUST_CHECK;

/* NULL: no such command; then ERR says so and suggests the closest name. */
const struct lw_command *lw_command_find(const char *name, struct lw_error *err);

#endif
