/* Memory that dies together: allocate piecemeal, release at once.
 *
 * Pieces are aligned to 16 bytes and never move. Not thread-safe. */
#ifndef LW_BASE_ARENA_H
#define LW_BASE_ARENA_H

#include <stddef.h>

#include "base/error.h"

struct lw_arena_block;

struct lw_arena {
    struct lw_arena_block *last; /* newest block; NULL: nothing allocated yet */
    size_t used_bytes;           /* of all blocks, for reports */
};

void lw_arena_init(struct lw_arena *arena);
void lw_arena_release(struct lw_arena *arena);

void *lw_arena_alloc(struct lw_arena *arena, size_t size, struct lw_error *err);
/* A NUL-terminated copy. */
char *lw_arena_copy(struct lw_arena *arena, const char *text, size_t len,
                    struct lw_error *err);

#endif
