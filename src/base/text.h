/* Text that came from elsewhere: numbers parsed whole or not at all, names shown
 * without letting them steer a terminal. */
#ifndef LW_BASE_TEXT_H
#define LW_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The whole of the LEN bytes must be the number; no space. Otherwise false, and *VALUE
 * is as it was. */
bool lw_text_u64(const char *text, size_t len, uint64_t *value); /* digits only */
bool lw_text_i64(const char *text, size_t len, int64_t *value);  /* a '-' may lead */
bool lw_text_hex(const char *text, size_t len, uint64_t *value); /* digits, no 0x */
/* As JSON and C write decimals: -1.5, 2e9, .5, 3. ; not hex, not nan, finite only. */
bool lw_text_double(const char *text, size_t len, double *value);
/* The same decimal as a count of its 10^-DIGITS parts (3: the thousandths), in whole
 * numbers all the way, so that no digit is lost: "1699999999999.123" of 3 digits is
 * 1699999999999123. What is finer is rounded, halves away from zero; digits behind the
 * 19th are cut. False also if it does not fit. */
bool lw_text_scaled(const char *text, size_t len, unsigned digits, int64_t *value);

/* How many bytes A and B, both of at least LEN bytes, begin with alike. */
size_t lw_text_same_start(const char *a, const char *b, size_t len);
bool lw_text_starts(const char *text, const char *prefix);
bool lw_text_ends(const char *text, const char *suffix);
/* Borrowed: the part after the last '/'. */
const char *lw_text_basename(const char *path);

/* How many bytes the well-formed UTF-8 character at TEXT takes, which is put in *CODE;
 * 0: LEN is 0, or these bytes are not UTF-8 (too long a form and surrogates are not). */
size_t lw_text_utf8(const char *text, size_t len, uint32_t *code);

#define LW_TEXT_BAD_UTF8 "\xef\xbf\xbd" /* U+FFFD, in place of what is not UTF-8 */

/* May the character CODE stand in what a person sees? Not so controls, line ends, and
 * the marks that reverse the direction of text or hide in it. */
bool lw_text_is_printable(uint32_t code);
/* Append TEXT for a person: bytes that are not printable UTF-8 as \xNN, so that no
 * name can hold a newline or an escape sequence. */
void lw_text_add_printable(struct lw_buf *out, const char *text, size_t len);
/* Append TEXT for a program that wants UTF-8: bytes that are not become U+FFFD. */
void lw_text_add_utf8(struct lw_buf *out, const char *text, size_t len);
/* Append the character CODE (at most 0x10ffff) as UTF-8. */
void lw_text_add_code(struct lw_buf *out, uint32_t code);
/* Characters as Python's len() counts them: all bytes but those that continue one. */
size_t lw_text_characters(const char *text, size_t len);
/* Columns that printable UTF-8 takes on a terminal (wide characters count two). */
size_t lw_text_width(const char *text, size_t len);
/* Length in bytes of the longest start of TEXT that takes at most WIDTH columns. */
size_t lw_text_fit(const char *text, size_t len, size_t width);

/* How many edits turn A into B, each of one letter or of two neighbours that changed
 * places; for "did you mean" (nearest.h). */
size_t lw_text_distance(const char *a, const char *b);

#endif
