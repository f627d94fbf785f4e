/* Objects that hold no others; objects_entries.c has those that do. */
#include "sampler/objects.h"

#include <string.h>

#include "base/text.h"

/* Bits of tp_flags: part of the ABI since 3.0. */
#define IS_INT (1ull << 24)
#define IS_LIST (1ull << 25)
#define IS_TUPLE (1ull << 26)
#define IS_BYTES (1ull << 27)
#define IS_TEXT (1ull << 28)
#define IS_DICT (1ull << 29)
#define IS_TYPE (1ull << 31)

#define PAGE_BYTES 4096u
/* Characters, or bytes, that are read at once. */
#define AT_ONCE 1024u

static bool get_u64(const struct lw_objects *objects, uint64_t address, uint64_t *value)
{
    return lw_memory_u64(objects->memory, address, value);
}

/* ---- what it is --------------------------------------------------------------------- */

/* It may be the last before memory that is not there, so no page is touched before the
 * one in front of it has no end in it. */
bool lw_objects_string(const struct lw_objects *objects, uint64_t address, char *text,
                       size_t size)
{
    size_t len = 0;

    while (len + 1 < size) {
        size_t part = PAGE_BYTES - (size_t)((address + len) % PAGE_BYTES);

        if (part > size - 1 - len)
            part = size - 1 - len;
        if (!lw_memory_get(objects->memory, address + len, text + len, part))
            return false;
        if (memchr(text + len, '\0', part))
            return true;
        len += part;
    }
    text[len] = '\0';
    return true;
}

static enum lw_object_kind kind_of(uint64_t flags, const char *type_name)
{
    static const struct {
        uint64_t flag;
        enum lw_object_kind kind;
    } by_flag[] = {
        { IS_INT, LW_OBJECT_INT },     { IS_LIST, LW_OBJECT_LIST },
        { IS_TUPLE, LW_OBJECT_TUPLE }, { IS_BYTES, LW_OBJECT_BYTES },
        { IS_TEXT, LW_OBJECT_TEXT },   { IS_DICT, LW_OBJECT_DICT },
        { IS_TYPE, LW_OBJECT_TYPE },
    };
    static const struct {
        const char *name;
        enum lw_object_kind kind;
    } by_name[] = {
        { "bool", LW_OBJECT_BOOL },     { "NoneType", LW_OBJECT_NONE },
        { "float", LW_OBJECT_FLOAT },   { "set", LW_OBJECT_SET },
        { "frozenset", LW_OBJECT_SET },
    };

    for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++) {
        if (strcmp(type_name, by_name[i].name) == 0)
            return by_name[i].kind;
    }
    for (size_t i = 0; i < sizeof(by_flag) / sizeof(by_flag[0]); i++) {
        if (flags & by_flag[i].flag)
            return by_flag[i].kind;
    }
    return LW_OBJECT_OTHER;
}

bool lw_objects_look(const struct lw_objects *objects, uint64_t address,
                     struct lw_object *object)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t name = 0;
    struct lw_memory_range ranges[2];

    memset(object, 0, sizeof(*object));
    object->address = address;
    if (address == 0 || !get_u64(objects, address + layout->object_type, &object->type))
        return false;
    ranges[0] = (struct lw_memory_range){ object->type + layout->type_flags,
                                          &object->flags, sizeof(object->flags) };
    ranges[1] = (struct lw_memory_range){ object->type + layout->type_name, &name,
                                          sizeof(name) };
    if (lw_memory_read(objects->memory, ranges, 2) != 2 ||
        !lw_objects_string(objects, name, object->type_name, sizeof(object->type_name)))
        return false;
    object->kind = kind_of(object->flags, object->type_name);
    return true;
}

bool lw_objects_is(const struct lw_objects *objects, uint64_t address, const char *name)
{
    struct lw_object object;

    return lw_objects_look(objects, address, &object) &&
           strcmp(object.type_name, name) == 0;
}

/* ---- text and bytes ----------------------------------------------------------------- */

/* Behind `interned`, whose width differs, PyASCIIObject.state has been the same since 3.3:
 * kind (bytes a character, 3 bits), compact, ascii. */
struct text {
    uint64_t start; /* of its characters */
    uint64_t length;
    unsigned kind;
};

static bool find_text(const struct lw_objects *objects, uint64_t address,
                      struct text *text)
{
    const struct lw_py_layout *layout = objects->layout;
    uint32_t state = 0;
    const struct lw_memory_range ranges[] = {
        { address + layout->unicode_length, &text->length, sizeof(text->length) },
        { address + layout->unicode_state, &state, sizeof(state) },
    };
    bool is_compact, is_ascii;

    if (address == 0 || lw_memory_read(objects->memory, ranges, 2) != 2)
        return false;
    state >>= layout->unicode_kind_shift;
    text->kind = state & 7;
    is_compact = state >> 3 & 1;
    is_ascii = state >> 4 & 1;
    if (text->kind != 1 && text->kind != 2 && text->kind != 4)
        return false;
    text->start = address + (is_compact && is_ascii ? layout->unicode_ascii_size
                                                    : layout->unicode_compact_size);
    /* Those of a subclass are elsewhere. */
    return is_compact || get_u64(objects, text->start, &text->start);
}

static void take_back(struct lw_buf *out, size_t len)
{
    out->len = len;
    if (out->bytes)
        out->bytes[len] = '\0';
}

bool lw_objects_text(const struct lw_objects *objects, uint64_t address, size_t limit,
                     struct lw_buf *out, uint64_t *length)
{
    unsigned char bytes[AT_ONCE * 4];
    size_t before = out->len;
    struct text text;
    uint64_t count;

    if (!find_text(objects, address, &text))
        return false;
    *length = text.length;
    count = text.length < limit ? text.length : limit;
    for (uint64_t done = 0; done < count;) {
        size_t part = count - done < AT_ONCE ? (size_t)(count - done) : AT_ONCE;

        if (!lw_memory_get(objects->memory, text.start + done * text.kind, bytes,
                           part * text.kind)) {
            take_back(out, before);
            return false;
        }
        for (size_t i = 0; i < part; i++) {
            uint32_t code = 0;

            memcpy(&code, bytes + i * text.kind, text.kind);
            lw_text_add_code(out, code <= 0x10ffff ? code : 0xfffd);
        }
        done += part;
    }
    return true;
}

bool lw_objects_name(const struct lw_objects *objects, uint64_t address, char *name,
                     size_t size)
{
    struct lw_buf text;
    uint64_t length;
    uint32_t code;
    size_t len = 0, next;
    bool found;

    lw_buf_init(&text, 0);
    found = lw_objects_text(objects, address, size, &text, &length) &&
            lw_buf_check(&text, NULL);
    while (found &&
           (next = lw_text_utf8(text.bytes + len, text.len - len, &code)) > 0 &&
           len + next < size) {
        memcpy(name + len, text.bytes + len, next);
        len += next;
    }
    if (size > 0)
        name[len] = '\0';
    lw_buf_release(&text);
    return found;
}

bool lw_objects_bytes(const struct lw_objects *objects, uint64_t address, size_t limit,
                      struct lw_buf *out, uint64_t *length)
{
    const struct lw_py_layout *layout = objects->layout;
    size_t before = out->len, count;
    void *room;

    if (address == 0 || !get_u64(objects, address + layout->sized_size, length))
        return false;
    count = *length < limit ? (size_t)*length : limit;
    if (count == 0)
        return true;
    room = lw_buf_extend(out, count);
    if (room &&
        lw_memory_get(objects->memory, address + layout->bytes_data, room, count))
        return true;
    take_back(out, before);
    return false;
}

/* ---- numbers ------------------------------------------------------------------------ */

/* Up to 3.11 the sign of ob_size is the number's; from 3.12 on the low bits of lv_tag: 0
 * positive, 1 zero, 2 negative, and a third one that is free, then how many digits. */
bool lw_objects_int(const struct lw_objects *objects, uint64_t address,
                    struct lw_object_int *value)
{
    const struct lw_py_layout *layout = objects->layout;
    bool has_tag = layout->int_tag != LW_NO_FIELD;
    uint64_t size;

    memset(value, 0, sizeof(*value));
    if (address == 0 ||
        !get_u64(objects, address + (has_tag ? layout->int_tag : layout->sized_size),
                 &size))
        return false;
    value->is_negative = has_tag ? (size & 3) == 2 : size >> 63 != 0;
    if (has_tag)
        value->count = (size & 3) == 1 ? 0 : size >> 3;
    else
        value->count = value->is_negative ? -size : size;
    if (value->count == 0 || value->count > LW_OBJECT_DIGITS)
        return true;
    return lw_memory_get(objects->memory, address + layout->int_digits, value->digits,
                         (size_t)value->count * sizeof(value->digits[0]));
}

bool lw_objects_u64(const struct lw_objects *objects, uint64_t address, uint64_t *value)
{
    struct lw_object_int number;

    if (!lw_objects_int(objects, address, &number) || number.is_negative ||
        number.count > 3 || number.digits[2] >= 16)
        return false;
    *value = (uint64_t)number.digits[2] << 60 | (uint64_t)number.digits[1] << 30 |
             number.digits[0];
    return true;
}

bool lw_objects_float(const struct lw_objects *objects, uint64_t address, double *value)
{
    return lw_memory_get(objects->memory, address + objects->layout->float_value, value,
                         sizeof(*value));
}
