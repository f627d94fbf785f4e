/* What pstats would print, byte for byte (of CPython 3.11): print_stats,
 * print_callers, print_callees.
 *
 * The one difference: bytes of a name that could steer a terminal are shown as \xNN. */
#ifndef LW_WRITERS_PSTATS_TEXT_H
#define LW_WRITERS_PSTATS_TEXT_H

#include "base/buf.h"
#include "model/query.h"

enum lw_pstats_part {
    LW_PSTATS_STATS,
    LW_PSTATS_CALLERS,
    LW_PSTATS_CALLEES,
};

/* Append what pstats prints of GRAPH. QUERY says how it was sorted and SELECTION what it
 * selected. HEAD is the line that names the file ("Sun Nov 15 20:07:31 2026    x.prof");
 * NULL: none. */
bool lw_pstats_print(enum lw_pstats_part part, const struct lw_callgraph *graph,
                     const struct lw_query *query, const struct lw_selection *selection,
                     const char *head, struct lw_buf *out, struct lw_error *err)
    LW_MUST_CHECK;

/* Append repr() of a str, as Python has it in messages. */
void lw_pstats_add_repr(struct lw_buf *out, const char *text);

#endif
