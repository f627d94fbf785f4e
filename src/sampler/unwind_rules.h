/* How to get from a function to its caller: the rules that compilers leave in .eh_frame
 * for each instruction, found through the sorted table of .eh_frame_hdr.
 *
 *     eh_frame_hdr:  version, encodings, address of eh_frame, count, (function, FDE)...
 *     FDE:           length, how far back its CIE is, first instruction, how many,
 *                    what changes along the function
 *     CIE:           length, 0, what holds at the start of every function of it
 *
 * They are read from the memory of the target and may be anything. */
#ifndef LW_SAMPLER_UNWIND_RULES_H
#define LW_SAMPLER_UNWIND_RULES_H

#include "sampler/memory.h"
#include "sampler/unwind_registers.h"

enum lw_rule_kind {
    LW_RULE_SAME,          /* the caller's value is still in the register */
    LW_RULE_UNDEFINED,     /* it is gone; for the return address: nobody called */
    LW_RULE_AT_OFFSET,     /* it is in memory, `offset` from the CFA */
    LW_RULE_OFFSET,        /* it is the CFA plus `offset` */
    LW_RULE_REGISTER,      /* it is in register `reg` (for the CFA: plus `offset`) */
    LW_RULE_AT_EXPRESSION, /* it is in memory, where `code` says */
    LW_RULE_EXPRESSION,    /* `code` says what it is */
};

/* Longer ones are not met: the linker's stubs have 11 bytes, signal frames 4. */
#define LW_RULE_CODE_BYTES 14

struct lw_unwind_rule {
    uint8_t kind; /* enum lw_rule_kind */
    uint8_t reg, code_len;
    union {
        int64_t offset;
        unsigned char code[LW_RULE_CODE_BYTES];
    };
};

/* What holds at one instruction. The CFA, the stack pointer as it was before the call,
 * is what the others are told from. */
struct lw_unwind_row {
    struct lw_unwind_rule cfa;                      /* _REGISTER or _EXPRESSION */
    struct lw_unwind_rule kept[LW_REGS_KEPT_COUNT]; /* of LW_REGS_KEPT, in order */
    uint64_t function;                              /* its first instruction */
    uint64_t function_len;
    bool is_signal; /* the kernel called it: its caller may be at any instruction */
};

/* Find the row for the instruction at PC in the table at HEADER (.eh_frame_hdr). False:
 * there is none, or it is broken or not understood. SCRATCH is of SCRATCH_LEN bytes: what
 * is longer is not understood. */
bool lw_unwind_row_find(struct lw_unwind_row *row, struct lw_memory *memory,
                        uint64_t header, uint64_t pc, unsigned char *scratch,
                        size_t scratch_len) LW_MUST_CHECK;

enum lw_unwind_step {
    LW_STEP_DONE,
    LW_STEP_ROOT,           /* nobody called it */
    LW_STEP_CUT,            /* the stack goes on beyond its copy */
    LW_STEP_NEEDS_REGISTER, /* one whose value is not known */
    LW_STEP_LOST,           /* the rule makes no sense here */
};

/* From REGISTERS in a function to what they were in its caller. */
enum lw_unwind_step lw_unwind_row_step(const struct lw_unwind_row *row,
                                       const struct lw_stack_copy *stack,
                                       struct lw_registers *registers);

#endif
