/* Regular expressions as Python writes them, matched with the C library's.
 *
 * Restrictions of reports are what pstats takes: Python's `re.search`. Whether there is
 * a match anywhere is the same question for POSIX's extended expressions, so a pattern
 * is translated: \d \w \s \b and the other escapes, (?:...), (?P<name>...), lazy
 * quantifiers, {,n}, a { that repeats nothing, and classes with escapes in them. Looking
 * ahead or behind, possessive and conditional groups cannot be translated and are
 * refused by name. Text is matched byte by byte: "." is one byte of a longer character,
 * \w and \d are ASCII. */
#ifndef LW_BASE_PATTERN_H
#define LW_BASE_PATTERN_H

#include <regex.h>
#include <stddef.h>

#include "base/error.h"

struct lw_pattern {
    regex_t regex;
    bool is_compiled;
};

/* Fails with LW_ERR_USAGE and a sentence that holds the pattern. */
bool lw_pattern_init(struct lw_pattern *pattern, const char *text, struct lw_error *err)
    LW_MUST_CHECK;
void lw_pattern_release(struct lw_pattern *pattern); /* zeroed is fine */

/* Is there a match anywhere in the LEN bytes at TEXT? A NUL must be behind them. */
bool lw_pattern_search(const struct lw_pattern *pattern, const char *text, size_t len);

#endif
