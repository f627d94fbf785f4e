/* The name of a code object in Python's marshal format.
 *
 * `python -m profile` runs a code object and names its outermost function after it, so
 * its files hold the whole code of the program as that function's name. What can be
 * said of it is what its repr would say. */
#ifndef LW_BASE_MARSHAL_CODE_H
#define LW_BASE_MARSHAL_CODE_H

#include "base/marshal_in.h"

struct lw_marshal_code {
    const char *name; /* borrowed from the input; NULL: none */
    size_t name_len;
    const char *file; /* likewise */
    size_t file_len;
    uint32_t first_line;
};

/* Read what is in VALUE, a LW_MARSHAL_CODE just met, and end it. The layout of Python
 * 2.7 and of every Python 3 is known. */
bool lw_marshal_read_code(struct lw_marshal_in *in,
                          const struct lw_marshal_value *value,
                          struct lw_marshal_code *code, struct lw_error *err)
    LW_MUST_CHECK;

#endif
