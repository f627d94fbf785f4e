#include "sampler/walking.h"

#include <string.h>

#include "base/alloc.h"

/* Of generators that run one another. */
#define LINKS_MAX 1000u

bool lw_walking_get(const struct lw_walking *at, int which, uint64_t address,
                    struct lw_py_frame *frame)
{
    const unsigned char *bytes =
        lw_snapshot_at(at->snapshot, which, address, lw_py_frame_len(at->layout));

    if (!bytes)
        return false;
    *frame = lw_py_frame_parse(at->layout, bytes);
    return true;
}

enum lw_agreement lw_walking_get_same(const struct lw_walking *at, uint64_t address,
                                      struct lw_py_frame *frame)
{
    struct lw_py_frame first;

    if (!lw_walking_get(at, LW_FIRST, address, &first) ||
        !lw_walking_get(at, LW_SECOND, address, frame))
        return LW_MISSING;
    return first.code == frame->code && first.previous == frame->previous &&
                   first.owner == frame->owner &&
                   (at->snapshot->is_still ||
                    (first.is_executing && frame->is_executing))
               ? LW_SAME
               : LW_CHANGED;
}

bool lw_walking_held_still(const struct lw_walking *at, uint64_t address, size_t len)
{
    const unsigned char *first = lw_snapshot_at(at->snapshot, LW_FIRST, address, len);
    const unsigned char *second = lw_snapshot_at(at->snapshot, LW_SECOND, address, len);

    return first && second && memcmp(first, second, len) == 0;
}

bool lw_walking_is_made_up(const struct lw_walking *at, uint32_t code)
{
    return code > 0 && at->codes->codes[code].is_made_up;
}

bool lw_walking_push(struct lw_walking *at, uint64_t address,
                     const struct lw_py_frame *frame, uint32_t code)
{
    struct lw_walk *walk = at->walk;

    if (lw_walking_is_made_up(at, code))
        return true;
    if (walk->count >= LW_WALK_DEPTH_MAX ||
        !lw_grow(&walk->frames, &walk->capacity, walk->count + 1, sizeof(*walk->frames),
                 NULL))
        return false;
    walk->frames[walk->count++] = (struct lw_walk_frame){
        .address = address,
        .code = code,
        .instruction = lw_py_frame_instruction(at->layout, frame),
        .is_entry = frame->is_entry,
    };
    return true;
}

uint32_t lw_walking_code(struct lw_walking *at, const struct lw_py_frame *frame)
{
    return lw_code_cache_at(at->codes, at->memory, frame->code, frame->globals,
                            at->now_ns);
}

bool lw_walking_can_call(struct lw_walking *at, const struct lw_py_frame *frame)
{
    if (!frame->has_saved_stack || !at->layout->has_data_stack ||
        lw_py_frame_instruction(at->layout, frame) > 0)
        return frame->has_saved_stack;
    return lw_walking_is_made_up(at, lw_walking_code(at, frame));
}

void lw_walking_reverse(struct lw_walk *walk, size_t first)
{
    for (size_t i = first, j = walk->count; i + 1 < j; i++) {
        struct lw_walk_frame frame = walk->frames[i];

        walk->frames[i] = walk->frames[--j];
        walk->frames[j] = frame;
    }
}

bool lw_walking_push_between(struct lw_walking *at, int which, uint64_t address,
                             uint64_t caller, bool *is_entry)
{
    size_t first = at->walk->count;
    unsigned links = 0;

    while (address != caller) {
        struct lw_py_frame frame;
        uint32_t code;

        if (address == 0 || links++ > LINKS_MAX ||
            lw_snapshot_chunk(at->snapshot, address) ||
            lw_walking_get_same(at, address, &frame) != LW_SAME ||
            !lw_walking_get(at, which, address, &frame))
            goto broken;
        if (lw_py_frame_is_shim(at->layout, &frame)) {
            if (at->walk->count > first)
                at->walk->frames[at->walk->count - 1].is_entry = true;
            else
                *is_entry = true;
        } else {
            code = lw_walking_code(at, &frame);
            if (code == 0 || !lw_walking_push(at, address, &frame, code))
                goto broken;
        }
        address = frame.previous;
    }
    lw_walking_reverse(at->walk, first);
    return true;

broken:
    at->walk->count = first;
    return false;
}
