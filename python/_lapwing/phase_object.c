/* lapwing.phase("name"): an object to enter and leave, and to decorate functions with.
 *
 * A phase object keeps the starts of those of its entries that are still open, so it may
 * be used again while it is open: by a recursive function, by several threads. An exit
 * belongs to the last entry of its own thread; where that has none (a generator that went
 * on in another), to the last of all. Tasks that take turns need an object each, as
 * `with lapwing.phase("name")` makes one.
 *
 * Nothing is kept of an entry while nobody is recording. */

#include "marks.h"

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

/* Made once and never freed, as the module is. */
static PyTypeObject *phase_type;

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

bool py_phase_type_init(PyObject *module)
{
    if (!phase_type)
        phase_type = make_phase_type();
    return phase_type &&
           PyModule_AddObjectRef(module, "Phase", (PyObject *)phase_type) == 0;
}
