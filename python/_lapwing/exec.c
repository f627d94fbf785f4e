/* A watched program sees its environment without us: our variables are hidden from
 * os.environ, but stay in the process' own (C) environment, which children inherit by
 * themselves. Two cases need help, so the few functions through which Python starts
 * programs are wrapped: an environment passed by hand, and a program that sets
 * PYTHONPATH anew. */

#include "exec.h"

#include <stdlib.h>
#include <string.h>

#include "agent/layout.h"

static char *folder; /* of sitecustomize.py and the agent; owned */
static char *config; /* value of LAPWING_AGENT; owned */

/* "FOLDER" or "FOLDER:OLD"; caller frees. NULL: no memory. */
static char *path_with_folder(const char *old, size_t old_len)
{
    size_t folder_len = strlen(folder);
    char *path = malloc(folder_len + old_len + 2);

    if (!path)
        return NULL;
    memcpy(path, folder, folder_len + 1);
    if (old_len) {
        path[folder_len] = ':';
        memcpy(path + folder_len + 1, old, old_len);
        path[folder_len + 1 + old_len] = '\0';
    }
    return path;
}

static bool starts_with_folder(const char *path, size_t len)
{
    size_t folder_len = strlen(folder);

    return len >= folder_len && memcmp(path, folder, folder_len) == 0 &&
           (len == folder_len || path[folder_len] == ':');
}

static void complete_own_environment(void)
{
    const char *path = getenv("PYTHONPATH");

    if (!path || !starts_with_folder(path, strlen(path))) {
        char *longer = path_with_folder(path ? path : "", path ? strlen(path) : 0);

        if (longer)
            setenv("PYTHONPATH", longer, 1);
        free(longer);
    }
    setenv(LW_AGENT_VARIABLE, config, 1);
}

/* A new list of b"KEY=VALUE" for _posixsubprocess, from LIST with ours in it. */
static PyObject *complete_list(PyObject *list)
{
    static const char path_key[] = "PYTHONPATH=";
    PyObject *made = PySequence_List(list);
    PyObject *path_entry = NULL, *config_entry = NULL;
    char *path = NULL;
    bool done = false;

    if (!made)
        return NULL;
    for (Py_ssize_t i = PyList_Size(made) - 1; i >= 0; i--) {
        PyObject *entry = PyList_GetItem(made, i); /* borrowed */
        char *text;
        Py_ssize_t len;

        if (!PyBytes_Check(entry) || PyBytes_AsStringAndSize(entry, &text, &len) < 0) {
            PyErr_Clear();
            continue;
        }
        if ((size_t)len >= sizeof(path_key) - 1 &&
            memcmp(text, path_key, sizeof(path_key) - 1) == 0) {
            const char *old = text + sizeof(path_key) - 1;
            size_t old_len = (size_t)len - (sizeof(path_key) - 1);

            if (starts_with_folder(old, old_len)) {
                Py_INCREF(list);
                Py_DECREF(made);
                return list;
            }
            free(path);
            path = path_with_folder(old, old_len);
            if (PyList_SetSlice(made, i, i + 1, NULL) < 0)
                goto out;
        }
    }
    if (!path)
        path = path_with_folder("", 0);
    path_entry = path ? PyBytes_FromFormat("%s%s", path_key, path) : PyErr_NoMemory();
    config_entry = PyBytes_FromFormat("%s=%s", LW_AGENT_VARIABLE, config);
    done = path_entry && config_entry && PyList_Append(made, path_entry) == 0 &&
           PyList_Append(made, config_entry) == 0;
out:
    free(path);
    Py_XDECREF(path_entry);
    Py_XDECREF(config_entry);
    if (done)
        return made;
    Py_DECREF(made);
    return NULL;
}

/* The text of VALUE (str or bytes) as the file system has it, or NULL without an
 * exception; *HOLDER keeps it. */
static const char *environment_text(PyObject *value, PyObject **holder)
{
    char *text = NULL;

    *holder = NULL;
    if (!value || !PyUnicode_FSConverter(value, holder)) {
        PyErr_Clear();
        return NULL;
    }
    if (PyBytes_AsStringAndSize(*holder, &text, NULL) < 0)
        PyErr_Clear();
    return text;
}

/* A new dict from MAPPING, as os.execve takes it, with ours in it. Keys may be str or
 * bytes. */
static PyObject *complete_mapping(PyObject *mapping)
{
    PyObject *made = PyDict_New();
    PyObject *items = PyMapping_Items(mapping);
    PyObject *key_text = PyUnicode_FromString("PYTHONPATH");
    PyObject *key_bytes = PyBytes_FromString("PYTHONPATH");
    PyObject *old = NULL, *holder = NULL, *value = NULL, *config_value = NULL;
    const char *text;
    char *path = NULL;
    bool done = false;

    if (!made || !items || !key_text || !key_bytes ||
        PyDict_MergeFromSeq2(made, items, 1) < 0)
        goto out;
    old = PyDict_GetItemWithError(made, key_text); /* borrowed */
    if (!old && !PyErr_Occurred())
        old = PyDict_GetItemWithError(made, key_bytes);
    if (PyErr_Occurred())
        goto out;
    text = environment_text(old, &holder);
    if (text && starts_with_folder(text, strlen(text))) {
        done = true;
        goto out;
    }
    path = path_with_folder(text ? text : "", text ? strlen(text) : 0);
    value = path ? PyUnicode_DecodeFSDefault(path) : PyErr_NoMemory();
    config_value = PyUnicode_DecodeFSDefault(config);
    if (!value || !config_value)
        goto out;
    if (PyDict_GetItemWithError(made, key_bytes) && PyDict_DelItem(made, key_bytes) < 0)
        goto out;
    done = PyDict_SetItem(made, key_text, value) == 0 &&
           PyDict_SetItemString(made, LW_AGENT_VARIABLE, config_value) == 0;
out:
    free(path);
    Py_XDECREF(items);
    Py_XDECREF(key_text);
    Py_XDECREF(key_bytes);
    Py_XDECREF(holder);
    Py_XDECREF(value);
    Py_XDECREF(config_value);
    if (done)
        return made;
    Py_XDECREF(made);
    return NULL;
}

/* One function through which programs are started. */
struct starter {
    const char *module;
    const char *name;
    const char *user; /* a module that keeps the function under a name of its own */
    const char *alias;
    int environment; /* which argument; -1: always the process' own */
    bool is_list;    /* of b"KEY=VALUE", or None for the process' own; else a mapping */
    PyMethodDef definition; /* of the wrapper */
};

static PyObject *start_program(PyObject *self, PyObject *args, PyObject *kwargs);

static struct starter starters[] = {
    { "_posixsubprocess", "fork_exec", "subprocess", "_fork_exec", 5, true, { 0 } },
    { "posix", "execve", "os", "execve", 2, false, { 0 } },
    { "posix", "execv", "os", "execv", -1, false, { 0 } },
    { "posix", "posix_spawn", "os", "posix_spawn", 2, false, { 0 } },
    { "posix", "posix_spawnp", "os", "posix_spawnp", 2, false, { 0 } },
    { "posix", "system", "os", "system", -1, false, { 0 } },
};

/* The wrapper: SELF is (original function, index of the starter). */
static PyObject *start_program(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *original = PyTuple_GetItem(self, 0);
    const struct starter *starter = &starters[PyLong_AsLong(PyTuple_GetItem(self, 1))];
    PyObject *environment = NULL; /* borrowed */
    PyObject *completed = NULL, *list = NULL, *changed = NULL, *result;

    if (!folder)
        return PyObject_Call(original, args, kwargs);
    if (starter->environment >= 0 && starter->environment < PyTuple_Size(args))
        environment = PyTuple_GetItem(args, starter->environment);
    if (environment && environment != Py_None)
        completed = starter->is_list ? complete_list(environment)
                                     : complete_mapping(environment);
    else
        complete_own_environment();
    if (completed) {
        list = PySequence_List(args);
        Py_INCREF(completed);
        if (list && PyList_SetItem(list, starter->environment, completed) == 0)
            changed = PyList_AsTuple(list);
    }
    /* Whatever we could not do, the program's own call is made as it was meant. */
    PyErr_Clear();
    result = PyObject_Call(original, changed ? changed : args, kwargs);
    Py_XDECREF(completed);
    Py_XDECREF(list);
    Py_XDECREF(changed);
    return result;
}

/* Put WRAPPER where a module that is loaded already has kept ORIGINAL. */
static bool replace_alias(const struct starter *starter, PyObject *original,
                          PyObject *wrapper)
{
    PyObject *user = PyDict_GetItemString(PyImport_GetModuleDict(), starter->user);
    PyObject *kept = user ? PyObject_GetAttrString(user, starter->alias) : NULL;
    bool done = true;

    if (kept == original)
        done = PyObject_SetAttrString(user, starter->alias, wrapper) == 0;
    else
        PyErr_Clear();
    Py_XDECREF(kept);
    return done;
}

static bool wrap(size_t index)
{
    struct starter *starter = &starters[index];
    PyObject *module = PyImport_ImportModule(starter->module);
    PyObject *original, *self = NULL, *wrapper = NULL;
    bool done = false;

    if (!module)
        return false;
    original = PyObject_GetAttrString(module, starter->name);
    if (!original) {
        PyErr_Clear(); /* this platform has no such function */
        Py_DECREF(module);
        return true;
    }
    starter->definition.ml_name = starter->name;
    starter->definition.ml_meth = (PyCFunction)(void (*)(void))start_program;
    starter->definition.ml_flags = METH_VARARGS | METH_KEYWORDS;
    self = Py_BuildValue("(On)", original, (Py_ssize_t)index);
    wrapper = self ? PyCFunction_NewEx(&starter->definition, self, NULL) : NULL;
    if (wrapper)
        done = PyObject_SetAttrString(module, starter->name, wrapper) == 0 &&
               replace_alias(starter, original, wrapper);
    Py_XDECREF(wrapper);
    Py_XDECREF(self);
    Py_DECREF(original);
    Py_DECREF(module);
    return done;
}

bool py_exec_follow(const char *inject_folder, const char *agent_config)
{
    static bool is_wrapped;

    py_exec_unfollow();
    folder = strdup(inject_folder);
    config = strdup(agent_config);
    if (!folder || !config) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; !is_wrapped && i < sizeof(starters) / sizeof(*starters); i++)
        if (!wrap(i))
            return false;
    is_wrapped = true;
    return true;
}

void py_exec_unfollow(void)
{
    const char *path = getenv("PYTHONPATH");

    if (!folder)
        return;
    if (path && starts_with_folder(path, strlen(path))) {
        const char *rest = path + strlen(folder);

        if (*rest == ':')
            setenv("PYTHONPATH", rest + 1, 1);
        else
            unsetenv("PYTHONPATH");
    }
    unsetenv(LW_AGENT_VARIABLE);
    free(folder);
    free(config);
    folder = NULL;
    config = NULL;
}
