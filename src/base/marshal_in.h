/* A pull reader for Python's marshal format (versions 0 to 5), as data.
 *
 * Understands what a saved profile may hold: None, booleans, ints of any size,
 * floats (text and binary), strings and bytes of every kind, tuples, lists, dicts
 * and references. Code objects, sets, complex numbers are refused. Nothing recurses;
 * depth, lengths and reference numbers are checked. Strings are borrowed from the
 * input, except those behind references to which the reader itself keeps a table. */
#ifndef LW_BASE_MARSHAL_IN_H
#define LW_BASE_MARSHAL_IN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum lw_marshal_kind {
    LW_MARSHAL_NULL,  /* ends a dict */
    LW_MARSHAL_NONE,
    LW_MARSHAL_BOOL,
    LW_MARSHAL_INT,
    LW_MARSHAL_FLOAT,
    LW_MARSHAL_TEXT,  /* str or bytes */
    LW_MARSHAL_TUPLE, /* COUNT values follow */
    LW_MARSHAL_LIST,  /* COUNT values follow */
    LW_MARSHAL_DICT,  /* key, value, key, value ... LW_MARSHAL_NULL follow */
};

struct lw_marshal_value {
    enum lw_marshal_kind kind;
    int64_t integer;   /* INT, BOOL; a larger int saturates and sets `number` */
    double number;     /* FLOAT and INT */
    const char *text;  /* TEXT: borrowed until the reader is released */
    size_t len;
    uint32_t count;    /* TUPLE, LIST */
    uint32_t reference; /* REF'd containers: which; see lw_marshal_next */
    size_t offset;     /* of its type byte in the input, for messages */
};

struct lw_marshal_ref {
    struct lw_marshal_value value;
    size_t resume; /* containers: where their content starts in the input */
};

struct lw_marshal_in {
    const unsigned char *start;
    const unsigned char *next;
    const unsigned char *end;
    struct lw_marshal_ref *refs; /* owned */
    size_t ref_count;
    size_t ref_capacity;
};

void lw_marshal_init(struct lw_marshal_in *in, const void *bytes, size_t len);
void lw_marshal_release(struct lw_marshal_in *in);

/* The next value. A reference to a string or number yields that value again; a
 * reference to a tuple of such values (marshal writes equal interned tuples once)
 * is for the caller to resolve: see lw_marshal_enter. */
bool lw_marshal_next(struct lw_marshal_in *in, struct lw_marshal_value *value,
                     struct lw_error *err) LW_MUST_CHECK;

#endif
