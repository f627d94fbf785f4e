#include "analyses/op_flops.h"

#include <string.h>

#include "base/json_in.h"
#include "base/text.h"

#define INPUTS_MAX 12 /* convolution_backward's masks are its eleventh */
#define DIMS_MAX 8

/* A shape, or a value that is a list of numbers. */
struct shape {
    uint64_t dims[DIMS_MAX];
    size_t count;
    bool is_known; /* it was there, and nothing in it is negative or no number */
};

struct inputs {
    struct shape shapes[INPUTS_MAX];
    struct shape values[INPUTS_MAX];
};

enum lw_flops_formula lw_op_flops_formula(const char *name)
{
    static const struct {
        const char *name;
        enum lw_flops_formula formula;
    } known[] = {
        { "aten::conv2d", LW_FLOPS_CONV2D },
        { "aten::mm", LW_FLOPS_MM },
        { "aten::addmm", LW_FLOPS_ADDMM },
        { "aten::bmm", LW_FLOPS_BMM },
        { "aten::baddbmm", LW_FLOPS_BADDBMM },
        { "aten::add", LW_FLOPS_EACH },
        { "aten::mul", LW_FLOPS_EACH },
        { "aten::convolution_backward", LW_FLOPS_CONV_BACKWARD },
        { "aten::conv1d", LW_FLOPS_CONV },
        { "aten::conv3d", LW_FLOPS_CONV },
        { "aten::_scaled_mm", LW_FLOPS_SCALED_MM },
        { "flash_attn::_flash_attn_forward", LW_FLOPS_FLASH },
        { "flash_attn::_flash_attn_backward", LW_FLOPS_FLASH_BACKWARD },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].formula;
    /* Of flash, efficient and cudnn attention; the one called "math" is made of bmm. */
    if (lw_text_starts(name, "aten::_scaled_dot_product_") &&
        !strstr(name, "_attention_math"))
        return strstr(name, "_backward") ? LW_FLOPS_ATTENTION_BACKWARD
                                         : LW_FLOPS_ATTENTION;
    return LW_FLOPS_NONE;
}

static void add_dim(struct shape *shape, const struct lw_json_in *json)
{
    if (shape->count == DIMS_MAX ||
        !lw_text_u64(json->text, json->len, &shape->dims[shape->count]))
        shape->is_known = false;
    else
        shape->count++;
}

/* [[64, 3], [], [[2], [3]]]: of lists of tensors, the last, nothing is known. */
static void read_shapes(struct shape *shapes, const char *text, size_t len)
{
    struct lw_json_in json;
    enum lw_json_token token;
    size_t input = 0;

    lw_json_in_init(&json, text, len);
    if (lw_json_next(&json) != LW_JSON_ARRAY)
        return;
    while (input < INPUTS_MAX && (token = lw_json_next(&json)) != LW_JSON_ARRAY_END) {
        struct shape *shape = &shapes[input++];

        if (token != LW_JSON_ARRAY) {
            if (token == LW_JSON_ERROR || token == LW_JSON_END)
                return;
            if (!lw_json_skip_rest(&json, token))
                return;
            continue;
        }
        shape->is_known = true;
        while ((token = lw_json_next(&json)) != LW_JSON_ARRAY_END) {
            if (token == LW_JSON_NUMBER) {
                add_dim(shape, &json);
                continue;
            }
            shape->is_known = false;
            if (token == LW_JSON_ERROR || token == LW_JSON_END ||
                !lw_json_skip_rest(&json, token))
                return;
        }
    }
}

/* "[1, 1]", "1", "[True, False]" or "". */
static void read_value(struct shape *value, const char *text, size_t len)
{
    const char *end = text + len;

    value->is_known = len > 0;
    while (text < end) {
        const char *start;

        while (text < end &&
               (*text == '[' || *text == ']' || *text == ',' || *text == ' '))
            text++;
        start = text;
        while (text < end && *text != ']' && *text != ',' && *text != ' ')
            text++;
        if (text == start)
            continue;
        if (value->count == DIMS_MAX) {
            value->is_known = false;
            return;
        }
        if (*start == 'T' || *start == 'F')
            value->dims[value->count++] = *start == 'T';
        else if (lw_text_u64(start, (size_t)(text - start), &value->dims[value->count]))
            value->count++;
        else
            value->is_known = false;
    }
}

static void read_values(struct shape *values, const char *text, size_t len)
{
    struct lw_json_in json;
    enum lw_json_token token;

    lw_json_in_init(&json, text, len);
    if (lw_json_next(&json) != LW_JSON_ARRAY)
        return;
    for (size_t i = 0; i < INPUTS_MAX; i++) {
        token = lw_json_next(&json);
        if (token == LW_JSON_STRING)
            read_value(&values[i], json.text, json.len);
        else if (token == LW_JSON_ARRAY_END || token == LW_JSON_ERROR ||
                 token == LW_JSON_END || !lw_json_skip_rest(&json, token))
            return;
    }
}

/* A product that wraps is of a file that made it up. */
static uint64_t product(const struct shape *shape, size_t first)
{
    uint64_t all = 1;

    for (size_t i = first; i < shape->count; i++)
        all *= shape->dims[i];
    return all;
}

static bool is_of(const struct shape *shape, size_t dims)
{
    return shape->is_known && shape->count == dims;
}

/* (.., m, k) times (.., k, n), of DIMS dimensions each. */
static uint64_t mm_flops(const struct shape *a, const struct shape *b, size_t dims)
{
    if (!is_of(a, dims) || !is_of(b, dims))
        return 0;
    return 2 * product(a, 0) * b->dims[dims - 1];
}

/* One number stands for all dimensions. */
static uint64_t value_at(const struct shape *value, size_t dim, uint64_t usual)
{
    if (!value->is_known || value->count == 0)
        return usual;
    return value->dims[dim < value->count ? dim : value->count - 1];
}

/* conv*d(input, weight, bias, stride, padding, dilation, groups) */
static uint64_t conv_flops(const struct inputs *in)
{
    const struct shape *input = &in->shapes[0], *weight = &in->shapes[1];
    uint64_t flops;

    if (!input->is_known || !is_of(weight, input->count) || input->count < 3 ||
        !in->values[3].is_known || !in->values[4].is_known)
        return 0;
    flops = 2 * input->dims[0] * product(weight, 0);
    for (size_t i = 2; i < input->count; i++) {
        uint64_t stride = value_at(&in->values[3], i - 2, 1);
        uint64_t room = input->dims[i] + 2 * value_at(&in->values[4], i - 2, 0);
        uint64_t reach = value_at(&in->values[5], i - 2, 1) * (weight->dims[i] - 1) + 1;

        if (stride == 0 || weight->dims[i] == 0 || reach > room)
            return 0;
        flops *= (room - reach) / stride + 1;
    }
    return flops;
}

/* convolution_backward(gradient, input, weight, biases, stride, padding, dilation,
 * transposed, output padding, groups, mask of what is wanted) */
static uint64_t conv_backward_flops(const struct inputs *in)
{
    const struct shape *gradient = &in->shapes[0], *input = &in->shapes[1];
    const struct shape *weight = &in->shapes[2], *mask = &in->values[10];
    bool is_transposed = value_at(&in->values[7], 0, 0) != 0;
    const struct shape *outer = is_transposed ? input : gradient;
    uint64_t wanted = value_at(mask, 0, 1) + (mask->count > 1 ? mask->dims[1] : 1);

    if (!gradient->is_known || !is_of(input, gradient->count) ||
        !is_of(weight, gradient->count) || gradient->count < 3)
        return 0;
    return wanted * 2 * outer->dims[0] * product(outer, 2) * product(weight, 0);
}

/* HEADS says which dimension they are: 1 or 2. */
static uint64_t attention_flops(const struct shape *query, const struct shape *key,
                                const struct shape *value, size_t heads,
                                bool is_backward)
{
    size_t length = 3 - heads;
    uint64_t scores;

    if (!is_of(query, 4) || !is_of(key, 4) || !is_of(value, 4))
        return 0;
    scores =
        query->dims[0] * query->dims[heads] * query->dims[length] * key->dims[length];
    if (is_backward) /* scores again, then the gradients of all three and of scores */
        return 2 * scores * (3 * query->dims[3] + 2 * value->dims[3]);
    return 2 * scores * (query->dims[3] + value->dims[3]);
}

uint64_t lw_op_flops(enum lw_flops_formula formula, const char *shapes,
                     size_t shapes_len, const char *values, size_t values_len)
{
    struct inputs in = { 0 };
    const struct shape *s = in.shapes;

    read_shapes(in.shapes, shapes, shapes_len);
    read_values(in.values, values, values_len);
    switch (formula) {
    case LW_FLOPS_CONV2D: return is_of(&s[0], 4) ? conv_flops(&in) : 0;
    case LW_FLOPS_CONV: return conv_flops(&in);
    case LW_FLOPS_MM:
    case LW_FLOPS_SCALED_MM: return mm_flops(&s[0], &s[1], 2);
    case LW_FLOPS_ADDMM: return mm_flops(&s[1], &s[2], 2);
    case LW_FLOPS_BMM: return mm_flops(&s[0], &s[1], 3);
    case LW_FLOPS_BADDBMM: return mm_flops(&s[1], &s[2], 3);
    case LW_FLOPS_EACH: return s[0].is_known && s[0].count ? product(&s[0], 0) : 0;
    case LW_FLOPS_CONV_BACKWARD: return conv_backward_flops(&in);
    case LW_FLOPS_ATTENTION: return attention_flops(&s[0], &s[1], &s[2], 1, false);
    case LW_FLOPS_ATTENTION_BACKWARD:
        return attention_flops(&s[1], &s[2], &s[3], 1, true);
    case LW_FLOPS_FLASH: return attention_flops(&s[0], &s[1], &s[2], 2, false);
    case LW_FLOPS_FLASH_BACKWARD: return attention_flops(&s[1], &s[2], &s[3], 2, true);
    case LW_FLOPS_NONE: break;
    }
    return 0;
}
