/* Backward, and copies to a device: methods in C, entered through their own definitions. */

#include "steps.h"

static py_keywords_function torch_run_backward, torch_to, torch_cuda;

unsigned py_steps_backwards;

/* ---- backward -------------------------------------------------------------------- */

/* Tensor.backward() and torch.autograd.backward() accumulate into .grad; what does not is
 * torch.autograd.grad(). */
static bool is_grad(PyObject *keywords)
{
    return keywords && PyDict_GetItemWithError(
                           keywords, py_steps_names.accumulate_grad) == Py_False;
}

static uint32_t backward_number(bool of_grad)
{
    static uint32_t numbers[2]; /* the program's backward(), its grad() */

    if (numbers[of_grad] == 0)
        numbers[of_grad] = py_phase_number("backward", of_grad ? "grad" : "");
    return numbers[of_grad];
}

/* Between Tensor.backward() and the engine lie 10 us and more of Python, in which the
 * first gradient is made. torch.autograd.backward() begins by asking whether functorch's
 * transforms are active: that is when. */
static py_keywords_function torch_asks;
static py_fast_function torch_asks_fast;

LW_HOT static PyObject *ask(PyObject *self, PyObject *args, PyObject *keywords)
{
    py_steps_thread.asked_ticks = py_phase_begin();
    return torch_asks(self, args, keywords);
}

LW_HOT static PyObject *ask_fast(PyObject *self, PyObject *const *args,
                                 Py_ssize_t count, PyObject *names)
{
    py_steps_thread.asked_ticks = py_phase_begin();
    return torch_asks_fast(self, args, count, names);
}

LW_HOT static PyObject *run_backward(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    bool is_told = thread->inside == 0;
    bool of_grad = is_told && is_grad(keywords);
    uint64_t start_ticks = is_told ? py_phase_begin() : 0;
    PyObject *result;

    if (start_ticks && thread->asked_ticks && !of_grad)
        start_ticks = thread->asked_ticks;
    thread->asked_ticks = 0;
    thread->inside++;
    py_steps_backwards++;
    result = torch_run_backward(self, args, keywords);
    py_steps_backwards--;
    thread->inside--;
    if (start_ticks) {
        py_steps_write(backward_number(of_grad), start_ticks,
                       lw_ticks_now(py_tracer.use_tsc));
        py_steps_trained();
    }
    return result;
}

bool py_steps_hook_backward(PyObject *torch)
{
    PyObject *engine = py_steps_find(torch, "autograd.Variable._execution_engine");
    bool done =
        engine && py_patch_method(PY_PATCH_TORCH, (PyObject *)Py_TYPE(engine),
                                  "run_backward", run_backward, &torch_run_backward);
    PyObject *asked = py_steps_find(torch, "_C._are_functorch_transforms_active");

    if (asked && !py_patch_builtin(PY_PATCH_TORCH, asked, ask, &torch_asks, ask_fast,
                                   &torch_asks_fast)) {
        /* Then a backward begins where the engine does. */
    }
    Py_XDECREF(asked);
    Py_XDECREF(engine);
    return done;
}

/* ---- transfer -------------------------------------------------------------------- */

/* COPY is TENSOR on a device, where it was not before. */
static bool is_transfer(PyObject *tensor, PyObject *copy)
{
    PyObject *from = PyObject_GetAttr(tensor, py_steps_names.device);
    PyObject *to = PyObject_GetAttr(copy, py_steps_names.device);
    PyObject *kind = to ? PyObject_GetAttr(to, py_steps_names.type) : NULL;
    bool is_moved = from && kind && PyObject_RichCompareBool(from, to, Py_NE) == 1 &&
                    PyUnicode_Check(kind) &&
                    PyUnicode_CompareWithASCIIString(kind, "cpu") != 0;

    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(kind);
    PyErr_Clear();
    return is_moved;
}

LW_HOT static PyObject *move(py_keywords_function original, PyObject *self,
                             PyObject *args, PyObject *keywords)
{
    const struct py_steps_thread *thread = &py_steps_thread;
    bool is_told = !thread->is_in_module && thread->inside == 0;
    uint64_t start_ticks = is_told ? py_phase_begin() : 0;
    PyObject *result = original(self, args, keywords);
    uint64_t end_ticks = start_ticks ? lw_ticks_now(py_tracer.use_tsc) : 0;

    if (start_ticks && result && result != self && py_steps_may_ask(self) &&
        py_steps_may_ask(result) && is_transfer(self, result))
        py_steps_write(py_phase_number("transfer", ""), start_ticks, end_ticks);
    return result;
}

LW_HOT static PyObject *move_to(PyObject *self, PyObject *args, PyObject *keywords)
{
    return move(torch_to, self, args, keywords);
}

static PyObject *move_to_cuda(PyObject *self, PyObject *args, PyObject *keywords)
{
    return move(torch_cuda, self, args, keywords);
}

bool py_steps_hook_transfer(PyObject *torch)
{
    PyObject *type = py_steps_find(torch, "_C.TensorBase");
    bool done =
        type && py_patch_method(PY_PATCH_TORCH, type, "to", move_to, &torch_to) &&
        py_patch_method(PY_PATCH_TORCH, type, "cuda", move_to_cuda, &torch_cuda);

    Py_XDECREF(type);
    return done;
}
