/* Looking at the torch that the program has imported; see ops_test.h. */

#include "ops_test.h"

#include <stdlib.h>
#include <string.h>

/* Of torch's versions, the first and the last that were tried; one that is not between them
 * is first tried in a copy of the process. */
static const unsigned known_major = 2, first_minor = 6, last_minor = 14;

/* What was seen of torch.empty(0). */
static const struct lw_torch *tested;
static struct {
    const void *function;
    bool has_ended;
} seen;

static void *see_start(struct lw_torch_context **result, const void *function)
{
    *result = NULL;
    if (lw_torch_scope_of(tested, function) == LW_TORCH_FUNCTION &&
        strcmp(tested->name(function), "aten::empty") == 0)
        seen.function = function;
    return result;
}

static void see_end(const void *function, struct lw_torch_context *base)
{
    (void)base;
    seen.has_ended |= function == seen.function;
}

static bool sees_an_op(PyObject *torch)
{
    struct lw_torch_callback callback = { see_start, see_end, 1, { true } };
    uint64_t handle = tested->add_callback(callback);
    PyObject *tensor = PyObject_CallMethod(torch, "empty", "i", 0);

    tested->remove_callback(handle);
    if (!tensor)
        PyErr_Clear();
    Py_XDECREF(tensor);
    return seen.function && seen.has_ended;
}

/* Is "2.13.0+cpu", say, one that we know? */
static bool is_known(const char *version)
{
    unsigned major = 0, minor = 0;
    char *rest;

    major = (unsigned)strtoul(version, &rest, 10);
    if (*rest == '.')
        minor = (unsigned)strtoul(rest + 1, NULL, 10);
    return major == known_major && minor >= first_minor && minor <= last_minor;
}

/* The text of an attribute, borrowed from *HOLDER, which the caller releases; NULL, with an
 * exception: there is none. */
static const char *text_of(PyObject *object, const char *name, PyObject **holder)
{
    const char *text = NULL;

    /* str() of it: torch's version is a subclass that compares in ways of its own. */
    PyObject *value = object ? PyObject_GetAttrString(object, name) : NULL;

    *holder = value ? PyObject_Str(value) : NULL;
    Py_XDECREF(value);
    if (*holder)
        text = PyUnicode_AsUTF8AndSize(*holder, NULL);
    return text;
}

bool py_ops_test(struct lw_torch *found, PyObject *torch, const char **reason)
{
    PyObject *core = PyObject_GetAttrString(torch, "_C");
    PyObject *version_holder = NULL, *library_holder = NULL;
    const char *version = text_of(torch, "__version__", &version_holder);
    const char *library = text_of(core, "__file__", &library_holder);
    bool works = false;

    *reason = "it is not as those we know";
    if (version && library)
        works = lw_torch_open(found, library, reason) &&
                (is_known(version) || lw_torch_try(found, reason)) &&
                lw_torch_check(found, reason);
    tested = found;
    if (works && !sees_an_op(torch)) {
        *reason = "torch.empty(0) was not heard of";
        works = false;
    }
    Py_XDECREF(core);
    Py_XDECREF(version_holder);
    Py_XDECREF(library_holder);
    PyErr_Clear();
    return works;
}
