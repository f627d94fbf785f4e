#include "sampler/walk.h"

#include <string.h>

#include "base/alloc.h"
#include "sampler/chunks.h"
#include "sampler/py_frame.h"

/* Bounds on what a broken or hostile target can make us do. */
#define DEPTH_MAX 200000u
#define LEARN_MAX 20000u
#define LINKS_MAX 1000u

/* All that the parts of a walk share. */
struct context {
    struct lw_walk *walk;
    struct lw_snapshot *snapshot;
    struct lw_code_cache *codes;
    const struct lw_py_layout *layout;
    struct lw_memory *memory;
    uint64_t now_ns;
    struct lw_thread_words words[3];
};

void lw_walk_release(struct lw_walk *walk)
{
    lw_free(walk->frames);
    memset(walk, 0, sizeof(*walk));
}

/* ---- one frame ---------------------------------------------------------------------- */

/* The frame at ADDRESS as copy WHICH has it. */
static bool get_frame(const struct context *at, int which, uint64_t address,
                      struct lw_py_frame *frame)
{
    const unsigned char *bytes =
        lw_snapshot_at(at->snapshot, which, address, lw_py_frame_len(at->layout));

    if (!bytes)
        return false;
    *frame = lw_py_frame_parse(at->layout, bytes);
    return true;
}

/* Whether both copies have the same frame at ADDRESS. The instruction may differ: a
 * frame that runs is still the same frame. */
enum agreement { MISSING, CHANGED, SAME };

static enum agreement get_same_frame(const struct context *at, uint64_t address,
                                     struct lw_py_frame *frame)
{
    struct lw_py_frame first;

    if (!get_frame(at, LW_FIRST, address, &first) ||
        !get_frame(at, LW_SECOND, address, frame))
        return MISSING;
    return first.code == frame->code && first.previous == frame->previous &&
                   first.owner == frame->owner &&
                   (at->snapshot->is_still ||
                    (first.is_executing && frame->is_executing))
               ? SAME
               : CHANGED;
}

/* Are the LEN bytes of the frame at ADDRESS the same in both copies? Those of one that
 * waits for its callee are, its variables too; one that returned and was called anew at
 * the same place differs in something. */
static bool held_still(const struct context *at, uint64_t address, size_t len)
{
    const unsigned char *first = lw_snapshot_at(at->snapshot, LW_FIRST, address, len);
    const unsigned char *second = lw_snapshot_at(at->snapshot, LW_SECOND, address, len);

    return first && second && memcmp(first, second, len) == 0;
}

static bool push(struct context *at, uint64_t address, const struct lw_py_frame *frame,
                 uint32_t code)
{
    struct lw_walk *walk = at->walk;

    if (code > 0 && at->codes->codes[code].is_made_up)
        return true;
    if (walk->count >= DEPTH_MAX ||
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

static uint32_t code_of(struct context *at, const struct lw_py_frame *frame)
{
    return lw_code_cache_at(at->codes, at->memory, frame->code, frame->globals,
                            at->now_ns);
}

/* Can FRAME have called another in the same run of the interpreter's loop? One that runs
 * itself has not; nor has one that was only just made, though its stack is as saved: no
 * function calls with its first instruction. What the interpreter puts around __init__
 * stands at its first all the time. */
static bool can_call(struct context *at, const struct lw_py_frame *frame)
{
    uint32_t code;

    if (!frame->has_saved_stack || !at->layout->has_data_stack ||
        lw_py_frame_instruction(at->layout, frame) > 0)
        return frame->has_saved_stack;
    code = code_of(at, frame);
    return code > 0 && at->codes->codes[code].is_made_up;
}

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
static bool learn_frames(struct context *at, uint64_t address)
{
    const struct lw_py_layout *layout = at->layout;
    const uint32_t len = lw_py_frame_len(layout);
    unsigned char bytes[LW_LAYOUT_COPY_MAX];
    size_t frames = at->snapshot->frame_count;
    unsigned learnt = 0;

    for (unsigned links = 0; address && links < DEPTH_MAX; links++) {
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
static bool is_calling(const struct context *at, uint64_t address, uint32_t code,
                       uint64_t callee)
{
    const struct lw_snapshot_piece *chunk = lw_snapshot_chunk(at->snapshot, address);
    uint32_t len = at->codes->codes[code].frame_bytes;

    if (!chunk)
        return held_still(at, address, lw_py_frame_len(at->layout));
    if (callee != 0 && chunk == lw_snapshot_chunk(at->snapshot, callee) &&
        address + len != callee)
        return false;
    return held_still(at, address, len);
}

/* The frames from FIRST on, root first. */
static void reverse(struct lw_walk *walk, size_t first)
{
    for (size_t i = first, j = walk->count; i + 1 < j; i++) {
        struct lw_walk_frame frame = walk->frames[i];

        walk->frames[i] = walk->frames[--j];
        walk->frames[j] = frame;
    }
}

/* All frames from ADDRESS to the root, if every one of them held still. */
static enum agreement climb_down(struct context *at, uint64_t address,
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
        enum agreement agreement = get_same_frame(at, address, &frame);
        uint32_t code;

        *missing = address;
        if (agreement != SAME)
            return agreement;
        if (lw_py_frame_is_shim(at->layout, &frame)) {
            if (at->walk->count > 0)
                at->walk->frames[at->walk->count - 1].is_entry = true;
            is_from_c = true;
        } else {
            bool is_still = at->snapshot->is_still;

            code = code_of(at, &frame);
            if (code == 0 ? !(is_still && address == leaf) /* it is only being made */
                          : (address != leaf && !is_still &&
                             ((!is_from_c && !can_call(at, &frame)) ||
                              !is_calling(at, address, code, callee))) ||
                                !push(at, address, &frame, code))
                return CHANGED;
            if (lw_snapshot_chunk(at->snapshot, address))
                callee = address;
            is_from_c = frame.is_entry;
        }
        if (links > frames_max) /* in a circle */
            return CHANGED;
        address = frame.previous;
    }
    reverse(at->walk, 0);
    return SAME;
}

/* ---- from the root up, when something did -------------------------------------------- */

/* Push what lies between the frames at CALLER and ADDRESS: generators that run on
 * somebody else's stack. *IS_ENTRY is set if C called the frame that ADDRESS is the caller
 * of. False: the links do not lead from the one to the other. */
static bool push_between(struct context *at, uint64_t address, uint64_t caller,
                         bool *is_entry)
{
    size_t first = at->walk->count;
    unsigned links = 0;

    while (address != caller) {
        struct lw_py_frame frame;
        uint32_t code;

        if (address == 0 || links++ > LINKS_MAX ||
            lw_snapshot_chunk(at->snapshot, address) ||
            get_same_frame(at, address, &frame) != SAME)
            goto broken;
        if (lw_py_frame_is_shim(at->layout, &frame)) {
            if (at->walk->count > first)
                at->walk->frames[at->walk->count - 1].is_entry = true;
            else
                *is_entry = true;
        } else {
            code = code_of(at, &frame);
            if (code == 0 || !push(at, address, &frame, code))
                goto broken;
        }
        address = frame.previous;
    }
    reverse(at->walk, first);
    return true;

broken:
    at->walk->count = first;
    return false;
}

/* Has the frame at CALLER, which ends at END if that is in the same chunk, called
 * somebody? IS_FROM_C: not in the same run of the interpreter's loop. */
static bool is_waiting(struct context *at, uint64_t caller, uint64_t end,
                       bool is_from_c)
{
    struct lw_py_frame frame;

    if (!is_from_c &&
        (!get_frame(at, LW_SECOND, caller, &frame) || !can_call(at, &frame)))
        return false;
    return held_still(at, caller,
                      lw_snapshot_chunk(at->snapshot, caller) ==
                              lw_snapshot_chunk(at->snapshot, end)
                          ? end - caller
                          : lw_py_frame_len(at->layout));
}

/* The frames of one chunk, oldest first, from START to END; *CALLER is the last frame
 * before, and after. False: not all held still. */
static bool climb_chunk(struct context *at, uint64_t start, uint64_t end,
                        uint64_t *caller)
{
    while (start + lw_py_frame_len(at->layout) <= end) {
        struct lw_py_frame frame;
        bool is_direct;
        uint32_t code;

        if (get_same_frame(at, start, &frame) != SAME)
            return false;
        code = code_of(at, &frame);
        is_direct = frame.previous == *caller && !frame.is_entry;
        if (code == 0 || (*caller && !is_waiting(at, *caller, start, !is_direct)) ||
            !push_between(at, frame.previous, *caller, &frame.is_entry) ||
            !push(at, start, &frame, code))
            return false;
        *caller = start;
        start += at->codes->codes[code].frame_bytes;
    }
    return true;
}

/* How far the newest chunk was in use all the time; 0: it was another one. */
static uint64_t lowest_top(const struct context *at)
{
    uint64_t top = UINT64_MAX;

    for (size_t i = 0; i < sizeof(at->words) / sizeof(at->words[0]); i++) {
        if (at->words[i].chunk != at->words[LW_SECOND].chunk)
            return 0;
        if (at->words[i].top < top)
            top = at->words[i].top;
    }
    return top;
}

/* The data stack as far as it held still; *LAST becomes the address of its last frame.
 * True: that is all of it, and its top was the same all the time. */
static bool climb_up(struct context *at, uint64_t *last)
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
           top == at->words[LW_BETWEEN].top && top == at->words[LW_SECOND].top;
}

/* Where the current frame stands was not known when it was read. If nothing of the data
 * stack has moved, and its last frame is the one that runs, that does not matter. */
static bool is_known_without_cframe(struct context *at)
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
    const struct context *at = owner;
    struct lw_py_frame frame;

    return get_same_frame(at, at->snapshot->frames[number - 1].address, &frame) ==
               SAME &&
           frame.previous == *(const uint64_t *)key;
}

static bool map_callers(struct context *at)
{
    struct lw_snapshot *snapshot = at->snapshot;

    lw_map_reset(&snapshot->by_caller);
    for (size_t i = 0; i < snapshot->frame_count; i++) {
        uint32_t idle = snapshot->frames[i].idle;
        struct lw_py_frame frame;

        if (get_same_frame(at, snapshot->frames[i].address, &frame) == SAME &&
            !lw_map_add(&snapshot->by_caller, lw_hash_u64(frame.previous),
                        (uint32_t)i + 1, NULL))
            return false;
        snapshot->frames[i].idle = idle;
    }
    return true;
}

/* The frames that held still and are executed, from the root up. */
static void climb_objects(struct context *at)
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
            (caller && !held_still(at, caller, lw_py_frame_len(at->layout))))
            return;
        caller = snapshot->frames[number - 1].address;
        if (get_same_frame(at, caller, &frame) != SAME)
            return;
        code = code_of(at, &frame);
        if (code == 0 || !push(at, caller, &frame, code))
            return;
    }
}

/* The one frame on top of those that held still, if it was there at two looks with copy
 * WHICH between them. Whatever it was then, it was called by the last of these, which has
 * not returned: its caller waits. So functions that run for some microseconds are seen
 * though they do not wait for the second copy. (A generator's frame is where anything may
 * be a moment later, so this does not hold for it.) False: what was on top is not
 * known. */
static bool push_leaf(struct context *at, int which, int before, int after)
{
    const struct lw_thread_words *words = at->words;
    const struct lw_walk *walk = at->walk;
    uint64_t address = words[before].frame, caller;
    struct lw_py_frame frame, below;
    uint32_t code;

    if (walk->count == 0 || address == 0 || words[after].frame != address ||
        words[after].top != words[before].top)
        return false;
    caller = walk->frames[walk->count - 1].address;
    if (address == caller)
        return true;
    if ((at->layout->has_data_stack && !lw_snapshot_chunk(at->snapshot, address)) ||
        !get_frame(at, which, address, &frame) || frame.previous != caller ||
        !frame.is_executing || lw_py_frame_is_shim(at->layout, &frame))
        return false;
    if (!frame.is_entry &&
        (!get_frame(at, which, caller, &below) || !can_call(at, &below)))
        return false;
    code = code_of(at, &frame);
    return code > 0 && push(at, address, &frame, code);
}

/* ---- all of it ---------------------------------------------------------------------- */

/* Is everything there to be walked? If not, it will be the next time. */
static bool is_ready(struct context *at)
{
    const struct lw_thread_words *words = &at->words[LW_SECOND];
    bool is_known = words->cframe == at->snapshot->cframe;

    at->snapshot->cframe = words->cframe;
    if (!at->layout->has_data_stack || lw_chunks_hold(at->snapshot, at->layout, words))
        return is_known;
    lw_chunks_plan(at->snapshot, at->layout, at->memory, words);
    return false;
}

/* Between two looks at the same frame, was there one at a lower one? */
static bool was_shallower(const struct context *at)
{
    return at->layout->has_data_stack &&
           (at->words[LW_BETWEEN].chunk != at->words[LW_SECOND].chunk ||
            at->words[LW_BETWEEN].top < at->words[LW_SECOND].top);
}

enum lw_walk_result lw_walk_stack(struct lw_walk *walk, struct lw_snapshot *snapshot,
                                  struct lw_code_cache *codes, struct lw_memory *memory,
                                  uint64_t now_ns, bool is_last)
{
    struct context at = {
        .walk = walk,
        .snapshot = snapshot,
        .codes = codes,
        .layout = codes->layout,
        .memory = memory,
        .now_ns = now_ns,
        .words = { lw_snapshot_words(snapshot, codes->layout, LW_FIRST),
                   lw_snapshot_words(snapshot, codes->layout, LW_SECOND),
                   lw_snapshot_words(snapshot, codes->layout, LW_BETWEEN) },
    };
    enum agreement agreement = CHANGED;
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
    if (agreement == MISSING && !is_last && learn_frames(&at, missing))
        return LW_WALK_AGAIN;
    if (agreement != SAME) {
        if (at.layout->has_data_stack)
            climb_up(&at, &last);
        else
            climb_objects(&at);
        walk->is_moving = !push_leaf(&at, LW_FIRST, LW_FIRST, LW_BETWEEN) &&
                          !push_leaf(&at, LW_SECOND, LW_BETWEEN, LW_SECOND);
    }
    lw_chunks_shrink(snapshot, &at.words[LW_SECOND]);
    if (!lw_snapshot_drop_idle(snapshot)) {
        /* Then it knows fewer. */
    }
    /* A frame of the interpreter's own at the root, and nothing on it. */
    return walk->count == 0 && !walk->is_moving ? LW_WALK_NONE : LW_WALK_DONE;
}
