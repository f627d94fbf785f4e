/* Python's marshal format, version 4, appended to a buffer.
 *
 * The mirror of base/marshal_in.h: what is added here any Python since 3.4 loads.
 * Values are added in order; a tuple is its head and then COUNT values, a dict its
 * head, then keys and values, then lw_marshal_add_null. Failure is the buffer's,
 * checked once at the end.
 *
 * A value added as shared gets a reference number, and lw_marshal_add_ref says "that
 * one again" in five bytes; the loaded objects are then one and the same. */
#ifndef LW_BASE_MARSHAL_OUT_H
#define LW_BASE_MARSHAL_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct lw_marshal_out {
    struct lw_buf *out; /* borrowed */
    uint32_t ref_count; /* numbers given so far */
};

void lw_marshal_start(struct lw_marshal_out *marshal, struct lw_buf *out);

void lw_marshal_add_null(struct lw_marshal_out *marshal); /* ends a dict */
void lw_marshal_add_dict(struct lw_marshal_out *marshal);
void lw_marshal_add_int(struct lw_marshal_out *marshal, int64_t value);
void lw_marshal_add_float(struct lw_marshal_out *marshal, double value);
void lw_marshal_add_ref(struct lw_marshal_out *marshal, uint32_t number);

/* A tuple of at most 255 values. Returns its number for lw_marshal_add_ref. */
uint32_t lw_marshal_share_tuple(struct lw_marshal_out *marshal, uint8_t count);
void lw_marshal_add_tuple(struct lw_marshal_out *marshal, uint8_t count);

/* A str; LEN is at most INT32_MAX / 3. Bytes that are no UTF-8 become the lone
 * surrogates that Python's os.fsdecode() makes of them, so any bytes load. Returns its
 * number. */
uint32_t lw_marshal_share_text(struct lw_marshal_out *marshal, const char *text,
                               size_t len);

#endif
