#include "sampler/native_loop.h"

#include "base/alloc.h"

/* The part of a loop that has its name; where the rest is moved away, it has a few KB. */
#define LOOP_BYTES_MAX (256u << 10)

#if defined(__x86_64__)
#define CFA_AFTER_CALL 8 /* the return address is on the stack */
#elif defined(__aarch64__)
#define CFA_AFTER_CALL 0
#endif

/* Is this what holds when a function was just called? */
static bool is_after_call(const struct lw_unwind_row *row)
{
    return row->cfa.kind == LW_RULE_REGISTER && row->cfa.reg == LW_REG_STACK &&
           row->cfa.offset == CFA_AFTER_CALL;
}

#if defined(__x86_64__)
/* Where the jump at CODE, which lies at ADDRESS, leads: jmp or jcc with 32 bits; 0: it is
 * none. Instructions are not told apart: what only looks like a jump leads anywhere. */
static uint64_t jump_target(const unsigned char *code, uint64_t address)
{
    int32_t distance;

    if (code[0] == 0xe9) {
        memcpy(&distance, code + 1, sizeof(distance));
        return address + 5 + (uint64_t)(int64_t)distance;
    }
    if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80) {
        memcpy(&distance, code + 2, sizeof(distance));
        return address + 6 + (uint64_t)(int64_t)distance;
    }
    return 0;
}
#define JUMP_BYTES 6
#define JUMP_ALIGN 1
#elif defined(__aarch64__)
/* b with 26 bits, b.cond with 19. */
static uint64_t jump_target(const unsigned char *code, uint64_t address)
{
    uint32_t word;

    memcpy(&word, code, sizeof(word));
    if (word >> 26 == 0x05)
        return address + (uint64_t)((int64_t)((int32_t)(word << 6) >> 6) * 4);
    if (word >> 24 == 0x54)
        return address + (uint64_t)((int64_t)((int32_t)(word << 8) >> 13) * 4);
    return 0;
}
#define JUMP_BYTES 4
#define JUMP_ALIGN 4
#endif

/* Two jumps into the range, or one to its very beginning, are no accident. */
static bool jumps_into(const unsigned char *code, uint64_t len, uint64_t address,
                       uint64_t start, uint64_t range_len)
{
    unsigned jumps = 0;

    for (uint64_t i = 0; i + JUMP_BYTES <= len; i += JUMP_ALIGN) {
        uint64_t target = jump_target(code + i, address + i);

        if (target == start || (target - start < range_len && ++jumps == 2))
            return true;
    }
    return false;
}

bool lw_native_is_part_of(struct lw_unwinder *unwinder, uint64_t address, uint64_t loop)
{
    const struct lw_unwind_row *row = lw_unwinder_row(unwinder, address);
    uint64_t start, range_len, loop_len;
    unsigned char *code;
    bool found;

    if (!row || loop == 0)
        return false;
    start = row->function;
    range_len = row->function_len;
    row = lw_unwinder_row(unwinder, start);
    if (!row || is_after_call(row))
        return false;
    row = lw_unwinder_row(unwinder, loop);
    loop_len = row ? row->function_len : 0;
    if (loop_len == 0 || loop_len > LOOP_BYTES_MAX)
        return false;
    code = lw_alloc(loop_len, NULL);
    found = code && lw_memory_get(unwinder->memory, loop, code, loop_len) &&
            jumps_into(code, loop_len, loop, start, range_len);
    lw_free(code);
    return found;
}
