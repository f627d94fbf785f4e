/* Blocks in a chain, newest first; a piece is cut from the newest.
 *
 *     arena.last -> [ header | piece piece piece ....... ] -> [ header | ... ] -> NULL
 *                                              ^ used
 */

#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#define ALIGNMENT 16
#define FIRST_BLOCK 4096      /* most tables never need a second */
#define LARGEST_BLOCK 1048576 /* from here on, larger gains nothing */

struct lw_arena_block {
    struct lw_arena_block *older;
    size_t size; /* of `bytes` */
    size_t used;
    alignas(ALIGNMENT) unsigned char bytes[];
};

void lw_arena_init(struct lw_arena *arena)
{
    arena->last = NULL;
    arena->used_bytes = 0;
}

void lw_arena_release(struct lw_arena *arena)
{
    struct lw_arena_block *block = arena->last;

    while (block) {
        struct lw_arena_block *older = block->older;

        lw_free(block);
        block = older;
    }
    lw_arena_init(arena);
}

/* A block with room for SIZE bytes. A piece too large for the usual block gets one
 * of its own behind the newest, whose rest stays in use. */
static struct lw_arena_block *add_block(struct lw_arena *arena, size_t size,
                                        struct lw_error *err)
{
    size_t usual = arena->last ? arena->last->size * 2 : FIRST_BLOCK;
    struct lw_arena_block *block;
    bool alone;

    if (usual > LARGEST_BLOCK)
        usual = LARGEST_BLOCK;
    alone = size > usual / 2 && arena->last;
    if (alone || size > usual)
        usual = size;

    block = lw_alloc(sizeof(*block) + usual, err);
    if (!block)
        return NULL;
    block->size = usual;
    block->used = 0;
    if (alone) {
        block->older = arena->last->older;
        arena->last->older = block;
    } else {
        block->older = arena->last;
        arena->last = block;
    }
    return block;
}

void *lw_arena_alloc(struct lw_arena *arena, size_t size, struct lw_error *err)
{
    struct lw_arena_block *block = arena->last;
    void *piece;

    if (size > SIZE_MAX / 2) {
        lw_fail(err, LW_ERR_NOMEM, "out of memory (%zu bytes wanted)", size);
        return NULL;
    }
    size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!block || block->size - block->used < size) {
        block = add_block(arena, size, err);
        if (!block)
            return NULL;
    }
    piece = block->bytes + block->used;
    block->used += size;
    arena->used_bytes += size;
    return piece;
}

char *lw_arena_copy(struct lw_arena *arena, const char *text, size_t len,
                    struct lw_error *err)
{
    char *copy = lw_arena_alloc(arena, len < SIZE_MAX ? len + 1 : len, err);

    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
