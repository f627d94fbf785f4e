/* Text from elsewhere: parsed strictly, shown harmlessly. */

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool lw_text_u64(const char *text, size_t len, uint64_t *value)
{
    uint64_t sum = 0;

    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';

        if (digit > 9 || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    *value = sum;
    return true;
}

bool lw_text_i64(const char *text, size_t len, int64_t *value)
{
    bool negative = len && text[0] == '-';
    uint64_t size;

    if (!lw_text_u64(text + negative, len - negative, &size) ||
        size > (uint64_t)INT64_MAX + negative)
        return false;
    *value = (int64_t)(negative ? -size : size);
    return true;
}

bool lw_text_hex(const char *text, size_t len, uint64_t *value)
{
    uint64_t sum = 0;

    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)text[i];
        unsigned digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;

        if ((c > '9' && digit < 10) || digit > 15 || sum >> 60)
            return false;
        sum = sum << 4 | digit;
    }
    *value = sum;
    return true;
}

/* The number as whole digits times a power of ten, which is exact, and so is one
 * multiplication or division, while both fit a double: 2^53 and 10^22 (Clinger's fast
 * path). Nearly every number in a trace is one of these. */
static bool decimal_is_exact(uint64_t digits, int power, double *value)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

    if (digits > (uint64_t)1 << 53 || power < -22 || power > 22)
        return false;
    *value = power < 0 ? (double)digits / tens[-power] : (double)digits * tens[power];
    return true;
}

/* The whole of "e-12"; beyond any number's reach it is cut at 100,000. */
static bool take_exponent(const char *text, size_t len, int64_t *exponent)
{
    bool down = len > 1 && text[1] == '-';
    bool is_signed = down || (len > 1 && text[1] == '+');
    uint64_t size;

    if ((text[0] != 'e' && text[0] != 'E') ||
        !lw_text_u64(text + 1 + is_signed, len - 1 - is_signed, &size))
        return false;
    size = size > 100000 ? 100000 : size;
    *exponent = down ? -(int64_t)size : (int64_t)size;
    return true;
}

bool lw_text_double(const char *text, size_t len, double *value)
{
    char copy[512]; /* strtod wants a NUL; no sane number is longer */
    uint64_t digits = 0;
    int64_t power = 0, exponent = 0;
    bool negative = len && text[0] == '-', some = false, exact = true;
    size_t i = negative;
    double result;

    for (bool point = false; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';

        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (digit > 9)
            break;
        some = true;
        if (digits > (UINT64_MAX - 9) / 10)
            exact = false;
        else
            digits = digits * 10 + digit;
        power -= point;
    }
    if (!some)
        return false;
    if (i < len && !take_exponent(text + i, len - i, &exponent))
        return false;
    power += exponent;
    if (!exact || power < -400 || power > 400 ||
        !decimal_is_exact(digits, (int)power, &result)) {
        if (len >= sizeof(copy))
            return false;
        memcpy(copy, text + negative, len - negative);
        copy[len - negative] = '\0';
        result = strtod(copy, NULL);
    }
    if (!isfinite(result))
        return false;
    *value = negative ? -result : result;
    return true;
}

/* VALUE times 10^POWER; false: too large. */
static bool shift_decimal(uint64_t value, int64_t power, uint64_t *shifted)
{
    if (power < -19) /* less than half of the last place */
        value = 0;
    for (; value && power > 0; power--)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    for (; value && power < -1; power++)
        value /= 10;
    *shifted = power < 0 ? (value + 5) / 10 : value;
    return true;
}

bool lw_text_scaled(const char *text, size_t len, unsigned digits, int64_t *value)
{
    const uint64_t full = 1000000000000000000u; /* below it one more digit fits */
    bool negative = len && text[0] == '-', point = false, some = false;
    int64_t power = digits, exponent = 0;
    uint64_t sum = 0;
    size_t i = negative;

    for (; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';

        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (digit > 9)
            break;
        some = true;
        if (sum < full) {
            sum = sum * 10 + digit;
            power -= point;
        } else {
            power += !point;
        }
    }
    if (!some)
        return false;
    if (i < len && !take_exponent(text + i, len - i, &exponent))
        return false;
    power += exponent;
    if (!shift_decimal(sum, power, &sum) || sum > INT64_MAX)
        return false;
    *value = negative ? -(int64_t)sum : (int64_t)sum;
    return true;
}

size_t lw_text_same_start(const char *a, const char *b, size_t len)
{
    size_t i = 0;

    for (; len - i >= 8; i += 8) {
        uint64_t x, y;

        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        if (x != y)
            break;
    }
    while (i < len && a[i] == b[i])
        i++;
    return i;
}

bool lw_text_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool lw_text_ends(const char *text, const char *suffix)
{
    size_t len = strlen(text), end = strlen(suffix);

    return len >= end && memcmp(text + len - end, suffix, end) == 0;
}

const char *lw_text_basename(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

size_t lw_text_utf8(const char *text, size_t len, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t least;
    size_t size;

    if (len == 0)
        return 0;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    if ((p[0] & 0xe0) == 0xc0) {
        size = 2;
        least = 0x80;
    } else if ((p[0] & 0xf0) == 0xe0) {
        size = 3;
        least = 0x800;
    } else if ((p[0] & 0xf8) == 0xf0) {
        size = 4;
        least = 0x10000;
    } else {
        return 0;
    }
    if (len < size)
        return 0;
    *code = p[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    if (*code < least || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
        return 0;
    return size;
}

struct range {
    uint32_t first, last;
};

static bool is_in(const struct range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low].first;
}

/* With a mark that reverses the direction of text, or an invisible one, a name could
 * pretend to be another. */
bool lw_text_is_printable(uint32_t code)
{
    static const struct range bad[] = {
        { 0x00, 0x1f },       { 0x7f, 0x9f },     { 0xad, 0xad },
        { 0x61c, 0x61c },     { 0x180e, 0x180e }, { 0x200b, 0x200f },
        { 0x2028, 0x202e },   { 0x2060, 0x206f }, { 0xfdd0, 0xfdef },
        { 0xfeff, 0xfeff },   { 0xfff0, 0xfffb }, { 0xfffe, 0xffff },
        { 0xe0000, 0xe007f },
    };

    if (code >= ' ' && code < 0x7f)
        return true;
    return !is_in(bad, sizeof(bad) / sizeof(bad[0]), code);
}

void lw_text_add_printable(struct lw_buf *out, const char *text, size_t len)
{
    size_t plain = 0; /* start of the run that is copied as it is */
    uint32_t code;

    for (size_t i = 0; i < len;) {
        size_t size = lw_text_utf8(text + i, len - i, &code);

        if (size && lw_text_is_printable(code)) {
            i += size;
            continue;
        }
        lw_buf_add(out, text + plain, i - plain);
        plain = i + (size ? size : 1);
        for (; i < plain; i++)
            lw_buf_addf(out, "\\x%02x", (unsigned char)text[i]);
    }
    lw_buf_add(out, text + plain, len - plain);
}

void lw_text_add_utf8(struct lw_buf *out, const char *text, size_t len)
{
    size_t plain = 0;
    uint32_t code;

    for (size_t i = 0; i < len;) {
        size_t size = lw_text_utf8(text + i, len - i, &code);

        if (!size) {
            lw_buf_add(out, text + plain, i - plain);
            lw_buf_add_text(out, LW_TEXT_BAD_UTF8);
            plain = i + 1;
        }
        i += size ? size : 1;
    }
    lw_buf_add(out, text + plain, len - plain);
}

void lw_text_add_code(struct lw_buf *out, uint32_t code)
{
    if (code < 0x80) {
        lw_buf_add_char(out, (char)code);
    } else if (code < 0x800) {
        lw_buf_add_char(out, (char)(0xc0 | code >> 6));
        lw_buf_add_char(out, (char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        lw_buf_add_char(out, (char)(0xe0 | code >> 12));
        lw_buf_add_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
        lw_buf_add_char(out, (char)(0x80 | (code & 0x3f)));
    } else {
        lw_buf_add_char(out, (char)(0xf0 | code >> 18));
        lw_buf_add_char(out, (char)(0x80 | (code >> 12 & 0x3f)));
        lw_buf_add_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
        lw_buf_add_char(out, (char)(0x80 | (code & 0x3f)));
    }
}

/* Columns of one character. By blocks, after Unicode's EastAsianWidth and the
 * nonspacing marks of the scripts in use: wcwidth() would ask the locale, which a pipe or a
 * container often does not have. Off by one for rare marks, and then only a column of
 * text is a little crooked. */
static size_t width_of(uint32_t code)
{
    static const struct range none[] = {
        { 0x300, 0x36f },   { 0x483, 0x489 },     { 0x591, 0x5c7 },
        { 0x610, 0x61a },   { 0x64b, 0x65f },     { 0x6d6, 0x6ed },
        { 0x900, 0x902 },   { 0x93c, 0x93c },     { 0x941, 0x948 },
        { 0x94d, 0x94d },   { 0xe31, 0xe31 },     { 0xe34, 0xe3a },
        { 0xe47, 0xe4e },   { 0x1ab0, 0x1aff },   { 0x1dc0, 0x1dff },
        { 0x20d0, 0x20ff }, { 0x3099, 0x309a },   { 0xfe00, 0xfe0f },
        { 0xfe20, 0xfe2f }, { 0xe0100, 0xe01ef },
    };
    static const struct range wide[] = {
        { 0x1100, 0x115f },   { 0x231a, 0x231b },   { 0x2329, 0x232a },
        { 0x23e9, 0x23ec },   { 0x2e80, 0x303e },   { 0x3041, 0x4dbf },
        { 0x4e00, 0xa4cf },   { 0xa960, 0xa97f },   { 0xac00, 0xd7a3 },
        { 0xf900, 0xfaff },   { 0xfe10, 0xfe19 },   { 0xfe30, 0xfe6f },
        { 0xff01, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x16fe0, 0x1b2ff },
        { 0x1f300, 0x1f64f }, { 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff },
        { 0x1fa70, 0x1faff }, { 0x20000, 0x3fffd },
    };

    if (code < 0x300)
        return 1;
    if (is_in(none, sizeof(none) / sizeof(none[0]), code))
        return 0;
    return is_in(wide, sizeof(wide) / sizeof(wide[0]), code) ? 2 : 1;
}

size_t lw_text_fit(const char *text, size_t len, size_t width)
{
    size_t i = 0;
    uint32_t code;

    while (i < len) {
        size_t size = lw_text_utf8(text + i, len - i, &code);
        size_t columns = size ? width_of(code) : 1;

        if (columns > width)
            break;
        width -= columns;
        i += size ? size : 1;
    }
    return i;
}

size_t lw_text_characters(const char *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

size_t lw_text_width(const char *text, size_t len)
{
    size_t width = 0;
    uint32_t code;

    for (size_t i = 0; i < len;) {
        size_t size = lw_text_utf8(text + i, len - i, &code);

        width += size ? width_of(code) : 1;
        i += size ? size : 1;
    }
    return width;
}

#define DISTANCE_MAX 64 /* names of commands and options; longer ones are far apart */

/* Optimal string alignment: as Levenshtein's, with neighbours that changed places as one
 * edit, since that is how fingers slip. */
size_t lw_text_distance(const char *a, const char *b)
{
    size_t rows[3][DISTANCE_MAX]; /* of the last three letters of A, in turn */
    size_t a_len = strlen(a), b_len = strlen(b);

    if (b_len >= DISTANCE_MAX || a_len > 1000)
        return a_len > b_len ? a_len : b_len;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        const size_t *before = rows[(i + 1) % 3], *last = rows[(i + 2) % 3];
        size_t *row = rows[i % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}
