/* The spans of a profile, sorted into tracks on which they nest.
 *
 * Formats that say "open" and "close" need spans of a track to lie one inside the other
 * or apart. Most spans of a thread do; those of coroutines and of ranges that a program
 * ends in another order than it began them do not. Each of those goes on the first
 * further track of its thread where it fits (writers/lanes.h). */
#ifndef LW_WRITERS_TIMELINE_H
#define LW_WRITERS_TIMELINE_H

#include "model/profile.h"
#include "writers/lanes.h"

struct lw_timeline_track {
    uint32_t thread; /* index */
    uint32_t number; /* 0: the thread's own; else one of those beside it */
    size_t first;    /* in `order` */
    size_t count;
};

struct lw_timeline {
    const struct lw_profile *profile; /* borrowed */
    uint32_t *order; /* owned: spans by track, then start, outer first */
    struct lw_timeline_track *tracks; /* owned: by thread, then number */
    size_t track_count;
    bool *has_calls; /* owned: by thread, whether its calls are there as spans, not only
                        ranges that the program announced */
};

/* Release in any case. */
bool lw_timeline_init(struct lw_timeline *timeline, const struct lw_profile *profile,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_timeline_release(struct lw_timeline *timeline); /* zeroed is fine */

/* Along one track; lw_lane_walk_end() ends it. */
struct lw_lane_walk lw_timeline_walk(const struct lw_timeline *timeline,
                                     const struct lw_timeline_track *track);

/* What a span is: the last frame of its stack. */
lw_frame_id lw_span_frame(const struct lw_profile *profile, const struct lw_span *span);

/* A mark that takes no time: something happened. */
bool lw_span_is_instant(const struct lw_profile *profile, const struct lw_span *span);

/* When a span ends; one that would end beyond the clock ends with it. */
static inline uint64_t lw_span_end_ns(const struct lw_span *span)
{
    uint64_t end_ns = span->start_ns + span->duration_ns;

    return end_ns < span->start_ns ? UINT64_MAX : end_ns;
}

#endif
