/* lapwing.phase("name"): an object to enter and leave, and a function with a phase around
 * each call.
 *
 * A phase object keeps the starts of those of its entries that are still open, so it may
 * be used again while it is open: by a recursive function, by several threads, by tasks
 * and generators that take turns. An exit belongs to the last entry of its own thread;
 * where that has none (a generator that went on in another), to the last of all.
 *
 * Nothing is kept of an entry while nobody is recording. */

#include "marks.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

enum {
    FEW_ENTRIES = 2,
    MOST_ENTRIES = 1 << 16, /* a program that enters and never leaves */
};

struct entry {
    uint64_t start_ticks;
    const void *thread; /* &py_thread of the one that entered */
};

struct phase {
    PyObject_HEAD PyObject *name; /* str; owned */
    uint32_t number;              /* of the name log; 0: not asked for yet */
    uint32_t entry_count;
    uint32_t entry_capacity;
    struct entry *entries; /* `few`, or owned */
    struct entry few[FEW_ENTRIES];
};

/* A function with a phase around each call, made like functools.lru_cache's: what is
 * asked of it and is not here is in its __dict__ (functools.update_wrapper). */
struct phase_function {
    PyObject_HEAD PyObject *function; /* owned */
    PyObject *phase;                  /* owned */
    PyObject *dict;                   /* owned */
    PyObject *weak_references;
    py_vectorcall call; /* found by __vectorcalloffset__ */
};

/* Made once and never freed, as the module is. */
static PyTypeObject *phase_type;
static PyTypeObject *phase_function_type;

/* PyObject_Vectorcall, which is in the limited API since 3.12; NULL before 3.11. */
static py_vectorcall call_quickly;

/* ---- entering and leaving ----------------------------------------------------------- */

static uint32_t phase_number(struct phase *phase)
{
    PyObject *holder;
    const char *text;
    size_t len;

    if (phase->number == 0) {
        text = py_text_bytes(phase->name, &len, &holder);
        phase->number = py_span_number(LW_NAME_PHASE, text, len);
        Py_XDECREF(holder);
    }
    return phase->number;
}

static bool make_room(struct phase *phase)
{
    uint32_t capacity = phase->entry_capacity * 2;
    bool is_inside = phase->entries == phase->few;
    struct entry *larger;

    if (phase->entry_count < phase->entry_capacity)
        return true;
    if (capacity > MOST_ENTRIES)
        return false;
    larger = realloc(is_inside ? NULL : phase->entries, capacity * sizeof(*larger));
    if (!larger)
        return false;
    if (is_inside)
        memcpy(larger, phase->few, sizeof(phase->few));
    phase->entries = larger;
    phase->entry_capacity = capacity;
    return true;
}

static void enter(struct phase *phase)
{
    if (!py_session_is_on())
        return;
    if (!make_room(phase)) {
        lw_names_count_lost(&py_tracer.functions.names, LW_LOST_RECORDS);
        return;
    }
    phase->entries[phase->entry_count].thread = &py_thread;
    phase->entries[phase->entry_count++].start_ticks = lw_ticks_now(py_tracer.use_tsc);
}

static void leave(struct phase *phase)
{
    uint32_t at = phase->entry_count;
    uint64_t start_ticks;

    if (at == 0)
        return;
    while (at > 0 && phase->entries[at - 1].thread != &py_thread)
        at--;
    at = at ? at - 1 : phase->entry_count - 1;
    start_ticks = phase->entries[at].start_ticks;
    phase->entry_count--;
    memmove(&phase->entries[at], &phase->entries[at + 1],
            (phase->entry_count - at) * sizeof(*phase->entries));
    if (py_session_is_on())
        py_phase_end(phase_number(phase), start_ticks);
}

/* ---- the phase ---------------------------------------------------------------------- */

static PyObject *phase_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    enter((struct phase *)self);
    Py_INCREF(self);
    return self;
}

static PyObject *phase_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)args, (void)count;
    leave((struct phase *)self);
    Py_RETURN_NONE;
}

/* Which wrapper FUNCTION needs (coroutines and generators have their own), Python knows
 * best. PHASE may be None: one of the function's own name. */
static PyObject *decorate(PyObject *phase, PyObject *function)
{
    PyObject *module = PyImport_ImportModule("lapwing._marks");
    PyObject *decorated =
        module ? PyObject_CallMethod(module, "decorate", "OO", phase, function) : NULL;

    Py_XDECREF(module);
    return decorated;
}

static PyObject *phase_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *function;

    if (keywords && PyDict_Size(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "a phase takes one argument: a function");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O:phase", &function))
        return NULL;
    return decorate(self, function);
}

static PyObject *phase_repr(PyObject *self)
{
    return PyUnicode_FromFormat("lapwing.phase(%R)", ((struct phase *)self)->name);
}

static void phase_free(PyObject *self)
{
    struct phase *phase = (struct phase *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (phase->entries != phase->few)
        free(phase->entries);
    Py_XDECREF(phase->name);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *py_phase_new(PyObject *name_or_function)
{
    struct phase *phase;

    if (!PyUnicode_Check(name_or_function))
        return decorate(Py_None, name_or_function);
    phase = PyObject_New(struct phase, phase_type);
    if (!phase)
        return NULL;
    Py_INCREF(name_or_function);
    phase->name = name_or_function;
    phase->number = 0;
    phase->entry_count = 0;
    phase->entry_capacity = FEW_ENTRIES;
    phase->entries = phase->few;
    return (PyObject *)phase;
}

static PyTypeObject *make_phase_type(void)
{
    static PyMethodDef methods[] = {
        { "__enter__", phase_enter, METH_NOARGS, NULL },
        { "__exit__", (PyCFunction)(void (*)(void))phase_exit, METH_FASTCALL, NULL },
        { NULL, NULL, 0, NULL },
    };
    static PyMemberDef members[] = {
        { "name", T_OBJECT_EX, offsetof(struct phase, name), READONLY,
          "What the phase is called." },
        { NULL, 0, 0, 0, NULL },
    };
    static PyType_Slot slots[] = {
        { Py_tp_methods, methods },
        { Py_tp_members, members },
        { Py_tp_call, phase_call },
        { Py_tp_repr, phase_repr },
        { Py_tp_dealloc, phase_free },
        { Py_tp_doc, "A phase of the program: a context manager, and a decorator." },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "lapwing.Phase",
        .basicsize = sizeof(struct phase),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromSpec(&spec);
}

/* ---- a function with a phase -------------------------------------------------------- */

/* A call of WRAPPED that began at START_TICKS has ended, maybe by an exception. */
static void end_call(const struct phase_function *wrapped, uint64_t start_ticks)
{
    PyObject *type, *value, *traceback;

    if (!py_session_is_on())
        return;
    PyErr_Fetch(&type, &value, &traceback);
    py_phase_end(phase_number((struct phase *)wrapped->phase), start_ticks);
    PyErr_Restore(type, value, traceback);
}

static PyObject *function_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct phase_function *wrapped = (struct phase_function *)self;
    uint64_t start_ticks = py_phase_begin();
    PyObject *result = PyObject_Call(wrapped->function, args, keywords);

    if (start_ticks)
        end_call(wrapped, start_ticks);
    return result;
}

/* The same with no tuple made of the arguments. */
static PyObject *function_call_quickly(PyObject *self, PyObject *const *args,
                                       size_t count, PyObject *keywords)
{
    struct phase_function *wrapped = (struct phase_function *)self;
    uint64_t start_ticks = py_phase_begin();
    PyObject *result = call_quickly(wrapped->function, args, count, keywords);

    if (start_ticks)
        end_call(wrapped, start_ticks);
    return result;
}

/* As a function has it: a method of OBJECT. */
static PyObject *function_get(PyObject *self, PyObject *object, PyObject *type)
{
    static PyObject *method_type; /* types.MethodType */

    (void)type;
    if (!object || object == Py_None) {
        Py_INCREF(self);
        return self;
    }
    if (!method_type) {
        PyObject *types = PyImport_ImportModule("types");

        method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
        Py_XDECREF(types);
        if (!method_type)
            return NULL;
    }
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

/* Pickled and copied as functions are: by its name. */
static PyObject *function_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyObject *function_repr(PyObject *self)
{
    return PyObject_Repr(((struct phase_function *)self)->function);
}

static int function_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct phase_function *wrapped = (struct phase_function *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(wrapped->function);
    Py_VISIT(wrapped->phase);
    Py_VISIT(wrapped->dict);
    return 0;
}

static int function_clear(PyObject *self)
{
    struct phase_function *wrapped = (struct phase_function *)self;

    /* Not the function and the phase: who holds the wrapper may still call it. They are
     * in no cycle that does not go through a dict. */
    Py_CLEAR(wrapped->dict);
    return 0;
}

static void function_free(PyObject *self)
{
    struct phase_function *wrapped = (struct phase_function *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (wrapped->weak_references)
        PyObject_ClearWeakRefs(self);
    Py_XDECREF(wrapped->function);
    Py_XDECREF(wrapped->phase);
    Py_XDECREF(wrapped->dict);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    struct phase_function *wrapped;
    PyObject *phase, *function;

    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!O:PhaseFunction", phase_type, &phase, &function))
        return NULL;
    wrapped = PyObject_GC_New(struct phase_function, type);
    if (!wrapped)
        return NULL;
    Py_INCREF(function);
    Py_INCREF(phase);
    wrapped->function = function;
    wrapped->phase = phase;
    wrapped->dict = NULL;
    wrapped->weak_references = NULL;
    wrapped->call = function_call_quickly;
    PyObject_GC_Track((PyObject *)wrapped);
    return (PyObject *)wrapped;
}

static PyTypeObject *make_function_type(void)
{
    static PyMethodDef methods[] = {
        { "__reduce__", function_reduce, METH_NOARGS, NULL },
        { NULL, NULL, 0, NULL },
    };
    static PyMemberDef members[] = {
        { "__dictoffset__", T_PYSSIZET, offsetof(struct phase_function, dict), READONLY,
          NULL },
        { "__weaklistoffset__", T_PYSSIZET,
          offsetof(struct phase_function, weak_references), READONLY, NULL },
        { "__vectorcalloffset__", T_PYSSIZET, offsetof(struct phase_function, call),
          READONLY, NULL },
        { NULL, 0, 0, 0, NULL },
    };
    static PyGetSetDef attributes[] = {
        { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
        { NULL, NULL, NULL, NULL, NULL },
    };
    static PyType_Slot slots[] = {
        { Py_tp_new, function_new },
        { Py_tp_call, function_call },
        { Py_tp_descr_get, function_get },
        { Py_tp_repr, function_repr },
        { Py_tp_methods, methods },
        { Py_tp_members, members },
        { Py_tp_getset, attributes },
        { Py_tp_traverse, function_traverse },
        { Py_tp_clear, function_clear },
        { Py_tp_dealloc, function_free },
        { Py_tp_doc, "A function with a phase around each call." },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "lapwing.PhaseFunction",
        .basicsize = sizeof(struct phase_function),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR,
        .slots = slots,
    };

    void *symbol = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");

    memcpy(&call_quickly, &symbol, sizeof(symbol)); /* POSIX promises the copy */
    if (call_quickly)
        spec.flags |= PY_TPFLAGS_HAVE_VECTORCALL;
    return (PyTypeObject *)PyType_FromSpec(&spec);
}

bool py_phase_types_init(PyObject *module)
{
    if (!phase_type)
        phase_type = make_phase_type();
    if (!phase_function_type)
        phase_function_type = make_function_type();
    return phase_type && phase_function_type &&
           PyModule_AddObjectRef(module, "Phase", (PyObject *)phase_type) == 0 &&
           PyModule_AddObjectRef(module, "PhaseFunction",
                                 (PyObject *)phase_function_type) == 0;
}
