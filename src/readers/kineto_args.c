/* Keys are told apart by their length first: of each there are few. */

#include "readers/kineto_args.h"

#include <string.h>

#include "base/json_in.h"

#define SAME(text) (memcmp(key, text, sizeof(text) - 1) == 0)

enum arg {
    ARG_OTHER,
    ARG_CORRELATION,
    ARG_EXTERNAL,
    /* of ops */
    ARG_SHAPES,
    ARG_TYPES,
    ARG_STRIDES,
    ARG_VALUES,
    ARG_STACK,
    ARG_SEQUENCE,
    ARG_FORWARD_THREAD,
    ARG_RECORD_ID,
    /* of Python functions */
    ARG_PYTHON_ID,
    ARG_PYTHON_PARENT,
    ARG_PYTHON_MODULE,
    /* of work on a device */
    ARG_DEVICE,
    ARG_STREAM,
    ARG_BLOCKS,
    ARG_WARPS,
    ARG_OCCUPANCY,
    ARG_BANDWIDTH,
    ARG_BYTES,
    ARG_GRID,
    ARG_BLOCK,
    ARG_REGISTERS,
    ARG_SHARED,
    ARG_WAIT_STREAM,
    ARG_WAIT_CORRELATION,
    /* of collectives */
    ARG_COLLECTIVE,
    ARG_DTYPE,
    ARG_GROUP,
    ARG_GROUP_TEXT,
    ARG_RANKS,
    ARG_IN_SPLIT,
    ARG_OUT_SPLIT,
    ARG_IN_COUNT,
    ARG_OUT_COUNT,
    ARG_GROUP_SIZE,
    /* of [memory] */
    ARG_MEMORY_BYTES,
    ARG_ADDRESS,
    ARG_DEVICE_TYPE,
    ARG_DEVICE_ID,
    ARG_ALLOCATED,
    ARG_RESERVED,
};

static enum arg arg_of_short(const char *key, size_t len)
{
    switch (len) {
    case 4:
        if (SAME("grid"))
            return ARG_GRID;
        if (SAME("Addr"))
            return ARG_ADDRESS;
        return SAME("size") ? ARG_BYTES : ARG_OTHER;
    case 5:
        if (SAME("block"))
            return ARG_BLOCK;
        if (SAME("bytes"))
            return ARG_BYTES;
        if (SAME("Bytes"))
            return ARG_MEMORY_BYTES;
        return SAME("dtype") ? ARG_DTYPE : ARG_OTHER;
    case 6:
        if (SAME("device"))
            return ARG_DEVICE;
        return SAME("stream") ? ARG_STREAM : ARG_OTHER;
    case 9:
        if (SAME("Device Id"))
            return ARG_DEVICE_ID;
        return SAME("Python id") ? ARG_PYTHON_ID : ARG_OTHER;
    case 10:
        if (SAME("Input Dims") || SAME("Input dims"))
            return ARG_SHAPES;
        if (SAME("Input type"))
            return ARG_TYPES;
        if (SAME("Call stack"))
            return ARG_STACK;
        return SAME("Group size") ? ARG_GROUP_SIZE : ARG_OTHER;
    case 11:
        if (SAME("correlation"))
            return ARG_CORRELATION;
        if (SAME("External id") || SAME("external id"))
            return ARG_EXTERNAL;
        return SAME("Device Type") ? ARG_DEVICE_TYPE : ARG_OTHER;
    case 12: return SAME("warps per SM") ? ARG_WARPS : ARG_OTHER;
    default: return ARG_OTHER;
    }
}

static enum arg arg_of_middle(const char *key, size_t len)
{
    switch (len) {
    case 13:
        if (SAME("Fwd thread id"))
            return ARG_FORWARD_THREAD;
        if (SAME("blocks per SM"))
            return ARG_BLOCKS;
        if (SAME("shared memory"))
            return ARG_SHARED;
        if (SAME("Input Strides"))
            return ARG_STRIDES;
        if (SAME("In msg nelems"))
            return ARG_IN_COUNT;
        return SAME("In split size") ? ARG_IN_SPLIT : ARG_OTHER;
    case 14:
        if (SAME("Total Reserved"))
            return ARG_RESERVED;
        if (SAME("Out msg nelems"))
            return ARG_OUT_COUNT;
        if (SAME("Out split size"))
            return ARG_OUT_SPLIT;
        return SAME("wait_on_stream") ? ARG_WAIT_STREAM : ARG_OTHER;
    case 15:
        if (SAME("Sequence number"))
            return ARG_SEQUENCE;
        if (SAME("Concrete Inputs"))
            return ARG_VALUES;
        if (SAME("Total Allocated"))
            return ARG_ALLOCATED;
        return SAME("Collective name") ? ARG_COLLECTIVE : ARG_OTHER;
    default: return ARG_OTHER;
    }
}

static enum arg arg_of_long(const char *key, size_t len)
{
    switch (len) {
    case 16:
        if (SAME("Python parent id"))
            return ARG_PYTHON_PARENT;
        return SAME("Python module id") ? ARG_PYTHON_MODULE : ARG_OTHER;
    case 18:
        if (SAME("Record function id"))
            return ARG_RECORD_ID;
        return SAME("Process Group Name") ? ARG_GROUP : ARG_OTHER;
    case 19: return SAME("Process Group Ranks") ? ARG_RANKS : ARG_OTHER;
    case 20: return SAME("registers per thread") ? ARG_REGISTERS : ARG_OTHER;
    case 23: return SAME("memory bandwidth (GB/s)") ? ARG_BANDWIDTH : ARG_OTHER;
    case 25:
        if (SAME("est. achieved occupancy %"))
            return ARG_OCCUPANCY;
        return SAME("Process Group Description") ? ARG_GROUP_TEXT : ARG_OTHER;
    case 33:
        return SAME("wait_on_cuda_event_record_corr_id") ? ARG_WAIT_CORRELATION
                                                         : ARG_OTHER;
    default: return ARG_OTHER;
    }
}

static enum arg arg_of(const struct lw_member *member)
{
    const char *key = member->key;
    size_t len = member->key_len;

    if (len <= 12)
        return arg_of_short(key, len);
    return len <= 15 ? arg_of_middle(key, len) : arg_of_long(key, len);
}

/* A list as Kineto writes it, in one line: "[1, 2]". Somebody may have saved it anew with
 * an indent. */
static void add_in_a_line(const char *text, size_t len, struct lw_buf *out)
{
    bool in_text = false;

    for (size_t i = 0; i < len; i++) {
        bool is_space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');

        if (text[i] == '"' && (i == 0 || text[i - 1] != '\\'))
            in_text = !in_text;
        if (is_space && !in_text)
            continue;
        lw_buf_add_char(out, text[i]);
        if (!in_text && (text[i] == ',' || text[i] == ':'))
            lw_buf_add_char(out, ' ');
    }
}

bool lw_kineto_string(struct lw_builder *out, const struct lw_value *value,
                      struct lw_buf *text, lw_string_id *id, struct lw_error *err)
{
    bool is_broken =
        value->form == LW_VALUE_NESTED && memchr(value->text, '\n', value->len) != NULL;

    if (!value->escaped && !is_broken)
        return lw_builder_string(out, value->text, value->len, id, err);
    lw_buf_reset(text);
    if (is_broken)
        add_in_a_line(value->text, value->len, text);
    else
        lw_json_unescape_text(value->text, value->len, text);
    return lw_buf_check(text, err) &&
           lw_builder_string(out, text->bytes ? text->bytes : "", text->len, id, err);
}

/* "[32, 1, 1]" in three numbers; what cannot be read is 0. */
static void take_three(const struct lw_value *value, uint32_t numbers[3])
{
    const char *p = value->text, *end = p + value->len;

    for (int i = 0; i < 3; i++) {
        uint64_t number = 0;

        while (p < end && (unsigned char)(*p - '0') > 9)
            p++;
        for (; p < end && (unsigned char)(*p - '0') <= 9; p++)
            if (number <= UINT32_MAX)
                number = number * 10 + (uint64_t)(*p - '0');
        numbers[i] = number <= UINT32_MAX ? (uint32_t)number : 0;
    }
}

static void take_i32(const struct lw_value *value, int32_t *number)
{
    int64_t wide;

    if (lw_value_i64(value, &wide) && wide >= INT32_MIN && wide <= INT32_MAX)
        *number = (int32_t)wide;
}

/* Only what is not below zero: there -1 says "none". */
static void take_positive(const struct lw_value *value, int64_t *number)
{
    int64_t wide;

    if (lw_value_i64(value, &wide) && wide >= 0)
        *number = wide;
}

/* The text that ARG is, if it is one. */
static lw_string_id *text_of(struct lw_kineto_args *args, enum arg arg)
{
    switch (arg) {
    case ARG_SHAPES: return &args->op.shapes;
    case ARG_TYPES: return &args->op.types;
    case ARG_STRIDES: return &args->op.strides;
    case ARG_VALUES: return &args->op.values;
    case ARG_STACK: return &args->op.stack;
    case ARG_COLLECTIVE: return &args->collective.name;
    case ARG_DTYPE: return &args->collective.dtype;
    case ARG_GROUP: return &args->collective.group;
    case ARG_GROUP_TEXT: return &args->collective.group_text;
    case ARG_RANKS: return &args->collective.ranks;
    case ARG_IN_SPLIT: return &args->collective.in_split;
    case ARG_OUT_SPLIT: return &args->collective.out_split;
    default: return NULL;
    }
}

static void take_number(struct lw_kineto_args *args, enum arg arg,
                        const struct lw_value *value)
{
    switch (arg) {
    case ARG_CORRELATION: (void)lw_value_u64(value, &args->correlation); break;
    case ARG_EXTERNAL: (void)lw_value_u64(value, &args->external); break;
    case ARG_SEQUENCE: take_positive(value, &args->op.sequence); break;
    case ARG_FORWARD_THREAD: (void)lw_value_u64(value, &args->op.forward_thread); break;
    case ARG_RECORD_ID: take_positive(value, &args->op.record_id); break;
    case ARG_PYTHON_ID: take_positive(value, &args->python.id); break;
    case ARG_PYTHON_PARENT: take_positive(value, &args->python.parent_id); break;
    case ARG_PYTHON_MODULE: take_positive(value, &args->python.module_id); break;
    case ARG_DEVICE: take_i32(value, &args->work.device); break;
    case ARG_STREAM: take_positive(value, &args->work.stream); break;
    case ARG_BLOCKS: (void)lw_value_double(value, &args->work.blocks_per_sm); break;
    case ARG_WARPS: (void)lw_value_double(value, &args->work.warps_per_sm); break;
    case ARG_OCCUPANCY: (void)lw_value_double(value, &args->work.occupancy); break;
    case ARG_BANDWIDTH: (void)lw_value_double(value, &args->work.bandwidth_gbps); break;
    case ARG_BYTES: take_positive(value, &args->work.bytes); break;
    case ARG_GRID: take_three(value, args->work.grid); break;
    case ARG_BLOCK: take_three(value, args->work.block); break;
    case ARG_REGISTERS: take_positive(value, &args->work.registers); break;
    case ARG_SHARED: take_positive(value, &args->work.shared_bytes); break;
    case ARG_WAIT_STREAM: take_positive(value, &args->work.wait_stream); break;
    case ARG_WAIT_CORRELATION:
        (void)lw_value_u64(value, &args->work.wait_correlation);
        break;
    case ARG_IN_COUNT: take_positive(value, &args->collective.in_count); break;
    case ARG_OUT_COUNT: take_positive(value, &args->collective.out_count); break;
    case ARG_GROUP_SIZE: take_positive(value, &args->collective.group_size); break;
    case ARG_MEMORY_BYTES: (void)lw_value_i64(value, &args->memory.bytes); break;
    case ARG_ADDRESS: (void)lw_value_u64(value, &args->memory.address); break;
    case ARG_DEVICE_TYPE: take_i32(value, &args->memory.device_type); break;
    case ARG_DEVICE_ID: take_i32(value, &args->memory.device); break;
    case ARG_ALLOCATED: take_positive(value, &args->memory.allocated); break;
    case ARG_RESERVED: take_positive(value, &args->memory.reserved); break;
    default: break;
    }
}

static void note(struct lw_kineto_args *args, enum arg arg)
{
    if (arg >= ARG_SHAPES && arg <= ARG_RECORD_ID)
        args->has_op = true;
    else if (arg >= ARG_PYTHON_ID && arg <= ARG_PYTHON_MODULE)
        args->has_python = true;
    else if (arg >= ARG_DEVICE && arg <= ARG_WAIT_CORRELATION)
        args->has_work = true;
    else if (arg == ARG_COLLECTIVE)
        args->has_collective = true;
}

bool lw_kineto_args_read(struct lw_kineto_args *args,
                         const struct lw_trace_event *event, struct lw_builder *out,
                         struct lw_buf *text, struct lw_error *err)
{
    static const struct lw_kineto_args untold = {
        .op = { .sequence = -1, .record_id = -1, .collective = LW_NONE },
        .python = { -1, -1, -1 },
        .work = { .device = -1,
                  .stream = -1,
                  .blocks_per_sm = -1,
                  .warps_per_sm = -1,
                  .occupancy = -1,
                  .bandwidth_gbps = -1,
                  .bytes = -1,
                  .registers = -1,
                  .shared_bytes = -1,
                  .wait_stream = -1,
                  .collective = LW_NONE },
        .collective = { .in_count = -1, .out_count = -1, .group_size = -1 },
        .memory = { .allocated = -1, .reserved = -1, .device = -1 },
    };

    *args = untold;
    for (size_t i = 0; i < event->member_count; i++) {
        const struct lw_member *member = &event->members[i];
        enum arg arg = arg_of(member);
        lw_string_id *id = text_of(args, arg);

        if (id && member->value.form != LW_VALUE_WORD &&
            !lw_kineto_string(out, &member->value, text, id, err))
            return false;
        if (!id)
            take_number(args, arg, &member->value);
        note(args, arg);
    }
    return true;
}
