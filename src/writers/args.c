/* Mending goes byte by byte: in a string what may not be there is escaped, outside of
 * one a word that is no value is put in quotes. If that is not enough, the whole is kept
 * as one text. */

#include "writers/args.h"

#include <string.h>

#include "base/json_in.h"
#include "base/json_out.h"
#include "base/text.h"

/* Are these characters that may be copied? White space between words is, too. */
static bool is_plain(const char *text, size_t len)
{
    const char *end = text + len;
    uint32_t code;

    while (text < end) {
        size_t size = (unsigned char)*text < 0x80
                          ? 1
                          : lw_text_utf8(text, (size_t)(end - text), &code);

        if (!size || (size > 1 && !lw_text_is_printable(code)) || *text == 0x7f)
            return false;
        text += size;
    }
    return true;
}

static bool is_object(const char *text, size_t len)
{
    struct lw_json_in json;
    enum lw_json_token token;

    lw_json_in_init(&json, text, len);
    if (lw_json_next(&json) != LW_JSON_OBJECT)
        return false;
    do
        token = lw_json_next(&json);
    while (token != LW_JSON_END && token != LW_JSON_ERROR);
    return token == LW_JSON_END;
}

static bool is_value(const char *word, size_t len)
{
    struct lw_json_in json;

    lw_json_in_init(&json, word, len);
    return lw_json_skip(&json) && lw_json_next(&json) == LW_JSON_END;
}

/* How many bytes the escape at P takes; 0: it is none. */
static size_t escape_size(const char *p, const char *end)
{
    char quoted[8] = { '"' };

    for (size_t size = 2; size <= 6; size += 4) {
        if ((size_t)(end - p) < size)
            return 0;
        memcpy(quoted + 1, p, size);
        quoted[size + 1] = '"';
        if (is_value(quoted, size + 2))
            return size;
    }
    return 0;
}

/* What is between quotes; returns its end, behind the closing one. */
static const char *mend_string(const char *p, const char *end, struct lw_buf *out)
{
    lw_buf_add_char(out, '"');
    for (p++; p < end && *p != '"'; p++) {
        uint32_t code;
        size_t size = *p == '\\' ? escape_size(p, end)
                                 : lw_text_utf8(p, (size_t)(end - p), &code);

        if (*p == '\\' && !size) {
            lw_buf_add_text(out, "\\\\");
        } else if (!size) {
            lw_buf_add_text(out, LW_TEXT_BAD_UTF8);
        } else if (*p != '\\' && !lw_text_is_printable(code)) {
            lw_json_add_escape(out, code);
            p += size - 1;
        } else {
            lw_buf_add(out, p, size);
            p += size - 1;
        }
    }
    lw_buf_add_char(out, '"');
    return p < end ? p + 1 : end;
}

static void mend(const char *p, const char *end, struct lw_buf *out)
{
    while (p < end) {
        const char *word = p;

        if (*p == '"') {
            p = mend_string(p, end, out);
            continue;
        }
        while (p < end && !strchr("{}[],: \t\r\n\"", *p))
            p++;
        if (p == word) {
            lw_buf_add_char(out, *p++);
        } else if (is_value(word, (size_t)(p - word))) {
            lw_buf_add(out, word, (size_t)(p - word));
        } else {
            struct lw_json_out json;

            lw_json_start(&json, out, false);
            lw_json_text(&json, word, (size_t)(p - word));
        }
    }
}

const char *lw_args_json(const char *text, size_t len, struct lw_buf *scratch,
                         size_t *json_len)
{
    lw_buf_reset(scratch);
    *json_len = len;
    if (is_object(text, len) && is_plain(text, len))
        return text;
    mend(text, text + len, scratch);
    if (scratch->failure) {
        *json_len = 0;
        return "";
    }
    if (!scratch->bytes || !is_object(scratch->bytes, scratch->len)) {
        struct lw_json_out json;

        lw_buf_reset(scratch);
        lw_json_start(&json, scratch, false);
        lw_json_object(&json);
        lw_json_key(&json, "arguments");
        lw_json_text(&json, text, len);
        lw_json_end(&json, '}');
    }
    *json_len = scratch->len;
    return scratch->bytes ? scratch->bytes : "";
}
