/* JSON text, appended to a buffer: commas, quoting and nesting are kept here.
 *
 * Strings are escaped, and so is every character that is not printable (C1 controls,
 * marks of direction: lw_text_is_printable), so that the text can be shown on a
 * terminal; bytes that are not UTF-8 become U+FFFD. Numbers that JSON
 * cannot hold (NaN, infinities) become null. Failure is the buffer's, checked once
 * at the end. Objects and arrays may nest LW_JSON_DEPTH deep; deeper is the buffer's
 * LW_ERR_LIMIT. */
#ifndef LW_BASE_JSON_OUT_H
#define LW_BASE_JSON_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define LW_JSON_DEPTH 256 /* what readers in other languages take without a word */

struct lw_json_out {
    struct lw_buf *out; /* borrowed */
    unsigned depth;
    bool pretty; /* newlines and two spaces a level */
    bool has_items[LW_JSON_DEPTH + 1];
    bool after_key;
};

void lw_json_start(struct lw_json_out *json, struct lw_buf *out, bool pretty);
void lw_json_object(struct lw_json_out *json);
void lw_json_array(struct lw_json_out *json);
void lw_json_end(struct lw_json_out *json, char bracket); /* '}' or ']' */
void lw_json_key(struct lw_json_out *json, const char *key);
void lw_json_text(struct lw_json_out *json, const char *text, size_t len);
/* Append the escape of the character CODE, as it stands in a string: \u009b, or a pair of
 * surrogates. */
void lw_json_add_escape(struct lw_buf *out, uint32_t code);
void lw_json_u64(struct lw_json_out *json, uint64_t value);
void lw_json_i64(struct lw_json_out *json, int64_t value);
/* The shortest text that reads back equal. */
void lw_json_double(struct lw_json_out *json, double value);
void lw_json_bool(struct lw_json_out *json, bool value);
void lw_json_null(struct lw_json_out *json);

/* key and value in one. */
void lw_json_key_text(struct lw_json_out *json, const char *key, const char *text);
void lw_json_key_u64(struct lw_json_out *json, const char *key, uint64_t value);
void lw_json_key_i64(struct lw_json_out *json, const char *key, int64_t value);
void lw_json_key_double(struct lw_json_out *json, const char *key, double value);
void lw_json_key_bool(struct lw_json_out *json, const char *key, bool value);

#endif
