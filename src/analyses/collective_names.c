/* Words for one thing are many: "allreduce" is record_param_comms's, "nccl:all_reduce" a
 * range's, "ncclDevKernel_AllReduce_Sum_f32_RING_LL" a kernel's. They are compared as small
 * letters alone. */

#include "analyses/collective_names.h"

#include <string.h>

#include "base/json_in.h"
#include "base/text.h"

static const struct {
    const char *name;
    bool waits;
} kinds[] = {
    [LW_COLLECTIVE_OTHER] = { NULL, false },
    [LW_COLLECTIVE_ALL_REDUCE] = { "all_reduce", true },
    [LW_COLLECTIVE_ALL_GATHER] = { "all_gather", true },
    [LW_COLLECTIVE_REDUCE_SCATTER] = { "reduce_scatter", true },
    [LW_COLLECTIVE_ALL_TO_ALL] = { "all_to_all", true },
    [LW_COLLECTIVE_BROADCAST] = { "broadcast", false },
    [LW_COLLECTIVE_REDUCE] = { "reduce", false },
    [LW_COLLECTIVE_GATHER] = { "gather", false },
    [LW_COLLECTIVE_SCATTER] = { "scatter", false },
    [LW_COLLECTIVE_BARRIER] = { "barrier", true },
    [LW_COLLECTIVE_SEND_RECV] = { "send_recv", false },
};

const char *lw_collective_kind_name(enum lw_collective_kind kind)
{
    return kinds[kind].name;
}

bool lw_collective_kind_waits(enum lw_collective_kind kind)
{
    return kinds[kind].waits;
}

/* In the order in which they are looked for: some are part of others. */
static const struct {
    const char *letters;
    enum lw_collective_kind kind;
} words[] = {
    { "allreduce", LW_COLLECTIVE_ALL_REDUCE },
    { "reducescatter", LW_COLLECTIVE_REDUCE_SCATTER },
    { "allgather", LW_COLLECTIVE_ALL_GATHER },
    { "alltoall", LW_COLLECTIVE_ALL_TO_ALL },
    { "broadcast", LW_COLLECTIVE_BROADCAST },
    { "bcast", LW_COLLECTIVE_BROADCAST },
    { "barrier", LW_COLLECTIVE_BARRIER },
    { "send", LW_COLLECTIVE_SEND_RECV },
    { "recv", LW_COLLECTIVE_SEND_RECV },
    { "scatter", LW_COLLECTIVE_SCATTER },
    { "gather", LW_COLLECTIVE_GATHER },
    { "reduce", LW_COLLECTIVE_REDUCE },
};

/* What a kernel is for is said before its arguments and within so many letters. */
#define LETTERS_MAX 64

enum lw_collective_kind lw_collective_kind_of(const char *name)
{
    char letters[LETTERS_MAX + 1];
    size_t len = 0;

    for (const char *c = name; *c && *c != '(' && *c != '<' && len < LETTERS_MAX; c++) {
        char small = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;

        if (small >= 'a' && small <= 'z')
            letters[len++] = small;
    }
    letters[len] = '\0';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(letters, words[i].letters))
            return words[i].kind;
    return LW_COLLECTIVE_OTHER;
}

bool lw_collective_is_host_range(const char *name)
{
    return lw_text_starts(name, "gloo:") || lw_text_starts(name, "mpi:") ||
           lw_text_starts(name, "MPI:");
}

bool lw_collective_is_range(const char *name)
{
    return lw_text_starts(name, "nccl:") || lw_text_starts(name, "xccl:") ||
           lw_text_starts(name, "hccl:") || lw_text_starts(name, "ucc:") ||
           lw_collective_is_host_range(name);
}

bool lw_collective_pair(const char *name, int64_t *source, int64_t *sink)
{
    const char *space = strchr(name, ' ');
    const char *arrow = space ? strpbrk(space, "-<") : NULL;
    int64_t mine, other;
    bool sends;

    if (!arrow || !arrow[1])
        return false;
    sends = arrow[0] == '-' && arrow[1] == '>';
    if ((!sends && arrow[1] != '-') ||
        !lw_text_i64(space + 1, (size_t)(arrow - space - 1), &mine) ||
        !lw_text_i64(arrow + 2, strlen(arrow + 2), &other))
        return false;
    *source = sends ? mine : other;
    *sink = sends ? other : mine;
    return true;
}

/* Bytes */

static const struct {
    const char *type;
    int64_t bytes;
} types[] = {
    { "Float", 4 },
    { "Double", 8 },
    { "Half", 2 },
    { "BFloat16", 2 },
    { "Int", 4 },
    { "Long", 8 },
    { "Short", 2 },
    { "Char", 1 },
    { "Byte", 1 },
    { "Bool", 1 },
    { "UInt16", 2 },
    { "UInt32", 4 },
    { "UInt64", 8 },
    { "ComplexHalf", 4 },
    { "ComplexFloat", 8 },
    { "ComplexDouble", 16 },
    { "float", 4 },
    { "double", 8 },
    { "c10::Half", 2 },
    { "c10::BFloat16", 2 },
    { "int", 4 },
    { "long int", 8 },
    { "long", 8 },
    { "long long", 8 },
    { "short", 2 },
    { "short int", 2 },
    { "signed char", 1 },
    { "unsigned char", 1 },
    { "bool", 1 },
    { "c10::complex<float>", 8 },
    { "c10::complex<double>", 16 },
};

int64_t lw_collective_element_bytes(const char *type, size_t len)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strlen(types[i].type) == len && memcmp(types[i].type, type, len) == 0)
            return types[i].bytes;
    /* Float8_e4m3fn, c10::Float8_e5m2 and their like */
    return memmem(type, len, "Float8", 6) ? 1 : 0;
}

int64_t lw_collective_bytes(int64_t count, int64_t size)
{
    int64_t bytes;

    return count < 0 || size <= 0 || __builtin_mul_overflow(count, size, &bytes)
               ? -1
               : bytes;
}

/* The value that comes next in SHAPES as a number of elements: a tensor's sizes (none: it
 * is a scalar), or a list of such. -1: there is none any more, or it is not that. */
static int64_t next_elements(struct lw_json_in *shapes)
{
    int64_t all = 0, product = 1, size;
    bool is_list = false, is_tensor = true; /* the array that is open */
    unsigned depth;

    if (lw_json_next(shapes) != LW_JSON_ARRAY)
        return -1;
    for (depth = 1; depth > 0;) {
        switch (lw_json_next(shapes)) {
        case LW_JSON_ARRAY:
            depth++;
            is_list = is_tensor = true;
            break;
        case LW_JSON_NUMBER:
            if (!lw_text_i64(shapes->text, shapes->len, &size) || size < 0 ||
                __builtin_mul_overflow(product, size, &product))
                return -1;
            break;
        case LW_JSON_ARRAY_END:
            depth--;
            if (is_tensor && __builtin_add_overflow(all, product, &all))
                return -1;
            is_tensor = !is_list;
            product = 1;
            break;
        default: return -1;
        }
    }
    return all;
}

int64_t lw_collective_tensor_bytes(const char *shapes, const char *type_names,
                                   lw_element_bytes *size_of)
{
    struct lw_json_in dims, names;
    int64_t all = -1, count;

    lw_json_in_init(&dims, shapes, strlen(shapes));
    lw_json_in_init(&names, type_names, strlen(type_names));
    if (lw_json_next(&dims) != LW_JSON_ARRAY || lw_json_next(&names) != LW_JSON_ARRAY)
        return -1;
    while ((count = next_elements(&dims)) >= 0 &&
           lw_json_next(&names) == LW_JSON_STRING) {
        int64_t bytes = lw_collective_bytes(count, size_of(names.text, names.len));

        if (bytes >= 0 && __builtin_add_overflow(all < 0 ? 0 : all, bytes, &all))
            return -1;
    }
    return all;
}
