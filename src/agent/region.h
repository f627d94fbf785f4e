/* A region of agent/layout.h, as the agent holds it: shared with the recorder (a
 * memfd), or private memory for a profile that stays in the process. */
#ifndef LW_AGENT_REGION_H
#define LW_AGENT_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/layout.h"

struct lw_region_options {
    uint32_t flags; /* LW_AGENT_* for the header */
    bool shared;    /* a memfd; false: anonymous memory, with no rings and no names */
    bool use_tsc;
};

struct lw_region {
    struct lw_agent_header *header; /* NULL: no region */
    struct lw_agent_thread *threads;
    _Atomic uint32_t *block_owners;
    struct lw_agent_node *nodes;
    unsigned char *names;
    unsigned char *rings;
    uint64_t ring_mask; /* records of a ring - 1 */
    size_t mapped_bytes;
    int fd; /* the memfd until it is handed over; -1: none */
};

/* False, with errno set, where memory could not be had; REGION is then zeroed. */
bool lw_region_create(struct lw_region *region,
                      const struct lw_region_options *options);
void lw_region_release(struct lw_region *region);

/* Take a slot for the calling thread, with a root node, or NULL (counted in lost). */
struct lw_agent_thread *lw_region_take_thread(struct lw_region *region);
/* The calling thread exits, or stops using the slot. */
void lw_region_end_thread(struct lw_region *region, struct lw_agent_thread *thread);

/* Take the next unused block of nodes for THREAD; false: none left. RESERVE: also the
 * last few blocks, which are kept for "(more)" and what is folded under it. */
bool lw_region_take_block(struct lw_region *region, struct lw_agent_thread *thread,
                          bool reserve);

/* NODE is in one of those last few blocks. */
bool lw_region_is_reserve(const struct lw_region *region, uint32_t node);

/* Append to the name log. Returns false, and counts, when it is full. Only one thread
 * may be here at a time (the lock of agent/names.h sees to it). */
bool lw_region_add_name(struct lw_region *region, const struct lw_agent_name *head,
                        const char *file, const char *name);

static inline void lw_region_count_lost(struct lw_region *region,
                                        enum lw_agent_loss cause)
{
    atomic_fetch_add_explicit(&region->header->lost[cause], 1, memory_order_relaxed);
}

#endif
