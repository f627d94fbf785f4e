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

uint8_t lw_kineto_arg_code(const char *key, size_t len)
{
    enum arg arg = len <= 12   ? arg_of_short(key, len)
                   : len <= 15 ? arg_of_middle(key, len)
                               : arg_of_long(key, len);

    return (uint8_t)arg;
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

/* What to take an argument for, and where in struct lw_kineto_args it goes. */
enum take {
    TAKE_NOTHING,
    TAKE_TEXT,
    TAKE_U64,
    TAKE_I64,
    TAKE_POSITIVE,
    TAKE_I32,
    TAKE_DOUBLE,
    TAKE_THREE
};
enum part { PART_HEAD, PART_OP, PART_PYTHON, PART_WORK, PART_COLLECTIVE, PART_MEMORY };

struct use {
    uint8_t take; /* enum take */
    uint8_t part; /* enum part */
    uint16_t offset;
};

#define USE(take, part, field) \
    { \
        TAKE_##take, PART_##part, offsetof(struct lw_kineto_args, field) \
    }

static const struct use uses[] = {
    [ARG_CORRELATION] = USE(U64, HEAD, correlation),
    [ARG_EXTERNAL] = USE(U64, HEAD, external),
    [ARG_SHAPES] = USE(TEXT, OP, op.shapes),
    [ARG_TYPES] = USE(TEXT, OP, op.types),
    [ARG_STRIDES] = USE(TEXT, OP, op.strides),
    [ARG_VALUES] = USE(TEXT, OP, op.values),
    [ARG_STACK] = USE(TEXT, OP, op.stack),
    [ARG_SEQUENCE] = USE(POSITIVE, OP, op.sequence),
    [ARG_FORWARD_THREAD] = USE(U64, OP, op.forward_thread),
    [ARG_RECORD_ID] = USE(POSITIVE, OP, op.record_id),
    [ARG_PYTHON_ID] = USE(POSITIVE, PYTHON, python.id),
    [ARG_PYTHON_PARENT] = USE(POSITIVE, PYTHON, python.parent_id),
    [ARG_PYTHON_MODULE] = USE(POSITIVE, PYTHON, python.module_id),
    [ARG_DEVICE] = USE(I32, WORK, work.device),
    [ARG_STREAM] = USE(POSITIVE, WORK, work.stream),
    [ARG_BLOCKS] = USE(DOUBLE, WORK, work.blocks_per_sm),
    [ARG_WARPS] = USE(DOUBLE, WORK, work.warps_per_sm),
    [ARG_OCCUPANCY] = USE(DOUBLE, WORK, work.occupancy),
    [ARG_BANDWIDTH] = USE(DOUBLE, WORK, work.bandwidth_gbps),
    [ARG_BYTES] = USE(POSITIVE, WORK, work.bytes),
    [ARG_GRID] = USE(THREE, WORK, work.grid),
    [ARG_BLOCK] = USE(THREE, WORK, work.block),
    [ARG_REGISTERS] = USE(POSITIVE, WORK, work.registers),
    [ARG_SHARED] = USE(POSITIVE, WORK, work.shared_bytes),
    [ARG_WAIT_STREAM] = USE(POSITIVE, WORK, work.wait_stream),
    [ARG_WAIT_CORRELATION] = USE(U64, WORK, work.wait_correlation),
    [ARG_COLLECTIVE] = USE(TEXT, COLLECTIVE, collective.name),
    [ARG_DTYPE] = USE(TEXT, COLLECTIVE, collective.dtype),
    [ARG_GROUP] = USE(TEXT, COLLECTIVE, collective.group),
    [ARG_GROUP_TEXT] = USE(TEXT, COLLECTIVE, collective.group_text),
    [ARG_RANKS] = USE(TEXT, COLLECTIVE, collective.ranks),
    [ARG_IN_SPLIT] = USE(TEXT, COLLECTIVE, collective.in_split),
    [ARG_OUT_SPLIT] = USE(TEXT, COLLECTIVE, collective.out_split),
    [ARG_IN_COUNT] = USE(POSITIVE, COLLECTIVE, collective.in_count),
    [ARG_OUT_COUNT] = USE(POSITIVE, COLLECTIVE, collective.out_count),
    [ARG_GROUP_SIZE] = USE(POSITIVE, COLLECTIVE, collective.group_size),
    [ARG_MEMORY_BYTES] = USE(I64, MEMORY, memory.bytes),
    [ARG_ADDRESS] = USE(U64, MEMORY, memory.address),
    [ARG_DEVICE_TYPE] = USE(I32, MEMORY, memory.device_type),
    [ARG_DEVICE_ID] = USE(I32, MEMORY, memory.device),
    [ARG_ALLOCATED] = USE(POSITIVE, MEMORY, memory.allocated),
    [ARG_RESERVED] = USE(POSITIVE, MEMORY, memory.reserved),
};

/* VALUE goes to FIELD, which is of the type that TAKE says. What it cannot be is let be. */
static void take_number(enum take take, const struct lw_value *value, void *field)
{
    switch (take) {
    case TAKE_U64: (void)lw_value_u64(value, field); break;
    case TAKE_I64: (void)lw_value_i64(value, field); break;
    case TAKE_POSITIVE: take_positive(value, field); break;
    case TAKE_I32: take_i32(value, field); break;
    case TAKE_DOUBLE: (void)lw_value_double(value, field); break;
    case TAKE_THREE: take_three(value, field); break;
    default: break;
    }
}

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

/* Nothing is told of PART yet. To clear all of them for each event would take longer than
 * to read the one that it has. */
static void clear_part(struct lw_kineto_args *args, enum part part)
{
    switch (part) {
    case PART_OP: args->op = untold.op; break;
    case PART_PYTHON: args->python = untold.python; break;
    case PART_WORK: args->work = untold.work; break;
    case PART_COLLECTIVE: args->collective = untold.collective; break;
    default: break;
    }
}

bool lw_kineto_args_read(struct lw_kineto_args *args,
                         const struct lw_trace_event *event, struct lw_builder *out,
                         struct lw_buf *text, struct lw_error *err)
{
    unsigned parts = 1u << PART_HEAD | 1u << PART_MEMORY; /* that are cleared */
    bool has_collective = false;

    args->correlation = args->external = 0;
    args->memory = untold.memory;
    for (size_t i = 0; i < event->member_count; i++) {
        const struct lw_member *member = &event->members[i];
        const struct use *use = &uses[member->code];
        void *field = (char *)args + use->offset;

        if (use->take == TAKE_NOTHING)
            continue;
        if (!(parts & 1u << use->part)) {
            clear_part(args, use->part);
            parts |= 1u << use->part;
        }
        has_collective |= member->code == ARG_COLLECTIVE;
        if (use->take != TAKE_TEXT)
            take_number(use->take, &member->value, field);
        else if (member->value.form != LW_VALUE_WORD &&
                 !lw_kineto_string(out, &member->value, text, field, err))
            return false;
    }
    args->has_op = parts & 1u << PART_OP;
    args->has_python = parts & 1u << PART_PYTHON;
    args->has_work = parts & 1u << PART_WORK;
    args->has_collective = has_collective;
    /* What carries out a collective is told of, though it may say no more. */
    if (has_collective && !args->has_op)
        clear_part(args, PART_OP);
    if (has_collective && !args->has_work)
        clear_part(args, PART_WORK);
    return true;
}
