/* Finding the private parts of whatever Python has loaded us. */

#include "compat.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* A function pointer from dlsym: C forbids the plain cast, POSIX promises the copy. */
static void find(void *function, const char *name, const char *older_name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);

    if (!symbol && older_name)
        symbol = dlsym(RTLD_DEFAULT, older_name);
    memcpy(function, &symbol, sizeof(symbol));
}

void *py_compat_find_loaded(const char *library, const char *symbol)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? dlsym(handle, symbol) : NULL;

    if (handle)
        dlclose(handle); /* the program's own reference keeps it */
    return found;
}

bool py_compat_is_main_interpreter(void)
{
    PyInterpreterState *(*main_interpreter)(void);

    find(&main_interpreter, "PyInterpreterState_Main", NULL);
    return !main_interpreter || main_interpreter() == PyInterpreterState_Get();
}

/* ---- a thread's profile function ------------------------------------------------- */

static const struct py_hook_layout hook_layouts[] = {
    [10] = { .tracing = 44, .cframe = 48, .profile = 56, .trace = 64 },
    [11] = { .tracing = 44, .cframe = 56, .profile = 64, .trace = 72 },
};

py_trace_function py_compat_hook(const struct py_compat *compat,
                                 const PyThreadState *state)
{
    return *(const py_trace_function *)((const char *)state + compat->hooks->profile);
}

void py_compat_set_hook(const struct py_compat *compat, PyThreadState *state,
                        py_trace_function hook)
{
    char *base = (char *)state;
    const py_trace_function *trace =
        (const py_trace_function *)(base + compat->hooks->trace);
    int tracing = *(int *)(base + compat->hooks->tracing);
    void *flag = *(void **)(base + compat->hooks->cframe);
    bool is_watched = tracing == 0 && (hook || *trace);

    *(py_trace_function *)(base + compat->hooks->profile) = hook;
    if (compat->minor == 11)
        *(uint8_t *)flag = is_watched ? 255 : 0; /* or'ed into instructions */
    else
        *(int *)flag = is_watched;
}

bool py_compat_is_watched(const struct py_compat *compat, const PyThreadState *state)
{
    const char *base = (const char *)state;

    return compat->hooks && (py_compat_hook(compat, state) ||
                             *(const py_trace_function *)(base + compat->hooks->trace));
}

/* Whether the state of a new thread, which nothing watches yet, reads like one. */
static bool layout_is_likely(const struct py_compat *compat, const PyThreadState *state)
{
    enum { INTERPRETER = 16, SIZE = 200 }; /* it is larger than that in both */
    const char *base = (const char *)state;
    uintptr_t flag = *(const uintptr_t *)(base + compat->hooks->cframe);

    /* The flag is in the state itself until something runs in it. */
    return *(void *const *)(base + INTERPRETER) == PyInterpreterState_Get() &&
           flag > (uintptr_t)base && flag < (uintptr_t)base + 2 * SIZE &&
           flag % sizeof(void *) == 0 && *(const int *)flag == 0 &&
           *(const int *)(base + compat->hooks->tracing) == 0 &&
           *(void *const *)(base + compat->hooks->profile) == NULL &&
           *(void *const *)(base + compat->hooks->trace) == NULL;
}

static unsigned trial_events[8]; /* by enum py_trace_event */

static int count_trial_event(PyObject *arg, void *frame, int what, PyObject *value)
{
    (void)arg, (void)frame, (void)value;
    trial_events[what & 7]++;
    return 0;
}

/* Evaluate CODE with a hook and then without: its two calls must be heard, nothing else, and
 * only once. */
static bool hears_calls(const struct py_compat *compat, PyThreadState *state,
                        PyObject *code, PyObject *names)
{
    PyObject *hooked, *unhooked;
    bool works;

    memset(trial_events, 0, sizeof(trial_events));
    py_compat_set_hook(compat, state, count_trial_event);
    works = py_compat_hook(compat, state) == count_trial_event;
    hooked = PyEval_EvalCode(code, names, names);
    py_compat_set_hook(compat, state, NULL);
    unhooked = hooked ? PyEval_EvalCode(code, names, names) : NULL;
    works = works && hooked && unhooked;
    for (int what = 0; what < 8; what++) {
        bool is_of_call = what == PY_TRACE_CALL || what == PY_TRACE_RETURN;

        works = works && trial_events[what] == (is_of_call ? 2 : 0);
    }
    Py_XDECREF(hooked);
    Py_XDECREF(unhooked);
    return works;
}

/* Try it on a thread state made for that: the thread's own may have hooks of the program's.
 * What a signal handler raises meanwhile goes on to the program. */
static bool hook_works(const struct py_compat *compat)
{
    PyObject *code = Py_CompileString("(lambda: 0)()\n", "<lapwing>", Py_file_input);
    PyObject *names = PyDict_New();
    PyThreadState *trial = PyThreadState_New(PyInterpreterState_Get());
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    bool works = false;

    if (code && names && trial &&
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0 &&
        layout_is_likely(compat, trial)) {
        PyThreadState *own = PyThreadState_Swap(trial);

        works = hears_calls(compat, trial, code, names);
        PyErr_Fetch(&type, &value, &traceback);
        PyThreadState_Swap(own);
    }
    if (trial) {
        PyThreadState_Clear(trial);
        PyThreadState_Delete(trial);
    }
    if (type)
        PyErr_Restore(type, value, traceback);
    py_error_end();
    Py_XDECREF(code);
    Py_XDECREF(names);
    return works;
}

/* ---- does a[i] pass by the evaluation function? ---------------------------------- */

static py_eval_function evaluate_as_before;
static unsigned evaluated;

static PyObject *count_evaluations(PyThreadState *state, void *frame, int throwing)
{
    evaluated++;
    return evaluate_as_before(state, frame, throwing);
}

/* 3.11.2 (Debian 12's) specialises a[i] into a call that PEP 523 does not see; 3.11.7
 * does not. Distributors patch, so it is tried, once and in a name space of its own,
 * rather than read off the version. */
static bool getitem_is_hidden(const struct py_compat *compat)
{
    static const char trial[] = "class A:\n"
                                "    def __getitem__(self, i): return i\n"
                                "a = A()\n"
                                "for i in range(100): a[i]\n";
    PyInterpreterState *interpreter = PyThreadState_GetInterpreter(PyThreadState_Get());
    PyObject *names = PyDict_New();
    PyObject *code = Py_CompileString(trial, "<lapwing>", Py_file_input);
    PyObject *result = NULL;

    evaluated = 0;
    evaluate_as_before = compat->get_eval(interpreter);
    if (names && code &&
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0 &&
        PyDict_SetItemString(names, "__name__", Py_None) == 0) {
        compat->set_eval(interpreter, count_evaluations);
        result = PyEval_EvalCode(code, names, names);
        compat->set_eval(interpreter, evaluate_as_before);
    }
    py_error_end();
    Py_XDECREF(result);
    Py_XDECREF(code);
    Py_XDECREF(names);
    return evaluated < 100;
}

/* ---- frames ---------------------------------------------------------------------- */

static const struct py_frame_layout frame_layouts[] = {
#include "frames.def"
};

/* ---- loading --------------------------------------------------------------------- */

bool py_compat_load(struct py_compat *compat, const char **reason)
{
    const char *version = Py_GetVersion();
    char *rest;

    memset(compat, 0, sizeof(*compat));
    if (strtoul(version, &rest, 10) != 3 || *rest != '.') {
        *reason = "this is not Python 3";
        return false;
    }
    compat->minor = (unsigned)strtoul(rest + 1, NULL, 10);
    if (compat->minor < 10) {
        *reason = "calls can be recorded on Python 3.10 and later";
        return false;
    }
    if (strstr(version, "free-threading")) {
        *reason = "calls cannot be recorded on a free-threaded Python";
        return false;
    }
    compat->monitoring = compat->minor >= 12;

    find(&compat->code_line, "PyCode_Addr2Line", NULL);
    if (compat->minor < sizeof(frame_layouts) / sizeof(frame_layouts[0]))
        compat->frames = &frame_layouts[compat->minor];
    find(&compat->type_lookup, "_PyType_Lookup", NULL);
    find(&compat->code_type, "PyCode_Type", NULL);
    find(&compat->method_descriptor_type, "PyMethodDescr_Type", NULL);
    if (!compat->code_type || !compat->method_descriptor_type) {
        *reason = "this Python hides the functions that Lapwing needs";
        return false;
    }
    if (compat->monitoring)
        return true;

    find(&compat->get_eval, "_PyInterpreterState_GetEvalFrameFunc", NULL);
    find(&compat->set_eval, "_PyInterpreterState_SetEvalFrameFunc", NULL);
    find(&compat->first_thread, "PyInterpreterState_ThreadHead", NULL);
    find(&compat->next_thread, "PyThreadState_Next", NULL);
    compat->frame_inner = compat->minor == 11 ? 24 : 0;
    compat->frame_globals = compat->minor == 11 ? 8 : 48;
    compat->frame_owner = compat->minor == 11 ? 69 : 0;
    compat->hooks = &hook_layouts[compat->minor];
    compat->calls_are_inlined = compat->minor == 11;
    if (!compat->get_eval || !compat->set_eval || !compat->first_thread ||
        !compat->next_thread) {
        *reason = "this Python hides the functions that Lapwing needs";
        return false;
    }
    /* Twice: a signal handler's own calls may have been heard. */
    if (!hook_works(compat) && !hook_works(compat)) {
        *reason = "this Python's threads are not laid out as Lapwing knows them";
        return false;
    }
    compat->hides_getitem = compat->calls_are_inlined && getitem_is_hidden(compat);
    return true;
}
