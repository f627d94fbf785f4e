/* Following greenlets; see greenlets.h. */

#include "greenlets.h"

#include <stdlib.h>
#include <string.h>

#include "patch.h"
#include "tracer.h"

#define MODULE "greenlet._greenlet"

enum { API_TYPE = 0, API_THROW = 5, API_SWITCH = 6 }; /* greenlet.h, of 1.0 to 3.5 */

static PyObject *(*original_switch)(PyObject *self, PyObject *args, PyObject *keywords);
static PyObject *(*original_throw)(PyObject *self, PyObject *args);
static PyObject *(*api_switch)(PyObject *self, PyObject *args, PyObject *keywords);
static PyObject *(*api_throw)(PyObject *self, PyObject *type, PyObject *value,
                              PyObject *traceback);
static destructor original_dealloc;
static union py_method exec_dynamic;
static bool is_hooked;

/* ---- a switch -------------------------------------------------------------------- */

struct part { /* where the tree of one lane stands */
    unsigned lane;
    uint32_t epoch;
    struct lw_calls_thread *calls; /* good while the lane has that epoch */
    struct lw_calls_branch branch;
};

struct pause {
    unsigned count;
    unsigned capacity;
    struct part first;
    struct part *others; /* owned */
};

static struct part *get_part(struct pause *pause, unsigned index)
{
    return index == 0 ? &pause->first : &pause->others[index - 1];
}

/* NULL: no memory. */
static struct part *add_part(struct pause *pause)
{
    if (pause->count > pause->capacity) {
        unsigned capacity = pause->capacity ? pause->capacity * 2 : 8;
        struct part *larger = realloc(pause->others, capacity * sizeof(*pause->others));

        if (!larger)
            return NULL;
        pause->others = larger;
        pause->capacity = capacity;
    }
    return get_part(pause, pause->count++);
}

static LW_SELDOM void begin(struct pause *pause)
{
    const unsigned any = PY_RECORDS_CALLS | PY_RECORDS_C_CALLS;
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    memset(pause, 0, sizeof(*pause));
    if (py_thread.in_timer)
        return;
    for (unsigned lane = py_tracer_find_lane(0, any); lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, any)) {
        uint64_t at = now;
        struct lw_calls_thread *calls = py_tracer_place_at(lane, &at);
        struct part *part = calls ? add_part(pause) : NULL;

        if (!part)
            continue;
        part->lane = lane;
        part->epoch = py_tracer.lanes[lane].epoch;
        part->calls = calls;
        lw_calls_suspend(calls, at, &part->branch);
    }
}

static LW_SELDOM void end(struct pause *pause)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    for (unsigned i = 0; i < pause->count; i++) {
        struct part *part = get_part(pause, i);
        uint64_t at = now;

        if (py_tracer.lanes[part->lane].epoch == part->epoch &&
            py_tracer_place_at(part->lane, &at) == part->calls)
            lw_calls_resume(part->calls, at, &part->branch);
        else
            lw_calls_branch_release(&part->branch);
    }
    free(pause->others);
}

static PyObject *switch_method(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct pause pause;
    PyObject *result;

    begin(&pause);
    result = original_switch(self, args, keywords);
    end(&pause);
    return result;
}

static PyObject *throw_method(PyObject *self, PyObject *args)
{
    struct pause pause;
    PyObject *result;

    begin(&pause);
    result = original_throw(self, args);
    end(&pause);
    return result;
}

static PyObject *switch_of_api(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct pause pause;
    PyObject *result;

    begin(&pause);
    result = api_switch(self, args, keywords);
    end(&pause);
    return result;
}

static PyObject *throw_of_api(PyObject *self, PyObject *type, PyObject *value,
                              PyObject *traceback)
{
    struct pause pause;
    PyObject *result;

    begin(&pause);
    result = api_throw(self, type, value, traceback);
    end(&pause);
    return result;
}

/* A greenlet that nobody wants any more runs once again, to unwind. */
static void dealloc(PyObject *self)
{
    struct pause pause;

    begin(&pause);
    original_dealloc(self);
    end(&pause);
}

/* ---- getting between ------------------------------------------------------------- */

static bool hook_methods(PyTypeObject *type)
{
    union py_method ours, original;
    void *slot = py_patch_get_slot(type, PY_SLOT_DEALLOC);

    if (slot != PyType_GetSlot(type, Py_tp_dealloc))
        return false;
    memcpy(&original_dealloc, &slot, sizeof(slot));
    ours.keywords = switch_method;
    if (!py_patch_descriptor(PY_PATCH_GREENLETS, (PyObject *)type, "switch",
                             METH_VARARGS | METH_KEYWORDS, ours, &original))
        return false;
    original_switch = original.keywords;
    ours.tuple = throw_method;
    if (!py_patch_descriptor(PY_PATCH_GREENLETS, (PyObject *)type, "throw",
                             METH_VARARGS, ours, &original))
        return false;
    original_throw = original.tuple;
    return py_patch_slot(PY_PATCH_GREENLETS, type, PY_SLOT_DEALLOC, (void *)dealloc);
}

/* What C code (gevent) calls. */
static bool hook_api(PyObject *capsule, PyTypeObject *type)
{
    void **api = PyCapsule_GetPointer(capsule, "greenlet._C_API");

    if (!api || api[API_TYPE] != type)
        return false;
    memcpy(&api_switch, &api[API_SWITCH], sizeof(void *));
    memcpy(&api_throw, &api[API_THROW], sizeof(void *));
    return py_patch_pointer(PY_PATCH_GREENLETS, capsule, &api[API_SWITCH],
                            (void *)switch_of_api) &&
           py_patch_pointer(PY_PATCH_GREENLETS, capsule, &api[API_THROW],
                            (void *)throw_of_api);
}

/* MODULE is greenlet's. One that is not as we know it is said to be missed. */
static void hook(PyObject *module)
{
    PyObject *kind, *value, *traceback;
    PyObject *type, *capsule;

    PyErr_Fetch(&kind, &value, &traceback);
    type = PyObject_GetAttrString(module, "greenlet");
    capsule = PyObject_GetAttrString(module, "_C_API");
    is_hooked = type && capsule && PyType_Check(type) &&
                hook_methods((PyTypeObject *)type) &&
                hook_api(capsule, (PyTypeObject *)type);
    if (!is_hooked) {
        py_patch_undo(PY_PATCH_GREENLETS);
        py_tracer_count_lost(PY_RECORDS_CALLS, LW_LOST_MISMATCH);
    }
    Py_XDECREF(type);
    Py_XDECREF(capsule);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

/* An extension module has been loaded: perhaps this one. */
static PyObject *load(PyObject *self, PyObject *module)
{
    PyObject *result = exec_dynamic.tuple(self, module);
    const char *name = result && PyModule_Check(module) ? PyModule_GetName(module) : "";

    if (!name)
        PyErr_Clear();
    else if (!is_hooked && strcmp(name, MODULE) == 0)
        hook(module);
    return result;
}

void py_greenlets_watch(void)
{
    static const union py_method ours = { .tuple = load };
    PyObject *type, *value, *traceback;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as these are */
    PyObject *known = PyDict_GetItemString(modules, MODULE);
    PyObject *loader = PyDict_GetItemString(modules, "_imp");
    PyObject *function;

    if (known) {
        if (!is_hooked)
            hook(known);
        return;
    }
    PyErr_Fetch(&type, &value, &traceback);
    function = loader ? PyObject_GetAttrString(loader, "exec_dynamic") : NULL;
    if (function && !exec_dynamic.tuple)
        py_patch_function(PY_PATCH_GREENLETS, function, "exec_dynamic", METH_O, ours,
                          &exec_dynamic);
    Py_XDECREF(function);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

void py_greenlets_forget(void)
{
    py_patch_undo(PY_PATCH_GREENLETS);
    is_hooked = false;
    exec_dynamic.tuple = NULL;
}
