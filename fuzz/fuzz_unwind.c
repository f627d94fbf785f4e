/* Any bytes as the .eh_frame_hdr and .eh_frame of a library, any registers and any stack:
 * a row is found or not, a step is taken or not, and it ends.
 *
 *     pc (4 bytes, from the start of the table), length of the stack (1 byte, in words),
 *     the stack, the table */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/unwind_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define HEADER 0x400000u
#define STACK 0x7ff000u
#define STEPS_MAX 1000

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    unsigned char scratch[4096];
    struct lw_memory_piece piece = { .address = HEADER };
    struct lw_stack_copy stack = { .address = STACK };
    struct lw_registers registers = { .known = 0 };
    struct lw_unwind_row row;
    struct lw_memory memory;
    int32_t place;

    if (len < 5)
        return 0;
    memcpy(&place, bytes, sizeof(place));
    stack.len = bytes[4] * 8ull;
    bytes += 5;
    len -= 5;
    if (stack.len > len)
        return 0;
    stack.bytes = bytes;
    piece.bytes = bytes + stack.len;
    piece.len = len - stack.len;
    lw_memory_image(&memory, &piece, 1);
    for (unsigned i = 0; i < LW_REG_COUNT; i++)
        lw_registers_set(&registers, i, STACK + i * 8);
    registers.value[LW_REG_PC] = HEADER + (uint64_t)(int64_t)place;
    registers.value[LW_REG_STACK] = STACK;
    for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
        uint64_t before = registers.value[LW_REG_STACK];

        if (!lw_unwind_row_find(&row, &memory, HEADER, registers.value[LW_REG_PC],
                                scratch, sizeof(scratch)) ||
            lw_unwind_row_step(&row, &stack, &registers) != LW_STEP_DONE)
            return 0;
        if (registers.value[LW_REG_STACK] < before)
            abort();
    }
    return 0;
}
