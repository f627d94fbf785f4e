/* Where in the source an instruction comes from, out of the table that a code object
 * carries for it (co_lnotab, co_linetable).
 *
 * The table is read from another process's memory and may be anything; it is read once
 * from its start, with no memory of its own. Whoever asks often keeps the answers. */
#ifndef LW_SAMPLER_LINES_H
#define LW_SAMPLER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum lw_line_format {
    LW_LINES_LNOTAB = 0,    /* 3.9: pairs of increments */
    LW_LINES_LINETABLE = 1, /* 3.10: PEP 626 */
    LW_LINES_LOCATIONS = 2, /* 3.11+: with columns (PEP 657) */
};

/* Lines count from 1 (0: before the first, as a module's first instruction has it),
 * columns are bytes of UTF-8 from 0; -1: unknown. */
struct lw_position {
    int32_t line;
    int32_t end_line;
    int32_t column; /* columns: from 3.11 on, and not with -X no_debug_ranges */
    int32_t end_column;
};

/* The position of the instruction BYTE_OFFSET bytes into the bytecode of a code object
 * whose table is the LEN bytes at TABLE and whose co_firstlineno is FIRST_LINE. A
 * negative offset is a frame that has not begun: it is at the first line. False: the
 * instruction has no line, or the table is broken or ends before it; the position is
 * unknown then. */
bool lw_lines_find(enum lw_line_format format, const void *table, size_t len,
                   int32_t first_line, int64_t byte_offset,
                   struct lw_position *position) LW_MUST_CHECK;

#endif
