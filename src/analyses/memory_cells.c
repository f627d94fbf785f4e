/* What is said of an allocation: on which device, by which op, for what shapes, where in
 * the program. */

#include <inttypes.h>
#include <string.h>

#include "analyses/memory_uses.h"
#include "base/alloc.h"
#include "base/text.h"

/* Names of torch's device types; of those not here, the number is said. */
static const char *const device_types[] = {
    [0] = "CPU",  [1] = "GPU",  [2] = "MKLDNN", [6] = "GPU",   [9] = "XLA",
    [12] = "XPU", [13] = "MPS", [15] = "HPU",   [19] = "MTIA", [20] = "PRIVATEUSE1:",
};

void lw_memory_add_name(const struct lw_memory_uses *uses, uint32_t rank, int32_t type,
                        int32_t id, struct lw_buf *out)
{
    size_t count = sizeof(device_types) / sizeof(device_types[0]);

    if (uses->trace->rank_count > 1)
        lw_buf_addf(out, "rank %" PRId64 " ", lw_trace_rank_number(uses->trace, rank));
    if (type < 0)
        lw_buf_add_text(out, "device");
    else if ((size_t)type < count && device_types[type])
        lw_buf_add_text(out, device_types[type]);
    else
        lw_buf_addf(out, "type %" PRId32 ":", type);
    if (id >= 0 && type != 0)
        lw_buf_addf(out, "%" PRId32, id);
}

void lw_memory_add_device(const struct lw_memory_uses *uses, uint32_t device,
                          struct lw_buf *out)
{
    const struct lw_memory_device *d = &uses->devices[device];

    lw_memory_add_name(uses, d->rank, d->type, d->id, out);
}

void lw_memory_device_cell(const struct lw_memory_uses *uses, uint32_t device,
                           struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_memory_add_device(uses, device, &text);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

void lw_memory_time_cell(const struct lw_memory_uses *uses, uint64_t time_ns,
                         struct lw_table *table)
{
    lw_table_add_integer(table, (int64_t)(time_ns - uses->start_ns));
}

uint32_t lw_memory_op(const struct lw_memory_uses *uses, size_t index)
{
    uint32_t event = uses->list[index].event;

    return event == LW_NONE ? LW_NONE : uses->askers.ops[event];
}

/* Stacks */

static bool is_python(const struct lw_profile *profile, const struct lw_frame *frame)
{
    return lw_text_ends(lw_profile_text(profile, frame->file), ".py");
}

static bool is_own(const struct lw_profile *profile, const struct lw_frame *frame)
{
    static const char *const foreign[] = { "/site-packages/", "/dist-packages/",
                                           "/lib/python3", "/torchinductor_" };
    const char *file = lw_profile_text(profile, frame->file);

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (strstr(file, foreign[i]))
            return false;
    return is_python(profile, frame);
}

/* Is it how the allocator found out who called it? */
static bool is_machinery(const char *name)
{
    static const char *const starts[] = {
        "torch::unwind",
        "torch::CapturedTraceback",
        "torch::cuda::(anonymous namespace)::gather",
        "c10::cuda::CUDACachingAllocator",
    };

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (lw_text_starts(name, starts[i]))
            return true;
    return false;
}

/* What is between these two is an op, with its overload behind a '_'. */
static bool find_op(const char *name, const char **op, size_t *len)
{
    const char *start = lw_text_starts(name, "at::_ops::") ? name + 10 : NULL;
    const char *end = start ? strstr(start, "::") : NULL;

    if (!end)
        return false;
    *op = start;
    *len = (size_t)(end - start);
    return true;
}

/* The line of a stack whose last frame is FRAME, and whose parent's line is PLACE. */
static bool is_nearer(const struct lw_profile *profile, const struct lw_stack *stacks,
                      const struct lw_frame *frame, lw_stack_id place)
{
    return place == LW_NO_STACK || is_own(profile, frame) ||
           !is_own(profile, lw_profile_frame(profile, stacks[place].frame));
}

/* Without an op it is the last function that has a meaning for who reads it. */
static void find_last(struct lw_memory_uses *uses, const struct lw_stack *stacks,
                      size_t count, lw_stack_id *last)
{
    for (lw_stack_id i = 1; i < count; i++) {
        const struct lw_frame *frame = lw_profile_frame(uses->profile, stacks[i].frame);

        last[i] = is_machinery(lw_profile_text(uses->profile, frame->name))
                      ? last[stacks[i].parent]
                      : i;
        if (uses->stack_ops[i] == LW_NO_STACK)
            uses->stack_ops[i] = last[i];
    }
}

/* From parents to children, so that a stack as deep as the file is long costs no more.
 * The op is the outermost behind the innermost line of Python: what that line called. */
bool lw_memory_find_askers(struct lw_memory_uses *uses, struct lw_error *err)
{
    const struct lw_profile *profile = uses->profile;
    const struct lw_stack *stacks;
    lw_stack_id *last;
    const char *op;
    size_t count, len;

    stacks = lw_stacks_list(profile->stacks, &count);
    uses->stack_places = lw_zalloc(count, sizeof(*uses->stack_places), err);
    uses->stack_ops =
        uses->stack_places ? lw_zalloc(count, sizeof(*uses->stack_ops), err) : NULL;
    last = uses->stack_ops ? lw_zalloc(count, sizeof(*last), err) : NULL;
    if (!last)
        return false;
    for (lw_stack_id i = 1; i < count; i++) {
        const struct lw_frame *frame = lw_profile_frame(profile, stacks[i].frame);
        lw_stack_id parent = stacks[i].parent, place = uses->stack_places[parent];
        bool is_line = is_python(profile, frame);

        uses->stack_places[i] =
            is_line && is_nearer(profile, stacks, frame, place) ? i : place;
        if (!is_line && uses->stack_ops[parent] != LW_NO_STACK)
            uses->stack_ops[i] = uses->stack_ops[parent];
        else if (!is_line && find_op(lw_profile_text(profile, frame->name), &op, &len))
            uses->stack_ops[i] = i;
    }
    find_last(uses, stacks, count, last);
    lw_free(last);
    return true;
}

static const struct lw_frame *top_frame(const struct lw_memory_uses *uses,
                                        lw_stack_id stack)
{
    size_t count;

    return lw_profile_frame(uses->profile,
                            lw_stacks_list(uses->profile->stacks, &count)[stack].frame);
}

static void text_cell(struct lw_table *table, const struct lw_profile *profile,
                      lw_string_id id)
{
    lw_table_add_text(table, lw_profile_text(profile, id),
                      lw_strings_len(profile->strings, id));
}

/* How much of a C++ name is before its arguments. */
static size_t name_len(const char *name)
{
    size_t len = strcspn(name, "(");

    while (lw_text_starts(name + len, "(anonymous namespace)"))
        len += 1 + strcspn(name + len + 1, "(");
    return len;
}

void lw_memory_stack_op_cell(const struct lw_memory_uses *uses, lw_stack_id stack,
                             struct lw_table *table)
{
    lw_stack_id at = uses->stack_ops[stack];
    struct lw_buf text;
    const char *op;
    size_t len;

    if (at == LW_NO_STACK) {
        lw_table_add_none(table);
        return;
    }
    if (!find_op(lw_profile_text(uses->profile, top_frame(uses, at)->name), &op,
                 &len)) {
        op = lw_profile_text(uses->profile, top_frame(uses, at)->name);
        lw_table_add_text(table, op, name_len(op));
        return;
    }
    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "aten::");
    lw_buf_add(&text, op, len);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

void lw_memory_stack_place_cell(const struct lw_memory_uses *uses, lw_stack_id stack,
                                struct lw_table *table)
{
    lw_stack_id at = uses->stack_places[stack];
    const struct lw_frame *frame;
    struct lw_buf text;

    if (at == LW_NO_STACK) {
        lw_table_add_none(table);
        return;
    }
    frame = top_frame(uses, at);
    lw_buf_init(&text, 0);
    lw_buf_add(&text, lw_profile_text(uses->profile, frame->file),
               lw_strings_len(uses->profile->strings, frame->file));
    lw_buf_addf(&text, "(%" PRIu32 "): ", frame->line); /* as torch writes it */
    lw_buf_add(&text, lw_profile_text(uses->profile, frame->name),
               lw_strings_len(uses->profile->strings, frame->name));
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

/* Ops */

/* torch's malloc: who called it is more telling. */
static bool only_allocates(const char *name)
{
    return lw_text_starts(name, "aten::empty");
}

void lw_memory_op_cell(const struct lw_memory_uses *uses, size_t index,
                       struct lw_table *table)
{
    uint32_t op = lw_memory_op(uses, index), outer = LW_NONE;
    const struct lw_event *events = uses->trace->events;
    const struct lw_profile *profile = uses->profile;
    struct lw_buf text;

    if (op == LW_NONE && uses->trace->memory[index].kind == LW_MEMORY_BEFORE &&
        uses->trace->memory[index].stack == LW_NO_STACK) {
        lw_table_add_text(table, "(before the recording)", 22);
        return;
    }
    if (op == LW_NONE) {
        lw_memory_stack_op_cell(uses, uses->trace->memory[index].stack, table);
        return;
    }
    if (only_allocates(lw_profile_text(profile, events[op].name)) &&
        events[op].parent != LW_NONE)
        outer = uses->askers.ops[events[op].parent];
    if (outer == LW_NONE ||
        lw_trace_is_step(lw_profile_text(profile, events[outer].name))) {
        text_cell(table, profile, events[op].name);
        return;
    }
    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, lw_profile_text(profile, events[outer].name));
    lw_buf_addf(&text, " (%s)", lw_profile_text(profile, events[op].name));
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

/* Lists of numbers, which some write over many lines. */
void lw_memory_shapes_cell(const struct lw_memory_uses *uses, size_t index,
                           struct lw_table *table)
{
    uint32_t op = lw_memory_op(uses, index);
    uint32_t detail = op == LW_NONE ? LW_NONE : uses->trace->events[op].detail;
    lw_string_id shapes = detail == LW_NONE ? 0 : uses->trace->ops[detail].shapes;
    struct lw_buf text;

    if (!shapes) {
        lw_table_add_none(table);
        return;
    }
    lw_buf_init(&text, 0);
    for (const char *at = lw_profile_text(uses->profile, shapes); *at; at++)
        if (!strchr(" \t\r\n", *at))
            lw_buf_add_char(&text, *at);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

void lw_memory_place_cell(const struct lw_memory_uses *uses, size_t index,
                          struct lw_table *table)
{
    uint32_t event = uses->list[index].event;
    const char *text = NULL;
    size_t len = event == LW_NONE ? 0 : lw_askers_line(&uses->askers, event, &text);

    if (len > 0)
        lw_table_add_text(table, text, len);
    else
        lw_memory_stack_place_cell(uses, uses->trace->memory[index].stack, table);
}
