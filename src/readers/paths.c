/* An array in the order of meeting, and a hash table of it: open addressing, linear
 * probing, at most half full, so that the usual look is one probe. Before that the child
 * that was last asked for is looked at: a program mostly calls what it just called. */

#include "readers/paths.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h" /* lw_hash_u64 */

#define FIRST_SLOTS 1024

void lw_paths_init(struct lw_paths *paths)
{
    memset(paths, 0, sizeof(*paths));
}

void lw_paths_release(struct lw_paths *paths)
{
    lw_free(paths->list);
    lw_free(paths->slots);
    lw_free(paths->stacks);
    lw_free(paths->threads);
    lw_paths_init(paths);
}

static size_t slot_of(const struct lw_paths *paths, uint32_t parent, uint32_t frame)
{
    return lw_hash_u64((uint64_t)parent << 32 | frame) & (paths->slot_count - 1);
}

static bool grow_slots(struct lw_paths *paths, struct lw_error *err)
{
    size_t count = paths->slot_count ? paths->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = lw_zalloc(count, sizeof(*slots), err);

    if (!slots)
        return false;
    lw_free(paths->slots);
    paths->slots = slots;
    paths->slot_count = count;
    for (size_t i = 0; i < paths->count; i++) {
        size_t at;

        if (paths->list[i].frame == LW_NONE)
            continue;
        at = slot_of(paths, paths->list[i].parent, paths->list[i].frame);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return true;
}

static bool add(struct lw_paths *paths, uint32_t parent, uint32_t frame, uint32_t *path,
                struct lw_error *err)
{
    if (paths->count >= LW_NONE - 1)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 stacks");
    if (!lw_grow(&paths->list, &paths->capacity, paths->count + 1, sizeof(*paths->list),
                 err))
        return false;
    *path = (uint32_t)paths->count++;
    paths->list[*path] = (struct lw_path){ .parent = parent, .frame = frame };
    return true;
}

bool lw_paths_root(struct lw_paths *paths, uint32_t thread, uint32_t *path,
                   struct lw_error *err)
{
    return add(paths, thread, LW_NONE, path, err);
}

bool lw_paths_push(struct lw_paths *paths, uint32_t parent, uint32_t frame,
                   uint32_t *path, struct lw_error *err)
{
    uint32_t latest = paths->list[parent].latest;
    size_t at;

    if (paths->list[latest].frame == frame && paths->list[latest].parent == parent) {
        *path = latest;
        return true;
    }
    if (paths->count >= paths->slot_count / 2 && !grow_slots(paths, err))
        return false;
    for (at = slot_of(paths, parent, frame); paths->slots[at];
         at = (at + 1) & (paths->slot_count - 1)) {
        const struct lw_path *found = &paths->list[paths->slots[at] - 1];

        if (found->parent == parent && found->frame == frame) {
            *path = paths->list[parent].latest = paths->slots[at] - 1;
            return true;
        }
    }
    if (!add(paths, parent, frame, path, err))
        return false;
    paths->list[parent].latest = *path;
    paths->slots[at] = *path + 1;
    return true;
}

bool lw_paths_finish(struct lw_paths *paths, const lw_frame_id *frames,
                     struct lw_builder *out, struct lw_error *err)
{
    paths->stacks = lw_alloc((paths->count + 1) * sizeof(*paths->stacks), err);
    paths->threads = lw_alloc((paths->count + 1) * sizeof(*paths->threads), err);
    if (!paths->stacks || !paths->threads)
        return false;
    for (size_t i = 0; i < paths->count; i++) {
        const struct lw_path *path = &paths->list[i];

        if (path->frame == LW_NONE) {
            paths->stacks[i] = LW_NO_STACK;
            paths->threads[i] = path->parent;
            continue;
        }
        paths->threads[i] = paths->threads[path->parent];
        if (!lw_builder_push(out, paths->stacks[path->parent], frames[path->frame],
                             &paths->stacks[i], err))
            return false;
    }
    return true;
}

bool lw_paths_add_samples(const struct lw_paths *paths, uint64_t scale,
                          struct lw_builder *out, struct lw_error *err)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < paths->count; i++) {
        struct lw_sample sample = { .thread = paths->threads[i],
                                    .stack = paths->stacks[i] };

        if (__builtin_mul_overflow(paths->list[i].self, scale, &sample.weight_ns) ||
            __builtin_add_overflow(sum, sample.weight_ns, &sum) || sum > INT64_MAX)
            return lw_fail(err, LW_ERR_LIMIT,
                           "the weights add up to more than 2^63 ns");
        if (sample.weight_ns && !lw_builder_samples(out, &sample, 1, err))
            return false;
    }
    return true;
}

bool lw_paths_add_calls(const struct lw_paths *paths, struct lw_builder *out,
                        struct lw_error *err)
{
    for (size_t i = 0; i < paths->count; i++) {
        const struct lw_path *path = &paths->list[i];
        struct lw_call_row row = { .thread = paths->threads[i],
                                   .stack = paths->stacks[i],
                                   .calls = path->calls,
                                   .self_ns = path->self };

        if ((path->calls || path->self) && !lw_builder_calls(out, &row, err))
            return false;
    }
    return true;
}
