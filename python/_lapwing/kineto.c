/* Finds what it needs in the torch that the process has loaded, by names that are the same
 * in torch 2.6, 2.13 and 2.14; a torch without them is left alone. */

#include "kineto.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "patch.h"

static PyObject *set_log(PyObject *module, PyObject *args)
{
    const char *library;
    _Atomic int *level;
    int wanted;

    (void)module;
    if (!PyArg_ParseTuple(args, "si:set_kineto_log", &library, &wanted))
        return NULL;
    level = py_compat_find_loaded(library, "_ZN9libkineto6Logger14severityLevel_E");
    return PyLong_FromLong(level ? atomic_exchange(level, wanted) : -1);
}

/* ---- the thread that waits for orders ------------------------------------------------ */

/* Kineto's ConfigLoader ends that thread by a flag and one notify, and joins it. The thread
 * does not look at the flag again before it waits (up to torch 2.13 at least): if it is
 * between the two, as it is for a while after its start, the notify is lost and the join
 * takes as long as the wait does, 5 s. So it is stopped only while it is in that wait. */

enum {
    LOADER_SIZE = 256, /* the word it waits for is 168 bytes in, in torch 2.13 */
    MOST_LOOKS = 200,
    LOOK_NS = 1000 * 1000,
};

/* Does thread ID of this process wait, for a limited time, for a word of LOADER? */
static bool waits_in(const char *id, const void *loader)
{
    unsigned long long word, timeout;
    char path[64], text[256];
    ssize_t size = 0;
    long number;
    int file;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/syscall", id);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        size = read(file, text, sizeof(text) - 1);
        close(file);
    }
    text[size > 0 ? size : 0] = '\0';
    /* The call's number and its arguments: the word, what to do, a value, the timeout. A
     * thread that waits for a mutex has no timeout. */
    return sscanf(text, "%ld 0x%llx %*s %*s 0x%llx", &number, &word, &timeout) == 3 &&
           number == SYS_futex && timeout && word - (uintptr_t)loader < LOADER_SIZE;
}

static bool is_waiting(const void *loader)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    bool found = false;

    if (!threads)
        return false;
    while (!found && (entry = readdir(threads)))
        found = entry->d_name[0] != '.' && waits_in(entry->d_name, loader);
    closedir(threads);
    return found;
}

/* Holds the GIL from the look to the end of the thread, so that neither a fork nor another
 * call of this comes between. Nothing that the thread does on its way out takes the GIL. */
static PyObject *stop_thread(PyObject *module, PyObject *args)
{
    const struct timespec pause = { 0, LOOK_NS };
    void *(*instance)(void) = NULL;
    void (*stop)(void *loader) = NULL;
    const char *library;
    void *symbols[2], *loader;
    int must;

    (void)module;
    if (!PyArg_ParseTuple(args, "sp:stop_kineto_thread", &library, &must))
        return NULL;
    symbols[0] =
        py_compat_find_loaded(library, "_ZN9libkineto12ConfigLoader8instanceEv");
    symbols[1] =
        py_compat_find_loaded(library, "_ZN9libkineto12ConfigLoader10stopThreadEv");
    /* A function of a class, and one that gives the only object of it. */
    memcpy(&instance, &symbols[0], sizeof(instance));
    memcpy(&stop, &symbols[1], sizeof(stop));
    if (!instance || !stop)
        Py_RETURN_TRUE;
    loader = instance();
    for (int looks = 1; !is_waiting(loader); looks++) {
        if (!must)
            Py_RETURN_FALSE;
        if (looks == MOST_LOOKS)
            break;
        Py_BEGIN_ALLOW_THREADS;
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS;
    }
    stop(loader);
    Py_RETURN_TRUE;
}

/* ---- the program's own profiler ------------------------------------------------------ */

/* Whichever way a profiler is started or stopped, torch calls one of these. They are
 * pybind11's, and take their arguments in one of two ways. */
enum { PREPARE, ENABLE, DISABLE, WATCHED };

static struct {
    const char *name;
    py_keywords_function original;
    py_fast_function fast_original;
} watched[WATCHED] = {
    [PREPARE] = { "_prepare_profiler", NULL, NULL },
    [ENABLE] = { "_enable_profiler", NULL, NULL },
    [DISABLE] = { "_disable_profiler", NULL, NULL },
};

static PyObject *told; /* callback(starts, is_done); owned */

static void tell(int which, bool is_done)
{
    if (told)
        py_error_call(told, Py_BuildValue("(OO)", which == DISABLE ? Py_False : Py_True,
                                          is_done ? Py_True : Py_False));
}

static PyObject *call(int which, PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *result;

    tell(which, false);
    result = watched[which].original(self, args, keywords);
    if (result)
        tell(which, true);
    return result;
}

static PyObject *call_fast(int which, PyObject *self, PyObject *const *args,
                           Py_ssize_t count, PyObject *names)
{
    PyObject *result;

    tell(which, false);
    result = watched[which].fast_original(self, args, count, names);
    if (result)
        tell(which, true);
    return result;
}

static PyObject *prepare(PyObject *self, PyObject *args, PyObject *keywords)
{
    return call(PREPARE, self, args, keywords);
}

static PyObject *prepare_fast(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    return call_fast(PREPARE, self, args, count, names);
}

static PyObject *enable(PyObject *self, PyObject *args, PyObject *keywords)
{
    return call(ENABLE, self, args, keywords);
}

static PyObject *enable_fast(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    return call_fast(ENABLE, self, args, count, names);
}

static PyObject *disable(PyObject *self, PyObject *args, PyObject *keywords)
{
    return call(DISABLE, self, args, keywords);
}

static PyObject *disable_fast(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    return call_fast(DISABLE, self, args, count, names);
}

static PyObject *on_profiler(PyObject *module, PyObject *args)
{
    static const struct {
        py_keywords_function named;
        py_fast_function fast;
    } ours[WATCHED] = {
        [PREPARE] = { prepare, prepare_fast },
        [ENABLE] = { enable, enable_fast },
        [DISABLE] = { disable, disable_fast },
    };
    PyObject *profiler, *callback, *old = told;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO:on_profiler", &profiler, &callback))
        return NULL;
    for (size_t i = 0; i < WATCHED; i++) {
        PyObject *function = PyObject_GetAttrString(profiler, watched[i].name);
        bool is_ours = function && (watched[i].original || watched[i].fast_original);
        bool done =
            function &&
            (is_ours || py_patch_builtin(PY_PATCH_TORCH, function, ours[i].named,
                                         &watched[i].original, ours[i].fast,
                                         &watched[i].fast_original));

        if (function && !done)
            PyErr_Format(PyExc_AttributeError, "%s is no builtin", watched[i].name);
        Py_XDECREF(function);
        if (!done)
            return NULL;
    }
    Py_INCREF(callback);
    told = callback;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

void py_kineto_forget(void)
{
    Py_CLEAR(told);
    for (size_t i = 0; i < WATCHED; i++) {
        watched[i].original = NULL;
        watched[i].fast_original = NULL;
    }
}

static PyMethodDef methods[] = {
    { "on_profiler", on_profiler, METH_VARARGS,
      "on_profiler(torch.autograd.profiler, callback): call it with (starts, is_done) "
      "before and after each call that starts or stops a profiler." },
    { "set_kineto_log", set_log, METH_VARARGS,
      "set_kineto_log(library, level): how grave a message must be to be printed; what it "
      "was before, or -1, if this torch has no such level." },
    { "stop_kineto_thread", stop_thread, METH_VARARGS,
      "stop_kineto_thread(library, must): end the thread that waits for orders to Kineto, "
      "which cannot be done at every moment; False if it has to be tried again. If it "
      "MUST end, that moment is waited for, a fifth of a second at most." },
    { NULL, NULL, 0, NULL },
};

bool py_kineto_init(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
