#include "sampler/unwind_dwarf.h"

/* Operations that unwinding rules use (DWARF 5, 7.7.1). */
enum {
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08, /* to CONST8S: unsigned and signed, of 1, 2, 4 and 8 bytes */
    OP_CONST8S = 0x0f,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_DUP = 0x12,
    OP_DROP = 0x13,
    OP_SWAP = 0x16,
    OP_AND = 0x1a,
    OP_MINUS = 0x1c,
    OP_MUL = 0x1e,
    OP_OR = 0x21,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_SHR = 0x25,
    OP_XOR = 0x27,
    OP_EQ = 0x29,
    OP_GE = 0x2a,
    OP_GT = 0x2b,
    OP_LE = 0x2c,
    OP_LT = 0x2d,
    OP_NE = 0x2e,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_NOP = 0x96,
};

#define DEPTH_MAX 16

uint64_t lw_dwarf_fixed(struct lw_cursor *at, unsigned size, bool is_signed)
{
    const unsigned char *bytes = lw_cursor_bytes(at, size);
    uint64_t value = 0;

    if (!bytes)
        return 0;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    if (is_signed && size < 8 && (value >> (8 * size - 1)) != 0)
        value |= UINT64_MAX << (8 * size);
    return value;
}

int64_t lw_dwarf_signed(struct lw_cursor *at)
{
    const unsigned char *start = at->next;
    uint64_t value = lw_cursor_varint(at);
    unsigned bits;

    if (at->failed)
        return 0;
    bits = 7 * (unsigned)(at->next - start);
    if (bits < 64 && (at->next[-1] & 0x40) != 0)
        value |= UINT64_MAX << bits;
    return (int64_t)value;
}

/* ---- expressions -------------------------------------------------------------------- */

struct evaluation {
    struct lw_cursor code;
    const struct lw_registers *registers;
    const struct lw_stack_copy *stack;
    uint64_t values[DEPTH_MAX];
    unsigned depth;
    bool failed;
    bool needs_register;
};

static void push(struct evaluation *at, uint64_t value)
{
    if (at->depth == DEPTH_MAX)
        at->failed = true;
    else
        at->values[at->depth++] = value;
}

static uint64_t pop(struct evaluation *at)
{
    if (at->depth == 0) {
        at->failed = true;
        return 0;
    }
    return at->values[--at->depth];
}

static void push_register(struct evaluation *at, uint64_t reg)
{
    uint64_t offset = (uint64_t)lw_dwarf_signed(&at->code);

    if (!lw_registers_has(at->registers, reg)) {
        at->failed = at->needs_register = true;
        return;
    }
    push(at, at->registers->value[reg] + offset);
}

static void push_word(struct evaluation *at)
{
    uint64_t value = 0;

    if (!lw_stack_copy_word(at->stack, pop(at), &value))
        at->failed = true;
    push(at, value);
}

static void push_binary(struct evaluation *at, unsigned op)
{
    uint64_t b = pop(at), a = pop(at);

    switch (op) {
    case OP_AND: push(at, a & b); break;
    case OP_MINUS: push(at, a - b); break;
    case OP_MUL: push(at, a * b); break;
    case OP_OR: push(at, a | b); break;
    case OP_PLUS: push(at, a + b); break;
    case OP_SHL: push(at, b < 64 ? a << b : 0); break;
    case OP_SHR: push(at, b < 64 ? a >> b : 0); break;
    case OP_XOR: push(at, a ^ b); break;
    case OP_EQ: push(at, a == b); break;
    case OP_GE: push(at, (int64_t)a >= (int64_t)b); break;
    case OP_GT: push(at, (int64_t)a > (int64_t)b); break;
    case OP_LE: push(at, (int64_t)a <= (int64_t)b); break;
    case OP_LT: push(at, (int64_t)a < (int64_t)b); break;
    case OP_NE: push(at, a != b); break;
    default: at->failed = true; /* one that no rule needs */
    }
}

static void push_other(struct evaluation *at, unsigned op)
{
    uint64_t a, b;

    switch (op) {
    case OP_DEREF: push_word(at); break;
    case OP_CONSTU: push(at, lw_cursor_varint(&at->code)); break;
    case OP_CONSTS: push(at, (uint64_t)lw_dwarf_signed(&at->code)); break;
    case OP_DUP:
        a = pop(at);
        push(at, a);
        push(at, a);
        break;
    case OP_DROP: pop(at); break;
    case OP_SWAP:
        b = pop(at);
        a = pop(at);
        push(at, b);
        push(at, a);
        break;
    case OP_PLUS_UCONST:
        a = pop(at);
        push(at, a + lw_cursor_varint(&at->code));
        break;
    case OP_NOP: break;
    default: push_binary(at, op);
    }
}

bool lw_dwarf_evaluate(const unsigned char *code, size_t len,
                       const struct lw_registers *registers,
                       const struct lw_stack_copy *stack, const uint64_t *cfa,
                       uint64_t *value, bool *needs_register)
{
    struct evaluation at = {
        .code = lw_cursor_make(code, len),
        .registers = registers,
        .stack = stack,
    };

    if (cfa)
        push(&at, *cfa);
    while (lw_cursor_left(&at.code) > 0 && !at.failed && !at.code.failed) {
        unsigned op = (unsigned)lw_dwarf_fixed(&at.code, 1, false);

        if (op >= OP_LIT0 && op <= OP_LIT31)
            push(&at, op - OP_LIT0);
        else if (op >= OP_BREG0 && op <= OP_BREG31)
            push_register(&at, op - OP_BREG0);
        else if (op >= OP_CONST1U && op <= OP_CONST8S)
            push(&at, lw_dwarf_fixed(&at.code, 1u << ((op - OP_CONST1U) / 2),
                                     (op - OP_CONST1U) % 2 == 1));
        else
            push_other(&at, op);
    }
    if (at.needs_register)
        *needs_register = true;
    *value = pop(&at);
    return !at.failed && !at.code.failed;
}
