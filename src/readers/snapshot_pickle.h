/* Python's pickle format (protocols 2 to 5) as data: None, numbers, texts, lists, tuples
 * and dicts. What would have to be imported or called to be read is refused, so that a
 * file can only ever be looked at.
 *
 *     bytes  } \x94 ( \x8c\x08segments \x94 ] ...      what the machine does with them:
 *     stack  [ dict, MARK, "segments", list ]            pushes and pops
 *     memo   [ dict, "segments" ]                        what may be referred to again
 *
 * A value is one number: its kind in the low bits, above them an integer, or where the
 * rest of it lies. So a reference, of which a snapshot has millions, takes 8 bytes. Nothing
 * recurses; lists may hold themselves, so whoever walks must know how deep. The bytes are
 * not trusted: every length is checked against what is left, every number against what is
 * there, and nothing grows beyond a small multiple of the input. */
#ifndef LW_READERS_SNAPSHOT_PICKLE_H
#define LW_READERS_SNAPSHOT_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef uint64_t lw_pickle_value;

enum lw_pickle_kind {
    LW_PICKLE_NONE, /* None; also what was looked for and is not there */
    LW_PICKLE_BOOL,
    LW_PICKLE_INT,
    LW_PICKLE_BIG, /* an int of more than 60 bits */
    LW_PICKLE_FLOAT,
    LW_PICKLE_TEXT, /* str (UTF-8, surrogates allowed) or bytes */
    LW_PICKLE_LIST, /* or a tuple, or a set */
    LW_PICKLE_DICT, /* keys and values, in turn */
    LW_PICKLE_MARK, /* never seen from outside */
};

struct lw_pickle_text {
    size_t offset, len; /* in the input */
};

/* What was added to a container at once. */
struct lw_pickle_chunk {
    size_t first; /* in `items` */
    uint32_t count;
    uint32_t next; /* index; UINT32_MAX: the last */
};

struct lw_pickle_container {
    uint32_t first, last; /* chunks; UINT32_MAX: it is empty */
    uint32_t count;       /* of items; keys and values are two */
};

struct lw_pickle {
    const unsigned char *bytes; /* borrowed */
    size_t len, next;
    lw_pickle_value root;
    lw_pickle_value *stack;
    size_t stack_count, stack_capacity;
    lw_pickle_value *memo;
    size_t memo_count, memo_capacity;
    lw_pickle_value *items;
    size_t item_count, item_capacity;
    struct lw_pickle_container *containers;
    size_t container_count, container_capacity;
    struct lw_pickle_chunk *chunks;
    size_t chunk_count, chunk_capacity;
    struct lw_pickle_text *texts;
    size_t text_count, text_capacity;
    int64_t *bigs; /* clamped, if more than 64 bits */
    size_t big_count, big_capacity;
};

/* Read the one value that BYTES are; they must stay. Release in any case. Fails with
 * LW_ERR_FORMAT ("at byte N: ..."), LW_ERR_UNSUPPORTED for what would have to be executed,
 * or LW_ERR_NOMEM. */
bool lw_pickle_read(struct lw_pickle *pickle, const void *bytes, size_t len,
                    struct lw_error *err) LW_MUST_CHECK;
void lw_pickle_release(struct lw_pickle *pickle);

static inline enum lw_pickle_kind lw_pickle_kind(lw_pickle_value value)
{
    return (enum lw_pickle_kind)(value & 15);
}
/* Of a LIST or DICT: its number among the containers; the same for every reference. */
static inline uint32_t lw_pickle_number(lw_pickle_value value)
{
    return (uint32_t)(value >> 4);
}

/* False: it is no such thing. */
bool lw_pickle_integer(const struct lw_pickle *pickle, lw_pickle_value value,
                       int64_t *integer);
/* Borrowed from the input, not terminated. */
bool lw_pickle_text(const struct lw_pickle *pickle, lw_pickle_value value,
                    const char **text, size_t *len);
/* How many items a LIST or DICT has; 0 of anything else. */
size_t lw_pickle_count(const struct lw_pickle *pickle, lw_pickle_value value);
/* The value of KEY in a dict; NONE: there is none. Dicts of more than LW_PICKLE_KEYS_MAX
 * keys are not searched. */
lw_pickle_value lw_pickle_find(const struct lw_pickle *pickle, lw_pickle_value dict,
                               const char *key);

#define LW_PICKLE_KEYS_MAX 64 /* a snapshot's dicts have up to a dozen */

/* Going through a LIST or DICT:
 *
 *     struct lw_pickle_walk walk = lw_pickle_walk(pickle, list);
 *     while (lw_pickle_next(pickle, &walk, &item)) ... */
struct lw_pickle_walk {
    uint32_t chunk, at;
};

struct lw_pickle_walk lw_pickle_walk(const struct lw_pickle *pickle,
                                     lw_pickle_value value);
bool lw_pickle_next(const struct lw_pickle *pickle, struct lw_pickle_walk *walk,
                    lw_pickle_value *item);

#endif
