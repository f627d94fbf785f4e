/* Numbers of ops' names, for one thread, without a lock where the name is known.
 *
 * An operator's name lies where its schema is, so that where it lies nearly always says
 * what it is; a range's or a backward node's is made anew each time, and found by its
 * text. Either way the text is compared: a place can be another's the next time. */
#ifndef PY_LAPWING_OPS_NAMES_H
#define PY_LAPWING_OPS_NAMES_H

#include <string.h>

#include "tracer.h"

#define PY_OPS_NAMES 1024 /* as many as torch's programs use, and a power of two */

struct py_ops_names {
    struct py_ops_place {
        const char *at;                  /* NULL: none */
        const struct lw_name_text *text; /* what lay there */
    } by_place[PY_OPS_NAMES];
    const struct lw_name_text *by_text[PY_OPS_NAMES]; /* NULL: none */
};

/* Not known by where it lies: by its text, or new. */
uint32_t py_ops_names_find(struct py_ops_names *names, enum lw_agent_name_kind kind,
                           const char *name);

static inline struct py_ops_place *py_ops_names_place(struct py_ops_names *names,
                                                      const char *name)
{
    uintptr_t bits = (uintptr_t)name;

    return &names->by_place[(bits >> 3 ^ bits >> 13) & (PY_OPS_NAMES - 1)];
}

/* The number of the name of KIND that lies at NAME. */
static inline uint32_t py_ops_names_number(struct py_ops_names *names,
                                           enum lw_agent_name_kind kind,
                                           const char *name)
{
    const struct py_ops_place *place = py_ops_names_place(names, name);

    if (__builtin_expect(place->at == name && place->text->kind == kind &&
                             strcmp(lw_name_text_name(place->text), name) == 0,
                         1))
        return place->text->number;
    return py_ops_names_find(names, kind, name);
}

#endif
