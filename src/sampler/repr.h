/* A short text for an object of another process, as its repr() might begin: for people
 * who look at the variables of a program that hangs. No code of the program is run for
 * it: what is not one of Python's own kinds is `<Tensor object>`. */
#ifndef LW_SAMPLER_REPR_H
#define LW_SAMPLER_REPR_H

#include "sampler/objects.h"

/* Append the object at ADDRESS: `[1, 2, … 998 more]`. It is about LIMIT bytes long at most
 * (an item that was begun is ended, and it is said how many follow), printable, and two
 * levels deep. An object that cannot be read is `<unreadable>`. */
void lw_repr_add(const struct lw_objects *objects, uint64_t address, size_t limit,
                 struct lw_buf *out);

#endif
