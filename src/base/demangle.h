/* Names of C++ as people write them. */
#ifndef LW_BASE_DEMANGLE_H
#define LW_BASE_DEMANGLE_H

#include <stddef.h>

#include "base/buf.h"

/* Append what the mangled NAME means, by the machine's C++ library, which is loaded when
 * it is first needed. Where there is none, or NAME is no name of C++, NAME itself. */
void lw_demangle(struct lw_buf *out, const char *name);

#endif
