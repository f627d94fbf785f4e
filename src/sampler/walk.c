#include "sampler/walk.h"

#include <string.h>

#include "base/alloc.h"
#include "sampler/chunks.h"
#include "sampler/running.h"

/* Bounds on what a broken or hostile target can make us do. */
#define LEARN_MAX 20000u

void lw_walk_release(struct lw_walk *walk)
{
    lw_free(walk->frames);
    memset(walk, 0, sizeof(*walk));
}

/* ---- one frame ---------------------------------------------------------------------- */

bool lw_walk_alone(struct lw_code_cache *codes, struct lw_memory *memory,
                   uint64_t address, uint64_t now_ns, struct lw_walk_frame *found)
{
    const struct lw_py_layout *layout = codes->layout;
    unsigned char bytes[256];
    struct lw_py_frame frame;

    if (lw_py_frame_len(layout) > sizeof(bytes) ||
        !lw_memory_get(memory, address, bytes, lw_py_frame_len(layout)))
        return false;
    frame = lw_py_frame_parse(layout, bytes);
    *found = (struct lw_walk_frame){
        .address = address,
        .code = lw_code_cache_at(codes, memory, frame.code, frame.globals, now_ns),
        .instruction = lw_py_frame_instruction(layout, &frame),
        .is_entry = frame.is_entry,
    };
    return found->code > 0;
}

/* ---- what to read ------------------------------------------------------------------- */

/* Follow the links from ADDRESS to the root, and have the frames that were not read, which
 * are read one by one now, read with the others from now on. */
static bool learn_frames(struct lw_walking *at, uint64_t address)
{
    const struct lw_py_layout *layout = at->layout;
    const uint32_t len = lw_py_frame_len(layout);
    unsigned char bytes[LW_LAYOUT_COPY_MAX];
    size_t frames = at->snapshot->frame_count;
    unsigned learnt = 0;

    for (unsigned links = 0; address && links < LW_WALK_DEPTH_MAX; links++) {
        const unsigned char *known =
            lw_snapshot_at(at->snapshot, LW_SECOND, address, len);

        if (!known) {
            if (learnt == LEARN_MAX ||
                !lw_memory_get(at->memory, address, bytes, len) ||
                !lw_snapshot_add_frame(at->snapshot, address, len) ||
                at->snapshot->frame_count == frames)
                break; /* or it leads in a circle */
            frames++;
            learnt++;
        }
        address = lw_py_frame_parse(layout, known ? known : bytes).previous;
    }
    return learnt > 0;
}

/* ---- from the leaf down, when nothing moved ------------------------------------------ */

/* Does the frame at ADDRESS, of CODE, wait for somebody, and end where the frame at CALLEE
 * begins? CALLEE 0: there is none on the data stack. */
static bool is_calling(const struct lw_walking *at, uint64_t address, uint32_t code,
                       uint64_t callee)
{
    const struct lw_snapshot_piece *chunk = lw_snapshot_chunk(at->snapshot, address);
    uint32_t len = at->codes->codes[code].frame_bytes;

    if (!chunk)
        return lw_walking_held_still(at, address, lw_py_frame_len(at->layout));
    if (callee != 0 && chunk == lw_snapshot_chunk(at->snapshot, callee) &&
        address + len != callee)
        return false;
    return lw_walking_held_still(at, address, len);
}

/* All frames from ADDRESS to the root, if every one of them held still. */
static enum lw_agreement climb_down(struct lw_walking *at, uint64_t address,
                                    uint64_t *missing)
{
    /* As many as fit into what was read. */
    const size_t frames_max = at->snapshot->copy_capacity / lw_py_frame_len(at->layout);
    const uint64_t leaf = address;
    bool is_from_c = true; /* whatever the frame at ADDRESS called last */
    uint64_t callee = 0;

    at->walk->count = 0;
    for (size_t links = 0; address; links++) {
        struct lw_py_frame frame;
        enum lw_agreement agreement = lw_walking_get_same(at, address, &frame);
        uint32_t code;

        *missing = address;
        if (agreement != LW_SAME)
            return agreement;
        if (lw_py_frame_is_shim(at->layout, &frame)) {
            if (at->walk->count > 0)
                at->walk->frames[at->walk->count - 1].is_entry = true;
            is_from_c = true;
        } else {
            bool is_still = at->snapshot->is_still;

            code = lw_walking_code(at, &frame);
            if (code == 0 ? !(is_still && address == leaf) /* it is only being made */
                          : (address != leaf && !is_still &&
                             ((!is_from_c && !lw_walking_can_call(at, &frame)) ||
                              !is_calling(at, address, code, callee))) ||
                                !lw_walking_push(at, address, &frame, code))
                return LW_CHANGED;
            if (lw_snapshot_chunk(at->snapshot, address))
                callee = address;
            is_from_c = frame.is_entry;
        }
        if (links > frames_max) /* in a circle */
            return LW_CHANGED;
        address = frame.previous;
    }
    lw_walking_reverse(at->walk, 0);
    return LW_SAME;
}

/* ---- from the root up, when something did -------------------------------------------- */

/* Has the frame at CALLER, which ends at END if that is in the same chunk, called
 * somebody? IS_FROM_C: not in the same run of the interpreter's loop. */
static bool is_waiting(struct lw_walking *at, uint64_t caller, uint64_t end,
                       bool is_from_c)
{
    struct lw_py_frame frame;

    if (!is_from_c && (!lw_walking_get(at, LW_SECOND, caller, &frame) ||
                       !lw_walking_can_call(at, &frame)))
        return false;
    return lw_walking_held_still(at, caller,
                                 lw_snapshot_chunk(at->snapshot, caller) ==
                                         lw_snapshot_chunk(at->snapshot, end)
                                     ? end - caller
                                     : lw_py_frame_len(at->layout));
}

/* The frames of one chunk, oldest first, from START to END; *CALLER is the last frame
 * before, and after. False: not all held still. */
static bool climb_chunk(struct lw_walking *at, uint64_t start, uint64_t end,
                        uint64_t *caller)
{
    while (start + lw_py_frame_len(at->layout) <= end) {
        struct lw_py_frame frame;
        bool is_direct;
        uint32_t code;

        if (lw_walking_get_same(at, start, &frame) != LW_SAME)
            return false;
        code = lw_walking_code(at, &frame);
        is_direct = frame.previous == *caller && !frame.is_entry;
        if (code == 0 || (*caller && !is_waiting(at, *caller, start, !is_direct)) ||
            !lw_walking_push_between(at, LW_SECOND, frame.previous, *caller,
                                     &frame.is_entry) ||
            !lw_walking_push(at, start, &frame, code))
            return false;
        *caller = start;
        start += at->codes->codes[code].frame_bytes;
    }
    return true;
}

/* How far the newest chunk was in use at both looks; 0: it was another one. */
static uint64_t lowest_top(const struct lw_walking *at)
{
    const struct lw_thread_words *first = &at->words[LW_FIRST];
    const struct lw_thread_words *second = &at->words[LW_SECOND];

    if (first->chunk != second->chunk)
        return 0;
    return first->top < second->top ? first->top : second->top;
}

/* The data stack as far as it held still; *LAST becomes the address of its last frame.
 * True: that is all of it, and its top was the same both times. */
static bool climb_up(struct lw_walking *at, uint64_t *last)
{
    uint64_t top = lowest_top(at);

    at->walk->count = 0;
    for (size_t i = at->snapshot->chunk_count; i-- > 0;) {
        const struct lw_snapshot_piece *chunk = &at->snapshot->chunks[i];
        uint64_t start = chunk->address + at->layout->chunk_data;
        uint64_t end = chunk->address + chunk->len;

        if (i + 1 == at->snapshot->chunk_count)
            start += 8; /* the first word of the first chunk is never used */
        if (i == 0 && top < start)
            return false;
        if (!climb_chunk(at, start, i == 0 && top < end ? top : end, last))
            return false;
    }
    return top != 0 && top == at->words[LW_FIRST].top &&
           top == at->words[LW_SECOND].top;
}

/* Where the current frame stands was not known when it was read. If nothing of the data
 * stack has moved, and its last frame is the one that runs, that does not matter. */
static bool is_known_without_cframe(struct lw_walking *at)
{
    uint64_t last = 0, current;

    return at->words[LW_SECOND].cframe != 0 && climb_up(at, &last) && last != 0 &&
           lw_memory_u64(at->memory, at->words[LW_SECOND].cframe, &current) &&
           current == last;
}

/* Frames that are objects know their callers only; which frame a frame has called is
 * found among those that were read. */
static bool is_called_by(const void *owner, uint32_t number, const void *key)
{
    const struct lw_walking *at = owner;
    struct lw_py_frame frame;

    return lw_walking_get_same(at, at->snapshot->frames[number - 1].address, &frame) ==
               LW_SAME &&
           frame.previous == *(const uint64_t *)key;
}

static bool map_callers(struct lw_walking *at)
{
    struct lw_snapshot *snapshot = at->snapshot;

    lw_map_reset(&snapshot->by_caller);
    for (size_t i = 0; i < snapshot->frame_count; i++) {
        uint32_t idle = snapshot->frames[i].idle;
        struct lw_py_frame frame;

        if (lw_walking_get_same(at, snapshot->frames[i].address, &frame) == LW_SAME &&
            !lw_map_add(&snapshot->by_caller, lw_hash_u64(frame.previous),
                        (uint32_t)i + 1, NULL))
            return false;
        snapshot->frames[i].idle = idle;
    }
    return true;
}

/* The frames that held still and are executed, from the root up. */
static void climb_objects(struct lw_walking *at)
{
    struct lw_snapshot *snapshot = at->snapshot;
    uint64_t caller = 0;

    at->walk->count = 0;
    if (!map_callers(at))
        return;
    while (at->walk->count < snapshot->frame_count) {
        uint32_t number = lw_map_find(&snapshot->by_caller, lw_hash_u64(caller),
                                      is_called_by, at, &caller);
        struct lw_py_frame frame;
        uint32_t code;

        if (number == 0 ||
            (caller && !lw_walking_held_still(at, caller, lw_py_frame_len(at->layout))))
            return;
        caller = snapshot->frames[number - 1].address;
        if (lw_walking_get_same(at, caller, &frame) != LW_SAME)
            return;
        code = lw_walking_code(at, &frame);
        if (code == 0 || !lw_walking_push(at, caller, &frame, code))
            return;
    }
}

/* The one frame on top of those that held still, if the thread was seen to run it between
 * the copies, as copy WHICH has it. Whatever it was then, it was called by the last of
 * these, which has not returned: its caller waits. So functions that run for some
 * microseconds are seen though they are not in both copies. (A generator's frame is where
 * anything may be a moment later, so this does not hold for it.) False: what was on top is
 * not known.
 *
 * The first copy will do if the frame is an object, which says whether it is executed; on
 * the data stack it may have been made after, so the second has to be in time. */
static bool push_leaf(struct lw_walking *at, int which)
{
    const struct lw_thread_words *between = &at->words[LW_FIRST];
    const struct lw_thread_words *after = &at->words[LW_SECOND];
    const struct lw_walk *walk = at->walk;
    uint64_t address = between->frame, caller;
    struct lw_py_frame frame, below;
    uint32_t code;

    if (walk->count == 0 || address == 0 ||
        (which == LW_SECOND && (after->frame != address || after->top != between->top)))
        return false;
    caller = walk->frames[walk->count - 1].address;
    if (address == caller)
        return true;
    if ((at->layout->has_data_stack && !lw_snapshot_chunk(at->snapshot, address)) ||
        !lw_walking_get(at, which, address, &frame) || frame.previous != caller ||
        !frame.is_executing || lw_py_frame_is_shim(at->layout, &frame))
        return false;
    if (!frame.is_entry && (!lw_walking_get(at, which, caller, &below) ||
                            !lw_walking_can_call(at, &below)))
        return false;
    code = lw_walking_code(at, &frame);
    return code > 0 && lw_walking_push(at, address, &frame, code);
}

/* Who was on top of the frames that held still? False: that is not known. */
static bool push_top(struct lw_walking *at)
{
    if (!at->layout->has_data_stack)
        return push_leaf(at, LW_FIRST) || push_leaf(at, LW_SECOND);
    return lw_running_push(at, LW_FIRST) || push_leaf(at, LW_SECOND) ||
           lw_running_push(at, LW_SECOND);
}

/* Was the last frame at the same instruction, with the same variables, in both copies? If
 * not it ran, and may have called somebody and be back. */
static bool is_leaf_still(const struct lw_walking *at)
{
    const struct lw_walk *walk = at->walk;
    const struct lw_walk_frame *leaf;

    if (walk->count == 0 || at->snapshot->is_still)
        return true;
    leaf = &walk->frames[walk->count - 1];
    return lw_walking_held_still(at, leaf->address,
                                 at->codes->codes[leaf->code].frame_bytes);
}

/* ---- all of it ---------------------------------------------------------------------- */

/* Is everything there to be walked? If not, it will be the next time. */
static bool is_ready(struct lw_walking *at)
{
    const struct lw_thread_words *words = &at->words[LW_SECOND];
    bool is_known =
        words->cframe == 0 || lw_snapshot_learn_cframe(at->snapshot, words->cframe);

    if (!at->layout->has_data_stack || lw_chunks_hold(at->snapshot, at->layout, words))
        return is_known;
    lw_chunks_plan(at->snapshot, at->layout, at->memory, words);
    return false;
}

/* At the first of two looks at the same frame, was the stack shallower? */
static bool was_shallower(const struct lw_walking *at)
{
    const struct lw_thread_words *first = &at->words[LW_FIRST];
    const struct lw_thread_words *second = &at->words[LW_SECOND];

    return at->layout->has_data_stack &&
           (first->chunk != second->chunk || first->top < second->top);
}

enum lw_walk_result lw_walk_stack(struct lw_walk *walk, struct lw_snapshot *snapshot,
                                  struct lw_code_cache *codes, struct lw_memory *memory,
                                  uint64_t now_ns, bool is_last)
{
    struct lw_walking at = {
        .walk = walk,
        .snapshot = snapshot,
        .codes = codes,
        .layout = codes->layout,
        .memory = memory,
        .now_ns = now_ns,
        .words = { lw_snapshot_words(snapshot, codes->layout, LW_FIRST),
                   lw_snapshot_words(snapshot, codes->layout, LW_SECOND) },
    };
    enum lw_agreement agreement = LW_CHANGED;
    uint64_t missing = 0, last = 0;

    walk->count = 0;
    walk->is_moving = false;
    if (!is_ready(&at)) {
        if (!at.layout->has_data_stack ||
            !lw_chunks_hold(snapshot, at.layout, &at.words[LW_SECOND])) {
            walk->is_moving = true;
            return is_last ? LW_WALK_DONE : LW_WALK_AGAIN;
        }
        walk->is_moving = !is_known_without_cframe(&at);
        return is_last || !walk->is_moving ? LW_WALK_DONE : LW_WALK_AGAIN;
    }
    if (at.words[LW_FIRST].frame == 0 && at.words[LW_SECOND].frame == 0)
        return LW_WALK_NONE;
    if (at.words[LW_FIRST].frame == at.words[LW_SECOND].frame && !was_shallower(&at))
        agreement = climb_down(&at, at.words[LW_SECOND].frame, &missing);
    if (agreement == LW_MISSING && !is_last && learn_frames(&at, missing))
        return LW_WALK_AGAIN;
    if (agreement != LW_SAME) {
        if (at.layout->has_data_stack)
            climb_up(&at, &last);
        else
            climb_objects(&at);
    }
    lw_running_note(&at);
    if (agreement != LW_SAME)
        walk->is_moving = !push_top(&at);
    else if (!is_leaf_still(&at))
        lw_running_push(&at, LW_FIRST);
    lw_chunks_shrink(snapshot, &at.words[LW_SECOND]);
    if (!lw_snapshot_drop_idle(snapshot)) {
        /* Then it knows fewer. */
    }
    /* A frame of the interpreter's own at the root, and nothing on it. */
    return walk->count == 0 && !walk->is_moving ? LW_WALK_NONE : LW_WALK_DONE;
}
