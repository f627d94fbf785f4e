/* What a person may have meant by a word that is none of the program's. */
#ifndef LW_CMD_GUESS_H
#define LW_CMD_GUESS_H

#include "cmd/command.h"
#include "model/table.h"

/* There is no command WORD: say so, with the command line that may have been meant
 * ("did you mean 'lapwing report steps'?"). */
void lw_guess_command(const char *word, struct lw_error *err);

/* VIEW takes no restrictions, so WORD means nothing behind it. */
void lw_guess_word(const char *view, const char *word, struct lw_error *err);

/* Did the restrictions leave no row of TABLE? Then fail, with what may have been meant. It
 * is LW_ERR_USAGE unless a view was named (HAS_VIEW): a word alone may have been anything. */
bool lw_guess_check(const struct lw_table *table, bool has_view, struct lw_error *err)
    LW_MUST_CHECK;
/* The same only where something may have been meant. Else the table, empty as pstats' is,
 * and its note are the answer. */
bool lw_guess_near(const struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

#endif
