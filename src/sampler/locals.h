/* The variables of a frame of another process, for `lapwing dump --locals`. They are read
 * when they are asked for and never recorded. */
#ifndef LW_SAMPLER_LOCALS_H
#define LW_SAMPLER_LOCALS_H

#include "sampler/objects.h"
#include "sampler/walk.h"

enum lw_local_kind {
    LW_LOCAL_PLAIN,
    LW_LOCAL_CELL, /* shared with functions inside this one */
    LW_LOCAL_FREE, /* of a function around this one */
};

struct lw_local {
    const char *name; /* UTF-8; until the callback returns */
    enum lw_local_kind kind;
    uint64_t value; /* address of the object; lw_repr_add() shows it */
};

typedef void lw_local_found(void *context, const struct lw_local *local);

/* Call FOUND for each variable of FRAME, of the code CODES has for it, that has a value:
 * arguments first, as the code has them. False: the frame is no longer there, or not that
 * function's; then FOUND was not called. */
bool lw_locals_list(const struct lw_objects *objects, const struct lw_code_cache *codes,
                    const struct lw_walk_frame *frame, lw_local_found *found,
                    void *context) LW_MUST_CHECK;

#endif
