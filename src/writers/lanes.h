/* Rows on which things with a start and an end nest: what overlaps what is on a row goes
 * to another one, so that nothing is lost or cut.
 *
 *     lane 0   |--- a ---------|   |- d -|
 *                 |- b -|
 *     lane 1            |- c --------|
 *
 * Things are placed in the order of their starts, of equal ones the longest first; each
 * gets the first lane where it fits. A walk along one lane then says when each opens and
 * closes. */
#ifndef LW_WRITERS_LANES_H
#define LW_WRITERS_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lw_lane;
struct lw_lane_open;

struct lw_lanes {
    struct lw_lane *list; /* owned */
    size_t count, capacity;
    struct lw_lane_open *pool; /* owned: what is open, on all lanes */
    size_t pool_count, pool_capacity;
    uint32_t free_open; /* head of those of the pool that are unused */
    uint32_t *heap;     /* owned: crowded lanes, the one that ends first on top */
    size_t heap_count, heap_capacity;
};

void lw_lanes_reset(struct lw_lanes *lanes); /* no lane is taken; zeroed is fine */
void lw_lanes_release(struct lw_lanes *lanes);
bool lw_lanes_place(struct lw_lanes *lanes, uint64_t start_ns, uint64_t end_ns,
                    uint32_t *lane, struct lw_error *err) LW_MUST_CHECK;

/* Opening and closing on one lane, in the order of time: what ends at an instant is
 * closed before what begins then is opened. */
struct lw_lane_event {
    uint64_t time_ns;
    uint32_t index; /* of the thing, as `order` has it */
    bool is_open;
};

struct lw_lane_walk {
    const void *owner;     /* of the things */
    const uint32_t *order; /* those of the lane, as they were placed */
    size_t next, count;
    struct lw_lane_ending *open; /* owned: outermost first */
    size_t open_count, open_capacity;
    bool failed; /* out of memory: the walk ended early */
    void (*bounds)(const void *owner, uint32_t index, uint64_t *start_ns,
                   uint64_t *end_ns);
};

/* To be called for any number of walks, with `owner`, `order`, `count` and `bounds` set.
 * False: that was all, or memory ran out, which lw_lane_walk_end() says. */
bool lw_lane_walk_next(struct lw_lane_walk *walk, struct lw_lane_event *event);
bool lw_lane_walk_end(struct lw_lane_walk *walk, struct lw_error *err) LW_MUST_CHECK;

#endif
