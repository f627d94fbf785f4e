/* The shared memory of one watched process (agent/layout.h), as the recorder sees it.
 *
 * The other side may be dying, mad or hostile. So the file must be sealed against
 * shrinking (else touching it could kill us), the sizes in its header are checked
 * once against the file and kept here, and everything later is reached through the
 * functions below, which bound each index. What they point at may still change at any
 * moment: read a value once, into a local. */
#ifndef LW_RECORDER_SHARED_H
#define LW_RECORDER_SHARED_H

#include <stddef.h>

#include "agent/layout.h"
#include "base/error.h"

struct lw_shared {
    unsigned char *bytes; /* the mapping, owned; NULL: not open */
    size_t len;

    /* Our copy of the header, checked; names as there. */
    uint64_t threads_offset;
    uint64_t blocks_offset;
    uint64_t nodes_offset;
    uint64_t names_offset;
    uint64_t names_bytes;
    uint64_t rings_offset;
    uint64_t ring_bytes;
    uint64_t ring_records; /* capacity of a ring; a power of two */
    uint32_t thread_slots;
    uint32_t block_count;
    uint32_t block_nodes;
    uint32_t node_count; /* block_count * block_nodes */
    uint32_t clock;      /* enum lw_agent_clock, one that this machine has */
    uint32_t flags;
    uint64_t start_ticks;
    uint64_t start_ns;
    uint64_t parent_pid;
};

/* Map the memfd FD (which stays the caller's) and check its header. Fails with a
 * sentence that says what is wrong with it, and then there is nothing to close. */
bool lw_shared_open(struct lw_shared *shared, int fd, struct lw_error *err)
    LW_MUST_CHECK;
void lw_shared_close(struct lw_shared *shared); /* zeroed is fine */

/* What changes while the process runs: the counters of the header. */
static inline struct lw_agent_header *lw_shared_header(const struct lw_shared *shared)
{
    return (struct lw_agent_header *)(void *)shared->bytes;
}

/* SLOT is below thread_slots. */
struct lw_agent_thread *lw_shared_thread(const struct lw_shared *shared, uint32_t slot);
/* How many slots have been in use, ever: agents take the first that is free. KNOWN of them
 * were so at the last look. */
uint32_t lw_shared_slots_used(const struct lw_shared *shared, uint32_t known);
struct lw_agent_ring *lw_shared_ring(const struct lw_shared *shared, uint32_t slot);
/* Record number N (since the beginning) of a ring. */
struct lw_agent_record *lw_shared_record(struct lw_agent_ring *ring,
                                         const struct lw_shared *shared, uint64_t n);

/* How many blocks have been handed out, never more than block_count. */
uint32_t lw_shared_blocks_used(const struct lw_shared *shared);
/* The thread slot that owns BLOCK (below block_count), or LW_NO_SLOT. */
#define LW_NO_SLOT UINT32_MAX
uint32_t lw_shared_block_owner(const struct lw_shared *shared, uint32_t block);
/* NUMBER is below node_count. */
static inline struct lw_agent_node *lw_shared_node(const struct lw_shared *shared,
                                                   uint32_t number)
{
    return (struct lw_agent_node *)(void *)(shared->bytes + shared->nodes_offset) +
           number;
}

/* Bytes of whole records in the name log, never more than names_bytes. */
uint64_t lw_shared_names_used(const struct lw_shared *shared);
const unsigned char *lw_shared_names(const struct lw_shared *shared);

#endif
