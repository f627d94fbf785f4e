/* What a training does, step by step, from a script that knows nothing of us: batches
 * taken, modules called, gradients worked out, parameters changed, each as a phase on the
 * track of its thread (phases.h). What a step is, and whose the time in between is, the
 * analysis works out.
 *
 *     what is called                    phase            seen by
 *     a loader's __next__               data             torch's own record_function ranges
 *     Optimizer.step, .zero_grad        optimizer, ...   (steps_ranges.c)
 *     the outermost module              forward, loss,   the slot that calls a module
 *                                       eval             (steps_modules.c)
 *     the autograd engine               backward         the engine's method, and what is
 *                                                        asked before it (steps_engine.c)
 *     Tensor.to, .cuda                  transfer         the tensor's (the same)
 *     a fetcher's fetch and collate_fn  fetch, collate   the slot that gives its attributes
 *                                                        (steps_batches.c, steps_called.c)
 *     iter() of a loader                (loader_pass)    the slot that makes its iterator, or
 *                                                        that gives its `_reset` (the same)
 *     GradScaler.unscale_, step, update scaler           the slot that gives its attributes
 *                                                        (steps_scaler.c)
 *
 * Who acts between two steps while the program runs asks steps_bounds.c.
 *
 * All of them leave what Python sees as it was; see patch.h. When the recording ends, they
 * are taken out again.
 *
 * Everything here runs under the GIL, in the thread that does it. Nothing of ours raises,
 * and the program's exceptions pass through (error.h). */
#ifndef PY_LAPWING_STEPS_H
#define PY_LAPWING_STEPS_H

#include "patch.h"
#include "phases.h"

/* What torch announces by ranges (steps_ranges.c); each is open once at most. */
#define PY_MOST_RANGES 3

struct py_open_range {
    PyObject *range; /* whose end ends it; borrowed, never followed */
    uint64_t start_ticks;
    uint32_t number;
    uint32_t announced; /* which of them it is */
};

/* What a thread is in right now. It is as true in a forked child, which returns from the
 * same calls. It is small: libraries that the program loads later need their share of the
 * memory that there is for such. */
struct py_steps_thread {
    bool is_in_module; /* in a call of one, which may call others */
    uint32_t inside;   /* phases that keep to themselves what they call: data, fetch,
                            * backward (a checkpoint calls modules again) */
    struct lw_calls_thread *place; /* py_session_place(), */
    uint32_t place_epoch;          /* while py_tracer.only_epoch is the same */
    uint32_t range_count;
    uint64_t
        asked_ticks; /* when a backward began on its way to the engine; 0: none has,
                           * or another phase has ended since */
    struct py_open_range ranges[PY_MOST_RANGES];
    uint64_t
        fetch_ticks; /* start of the fetch that is running; 0: none, or collating */
    uint32_t fetch_number;
    uint32_t scaler_depth; /* calls of a scaler, whose step calls its unscale_ */
};

extern __thread struct py_steps_thread py_steps_thread
    __attribute__((tls_model("initial-exec"), aligned(64)));

/* ---- for module.c ---------------------------------------------------------------- */

/* TORCH, the module, has been imported: see what it does from now on. Of what cannot be
 * seen in this torch the report gets a sentence. */
void py_steps_hook(PyObject *torch);
/* No more: torch is as it was. */
void py_steps_unhook(void);

/* Have CALLBACK(is_first, is_call) called where a step of the program ends and the next
 * begins: is_first, if none ends there; is_call, if it is a guess, as a model was called and
 * nothing else is known. None: nobody asks any more. */
void py_steps_on_step(PyObject *callback);
/* Have CALLBACK() called, between two steps, when there is an order for this process
 * (agent/layout.h). */
void py_steps_on_order(PyObject *callback);

/* ---- for session.c ----------------------------------------------------------------- */

/* After a fork, in the child. */
void py_steps_after_fork(void);

/* ---- for marks.c too ---------------------------------------------------------------- */

enum py_step_bound {
    PY_BOUND_STEP,      /* lapwing.step() */
    PY_BOUND_DATA,      /* a loader is asked for a batch */
    PY_BOUND_OPTIMIZER, /* an optimizer has made a step */
    PY_BOUND_CALL,      /* a model is called */
};

/* A step may end here and the next begin. True: somebody acted, which took time. */
bool py_steps_bound(enum py_step_bound what);
/* The same for lapwing.h, with or without the GIL: who asks hears of it at the next bound. */
void py_steps_bound_in_c(void);

/* ---- among the files of steps ----------------------------------------------------- */

/* steps_wrap.c: an object whose calls go to CALL, which calls FUNCTION. */
struct py_wrapper;
typedef PyObject *py_wrapped_call(struct py_wrapper *wrapper, PyObject *args,
                                  PyObject *keywords);

struct py_wrapper {
    PyObject_HEAD PyObject *function; /* owned */
    PyObject
        *object; /* whose method it is, which has it; borrowed from that, or NULL */
    py_wrapped_call *call;
};

/* NULL with an exception set. */
PyObject *py_steps_wrap(PyObject *function, PyObject *object, py_wrapped_call *call);

/* METHOD, which OBJECT has been asked for, behind a wrapper, if whoever asked calls it at
 * once and never looks at it. Takes the reference to METHOD, which may be NULL, and gives
 * one; an exception that is set stays. */
PyObject *py_steps_wrap_called(PyObject *method, PyObject *object,
                               py_wrapped_call *call);
/* Whether that can be told in this Python. */
bool py_steps_calls_are_known(void);

/* The attribute PATH ("autograd.profiler") of OBJECT, or NULL with no exception set. */
PyObject *py_steps_find(PyObject *object, const char *path);

/* Put OURS in a slot of the class PATH of TORCH, in which WAS must be. */
bool py_steps_hook_slot(PyObject *torch, const char *path, enum py_type_slot slot,
                        void *was, void *ours);

/* Have objects of the class PATH of TORCH allocated by OURS: PyType_GenericAlloc() does it
 * now, and nothing in Python can see which function does. */
bool py_steps_hook_alloc(PyObject *torch, const char *path, allocfunc ours);

/* The number of PHASE, a constant, of a class. */
uint32_t py_steps_number(const char *phase, PyTypeObject *type);

/* Names of attributes, made once. */
struct py_steps_names {
    PyObject *parameters, *modules, *training, *original, *requires_grad;
    PyObject *accumulate_grad, *device, *type, *collate_fn, *dataset, *subclasses;
};
extern struct py_steps_names py_steps_names;

/* Put a phase on the thread's track. */
void py_steps_write(uint32_t number, uint64_t start_ticks, uint64_t end_ticks);

/* A batch is asked for, or parameters have been changed: a time to look at classes. */
void py_steps_boundary(uint64_t now_ticks);

/* An optimizer begins a step, which PY_BOUND_OPTIMIZER ends. */
void py_steps_begin_update(void);
/* Gradients have been worked out. */
void py_steps_trained(void);

/* Each says whether it could; TORCH lives for ever after. */
bool py_steps_hook_ranges(PyObject *torch);
bool py_steps_hook_modules(PyObject *torch);
bool py_steps_hook_backward(PyObject *torch);
bool py_steps_hook_transfer(PyObject *torch);
bool py_steps_hook_batches(PyObject *torch);
bool py_steps_hook_passes(PyObject *torch);
bool py_steps_hook_scaler(PyObject *torch);

/* Classes of modules that were made, or were given a __call__ of their own, since the
 * last time are seen from now on. */
void py_steps_see_classes(void);

/* Classes are as they were. */
void py_steps_leave_classes(void);

/* nn.Module was given another __call__ since, so no class is seen. */
bool py_steps_classes_changed(void);

/* Whether TENSOR's attributes can be read with no Python code in between: it is a plain
 * tensor, and no __torch_function__ of anybody's hears of it. */
bool py_steps_may_ask(PyObject *tensor);

/* How many threads are in the autograd engine. */
extern unsigned py_steps_backwards;

#endif
