/* A pull parser for JSON in memory: the caller asks for the next token.
 *
 * No document tree is built, nothing recurses, depth is bounded. Strings are given
 * as they lie in the text (borrowed, still escaped) with a flag; lw_json_unescape
 * decodes one. Numbers are given as text, so that no digit is lost. */
#ifndef LW_BASE_JSON_IN_H
#define LW_BASE_JSON_IN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

enum lw_json_token {
    LW_JSON_END, /* of the text */
    LW_JSON_ERROR,
    LW_JSON_OBJECT,
    LW_JSON_OBJECT_END,
    LW_JSON_ARRAY,
    LW_JSON_ARRAY_END,
    LW_JSON_KEY,
    LW_JSON_STRING,
    LW_JSON_NUMBER,
    LW_JSON_TRUE,
    LW_JSON_FALSE,
    LW_JSON_NULL,
};

#define LW_JSON_IN_DEPTH 256

struct lw_json_in {
    const char *next;
    const char *end;
    const char *start; /* of the whole text, for the position of an error */
    const char *text;  /* of the last key, string or number */
    size_t len;
    bool escaped;        /* the last key or string holds backslashes */
    const char *problem; /* after LW_JSON_ERROR: what was wrong, a constant */
    unsigned depth;
    bool expect_value;                         /* a key or a comma came before */
    uint64_t in_object[LW_JSON_IN_DEPTH / 64]; /* a bit a level */
    bool fresh;                                /* just after an opening bracket */
    bool done;                                 /* the one top-level value is complete */
};

void lw_json_in_init(struct lw_json_in *json, const char *text, size_t len);
enum lw_json_token lw_json_next(struct lw_json_in *json);
/* Pass over the value that comes next (after a key, or in an array). */
bool lw_json_skip(struct lw_json_in *json);
/* After lw_json_next gave TOKEN as a value: pass over the rest of that value. */
bool lw_json_skip_rest(struct lw_json_in *json, enum lw_json_token token);
/* After LW_JSON_ARRAY: pass over that array as one piece, `text` and `len` being what is
 * up to the next ']'. That this is numbers, commas and space the caller must check, and
 * fail if it is not: the fast way through millions of small numbers. */
bool lw_json_numbers(struct lw_json_in *json);
/* After LW_JSON_OBJECT: pass over that object, whose closing bracket the caller has found
 * at BRACKET by a way of its own. */
void lw_json_leave_object(struct lw_json_in *json, const char *bracket);
/* The last key or string is TEXT (compared without escapes: no key of ours has any). Here,
 * so that of a constant the compiler knows length and bytes. */
static inline bool lw_json_is(const struct lw_json_in *json, const char *text)
{
    size_t len = strlen(text);

    return json->len == len && memcmp(json->text, text, len) == 0;
}
/* Append the last key or string, decoded, to OUT. */
void lw_json_unescape(const struct lw_json_in *json, struct lw_buf *out);
/* The same of any text between quotes: a backslash that escapes nothing stays as it is. */
void lw_json_unescape_text(const char *text, size_t len, struct lw_buf *out);
/* "at byte N: PROBLEM" as LW_ERR_FORMAT. */
bool lw_json_fail(const struct lw_json_in *json, struct lw_error *err);

#endif
