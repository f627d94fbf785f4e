/* A thread's ring of records (spans, marks, counter values), read into the recording. */
#ifndef LW_RECORDER_RING_H
#define LW_RECORDER_RING_H

#include "recorder/calibration.h"
#include "recorder/trees.h"

/* Spans go to the writer in handfuls of this many. */
#define LW_RING_HANDFUL 4096

struct lw_ring_reader {
    struct lw_trees *trees;                   /* borrowed: stacks of nodes */
    const struct lw_tree_context *context;    /* borrowed */
    const struct lw_calibration *calibration; /* borrowed */
    struct lw_span *spans;     /* scratch, LW_RING_HANDFUL of them; owned */
    struct lw_origin *origins; /* the same */
    uint64_t strange_records;  /* that made no sense: dropped, counted here */
};

/* Make the scratch; the other fields are the caller's to fill. */
bool lw_ring_reader_init(struct lw_ring_reader *reader, struct lw_error *err)
    LW_MUST_CHECK;
void lw_ring_reader_release(struct lw_ring_reader *reader); /* without one is fine */

/* One ring, and how far it was read. */
struct lw_ring_place {
    uint32_t slot;
    uint32_t generation; /* records of others are strange */
    uint32_t thread;     /* its number in the recording */
    uint64_t tail;       /* records read since the beginning */
};

/* Read all records there are now, give their room back to the agent, and put in *FILL
 * how full the ring was (0 to 1). On failure (the writer's) what was not taken stays in
 * the ring. */
bool lw_ring_read(struct lw_ring_reader *reader, struct lw_ring_place *place,
                  double *fill, struct lw_error *err) LW_MUST_CHECK;

#endif
