/* Calls of modules. `model(x)` is a call of the slot that its class has for calls, and of
 * those that nest only the outermost is told: "forward", "loss" or "eval".
 *
 * Each class has a slot of its own: those that there are get ours at once, a new one when
 * `type` has made it. A class that is given another __call__ gets the interpreter's slot
 * again, and if that is nn.Module (torch.fx does it, while it traces), all get it: now and
 * then all classes are looked through.
 *
 * Nothing is stored in a module, or of it: a model may be pickled, copied, compiled,
 * replaced and forgotten as ever. */

#include "error.h"
#include "steps.h"

#include <string.h>

enum { MOST_VISITED = 64 }; /* modules looked at for a parameter */

static struct {
    PyObject *module;       /* torch.nn.Module */
    PyTypeObject *loss;     /* torch.nn.modules.loss._Loss, or NULL */
    PyTypeObject *compiled; /* torch._dynamo's OptimizedModule, once there is one */
    bool (*is_grad_enabled)(void); /* c10::GradMode's */
    initproc init_class;           /* what `type` had */
} torch __attribute__((aligned(64)));

/* What the call of a module inside of another needs, which is most of them, in one place. */
static struct {
    ternaryfunc original; /* the interpreter's: looks up __call__ and calls it */
    const void *thread;   /* that entered a module last, if it is in there still */
} call __attribute__((aligned(64)));

/* ---- which phase a call was ------------------------------------------------------- */

/* PyDict_Check alone is a call into the interpreter. */
static inline bool is_dict(PyObject *object)
{
    return PyDict_CheckExact(object) || PyDict_Check(object);
}

/* The module's own __dict__, or NULL: what is in there is found without asking its
 * class. Borrowed: the module has it. */
static PyObject *own_attributes(PyObject *module)
{
    PyObject *dict = PyObject_GenericGetDict(module, NULL);

    if (!dict)
        PyErr_Clear();
    Py_XDECREF(dict);
    return dict && is_dict(dict) ? dict : NULL;
}

/* NAME among ATTRIBUTES, which may be NULL; borrowed. */
static PyObject *find_attribute(PyObject *attributes, PyObject *name)
{
    PyObject *value = attributes ? PyDict_GetItemWithError(attributes, name) : NULL;

    if (!value)
        PyErr_Clear();
    return value;
}

/* Does a module with ATTRIBUTES hold a parameter (name -> parameter or None)? Where it
 * keeps them elsewhere (TorchScript's do), it does. */
static bool holds_any(PyObject *attributes)
{
    PyObject *parameters = find_attribute(attributes, py_steps_names.parameters);
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (!parameters || !is_dict(parameters))
        return true;
    while (PyDict_Next(parameters, &at, &key, &value))
        if (value != Py_None)
            return true;
    return false;
}

/* Whether a module with ATTRIBUTES or one below it has parameters. Nearly always the first
 * few tell; of a tree that is large and bare nothing is known, and it counts as one that
 * has. */
LW_HOT static bool has_parameters(PyObject *attributes)
{
    PyObject *waiting[MOST_VISITED]; /* attributes too */
    size_t count = 1, seen = 0;

    if (holds_any(attributes))
        return true;
    waiting[0] = attributes;
    while (seen < count) {
        PyObject *children = find_attribute(waiting[seen++], py_steps_names.modules);
        PyObject *key, *value;
        Py_ssize_t at = 0;

        while (children && is_dict(children) &&
               PyDict_Next(children, &at, &key, &value)) {
            if (value == Py_None)
                continue;
            if (count == MOST_VISITED)
                return true;
            waiting[count] = own_attributes(value);
            if (holds_any(waiting[count++]))
                return true;
        }
    }
    return false;
}

enum gradient { GRADIENT_UNKNOWN, GRADIENT_NO, GRADIENT_YES };

static enum gradient tensor_gradient(PyObject *value)
{
    PyObject *requires_grad;
    enum gradient answer = GRADIENT_UNKNOWN;

    if (!py_steps_may_ask(value))
        return GRADIENT_UNKNOWN;
    requires_grad = PyObject_GetAttr(value, py_steps_names.requires_grad);
    if (requires_grad)
        answer = requires_grad == Py_True ? GRADIENT_YES : GRADIENT_NO;
    else
        PyErr_Clear();
    Py_XDECREF(requires_grad);
    return answer;
}

/* Whether gradients can flow back from RESULT: a tensor, or several. */
LW_SELDOM static enum gradient result_gradient(PyObject *result)
{
    enum gradient best = tensor_gradient(result), one;
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (PyTuple_Check(result) || PyList_Check(result)) {
        Py_ssize_t count =
            PyTuple_Check(result) ? PyTuple_Size(result) : PyList_Size(result);

        for (; at < count && best != GRADIENT_YES; at++) {
            one = tensor_gradient(PyTuple_Check(result) ? PyTuple_GetItem(result, at)
                                                        : PyList_GetItem(result, at));
            best = one > best ? one : best;
        }
    } else if (is_dict(result)) {
        while (best != GRADIENT_YES && PyDict_Next(result, &at, &key, &value)) {
            one = tensor_gradient(value);
            best = one > best ? one : best;
        }
    }
    return best;
}

/* What the call of MODULE that gave RESULT (NULL: an exception) was; NULL: none of what a
 * training does, such as a metric or an augmentation. */
LW_HOT static const char *phase_of(PyObject *module, PyObject *result)
{
    PyObject *attributes = own_attributes(module);

    if (!torch.is_grad_enabled() ||
        find_attribute(attributes, py_steps_names.training) == Py_False)
        return "eval";
    if (torch.loss && PyType_IsSubtype(Py_TYPE(module), torch.loss))
        return result ? "loss" : NULL;
    if (has_parameters(attributes))
        return "forward";
    return result && result_gradient(result) != GRADIENT_NO ? "loss" : NULL;
}

/* ---- calls ------------------------------------------------------------------------- */

/* What torch.compile gives is named for what it was given. */
static PyTypeObject *class_of(PyObject *module)
{
    PyObject *children, *original = NULL;

    if (torch.compiled && Py_TYPE(module) == torch.compiled) {
        children = find_attribute(own_attributes(module), py_steps_names.modules);
        if (children && is_dict(children))
            original = PyDict_GetItemWithError(children, py_steps_names.original);
    }
    return Py_TYPE(original ? original : module);
}

/* A thread of the autograd engine's own calls modules again for a checkpoint: part of the
 * backward that another thread told. */
static bool is_engine_thread(void)
{
    struct lw_calls_thread *calls = py_steps_backwards ? py_session_place() : NULL;

    return calls &&
           atomic_load_explicit(&calls->slot->name_len, memory_order_relaxed) == 0;
}

LW_HOT static void tell(PyObject *module, PyObject *result, uint64_t start_ticks)
{
    uint64_t end_ticks = lw_ticks_now(py_tracer.use_tsc);
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    const char *phase;

    if (!result)
        PyErr_Fetch(&type, &value, &traceback);
    phase = phase_of(module, result);
    if (phase && !is_engine_thread())
        py_steps_write(py_steps_number(phase, class_of(module)), start_ticks,
                       end_ticks);
    if (!result)
        PyErr_Restore(type, value, traceback);
}

/* One that no other thread has while this one lives. */
static inline const void *this_thread(void)
{
#if __has_builtin(__builtin_thread_pointer)
    return __builtin_thread_pointer();
#else
    return &py_steps_thread;
#endif
}

LW_HOT static __attribute__((noinline)) PyObject *call_outermost(PyObject *self,
                                                                 PyObject *args,
                                                                 PyObject *keywords)
{
    struct py_steps_thread *thread = &py_steps_thread;
    uint64_t start_ticks = 0;
    PyObject *result;

    if (thread->is_in_module) /* and another thread has entered one since */
        return call.original(self, args, keywords);
    if (thread->inside == 0 && py_session_is_on()) {
        py_steps_bound(PY_BOUND_CALL);
        start_ticks = py_phase_begin();
    }
    thread->is_in_module = true;
    call.thread = this_thread();
    result = call.original(self, args, keywords);
    thread->is_in_module = false;
    call.thread = NULL; /* the other's, perhaps, whose calls go the longer way then */
    if (start_ticks) {
        tell(self, result, start_ticks);
        if (py_steps_classes_changed())
            py_steps_see_classes();
    }
    return result;
}

/* A model of a hundred modules is a hundred calls: one inside of another is a jump on to
 * where it would have gone, and reads one line of memory. */
LW_HOT static __attribute__((aligned(64))) PyObject *call_module(PyObject *self,
                                                                 PyObject *args,
                                                                 PyObject *keywords)
{
    return call.thread == this_thread() ? call.original(self, args, keywords)
                                        : call_outermost(self, args, keywords);
}

void py_steps_after_fork(void)
{
    call.thread = NULL; /* may not be here, and a new one get its memory */
}

/* ---- classes ----------------------------------------------------------------------- */

static void hook_class(PyTypeObject *class)
{
    if (py_patch_get_slot(class, PY_SLOT_CALL) == (void *)call.original &&
        !py_patch_set_slot(class, PY_SLOT_CALL, (void *)call_module)) {
        /* Then its calls are not told. */
    }
}

/* What torch.compile gives, found where dynamo has it once it is loaded. */
static void find_compiled(void)
{
    PyObject *eval_frame;

    if (torch.compiled)
        return;
    eval_frame = PyDict_GetItemString(PyImport_GetModuleDict(), /* borrowed */
                                      "torch._dynamo.eval_frame");
    if (eval_frame)
        torch.compiled = (PyTypeObject *)py_steps_find(eval_frame, "OptimizedModule");
}

/* All classes under nn.Module, itself first; NULL with an exception set. */
static PyObject *all_classes(void)
{
    PyObject *classes = PyList_New(0);
    PyObject *known = PySet_New(NULL);
    bool done = classes && known && PyList_Append(classes, torch.module) == 0;

    for (Py_ssize_t i = 0; done && i < PyList_Size(classes); i++) {
        PyObject *derived = PyObject_CallMethodObjArgs(PyList_GetItem(classes, i),
                                                       py_steps_names.subclasses, NULL);

        done = derived && PyList_Check(derived);
        for (Py_ssize_t j = 0; done && j < PyList_Size(derived); j++) {
            PyObject *type = PyList_GetItem(derived, j); /* borrowed */
            int is_known = PySet_Contains(known, type);

            done = is_known == 1 || (is_known == 0 && PySet_Add(known, type) == 0 &&
                                     PyList_Append(classes, type) == 0);
        }
        Py_XDECREF(derived);
    }
    Py_XDECREF(known);
    if (!done)
        Py_CLEAR(classes);
    return classes;
}

/* `type` has made a class. Those of another metaclass wait for the next look. */
static int init_class(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyTypeObject *class = (PyTypeObject *)self;
    int result = torch.init_class(self, args, keywords);

    if (result == 0 && PyType_IsSubtype(class, (PyTypeObject *)torch.module))
        hook_class(class);
    return result;
}

bool py_steps_classes_changed(void)
{
    return call.original && py_patch_get_slot((PyTypeObject *)torch.module,
                                              PY_SLOT_CALL) != (void *)call_module;
}

void py_steps_see_classes(void)
{
    PyObject *type, *value, *traceback;
    PyObject *classes;

    if (!call.original)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    find_compiled();
    classes = all_classes();
    for (Py_ssize_t i = 0; classes && i < PyList_Size(classes); i++)
        hook_class((PyTypeObject *)PyList_GetItem(classes, i));
    Py_XDECREF(classes);
    py_error_end(); /* a metaclass may have been asked for its subclasses */
    PyErr_Restore(type, value, traceback);
}

void py_steps_leave_classes(void)
{
    PyObject *classes = call.original ? all_classes() : NULL;

    for (Py_ssize_t i = 0; classes && i < PyList_Size(classes); i++) {
        PyTypeObject *class = (PyTypeObject *)PyList_GetItem(classes, i);

        if (py_patch_get_slot(class, PY_SLOT_CALL) == (void *)call_module &&
            !py_patch_set_slot(class, PY_SLOT_CALL, (void *)call.original)) {
            /* It was written before, so this cannot be; call_module() calls the original. */
        }
    }
    py_error_end();
    Py_XDECREF(classes);
}

static bool find_grad_mode(PyObject *module)
{
    PyObject *file = py_steps_find(module, "_C.__file__");
    const char *library =
        file && PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    void *found = library
                      ? py_compat_find_loaded(library, "_ZN3c108GradMode10is_enabledEv")
                      : NULL;

    memcpy(&torch.is_grad_enabled, &found, sizeof(found));
    PyErr_Clear();
    Py_XDECREF(file);
    return found != NULL;
}

bool py_steps_hook_modules(PyObject *module)
{
    torch.module = py_steps_find(module, "nn.Module");
    torch.loss = (PyTypeObject *)py_steps_find(module, "nn.modules.loss._Loss");
    if (!torch.module || !PyType_Check(torch.module) || !find_grad_mode(module))
        return false;
    call.original =
        (ternaryfunc)py_patch_get_slot((PyTypeObject *)torch.module, PY_SLOT_CALL);
    torch.init_class = (initproc)py_patch_get_slot(&PyType_Type, PY_SLOT_INIT);
    py_steps_see_classes();
    return !py_steps_classes_changed() &&
           py_patch_slot(PY_PATCH_TORCH, &PyType_Type, PY_SLOT_INIT,
                         (void *)init_class);
}
