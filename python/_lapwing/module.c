/* The extension module _lapwing: the agent's Python side. */

#include "agent/handover.h"
#include "exec.h"
#include "kineto.h"
#include "marks.h"
#include "ops.h"
#include "profile.h"
#include "steps.h"

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

static PyObject *after(PyObject *module, PyObject *args)
{
    PyObject *function, *callback;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO:after", &function, &callback))
        return NULL;
    return py_steps_after(function, callback);
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

static int exec_module(PyObject *module)
{
    static bool is_ready;
    PyObject *type;

    if (!is_ready && !py_tracer_init())
        return -1;
    is_ready = true;
    type = py_calls_type_new();
    if (!type || PyModule_AddObject(module, "Calls", type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    if (!py_marks_init(module) || !py_kineto_init(module))
        return -1;
    return PyModule_AddStringConstant(module, "VARIABLE", LW_AGENT_VARIABLE);
}

static PyMethodDef methods[] = {
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
    { "after", after, METH_VARARGS,
      "after(function, callback): the function, with a callback after each call." },
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
    .m_name = "_lapwing",
    .m_doc = "Lapwing's agent inside a Python process.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__lapwing(void);
PyMODINIT_FUNC PyInit__lapwing(void)
{
    return PyModuleDef_Init(&definition);
}
