/* The table of functions; the rare path of python/_lapwing/functions.h. */

#include "functions.h"

#include <stdlib.h>
#include <string.h>

#include "patch.h"

enum {
    FIRST_SLOTS = 1 << 12,
    MOST_FUNCTIONS = 1 << 18, /* a program with more shows the rest as unknown */
    CO_GENERATOR_KINDS =
        0x20 | 0x80 | 0x200, /* generator, coroutine, async generator */
};

static const struct py_function_slot unknown_slot = { NULL, LW_FUNCTION_UNKNOWN,
                                                      PY_ROLE_PLAIN };

static struct py_functions *the_functions; /* a slot of a type gets nothing else */
static PyInterpreterState *our_interpreter;
static destructor free_code; /* the code type's own; NULL: deaths are not heard */

static bool grow(void *array, uint32_t *capacity, uint32_t need, size_t item_size)
{
    void **items = array;
    uint32_t larger = *capacity ? *capacity * 2 : 256;
    void *moved;

    if (need <= *capacity)
        return true;
    while (larger < need)
        larger *= 2;
    moved = realloc(*items, larger * item_size);
    if (!moved)
        return false;
    *items = moved;
    *capacity = larger;
    return true;
}

static struct py_function_slot *put_slot(struct py_functions *functions,
                                         struct py_function_slot slot)
{
    size_t at = py_functions_hash(slot.key);

    while (functions->slots[at & functions->slot_mask].key)
        at++;
    functions->slots[at & functions->slot_mask] = slot;
    functions->slot_used++;
    return &functions->slots[at & functions->slot_mask];
}

/* Keep the slots at most half used; growing also sweeps out the freed ones. */
static bool make_room(struct py_functions *functions)
{
    struct py_function_slot *old = functions->slots;
    size_t old_size = functions->slot_mask + 1;
    struct py_function_slot *larger;

    if ((functions->slot_used + 1) * 2 <= old_size)
        return true;
    larger = calloc(old_size * 2, sizeof(*larger));
    if (!larger)
        return false;
    functions->slots = larger;
    functions->slot_mask = old_size * 2 - 1;
    functions->slot_used = 0;
    for (size_t i = 0; i < old_size; i++)
        if (old[i].key && old[i].key != PY_SLOT_FREED)
            put_slot(functions, old[i]);
    free(old);
    return true;
}

static void forget_code(struct py_functions *functions, PyObject *code)
{
    struct py_function_slot *slot =
        (struct py_function_slot *)py_functions_find(functions, code);
    struct py_function *function;

    if (!slot)
        return;
    function = &functions->list[slot->number];
    slot->key = PY_SLOT_FREED;
    function->key = NULL;
    function->next_dead = functions->labels[function->label].first_dead;
    functions->labels[function->label].first_dead =
        (uint32_t)(function - functions->list);
}

/* Another interpreter may have a lock of its own, and none of its code is here. */
static void code_dies(PyObject *code)
{
    if (PyInterpreterState_Get() == our_interpreter)
        forget_code(the_functions, code);
    free_code(code);
}

/* From here on the code type frees its objects through us. Its objects have a place for
 * such things (co_extra), but whoever has a number there is told of the death of every
 * object that anybody put something on: a free function of the program's own would be
 * called for code that it never met, and at exit perhaps when it is gone itself. */
static void hear_deaths(struct py_functions *functions)
{
    PyTypeObject *type = functions->compat->code_type;
    void *now = PyType_GetSlot(type, Py_tp_dealloc);

    the_functions = functions;
    our_interpreter = PyInterpreterState_Get();
    if (now != py_patch_get_slot(type, PY_SLOT_DEALLOC))
        return;
    memcpy(&free_code, &now, sizeof(free_code));
    if (!py_patch_set_slot(type, PY_SLOT_DEALLOC, (void *)code_dies))
        free_code = NULL;
}

bool py_functions_init(struct py_functions *functions, const struct py_compat *compat)
{
    memset(functions, 0, sizeof(*functions));
    functions->compat = compat;
    functions->count = 1;
    functions->slots = calloc(FIRST_SLOTS, sizeof(*functions->slots));
    functions->slot_mask = FIRST_SLOTS - 1;
    functions->label_index = PyDict_New();
    if (!functions->slots || !functions->label_index ||
        !lw_names_init(&functions->names) ||
        !grow(&functions->list, &functions->capacity, 1, sizeof(*functions->list))) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return false;
    }
    memset(&functions->list[0], 0, sizeof(functions->list[0]));
    return true;
}

const char *py_text_bytes(PyObject *text, size_t *len, PyObject **holder)
{
    static const char *const others[] = { "surrogateescape", "backslashreplace" };
    Py_ssize_t size = 0;
    const char *bytes = text ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    char *encoded = NULL;

    *holder = NULL;
    for (size_t i = 0; text && !bytes && i < sizeof(others) / sizeof(*others); i++) {
        PyErr_Clear();
        *holder = PyUnicode_AsEncodedString(text, "utf-8", others[i]);
        if (*holder && PyBytes_AsStringAndSize(*holder, &encoded, &size) == 0)
            bytes = encoded;
    }
    if (!bytes)
        PyErr_Clear();
    *len = bytes ? (size_t)size : 0;
    return bytes ? bytes : "";
}

/* What the name log says of FUNCTION. */
struct log_entry {
    struct lw_agent_name head;
    const char *file;
    const char *name;
    PyObject *file_holder; /* owned */
    PyObject *name_holder; /* owned */
};

static void fill_entry(struct log_entry *entry, const struct py_function *function)
{
    size_t file_len, name_len;

    entry->file = py_text_bytes(function->file, &file_len, &entry->file_holder);
    entry->name = py_text_bytes(function->name, &name_len, &entry->name_holder);
    entry->head = (struct lw_agent_name){
        .first_line = function->first_line,
        .kind = function->kind,
        .variant = function->variant,
        .file_len = (uint32_t)(file_len < LW_NAME_BYTES ? file_len : LW_NAME_BYTES),
        .name_len = (uint32_t)(name_len < LW_NAME_BYTES ? name_len : LW_NAME_BYTES),
    };
}

static void release_entry(struct log_entry *entry)
{
    Py_XDECREF(entry->file_holder);
    Py_XDECREF(entry->name_holder);
}

void py_functions_log_to(struct py_functions *functions, struct lw_region *region)
{
    struct lw_names *names = &functions->names;

    lw_names_lock(names);
    names->log = region;
    for (uint32_t i = 1; i < names->count; i++) {
        struct log_entry entry;

        if (lw_names_log_interned(names, i))
            continue;
        fill_entry(&entry, &functions->list[i]);
        entry.head.number = i;
        lw_region_add_name(region, &entry.head, entry.file, entry.name);
        release_entry(&entry);
    }
    lw_names_unlock(names);
}

/* The index of the label, made when new; UINT32_MAX: no memory. */
static uint32_t find_label(struct py_functions *functions, PyObject *file,
                           uint32_t line, PyObject *name, unsigned kind)
{
    PyObject *key = Py_BuildValue("(OIOI)", file ? file : Py_None, line, name, kind);
    uint32_t index = UINT32_MAX;
    PyObject *found;

    if (!key)
        return index;
    PyObject_GC_UnTrack(key); /* texts and numbers: gc.get_objects() need not show it */
    found = PyDict_GetItemWithError(functions->label_index, key);
    if (found) {
        index = (uint32_t)PyLong_AsUnsignedLong(found);
    } else if (!PyErr_Occurred() &&
               grow(&functions->labels, &functions->label_capacity,
                    functions->label_count + 1, sizeof(*functions->labels))) {
        PyObject *value = PyLong_FromUnsignedLong(functions->label_count);

        if (value && PyDict_SetItem(functions->label_index, key, value) == 0) {
            index = functions->label_count++;
            memset(&functions->labels[index], 0, sizeof(*functions->labels));
        }
        Py_XDECREF(value);
    }
    Py_DECREF(key);
    return index;
}

/* Put FUNCTION, without references of its own, on the list under a new number; 0: there
 * is none left, or no memory. Numbers between the last one's and this are others'. */
static uint32_t list_function(struct py_functions *functions,
                              const struct py_function *function)
{
    struct lw_names *names = &functions->names;
    struct log_entry entry;
    uint32_t number = 0;

    fill_entry(&entry, function);
    lw_names_lock(names);
    if (names->count < MOST_FUNCTIONS &&
        grow(&functions->list, &functions->capacity, names->count + 1,
             sizeof(*functions->list)))
        number = lw_names_take(names, &entry.head, entry.file, entry.name);
    lw_names_unlock(names);
    release_entry(&entry);
    if (number) {
        memset(&functions->list[functions->count], 0,
               (number - functions->count) * sizeof(*functions->list));
        functions->list[number] = *function;
        functions->count = number + 1;
    }
    return number;
}

/* A number for a function that prints as (file, line, name): a dead one's, or a new
 * one. 0: none. Takes no references. */
static uint32_t take_number(struct py_functions *functions, PyObject *file,
                            uint32_t line, PyObject *name, unsigned kind)
{
    uint32_t index = find_label(functions, file, line, name, kind);
    struct py_function fresh = {
        .file = file,
        .name = name,
        .first_line = line,
        .label = index,
        .kind = (uint16_t)kind,
    };
    struct py_function_label *label;
    uint32_t number;

    if (index == UINT32_MAX)
        return 0;
    label = &functions->labels[index];
    number = label->first_dead;
    if (number) {
        label->first_dead = functions->list[number].next_dead;
        return number;
    }
    fresh.variant =
        (uint16_t)(label->variants < UINT16_MAX ? label->variants : UINT16_MAX);
    number = list_function(functions, &fresh);
    if (number) {
        Py_XINCREF(file);
        Py_INCREF(name);
        label->variants++;
    }
    return number;
}

static const struct py_function_slot *lose(struct py_functions *functions)
{
    lw_names_count_lost(&functions->names, LW_LOST_FUNCTIONS);
    return &unknown_slot;
}

static unsigned long attribute_number(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    unsigned long number = value ? PyLong_AsUnsignedLong(value) : 0;

    Py_XDECREF(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return number;
}

static enum py_function_role code_role(const struct py_functions *functions,
                                       PyObject *code, PyObject *name)
{
    if (attribute_number(code, "co_flags") & CO_GENERATOR_KINDS)
        return PY_ROLE_SUSPENDS;
    if (functions->compat->hides_getitem &&
        PyUnicode_CompareWithASCIIString(name, "__getitem__") == 0)
        return PY_ROLE_HIDDEN;
    return PY_ROLE_PLAIN;
}

const struct py_function_slot *py_functions_add_code(struct py_functions *functions,
                                                     PyObject *code)
{
    const struct py_function_slot *slot = NULL;
    PyObject *type, *value, *traceback;
    PyObject *file, *name;
    unsigned long line;
    uint32_t number;

    PyErr_Fetch(&type, &value, &traceback);
    file = PyObject_GetAttrString(code, "co_filename");
    name = PyObject_GetAttrString(code, "co_name");
    line = attribute_number(code, "co_firstlineno");
    if (file && name && make_room(functions)) {
        if (!the_functions)
            hear_deaths(functions);
        number = take_number(functions, file, (uint32_t)line, name, LW_NAME_PYTHON);
        if (number) {
            struct py_function_slot fresh = { code, number,
                                              code_role(functions, code, name) };

            if (!free_code)
                Py_INCREF(code); /* or another could get its address unheard */
            functions->list[number].key = code;
            slot = put_slot(functions, fresh);
        }
    }
    Py_XDECREF(file);
    Py_XDECREF(name);
    PyErr_Restore(type, value, traceback);
    return slot ? slot : lose(functions);
}

/* REPR without the " at 0x7f..." of objects that have no better name: the same builtin
 * must be the same in each process of a run. Takes and gives a reference. */
static PyObject *without_address(PyObject *repr)
{
    Py_ssize_t len = PyUnicode_GetLength(repr);
    PyObject *key = PyUnicode_FromString(" at 0x");
    Py_ssize_t at = key ? PyUnicode_Find(repr, key, 0, len, -1) : -1;
    PyObject *head = at > 0 ? PyUnicode_Substring(repr, 0, at) : NULL;
    PyObject *cut = head ? PyUnicode_FromFormat("%U>", head) : NULL;

    Py_XDECREF(key);
    Py_XDECREF(head);
    if (!cut)
        return repr;
    Py_DECREF(repr);
    return cut;
}

/* The name by which cProfile knows a builtin: the repr of what the type holds under
 * that name, else its module and name. */
static PyObject *builtin_name(const struct py_functions *functions,
                              PyMethodDef *definition, PyObject *callable,
                              PyObject *self)
{
    PyObject *key = PyUnicode_FromString(definition->ml_name);
    PyObject *module = NULL;
    PyObject *name = NULL;
    PyObject *found;

    if (!key)
        return NULL;
    if (self) {
        found = functions->compat->type_lookup
                    ? functions->compat->type_lookup(Py_TYPE(self), key)
                    : NULL;
        Py_XINCREF(found);
        if (found)
            name = PyObject_Repr(found);
        if (name)
            name = without_address(name);
        Py_XDECREF(found);
        PyErr_Clear();
    }
    if (!name) {
        module = PyObject_GetAttrString(callable, "__module__");
        if (!module)
            PyErr_Clear();
        if (module && PyUnicode_Check(module) && self)
            name = PyUnicode_FromFormat("<built-in method %S.%s>", module,
                                        definition->ml_name);
        else if (self)
            name = PyUnicode_FromFormat("<built-in method %s>", definition->ml_name);
        else if (module && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(module, "builtins") != 0)
            name = PyUnicode_FromFormat("<%U.%s>", module, definition->ml_name);
        else
            name = PyUnicode_FromFormat("<%s>", definition->ml_name);
    }
    Py_XDECREF(module);
    Py_DECREF(key);
    return name;
}

static enum py_function_role builtin_role(const PyMethodDef *definition)
{
    if (strcmp(definition->ml_name, "start_new_thread") == 0)
        return PY_ROLE_STARTS_THREAD;
    if (strcmp(definition->ml_name, "setprofile") == 0)
        return PY_ROLE_SETS_HOOK;
    return PY_ROLE_PLAIN;
}

const struct py_function_slot *py_functions_add_builtin(struct py_functions *functions,
                                                        PyMethodDef *definition,
                                                        PyObject *callable,
                                                        PyObject *self)
{
    const struct py_function_slot *slot = NULL;
    PyObject *type, *value, *traceback;
    PyObject *name;
    uint32_t number;

    PyErr_Fetch(&type, &value, &traceback);
    name = builtin_name(functions, definition, callable, self);
    if (name && make_room(functions)) {
        number = take_number(functions, NULL, 0, name, LW_NAME_C);
        if (number) {
            struct py_function_slot fresh = { PY_BUILTIN_KEY(definition), number,
                                              builtin_role(definition) };

            functions->list[number].key = fresh.key;
            slot = put_slot(functions, fresh);
        }
    }
    Py_XDECREF(name);
    PyErr_Restore(type, value, traceback);
    return slot ? slot : lose(functions);
}
