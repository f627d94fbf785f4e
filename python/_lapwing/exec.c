/* A watched program sees its environment without us: our variables are hidden from
 * os.environ, but stay in the process' own (C) environment, which children inherit by
 * themselves. Two cases need help, so the few functions through which Python starts
 * programs go through us: an environment passed by hand, and a program that sets
 * PYTHONPATH anew.
 *
 * The functions stay the objects that they are: only what their definitions call is
 * replaced (patch.h), and put back when the recording ends. */

#include "exec.h"

#include <stdlib.h>
#include <string.h>

#include "agent/layout.h"
#include "agent/python_path.h"
#include "error.h"
#include "patch.h"

#define PATH_NAME "PYTHONPATH"

static struct {
    bool is_on;
    char *folder; /* of sitecustomize.py and the agent; owned */
    char *config; /* value of LAPWING_AGENT; owned */
    char *python; /* base name of this Python's program; owned, or NULL */
} following;

/* ---- the process' own environment --------------------------------------------------- */

static void set_variable(const char *name, const char *value)
{
    const char *now = getenv(name);

    /* Other threads may be reading it: nothing is written without need. */
    if (!now || strcmp(now, value) != 0)
        setenv(name, value, 1);
}

static void complete_own_environment(void)
{
    const char *path = getenv(PATH_NAME);
    size_t len = path ? strlen(path) : 0;

    if (!path || !lw_python_path_has(path, len, following.folder)) {
        char *longer = lw_python_path_with(path, len, following.folder);

        if (longer)
            set_variable(PATH_NAME, longer);
        free(longer);
    }
    set_variable(LW_AGENT_VARIABLE, following.config);
}

static void clean_own_environment(void)
{
    const char *path = getenv(PATH_NAME);
    bool is_unset = false;
    char *own;

    if (path && lw_python_path_has(path, strlen(path), following.folder)) {
        own = lw_python_path_without(path, following.folder, &is_unset);
        if (is_unset)
            unsetenv(PATH_NAME);
        else if (own)
            setenv(PATH_NAME, own, 1);
        free(own);
    }
    unsetenv(LW_AGENT_VARIABLE);
}

/* ---- environments that are passed --------------------------------------------------- */

/* The text of VALUE, a str or bytes, as the file system has it, or NULL; *HOLDER keeps it.
 * A path object is not asked: that would run code of the program's. */
static const char *file_text(PyObject *value, PyObject **holder)
{
    char *text = NULL;

    *holder = NULL;
    if (!value || !(PyUnicode_Check(value) || PyBytes_Check(value)))
        return NULL;
    if (!PyUnicode_FSConverter(value, holder) ||
        PyBytes_AsStringAndSize(*holder, &text, NULL) < 0)
        PyErr_Clear();
    return text;
}

static bool is_python_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0 ||
           (following.python && strcmp(name, following.python) == 0);
}

/* Whether PROGRAM, a path, or a sequence of those that are tried, is a Python. */
static bool is_python(PyObject *program)
{
    PyObject *first = NULL, *holder = NULL;
    const char *path;
    bool is;

    if (program && (PyTuple_Check(program) || PyList_Check(program)))
        program = first = PySequence_GetItem(program, 0);
    path = file_text(program, &holder);
    is = path && is_python_name(path);
    Py_XDECREF(first);
    Py_XDECREF(holder);
    return is;
}

static bool is_entry_of(PyObject *entry, const char *name, const char **value,
                        size_t *len)
{
    size_t name_len = strlen(name);
    char *text;
    Py_ssize_t text_len;

    if (!PyBytes_Check(entry))
        return false;
    if (PyBytes_AsStringAndSize(entry, &text, &text_len) < 0) {
        PyErr_Clear();
        return false;
    }
    if ((size_t)text_len <= name_len || memcmp(text, name, name_len) != 0 ||
        text[name_len] != '=')
        return false;
    *value = text + name_len + 1;
    *len = (size_t)text_len - name_len - 1;
    return true;
}

/* Have LIST hold NAME=VALUE, where its old entry is, AT, or at its end (-1). */
static bool put_entry(PyObject *list, Py_ssize_t at, const char *name,
                      const char *value)
{
    PyObject *entry = PyBytes_FromFormat("%s=%s", name, value);
    bool done;

    if (!entry)
        return false;
    if (at >= 0)
        return PyList_SetItem(list, at, entry) == 0; /* takes the reference */
    done = PyList_Append(list, entry) == 0;
    Py_DECREF(entry);
    return done;
}

/* What of an environment that is passed matters to us. */
struct passed {
    const char *path; /* of PYTHONPATH, LEN bytes; NULL: it has none */
    size_t len;
    bool has_programs; /* it has a PATH, so what is started may start others by name */
};

/* Python itself passes an environment that was made from nothing on to a program that is
 * no Python as it is: that is what `env={}` is for. */
static bool is_for_us(const struct passed *passed, PyObject *program)
{
    return passed->has_programs || passed->path || is_python(program);
}

/* A new list of b"KEY=VALUE" for _posixsubprocess, from LIST with ours in it; NULL with or
 * without an exception: LIST will do. */
static PyObject *complete_list(PyObject *list, PyObject *program)
{
    PyObject *made = PySequence_List(list);
    Py_ssize_t path_at = -1, config_at = -1;
    struct passed passed = { NULL, 0, false };
    char *path = NULL;
    bool done = false;

    for (Py_ssize_t i = 0; made && i < PyList_Size(made); i++) {
        PyObject *entry = PyList_GetItem(made, i); /* borrowed */
        const char *value;
        size_t len;

        if (is_entry_of(entry, PATH_NAME, &value, &len)) {
            passed.path = value;
            passed.len = len;
            path_at = i;
        } else if (is_entry_of(entry, LW_AGENT_VARIABLE, &value, &len)) {
            config_at = i;
        } else if (is_entry_of(entry, "PATH", &value, &len)) {
            passed.has_programs = true;
        }
    }
    if (made && is_for_us(&passed, program)) {
        done = true;
        if (!passed.path ||
            !lw_python_path_has(passed.path, passed.len, following.folder)) {
            path = lw_python_path_with(passed.path, passed.len, following.folder);
            done = path && put_entry(made, path_at, PATH_NAME, path);
        }
        done = done && put_entry(made, config_at, LW_AGENT_VARIABLE, following.config);
    }
    free(path);
    if (done)
        return made;
    Py_XDECREF(made);
    return NULL;
}

/* NAME in DICT, under a str or bytes; borrowed; *KEY is the one that it is under, or a
 * str, and is the caller's. */
static PyObject *find_variable(PyObject *dict, const char *name, PyObject **key)
{
    PyObject *text = PyUnicode_FromString(name), *bytes = PyBytes_FromString(name);
    PyObject *value = text ? PyDict_GetItemWithError(dict, text) : NULL;

    *key = text;
    if (!value && bytes && !PyErr_Occurred()) {
        value = PyDict_GetItemWithError(dict, bytes);
        if (value)
            *key = bytes;
    }
    Py_XDECREF(*key == text ? bytes : text);
    return value;
}

static bool put_variable(PyObject *dict, PyObject *key, const char *text)
{
    PyObject *value = key ? PyUnicode_DecodeFSDefault(text) : NULL;
    bool done = value && PyDict_SetItem(dict, key, value) == 0;

    Py_XDECREF(value);
    return done;
}

/* What os.execve() and its like read of MAPPING, as a new dict, asked as they ask: its
 * methods may be the program's own and say anything, so each is called once, in their
 * order, and nobody asks it again. NULL without an exception: not to be read so, which is
 * for the original to say. With one, which is the program's: the call ends with it. */
static PyObject *read_mapping(PyObject *mapping)
{
    Py_ssize_t count = PyMapping_Size(mapping);
    PyObject *keys = count < 0 ? NULL : PyMapping_Keys(mapping);
    PyObject *values = keys ? PyMapping_Values(mapping) : NULL;
    PyObject *made = NULL;

    if (values && PyList_Size(keys) >= count && PyList_Size(values) >= count)
        made = PyDict_New();
    for (Py_ssize_t i = 0; made && i < count; i++)
        if (PyDict_SetItem(made, PyList_GetItem(keys, i), PyList_GetItem(values, i)) !=
            0) {
            PyErr_Clear(); /* a key that cannot be one of a dict */
            Py_CLEAR(made);
        }
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return made;
}

/* Put ours into ENVIRONMENT, a dict that is nobody else's, where it is for us. */
static void complete_dict(PyObject *environment, PyObject *program)
{
    PyObject *path_key = NULL, *config_key = NULL, *programs_key = NULL, *holder = NULL;
    PyObject *value = find_variable(environment, PATH_NAME, &path_key);
    struct passed passed = { NULL, 0, false };
    char *path = NULL;

    passed.path = value ? file_text(value, &holder) : NULL;
    passed.len = passed.path ? strlen(passed.path) : 0;
    passed.has_programs = find_variable(environment, "PATH", &programs_key) != NULL;
    (void)find_variable(environment, LW_AGENT_VARIABLE, &config_key);
    /* A value that is no text is for the original to complain of. */
    if (PyErr_Occurred() || (value && !passed.path) || !is_for_us(&passed, program))
        goto out;
    if (!passed.path ||
        !lw_python_path_has(passed.path, passed.len, following.folder)) {
        path = lw_python_path_with(passed.path, passed.len, following.folder);
        if (!path || !put_variable(environment, path_key, path))
            goto out;
    }
    if (!put_variable(environment, config_key, following.config)) {
        /* No memory: then what is started is not followed. */
    }
out:
    py_error_end();
    free(path);
    Py_XDECREF(path_key);
    Py_XDECREF(config_key);
    Py_XDECREF(programs_key);
    Py_XDECREF(holder);
}

/* ---- the functions ------------------------------------------------------------------ */

enum { SYSTEM, EXECV, EXECVE, SPAWN, SPAWNP, FORK_EXEC, STARTERS };

/* Functions through which programs are started. */
static struct starter {
    const char *module;
    const char *name;
    int program;     /* which argument; */
    int environment; /* likewise; -1: always the process' own */
    bool is_list;    /* of b"KEY=VALUE", or None for the process' own; else a mapping */
    union py_method was; /* what it called before */
} starters[STARTERS] = {
    [SYSTEM] = { "posix", "system", 0, -1, false, { 0 } },
    [EXECV] = { "posix", "execv", 0, -1, false, { 0 } },
    [EXECVE] = { "posix", "execve", 0, 2, false, { 0 } },
    [SPAWN] = { "posix", "posix_spawn", 0, 2, false, { 0 } },
    [SPAWNP] = { "posix", "posix_spawnp", 0, 2, false, { 0 } },
    [FORK_EXEC] = { "_posixsubprocess", "fork_exec", 1, 5, true, { 0 } },
};

enum { MOST_ARGUMENTS = 40 }; /* fork_exec has 23 */

/* The environment that STARTER is to be given in place of ENVIRONMENT, or NULL: the same.
 * An exception that is set then is the program's own mapping's, and the call's. */
static PyObject *complete(const struct starter *starter, PyObject *program,
                          PyObject *environment)
{
    PyObject *completed = NULL;

    if (!following.is_on)
        return NULL;
    if (!environment || environment == Py_None) {
        complete_own_environment();
    } else if (starter->is_list) {
        completed = complete_list(environment, program);
        /* Whatever we could not do, the program's own call is made as it was meant. */
        if (!completed)
            py_error_end();
    } else if (PyMapping_Check(environment)) {
        completed = read_mapping(environment);
        if (completed)
            complete_dict(completed, program);
    }
    return completed;
}

/* Where the environment is among COUNT arguments and those with NAMES; -1: nowhere. */
static Py_ssize_t find_environment(const struct starter *starter, Py_ssize_t count,
                                   PyObject *names)
{
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;

    if (starter->environment < 0)
        return -1;
    if (starter->environment < count)
        return starter->environment;
    for (Py_ssize_t i = 0; i < named; i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), "env") == 0)
            return count + i;
    return -1;
}

/* The arguments that STARTER is to be called with: ARGS, or in COPY the same with another
 * environment, *COMPLETED, which the caller releases. NULL with an exception: the
 * environment that was passed raises it. */
static PyObject *const *prepare(const struct starter *starter, PyObject *const *args,
                                Py_ssize_t count, PyObject *names, PyObject **copy,
                                PyObject **completed)
{
    Py_ssize_t all = count + (names ? PyTuple_Size(names) : 0);
    Py_ssize_t at = find_environment(starter, count, names);

    *completed = NULL;
    if (all > MOST_ARGUMENTS)
        return args;
    *completed =
        complete(starter, starter->program < count ? args[starter->program] : NULL,
                 at >= 0 ? args[at] : NULL);
    if (!*completed)
        return PyErr_Occurred() ? NULL : args;
    memcpy(copy, args, (size_t)all * sizeof(*copy));
    copy[at] = *completed;
    return copy;
}

static PyObject *start_named(const struct starter *starter, PyObject *self,
                             PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *copy[MOST_ARGUMENTS], *completed, *result;

    args = prepare(starter, args, count, names, copy, &completed);
    result = args ? starter->was.named(self, args, count, names) : NULL;
    Py_XDECREF(completed);
    return result;
}

static PyObject *start_plain(const struct starter *starter, PyObject *self,
                             PyObject *const *args, Py_ssize_t count)
{
    PyObject *copy[MOST_ARGUMENTS], *completed, *result;

    args = prepare(starter, args, count, NULL, copy, &completed);
    result = args ? starter->was.plain(self, args, count) : NULL;
    Py_XDECREF(completed);
    return result;
}

static PyObject *run_system(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    return start_named(&starters[SYSTEM], self, args, count, names);
}

static PyObject *run_execv(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return start_plain(&starters[EXECV], self, args, count);
}

static PyObject *run_execve(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    return start_named(&starters[EXECVE], self, args, count, names);
}

static PyObject *run_spawn(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names)
{
    return start_named(&starters[SPAWN], self, args, count, names);
}

static PyObject *run_spawnp(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    return start_named(&starters[SPAWNP], self, args, count, names);
}

static PyObject *run_fork_exec(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return start_plain(&starters[FORK_EXEC], self, args, count);
}

/* Up to 3.11 it takes a tuple. */
static PyObject *run_fork_exec_of_tuple(PyObject *self, PyObject *args)
{
    const struct starter *starter = &starters[FORK_EXEC];
    Py_ssize_t count = PyTuple_Size(args);
    PyObject *completed = NULL, *list = NULL, *changed = NULL, *result;

    if (count > starter->environment)
        completed = complete(starter, PyTuple_GetItem(args, starter->program),
                             PyTuple_GetItem(args, starter->environment));
    if (completed) {
        list = PySequence_List(args);
        Py_INCREF(completed);
        if (list && PyList_SetItem(list, starter->environment, completed) == 0)
            changed = PyList_AsTuple(list);
        if (!changed)
            PyErr_Clear();
    }
    result = starter->was.tuple(self, changed ? changed : args);
    Py_XDECREF(completed);
    Py_XDECREF(list);
    Py_XDECREF(changed);
    return result;
}

static const struct {
    int starter;
    int flags; /* of the definition */
    union py_method ours;
} ways[] = {
    { SYSTEM, METH_FASTCALL | METH_KEYWORDS, { .named = run_system } },
    { EXECV, METH_FASTCALL, { .plain = run_execv } },
    { EXECVE, METH_FASTCALL | METH_KEYWORDS, { .named = run_execve } },
    { SPAWN, METH_FASTCALL | METH_KEYWORDS, { .named = run_spawn } },
    { SPAWNP, METH_FASTCALL | METH_KEYWORDS, { .named = run_spawnp } },
    { FORK_EXEC, METH_FASTCALL, { .plain = run_fork_exec } },
    { FORK_EXEC, METH_VARARGS, { .tuple = run_fork_exec_of_tuple } },
};

/* Where a function is not there, or is not as we know it, its programs are recorded only
 * if they inherit our variables by themselves. */
static void enter_function(struct starter *starter)
{
    PyObject *module = PyImport_ImportModule(starter->module);
    PyObject *function = module ? PyObject_GetAttrString(module, starter->name) : NULL;

    for (size_t i = 0; function && i < sizeof(ways) / sizeof(*ways); i++)
        if (&starters[ways[i].starter] == starter &&
            py_patch_function(PY_PATCH_STARTERS, function, starter->name, ways[i].flags,
                              ways[i].ours, &starter->was))
            break;
    py_error_end();
    Py_XDECREF(function);
    Py_XDECREF(module);
}

/* ---- on and off --------------------------------------------------------------------- */

static char *name_of_python(void)
{
    PyObject *executable = PySys_GetObject("executable"); /* borrowed */
    PyObject *holder = NULL;
    const char *path = file_text(executable, &holder);
    const char *slash = path ? strrchr(path, '/') : NULL;
    char *name = slash && slash[1] ? strdup(slash + 1) : NULL;

    Py_XDECREF(holder);
    return name;
}

bool py_exec_follow(const char *folder, const char *config)
{
    py_exec_unfollow();
    free(following.folder);
    free(following.config);
    free(following.python);
    following.folder = strdup(folder);
    following.config = strdup(config);
    following.python = name_of_python();
    if (!following.folder || !following.config) {
        PyErr_NoMemory();
        return false;
    }
    following.is_on = true;
    for (size_t i = 0; i < STARTERS; i++)
        enter_function(&starters[i]);
    return true;
}

void py_exec_unfollow(void)
{
    if (!following.is_on)
        return;
    following.is_on = false;
    py_patch_undo(PY_PATCH_STARTERS);
    clean_own_environment();
}
