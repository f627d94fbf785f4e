/* Is the torch that the program has imported one whose ops can be recorded? */
#ifndef PY_LAPWING_OPS_TEST_H
#define PY_LAPWING_OPS_TEST_H

#include "agent/ops_torch.h"
#include "compat.h"

/* Find the functions of TORCH, the module, and test them: by ours (agent/ops_torch.h), and
 * with a real op, which must come to us as itself. False, with no exception, and *REASON says
 * why. With the GIL. */
bool py_ops_test(struct lw_torch *found, PyObject *torch, const char **reason);

#endif
