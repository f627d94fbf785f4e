/* A GradScaler of torch.amp: what it does around an optimizer's step is the optimizer's, too.
 *
 * Its methods are plain Python that dynamo may look at, so its class stays as it is. But
 * whoever calls one asks the object for it first, through a slot of its type, and gets it
 * behind a wrapper if it calls it at once (steps_called.c). Classes made of it have the
 * same slot. */

#include "steps.h"

static PyObject *methods[3];   /* names; "step", "unscale_", "update" */
static getattrofunc torch_get; /* what the type had */

static PyObject *call_scaler(struct py_wrapper *wrapper, PyObject *args,
                             PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    bool is_told = thread->scaler_depth == 0 && thread->inside == 0;
    uint64_t start_ticks = is_told ? py_phase_begin() : 0;
    PyObject *result;

    thread->scaler_depth++;
    result = PyObject_Call(wrapper->function, args, keywords);
    thread->scaler_depth--;
    if (start_ticks)
        py_steps_write(py_phase_number("scaler", "GradScaler"), start_ticks,
                       lw_ticks_now(py_tracer.use_tsc));
    return result;
}

static PyObject *get_attribute(PyObject *scaler, PyObject *name)
{
    PyObject *value = torch_get(scaler, name);

    if (name != methods[0] && name != methods[1] && name != methods[2])
        return value;
    return py_steps_wrap_called(value, scaler, call_scaler);
}

static bool hook_class(PyObject *torch, const char *path)
{
    return py_steps_hook_slot(torch, path, PY_SLOT_GET, (void *)torch_get,
                              (void *)get_attribute);
}

bool py_steps_hook_scaler(PyObject *torch)
{
    static const char *const names[] = { "step", "unscale_", "update" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!(methods[i] = PyUnicode_InternFromString(names[i]))) {
            PyErr_Clear();
            return false;
        }
    torch_get = (getattrofunc)PyType_GetSlot(&PyBaseObject_Type, Py_tp_getattro);
    /* Those of a device were made of the first before we came; a program need not have
     * them. */
    (void)hook_class(torch, "cuda.amp.GradScaler");
    (void)hook_class(torch, "cpu.amp.GradScaler");
    return hook_class(torch, "amp.GradScaler");
}
