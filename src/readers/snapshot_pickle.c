/* The pickle machine, after Python's Lib/pickletools.py: of its opcodes those that make
 * data. */

#include "readers/snapshot_pickle.h"

#include <string.h>

#include "base/alloc.h"

#define NO_CHUNK UINT32_MAX
#define PROTOCOL_MAX 5

enum opcode {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_POP = '0',
    OP_POP_MARK = '1',
    OP_DUP = '2',
    OP_BINBYTES = 'B',
    OP_SHORT_BINBYTES = 'C',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_GLOBAL = 'c',
    OP_DICT = 'd',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_LIST = 'l',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_EMPTY_TUPLE = ')',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_LONG4 = 0x8b,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d,
    OP_BINBYTES8 = 0x8e,
    OP_EMPTY_SET = 0x8f,
    OP_ADDITEMS = 0x90,
    OP_FROZENSET = 0x91,
    OP_STACK_GLOBAL = 0x93,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
    OP_BYTEARRAY8 = 0x96,
};

void lw_pickle_release(struct lw_pickle *pickle)
{
    lw_free(pickle->stack);
    lw_free(pickle->memo);
    lw_free(pickle->items);
    lw_free(pickle->containers);
    lw_free(pickle->chunks);
    lw_free(pickle->texts);
    lw_free(pickle->bigs);
    memset(pickle, 0, sizeof(*pickle));
}

static lw_pickle_value make(enum lw_pickle_kind kind, uint64_t payload)
{
    return payload << 4 | (uint64_t)kind;
}

static bool fail_at(size_t offset, const char *problem, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "at byte %zu: %s", offset, problem);
}

/* Bytes */

static const unsigned char *take(struct lw_pickle *p, size_t count,
                                 struct lw_error *err)
{
    const unsigned char *bytes = p->bytes + p->next;

    if (count > p->len - p->next) {
        lw_fail(err, LW_ERR_FORMAT,
                "at byte %zu: the file ends in the middle of a value; it was cut short",
                p->len);
        return NULL;
    }
    p->next += count;
    return bytes;
}

/* A little-endian number of SIZE bytes, at most 8. */
static bool take_number(struct lw_pickle *p, size_t size, uint64_t *number,
                        struct lw_error *err)
{
    const unsigned char *bytes = take(p, size, err);

    *number = 0;
    for (size_t i = 0; bytes && i < size; i++)
        *number |= (uint64_t)bytes[i] << (8 * i);
    return bytes != NULL;
}

/* The stack */

static bool push(struct lw_pickle *p, lw_pickle_value value, struct lw_error *err)
{
    if (!lw_grow(&p->stack, &p->stack_capacity, p->stack_count + 1, sizeof(value), err))
        return false;
    p->stack[p->stack_count++] = value;
    return true;
}

/* How many values must be above the last MARK, or the bottom, for what comes. */
static bool want(struct lw_pickle *p, size_t count, size_t offset, struct lw_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (p->stack_count <= i ||
            lw_pickle_kind(p->stack[p->stack_count - 1 - i]) == LW_PICKLE_MARK)
            return fail_at(offset, "a value that is not there is taken", err);
    return true;
}

/* Where what is above the last MARK begins; the MARK is taken off. */
static bool find_mark(struct lw_pickle *p, size_t offset, size_t *first,
                      struct lw_error *err)
{
    size_t at = p->stack_count;

    while (at > 0 && lw_pickle_kind(p->stack[at - 1]) != LW_PICKLE_MARK)
        at--;
    if (at == 0)
        return fail_at(offset, "the end of a group that never began", err);
    *first = at;
    return true;
}

/* Values */

static bool push_int(struct lw_pickle *p, int64_t number, struct lw_error *err)
{
    const int64_t limit = (int64_t)1 << 59;

    if (number >= -limit && number < limit)
        return push(p, make(LW_PICKLE_INT, (uint64_t)number), err);
    if (!lw_grow(&p->bigs, &p->big_capacity, p->big_count + 1, sizeof(*p->bigs), err))
        return false;
    p->bigs[p->big_count++] = number;
    return push(p, make(LW_PICKLE_BIG, p->big_count - 1), err);
}

/* An int of SIZE bytes, little-endian, of two's complement. */
static bool push_long(struct lw_pickle *p, uint64_t size, struct lw_error *err)
{
    const unsigned char *bytes = take(p, (size_t)size, err);
    uint64_t number = 0;
    bool negative, fits = true;

    if (!bytes)
        return false;
    if (size == 0)
        return push_int(p, 0, err);
    negative = bytes[size - 1] >> 7;
    number = negative ? UINT64_MAX : 0;
    for (size_t i = (size_t)size; i-- > 0;) {
        if (i >= 8)
            fits &= bytes[i] == (negative ? 0xff : 0);
        else
            number = number << 8 | bytes[i];
    }
    fits &= size <= 8 || (number >> 63 == negative);
    if (!fits)
        return push_int(p, negative ? INT64_MIN : INT64_MAX, err);
    return push_int(p, (int64_t)number, err);
}

static bool push_text(struct lw_pickle *p, size_t length_size, struct lw_error *err)
{
    struct lw_pickle_text text;
    uint64_t len;

    if (!take_number(p, length_size, &len, err))
        return false;
    text.offset = p->next;
    text.len = (size_t)len;
    if (!take(p, text.len, err) ||
        !lw_grow(&p->texts, &p->text_capacity, p->text_count + 1, sizeof(text), err))
        return false;
    p->texts[p->text_count++] = text;
    return push(p, make(LW_PICKLE_TEXT, p->text_count - 1), err);
}

/* Containers */

static bool push_container(struct lw_pickle *p, enum lw_pickle_kind kind,
                           struct lw_error *err)
{
    struct lw_pickle_container container = { NO_CHUNK, NO_CHUNK, 0 };

    if (p->container_count >= UINT32_MAX)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 lists and dicts");
    if (!lw_grow(&p->containers, &p->container_capacity, p->container_count + 1,
                 sizeof(container), err))
        return false;
    p->containers[p->container_count++] = container;
    return push(p, make(kind, p->container_count - 1), err);
}

/* Move what is on the stack from FIRST on into the container INTO. */
static bool fill(struct lw_pickle *p, lw_pickle_value into, size_t first, size_t offset,
                 struct lw_error *err)
{
    struct lw_pickle_container *container = &p->containers[lw_pickle_number(into)];
    size_t count = p->stack_count - first;
    struct lw_pickle_chunk chunk = { p->item_count, (uint32_t)count, NO_CHUNK };

    if (lw_pickle_kind(into) == LW_PICKLE_DICT && count % 2)
        return fail_at(offset, "a key without a value", err);
    if (count == 0)
        return true;
    if (count >= UINT32_MAX - container->count || p->chunk_count >= NO_CHUNK)
        return lw_fail(err, LW_ERR_LIMIT, "at byte %zu: more than 2^32 items", offset);
    if (!lw_grow(&p->items, &p->item_capacity, p->item_count + count, sizeof(*p->items),
                 err) ||
        !lw_grow(&p->chunks, &p->chunk_capacity, p->chunk_count + 1, sizeof(chunk),
                 err))
        return false;
    memcpy(p->items + p->item_count, p->stack + first, count * sizeof(*p->items));
    p->item_count += count;
    p->stack_count = first;
    if (container->last == NO_CHUNK)
        container->first = (uint32_t)p->chunk_count;
    else
        p->chunks[container->last].next = (uint32_t)p->chunk_count;
    container->last = (uint32_t)p->chunk_count;
    container->count += (uint32_t)count;
    p->chunks[p->chunk_count++] = chunk;
    return true;
}

/* Put the last COUNT values into the container below them. */
static bool add_last(struct lw_pickle *p, enum lw_pickle_kind kind, size_t count,
                     size_t offset, struct lw_error *err)
{
    lw_pickle_value into;

    if (!want(p, count + 1, offset, err))
        return false;
    into = p->stack[p->stack_count - 1 - count];
    if (lw_pickle_kind(into) != kind)
        return fail_at(offset, "items for what is no list and no dict", err);
    return fill(p, into, p->stack_count - count, offset, err);
}

/* Put what is above the last MARK into the container below it. */
static bool add_marked(struct lw_pickle *p, enum lw_pickle_kind kind, size_t offset,
                       struct lw_error *err)
{
    lw_pickle_value into;
    size_t first;

    if (!find_mark(p, offset, &first, err))
        return false;
    if (first < 2 || lw_pickle_kind(into = p->stack[first - 2]) != kind)
        return fail_at(offset, "items for what is no list and no dict", err);
    if (!fill(p, into, first, offset, err))
        return false;
    p->stack_count = first - 1; /* the MARK */
    return true;
}

/* Make a container of what is on the stack from FIRST on; with its MARK, if it has one. */
static bool collect(struct lw_pickle *p, enum lw_pickle_kind kind, size_t first,
                    bool marked, size_t offset, struct lw_error *err)
{
    lw_pickle_value made;

    if (!push_container(p, kind, err))
        return false;
    made = p->stack[--p->stack_count];
    if (!fill(p, made, first, offset, err))
        return false;
    p->stack_count = first - marked;
    return push(p, made, err);
}

static bool collect_marked(struct lw_pickle *p, enum lw_pickle_kind kind, size_t offset,
                           struct lw_error *err)
{
    size_t first;

    return find_mark(p, offset, &first, err) &&
           collect(p, kind, first, true, offset, err);
}

static bool collect_last(struct lw_pickle *p, size_t count, size_t offset,
                         struct lw_error *err)
{
    return want(p, count, offset, err) &&
           collect(p, LW_PICKLE_LIST, p->stack_count - count, false, offset, err);
}

/* The memo */

static bool put(struct lw_pickle *p, uint64_t index, size_t offset,
                struct lw_error *err)
{
    if (!want(p, 1, offset, err))
        return false;
    if (index >= p->len) /* there are fewer values than bytes */
        return fail_at(offset, "a value is noted under a number too large", err);
    if (!lw_grow(&p->memo, &p->memo_capacity, (size_t)index + 1, sizeof(*p->memo), err))
        return false;
    while (p->memo_count <= index)
        p->memo[p->memo_count++] = make(LW_PICKLE_MARK, 0);
    p->memo[index] = p->stack[p->stack_count - 1];
    return true;
}

static bool get(struct lw_pickle *p, uint64_t index, size_t offset,
                struct lw_error *err)
{
    if (index >= p->memo_count || lw_pickle_kind(p->memo[index]) == LW_PICKLE_MARK)
        return fail_at(offset, "a reference to what was not noted", err);
    return push(p, p->memo[index], err);
}

/* Numbers in front of an opcode's own doing */

static bool put_numbered(struct lw_pickle *p, size_t size, size_t offset,
                         struct lw_error *err)
{
    uint64_t index;

    return take_number(p, size, &index, err) && put(p, index, offset, err);
}

static bool get_numbered(struct lw_pickle *p, size_t size, size_t offset,
                         struct lw_error *err)
{
    uint64_t index;

    return take_number(p, size, &index, err) && get(p, index, offset, err);
}

static bool push_number(struct lw_pickle *p, size_t size, struct lw_error *err)
{
    uint64_t number;

    if (!take_number(p, size, &number, err))
        return false;
    return push_int(p, size == 4 ? (int32_t)(uint32_t)number : (int64_t)number, err);
}

static bool push_sized_long(struct lw_pickle *p, size_t size, struct lw_error *err)
{
    uint64_t len;

    return take_number(p, size, &len, err) && push_long(p, len, err);
}

static bool check_protocol(struct lw_pickle *p, size_t offset, struct lw_error *err)
{
    uint64_t protocol;

    if (!take_number(p, 1, &protocol, err))
        return false;
    return protocol <= PROTOCOL_MAX ||
           fail_at(offset, "a newer protocol of pickle than 5", err);
}

static bool pop_mark(struct lw_pickle *p, size_t offset, struct lw_error *err)
{
    size_t first;

    if (!find_mark(p, offset, &first, err))
        return false;
    p->stack_count = first - 1;
    return true;
}

static bool refuse(unsigned char opcode, size_t offset, struct lw_error *err)
{
    if ((opcode && strchr("RbioPQ", opcode)) || opcode == OP_GLOBAL ||
        opcode == OP_STACK_GLOBAL || (opcode >= 0x81 && opcode <= 0x84) ||
        opcode == 0x92 || opcode == 0x97 || opcode == 0x98)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "at byte %zu: the pickle holds an object of a class, which would "
            "have to be executed to be read; a snapshot holds only data",
            offset);
    return lw_fail(err, LW_ERR_FORMAT,
                   "at byte %zu: 0x%02x is no instruction of pickle for data", offset,
                   (unsigned)opcode);
}

/* One instruction, whose opcode was taken. */
static bool step(struct lw_pickle *p, unsigned char opcode, size_t at,
                 struct lw_error *err)
{
    switch (opcode) {
    case OP_PROTO: return check_protocol(p, at, err);
    case OP_FRAME: return take(p, 8, err) != NULL; /* for who reads from a pipe */
    case OP_NONE: return push(p, make(LW_PICKLE_NONE, 0), err);
    case OP_NEWTRUE: return push(p, make(LW_PICKLE_BOOL, 1), err);
    case OP_NEWFALSE: return push(p, make(LW_PICKLE_BOOL, 0), err);
    case OP_BININT: return push_number(p, 4, err);
    case OP_BININT1: return push_number(p, 1, err);
    case OP_BININT2: return push_number(p, 2, err);
    case OP_LONG1: return push_sized_long(p, 1, err);
    case OP_LONG4: return push_sized_long(p, 4, err);
    case OP_BINFLOAT: /* no figure of a snapshot is one: it is passed over */
        return take(p, 8, err) && push(p, make(LW_PICKLE_FLOAT, 0), err);
    case OP_SHORT_BINUNICODE:
    case OP_SHORT_BINBYTES:
    case OP_SHORT_BINSTRING: return push_text(p, 1, err);
    case OP_BINUNICODE:
    case OP_BINBYTES:
    case OP_BINSTRING: return push_text(p, 4, err);
    case OP_BINUNICODE8:
    case OP_BINBYTES8:
    case OP_BYTEARRAY8: return push_text(p, 8, err);
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
    case OP_EMPTY_SET: return push_container(p, LW_PICKLE_LIST, err);
    case OP_EMPTY_DICT: return push_container(p, LW_PICKLE_DICT, err);
    case OP_MARK: return push(p, make(LW_PICKLE_MARK, 0), err);
    case OP_TUPLE:
    case OP_LIST:
    case OP_FROZENSET: return collect_marked(p, LW_PICKLE_LIST, at, err);
    case OP_DICT: return collect_marked(p, LW_PICKLE_DICT, at, err);
    case OP_TUPLE1: return collect_last(p, 1, at, err);
    case OP_TUPLE2: return collect_last(p, 2, at, err);
    case OP_TUPLE3: return collect_last(p, 3, at, err);
    case OP_APPEND: return add_last(p, LW_PICKLE_LIST, 1, at, err);
    case OP_SETITEM: return add_last(p, LW_PICKLE_DICT, 2, at, err);
    case OP_APPENDS:
    case OP_ADDITEMS: return add_marked(p, LW_PICKLE_LIST, at, err);
    case OP_SETITEMS: return add_marked(p, LW_PICKLE_DICT, at, err);
    case OP_MEMOIZE: return put(p, p->memo_count, at, err);
    case OP_BINPUT: return put_numbered(p, 1, at, err);
    case OP_LONG_BINPUT: return put_numbered(p, 4, at, err);
    case OP_BINGET: return get_numbered(p, 1, at, err);
    case OP_LONG_BINGET: return get_numbered(p, 4, at, err);
    case OP_POP:
        if (p->stack_count == 0)
            return fail_at(at, "a value that is not there is taken", err);
        p->stack_count--;
        return true;
    case OP_POP_MARK: return pop_mark(p, at, err);
    case OP_DUP:
        return want(p, 1, at, err) && push(p, p->stack[p->stack_count - 1], err);
    default: return refuse(opcode, at, err);
    }
}

bool lw_pickle_read(struct lw_pickle *pickle, const void *bytes, size_t len,
                    struct lw_error *err)
{
    const unsigned char *opcode;

    memset(pickle, 0, sizeof(*pickle));
    pickle->bytes = bytes;
    pickle->len = len;
    for (;;) {
        size_t at = pickle->next;

        if (!(opcode = take(pickle, 1, err)))
            return false;
        if (*opcode == OP_STOP)
            break;
        if (!step(pickle, *opcode, at, err))
            return false;
    }
    if (!want(pickle, 1, pickle->next - 1, err))
        return false;
    pickle->root = pickle->stack[pickle->stack_count - 1];
    return true;
}
