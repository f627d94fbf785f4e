/* JSON text: before each value comes what parts it from the one before. */

#include "base/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

void lw_json_start(struct lw_json_out *json, struct lw_buf *out, bool pretty)
{
    memset(json, 0, sizeof(*json));
    json->out = out;
    json->pretty = pretty;
}

static void new_line(struct lw_json_out *json)
{
    if (!json->pretty)
        return;
    lw_buf_add_char(json->out, '\n');
    lw_buf_add_repeat(json->out, ' ', 2 * (size_t)json->depth);
}

/* A comma where one is due; a value behind its key stays on the key's line. */
static void part(struct lw_json_out *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->has_items[json->depth])
        lw_buf_add_char(json->out, ',');
    json->has_items[json->depth] = true;
    if (json->depth)
        new_line(json);
}

static void open_bracket(struct lw_json_out *json, char bracket)
{
    part(json);
    if (json->depth == LW_JSON_DEPTH) {
        if (!json->out->failure)
            json->out->failure = LW_ERR_LIMIT;
        return;
    }
    lw_buf_add_char(json->out, bracket);
    json->has_items[++json->depth] = false;
}

void lw_json_object(struct lw_json_out *json)
{
    open_bracket(json, '{');
}

void lw_json_array(struct lw_json_out *json)
{
    open_bracket(json, '[');
}

void lw_json_end(struct lw_json_out *json, char bracket)
{
    bool has_items = json->has_items[json->depth];

    if (json->out->failure) /* brackets may not match after one that was too deep */
        return;
    lw_assert(json->depth > 0 && !json->after_key);
    json->depth--;
    if (has_items)
        new_line(json);
    lw_buf_add_char(json->out, bracket);
    if (json->depth == 0 && json->pretty)
        lw_buf_add_char(json->out, '\n');
}

void lw_json_add_escape(struct lw_buf *out, uint32_t code)
{
    if (code >= 0x10000) {
        code -= 0x10000;
        lw_buf_addf(out, "\\u%04" PRIx32, 0xd800 | code >> 10);
        code = 0xdc00 | (code & 0x3ff);
    }
    lw_buf_addf(out, "\\u%04" PRIx32, code);
}

static void add_quoted(struct lw_buf *out, const char *text, size_t len)
{
    size_t plain = 0; /* start of the run that is copied as it is */
    uint32_t code;

    lw_buf_add_char(out, '"');
    for (size_t i = 0; i < len;) {
        size_t size = lw_text_utf8(text + i, len - i, &code);

        if (size && code != '"' && code != '\\' && lw_text_is_printable(code)) {
            i += size;
            continue;
        }
        lw_buf_add(out, text + plain, i - plain);
        i += size ? size : 1;
        plain = i;
        if (!size)
            lw_buf_add_text(out, LW_TEXT_BAD_UTF8);
        else if (code == '"' || code == '\\')
            lw_buf_addf(out, "\\%c", (int)code);
        else if (code == '\n')
            lw_buf_add_text(out, "\\n");
        else if (code == '\t')
            lw_buf_add_text(out, "\\t");
        else
            lw_json_add_escape(out, code);
    }
    lw_buf_add(out, text + plain, len - plain);
    lw_buf_add_char(out, '"');
}

void lw_json_key(struct lw_json_out *json, const char *key)
{
    part(json);
    add_quoted(json->out, key, strlen(key));
    lw_buf_add_text(json->out, json->pretty ? ": " : ":");
    json->after_key = true;
}

void lw_json_text(struct lw_json_out *json, const char *text, size_t len)
{
    part(json);
    add_quoted(json->out, text, len);
}

void lw_json_u64(struct lw_json_out *json, uint64_t value)
{
    part(json);
    lw_buf_addf(json->out, "%" PRIu64, value);
}

void lw_json_i64(struct lw_json_out *json, int64_t value)
{
    part(json);
    lw_buf_addf(json->out, "%" PRId64, value);
}

void lw_json_double(struct lw_json_out *json, double value)
{
    if (!isfinite(value)) {
        lw_json_null(json);
        return;
    }
    part(json);
    lw_buf_add_double(json->out, value);
}

void lw_json_bool(struct lw_json_out *json, bool value)
{
    part(json);
    lw_buf_add_text(json->out, value ? "true" : "false");
}

void lw_json_null(struct lw_json_out *json)
{
    part(json);
    lw_buf_add_text(json->out, "null");
}

void lw_json_key_text(struct lw_json_out *json, const char *key, const char *text)
{
    lw_json_key(json, key);
    lw_json_text(json, text, strlen(text));
}

void lw_json_key_u64(struct lw_json_out *json, const char *key, uint64_t value)
{
    lw_json_key(json, key);
    lw_json_u64(json, value);
}

void lw_json_key_i64(struct lw_json_out *json, const char *key, int64_t value)
{
    lw_json_key(json, key);
    lw_json_i64(json, value);
}

void lw_json_key_double(struct lw_json_out *json, const char *key, double value)
{
    lw_json_key(json, key);
    lw_json_double(json, value);
}

void lw_json_key_bool(struct lw_json_out *json, const char *key, bool value)
{
    lw_json_key(json, key);
    lw_json_bool(json, value);
}
