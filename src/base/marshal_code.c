/* Passes over a code object and all that is in it, keeping a few names.
 *
 *     ints     2.7: 4    3.0-3.7: 5    3.8-3.10: 6    3.11+: 5
 *     values   code, consts, names, varnames, freevars, cellvars, file, name     -3.10
 *              code, consts, names, locals, kinds, file, name, qualname           3.11+
 *     int      first line
 *     values   line table (and from 3.11 the exception table)
 *
 * Nothing says which Python wrote it. But the first value is always bytes, which tells
 * how many ints come before; and the fifth is bytes only from 3.11 on.
 *
 * Constants hold further code objects, tuples in tuples and so on, as deep as they
 * like: a list of what is open stands in for recursion. */

#include "base/marshal_code.h"

#include <string.h>

#include "base/alloc.h"

#define HEAD_VALUES 8 /* before the first line */

/* Something that is being passed over. */
struct open {
    struct lw_marshal_value value;
    uint32_t left;     /* values still to come; of a dict: not counted */
    bool has_new_form; /* code: of 3.11 or later */
    bool is_tail;      /* code: behind the first line */
};

struct passing {
    struct lw_marshal_in *in;
    struct open *open;
    size_t depth;
    size_t capacity;
};

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

/* Does a string of bytes begin at AT, or a reference to something? An int that looks
 * like the type byte of one has three zeros behind it and then another type byte, which
 * makes for a length (or number) no input has. */
static bool may_be_bytes(const struct lw_marshal_in *in, size_t at)
{
    if (in->len < 5 || at > in->len - 5)
        return false;
    switch (in->bytes[at] & 0x7f) {
    case 's': return get_u32(in->bytes + at + 1) <= in->len - at - 5;
    case 'r': return get_u32(in->bytes + at + 1) < in->ref_count;
    default: return false;
    }
}

static bool take_ints(struct lw_marshal_in *in, size_t offset, struct lw_error *err)
{
    for (size_t count = 4; count <= 6; count++) {
        if (may_be_bytes(in, in->next + 4 * count)) {
            in->next += 4 * count;
            return true;
        }
    }
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: a code object of no known Python",
                   offset);
}

static bool begin(struct passing *p, const struct lw_marshal_value *value,
                  struct lw_error *err)
{
    struct open *open;

    if (!lw_grow(&p->open, &p->capacity, p->depth + 1, sizeof(*p->open), err))
        return false;
    open = &p->open[p->depth++];
    memset(open, 0, sizeof(*open));
    open->value = *value;
    open->left = value->kind == LW_MARSHAL_CODE ? HEAD_VALUES : value->count;
    return value->kind != LW_MARSHAL_CODE || take_ints(p->in, value->offset, err);
}

/* The outermost code object's names, as they pass. LEFT counts the value at hand. */
static void keep_name(struct lw_marshal_code *code, uint32_t left, bool has_new_form,
                      const struct lw_marshal_value *value)
{
    uint32_t file_left = has_new_form ? 3 : 2;

    if (value->kind != LW_MARSHAL_TEXT)
        return;
    if (left == file_left) {
        code->file = value->text;
        code->file_len = value->len;
    } else if (left + 1 == file_left) {
        code->name = value->text;
        code->name_len = value->len;
    }
}

/* Between a code object's head and its tail stands its first line. */
static bool turn_to_tail(struct passing *p, struct lw_marshal_code *code,
                         struct lw_error *err)
{
    struct open *open = &p->open[p->depth - 1];
    const unsigned char *bytes = lw_marshal_take(p->in, 4, err);

    if (!bytes)
        return false;
    if (p->depth == 1)
        code->first_line = get_u32(bytes);
    open->is_tail = true;
    open->left = open->has_new_form ? 2 : 1;
    return true;
}

/* Pass over one value of what was opened last, or end it. */
static bool step(struct passing *p, struct lw_marshal_code *code, struct lw_error *err)
{
    struct open *open = &p->open[p->depth - 1];
    bool is_code = open->value.kind == LW_MARSHAL_CODE;
    bool is_dict = open->value.kind == LW_MARSHAL_DICT;
    struct lw_marshal_value value;

    if (open->left == 0 && is_code && !open->is_tail)
        return turn_to_tail(p, code, err);
    if (open->left == 0 && !is_dict) {
        lw_marshal_end(p->in, &open->value);
        p->depth--;
        return true;
    }
    if (!lw_marshal_next(p->in, &value, err))
        return false;
    if (value.kind == LW_MARSHAL_NULL) {
        if (!is_dict)
            return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: the end of no dict",
                           value.offset);
        lw_marshal_end(p->in, &open->value);
        p->depth--;
        return true;
    }
    if (is_code && !open->is_tail) {
        if (open->left == 4) /* the fifth of eight */
            open->has_new_form = value.kind == LW_MARSHAL_TEXT;
        if (p->depth == 1)
            keep_name(code, open->left, open->has_new_form, &value);
    }
    if (!is_dict)
        open->left--;
    if (value.again) { /* read before; nothing in it is wanted */
        lw_marshal_end(p->in, &value);
        return true;
    }
    switch (value.kind) {
    case LW_MARSHAL_TUPLE:
    case LW_MARSHAL_LIST:
    case LW_MARSHAL_DICT:
    case LW_MARSHAL_SET:
    case LW_MARSHAL_CODE: return begin(p, &value, err);
    default: return true;
    }
}

bool lw_marshal_read_code(struct lw_marshal_in *in,
                          const struct lw_marshal_value *value,
                          struct lw_marshal_code *code, struct lw_error *err)
{
    struct passing p = { .in = in };
    bool done;

    memset(code, 0, sizeof(*code));
    done = begin(&p, value, err);
    while (done && p.depth > 0)
        done = step(&p, code, err);
    lw_free(p.open);
    return done;
}
