/* The extension module _lapwing: the agent's Python side. */

#include "agent/handover.h"
#include "error.h"
#include "exec.h"
#include "imports.h"
#include "kineto.h"
#include "marks.h"
#include "ops.h"
#include "profile.h"
#include "steps.h"

#define NAME "_lapwing"

static PyObject *start(PyObject *module, PyObject *args)
{
    const char *config, *text;
    Py_ssize_t text_len;
    unsigned argument_count;
    int await_main;

    (void)module;
    if (!PyArg_ParseTuple(args, "sy#Ip:start", &config, &text, &text_len,
                          &argument_count, &await_main))
        return NULL;
    if (!py_session_start(config, text, (size_t)text_len, argument_count, await_main))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    py_session_stop();
    py_imports_forget("torch");
    py_steps_unhook();
    py_exec_unfollow();
    Py_RETURN_NONE;
}

static PyObject *is_recording(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(py_session_is_on());
}

static PyObject *follow(PyObject *module, PyObject *args)
{
    PyObject *folder = NULL;
    const char *config;
    char *folder_text = NULL;
    bool done;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&s:follow", PyUnicode_FSConverter, &folder, &config))
        return NULL;
    done = PyBytes_AsStringAndSize(folder, &folder_text, NULL) == 0 &&
           py_exec_follow(folder_text, config);
    Py_DECREF(folder);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *ticks(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(lw_ticks_now(py_tracer.use_tsc));
}

static PyObject *watch_ops(PyObject *module, PyObject *torch)
{
    (void)module;
    return PyBool_FromLong(py_ops_start(torch));
}

static PyObject *await_import(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *callback;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO:await_import", &name, &callback))
        return NULL;
    if (!py_imports_await(name, callback)) {
        PyErr_Clear();
        py_session_note("this Python imports modules in a way that Lapwing does not "
                        "know: torch's steps and ops are not seen");
    }
    Py_RETURN_NONE;
}

static PyObject *is_programs(PyObject *module, PyObject *error)
{
    (void)module;
    return PyBool_FromLong(py_error_is_programs(error));
}

static PyObject *call_guarded(PyObject *function, PyObject *unused)
{
    (void)unused;
    py_error_call(function, PyTuple_New(0));
    Py_RETURN_NONE;
}

static PyObject *guarded(PyObject *module, PyObject *function)
{
    static PyMethodDef definition = { "guarded", call_guarded, METH_NOARGS, NULL };

    (void)module;
    return PyCFunction_New(&definition, function);
}

static PyObject *wants_torch(PyObject *module, PyObject *unused)
{
    const struct lw_agent_config *config = py_session_config();

    (void)module, (void)unused;
    return PyBool_FromLong(config && (config->steps || config->ops != LW_OPS_OFF));
}

static PyObject *watch_steps(PyObject *module, PyObject *torch)
{
    const struct lw_agent_config *config = py_session_config();

    (void)module;
    if (config && config->steps)
        py_steps_hook(torch);
    Py_RETURN_NONE;
}

static PyObject *on_step(PyObject *module, PyObject *callback)
{
    (void)module;
    py_steps_on_step(callback);
    Py_RETURN_NONE;
}

static PyObject *on_order(PyObject *module, PyObject *callback)
{
    (void)module;
    py_steps_on_order(callback);
    Py_RETURN_NONE;
}

/* What holds the agent of this process where no Python code sees it: sys.modules would show
 * it to the program, and to faulthandler. Borrowed. */
static PyObject *hidden_place(void)
{
    return PyInterpreterState_GetDict(PyInterpreterState_Get());
}

static PyObject *running(PyObject *module, PyObject *unused)
{
    PyObject *agent = PyDict_GetItemString(hidden_place(), NAME);

    (void)module, (void)unused;
    if (!agent)
        agent = Py_None;
    Py_INCREF(agent);
    return agent;
}

/* One agent serves a process, in its main interpreter, however often and from wherever the
 * extension is loaded: running() is the one. Any other is empty. */
static int exec_module(PyObject *module)
{
    PyObject *type;

    if (!py_compat_is_main_interpreter() || PyDict_GetItemString(hidden_place(), NAME))
        return 0;
    if (!py_tracer_init())
        return -1;
    type = py_calls_type_new();
    if (!type || PyModule_AddObject(module, "Calls", type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    if (!py_marks_init(module) || !py_kineto_init(module))
        return -1;
    if (PyModule_AddStringConstant(module, "VARIABLE", LW_AGENT_VARIABLE) < 0)
        return -1;
    return PyDict_SetItemString(hidden_place(), NAME, module);
}

static PyMethodDef methods[] = {
    { "running", running, METH_NOARGS,
      "This process's agent, maybe of another installation; None: in a subinterpreter." },
    { "start", start, METH_VARARGS,
      "start(config, hello, argument_count, await_main): record for a recorder." },
    { "stop", stop, METH_NOARGS, "End the recording; the recorder finishes it." },
    { "is_recording", is_recording, METH_NOARGS,
      "Whether a recorder has this process." },
    { "follow", follow, METH_VARARGS,
      "follow(folder, config): into child programs too." },
    { "ticks", ticks, METH_NOARGS, "The recording's clock, for end_range()." },
    { "watch_ops", watch_ops, METH_O,
      "torch is there: record its ops as was asked. False: that cannot be." },
    { "await_import", await_import, METH_VARARGS,
      "await_import(name, callback): call it with the module once that is imported." },
    { "guarded", guarded, METH_O,
      "guarded(function): calls it, and what it raises goes on to the program if it is "
      "the program's, and is forgotten else." },
    { "is_programs", is_programs, METH_O,
      "Whether an exception that our code has caught is the program's to handle." },
    { "wants_torch", wants_torch, METH_NOARGS,
      "Whether there is something to do once torch is imported." },
    { "watch_steps", watch_steps, METH_O,
      "torch is there: see what a training does, if that was asked for." },
    { "on_step", on_step, METH_O,
      "on_step(callback or None): call it between steps, with (is_first, is_call)." },
    { "on_order", on_order, METH_O,
      "on_order(callback): call it between steps, once there is an order for us." },
    { NULL, NULL, 0, NULL },
};

static PyModuleDef_Slot slots[] = {
    { Py_mod_exec, exec_module },
    { 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = NAME,
    .m_doc = "Lapwing's agent inside a Python process.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__lapwing(void);
PyMODINIT_FUNC PyInit__lapwing(void)
{
    return PyModuleDef_Init(&definition);
}
