/* Names of the functions in programs and libraries, from the tables of symbols in their
 * files. A file's table is read and sorted once, when the first address in it is asked
 * for, and serves every process that has the file mapped; names stay in the file until
 * one is wanted.
 *
 * The file is found by the path that the process knows, and believed if it begins as what
 * is mapped does (which holds the build id). One that was replaced or removed since, or
 * was never a file, has the exported symbols that lie in the process's memory. */
#ifndef LW_SAMPLER_SYMBOLS_H
#define LW_SAMPLER_SYMBOLS_H

#include "base/buf.h"
#include "sampler/elf.h"
#include "sampler/os.h"

struct lw_symbol_file;

struct lw_symbols {
    struct lw_symbol_file **files; /* owned */
    size_t count, capacity;
    size_t symbol_count; /* of all files, which is bounded */
};

void lw_symbols_init(struct lw_symbols *symbols);
void lw_symbols_release(struct lw_symbols *symbols); /* zeroed is fine */

/* The symbols of IMAGE, which is mapped in process PID; borrowed until release. NULL:
 * there are none, or too many of all files already. */
const struct lw_symbol_file *lw_symbols_open(struct lw_symbols *symbols, pid_t pid,
                                             struct lw_memory *memory,
                                             const struct lw_os_image *image,
                                             const struct lw_elf *elf);

/* The function that ADDRESS lies in, counted as the file counts: its name, as it is in
 * the file, is appended to NAME, *START becomes its first address. Of several names for one
 * place it is the one with the fewest underscores in front, then the shortest, then the first
 * of the alphabet. */
bool lw_symbol_file_find(const struct lw_symbol_file *file, uint64_t address,
                         struct lw_buf *name, uint64_t *start) LW_MUST_CHECK;

#endif
