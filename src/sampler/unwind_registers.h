/* The registers of a thread that stands still, by the numbers DWARF gives them, which is
 * how unwinding rules name them, and the part of its stack that was copied with them. What
 * differs from one kind of processor to the next when a stack is unwound is in here, and
 * in the reading of them (pause.c). */
#ifndef LW_SAMPLER_UNWIND_REGISTERS_H
#define LW_SAMPLER_UNWIND_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
enum {
    LW_REG_FRAME = 6,   /* rbp */
    LW_REG_STACK = 7,   /* rsp */
    LW_REG_RETURN = 16, /* the column of the return address */
    LW_REG_PC = 16,
    LW_REG_COUNT = 17,
};
/* What a function gives back as it found it: rbx, rbp, r12 to r15; and the return
 * address. */
#define LW_REGS_KEPT (1ull << 3 | 1ull << 6 | 0xfull << 12 | 1ull << 16)
#define LW_REGS_KEPT_COUNT 7
#elif defined(__aarch64__)
enum {
    LW_REG_FRAME = 29,
    LW_REG_RETURN = 30,
    LW_REG_STACK = 31,
    LW_REG_PC = 32,
    LW_REG_COUNT = 33,
};
#define LW_REGS_KEPT (0xfffull << 19) /* x19 to x30 */
#define LW_REGS_KEPT_COUNT 12
#else
#error "no registers for this machine"
#endif

struct lw_registers {
    uint64_t value[LW_REG_COUNT];
    uint64_t known; /* a bit for each: its value is known */
};

static inline bool lw_registers_has(const struct lw_registers *registers, uint64_t reg)
{
    return reg < LW_REG_COUNT && (registers->known >> reg & 1) != 0;
}

static inline void lw_registers_set(struct lw_registers *registers, unsigned reg,
                                    uint64_t value)
{
    registers->value[reg] = value;
    registers->known |= 1ull << reg;
}

/* A part of a thread's stack, as it was when its registers were. It has to begin this many
 * bytes before the stack pointer: while a function ends, rules still refer to registers
 * that it has taken off the stack, and nobody writes there so soon. */
#define LW_STACK_BELOW 128u

struct lw_stack_copy {
    uint64_t address;
    const unsigned char *bytes; /* borrowed */
    uint64_t len;
};

/* The word at ADDRESS; false: it was not copied. */
static inline bool lw_stack_copy_word(const struct lw_stack_copy *stack,
                                      uint64_t address, uint64_t *value)
{
    if (address < stack->address || stack->len < sizeof(*value) ||
        address - stack->address > stack->len - sizeof(*value))
        return false;
    memcpy(value, stack->bytes + (address - stack->address), sizeof(*value));
    return true;
}

#endif
