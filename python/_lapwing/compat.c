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

    find(&compat->request_extra, "PyUnstable_Eval_RequestCodeExtraIndex",
         "_PyEval_RequestCodeExtraIndex");
    find(&compat->set_extra, "PyUnstable_Code_SetExtra", "_PyCode_SetExtra");
    find(&compat->code_line, "PyCode_Addr2Line", NULL);
    if (compat->minor < sizeof(frame_layouts) / sizeof(frame_layouts[0]))
        compat->frames = &frame_layouts[compat->minor];
    find(&compat->type_lookup, "_PyType_Lookup", NULL);
    find(&compat->code_type, "PyCode_Type", NULL);
    find(&compat->method_descriptor_type, "PyMethodDescr_Type", NULL);
    if (!compat->request_extra || !compat->set_extra || !compat->code_type ||
        !compat->method_descriptor_type) {
        *reason = "this Python hides the functions that Lapwing needs";
        return false;
    }
    if (compat->monitoring)
        return true;

    find(&compat->get_eval, "_PyInterpreterState_GetEvalFrameFunc", NULL);
    find(&compat->set_eval, "_PyInterpreterState_SetEvalFrameFunc", NULL);
    find(&compat->set_profile, "_PyEval_SetProfile", NULL);
    find(&compat->first_thread, "PyInterpreterState_ThreadHead", NULL);
    find(&compat->next_thread, "PyThreadState_Next", NULL);
    compat->frame_inner = compat->minor == 11 ? 24 : 0;
    compat->frame_globals = compat->minor == 11 ? 8 : 48;
    compat->frame_owner = compat->minor == 11 ? 69 : 0;
    compat->thread_profile = compat->minor == 11 ? 64 : 56;
    compat->calls_are_inlined = compat->minor == 11;
    if (!compat->get_eval || !compat->set_eval || !compat->set_profile ||
        !compat->first_thread || !compat->next_thread) {
        *reason = "this Python hides the functions that Lapwing needs";
        return false;
    }
    compat->hides_getitem = compat->calls_are_inlined && getitem_is_hidden(compat);
    return true;
}
