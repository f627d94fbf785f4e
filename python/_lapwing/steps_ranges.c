/* Loaders and optimizers announce themselves: DataLoader's __next__, Optimizer.step and
 * zero_grad each open a record_function range whose name says which class it is,
 *
 *     with torch.autograd.profiler.record_function("Optimizer.step#SGD.step"):
 *
 * so a new object of that class is the beginning, and since nobody but the `with` holds it,
 * its death is the end, however the block is left. Both are slots of the type: its
 * __enter__ and __exit__ stay as TorchScript compiles them, and dynamo, which knows the
 * class, never makes one.
 *
 * The slot is the one of __init__, which classes that are derived have of their own. That of
 * __new__ would not do: object.__new__ refuses a class whose base has another there ("is not
 * safe"), and so do deepcopy, pickle and subclasses with a __new__. From 3.12 on the
 * interpreter may make objects of a plain class without that slot; one with an allocator of
 * its own (py_steps_hook_alloc) is not plain. */

#include "steps.h"

#include <string.h>

#include "ops.h"

static initproc torch_init;
static destructor torch_finalize; /* NULL: the class has no __del__ */

enum { DATA, OPTIMIZER, ZERO_GRAD };

static const struct {
    const char *prefix, *phase;
} announced[PY_MOST_RANGES] = {
    [DATA] = { "enumerate(DataLoader)#", "data" },
    [OPTIMIZER] = { "Optimizer.step#", "optimizer" },
    [ZERO_GRAD] = { "Optimizer.zero_grad#", "zero_grad" },
};

static bool is_data(uint32_t which)
{
    return which == DATA;
}

/* How each was announced last, which nearly always is how it will be the next time. */
static struct known_range {
    uint32_t number; /* of its phase */
    uint32_t len;    /* 0: none yet */
    char name[120];  /* "Optimizer.step#SGD.step" */
} known_ranges[PY_MOST_RANGES] __attribute__((aligned(64)));

/* REST is CLASS '.' METHOD -> the number of the phase of CLASS. */
static uint32_t range_number(uint32_t which, const char *rest)
{
    const char *dot = strrchr(rest, '.');
    size_t len = dot ? (size_t)(dot - rest) : strlen(rest);
    char text[256];

    if (len >= sizeof(text))
        len = sizeof(text) - 1;
    memcpy(text, rest, len);
    text[len] = '\0';
    return py_phase_number(announced[which].phase, text);
}

LW_SELDOM static uint32_t learn(const char *name, size_t len, uint32_t *number)
{
    for (uint32_t which = 0; which < PY_MOST_RANGES; which++) {
        struct known_range *known = &known_ranges[which];
        size_t prefix_len = strlen(announced[which].prefix);

        if (strncmp(name, announced[which].prefix, prefix_len) != 0)
            continue;
        *number = range_number(which, name + prefix_len);
        if (len <= sizeof(known->name)) {
            memcpy(known->name, name, len);
            known->len = (uint32_t)len;
            known->number = *number;
        }
        return which;
    }
    return PY_MOST_RANGES;
}

static inline uint64_t word_at(const char *text)
{
    uint64_t word;

    memcpy(&word, text, sizeof(word));
    return word;
}

/* Whether LEN bytes, 8 or more, are the same. What torch does between two phases leaves
 * nothing of libc in the caches, so this is short and here. */
static inline bool is_same(const char *a, const char *b, size_t len)
{
    size_t last = len - sizeof(uint64_t);

    for (size_t at = 0; at < last; at += sizeof(uint64_t))
        if (word_at(a + at) != word_at(b + at))
            return false;
    return word_at(a + last) == word_at(b + last);
}

/* Which of them NAME announces, PY_MOST_RANGES: none; *NUMBER becomes its phase's. */
static uint32_t recognize(const char *name, size_t len, uint32_t *number)
{
    for (uint32_t which = 0; which < PY_MOST_RANGES; which++) {
        const struct known_range *known = &known_ranges[which];

        if (known->len == len && len && is_same(name, known->name, len)) {
            *number = known->number;
            return which;
        }
    }
    return learn(name, len, number);
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

/* Whether WHICH is open while RANGE is made in another: an optimizer that has another do
 * its step, or its base class, is one. */
LW_SELDOM static bool is_open(struct py_steps_thread *thread, const PyObject *range,
                              uint32_t which)
{
    uint32_t stale = find_range(thread, range);

    if (stale) /* ended in another thread, and its memory is in use again */
        close_ranges(thread, stale - 1);
    for (uint32_t i = 0; i < thread->range_count; i++)
        if (thread->ranges[i].announced == which)
            return true;
    return false;
}

LW_HOT static void open_range(PyObject *range, const char *name, size_t len,
                              uint64_t now_ticks)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint32_t number = 0, which = recognize(name, len, &number);

    if (thread->range_count > 0 && is_open(thread, range, which))
        return;
    if (which == PY_MOST_RANGES) {
        py_ops_range_made();
        return;
    }
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
        .number = number,
        .announced = which,
    };
}

LW_HOT static int init_range(PyObject *range, PyObject *args, PyObject *keywords)
{
    uint64_t now_ticks = py_phase_begin();
    int result = torch_init(range, args, keywords);
    PyObject *name;
    const char *text;
    Py_ssize_t len;

    if (!now_ticks || result != 0 || PyTuple_Size(args) < 1)
        return result;
    name = PyTuple_GetItem(args, 0); /* borrowed */
    text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    if (text)
        open_range(range, text, (size_t)len, now_ticks);
    else
        PyErr_Clear();
    return result;
}

static PyObject *alloc_range(PyTypeObject *type, Py_ssize_t count)
{
    return PyType_GenericAlloc(type, count);
}

LW_HOT static void end_range(PyObject *range)
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
            if (ended.announced == OPTIMIZER) {
                py_steps_boundary(now_ticks);
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
    static const char path[] = "autograd.profiler.record_function";
    PyTypeObject *type = (PyTypeObject *)py_steps_find(torch, path);

    if (!type || !PyType_Check((PyObject *)type))
        return false;
    torch_init = (initproc)py_patch_get_slot(type, PY_SLOT_INIT);
    torch_finalize = (destructor)py_patch_get_slot(type, PY_SLOT_FINALIZE);
    if (!py_steps_hook_alloc(torch, path, alloc_range) ||
        !py_patch_slot(PY_PATCH_TORCH, type, PY_SLOT_FINALIZE, (void *)end_range) ||
        !py_patch_slot(PY_PATCH_TORCH, type, PY_SLOT_INIT, (void *)init_range))
        return false;
    py_ops_bounds_are_told();
    return true;
}
