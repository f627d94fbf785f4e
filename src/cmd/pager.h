/* Output that is longer than the screen: how much fits, and the pager for the rest. */
#ifndef LW_CMD_PAGER_H
#define LW_CMD_PAGER_H

#include "base/buf.h"
#include "cmd/view_args.h"
#include "writers/render.h"

/* The command that shows what is long, or NULL: stdout is no terminal, or neither was a
 * pager asked for (IS_ASKED) nor is there one in LAPWING_PAGER. Borrowed. */
const char *lw_pager_choose(bool is_asked);

/* Show what is in OUT through PAGER, and wait for it to end. Where it cannot be started OUT
 * goes to stdout as it is, with a sentence on stderr. */
void lw_pager_show(const char *pager, const struct lw_buf *out);

/* Have ARGS ask VIEW for as many rows as fit on stdout, if it is a terminal, nobody said
 * how many, and there is no PAGER, which gets them all. */
void lw_pager_fit(struct lw_view_args *args, const struct lw_analysis *view,
                  const char *pager);
/* How the answer is shown on stdout: without a PAGER no longer than the screen, unless it
 * was said how many rows are wanted (HAS_LIMIT). IN_SHELL there is no option --pager. */
struct lw_render_options lw_pager_look(const struct lw_analysis *view, bool has_limit,
                                       bool in_shell, const char *pager);

#endif
