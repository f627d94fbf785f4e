/* The marshal writer: the few types a saved profile has. */

#include "base/marshal_out.h"

#include <string.h>

#define FLAG_REF 0x80

void lw_marshal_start(struct lw_marshal_out *marshal, struct lw_buf *out)
{
    marshal->out = out;
    marshal->ref_count = 0;
}

static void add_type(struct lw_marshal_out *marshal, unsigned char type)
{
    lw_buf_add_char(marshal->out, (char)type);
}

void lw_marshal_add_null(struct lw_marshal_out *marshal)
{
    add_type(marshal, '0');
}

void lw_marshal_add_dict(struct lw_marshal_out *marshal)
{
    add_type(marshal, '{');
}

void lw_marshal_add_int(struct lw_marshal_out *marshal, int64_t value)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned char digits[5 * 2]; /* 64 bits, 15 in each two bytes */
    int32_t count = 0;

    if (value >= INT32_MIN && value <= INT32_MAX) {
        add_type(marshal, 'i');
        lw_buf_add_u32(marshal->out, (uint32_t)value);
        return;
    }
    for (; magnitude; magnitude >>= 15, count++) {
        digits[2 * count] = (unsigned char)(magnitude & 0xff);
        digits[2 * count + 1] = (unsigned char)(magnitude >> 8 & 0x7f);
    }
    add_type(marshal, 'l');
    lw_buf_add_u32(marshal->out, (uint32_t)(value < 0 ? -count : count));
    lw_buf_add(marshal->out, digits, (size_t)count * 2);
}

void lw_marshal_add_float(struct lw_marshal_out *marshal, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    add_type(marshal, 'g');
    lw_buf_add_u64(marshal->out, bits);
}

void lw_marshal_add_ref(struct lw_marshal_out *marshal, uint32_t number)
{
    add_type(marshal, 'r');
    lw_buf_add_u32(marshal->out, number);
}

void lw_marshal_add_tuple(struct lw_marshal_out *marshal, uint8_t count)
{
    add_type(marshal, ')');
    lw_buf_add_char(marshal->out, (char)count);
}

uint32_t lw_marshal_share_tuple(struct lw_marshal_out *marshal, uint8_t count)
{
    add_type(marshal, ')' | FLAG_REF);
    lw_buf_add_char(marshal->out, (char)count);
    return marshal->ref_count++;
}

/* Bytes at TEXT that are one character as Python's marshal decodes UTF-8: lone
 * surrogates pass, overlong forms and what lies above U+10FFFF do not. 0: none. */
static size_t character_len(const unsigned char *text, size_t left)
{
    unsigned char lead = text[0];
    size_t len = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90) ||
        (lead == 0xf4 && text[1] > 0x8f))
        return 0;
    return len;
}

/* The bytes with each stray one, B, as U+DC00+B, in the three bytes that Python's
 * "surrogatepass" reads. */
static void add_decodable(struct lw_buf *out, const unsigned char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = character_len(text + at, len - at);
        if (n > 0) {
            lw_buf_add(out, text + at, n);
        } else {
            lw_buf_add_char(out, (char)0xed);
            lw_buf_add_char(out, (char)(0xb0 | text[at] >> 6));
            lw_buf_add_char(out, (char)(0x80 | (text[at] & 0x3f)));
            n = 1;
        }
    }
}

uint32_t lw_marshal_share_text(struct lw_marshal_out *marshal, const char *text,
                               size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t stray_count = 0;
    bool is_ascii = true;

    for (size_t at = 0, n; at < len; at += n ? n : 1) {
        n = character_len(bytes + at, len - at);
        stray_count += n == 0;
        is_ascii = is_ascii && n == 1;
    }
    if (is_ascii && len < 256) {
        add_type(marshal, 'z' | FLAG_REF);
        lw_buf_add_char(marshal->out, (char)len);
    } else {
        add_type(marshal, (is_ascii ? 'a' : 'u') | FLAG_REF);
        lw_buf_add_u32(marshal->out, (uint32_t)(len + 2 * stray_count));
    }
    if (stray_count)
        add_decodable(marshal->out, bytes, len);
    else
        lw_buf_add(marshal->out, text, len);
    return marshal->ref_count++;
}
