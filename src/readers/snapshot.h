/* What the two halves of the reader of snapshots share: snapshot.c (segments, frames) and
 * snapshot_trace.c (what the allocator did). */
#ifndef LW_READERS_SNAPSHOT_H
#define LW_READERS_SNAPSHOT_H

#include "model/builder.h"
#include "readers/snapshot_pickle.h"

#define LW_SNAPSHOT_CUDA 1 /* torch's number of that type; ROCm's builds say so, too */
#define LW_SNAPSHOT_DEVICES 256 /* at most; a machine has one trace a GPU */

/* What happened to an address of a device. */
struct lw_snapshot_place {
    uint64_t address;
    uint32_t index; /* in the trace's memory */
};

struct lw_snapshot {
    struct lw_pickle pickle;
    struct lw_builder *out; /* borrowed, as `trace` */
    struct lw_trace *trace;
    uint32_t *made;    /* of each container: 1 + the frame or stack that it became */
    size_t budget;     /* how much more may be made: a list may be referred to often */
    uint64_t odd;      /* entries that were not understood */
    uint64_t start_ns; /* of the first entry of all devices */
    bool has_times;
    struct lw_snapshot_place *places; /* of the device at hand, by address */
    size_t place_count, place_capacity;
};

/* Give TRACE, which has none, one rank and one track: of whom an event is, is not known. */
bool lw_snapshot_track(struct lw_trace *trace, struct lw_error *err) LW_MUST_CHECK;

/* One more entry is made of the file's. Each takes more than one byte in it, so more of
 * them than bytes is LW_ERR_FORMAT. */
bool lw_snapshot_spend(struct lw_snapshot *s, struct lw_error *err) LW_MUST_CHECK;
/* The integer of KEY in DICT, if it is one; else OTHER. */
int64_t lw_snapshot_integer(const struct lw_snapshot *s, lw_pickle_value dict,
                            const char *key, int64_t other);
/* The stack of a block, a segment or an entry of a trace. */
bool lw_snapshot_frames(struct lw_snapshot *s, lw_pickle_value dict, lw_stack_id *stack,
                        struct lw_error *err) LW_MUST_CHECK;
/* Add the trace LIST of DEVICE (which may be None), when all segments have been read. */
bool lw_snapshot_device(struct lw_snapshot *s, lw_pickle_value list, int32_t device,
                        struct lw_error *err) LW_MUST_CHECK;

#endif
