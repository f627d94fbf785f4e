/* Lines of a thread's own frames; see ops_lines.h. */

#include "ops_lines.h"

#include <string.h>

#include "phases.h"

enum {
    MOST_FRAMES = 64, /* of torch's own between an op and who asked for it */
    FOLDER_BYTES = 4096,
};

static const struct py_frame_layout *layout; /* NULL: lines are not looked for */
static char torch_folder[FOLDER_BYTES];      /* with a '/' at its end */
static size_t torch_folder_len;

static inline const void *load(const void *object, size_t offset)
{
    return *(const void *const *)((const char *)object + offset);
}

/* ---- frames ------------------------------------------------------------------------- */

static inline const void *frame_code(const void *frame)
{
    return (const void *)((uintptr_t)load(frame, layout->code) & ~(uintptr_t)7);
}

/* FRAME, or the first before it that is a function's. */
static inline const void *of_function(const void *frame)
{
    while (frame && layout->owner &&
           ((const unsigned char *)frame)[layout->owner] >= PY_FIRST_SHIM)
        frame = load(frame, layout->previous);
    return frame;
}

static inline const void *innermost(void)
{
    const void *state = PyGILState_GetThisThreadState();

    if (state && layout->thread_cframe)
        state = load(state, layout->thread_cframe);
    return state ? of_function(load(state, layout->thread_frame)) : NULL;
}

static inline const void *caller_of(const void *frame)
{
    return of_function(load(frame, layout->previous));
}

/* Where FRAME is in its code: something that is the same each time it is there. */
static inline const void *instruction_of(const void *frame)
{
    int offset;

    if (!layout->is_offset)
        return load(frame, layout->instruction);
    memcpy(&offset, (const char *)frame + layout->instruction, sizeof(offset));
    return (const void *)(intptr_t)(offset * 2 + 2); /* not NULL before the first */
}

static int line_of(const void *frame)
{
    const char *code = frame_code(frame);
    intptr_t instruction = (intptr_t)instruction_of(frame);
    intptr_t offset = layout->is_offset
                          ? instruction - 2
                          : instruction - (intptr_t)(code + layout->code_bytes);

    return py_tracer.compat.code_line((PyObject *)code, (int)offset);
}

/* ---- names -------------------------------------------------------------------------- */

/* TEXT, a str, as UTF-8, cut where there is no more room; what stands for a byte of a file's
 * name is that byte. Looks at it one character at a time, which needs no GIL. */
static size_t copy_text(const void *text, char *out, size_t room)
{
    PyObject *object = (PyObject *)text;
    Py_ssize_t count = PyUnicode_GetLength(object);
    size_t len = 0;

    for (Py_ssize_t i = 0; i < count && len + 4 <= room; i++) {
        uint32_t c = PyUnicode_ReadChar(object, i);

        if (c < 0x80 || (c >= 0xdc80 && c <= 0xdcff)) {
            out[len++] = (char)c;
        } else if (c < 0x800) {
            out[len++] = (char)(0xc0 | c >> 6);
            out[len++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            out[len++] = (char)(0xe0 | c >> 12);
            out[len++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[len++] = (char)(0x80 | (c & 0x3f));
        } else {
            out[len++] = (char)(0xf0 | c >> 18);
            out[len++] = (char)(0x80 | (c >> 12 & 0x3f));
            out[len++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[len++] = (char)(0x80 | (c & 0x3f));
        }
    }
    return len;
}

/* The number of CODE's name; 0: it is torch's; LW_FUNCTION_MORE: there are too many. */
static uint32_t number_of(const void *code)
{
    char file[LW_NAME_BYTES], name[LW_NAME_BYTES];
    size_t file_len = copy_text(load(code, layout->code_file), file, sizeof(file));
    size_t name_len = copy_text(load(code, layout->code_name), name, sizeof(name));
    const struct lw_name_text *text;

    if (file_len > torch_folder_len &&
        memcmp(file, torch_folder, torch_folder_len) == 0)
        return 0;
    text = lw_names_intern(&py_tracer.functions.names, LW_NAME_PYTHON, file, file_len,
                           name, name_len);
    return text ? text->number : LW_FUNCTION_MORE;
}

static __attribute__((noinline)) void learn(struct py_ops_line *place,
                                            const void *frame)
{
    const void *code = frame_code(frame);
    int line = line_of(frame);

    *place = (struct py_ops_line){
        .code = code,
        .instruction = instruction_of(frame),
        .file = load(code, layout->code_file),
        .name = load(code, layout->code_name),
        .table = load(code, layout->code_table),
        .number = number_of(code),
        .line = line > 0 ? (uint32_t)line : 0,
    };
}

void py_ops_lines_find(struct py_ops_lines *lines, uint32_t *number, uint32_t *line)
{
    const void *frame = layout ? innermost() : NULL;

    *number = *line = 0;
    for (unsigned i = 0; frame && i < MOST_FRAMES; i++, frame = caller_of(frame)) {
        const void *code = frame_code(frame), *instruction = instruction_of(frame);
        uintptr_t bits = (uintptr_t)instruction ^ (uintptr_t)code >> 7;
        struct py_ops_line *place =
            &lines->places[(bits >> 1 ^ bits >> 10) & (PY_OPS_LINES - 1)];

        if (place->instruction != instruction || place->code != code ||
            place->table != load(code, layout->code_table) ||
            place->name != load(code, layout->code_name) ||
            place->file != load(code, layout->code_file))
            learn(place, frame);
        if (place->number == LW_FUNCTION_MORE)
            return;
        if (place->number != 0) {
            *number = place->number;
            *line = place->line;
            return;
        }
    }
}

/* ---- is it so? ---------------------------------------------------------------------- */

/* Is what lies at OFFSET of OBJECT its attribute NAME? */
static bool is_attribute(const void *object, size_t offset, PyObject *owner,
                         const char *name)
{
    PyObject *value = PyObject_GetAttrString(owner, name);
    bool is_it = value && load(object, offset) == value;

    Py_XDECREF(value);
    return is_it;
}

/* Is FRAME, as it lies, what Python shows as OBJECT? */
static bool is_frame(const void *frame, PyObject *object)
{
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)object);
    PyObject *owner = (PyObject *)code;
    bool is_it = frame && frame_code(frame) == code &&
                 is_attribute(code, layout->code_file, owner, "co_filename") &&
                 is_attribute(code, layout->code_name, owner,
                              layout->is_offset ? "co_name" : "co_qualname") &&
                 is_attribute(code, layout->code_table, owner, "co_linetable") &&
                 line_of(frame) == PyFrame_GetLineNumber((PyFrameObject *)object);

    Py_DECREF(owner);
    return is_it;
}

/* The frames of this very call, as far as they go. */
static bool frames_are_as_known(void)
{
    PyObject *object = (PyObject *)PyEval_GetFrame();
    const void *frame = innermost();
    unsigned count = 0;

    Py_XINCREF(object);
    while (object && object != Py_None && is_frame(frame, object)) {
        PyObject *caller = PyObject_GetAttrString(object, "f_back");

        count++;
        Py_DECREF(object);
        object = caller;
        frame = caller_of(frame);
    }
    Py_XDECREF(object);
    PyErr_Clear();
    return count > 0 && object == Py_None;
}

static bool set_folder(PyObject *torch)
{
    PyObject *file = PyObject_GetAttrString(torch, "__file__");
    const char *text = file ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    const char *end = text ? strrchr(text, '/') : NULL;

    torch_folder_len = end ? (size_t)(end + 1 - text) : 0;
    if (torch_folder_len > 0 && torch_folder_len < sizeof(torch_folder))
        memcpy(torch_folder, text, torch_folder_len);
    Py_XDECREF(file);
    PyErr_Clear();
    return torch_folder_len > 0 && torch_folder_len < sizeof(torch_folder);
}

void py_ops_lines_start(PyObject *torch)
{
    layout = py_tracer.compat.code_line ? py_tracer.compat.frames : NULL;
    if (layout && (!set_folder(torch) || !frames_are_as_known()))
        layout = NULL;
}
