/* Numbers as DWARF writes them, and its expressions as far as unwinding rules use them:
 * arithmetic on registers and words of the stack. They come with the linker's stubs,
 * signal frames, and functions that align their stack. */
#ifndef LW_SAMPLER_UNWIND_DWARF_H
#define LW_SAMPLER_UNWIND_DWARF_H

#include <stddef.h>

#include "base/error.h"
#include "base/varint.h"
#include "sampler/unwind_registers.h"

/* SIZE (1, 2, 4 or 8) bytes, little-endian. As all of a cursor: a failure is kept in it,
 * and yields 0. */
uint64_t lw_dwarf_fixed(struct lw_cursor *at, unsigned size, bool is_signed);
int64_t lw_dwarf_signed(struct lw_cursor *at); /* SLEB128 */

/* What the LEN bytes at CODE come to. CFA, if not NULL, lies on the expression's stack
 * at first, as rules of registers have it. False: it is broken, or asks for what is not
 * known; *NEEDS_REGISTER is set if that is a register. */
bool lw_dwarf_evaluate(const unsigned char *code, size_t len,
                       const struct lw_registers *registers,
                       const struct lw_stack_copy *stack, const uint64_t *cfa,
                       uint64_t *value, bool *needs_register) LW_MUST_CHECK;

#endif
