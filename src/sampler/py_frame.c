#include "sampler/py_frame.h"

#include <string.h>

#define TAG_BITS 7u /* objects are aligned to 16 */

uint32_t lw_py_frame_len(const struct lw_py_layout *layout)
{
    return layout->has_data_stack ? layout->frame_locals : layout->frame_state + 8;
}

/* The interpreter keeps the stack's depth (3.11 to 3.13) or top in a variable of its own
 * while it runs a frame, and -1 or NULL in the frame. */
static bool has_saved_stack(const struct lw_py_layout *layout,
                            const unsigned char *bytes)
{
    uint64_t top;
    int32_t depth;

    if (!layout->has_data_stack)
        return true; /* nobody says */
    if (layout->frame_stack_top != LW_NO_FIELD) {
        memcpy(&top, bytes + layout->frame_stack_top, sizeof(top));
        return top != 0;
    }
    memcpy(&depth, bytes + layout->frame_stack_depth, sizeof(depth));
    return depth >= 0;
}

struct lw_py_frame lw_py_frame_parse(const struct lw_py_layout *layout,
                                     const unsigned char *bytes)
{
    struct lw_py_frame frame = { 0 };

    memcpy(&frame.previous, bytes + layout->frame_previous, 8);
    memcpy(&frame.code, bytes + layout->frame_code, 8);
    memcpy(&frame.globals, bytes + layout->frame_globals, 8);
    if (layout->frame_function != LW_NO_FIELD)
        memcpy(&frame.function, bytes + layout->frame_function, 8);
    if (layout->code_is_tagged) {
        frame.code &= ~(uint64_t)TAG_BITS;
        frame.function &= ~(uint64_t)TAG_BITS;
    }
    if (layout->has_data_stack) {
        memcpy(&frame.instruction, bytes + layout->frame_instruction, 8);
        frame.owner = bytes[layout->frame_owner];
        frame.is_executing = true; /* or it would not lie below the top */
    } else {
        int32_t lasti;

        memcpy(&lasti, bytes + layout->frame_instruction, 4);
        frame.instruction = (uint64_t)(int64_t)lasti;
        frame.is_executing =
            (int8_t)bytes[layout->frame_state] == layout->state_executing;
    }
    frame.has_saved_stack = has_saved_stack(layout, bytes);
    if (layout->frame_is_entry != LW_NO_FIELD)
        frame.is_entry = bytes[layout->frame_is_entry] != 0;
    else
        frame.is_entry = !layout->has_data_stack; /* then C runs each frame anew */
    return frame;
}

bool lw_py_frame_is_shim(const struct lw_py_layout *layout,
                         const struct lw_py_frame *frame)
{
    return layout->has_shims && (frame->owner == layout->owner_shim ||
                                 frame->owner == layout->owner_shim_too);
}

int32_t lw_py_frame_instruction(const struct lw_py_layout *layout,
                                const struct lw_py_frame *frame)
{
    uint64_t start = frame->code + layout->code_bytecode;

    if (!layout->has_data_stack) {
        int64_t lasti = (int64_t)frame->instruction;

        return (int32_t)(layout->lasti_counts_units ? lasti * 2 : lasti);
    }
    if (frame->instruction < start || frame->instruction - start > INT32_MAX)
        return -1; /* has not begun */
    return (int32_t)(frame->instruction - start);
}
