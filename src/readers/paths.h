/* Stacks over a reader's own numbers of frames, added up while a file is read.
 *
 * Formats of stacks say what a frame is before the stacks, behind them, or piece by
 * piece, and repeat the same stacks millions of times. So a reader numbers frames as it
 * likes, follows them here, and adds weights; at the end, when every frame is known, each
 * path becomes a stack of the profile once. Each thread has a root of its own. */
#ifndef LW_READERS_PATHS_H
#define LW_READERS_PATHS_H

#include "model/builder.h"

struct lw_path {
    uint32_t parent; /* path; of a root: the thread */
    uint32_t frame;  /* the reader's number; LW_NONE: a root */
    uint32_t latest; /* path: its child that was last asked for; 0: none yet */
    uint64_t calls;
    uint64_t self; /* what the reader adds up: ns, or what its unit says */
};

struct lw_paths {
    struct lw_path *list; /* owned; a parent's number is smaller than its children's */
    size_t count;
    size_t capacity;
    uint32_t *slots;     /* owned: 1 + number, by hash of parent and frame; 0: empty */
    size_t slot_count;   /* a power of two */
    lw_stack_id *stacks; /* owned: by path, after lw_paths_finish */
    uint32_t *threads;   /* owned: likewise */
};

void lw_paths_init(struct lw_paths *paths);
void lw_paths_release(struct lw_paths *paths); /* zeroed is fine */

/* The empty path of a thread (an index of the builder), always a new one. */
bool lw_paths_root(struct lw_paths *paths, uint32_t thread, uint32_t *path,
                   struct lw_error *err) LW_MUST_CHECK;
/* Find or add. FRAME may be any number but LW_NONE. */
bool lw_paths_push(struct lw_paths *paths, uint32_t parent, uint32_t frame,
                   uint32_t *path, struct lw_error *err) LW_MUST_CHECK;

/* Give each path its stack in OUT; FRAMES says which frame each of the reader's numbers
 * is, and has every number that was pushed. */
bool lw_paths_finish(struct lw_paths *paths, const lw_frame_id *frames,
                     struct lw_builder *out, struct lw_error *err) LW_MUST_CHECK;

/* After that: one sample, or row of calls, for each path that has something, SCALE ns
 * for each unit added up. What does not fit 64 bits is LW_ERR_LIMIT. */
bool lw_paths_add_samples(const struct lw_paths *paths, uint64_t scale,
                          struct lw_builder *out, struct lw_error *err) LW_MUST_CHECK;
bool lw_paths_add_calls(const struct lw_paths *paths, struct lw_builder *out,
                        struct lw_error *err) LW_MUST_CHECK;

#endif
