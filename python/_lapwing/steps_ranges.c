/* Loaders and optimizers announce themselves: DataLoader's __next__, Optimizer.step and
 * zero_grad each open a record_function range whose name says which class it is,
 *
 *     with torch.autograd.profiler.record_function("Optimizer.step#SGD.step"):
 *
 * so a new object of that class is the beginning, and since nobody but the `with` holds it,
 * its death is the end, however the block is left. Both are slots of the type: its
 * __enter__ and __exit__ stay as TorchScript compiles them, and dynamo, which knows the
 * class, never makes one. */

#include "steps.h"

#include <string.h>

#include "ops.h"

static newfunc torch_new;
static destructor torch_finalize; /* NULL: the class has no __del__ */

static const struct {
    const char *prefix;
    const char *phase;
} announced[PY_MOST_RANGES] = {
    { "enumerate(DataLoader)#", "data" },
    { "Optimizer.step#", "optimizer" },
    { "Optimizer.zero_grad#", "zero_grad" },
};

enum { DATA, OPTIMIZER }; /* of those; zero_grad is the third */

static bool is_data(uint32_t which)
{
    return which == DATA;
}

/* PREFIX CLASS '.' METHOD -> the number of the phase of CLASS. Nearly always it is that of
 * the last one. */
static uint32_t range_number(uint32_t which, const char *rest)
{
    static struct {
        char rest[64];
        uint32_t number; /* 0: none yet */
    } last[PY_MOST_RANGES];
    const char *dot;
    char class_name[256];
    uint32_t number;
    size_t len;

    if (last[which].number && strcmp(last[which].rest, rest) == 0)
        return last[which].number;
    dot = strrchr(rest, '.');
    len = dot ? (size_t)(dot - rest) : strlen(rest);
    if (len >= sizeof(class_name))
        len = sizeof(class_name) - 1;
    memcpy(class_name, rest, len);
    class_name[len] = '\0';
    number = py_phase_number(announced[which].phase, class_name);
    if (strlen(rest) < sizeof(last[which].rest)) {
        memcpy(last[which].rest, rest, strlen(rest) + 1);
        last[which].number = number;
    }
    return number;
}

/* Forget the open ranges from INDEX on. */
static void close_ranges(struct py_steps_thread *thread, uint32_t index)
{
    while (thread->range_count > index)
        thread->inside -= is_data(thread->ranges[--thread->range_count].announced);
}

static uint32_t find_range(const struct py_steps_thread *thread, const PyObject *range)
{
    uint32_t at = thread->range_count;

    while (at > 0 && thread->ranges[at - 1].range != range)
        at--;
    return at; /* its index + 1; 0: it is not open */
}

static bool is_open(const struct py_steps_thread *thread, uint32_t which)
{
    for (uint32_t i = 0; i < thread->range_count; i++)
        if (thread->ranges[i].announced == which)
            return true;
    return false;
}

static void open_range(PyObject *range, const char *name, uint64_t now_ticks)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint32_t stale = find_range(thread, range);
    uint32_t which = 0;
    size_t len = 0;

    if (stale) /* ended in another thread, and its memory is in use again */
        close_ranges(thread, stale - 1);
    for (; which < PY_MOST_RANGES; which++) {
        len = strlen(announced[which].prefix);
        if (strncmp(name, announced[which].prefix, len) == 0)
            break;
    }
    if (which == PY_MOST_RANGES) {
        py_ops_range_made();
        return;
    }
    /* An optimizer that has another do its step, or its base class, is one. */
    if (is_open(thread, which))
        return;
    if (is_data(which) && thread->inside == 0) {
        py_ops_step_bound(PY_OPS_DATA);
        py_steps_boundary(now_ticks);
        if (py_steps_bound(PY_BOUND_DATA))
            now_ticks = lw_ticks_now(py_tracer.use_tsc);
    } else if (which == OPTIMIZER) {
        py_steps_begin_update();
    }
    thread->inside += is_data(which);
    thread->ranges[thread->range_count++] = (struct py_open_range){
        .range = range,
        .start_ticks = now_ticks,
        .number = range_number(which, name + len),
        .announced = which,
    };
}

static PyObject *new_range(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    uint64_t now_ticks = py_phase_begin();
    PyObject *range = py_patch_new(torch_new, type, args, keywords);
    PyObject *name;
    const char *text;

    if (!now_ticks || !range || PyTuple_Size(args) == 0)
        return range;
    name = PyTuple_GetItem(args, 0); /* borrowed */
    text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text)
        open_range(range, text, now_ticks);
    else
        PyErr_Clear();
    return range;
}

static void end_range(PyObject *range)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint32_t found = find_range(thread, range);

    if (found) {
        struct py_open_range ended = thread->ranges[found - 1];
        uint64_t now_ticks = lw_ticks_now(py_tracer.use_tsc);

        close_ranges(thread, found - 1);
        /* What is inside a batch's making is its own. */
        if (thread->inside == 0) {
            py_steps_write(ended.number, ended.start_ticks, now_ticks);
            if (!is_data(ended.announced))
                py_steps_boundary(now_ticks);
            if (ended.announced == OPTIMIZER) {
                py_ops_step_bound(PY_OPS_OPTIMIZER);
                py_steps_bound(PY_BOUND_OPTIMIZER);
            }
        }
    }
    if (torch_finalize)
        torch_finalize(range);
}

bool py_steps_hook_ranges(PyObject *torch)
{
    PyTypeObject *type =
        (PyTypeObject *)py_steps_find(torch, "autograd.profiler.record_function");

    if (!type || !PyType_Check((PyObject *)type))
        return false;
    torch_new = (newfunc)py_patch_get_slot(type, PY_SLOT_NEW);
    torch_finalize = (destructor)py_patch_get_slot(type, PY_SLOT_FINALIZE);
    if (!py_patch_set_slot(type, PY_SLOT_FINALIZE, (void *)end_range) ||
        !py_patch_set_slot(type, PY_SLOT_NEW, (void *)new_range))
        return false;
    py_ops_bounds_are_told();
    return true;
}
