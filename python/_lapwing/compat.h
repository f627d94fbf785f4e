/* Everything that depends on which Python this is: the only file that may.
 *
 * One extension (abi3, 3.10 and later) serves every Python, so nothing here is decided
 * at compile time. Private functions are looked up by name when the module is loaded;
 * one that is absent is NULL, and the caller does without. Offsets into private
 * structs are needed to hook calls on 3.10 and 3.11 only, which will not change any more;
 * those of frames and of hooks (struct py_frame_layout, struct py_hook_layout) are tried
 * before they are used. */
#ifndef PY_LAPWING_COMPAT_H
#define PY_LAPWING_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Not in the limited API of 3.10, but the same in every version. */
typedef PyObject *(*py_vectorcall)(PyObject *callable, PyObject *const *args,
                                   size_t nargsf, PyObject *kwnames);
typedef int (*py_trace_function)(PyObject *arg, void *frame, int what, PyObject *value);
typedef PyObject *(*py_eval_function)(PyThreadState *state, void *frame, int throwing);

#define PY_TPFLAGS_HAVE_VECTORCALL (1ul << 11)

enum py_trace_event { /* PyTrace_* of cpython/pystate.h */
                      PY_TRACE_CALL = 0,
                      PY_TRACE_RETURN = 3,
                      PY_TRACE_C_CALL = 4,
                      PY_TRACE_C_EXCEPTION = 5,
                      PY_TRACE_C_RETURN = 6,
};

/* Where a thread's frames are, in bytes, for who looks at its own. */
struct py_frame_layout {
    uint8_t thread_frame;  /* of the pointer to the innermost, in the thread's state or,
                             where there is a cframe, in that */
    uint8_t thread_cframe; /* 0: none */
    uint8_t previous;
    uint8_t code; /* from 3.14 on its low bits are not of the address */
    uint8_t instruction;
    uint8_t owner;  /* 0: none; FIRST_SHIM and above: no function's frame */
    bool is_offset; /* `instruction` is an int that counts units of two bytes (3.10) */
    uint8_t code_file;
    uint8_t code_name;  /* the qualified one, from 3.11 on */
    uint8_t code_table; /* of its lines */
    uint8_t code_bytes; /* its instructions, where `instruction` is a pointer */
};

enum { PY_FIRST_SHIM = 3 };

/* Of the code object in a frame that PEP 523 gives, bytes: PyFrameObject of 3.10,
 * _PyInterpreterFrame of 3.11. */
enum { PY_FRAME_CODE = 32 };

/* Where a thread's state (PyThreadState of 3.10 and 3.11) says what watches it, bytes. */
struct py_hook_layout {
    uint8_t tracing; /* int: how many hooks are running */
    uint8_t cframe;  /* pointer, to the flag by which evaluation knows of any hook */
    uint8_t profile; /* py_trace_function */
    uint8_t trace;   /* the same */
};

struct py_compat {
    unsigned minor;  /* of Python 3 */
    bool monitoring; /* 3.12+: calls are seen through sys.monitoring */

    /* PEP 523, where monitoring is absent. */
    py_eval_function (*get_eval)(PyInterpreterState *interpreter);
    void (*set_eval)(PyInterpreterState *interpreter, py_eval_function eval);
    PyThreadState *(*first_thread)(PyInterpreterState *interpreter);
    PyThreadState *(*next_thread)(PyThreadState *state);
    size_t frame_globals; /* in a frame, bytes */
    size_t frame_inner;   /* of that frame in the frame object a hook gets; 0: itself */
    size_t frame_owner;   /* of the byte that tells a generator's frame; 0: none */
    const struct py_hook_layout *hooks;
    bool
        calls_are_inlined; /* 3.11: a Python call takes no C stack unless PEP 523 is on */
    bool hides_getitem;    /* early 3.11: a[i] calls __getitem__ behind PEP 523 */

    /* Of the own thread's frames, without the GIL too; NULL: not known of this Python. */
    const struct py_frame_layout *frames;
    int (*code_line)(PyObject *code, int offset); /* reads and nothing else; or NULL */

    PyObject *(*type_lookup)(PyTypeObject *type, PyObject *name); /* borrowed result */
    PyTypeObject *code_type;
    PyTypeObject *method_descriptor_type;
};

/* The PyMethodDef of a builtin function or of a method descriptor: the same place in
 * every version of 3.10 to 3.15 (GIL builds). */
static inline PyMethodDef *py_builtin_definition(PyObject *function)
{
    return *(PyMethodDef **)((char *)function + 16);
}

static inline PyMethodDef *py_descriptor_definition(PyObject *descriptor)
{
    return *(PyMethodDef **)((char *)descriptor + 40);
}

/* Where a type (PyTypeObject) has some of its functions: the same place in every version
 * of 3.10 to 3.15 (GIL builds); py_patch_works() sees whether it is so. */
enum py_type_slot {
    PY_SLOT_NAME = 24, /* const char *: of a class made by Python code, its bare name */
    PY_SLOT_DEALLOC = 48,
    PY_SLOT_CALL = 128,
    PY_SLOT_GET = 144, /* of an attribute */
    PY_SLOT_INIT = 296,
    PY_SLOT_ALLOC = 304,
    PY_SLOT_FINALIZE = 392,
};

/* Fill COMPAT. False: this Python cannot be traced; *REASON says why. */
bool py_compat_load(struct py_compat *compat, const char **reason);

/* The profile function of the thread of STATE, or NULL. */
py_trace_function py_compat_hook(const struct py_compat *compat,
                                 const PyThreadState *state);
/* Make HOOK that function, or NULL none; what was there has no argument. Python's own
 * function for this raises an audit event first, in which any code of the program may run,
 * and refuse: this one runs nothing. */
void py_compat_set_hook(const struct py_compat *compat, PyThreadState *state,
                        py_trace_function hook);

/* Whether the thread of STATE has a profile or trace function, on 3.10 and 3.11. Those look
 * for pending calls before they begin a watched function, again and again while there is
 * one: a pending call that puts itself off, or that runs Python code while another waits,
 * keeps that function from ever beginning. */
bool py_compat_is_watched(const struct py_compat *compat, const PyThreadState *state);

/* Whether the calling thread is in the process's main interpreter. */
bool py_compat_is_main_interpreter(void);

/* SYMBOL of the file LIBRARY, which is loaded, or of those that it needs; or NULL. */
void *py_compat_find_loaded(const char *library, const char *symbol);

#endif
