/* One pass over the frames with a hash of what makes them alike. */

#include "model/codes.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

struct numbering {
    const struct lw_frame *frames;
    const lw_frame_id *first; /* by code */
    enum lw_alike alike;
};

static bool same_code(const void *owner, uint32_t number, const void *key)
{
    const struct numbering *numbering = owner;
    const struct lw_frame *a = &numbering->frames[numbering->first[number - 1]];
    const struct lw_frame *b = key;

    return a->name == b->name && a->file == b->file && a->first_line == b->first_line &&
           a->kind == b->kind &&
           (a->line == b->line || numbering->alike != LW_ALIKE_LINE) &&
           (a->variant == b->variant || numbering->alike != LW_ALIKE_FUNCTION);
}

static uint64_t hash_code(const struct lw_frame *frame, enum lw_alike alike)
{
    uint32_t line = alike == LW_ALIKE_LINE ? frame->line : frame->first_line;

    return lw_hash_u64((uint64_t)frame->name << 32 | frame->file) ^
           lw_hash_u64((uint64_t)line << 8 | frame->kind);
}

bool lw_codes_init(struct lw_codes *codes, const struct lw_profile *profile,
                   enum lw_alike alike, struct lw_error *err)
{
    struct numbering numbering = { .alike = alike };
    struct lw_map map;
    size_t frame_count;
    bool done = false;

    memset(codes, 0, sizeof(*codes));
    lw_map_init(&map);
    numbering.frames = lw_stacks_frames(profile->stacks, &frame_count);
    codes->code_of = lw_alloc(frame_count * sizeof(*codes->code_of), err);
    codes->first = lw_alloc(frame_count * sizeof(*codes->first), err);
    numbering.first = codes->first;
    if (!codes->code_of || !codes->first)
        goto out;
    for (size_t i = 0; i < frame_count; i++) {
        const struct lw_frame *frame = &numbering.frames[i];
        uint64_t hash = hash_code(frame, alike);
        uint32_t number = lw_map_find(&map, hash, same_code, &numbering, frame);

        if (!number) {
            codes->first[codes->count++] = (lw_frame_id)i;
            number = (uint32_t)codes->count;
            if (!lw_map_add(&map, hash, number, err))
                goto out;
        }
        codes->code_of[i] = number - 1;
    }
    done = true;
out:
    lw_map_release(&map);
    return done;
}

void lw_codes_release(struct lw_codes *codes)
{
    lw_free(codes->code_of);
    lw_free(codes->first);
    memset(codes, 0, sizeof(*codes));
}
