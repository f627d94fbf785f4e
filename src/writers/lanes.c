/* The first lanes are looked through one by one, each with its open things as a list
 * whose head is the innermost. A file in which thousands overlap would make that slow, so
 * further lanes hold one thing at a time and are taken by whichever is free first. */

#include "writers/lanes.h"

#include "base/alloc.h"

#define NONE UINT32_MAX
#define SEARCHED 64 /* more streams of work than that never overlap in a real program */

struct lw_lane {
    uint32_t inner;   /* in the pool: the innermost that is open; NONE: none */
    uint64_t free_ns; /* of a crowded lane: when it is empty again */
};

struct lw_lane_open {
    uint64_t end_ns;
    uint32_t outer; /* in the pool; NONE: none. Of an unused one: the next unused */
};

void lw_lanes_reset(struct lw_lanes *lanes)
{
    lanes->count = lanes->heap_count = lanes->pool_count = 0;
    lanes->free_open = NONE;
}

void lw_lanes_release(struct lw_lanes *lanes)
{
    lw_free(lanes->list);
    lw_free(lanes->pool);
    lw_free(lanes->heap);
    *lanes = (struct lw_lanes){ 0 };
}

/* Does it fit on LANE? What has ended there is taken off first. */
static bool fits(struct lw_lanes *lanes, struct lw_lane *lane, uint64_t start_ns,
                 uint64_t end_ns)
{
    while (lane->inner != NONE && lanes->pool[lane->inner].end_ns <= start_ns) {
        uint32_t ended = lane->inner;

        lane->inner = lanes->pool[ended].outer;
        lanes->pool[ended].outer = lanes->free_open;
        lanes->free_open = ended;
    }
    return lane->inner == NONE || lanes->pool[lane->inner].end_ns >= end_ns;
}

static bool push(struct lw_lanes *lanes, struct lw_lane *lane, uint64_t end_ns,
                 struct lw_error *err)
{
    uint32_t open = lanes->free_open;

    if (open == NONE) {
        if (!lw_grow(&lanes->pool, &lanes->pool_capacity, lanes->pool_count + 1,
                     sizeof(*lanes->pool), err))
            return false;
        open = (uint32_t)lanes->pool_count++;
    } else {
        lanes->free_open = lanes->pool[open].outer;
    }
    lanes->pool[open] = (struct lw_lane_open){ end_ns, lane->inner };
    lane->inner = open;
    return true;
}

static bool add_lane(struct lw_lanes *lanes, struct lw_error *err)
{
    if (!lw_grow(&lanes->list, &lanes->capacity, lanes->count + 1, sizeof(*lanes->list),
                 err) ||
        (lanes->count >= SEARCHED &&
         !lw_grow(&lanes->heap, &lanes->heap_capacity, lanes->heap_count + 1,
                  sizeof(*lanes->heap), err)))
        return false;
    lanes->list[lanes->count++] = (struct lw_lane){ .inner = NONE };
    return true;
}

static uint64_t freed_at(const struct lw_lanes *lanes, size_t at)
{
    return lanes->list[lanes->heap[at]].free_ns;
}

static void swap_heap(struct lw_lanes *lanes, size_t a, size_t b)
{
    uint32_t held = lanes->heap[a];

    lanes->heap[a] = lanes->heap[b];
    lanes->heap[b] = held;
}

static void sift_up(struct lw_lanes *lanes, size_t at)
{
    for (; at && freed_at(lanes, at) < freed_at(lanes, (at - 1) / 2); at = (at - 1) / 2)
        swap_heap(lanes, at, (at - 1) / 2);
}

static void sift_down(struct lw_lanes *lanes)
{
    size_t at = 0, child;

    while ((child = 2 * at + 1) < lanes->heap_count) {
        if (child + 1 < lanes->heap_count &&
            freed_at(lanes, child + 1) < freed_at(lanes, child))
            child++;
        if (freed_at(lanes, at) <= freed_at(lanes, child))
            break;
        swap_heap(lanes, at, child);
        at = child;
    }
}

static bool place_crowded(struct lw_lanes *lanes, uint64_t start_ns, uint64_t end_ns,
                          uint32_t *lane, struct lw_error *err)
{
    if (lanes->heap_count && freed_at(lanes, 0) <= start_ns) {
        *lane = lanes->heap[0];
        lanes->list[*lane].free_ns = end_ns;
        sift_down(lanes);
        return true;
    }
    *lane = (uint32_t)lanes->count;
    if (!add_lane(lanes, err))
        return false;
    lanes->list[*lane].free_ns = end_ns;
    lanes->heap[lanes->heap_count++] = *lane;
    sift_up(lanes, lanes->heap_count - 1);
    return true;
}

bool lw_lanes_place(struct lw_lanes *lanes, uint64_t start_ns, uint64_t end_ns,
                    uint32_t *lane, struct lw_error *err)
{
    uint32_t at = 0;

    while (at < lanes->count && at < SEARCHED &&
           !fits(lanes, &lanes->list[at], start_ns, end_ns))
        at++;
    if (at == SEARCHED)
        return place_crowded(lanes, start_ns, end_ns, lane, err);
    if (at == lanes->count && !add_lane(lanes, err))
        return false;
    *lane = at;
    return push(lanes, &lanes->list[at], end_ns, err);
}

/* Walking */

struct lw_lane_ending {
    uint64_t end_ns;
    uint32_t index;
};

bool lw_lane_walk_next(struct lw_lane_walk *walk, struct lw_lane_event *event)
{
    const struct lw_lane_ending *inner =
        walk->open_count ? &walk->open[walk->open_count - 1] : NULL;
    uint64_t start_ns = 0, end_ns = 0;
    uint32_t index = 0;

    if (walk->next < walk->count) {
        index = walk->order[walk->next];
        walk->bounds(walk->owner, index, &start_ns, &end_ns);
    }
    if (inner && (walk->next == walk->count || inner->end_ns <= start_ns)) {
        *event = (struct lw_lane_event){ inner->end_ns, inner->index, false };
        walk->open_count--;
        return true;
    }
    if (walk->next == walk->count || walk->failed)
        return false;
    if (walk->open_count == walk->open_capacity &&
        !lw_grow(&walk->open, &walk->open_capacity, walk->open_count + 1,
                 sizeof(*walk->open), NULL)) {
        walk->failed = true;
        return false;
    }
    walk->open[walk->open_count++] = (struct lw_lane_ending){ end_ns, index };
    walk->next++;
    *event = (struct lw_lane_event){ start_ns, index, true };
    return true;
}

bool lw_lane_walk_end(struct lw_lane_walk *walk, struct lw_error *err)
{
    lw_free(walk->open);
    walk->open = NULL;
    walk->open_count = walk->open_capacity = 0;
    if (walk->failed)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory");
    return true;
}
