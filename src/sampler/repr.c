#include "sampler/repr.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

#define DEPTH_MAX 2
/* Of one container; each may cost a few system calls. */
#define ITEMS_MAX 32
/* Characters of a string that are shown even if there is no room left. */
#define STRING_MIN 16
#define MORE "\xe2\x80\xa6" /* an ellipsis */

/* What is being made. */
struct repr {
    const struct lw_objects *objects;
    struct lw_buf *out;
    size_t end; /* of `out`, when it is long enough */
};

static size_t room(const struct repr *repr)
{
    return repr->out->len < repr->end ? repr->end - repr->out->len : 0;
}

/* ---- text and bytes ----------------------------------------------------------------- */

/* TEXT in quotes as Python has them. */
static void add_quoted(struct repr *repr, const char *text, size_t len)
{
    char quote = memchr(text, '\'', len) && !memchr(text, '"', len) ? '"' : '\'';

    lw_buf_add_char(repr->out, quote);
    for (size_t i = 0, plain = 0; i <= len; i++) {
        char escape = '\0';

        if (i < len && text[i] != quote && text[i] != '\\' && text[i] != '\n' &&
            text[i] != '\t' && text[i] != '\r')
            continue;
        lw_text_add_printable(repr->out, text + plain, i - plain);
        plain = i + 1;
        if (i == len)
            break;
        escape = text[i] == '\n'   ? 'n'
                 : text[i] == '\t' ? 't'
                 : text[i] == '\r' ? 'r'
                                   : text[i];
        lw_buf_add_char(repr->out, '\\');
        lw_buf_add_char(repr->out, escape);
    }
    lw_buf_add_char(repr->out, quote);
}

typedef bool get_bytes(const struct lw_objects *objects, uint64_t address, size_t limit,
                       struct lw_buf *out, uint64_t *length);

static bool add_string(struct repr *repr, uint64_t address, get_bytes *get,
                       const char *prefix)
{
    size_t limit = room(repr) > STRING_MIN ? room(repr) : STRING_MIN;
    struct lw_buf bytes;
    uint64_t length;
    bool found;

    lw_buf_init(&bytes, 0);
    found = get(repr->objects, address, limit, &bytes, &length) &&
            lw_buf_check(&bytes, NULL);
    if (found) {
        lw_buf_add_text(repr->out, prefix);
        add_quoted(repr, bytes.bytes ? bytes.bytes : "", bytes.len);
        if (length > limit)
            lw_buf_addf(repr->out, MORE " %" PRIu64 " more", length - limit);
    }
    lw_buf_release(&bytes);
    return found;
}

/* ---- numbers ------------------------------------------------------------------------ */

/* By dividing it by 10^9 again and again. */
static bool add_int(struct repr *repr, uint64_t address)
{
    struct lw_object_int value;
    uint32_t parts[LW_OBJECT_DIGITS + 1]; /* 30 bits are fewer than 10^10 */
    size_t count = 0;

    if (!lw_objects_int(repr->objects, address, &value))
        return false;
    if (value.count > LW_OBJECT_DIGITS) {
        lw_buf_addf(repr->out, "<int of %" PRIu64 " bits>", value.count * 30);
        return true;
    }
    do {
        uint64_t rest = 0;

        for (size_t i = LW_OBJECT_DIGITS; i-- > 0;) {
            rest = rest << 30 | (value.digits[i] & 0x3fffffff);
            value.digits[i] = (uint32_t)(rest / 1000000000u);
            rest %= 1000000000u;
        }
        parts[count++] = (uint32_t)rest;
        while (value.count > 0 && value.digits[value.count - 1] == 0)
            value.count--;
    } while (value.count > 0);
    lw_buf_addf(repr->out, "%s%" PRIu32, value.is_negative ? "-" : "",
                parts[count - 1]);
    while (--count > 0)
        lw_buf_addf(repr->out, "%09" PRIu32, parts[count - 1]);
    return true;
}

static bool add_float(struct repr *repr, uint64_t address)
{
    size_t start = repr->out->len;
    double value;

    if (!lw_objects_float(repr->objects, address, &value))
        return false;
    lw_buf_add_double(repr->out, value);
    if (isfinite(value) && lw_buf_check(repr->out, NULL) &&
        !strpbrk(repr->out->bytes + start, ".e"))
        lw_buf_add_text(repr->out, ".0");
    return true;
}

static bool add_bool(struct repr *repr, uint64_t address)
{
    uint64_t value;

    if (!lw_objects_u64(repr->objects, address, &value))
        return false;
    lw_buf_add_text(repr->out, value ? "True" : "False");
    return true;
}

/* Is it of the type itself, and none derived from it? */
static bool is_plain(const struct lw_object *object)
{
    static const char *const names[] = {
        [LW_OBJECT_INT] = "int",     [LW_OBJECT_TEXT] = "str",
        [LW_OBJECT_BYTES] = "bytes", [LW_OBJECT_TUPLE] = "tuple",
        [LW_OBJECT_LIST] = "list",   [LW_OBJECT_DICT] = "dict",
        [LW_OBJECT_SET] = "set",     [LW_OBJECT_TYPE] = NULL,
    };
    const char *name = names[object->kind];

    return !name || strcmp(object->type_name, name) == 0;
}

/* ---- containers --------------------------------------------------------------------- */

static void add_object(struct repr *repr, uint64_t address, int depth);

static const char *brackets_of(const struct lw_object *object)
{
    switch (object->kind) {
    case LW_OBJECT_TUPLE: return "()";
    case LW_OBJECT_LIST: return "[]";
    default: return "{}";
    }
}

static void add_items(struct repr *repr, const struct lw_object *object,
                      const struct lw_entries *entries, int depth)
{
    size_t shown = 0;

    for (; shown < entries->count && (shown == 0 || room(repr) > 0); shown++) {
        const struct lw_entry *entry = &entries->entries[shown];

        if (shown > 0)
            lw_buf_add_text(repr->out, ", ");
        if (entry->key)
            add_object(repr, entry->key, depth + 1);
        if (entry->key && entry->value)
            lw_buf_add_text(repr->out, ": ");
        if (entry->value)
            add_object(repr, entry->value, depth + 1);
        else if (!entry->key)
            lw_buf_add_text(repr->out, "<unset>");
    }
    if (entries->total > shown)
        lw_buf_addf(repr->out, "%s" MORE " %" PRIu64 " more", shown > 0 ? ", " : "",
                    entries->total - shown);
    else if (object->kind == LW_OBJECT_TUPLE && shown == 1)
        lw_buf_add_char(repr->out, ',');
}

static bool add_container(struct repr *repr, const struct lw_object *object, int depth)
{
    const char *brackets = brackets_of(object);
    struct lw_entries entries = { 0 };
    bool found = lw_objects_entries(repr->objects, object,
                                    depth < DEPTH_MAX ? ITEMS_MAX : 0, &entries);

    if (found && entries.total == 0 && object->kind == LW_OBJECT_SET)
        lw_buf_add_text(repr->out, is_plain(object) ? "set()" : "");
    else if (found) {
        lw_buf_add_char(repr->out, brackets[0]);
        add_items(repr, object, &entries, depth);
        lw_buf_add_char(repr->out, brackets[1]);
    }
    lw_entries_release(&entries);
    return found;
}

/* ---- any ---------------------------------------------------------------------------- */

static void add_instance(struct repr *repr, const struct lw_object *object)
{
    lw_buf_add_char(repr->out, '<');
    lw_text_add_printable(repr->out, object->type_name, strlen(object->type_name));
    lw_buf_add_text(repr->out, " object>");
}

static bool add_type(struct repr *repr, const struct lw_object *object)
{
    char text[LW_OBJECT_TYPE_BYTES];
    uint64_t name;

    if (!lw_memory_u64(repr->objects->memory,
                       object->address + repr->objects->layout->type_name, &name) ||
        !lw_objects_string(repr->objects, name, text, sizeof(text)))
        return false;
    lw_buf_add_text(repr->out, "<class ");
    lw_text_add_printable(repr->out, text, strlen(text));
    lw_buf_add_char(repr->out, '>');
    return true;
}

static bool add_value(struct repr *repr, const struct lw_object *object, int depth)
{
    switch (object->kind) {
    case LW_OBJECT_NONE: lw_buf_add_text(repr->out, "None"); return true;
    case LW_OBJECT_BOOL: return add_bool(repr, object->address);
    case LW_OBJECT_INT: return add_int(repr, object->address);
    case LW_OBJECT_FLOAT: return add_float(repr, object->address);
    case LW_OBJECT_TEXT: return add_string(repr, object->address, lw_objects_text, "");
    case LW_OBJECT_BYTES:
        return add_string(repr, object->address, lw_objects_bytes, "b");
    case LW_OBJECT_TUPLE:
    case LW_OBJECT_LIST:
    case LW_OBJECT_DICT:
    case LW_OBJECT_SET: return add_container(repr, object, depth);
    case LW_OBJECT_TYPE: return add_type(repr, object);
    default: add_instance(repr, object); return true;
    }
}

/* DEPTH is bounded by DEPTH_MAX, so this ends whatever the objects are. */
static void add_object(struct repr *repr, uint64_t address, int depth)
{
    struct lw_object object;
    bool found = lw_objects_look(repr->objects, address, &object);
    bool is_named = found && !is_plain(&object);

    if (is_named) {
        lw_text_add_printable(repr->out, object.type_name, strlen(object.type_name));
        lw_buf_add_char(repr->out, '(');
    }
    if (!found || !add_value(repr, &object, depth))
        lw_buf_add_text(repr->out, "<unreadable>");
    if (is_named)
        lw_buf_add_char(repr->out, ')');
}

void lw_repr_add(const struct lw_objects *objects, uint64_t address, size_t limit,
                 struct lw_buf *out)
{
    struct repr repr = { objects, out, out->len + limit };

    add_object(&repr, address, 0);
}
