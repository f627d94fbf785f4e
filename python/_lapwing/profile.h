/* _lapwing.Calls: calls of this process, kept in its own memory; what
 * lapwing.Profile is made of. */
#ifndef PY_LAPWING_PROFILE_H
#define PY_LAPWING_PROFILE_H

#include "compat.h"

PyObject *py_calls_type_new(void); /* the type; NULL with an exception set */

#endif
