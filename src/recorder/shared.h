/* The shared memory of one watched process (agent/layout.h), as the recorder sees it.
 *
 * The other side may be dying, mad or hostile. So the file must be sealed against
 * shrinking (else touching it could kill us), the sizes in its header are checked
 * once against the file and kept here, and everything later is reached through the
 * functions below, which bound each index. What they point at may still change at any
 * moment: read a value once, into a local.
 *
 * A region may be gigabytes of address space, a run may have thousands of processes, and
 * there may be a limit (ulimit -v). So nodes, names and rings are mapped only as far as
 * they are used: what the lw_shared_reach_ functions have been asked for is there. */
#ifndef LW_RECORDER_SHARED_H
#define LW_RECORDER_SHARED_H

#include <stddef.h>

#include "agent/layout.h"
#include "base/error.h"

/* A mapping that has become too small is only unmapped at the next look: pointers into
 * it are good until then. Each is twice as large as the one before, so there are few. */
#define LW_SHARED_OUTGROWN 24

struct lw_shared_part {
    unsigned char *bytes; /* mapped, owned; never NULL in an open region */
    size_t len;
    uint64_t most; /* bytes of the part */
    struct {
        unsigned char *bytes;
        size_t len;
    } outgrown[LW_SHARED_OUTGROWN];
    unsigned outgrown_count;
};

/* The parts that grow. */
struct lw_shared_parts {
    struct lw_shared_part nodes;
    struct lw_shared_part names;
    struct lw_shared_part rings;
};

struct lw_shared {
    unsigned char
        *bytes; /* header, threads and owners of blocks; owned; NULL: not open */
    size_t len;
    struct lw_shared_parts *parts; /* owned */

    /* Our copy of the header, checked; names as there. */
    uint64_t threads_offset;
    uint64_t blocks_offset;
    uint64_t names_bytes;
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

/* Have node NUMBER (below node_count), the first BYTES of the name log (not more than
 * names_bytes) or the rings of the first SLOTS slots mapped. */
bool lw_shared_reach_node(const struct lw_shared *shared, uint32_t number,
                          struct lw_error *err) LW_MUST_CHECK;
bool lw_shared_reach_names(const struct lw_shared *shared, uint64_t bytes,
                           struct lw_error *err) LW_MUST_CHECK;
bool lw_shared_reach_rings(const struct lw_shared *shared, uint32_t slots,
                           struct lw_error *err) LW_MUST_CHECK;

/* Between two looks, when nobody has a pointer into it: unmap what was outgrown. */
void lw_shared_tidy(const struct lw_shared *shared);

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
/* SLOT is one of those that were reached. */
struct lw_agent_ring *lw_shared_ring(const struct lw_shared *shared, uint32_t slot);
/* Record number N (since the beginning) of a ring. */
struct lw_agent_record *lw_shared_record(struct lw_agent_ring *ring,
                                         const struct lw_shared *shared, uint64_t n);

/* How many blocks have been handed out, never more than block_count. */
uint32_t lw_shared_blocks_used(const struct lw_shared *shared);
/* The thread slot that owns BLOCK (below block_count), or LW_NO_SLOT. */
#define LW_NO_SLOT UINT32_MAX
uint32_t lw_shared_block_owner(const struct lw_shared *shared, uint32_t block);
/* NUMBER was reached. */
static inline struct lw_agent_node *lw_shared_node(const struct lw_shared *shared,
                                                   uint32_t number)
{
    return (struct lw_agent_node *)(void *)shared->parts->nodes.bytes + number;
}

/* Bytes of whole records in the name log, never more than names_bytes. */
uint64_t lw_shared_names_used(const struct lw_shared *shared);
/* As far as they were reached. */
const unsigned char *lw_shared_names(const struct lw_shared *shared);

#endif
