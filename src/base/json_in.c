/* JSON, strictly as RFC 8259 has it, except that the bytes of a string need not be
 * UTF-8: names may hold anything.
 *
 * What may come next is known from four facts: are we in an object (a bit a level),
 * did a key just come (`expect_value`), was the bracket just opened (`fresh`), is the one
 * value complete (`done`). */

#include "base/json_in.h"

#include <string.h>

#include "base/text.h"

void lw_json_in_init(struct lw_json_in *json, const char *text, size_t len)
{
    memset(json, 0, sizeof(*json));
    json->start = text;
    json->next = text;
    json->end = text + len;
}

static enum lw_json_token fail(struct lw_json_in *json, const char *problem)
{
    if (!json->problem)
        json->problem = problem;
    return LW_JSON_ERROR;
}

static bool is_in_object(const struct lw_json_in *json)
{
    unsigned level = json->depth - 1;

    return json->depth && (json->in_object[level / 64] >> (level % 64) & 1);
}

static void skip_space(struct lw_json_in *json)
{
    while (json->next < json->end && (*json->next == ' ' || *json->next == '\n' ||
                                      *json->next == '\r' || *json->next == '\t'))
        json->next++;
}

static enum lw_json_token open_bracket(struct lw_json_in *json, bool object)
{
    unsigned level = json->depth;

    if (level == LW_JSON_IN_DEPTH)
        return fail(json, "brackets in brackets, too deep");
    if (object)
        json->in_object[level / 64] |= (uint64_t)1 << (level % 64);
    else
        json->in_object[level / 64] &= ~((uint64_t)1 << (level % 64));
    json->depth++;
    json->next++;
    json->fresh = true;
    json->expect_value = false;
    return object ? LW_JSON_OBJECT : LW_JSON_ARRAY;
}

/* After a value: what held it goes on. */
static enum lw_json_token complete(struct lw_json_in *json, enum lw_json_token token)
{
    json->fresh = false;
    json->expect_value = false;
    json->done = json->depth == 0;
    return token;
}

static enum lw_json_token close_bracket(struct lw_json_in *json)
{
    enum lw_json_token token =
        is_in_object(json) ? LW_JSON_OBJECT_END : LW_JSON_ARRAY_END;

    json->next++;
    json->depth--;
    return complete(json, token);
}

static uint64_t load_u64(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* How many bytes the escape at P takes; 0: it is none. */
static size_t escape_size(const char *p, const char *end)
{
    if (end - p < 2 || p[0] != '\\')
        return 0;
    if (p[1] != 'u')
        return p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    if (end - p < 6)
        return 0;
    for (int i = 2; i < 6; i++)
        if (!is_hex(p[i]))
            return 0;
    return 6;
}

/* The first byte from P on that may not pass unlooked-at in a string: a quote, a
 * backslash or a control. Eight at a time: (word - ones * n) & ~word has the high bit of
 * each byte below n, and a byte looked for is zero after xor. A borrow may mark the
 * byte above a hit as well, but never one below, so the lowest mark is right. */
static const char *scan_string(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;

    for (; end - p >= 8; p += 8) {
        uint64_t word = load_u64(p);
        uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
        uint64_t hits = (((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) |
                         ((backslash - ones) & ~backslash)) &
                        highs;

        if (hits)
            return p + __builtin_ctzll(hits) / 8;
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    return p;
}

static bool read_string(struct lw_json_in *json)
{
    const char *p = json->next + 1;

    json->escaped = false;
    json->text = p;
    for (;;) {
        size_t size;

        p = scan_string(p, json->end);
        if (p == json->end || *p == '"')
            break;
        if (*p != '\\') {
            json->next = p;
            fail(json, "a control character in a string");
            return false;
        }
        size = escape_size(p, json->end);
        if (!size) {
            json->next = p;
            fail(json, "a bad escape in a string");
            return false;
        }
        json->escaped = true;
        p += size;
    }
    if (p == json->end) {
        fail(json, "a string without an end");
        return false;
    }
    json->len = (size_t)(p - json->text);
    json->next = p + 1;
    return true;
}

static bool is_digit_at(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

static enum lw_json_token read_number(struct lw_json_in *json)
{
    const char *p = json->next, *end = json->end;

    if (*p == '-')
        p++;
    if (!is_digit_at(p, end))
        return fail(json, "not a value");
    if (*p == '0')
        p++;
    else
        while (is_digit_at(p, end))
            p++;
    if (p < end && *p == '.') {
        p++;
        if (!is_digit_at(p, end))
            return fail(json, "a number with nothing behind its point");
        while (is_digit_at(p, end))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (!is_digit_at(p, end))
            return fail(json, "a number with an empty exponent");
        while (is_digit_at(p, end))
            p++;
    }
    json->text = json->next;
    json->len = (size_t)(p - json->next);
    json->next = p;
    return complete(json, LW_JSON_NUMBER);
}

static enum lw_json_token read_word(struct lw_json_in *json, const char *word,
                                    enum lw_json_token token)
{
    size_t len = strlen(word);

    if ((size_t)(json->end - json->next) < len || memcmp(json->next, word, len) != 0)
        return fail(json, "not a value");
    json->next += len;
    return complete(json, token);
}

static enum lw_json_token read_value(struct lw_json_in *json)
{
    switch (*json->next) {
    case '{': return open_bracket(json, true);
    case '[': return open_bracket(json, false);
    case '"': return read_string(json) ? complete(json, LW_JSON_STRING) : LW_JSON_ERROR;
    case 't': return read_word(json, "true", LW_JSON_TRUE);
    case 'f': return read_word(json, "false", LW_JSON_FALSE);
    case 'n': return read_word(json, "null", LW_JSON_NULL);
    default: return read_number(json);
    }
}

static enum lw_json_token read_key(struct lw_json_in *json)
{
    if (*json->next != '"')
        return fail(json, "no key where one should be");
    if (!read_string(json))
        return LW_JSON_ERROR;
    skip_space(json);
    if (json->next == json->end || *json->next != ':')
        return fail(json, "a key without a colon");
    json->next++;
    json->fresh = false;
    json->expect_value = true;
    return LW_JSON_KEY;
}

enum lw_json_token lw_json_next(struct lw_json_in *json)
{
    bool object = is_in_object(json);

    if (json->problem)
        return LW_JSON_ERROR;
    skip_space(json);
    if (json->next == json->end)
        return json->done ? LW_JSON_END : fail(json, "the text ends too early");
    if (json->done)
        return fail(json, "something after the end");
    if (json->depth == 0 || json->expect_value)
        return read_value(json);

    if (*json->next == (object ? '}' : ']'))
        return close_bracket(json);
    if (!json->fresh) {
        if (*json->next != ',')
            return fail(json, "neither a comma nor a closing bracket");
        json->next++;
        skip_space(json);
        if (json->next == json->end)
            return fail(json, "the text ends too early");
    }
    return object ? read_key(json) : read_value(json);
}

bool lw_json_skip_rest(struct lw_json_in *json, enum lw_json_token token)
{
    unsigned depth = json->depth;

    if (token == LW_JSON_ERROR)
        return false;
    if (token != LW_JSON_OBJECT && token != LW_JSON_ARRAY)
        return true;
    while (json->depth >= depth)
        if (lw_json_next(json) == LW_JSON_ERROR)
            return false;
    return true;
}

bool lw_json_skip(struct lw_json_in *json)
{
    enum lw_json_token token = lw_json_next(json);

    switch (token) {
    case LW_JSON_END:
    case LW_JSON_OBJECT_END:
    case LW_JSON_ARRAY_END:
    case LW_JSON_KEY: fail(json, "no value where one should be"); return false;
    default: return lw_json_skip_rest(json, token);
    }
}

bool lw_json_numbers(struct lw_json_in *json)
{
    const char *end = memchr(json->next, ']', (size_t)(json->end - json->next));

    lw_assert(json->fresh && !is_in_object(json));
    if (!end) {
        fail(json, "the text ends too early");
        return false;
    }
    json->text = json->next;
    json->len = (size_t)(end - json->next);
    json->next = end;
    close_bracket(json);
    return true;
}

void lw_json_leave_object(struct lw_json_in *json, const char *bracket)
{
    lw_assert(json->fresh && is_in_object(json) && *bracket == '}');
    json->next = bracket;
    close_bracket(json);
}

static uint32_t hex4(const char *p)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        uint32_t digit = (uint32_t)(unsigned char)p[i];

        digit = digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
        value = value << 4 | digit;
    }
    return value;
}

/* Append what \uXXXX at P means, with its second half if it is one of two; returns the
 * bytes taken. Half a pair alone becomes U+FFFD. */
static size_t unescape_code(const char *p, const char *end, struct lw_buf *out)
{
    uint32_t code = hex4(p + 2);

    if (code >= 0xd800 && code < 0xdc00 && end - p >= 12 && p[7] == 'u' &&
        escape_size(p + 6, end) == 6) {
        uint32_t low = hex4(p + 8);

        if (low >= 0xdc00 && low < 0xe000) {
            lw_text_add_code(out, 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
            return 12;
        }
    }
    lw_text_add_code(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    return 6;
}

void lw_json_unescape_text(const char *text, size_t len, struct lw_buf *out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *p = text, *end = text + len;

    while (p < end) {
        const char *backslash = memchr(p, '\\', (size_t)(end - p));
        const char *letter;

        lw_buf_add(out, p, (size_t)((backslash ? backslash : end) - p));
        if (!backslash)
            return;
        p = backslash;
        switch (escape_size(p, end)) {
        case 2:
            letter = strchr(letters, p[1]);
            lw_buf_add_char(out, meanings[letter - letters]);
            p += 2;
            break;
        case 6: p += unescape_code(p, end, out); break;
        default: lw_buf_add_char(out, *p++); break;
        }
    }
}

void lw_json_unescape(const struct lw_json_in *json, struct lw_buf *out)
{
    if (json->escaped)
        lw_json_unescape_text(json->text, json->len, out);
    else
        lw_buf_add(out, json->text, json->len);
}

bool lw_json_fail(const struct lw_json_in *json, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s",
                   (size_t)(json->next - json->start),
                   json->problem ? json->problem : "not what was expected");
}
