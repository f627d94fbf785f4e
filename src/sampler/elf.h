/* Symbols of a program or library that is loaded in another process, looked up in its
 * memory alone: so it does not matter whether the file was replaced since, stripped, lies
 * in another container, or was loaded by another loader. */
#ifndef LW_SAMPLER_ELF_H
#define LW_SAMPLER_ELF_H

#include "sampler/memory.h"

struct lw_elf {
    uint64_t base; /* where its file begins */
    uint64_t bias; /* to add to the addresses in it */
    uint64_t symbols, names, gnu_hash;
    uint64_t names_len;
    uint64_t eh_frame_header;      /* 0: none */
    uint64_t code_start, code_end; /* of its first executable part */
};

/* Look at the file that begins at BASE. False with a sentence: not ELF, for another
 * machine, of 32 bits, or without a table of symbols. */
bool lw_elf_open(struct lw_elf *elf, struct lw_memory *memory, uint64_t base,
                 struct lw_error *err) LW_MUST_CHECK;

/* The address of the exported symbol NAME; 0: there is none. */
uint64_t lw_elf_symbol(const struct lw_elf *elf, struct lw_memory *memory,
                       const char *name);

#endif
