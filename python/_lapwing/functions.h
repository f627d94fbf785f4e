/* Functions met so far, each known by a small number: what the nodes of a call tree
 * and the name log speak of.
 *
 * A Python function is its code object, a builtin its PyMethodDef. We hold no reference
 * to a code object (a program that compiles in a loop must not grow because it is
 * watched): its type tells us of its death, and its number goes to the next code
 * with the same file, line and name. Two that live at once and print alike (lambdas on
 * a line) have numbers of their own, told apart by `variant`.
 *
 * All of it happens under the GIL, but `names`, which gives the numbers: marks, phases and
 * ops have theirs from it too, from any thread. Their numbers are gaps in `list`. */
#ifndef PY_LAPWING_FUNCTIONS_H
#define PY_LAPWING_FUNCTIONS_H

#include "agent/names.h"
#include "compat.h"

struct py_function {
    void *key;      /* code object, or PyMethodDef tagged with bit 0; NULL: dead */
    PyObject *file; /* owned; NULL: none (a builtin) */
    PyObject *name; /* owned; NULL: this number is no function's */
    uint32_t first_line;
    uint32_t label;     /* index of what it prints as */
    uint32_t next_dead; /* number, of the same label; 0: last */
    uint16_t variant;
    uint16_t kind; /* enum lw_agent_name_kind */
};

struct py_function_label {
    uint32_t variants;   /* how many numbers print like this */
    uint32_t first_dead; /* number that can be used again; 0: none */
};

/* What a hook must know of a function besides its number. */
enum py_function_role {
    PY_ROLE_PLAIN = 0,
    PY_ROLE_SUSPENDS = 1,      /* generator, coroutine: its frames outlive a call */
    PY_ROLE_STARTS_THREAD = 2, /* builtin _thread.start_new_thread */
    PY_ROLE_SETS_HOOK = 3,     /* builtin sys.setprofile */
    PY_ROLE_HIDDEN = 4,        /* __getitem__ where PEP 523 will soon not see it */
};

struct py_function_slot {
    void *key; /* NULL: never used; PY_SLOT_FREED: was removed */
    uint32_t number;
    uint32_t role; /* enum py_function_role */
};

struct py_functions {
    struct py_function_slot *slots; /* open addressing; a power of two */
    size_t slot_mask;
    size_t slot_used; /* freed ones included */

    struct py_function *list; /* by number; 0 is never used */
    uint32_t count;           /* the unused 0 included */
    uint32_t capacity;

    struct py_function_label *labels;
    uint32_t label_count;
    uint32_t label_capacity;
    PyObject *label_index; /* dict: (file, line, name, kind) -> index + 1 */

    const struct py_compat *compat; /* borrowed */
    struct lw_names names;
};

#define PY_SLOT_FREED ((void *)1)
#define PY_BUILTIN_KEY(definition) ((void *)((uintptr_t)(definition) | 1u))

bool py_functions_init(struct py_functions *functions, const struct py_compat *compat);

/* Write all names known so far to REGION, and each new one from now on. */
void py_functions_log_to(struct py_functions *functions, struct lw_region *region);

static inline size_t py_functions_hash(void *key)
{
    uintptr_t bits = (uintptr_t)key;

    return (size_t)((bits >> 4) ^ (bits >> 15));
}

/* The slot of KEY, or NULL. */
static inline const struct py_function_slot *py_functions_find(
    const struct py_functions *functions, void *key)
{
    size_t at = py_functions_hash(key);

    for (;; at++) {
        const struct py_function_slot *slot =
            &functions->slots[at & functions->slot_mask];

        if (__builtin_expect(slot->key == key, 1))
            return slot;
        if (slot->key == NULL)
            return NULL;
    }
}

/* Meet a function for the first time. Never fails and never disturbs a raised
 * exception: what cannot be had becomes the slot of LW_FUNCTION_UNKNOWN. Runs no
 * Python code. */
const struct py_function_slot *py_functions_add_code(struct py_functions *functions,
                                                     PyObject *code);
const struct py_function_slot *py_functions_add_builtin(struct py_functions *functions,
                                                        PyMethodDef *definition,
                                                        PyObject *callable,
                                                        PyObject *self);

/* Bytes of TEXT (NULL: none), borrowed. Names that are not UTF-8 (surrogates from file
 * names) are given back as the bytes they came from, other surrogates as \\udc00, in
 * *HOLDER, which the caller releases. Raises nothing; call it with nothing raised. */
const char *py_text_bytes(PyObject *text, size_t *len, PyObject **holder);

#endif
