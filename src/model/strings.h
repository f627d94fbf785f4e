/* A table of distinct strings, each known by a small number.
 *
 * Whatever has a name in a profile stores the number: comparing two names is
 * comparing two integers, and a million samples of one function hold its name
 * once. Number 0 is the empty string. The bytes are any bytes (no encoding is
 * assumed, NUL included), kept with a NUL behind them. The table owns its copy
 * until lw_strings_free(). One thread may write at a time. */
#ifndef LW_MODEL_STRINGS_H
#define LW_MODEL_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef uint32_t lw_string_id;

#define LW_NONE UINT32_MAX /* no such index, of whatever array */

struct lw_strings;

struct lw_strings *lw_strings_new(struct lw_error *err);
void lw_strings_free(struct lw_strings *table); /* NULL is fine */

/* Find or add the LEN bytes at TEXT and put their number in *ID. Fails only
 * with LW_ERR_NOMEM, and then the table is as it was. */
bool lw_strings_intern(struct lw_strings *table, const char *text, size_t len,
                       lw_string_id *id, struct lw_error *err) LW_MUST_CHECK;

/* Borrowed, NUL-terminated; good until the table is freed. */
const char *lw_strings_text(const struct lw_strings *table, lw_string_id id);
size_t lw_strings_len(const struct lw_strings *table, lw_string_id id);
size_t lw_strings_count(const struct lw_strings *table); /* the empty one included */

#endif
