/* The memory of another process, or a recorded image of one: all that the sampler knows
 * of a target comes through lw_memory_read().
 *
 * What is read there changes while it is read, may be gone, and may be anything: nobody
 * here stops the target, and nobody trusts it. */
#ifndef LW_SAMPLER_MEMORY_H
#define LW_SAMPLER_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct lw_memory_range {
    uint64_t address;
    void *bytes; /* where it goes; the caller's */
    size_t len;
};

struct lw_memory {
    /* As lw_memory_read(). */
    size_t (*read)(struct lw_memory *memory, const struct lw_memory_range *ranges,
                   size_t count);
    uint64_t calls; /* of the system so far: what a sample costs */

    pid_t pid; /* live: whose */
    int fd;    /* live: its /proc/PID/mem, where process_vm_readv is denied; -1: none */

    const struct lw_memory_piece *pieces; /* image: sorted by address */
    size_t piece_count;
};

/* A part of a recorded image. */
struct lw_memory_piece {
    uint64_t address;
    const void *bytes;
    size_t len;
};

/* Read the ranges in order, each whole. Returns how many were read, from the first on;
 * fewer than COUNT: the next one is not there (any more). */
size_t lw_memory_read(struct lw_memory *memory, const struct lw_memory_range *ranges,
                      size_t count);
/* One range, all of it or false. */
bool lw_memory_get(struct lw_memory *memory, uint64_t address, void *bytes, size_t len)
    LW_MUST_CHECK;
/* A pointer, or a number of 8 bytes. */
bool lw_memory_u64(struct lw_memory *memory, uint64_t address, uint64_t *value)
    LW_MUST_CHECK;

/* The memory of the live process PID. MEM_FD, if not -1, is its /proc/PID/mem, opened by
 * itself: it is read through that where we may not read it otherwise. False with a
 * sentence that says which setting stands in the way. */
bool lw_memory_open(struct lw_memory *memory, pid_t pid, int mem_fd,
                    struct lw_error *err) LW_MUST_CHECK;
/* Is it read through MEM_FD? */
bool lw_memory_is_through_descriptor(const struct lw_memory *memory);
/* An image whose PIECES are sorted and do not overlap; borrowed. */
void lw_memory_image(struct lw_memory *memory, const struct lw_memory_piece *pieces,
                     size_t count);

#endif
