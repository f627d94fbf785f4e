#include "sampler/awaits.h"

#include <string.h>

/* No frame has a deeper stack (co_stacksize of what the compiler makes stays far below). */
#define STACK_MAX (1 << 20)
#define TAG_BITS 7u /* objects are aligned to 16 */

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool has_frame(const struct lw_object *object)
{
    static const char *const names[] = { "coroutine", "generator", "async_generator" };

    return is_one_of(object->type_name, names, sizeof(names) / sizeof(names[0]));
}

/* Objects made for one `await`, whose first field is what they are made around. */
static bool is_wrapper(const struct lw_object *object)
{
    static const char *const names[] = { "coroutine_wrapper", "async_generator_asend",
                                         "async_generator_athrow", "anext_awaitable" };

    return is_one_of(object->type_name, names, sizeof(names) / sizeof(names[0]));
}

/* ---- where it is ------------------------------------------------------------------- */

/* The address of its frame, in the object or elsewhere; 0: it has none any more. */
static uint64_t frame_of(const struct lw_objects *objects, uint64_t address)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t frame = address + layout->generator_frame;

    if (!layout->has_data_stack && !lw_memory_u64(objects->memory, frame, &frame))
        return 0;
    return frame;
}

static bool read_state(const struct lw_objects *objects, uint64_t address,
                       uint64_t frame, int8_t *state)
{
    const struct lw_py_layout *layout = objects->layout;

    return lw_memory_get(objects->memory,
                         layout->generator_state != LW_NO_FIELD
                             ? address + layout->generator_state
                             : frame + layout->frame_state,
                         state, sizeof(*state));
}

/* Does it wait for another (`await`, `yield from`), and not for whoever calls it? Its
 * state says so, or the instruction with which it goes on. */
static bool is_awaiting(const struct lw_objects *objects,
                        const struct lw_code_cache *codes,
                        const struct lw_walk_frame *frame, int8_t state)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t next = codes->codes[frame->code].address + layout->code_bytecode;
    uint8_t unit[2]; /* opcode and argument of the next instruction */

    if (layout->opcode_yield_from == 0 && !layout->resume_tells_await)
        return state == layout->state_awaiting || state == layout->state_awaiting_too;
    if (frame->instruction < 0)
        return false; /* has not begun */
    if (layout->opcode_yield_from) {
        if (!lw_memory_u64(objects->memory, next, &next))
            return false;
        next += layout->bytes_data;
    }
    next += (uint64_t)frame->instruction + sizeof(unit);
    if (!lw_memory_get(objects->memory, next, unit, sizeof(unit)))
        return false;
    /* RESUME's argument: 0 at the start, 1 after a yield, 2 yield from, 3 await. */
    return layout->opcode_yield_from ? unit[0] == layout->opcode_yield_from
                                     : (unit[1] & 3) >= 2;
}

/* ---- what it waits for -------------------------------------------------------------- */

/* The address behind the last value on the frame's stack; 0: nothing there. */
static uint64_t stack_end(const struct lw_objects *objects, uint64_t frame)
{
    const struct lw_py_layout *layout = objects->layout;
    uint64_t start = frame + layout->frame_locals, end;
    int32_t depth;

    if (layout->frame_stack_top != LW_NO_FIELD)
        return lw_memory_u64(objects->memory, frame + layout->frame_stack_top, &end)
                   ? end
                   : 0;
    if (!lw_memory_get(objects->memory, frame + layout->frame_stack_depth, &depth,
                       sizeof(depth)) ||
        depth <= 0 || depth > STACK_MAX ||
        (layout->frame_stack != LW_NO_FIELD &&
         !lw_memory_u64(objects->memory, frame + layout->frame_stack, &start)))
        return 0;
    return start + (uint64_t)depth * 8;
}

/* On top of the stack, or below an index that belongs to it (3.15). */
static uint64_t read_awaited(const struct lw_objects *objects, uint64_t frame)
{
    uint64_t end = stack_end(objects, frame), words[2];

    if (end < 16 || !lw_memory_get(objects->memory, end - 16, words, sizeof(words)))
        return 0;
    words[1] &= ~(uint64_t)TAG_BITS;
    if (words[1])
        return words[1];
    return words[0] & ~(uint64_t)TAG_BITS;
}

struct lw_await lw_await_look(const struct lw_objects *objects,
                              struct lw_code_cache *codes, uint64_t address,
                              uint64_t now_ns)
{
    struct lw_await found = { .kind = LW_AWAIT_END };
    struct lw_object object;
    uint64_t frame;
    int8_t state;

    if (!lw_objects_look(objects, address, &object))
        return found;
    if (is_wrapper(&object)) {
        found.kind = LW_AWAIT_WRAPPER;
        if (!lw_memory_u64(objects->memory, address + objects->layout->object_bytes,
                           &found.next))
            found.next = 0;
        return found;
    }
    if (!has_frame(&object))
        return found;
    found.kind = LW_AWAIT_FINISHED;
    frame = frame_of(objects, address);
    if (frame == 0 || !read_state(objects, address, frame, &state) ||
        !lw_walk_alone(codes, objects->memory, frame, now_ns, &found.frame))
        return found;
    found.kind = LW_AWAIT_WAITING;
    if (state == objects->layout->state_executing)
        found.kind = LW_AWAIT_RUNNING;
    else if (is_awaiting(objects, codes, &found.frame, state))
        found.next = read_awaited(objects, frame);
    return found;
}
