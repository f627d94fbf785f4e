/* A pull reader for Python's marshal format (versions 0 to 5), as data.
 *
 * Understands all that Python can marshal, though what a saved profile never holds
 * (sets, complex numbers) only well enough to be passed over; what is in a code object
 * is for marshal_code.h. Nothing recurses and nothing is copied: text is borrowed from
 * the input, and a reference is followed by reading what it refers to once more.
 *
 *     dict:  '{' key value key value ... '0'
 *     tuple: ')' n item*n                     (n is one byte; '(' has four)
 *     ref:   'r' number                       what the number-th flagged value was
 *
 * A value whose type byte has bit 0x80 set gets the next reference number, containers
 * before what is in them. The caller may note what it made of a numbered value (a
 * string id, a function's index), so that the many references to it cost a look-up.
 *
 * The bytes are not trusted: every length is checked against what is left, a reference
 * to a container that is still open is refused, and what references unfold to is
 * bounded by a small multiple of the input. */
#ifndef LW_BASE_MARSHAL_IN_H
#define LW_BASE_MARSHAL_IN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum lw_marshal_kind {
    LW_MARSHAL_NULL, /* ends a dict */
    LW_MARSHAL_NONE,
    LW_MARSHAL_BOOL,
    LW_MARSHAL_INT,
    LW_MARSHAL_FLOAT,
    LW_MARSHAL_TEXT,  /* str (UTF-8, surrogates allowed) or bytes */
    LW_MARSHAL_TUPLE, /* `count` values follow, then lw_marshal_end() */
    LW_MARSHAL_LIST,  /* likewise */
    LW_MARSHAL_DICT,  /* key, value ... LW_MARSHAL_NULL, then lw_marshal_end() */
    LW_MARSHAL_SET,   /* or frozenset, or slice: `count` values, lw_marshal_end() */
    LW_MARSHAL_CODE,  /* lw_marshal_read_code() comes next */
    LW_MARSHAL_OTHER, /* a complex number, Ellipsis, StopIteration */
};

struct lw_marshal_value {
    enum lw_marshal_kind kind;
    uint32_t reference; /* its number + 1, if something may refer to it; 0: nothing */
    uint32_t count;     /* TUPLE, LIST, SET */
    bool again;         /* a container met through a reference */
    int64_t integer;    /* INT, BOOL; an int that does not fit is clamped */
    double number;      /* INT, BOOL, FLOAT; the nearest, or an infinity */
    const char *text;   /* TEXT: borrowed from the input */
    size_t len;
    size_t offset;  /* of its type byte in the input, for messages */
    size_t content; /* `again`: where its content starts */
    size_t resume;  /* `again`: where reading goes on after it */
};

/* What a reference number stands for. Of containers enough is kept here to meet one
 * again without looking at its bytes: most references are to keys that the caller knows
 * by its note. */
struct lw_marshal_ref {
    size_t offset;      /* of the type byte */
    size_t end;         /* behind it, once it is whole; 0: an open container */
    uint32_t made;      /* the caller's note; 0: none */
    uint32_t count;     /* TUPLE, LIST, SET */
    uint8_t kind;       /* enum lw_marshal_kind */
    uint8_t head_bytes; /* a container's type and count: its content is behind them */
};

struct lw_marshal_in {
    const unsigned char *bytes; /* borrowed */
    size_t len;
    size_t next;
    struct lw_marshal_ref *refs; /* owned */
    size_t ref_count;
    size_t ref_capacity;
    size_t *interned; /* owned: offsets of Python 2's interned strings */
    size_t interned_count;
    size_t interned_capacity;
    size_t unfold_bytes; /* how many more bytes may be read through references */
    uint32_t replays;    /* containers being read again: their values have numbers */
};

void lw_marshal_init(struct lw_marshal_in *in, const void *bytes, size_t len);
void lw_marshal_release(struct lw_marshal_in *in);

/* The next value. A reference yields the value it refers to; if that is a container,
 * its content comes next, again, unless the caller ends it at once. Fails with
 * LW_ERR_FORMAT ("at byte N: ..."), LW_ERR_LIMIT or LW_ERR_NOMEM. */
bool lw_marshal_next(struct lw_marshal_in *in, struct lw_marshal_value *value,
                     struct lw_error *err) LW_MUST_CHECK;

/* Leave a container: after its last item (a dict's LW_MARSHAL_NULL), or, if it came
 * `again`, at any point between two values. */
void lw_marshal_end(struct lw_marshal_in *in, const struct lw_marshal_value *container);

/* What the caller noted of a value with a reference; 0: nothing. */
static inline uint32_t lw_marshal_made(const struct lw_marshal_in *in,
                                       const struct lw_marshal_value *value)
{
    return value->reference ? in->refs[value->reference - 1].made : 0;
}

static inline void lw_marshal_note(struct lw_marshal_in *in,
                                   const struct lw_marshal_value *value, uint32_t made)
{
    if (value->reference)
        in->refs[value->reference - 1].made = made;
}

/* Take COUNT raw bytes, borrowed from the input, for what is not a value; NULL: there
 * are not so many left. */
const unsigned char *lw_marshal_take(struct lw_marshal_in *in, size_t count,
                                     struct lw_error *err);

/* A name of the kind for a sentence: "a tuple". */
const char *lw_marshal_kind_name(enum lw_marshal_kind kind);

#endif
