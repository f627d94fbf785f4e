/* A callable that answers for a function in everything but the call. Where nothing in C is
 * behind a function of torch's, one of these stands in its place. */

#include "steps.h"

static PyTypeObject *wrapper_type; /* made once, never freed */

/* ---- the wrapper ------------------------------------------------------------------- */

LW_HOT static PyObject *wrapper_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct py_wrapper *wrapper = (struct py_wrapper *)self;

    return wrapper->call(wrapper, args, keywords);
}

static PyObject *wrapper_get_attribute(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((struct py_wrapper *)self)->function, name);
}

static PyObject *wrapper_bind(PyObject *self, PyObject *object, PyObject *type)
{
    static PyObject *method_type; /* types.MethodType */
    PyObject *method;

    (void)type;
    if (!object) {
        Py_INCREF(self);
        return self;
    }
    if (!method_type) {
        /* The function makes a method of any object; its type is all we want. */
        method = PyObject_CallMethod(((struct py_wrapper *)self)->function, "__get__",
                                     "O", object);
        if (!method)
            return NULL;
        method_type = (PyObject *)Py_TYPE(method);
        Py_INCREF(method_type);
        Py_DECREF(method);
    }
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

static PyObject *wrapper_repr(PyObject *self)
{
    return PyObject_Repr(((struct py_wrapper *)self)->function);
}

static int wrapper_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct py_wrapper *)self)->function);
    Py_VISIT(((struct py_wrapper *)self)->callback);
    return 0;
}

static void wrapper_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_XDECREF(((struct py_wrapper *)self)->function);
    Py_XDECREF(((struct py_wrapper *)self)->callback);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyTypeObject *make_wrapper_type(void)
{
    static PyType_Slot slots[] = {
        { Py_tp_call, wrapper_call },
        { Py_tp_getattro, wrapper_get_attribute },
        { Py_tp_descr_get, wrapper_bind },
        { Py_tp_repr, wrapper_repr },
        { Py_tp_traverse, wrapper_traverse },
        { Py_tp_dealloc, wrapper_free },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "_lapwing.Wrapper",
        .basicsize = sizeof(struct py_wrapper),
        /* It takes the object before the arguments, as functions do, so no method has to
         * be made for `object.function()`. */
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_METHOD_DESCRIPTOR,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromSpec(&spec);
}

bool py_steps_is_wrapper(PyObject *object)
{
    return Py_TYPE(object) == wrapper_type;
}

PyObject *py_steps_wrap(PyObject *function, PyObject *callback, py_wrapped_call *call)
{
    struct py_wrapper *wrapper;

    if (!wrapper_type && !(wrapper_type = make_wrapper_type()))
        return NULL;
    wrapper = PyObject_GC_New(struct py_wrapper, wrapper_type);
    if (!wrapper)
        return NULL;
    Py_INCREF(function);
    Py_XINCREF(callback);
    wrapper->function = function;
    wrapper->callback = callback;
    wrapper->number = wrapper->fetch_number = 0;
    wrapper->call = call;
    PyObject_GC_Track((PyObject *)wrapper);
    return (PyObject *)wrapper;
}

/* ---- after ------------------------------------------------------------------------- */

static PyObject *call_after(struct py_wrapper *wrapper, PyObject *args,
                            PyObject *keywords)
{
    PyObject *callback = wrapper->callback;
    PyObject *result, *answer;

    Py_INCREF(callback); /* it may take the wrapper away */
    result = PyObject_Call(wrapper->function, args, keywords);
    if (result) {
        answer = PyObject_CallNoArgs(callback);
        Py_XDECREF(answer);
        PyErr_Clear();
    }
    Py_DECREF(callback);
    return result;
}

PyObject *py_steps_after(PyObject *function, PyObject *callback)
{
    return py_steps_wrap(function, callback, call_after);
}
