/* The marshal pull reader.
 *
 * Written after Python/marshal.c of CPython 3.4 to 3.15 (r_object), and of 2.7 for the
 * types that only Python 2 writes: 'I' (64-bit int) and 'R' (a reference into the list
 * of interned strings, which is not the one 'r' counts). */

#include "base/marshal_in.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define FLAG_REF 0x80

/* What references may unfold to, beside a multiple of the input. A profile that Python
 * wrote refers to names, numbers and keys, never to tables; 1 MB lets any small file
 * through. */
#define UNFOLD_FACTOR 4
#define UNFOLD_BYTES ((size_t)1 << 20)

void lw_marshal_init(struct lw_marshal_in *in, const void *bytes, size_t len)
{
    memset(in, 0, sizeof(*in));
    in->bytes = bytes;
    in->len = len;
    in->unfold_bytes = UNFOLD_BYTES;
    if (len < (SIZE_MAX - UNFOLD_BYTES) / UNFOLD_FACTOR)
        in->unfold_bytes += len * UNFOLD_FACTOR;
}

void lw_marshal_release(struct lw_marshal_in *in)
{
    lw_free(in->refs);
    lw_free(in->interned);
    memset(in, 0, sizeof(*in));
}

const char *lw_marshal_kind_name(enum lw_marshal_kind kind)
{
    static const char *const names[] = {
        [LW_MARSHAL_NULL] = "the end of a dict",
        [LW_MARSHAL_NONE] = "None",
        [LW_MARSHAL_BOOL] = "a boolean",
        [LW_MARSHAL_INT] = "an int",
        [LW_MARSHAL_FLOAT] = "a float",
        [LW_MARSHAL_TEXT] = "a string",
        [LW_MARSHAL_TUPLE] = "a tuple",
        [LW_MARSHAL_LIST] = "a list",
        [LW_MARSHAL_DICT] = "a dict",
        [LW_MARSHAL_SET] = "a set",
        [LW_MARSHAL_CODE] = "a code object",
        [LW_MARSHAL_OTHER] = "an unusual object",
    };

    return names[kind];
}

static inline const unsigned char *take(struct lw_marshal_in *in, size_t count,
                                        struct lw_error *err)
{
    const unsigned char *bytes = in->bytes + in->next;

    if (count > in->len - in->next) {
        lw_fail(err, LW_ERR_FORMAT,
                "at byte %zu: the file ends in the middle of a value; it was cut short",
                in->len);
        return NULL;
    }
    in->next += count;
    return bytes;
}

const unsigned char *lw_marshal_take(struct lw_marshal_in *in, size_t count,
                                     struct lw_error *err)
{
    return take(in, count, err);
}

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const unsigned char *p)
{
    return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

/* A length: marshal writes it as a signed 32-bit number. */
static bool take_length(struct lw_marshal_in *in, size_t offset, uint32_t *length,
                        struct lw_error *err)
{
    const unsigned char *p;

    if (!(p = take(in, 4, err)))
        return false;
    *length = get_u32(p);
    if (*length > INT32_MAX)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a length of %d", offset,
                       (int)*length);
    return true;
}

static void set_int(struct lw_marshal_value *value, int64_t integer)
{
    value->kind = LW_MARSHAL_INT;
    value->integer = integer;
    value->number = (double)integer;
}

/* An int as digits of 15 bits, least significant first; the sign is the count's. */
static bool take_long(struct lw_marshal_in *in, struct lw_marshal_value *value,
                      struct lw_error *err)
{
    const unsigned char *p;
    uint64_t magnitude = 0;
    double number = 0;
    bool negative, fits = true;
    uint32_t digits;

    if (!(p = take(in, 4, err)))
        return false;
    digits = get_u32(p);
    negative = digits > INT32_MAX;
    if (negative)
        digits = 0 - digits;
    if (!(p = take(in, (size_t)digits * 2, err)))
        return false;

    for (size_t i = digits; i-- > 0;) {
        uint32_t digit = (uint32_t)p[2 * i] | (uint32_t)p[2 * i + 1] << 8;

        if (digit > 0x7fff)
            return lw_fail(err, LW_ERR_FORMAT,
                           "at byte %zu: an int with a digit that is too large",
                           value->offset);
        fits = fits && magnitude <= (uint64_t)INT64_MAX >> 15;
        if (fits)
            magnitude = magnitude << 15 | digit;
        number = number * 32768.0 + digit;
    }
    value->kind = LW_MARSHAL_INT;
    if (!fits)
        magnitude = INT64_MAX;
    value->integer = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    value->number = negative ? -number : number;
    return true;
}

static bool take_text_float(struct lw_marshal_in *in, struct lw_marshal_value *value,
                            struct lw_error *err)
{
    const unsigned char *len, *p;

    if (!(len = take(in, 1, err)) || !(p = take(in, *len, err)))
        return false;
    value->kind = LW_MARSHAL_FLOAT;
    if (!lw_text_double((const char *)p, *len, &value->number))
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a float that is not a number",
                       value->offset);
    return true;
}

static bool take_text(struct lw_marshal_in *in, bool is_short,
                      struct lw_marshal_value *value, struct lw_error *err)
{
    const unsigned char *p;
    uint32_t len;

    if (is_short) {
        if (!(p = take(in, 1, err)))
            return false;
        len = *p;
    } else if (!take_length(in, value->offset, &len, err)) {
        return false;
    }
    if (!(p = take(in, len, err)))
        return false;
    value->kind = LW_MARSHAL_TEXT;
    value->text = (const char *)p;
    value->len = len;
    return true;
}

static bool take_count(struct lw_marshal_in *in, bool is_short,
                       enum lw_marshal_kind kind, struct lw_marshal_value *value,
                       struct lw_error *err)
{
    const unsigned char *p;

    value->kind = kind;
    if (!is_short) {
        if (!take_length(in, value->offset, &value->count, err))
            return false;
    } else {
        if (!(p = take(in, 1, err)))
            return false;
        value->count = *p;
    }
    if (value->count > in->len - in->next) /* an item is at least one byte */
        return lw_fail(
            err, LW_ERR_FORMAT,
            "at byte %zu: %s of %u items with only %zu bytes left; the file is "
            "damaged or cut short",
            value->offset, lw_marshal_kind_name(kind), value->count,
            in->len - in->next);
    return true;
}

/* Read the value of TYPE whose type byte has been taken; no references. */
static bool take_value(struct lw_marshal_in *in, unsigned char type,
                       struct lw_marshal_value *value, struct lw_error *err)
{
    const unsigned char *p;
    uint64_t bits;

    switch (type) {
    case '0': value->kind = LW_MARSHAL_NULL; return true;
    case 'N': value->kind = LW_MARSHAL_NONE; return true;
    case 'F':
    case 'T':
        set_int(value, type == 'T');
        value->kind = LW_MARSHAL_BOOL;
        return true;
    case 'i':
        if (!(p = take(in, 4, err)))
            return false;
        set_int(value, (int32_t)get_u32(p));
        return true;
    case 'I':
        if (!(p = take(in, 8, err)))
            return false;
        set_int(value, (int64_t)get_u64(p));
        return true;
    case 'l': return take_long(in, value, err);
    case 'f': return take_text_float(in, value, err);
    case 'g':
        if (!(p = take(in, 8, err)))
            return false;
        bits = get_u64(p);
        memcpy(&value->number, &bits, sizeof(bits));
        value->kind = LW_MARSHAL_FLOAT;
        return true;
    case 'z':
    case 'Z': return take_text(in, true, value, err);
    case 's':
    case 't':
    case 'u':
    case 'a':
    case 'A': return take_text(in, false, value, err);
    case ')': return take_count(in, true, LW_MARSHAL_TUPLE, value, err);
    case '(': return take_count(in, false, LW_MARSHAL_TUPLE, value, err);
    case '[': return take_count(in, false, LW_MARSHAL_LIST, value, err);
    case '{': value->kind = LW_MARSHAL_DICT; return true;
    case '}': value->kind = LW_MARSHAL_DICT; return true; /* frozendict, 3.15 */
    case '<':
    case '>': return take_count(in, false, LW_MARSHAL_SET, value, err);
    case ':': /* a slice: start, stop, step */
        value->kind = LW_MARSHAL_SET;
        value->count = 3;
        return true;
    case 'c': value->kind = LW_MARSHAL_CODE; return true;
    case 'S':
    case '.': value->kind = LW_MARSHAL_OTHER; return true;
    case 'x':
        if (!take_text_float(in, value, err) || !take_text_float(in, value, err))
            return false;
        value->kind = LW_MARSHAL_OTHER;
        return true;
    case 'y': value->kind = LW_MARSHAL_OTHER; return take(in, 16, err) != NULL;
    default:
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: 0x%02x begins no value",
                       value->offset, (unsigned)type);
    }
}

static bool is_container(enum lw_marshal_kind kind)
{
    return kind == LW_MARSHAL_TUPLE || kind == LW_MARSHAL_LIST ||
           kind == LW_MARSHAL_DICT || kind == LW_MARSHAL_SET || kind == LW_MARSHAL_CODE;
}

/* Objects of which there is only one (and the end of a dict) get no number. */
static bool is_numbered(unsigned char type)
{
    return memchr("0NFTS.", type, 6) == NULL;
}

static bool add_reference(struct lw_marshal_in *in, struct lw_marshal_value *value,
                          struct lw_error *err)
{
    struct lw_marshal_ref *ref;

    if (in->ref_count >= UINT32_MAX - 1)
        return lw_fail(err, LW_ERR_LIMIT, "at byte %zu: too many references",
                       value->offset);
    if (!lw_grow(&in->refs, &in->ref_capacity, in->ref_count + 1, sizeof(*in->refs),
                 err))
        return false;
    ref = &in->refs[in->ref_count++];
    ref->offset = value->offset;
    ref->end = is_container(value->kind) ? 0 : in->next;
    ref->made = 0;
    ref->kind = (uint8_t)value->kind;
    ref->count = value->count;
    ref->head_bytes =
        is_container(value->kind) ? (uint8_t)(in->next - value->offset) : 0;
    value->reference = (uint32_t)in->ref_count;
    return true;
}

/* Read again the value at OFFSET, which was read before and so is well formed. */
static bool read_again(struct lw_marshal_in *in, size_t offset,
                       struct lw_marshal_value *value, struct lw_error *err)
{
    in->next = offset + 1;
    return take_value(in, in->bytes[offset] & (FLAG_REF - 1), value, err);
}

static bool follow_reference(struct lw_marshal_in *in, struct lw_marshal_value *value,
                             struct lw_error *err)
{
    const struct lw_marshal_ref *ref;
    const unsigned char *p;
    uint32_t number;
    size_t resume;

    if (!(p = take(in, 4, err)))
        return false;
    number = get_u32(p);
    resume = in->next;
    if (number >= in->ref_count)
        return lw_fail(err, LW_ERR_FORMAT,
                       "at byte %zu: refers to value %u of only %zu so far",
                       value->offset, number, in->ref_count);
    ref = &in->refs[number];
    if (ref->end == 0)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a container that holds itself",
                       value->offset);
    value->reference = number + 1;
    if (!is_container(ref->kind)) {
        if (!read_again(in, ref->offset, value, err))
            return false;
        in->next = resume;
        return true;
    }

    if (in->unfold_bytes == 0)
        return lw_fail(err, LW_ERR_LIMIT,
                       "at byte %zu: refers back to tables so often that the file "
                       "would unfold to many times its size",
                       value->offset);
    in->next = ref->offset + ref->head_bytes;
    in->replays++;
    value->kind = ref->kind;
    value->count = ref->count;
    value->again = true;
    value->content = in->next;
    value->resume = resume;
    return true;
}

static bool follow_interned(struct lw_marshal_in *in, struct lw_marshal_value *value,
                            struct lw_error *err)
{
    const unsigned char *p;
    uint32_t number;
    size_t resume;

    if (!(p = take(in, 4, err)))
        return false;
    number = get_u32(p);
    resume = in->next;
    if (number >= in->interned_count)
        return lw_fail(err, LW_ERR_FORMAT,
                       "at byte %zu: refers to interned string %u of only %zu so far",
                       value->offset, number, in->interned_count);
    if (!read_again(in, in->interned[number], value, err))
        return false;
    in->next = resume;
    return true;
}

bool lw_marshal_next(struct lw_marshal_in *in, struct lw_marshal_value *value,
                     struct lw_error *err)
{
    const unsigned char *p;
    unsigned char type;

    value->offset = in->next;
    value->reference = 0;
    value->again = false;
    if (!(p = take(in, 1, err)))
        return false;
    type = *p & (FLAG_REF - 1);
    if (type == 'r')
        return follow_reference(in, value, err);
    if (type == 'R')
        return follow_interned(in, value, err);

    if (!take_value(in, type, value, err))
        return false;
    if (in->replays > 0) /* has its number since it was first read */
        return true;
    if (type == 't') {
        if (!lw_grow(&in->interned, &in->interned_capacity, in->interned_count + 1,
                     sizeof(*in->interned), err))
            return false;
        in->interned[in->interned_count++] = value->offset;
    }
    if ((*p & FLAG_REF) && is_numbered(type))
        return add_reference(in, value, err);
    return true;
}

void lw_marshal_end(struct lw_marshal_in *in, const struct lw_marshal_value *container)
{
    if (container->again) {
        size_t read_bytes = in->next - container->content;

        in->unfold_bytes -=
            read_bytes < in->unfold_bytes ? read_bytes : in->unfold_bytes;
        in->next = container->resume;
        in->replays--;
    } else if (container->reference) {
        in->refs[container->reference - 1].end = in->next;
    }
}
