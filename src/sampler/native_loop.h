/* The parts of the interpreter's loop that a stripped interpreter does not name: compilers
 * move most of a large function elsewhere (".cold"), with rules for unwinding of its own
 * and, in the table of exported symbols, no name. */
#ifndef LW_SAMPLER_NATIVE_LOOP_H
#define LW_SAMPLER_NATIVE_LOOP_H

#include "sampler/unwind.h"

/* Does the code at ADDRESS belong to the function that begins at LOOP? It does if it has
 * a range of its own that is not entered by calls, and LOOP jumps into it. */
bool lw_native_is_part_of(struct lw_unwinder *unwinder, uint64_t address,
                          uint64_t loop);

#endif
