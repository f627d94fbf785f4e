/* The functions of machine code that a target's threads were met in, each with a number
 * that it keeps: what its name is, which file it is of, and what it is to the
 * interpreter. */
#ifndef LW_SAMPLER_NATIVE_FUNCTIONS_H
#define LW_SAMPLER_NATIVE_FUNCTIONS_H

#include "base/arena.h"
#include "sampler/native_merge.h"
#include "sampler/symbols.h"
#include "sampler/unwind.h"

struct lw_native_function {
    const char *name; /* NUL-terminated; both in the arena */
    const char *file; /* the program or library; "": code of no file */
    uint8_t kind;     /* enum lw_native_kind */
};

struct lw_native_address {
    uint64_t address;
    uint32_t function;
};

struct lw_native_functions {
    struct lw_symbols *symbols;           /* borrowed */
    struct lw_unwinder *unwinder;         /* borrowed */
    uint64_t python;                      /* an address in the interpreter's file */
    struct lw_native_function *functions; /* by number; 0 is none; owned */
    size_t count, capacity;
    struct lw_map by_name;
    struct lw_arena arena;
    struct lw_native_address *addresses; /* from 1 on in by_address; owned */
    size_t address_count, address_capacity;
    struct lw_map by_address;
    uint32_t generation; /* the unwinder's, for which `addresses` holds */
};

void lw_native_functions_init(struct lw_native_functions *functions,
                              struct lw_symbols *symbols, struct lw_unwinder *unwinder,
                              uint64_t python);
void lw_native_functions_release(struct lw_native_functions *functions);

/* The number of the function at ADDRESS; 0: no memory. One without a symbol is named by
 * its file and where in it the function begins. */
uint32_t lw_native_functions_at(struct lw_native_functions *functions,
                                uint64_t address);

#endif
