/* What the files of steps share, and how they are put in place; see steps.h. */

#include "steps.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "kineto.h"

__thread struct py_steps_thread py_steps_thread
    __attribute__((tls_model("initial-exec"), aligned(64)));

/* ---- when to look at all classes again --------------------------------------------- */

/* A look at the few hundred classes of torch takes 800,000 instructions. Nearly all classes
 * are seen when they are made: a few looks in the beginning, when a program makes its own,
 * and then one every ten seconds will do. */
#define FIRST_LOOK_S 0.05
#define LAST_LOOK_S 10.0
#define LONGER 4 /* times, from one to the next */

static struct {
    uint64_t last_ticks; /* when it was */
    uint64_t wait_ticks; /* not before; 0: at once */
    double wait_s;
    double tick_s;
} look = { .wait_s = FIRST_LOOK_S };

LW_HOT void py_steps_boundary(uint64_t now_ticks)
{
    /* A counter that has started again is far from the last look, too. */
    if (now_ticks - look.last_ticks < look.wait_ticks && !py_steps_classes_changed())
        return;
    py_steps_see_classes();
    look.last_ticks = now_ticks;
    look.wait_ticks = (uint64_t)(look.wait_s / look.tick_s);
    look.wait_s =
        look.wait_s * LONGER < LAST_LOOK_S ? look.wait_s * LONGER : LAST_LOOK_S;
}

/* ---- finding and writing ------------------------------------------------------------ */

PyObject *py_steps_find(PyObject *object, const char *path)
{
    char name[64];

    Py_INCREF(object);
    while (object && *path) {
        size_t len = strcspn(path, ".");
        PyObject *next = NULL;

        if (len < sizeof(name)) {
            memcpy(name, path, len);
            name[len] = '\0';
            next = PyObject_GetAttrString(object, name);
        }
        Py_DECREF(object);
        object = next;
        path += len + (path[len] == '.');
    }
    py_error_end(); /* torch may have asked a __getattr__ */
    return object;
}

bool py_steps_hook_slot(PyObject *torch, const char *path, enum py_type_slot slot,
                        void *was, void *ours)
{
    PyTypeObject *type = (PyTypeObject *)py_steps_find(torch, path);
    bool done = type && PyType_Check((PyObject *)type) &&
                py_patch_get_slot(type, slot) == was &&
                py_patch_slot(PY_PATCH_TORCH, type, slot, ours);

    Py_XDECREF((PyObject *)type);
    return done;
}

bool py_steps_hook_alloc(PyObject *torch, const char *path, allocfunc ours)
{
    return py_steps_hook_slot(torch, path, PY_SLOT_ALLOC,
                              PyType_GetSlot(&PyBaseObject_Type, Py_tp_alloc),
                              (void *)ours);
}

enum { KNOWN_CLASSES = 64, NAME_BYTES = 44 };

/* A class may die and another take its place in memory, so its name is compared too. */
static struct known_class {
    const PyTypeObject *type;
    const char *phase;
    uint32_t number;
    char name[NAME_BYTES];
} known_classes[KNOWN_CLASSES] __attribute__((aligned(64)));

/* Whether two texts are the same; without libc, none of which is in the cache when a phase
 * ends. */
static inline bool is_same(const char *a, const char *b)
{
    while (*a == *b && *a)
        a++, b++;
    return *a == *b;
}

LW_SELDOM static void learn_class(struct known_class *known, const char *phase,
                                  PyTypeObject *type, const char *name)
{
    const char *dot = strrchr(name, '.'); /* a class made by C has its module's */

    known->number = py_phase_number(phase, dot ? dot + 1 : name);
    known->phase = phase;
    known->type = strlen(name) < NAME_BYTES ? type : NULL;
    if (known->type)
        memcpy(known->name, name, strlen(name) + 1);
}

LW_HOT uint32_t py_steps_number(const char *phase, PyTypeObject *type)
{
    const char *name = py_patch_get_slot(type, PY_SLOT_NAME);
    uintptr_t hash =
        ((uintptr_t)type >> 4) ^ ((uintptr_t)type >> 12) ^ (uintptr_t)phase;
    struct known_class *known = &known_classes[hash % KNOWN_CLASSES];

    if (known->type != type || known->phase != phase || !is_same(known->name, name))
        learn_class(known, phase, type, name);
    return known->number;
}

LW_SELDOM static struct lw_calls_thread *find_place(struct py_steps_thread *thread)
{
    thread->place = py_session_place();
    thread->place_epoch = py_thread.session_epoch;
    return thread->place;
}

LW_HOT void py_steps_write(uint32_t number, uint64_t start_ticks, uint64_t end_ticks)
{
    struct py_steps_thread *thread = &py_steps_thread;
    struct lw_calls_thread *calls = thread->place_epoch == py_tracer.only_epoch
                                        ? thread->place
                                        : find_place(thread);

    thread->asked_ticks = 0; /* who asked was not on the way to the engine */
    if (calls)
        py_span_write(calls, number, start_ticks, end_ticks);
}

/* ---- what may be asked of a tensor --------------------------------------------------- */

static PyTypeObject *plain_types[2]; /* torch.Tensor, torch.nn.Parameter */
static PyObject *mode_count;         /* of torch._C: TorchFunctionModes that are on */

LW_HOT bool py_steps_may_ask(PyObject *tensor)
{
    PyObject *count;
    bool may;

    if (Py_TYPE(tensor) != plain_types[0] && Py_TYPE(tensor) != plain_types[1])
        return false;
    count = mode_count ? PyObject_CallNoArgs(mode_count) : NULL;
    may = count && PyLong_AsLong(count) == 0;
    Py_XDECREF(count);
    PyErr_Clear();
    return may;
}

/* ---- names of attributes ------------------------------------------------------------- */

struct py_steps_names py_steps_names;

static bool make_names(void)
{
    static const struct {
        PyObject **name;
        const char *text;
    } all[] = {
        { &py_steps_names.parameters, "_parameters" },
        { &py_steps_names.modules, "_modules" },
        { &py_steps_names.training, "training" },
        { &py_steps_names.original, "_orig_mod" },
        { &py_steps_names.requires_grad, "requires_grad" },
        { &py_steps_names.accumulate_grad, "accumulate_grad" },
        { &py_steps_names.device, "device" },
        { &py_steps_names.type, "type" },
        { &py_steps_names.collate_fn, "collate_fn" },
        { &py_steps_names.dataset, "dataset" },
        { &py_steps_names.subclasses, "__subclasses__" },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (!(*all[i].name = PyUnicode_InternFromString(all[i].text))) {
            PyErr_Clear();
            return false;
        }
    return true;
}

/* ---- putting it in place ------------------------------------------------------------ */

static const struct {
    const char *phases;
    bool (*hook)(PyObject *torch);
} parts[] = {
    { "data and optimizer", py_steps_hook_ranges },
    { "forward and loss", py_steps_hook_modules },
    { "backward", py_steps_hook_backward },
    { "transfer", py_steps_hook_transfer },
    { "fetch and collate", py_steps_hook_batches },
    { "epochs", py_steps_hook_passes },
    { "scaler", py_steps_hook_scaler },
};

static void tell_missing(PyObject *torch, const char *missing)
{
    PyObject *version = py_steps_find(torch, "__version__");
    PyObject *text = version ? PyObject_Str(version) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char sentence[400];

    snprintf(
        sentence, sizeof(sentence),
        "torch %s is unlike those that Lapwing knows: these phases of its steps are "
        "not seen: %s",
        words ? words : "(of no version)", missing);
    py_session_note(sentence);
    PyErr_Clear();
    Py_XDECREF(version);
    Py_XDECREF(text);
}

static bool is_hooked;

void py_steps_hook(PyObject *torch)
{
    char missing[200] = "";
    size_t len = 0;

    if (is_hooked)
        return;
    is_hooked = true;
    Py_INCREF(torch); /* its functions are ours to call from now on */
    look.tick_s = py_tracer_tick_s();
    plain_types[0] = (PyTypeObject *)py_steps_find(torch, "Tensor");
    plain_types[1] = (PyTypeObject *)py_steps_find(torch, "nn.Parameter");
    mode_count = py_steps_find(torch, "_C._len_torch_function_stack");
    if (!make_names() || !py_patch_works() || !py_steps_calls_are_known()) {
        tell_missing(torch, "all");
        return;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (!parts[i].hook(torch) && len < sizeof(missing))
            len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s%s",
                                    len ? ", " : "", parts[i].phases);
    if (len)
        tell_missing(torch, missing);
}

void py_steps_unhook(void)
{
    if (!is_hooked)
        return;
    is_hooked = false;
    py_steps_leave_classes();
    py_patch_undo(PY_PATCH_TORCH);
    py_kineto_forget();
}
