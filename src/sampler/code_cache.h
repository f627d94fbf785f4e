/* Code objects of a target, each read once: what function an address means, and which
 * line an instruction of it.
 *
 * The target may free a code object and put another at its address. So an entry
 * that is asked for is looked at again after as long as it has been known, at least once
 * a second, and at once if a frame of it has other globals than the one before: then
 * it is mostly another module's. One that has changed gets a new number: numbers given
 * out keep their meaning. */
#ifndef LW_SAMPLER_CODE_CACHE_H
#define LW_SAMPLER_CODE_CACHE_H

#include "base/arena.h"
#include "base/map.h"
#include "sampler/edges.h"
#include "sampler/layout.h"
#include "sampler/lines.h"

struct lw_py_code {
    uint64_t address;
    const char *name,
        *file; /* NUL-terminated, may hold any other bytes; in the arena */
    uint32_t name_len, file_len;
    uint32_t first_line;
    bool is_made_up; /* the interpreter's own, around a call of __init__: not shown */
    uint32_t frame_bytes;       /* of a frame of it on the data stack */
    uint32_t locals;            /* how many */
    const unsigned char *lines; /* its table; in the arena */
    uint32_t lines_len;

    /* As they were when it was read: if they differ, it is another one. */
    uint64_t name_object, file_object, lines_object;
    uint64_t checked_ns,
        trust_ns;         /* when it was looked at, and for how long that does */
    uint64_t globals;     /* of the last frame of it */
    uint32_t last_callee; /* that `edges` has of it, and where it is called; 0: none */
    int32_t last_call;
};

struct lw_code_cache {
    const struct lw_py_layout *layout; /* borrowed */
    uint64_t code_type;                /* address of PyCode_Type; 0: not known yet */
    struct lw_py_code *codes;          /* by number; 0 is none; owned */
    size_t count, capacity;
    struct lw_map by_address; /* the newest of each */
    struct lw_edges edges;    /* who calls whom */
    struct lw_arena arena;
};

void lw_code_cache_init(struct lw_code_cache *codes, const struct lw_py_layout *layout,
                        uint64_t code_type);
void lw_code_cache_release(struct lw_code_cache *codes);

/* The number of the code object at ADDRESS, of a frame with GLOBALS, read if it is not
 * known yet; 0: there is none (or no memory left here). */
uint32_t lw_code_cache_at(struct lw_code_cache *codes, struct lw_memory *memory,
                          uint64_t address, uint64_t globals, uint64_t now_ns);
/* The number it has if it is known; 0: it is not. */
uint32_t lw_code_cache_known(const struct lw_code_cache *codes, uint64_t address);

/* Text of a str object of the target, as UTF-8, NUL-terminated and cut at LIMIT bytes,
 * into the arena. NULL: it is none. */
const char *lw_code_cache_text(struct lw_code_cache *codes, struct lw_memory *memory,
                               uint64_t object, size_t limit, uint32_t *len);

#endif
