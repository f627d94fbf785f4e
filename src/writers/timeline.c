/* Two sorts and one pass: by thread and start, so that each span meets the tracks as
 * they are when it begins; then by track. */

#include "writers/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* The order of spans: what is compared lies side by side, since a sort of millions is
 * bound by memory. */
struct key {
    uint32_t thread, track;
    uint64_t start_ns, end_ns;
    uint32_t span;
};

static int compare_starts(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns ? -1 : 1;
    return x->span < y->span ? -1 : 1;
}

struct placing {
    struct lw_timeline *timeline;
    struct key *keys;
    size_t count;
    struct lw_lanes lanes; /* of the thread at hand */
};

/* *IS_SORTED: all spans fit on their threads' first tracks. */
static bool place_all(struct placing *placing, bool *is_sorted, struct lw_error *err)
{
    *is_sorted = true;
    for (size_t i = 0; i < placing->count; i++) {
        struct key *key = &placing->keys[i];

        if (i == 0 || key->thread != key[-1].thread)
            lw_lanes_reset(&placing->lanes);
        if (!lw_lanes_place(&placing->lanes, key->start_ns, key->end_ns, &key->track,
                            err))
            return false;
        *is_sorted = *is_sorted && key->track == 0;
    }
    return true;
}

static unsigned span_kind(const struct lw_profile *profile, const struct lw_span *span)
{
    return lw_profile_frame(profile, lw_span_frame(profile, span))->kind;
}

/* The others were announced, by the program or by torch. */
static bool is_call(const struct lw_profile *profile, const struct lw_span *span)
{
    unsigned kind = span_kind(profile, span);

    return kind == LW_FRAME_PYTHON || kind == LW_FRAME_C || kind == LW_FRAME_NATIVE;
}

bool lw_span_is_instant(const struct lw_profile *profile, const struct lw_span *span)
{
    return span->duration_ns == 0 && span_kind(profile, span) == LW_FRAME_MARK;
}

static bool list_tracks(struct placing *placing, struct lw_error *err)
{
    struct lw_timeline *timeline = placing->timeline;
    size_t capacity = 0;

    for (size_t i = 0; i < placing->count; i++) {
        const struct key *key = &placing->keys[i];

        if (i == 0 || key->thread != key[-1].thread || key->track != key[-1].track) {
            if (!lw_grow(&timeline->tracks, &capacity, timeline->track_count + 1,
                         sizeof(*timeline->tracks), err))
                return false;
            timeline->tracks[timeline->track_count++] = (struct lw_timeline_track){
                .thread = key->thread, .number = key->track, .first = i
            };
        }
        timeline->tracks[timeline->track_count - 1].count++;
        timeline->order[i] = key->span;
        if (is_call(timeline->profile, &timeline->profile->spans[key->span]))
            timeline->has_calls[key->thread] = true;
    }
    return true;
}

static bool keys_are_sorted(const struct placing *placing)
{
    for (size_t i = 1; i < placing->count; i++)
        if (compare_starts(&placing->keys[i - 1], &placing->keys[i]) > 0)
            return false;
    return true;
}

static void sort_keys(struct placing *placing)
{
    if (!keys_are_sorted(placing))
        qsort(placing->keys, placing->count, sizeof(*placing->keys), compare_starts);
}

static bool place(struct placing *placing, struct lw_error *err)
{
    const struct lw_profile *profile = placing->timeline->profile;
    bool is_sorted;

    placing->keys = lw_alloc(placing->count * sizeof(*placing->keys), err);
    if (!placing->keys)
        return false;
    for (size_t i = 0; i < placing->count; i++) {
        const struct lw_span *span = &profile->spans[i];

        placing->keys[i] = (struct key){ .thread = span->thread,
                                         .start_ns = span->start_ns,
                                         .end_ns = lw_span_end_ns(span),
                                         .span = (uint32_t)i };
    }
    sort_keys(placing);
    if (!place_all(placing, &is_sorted, err))
        return false;
    if (!is_sorted)
        sort_keys(placing);
    return list_tracks(placing, err);
}

bool lw_timeline_init(struct lw_timeline *timeline, const struct lw_profile *profile,
                      struct lw_error *err)
{
    struct placing placing = { .timeline = timeline, .count = profile->span_count };
    bool done;

    memset(timeline, 0, sizeof(*timeline));
    timeline->profile = profile;
    timeline->has_calls = lw_zalloc(profile->thread_count, sizeof(bool), err);
    timeline->order = lw_alloc(profile->span_count * sizeof(*timeline->order), err);
    done = timeline->has_calls && timeline->order && place(&placing, err);
    lw_free(placing.keys);
    lw_lanes_release(&placing.lanes);
    return done;
}

void lw_timeline_release(struct lw_timeline *timeline)
{
    lw_free(timeline->order);
    lw_free(timeline->tracks);
    lw_free(timeline->has_calls);
    memset(timeline, 0, sizeof(*timeline));
}

lw_frame_id lw_span_frame(const struct lw_profile *profile, const struct lw_span *span)
{
    size_t count;

    return lw_stacks_list(profile->stacks, &count)[span->stack].frame;
}

static void span_bounds(const void *owner, uint32_t index, uint64_t *start_ns,
                        uint64_t *end_ns)
{
    const struct lw_profile *profile = owner;

    *start_ns = profile->spans[index].start_ns;
    *end_ns = lw_span_end_ns(&profile->spans[index]);
}

struct lw_lane_walk lw_timeline_walk(const struct lw_timeline *timeline,
                                     const struct lw_timeline_track *track)
{
    return (struct lw_lane_walk){ .owner = timeline->profile,
                                  .order = timeline->order + track->first,
                                  .count = track->count,
                                  .bounds = span_bounds };
}
