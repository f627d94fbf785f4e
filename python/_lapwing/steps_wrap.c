/* A callable that stands for a method of torch's from the instruction that asks for it to the
 * one that calls it; see steps_called.c. Tools that are told of calls (sys.monitoring)
 * may ask it who it is: it answers for the method. */

#include "steps.h"

static PyTypeObject *wrapper_type; /* made once, never freed */

LW_HOT static PyObject *wrapper_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct py_wrapper *wrapper = (struct py_wrapper *)self;

    return wrapper->call(wrapper, args, keywords);
}

static PyObject *wrapper_get_attribute(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((struct py_wrapper *)self)->function, name);
}

static PyObject *wrapper_repr(PyObject *self)
{
    return PyObject_Repr(((struct py_wrapper *)self)->function);
}

static int wrapper_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct py_wrapper *)self)->function);
    return 0;
}

static void wrapper_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_XDECREF(((struct py_wrapper *)self)->function);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyTypeObject *make_wrapper_type(void)
{
    static PyType_Slot slots[] = {
        { Py_tp_call, wrapper_call },    { Py_tp_getattro, wrapper_get_attribute },
        { Py_tp_repr, wrapper_repr },    { Py_tp_traverse, wrapper_traverse },
        { Py_tp_dealloc, wrapper_free }, { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "_lapwing.Wrapper",
        .basicsize = sizeof(struct py_wrapper),
        .flags =
            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyObject *py_steps_wrap(PyObject *function, PyObject *object, py_wrapped_call *call)
{
    struct py_wrapper *wrapper;

    if (!wrapper_type && !(wrapper_type = make_wrapper_type()))
        return NULL;
    wrapper = PyObject_GC_New(struct py_wrapper, wrapper_type);
    if (!wrapper)
        return NULL;
    Py_INCREF(function);
    wrapper->function = function;
    wrapper->object = object;
    wrapper->call = call;
    PyObject_GC_Track((PyObject *)wrapper);
    return (PyObject *)wrapper;
}
