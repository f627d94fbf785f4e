#include "sampler/running.h"

#include <string.h>

/* Note that CALLER calls CALLEE where it stands. */
static void note_call(struct lw_walking *at, const struct lw_walk_frame *caller,
                      uint32_t callee, bool is_from_c)
{
    struct lw_edges *edges = &at->codes->edges;
    struct lw_edge edge = { caller->code, caller->instruction, callee };

    lw_edges_add(edges, edge);
    edge.callee = LW_CALLS_ANY;
    lw_edges_add(edges, edge);
    edge.callee = LW_CALLS_FROM_C;
    if (is_from_c)
        lw_edges_add(edges, edge);
}

void lw_running_note(struct lw_walking *at)
{
    const struct lw_walk *walk = at->walk;

    if (!at->layout->has_data_stack)
        return;
    for (size_t i = 1; i < walk->count; i++) {
        const struct lw_walk_frame *caller = &walk->frames[i - 1];
        const struct lw_walk_frame *callee = &walk->frames[i];
        struct lw_py_code *code = &at->codes->codes[caller->code];

        if (code->last_callee == callee->code && code->last_call == caller->instruction)
            continue; /* as nearly always */
        code->last_callee = callee->code;
        code->last_call = caller->instruction;
        note_call(at, caller, callee->code, callee->is_entry);
    }
}

/* Is CALLER known to call CALLEE where it stands? */
static bool calls(const struct lw_walking *at, const struct lw_walk_frame *caller,
                  uint32_t callee)
{
    return lw_edges_has(&at->codes->edges,
                        (struct lw_edge){ caller->code, caller->instruction, callee });
}

/* A frame of the data stack in one copy. */
struct place {
    uint64_t address;
    uint32_t code;
    struct lw_py_frame frame;
};

/* The frame that begins where that of BELOW ends, if copy WHICH has one there that BELOW
 * waits for, or has waited for. What lies between the two is pushed. */
static bool get_above(struct lw_walking *at, int which, const struct place *below,
                      struct place *above)
{
    const uint64_t address = below->address + at->codes->codes[below->code].frame_bytes;

    *above = (struct place){ .address = address };
    if (lw_snapshot_chunk(at->snapshot, address) !=
            lw_snapshot_chunk(at->snapshot, below->address) ||
        !lw_walking_get(at, which, address, &above->frame) ||
        lw_py_frame_is_shim(at->layout, &above->frame))
        return false;
    if (above->frame.previous == below->address && !above->frame.is_entry
            ? !lw_walking_can_call(at, &below->frame)
            : !lw_walking_push_between(at, which, above->frame.previous, below->address,
                                       &above->frame.is_entry))
        return false;
    above->code = lw_walking_code(at, &above->frame);
    return above->code > 0;
}

/* Does the call that CALLER, whose frame is BELOW, waits for remember the function of
 * ABOVE? The interpreter notes the version of the function with a call that it
 * specialises, so that is known of functions too that are always gone before the second
 * look. */
static bool remembers(struct lw_walking *at, const struct lw_walk_frame *caller,
                      const struct place *below, const struct place *above)
{
    const struct lw_py_layout *layout = at->layout;
    unsigned char function[LW_LAYOUT_COPY_MAX];
    uint32_t called, version;
    uint64_t code;

    if (above->frame.is_entry || caller->address != below->address ||
        !lw_memory_get(at->memory,
                       below->frame.instruction + (uint64_t)layout->called_version,
                       &called, sizeof(called)) ||
        !lw_memory_get(at->memory, above->frame.function, function,
                       layout->function_bytes))
        return false;
    memcpy(&version, function + layout->function_version, sizeof(version));
    memcpy(&code, function + layout->function_code, sizeof(code));
    if (version == 0 || version != called || code != above->frame.code)
        return false;
    note_call(at, caller, above->code, false);
    return true;
}

/* Is it known that BELOW, the frame at FIRST of the walk, called ABOVE by way of those
 * after it? */
static bool is_known_call(struct lw_walking *at, size_t first,
                          const struct place *below, const struct place *above)
{
    const struct lw_walk *walk = at->walk;
    const struct lw_walk_frame *caller = &walk->frames[walk->count - 1];

    for (size_t i = first; i + 1 < walk->count; i++) {
        if (!calls(at, &walk->frames[i], walk->frames[i + 1].code))
            return false;
    }
    return lw_walking_is_made_up(at, above->code) || calls(at, caller, above->code) ||
           remembers(at, caller, below, above);
}

/* Is PLACE, the last of the walk, where the thread is? Not if it is the interpreter's own,
 * or stands where it is known to wait for somebody. */
static bool is_top(const struct lw_walking *at, const struct place *place)
{
    return !lw_walking_is_made_up(at, place->code) &&
           !calls(at, &at->walk->frames[at->walk->count - 1],
                  place->frame.has_saved_stack ? LW_CALLS_ANY : LW_CALLS_FROM_C);
}

/* May PLACE be left over from a call by C that has returned? Then its stack is saved,
 * unless this Python forgets the code of what returns. Of a frame that another called in
 * the same loop of the interpreter its caller tells, which waits. */
static bool may_be_left(const struct lw_walking *at, const struct place *place)
{
    return place->frame.is_entry && place->frame.has_saved_stack &&
           !at->layout->code_is_tagged;
}

bool lw_running_push(struct lw_walking *at, int which)
{
    struct lw_walk *walk = at->walk;
    const size_t held = walk->count;
    size_t pushed = held;
    struct place below = { .address = 0 }, above;
    bool is_there = true;    /* all that were pushed, not only may be */
    bool is_calling = false; /* the last of them is making the frame above */

    if (!at->layout->has_data_stack || held == 0)
        return false;
    below.address = walk->frames[held - 1].address;
    below.code = walk->frames[held - 1].code;
    if (!lw_snapshot_chunk(at->snapshot, below.address) ||
        !lw_walking_get(at, which, below.address, &below.frame))
        return false;
    walk->frames[held - 1].instruction =
        lw_py_frame_instruction(at->layout, &below.frame);
    for (; get_above(at, which, &below, &above); below = above) {
        if (!is_known_call(at, pushed - 1, &below, &above)) {
            is_there = is_there && may_be_left(at, &above);
            break;
        }
        is_calling = !lw_walking_is_made_up(at, above.code) &&
                     lw_py_frame_instruction(at->layout, &above.frame) <= 0;
        if (is_calling || !lw_walking_push(at, above.address, &above.frame, above.code))
            break;
        pushed = walk->count;
        is_there =
            !above.frame.has_saved_stack || (is_there && !may_be_left(at, &above));
    }
    walk->count = pushed;
    if (is_there && (is_calling || is_top(at, &below)))
        return true;
    walk->count = held;
    return false;
}
