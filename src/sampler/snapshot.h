/* The memory that holds one thread's Python stack, copied twice while the thread runs.
 *
 * Nobody stops the thread, so a copy may be torn: its first half from before a call, its
 * second half from after it. Two copies, with the thread's state read between and after
 * them, tell what held still:
 *
 *     pieces, state, pieces, state          in one call of the system
 *
 * What lies above the top of the data stack is what was there before, and looks as good as
 * new: were the state not read between, a thread that is deep in the end and was shallow
 * while it was copied would show frames that have long returned.
 *
 * The pieces come first because looking disturbs: whoever writes to memory that was just
 * read waits for it, so what is read next shows the thread more often where it writes
 * there. What a thread does that is faster than two looks is taken from the first.
 *
 * Which pieces to read is known from the last time: the used part of the data stack's
 * chunks, and the frames that lie elsewhere (generators on the heap, entry frames on the C
 * stack; every frame of a Python whose frames are objects). Where that guess was wrong,
 * the walk adds what is missing, and everything is read again. */
#ifndef LW_SAMPLER_SNAPSHOT_H
#define LW_SAMPLER_SNAPSHOT_H

#include "base/map.h"
#include "sampler/layout.h"

/* The two readings of everything. */
enum { LW_FIRST, LW_SECOND };

/* The thread's own words, as read at one instant. */
struct lw_thread_words {
    uint64_t next;   /* thread state */
    uint64_t frame;  /* that runs; 0: none */
    uint64_t cframe; /* where `frame` stands, if not in the state itself; else 0 */
    uint64_t chunk;  /* newest */
    uint64_t top;    /* where its used part ends */
    uint64_t thread_id;
    uint64_t native_id;      /* 0: this Python does not tell */
    bool is_waiting_for_gil; /* 3.15 tells */
};

/* A piece of memory to copy: a chunk, or a frame that is in no chunk. */
struct lw_snapshot_piece {
    uint64_t address;
    uint32_t len;
    uint32_t place; /* in each copy, from 1 on; 0: was not read yet */
    uint32_t idle;  /* walks since one that used it */
};

struct lw_snapshot {
    uint64_t thread; /* address of its state */
    bool is_still;   /* the thread stands while it is read: nothing can be torn */
    /* The part of the C stack that has the places, of late, where its current frame is
     * told (3.11, 3.12): each call of Python by C makes another. Empty: none is known. */
    struct lw_snapshot_piece cframes;
    struct lw_snapshot_piece *chunks; /* newest first */
    size_t chunk_count, chunk_capacity;
    size_t last_chunk;                /* that was looked up: the next one is near */
    struct lw_snapshot_piece *frames; /* numbered from 1: by_address has the numbers */
    size_t frame_count, frame_capacity;
    struct lw_map by_address;
    struct lw_map by_caller;  /* the walk's: frames by the one that called them */
    unsigned char *copies[2]; /* the bytes of its state, then the pieces */
    size_t copy_capacity;
};

void lw_snapshot_init(struct lw_snapshot *snapshot, uint64_t thread);
void lw_snapshot_release(struct lw_snapshot *snapshot);

/* Make room. *COUNT becomes how many ranges lw_snapshot_ranges() will give. */
bool lw_snapshot_prepare(struct lw_snapshot *snapshot,
                         const struct lw_py_layout *layout, size_t *count)
    LW_MUST_CHECK;
/* What to read, in this order, for a new snapshot. */
void lw_snapshot_ranges(struct lw_snapshot *snapshot, const struct lw_py_layout *layout,
                        struct lw_memory_range *ranges);

struct lw_thread_words lw_snapshot_words(const struct lw_snapshot *snapshot,
                                         const struct lw_py_layout *layout, int which);
/* LEN bytes at ADDRESS in copy WHICH; NULL: they were not read. */
const unsigned char *lw_snapshot_at(struct lw_snapshot *snapshot, int which,
                                    uint64_t address, size_t len);

/* The chunk that ADDRESS lies in; NULL: none that was read. */
struct lw_snapshot_piece *lw_snapshot_chunk(struct lw_snapshot *snapshot,
                                            uint64_t address);

/* Is the word at ADDRESS, a place of `cframes`, in the copies? If not, it will be. */
bool lw_snapshot_learn_cframe(struct lw_snapshot *snapshot, uint64_t address);
/* Read these too, from the next time on. */
bool lw_snapshot_add_frame(struct lw_snapshot *snapshot, uint64_t address, uint32_t len)
    LW_MUST_CHECK;
bool lw_snapshot_add_chunk(struct lw_snapshot *snapshot, uint64_t address, uint32_t len)
    LW_MUST_CHECK;
/* Read nothing of the C stack, or no chunk, or no frame, or no frame that has not been used
 * for long. A function that runs for a moment, again and again, has the same frame each
 * time: if it were not known already when it is met, it would have returned before it was
 * read. */
void lw_snapshot_drop_cframes(struct lw_snapshot *snapshot);
void lw_snapshot_drop_chunks(struct lw_snapshot *snapshot);
void lw_snapshot_drop_frames(struct lw_snapshot *snapshot);
bool lw_snapshot_drop_idle(struct lw_snapshot *snapshot) LW_MUST_CHECK;

#endif
