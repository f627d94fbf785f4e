/* torch's ops, each as a span on its thread's track.
 *
 * torch calls us when an op begins and ends (agent/ops_torch.h), in any thread, mostly
 * without the GIL: a look at the clock and a name's number at its start, one record at its
 * end. What the program announces by record_function() is recorded all the time, ops all the
 * time or in whole steps that are chosen so that they cost a set share of the run
 * (agent/ops_budget.h). When they were on is told by a counter, PY_OPS_COUNTER: 1 from
 * here on, 0 from here on. */
#ifndef PY_LAPWING_OPS_H
#define PY_LAPWING_OPS_H

#include "session.h"

#define PY_OPS_COUNTER "ops recorded"

/* torch is there: record its ops if that was asked for. TORCH is the module. False: it was,
 * and cannot be; why is told to the recorder as a note. Never raises. With the GIL. */
bool py_ops_start(PyObject *torch);

/* The session ends. With the GIL. */
void py_ops_stop(void);

/* What bounds the steps of a training, the best first: one that was seen of late makes
 * those below it count for nothing. */
enum py_ops_bound {
    PY_OPS_STEP,      /* lapwing.step() */
    PY_OPS_DATA,      /* a loader is asked for a batch */
    PY_OPS_OPTIMIZER, /* an optimizer's step has ended */
    PY_OPS_BOUNDS,
};

/* A step ends here and the next begins. In any thread, with or without the GIL. */
void py_ops_step_bound(enum py_ops_bound bound);

/* From now on loaders and optimizers are told by py_ops_step_bound(), and that the program
 * makes a range of its own by py_ops_range_made(). Before that torch has to call us for
 * every range, which is dear. */
void py_ops_bounds_are_told(void);
void py_ops_range_made(void);

#endif
