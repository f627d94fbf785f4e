/* A region of agent/layout.h, as the agent holds it: shared with the recorder (a
 * memfd), or private memory for a profile that stays in the process.
 *
 * Two rules shape it.
 *
 * Nothing that is read from the shared memory decides where the agent writes: the
 * recorder, or whoever got the descriptor, may write there too. So each node has a
 * private half that holds the links of the tree and the address of its counts, and
 * sizes, positions and free places are kept in `struct lw_region_own`.
 *
 * And the program's address space may be limited (ulimit -v), so little is mapped at the
 * start and the rest as it comes into use: nodes a chunk at a time, the name log through
 * a window that moves along, a thread's ring while the thread lives. The descriptor is
 * closed by then; mremap() with an old size of 0 maps more of a file of which one page is
 * mapped. Where that fails, something is counted in `lost`, and the program goes on. */
#ifndef LW_AGENT_REGION_H
#define LW_AGENT_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/layout.h"

/* Fixed sizes, so that the memory a watched process can lose to us is known: 64 MB of
 * nodes (2 million call paths), as much for their private halves, and 32 MB of names at
 * the very most; and 8 MB of ring a thread for a timeline or every op. */
enum {
    LW_REGION_THREADS = 512,
    LW_REGION_BLOCK_NODES = 256,
    LW_REGION_BLOCKS = 8192,
    LW_REGION_CHUNK_BLOCKS = 128, /* mapped at once: 1 MB */
    LW_REGION_CHUNKS = LW_REGION_BLOCKS / LW_REGION_CHUNK_BLOCKS,
};

struct lw_region_options {
    uint32_t flags; /* LW_AGENT_* for the header */
    bool shared;    /* a memfd; false: anonymous memory, with no rings and no names */
    bool use_tsc;
};

/* The private half of a node. */
struct lw_region_node {
    struct lw_agent_node *counts;      /* the other half: written, never believed */
    struct lw_region_node *parent;     /* the root's is itself */
    struct lw_region_node *last_child; /* entered last, tried first; never NULL: where
                                        * there is none, a node of function 0 */
    uint32_t function;
    uint32_t number;
};

/* Private halves of a block of nodes. */
struct lw_region_block {
    struct lw_region_block *next;
    struct lw_region_node nodes[LW_REGION_BLOCK_NODES];
};

/* The tree of a thread slot. It stays when the thread is gone: the slot's next thread
 * goes on with it, so that a program which starts a thread a request does not grow a tree
 * a thread. */
struct lw_region_tree {
    struct lw_region_node *root; /* NULL: there is no tree yet */
    struct lw_region_node
        *more; /* "(more)"; its child for the nameless is the next node */
    struct lw_region_node *
        *children; /* hash of (parent, function); NULL: free; owned */
    uint32_t children_mask;
    uint32_t child_count;
    struct lw_region_block *blocks; /* owned */
    struct lw_region_node *free;    /* next unused node of the last block */
    struct lw_region_node *free_end;
    struct lw_agent_node *free_counts; /* the shared half of `free` */
    uint32_t free_number;
};

/* What the agent itself knows of a thread slot. */
struct lw_region_slot {
    struct lw_region_tree tree;
    unsigned char *ring; /* mapped; NULL: not yet */
    bool ring_is_whole;  /* false: only its first page, to map the rest by */
    uint64_t ring_head;  /* records ever put there, when its last thread ended */
    bool is_taken;       /* by a thread that lives */
    uint32_t generation; /* of that thread, or of the last one */
};

/* What the agent goes by, in private memory. */
struct lw_region_own {
    struct lw_region_node nobody; /* function 0 */
    bool is_shared;
    bool use_tsc;
    uint32_t flags;
    uint64_t start_ticks;
    size_t page_bytes;
    size_t head_bytes; /* of the mapping that begins with the header */

    _Atomic uint32_t blocks_used;
    struct lw_agent_node *_Atomic chunks[LW_REGION_CHUNKS]; /* NULL: not mapped */

    uint64_t names_bytes;
    uint64_t names_used;
    uint64_t names_lost;        /* that had a number and no room */
    unsigned char *names_first; /* the first window, which stays mapped */
    size_t names_first_bytes;
    unsigned char *names_window; /* where names are written now; often the first */
    size_t names_window_bytes;
    uint64_t names_window_at; /* which byte of the log it begins with */

    size_t ring_bytes;        /* from one ring to the next */
    uint32_t rings_met;       /* slots that ever had their ring mapped: the first */
    unsigned char *next_ring; /* the first page of the one after them */
    struct lw_region_slot slots[LW_REGION_THREADS];
};

struct lw_region {
    struct lw_agent_header *header; /* NULL: no region */
    struct lw_agent_thread *threads;
    _Atomic uint32_t *block_owners;
    struct lw_region_own *own;
    uint64_t ring_mask; /* records of a ring - 1 */
    int fd;             /* the memfd until it is handed over; -1: none */
};

/* False, with errno set, where memory could not be had; REGION is then zeroed. */
bool lw_region_create(struct lw_region *region,
                      const struct lw_region_options *options);
void lw_region_release(struct lw_region *region);

/* In a forked child, of its parent's region: unmap it, and leave the trees, which another
 * thread may have been changing when this process was made. */
void lw_region_leave(struct lw_region *region);

/* Take a slot for the calling thread, with a tree and a ring, or NULL (counted in lost).
 * One thread at a time may take or end. */
struct lw_agent_thread *lw_region_take_thread(struct lw_region *region);
/* The calling thread exits, or stops using the slot. */
void lw_region_end_thread(struct lw_region *region, struct lw_agent_thread *thread);

static inline uint32_t lw_region_slot_number(const struct lw_region *region,
                                             const struct lw_agent_thread *thread)
{
    return (uint32_t)(thread - region->threads);
}

static inline struct lw_region_slot *lw_region_slot(
    const struct lw_region *region, const struct lw_agent_thread *thread)
{
    return &region->own->slots[lw_region_slot_number(region, thread)];
}

/* A new node in the tree of slot number SLOT; NULL: there is no node left or no memory.
 * RESERVE: it may be of the last few blocks, which are kept for what is folded under
 * "(more)". PARENT: NULL for a root. */
struct lw_region_node *lw_region_add_node(struct lw_region *region, uint32_t slot,
                                          struct lw_region_node *parent,
                                          uint32_t function, bool reserve);

/* How many blocks have been handed out. */
uint32_t lw_region_blocks_used(const struct lw_region *region);
/* The shared half of node NUMBER, of a block that has been handed out. */
struct lw_agent_node *lw_region_node(const struct lw_region *region, uint32_t number);

/* Free what TREE owns. */
void lw_region_tree_release(struct lw_region_tree *tree);

/* Append to the name log. Returns false, and counts, when it is full. Only one thread
 * may be here at a time (the lock of agent/names.h sees to it). */
bool lw_region_add_name(struct lw_region *region, const struct lw_agent_name *head,
                        const char *file, const char *name);

/* Begin REGION's name log, still empty, as that of FROM. False: no memory. */
bool lw_region_copy_names(struct lw_region *region, const struct lw_region *from);

static inline void lw_region_count_lost(struct lw_region *region,
                                        enum lw_agent_loss cause)
{
    atomic_fetch_add_explicit(&region->header->lost[cause], 1, memory_order_relaxed);
}

/* ---- between the files of a region -------------------------------------------------- */

/* Map the parts of a region whose head is mapped and whose sizes are known: what a
 * process with one thread needs. False, with errno set. */
bool lw_region_map_parts(struct lw_region *region, const struct lw_agent_header *head);
/* Unmap all but the head and `own`. */
void lw_region_unmap_parts(struct lw_region *region);

/* Have chunk number CHUNK of the nodes mapped; any thread. */
bool lw_region_reach_chunk(struct lw_region *region, uint32_t chunk);
/* Have the ring of slot number SLOT mapped; false: its thread goes without. */
bool lw_region_reach_ring(struct lw_region *region, uint32_t slot);
/* Its thread is gone: unmap it but for its first page. */
void lw_region_park_ring(struct lw_region *region, uint32_t slot);

#endif
