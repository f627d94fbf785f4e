/* Making a region and parcelling it out. Nothing here is on the path of a call: that
 * path (agent/calls.h) touches only nodes and its own thread slot. */

#include "agent/region.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/ticks.h"

enum {
    RESERVED_BLOCKS = 64,
    NAMES_BYTES = 32 << 20,
    RING_RECORDS = 1 << 12, /* a quarter of it: 50 ms of 20,000 phases a second */
    TIMELINE_RING_RECORDS = 1 << 18, /* 50 ms of 5 million calls a second */
    OPS_RING_RECORDS = 1 << 15,      /* a step of 28,000 tiny ops in 50 ms, and which
                                        lines asked for them */
};

/* The first node that is kept for "(more)" and what is folded under it. */
#define FIRST_RESERVED \
    ((uint32_t)(LW_REGION_BLOCKS - RESERVED_BLOCKS) * LW_REGION_BLOCK_NODES)

static uint64_t align(uint64_t value)
{
    return (value + LW_AGENT_ALIGN - 1) / LW_AGENT_ALIGN * LW_AGENT_ALIGN;
}

static uint64_t ring_records_for(uint32_t flags)
{
    if (flags & (LW_AGENT_TIMELINE | LW_AGENT_ALL_OPS))
        return TIMELINE_RING_RECORDS;
    return flags & LW_AGENT_OPS ? OPS_RING_RECORDS : RING_RECORDS;
}

static struct lw_agent_header lay_out(const struct lw_region_options *options)
{
    uint64_t ring_records = ring_records_for(options->flags);
    struct lw_agent_header head = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_REGION_VERSION,
        .header_bytes = sizeof(head),
        .thread_slots = LW_REGION_THREADS,
        .thread_bytes = sizeof(struct lw_agent_thread),
        .block_count = LW_REGION_BLOCKS,
        .block_nodes = LW_REGION_BLOCK_NODES,
        .names_bytes = options->shared ? NAMES_BYTES : 0,
        .ring_bytes = align(sizeof(struct lw_agent_ring) +
                            ring_records * sizeof(struct lw_agent_record)),
        .ring_records = ring_records,
        .clock = options->use_tsc ? LW_CLOCK_TSC : LW_CLOCK_MONOTONIC_NS,
        .flags = options->flags,
        .pid = (uint64_t)getpid(),
        .parent_pid = (uint64_t)getppid(),
    };

    head.threads_offset = align(sizeof(head));
    head.blocks_offset =
        head.threads_offset + LW_REGION_THREADS * sizeof(struct lw_agent_thread);
    head.nodes_offset = align(head.blocks_offset + LW_REGION_BLOCKS * sizeof(uint32_t));
    head.names_offset = head.nodes_offset + (uint64_t)LW_REGION_BLOCKS *
                                                LW_REGION_BLOCK_NODES *
                                                sizeof(struct lw_agent_node);
    head.rings_offset = head.names_offset + head.names_bytes;
    /* A piece more, so that there is a page behind the last ring too. */
    head.region_bytes =
        head.rings_offset + LW_REGION_THREADS * head.ring_bytes + LW_AGENT_ALIGN;
    return head;
}

/* Sealed, so that nobody can cut it off and have us die of SIGBUS. */
static int make_file(uint64_t bytes)
{
    int fd = (int)syscall(SYS_memfd_create, "lapwing", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 &&
        (ftruncate(fd, (off_t)bytes) < 0 ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void *map(size_t bytes, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *mapped =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);

    return mapped == MAP_FAILED ? NULL : mapped;
}

bool lw_region_create(struct lw_region *region, const struct lw_region_options *options)
{
    struct lw_agent_header head = lay_out(options);
    struct lw_region_own *own;
    unsigned char *base;

    memset(region, 0, sizeof(*region));
    region->fd = -1;
    if (options->shared && (region->fd = make_file(head.region_bytes)) < 0)
        return false;
    own = region->own = map(sizeof(*own), -1);
    base = own ? map(head.nodes_offset, region->fd) : NULL;
    region->header = (struct lw_agent_header *)(void *)base;
    if (own) {
        own->is_shared = options->shared;
        own->use_tsc = options->use_tsc;
        own->flags = options->flags;
        own->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
        own->head_bytes = head.nodes_offset;
        own->names_bytes = head.names_bytes;
        own->ring_bytes = head.ring_bytes;
    }
    if (!base || !lw_region_map_parts(region, &head)) {
        lw_region_release(region);
        return false;
    }

    own->start_ticks = head.start_ticks = lw_ticks_now(options->use_tsc);
    head.start_ns = lw_ticks_monotonic_ns();
    atomic_store(&head.state, LW_AGENT_RUNNING);
    memcpy(base, &head, sizeof(head));
    region->threads = (struct lw_agent_thread *)(void *)(base + head.threads_offset);
    region->block_owners = (_Atomic uint32_t *)(void *)(base + head.blocks_offset);
    region->ring_mask = head.ring_records - 1;
    return true;
}

void lw_region_tree_release(struct lw_region_tree *tree)
{
    while (tree->blocks) {
        struct lw_region_block *block = tree->blocks;

        tree->blocks = block->next;
        free(block);
    }
    free(tree->children);
    memset(tree, 0, sizeof(*tree));
}

void lw_region_leave(struct lw_region *region)
{
    if (region->own) {
        lw_region_unmap_parts(region);
        if (region->header)
            munmap(region->header, region->own->head_bytes);
        munmap(region->own, sizeof(*region->own));
    }
    if (region->fd >= 0)
        close(region->fd);
    memset(region, 0, sizeof(*region));
    region->fd = -1;
}

void lw_region_release(struct lw_region *region)
{
    for (uint32_t i = 0; region->own && i < LW_REGION_THREADS; i++)
        lw_region_tree_release(&region->own->slots[i].tree);
    lw_region_leave(region);
}

/* ---- nodes -------------------------------------------------------------------------- */

/* Take the next unused block of nodes for slot number SLOT; false: there is none left, or
 * no memory. */
static bool take_block(struct lw_region *region, uint32_t slot, bool reserve)
{
    struct lw_region_own *own = region->own;
    struct lw_region_tree *tree = &own->slots[slot].tree;
    uint32_t limit = LW_REGION_BLOCKS - (reserve ? 0 : RESERVED_BLOCKS);
    uint32_t taken = atomic_load_explicit(&own->blocks_used, memory_order_relaxed);
    uint32_t skipped;
    struct lw_region_block *block = malloc(sizeof(*block));

    if (!block)
        return false;
    do {
        if (taken >= limit ||
            !lw_region_reach_chunk(region, taken / LW_REGION_CHUNK_BLOCKS)) {
            free(block);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&own->blocks_used, &taken, taken + 1));
    atomic_store_explicit(&region->block_owners[taken], slot + 1, memory_order_release);
    atomic_fetch_add(&region->header->blocks_used, 1);

    skipped = taken == 0; /* node 0 stands for "none" */
    block->next = tree->blocks;
    tree->blocks = block;
    tree->free = block->nodes + skipped;
    tree->free_end = block->nodes + LW_REGION_BLOCK_NODES;
    tree->free_number = taken * LW_REGION_BLOCK_NODES + skipped;
    tree->free_counts = lw_region_node(region, tree->free_number);
    return true;
}

struct lw_region_node *lw_region_add_node(struct lw_region *region, uint32_t slot,
                                          struct lw_region_node *parent,
                                          uint32_t function, bool reserve)
{
    struct lw_region_tree *tree = &region->own->slots[slot].tree;
    struct lw_region_node *node;

    if (tree->free == tree->free_end && !take_block(region, slot, reserve))
        return NULL;
    if (!reserve && tree->free_number >= FIRST_RESERVED)
        return NULL;
    node = tree->free++;
    node->counts = tree->free_counts++;
    node->parent = parent ? parent : node;
    node->last_child = &region->own->nobody;
    node->function = function;
    node->number = tree->free_number++;
    node->counts->parent = node->parent->number;
    atomic_store_explicit(&node->counts->function, function, memory_order_release);
    return node;
}

uint32_t lw_region_blocks_used(const struct lw_region *region)
{
    return atomic_load_explicit(&region->own->blocks_used, memory_order_relaxed);
}

/* A tree's first three nodes: its root, and where calls go when nodes run out, made now
 * so that it can always be done: they are the first of a block, so that with the first
 * the others are there. */
static bool make_root(struct lw_region *region, uint32_t slot)
{
    struct lw_region_tree *tree = &region->own->slots[slot].tree;
    struct lw_region_node *root =
        lw_region_add_node(region, slot, NULL, LW_FUNCTION_ROOT, false);

    if (!root)
        return false;
    tree->more = lw_region_add_node(region, slot, root, LW_FUNCTION_MORE, false);
    lw_region_add_node(region, slot, tree->more, LW_FUNCTION_UNKNOWN, false);
    tree->root = root;
    return true;
}

/* ---- threads ------------------------------------------------------------------------ */

/* No thread of ours has it, and the recorder is done with the one that had it. */
static bool slot_is_free(const struct lw_region *region, uint32_t slot)
{
    uint32_t state =
        atomic_load_explicit(&region->threads[slot].state, memory_order_acquire);

    return !region->own->slots[slot].is_taken &&
           (state == LW_THREAD_FREE || state == LW_THREAD_READ);
}

struct lw_agent_thread *lw_region_take_thread(struct lw_region *region)
{
    for (uint32_t i = 0; i < LW_REGION_THREADS; i++) {
        struct lw_agent_thread *thread = &region->threads[i];
        struct lw_region_slot *mine = &region->own->slots[i];

        if (!slot_is_free(region, i))
            continue;
        if (!mine->tree.root && !make_root(region, i))
            break;
        if (region->own->is_shared && !lw_region_reach_ring(region, i)) {
            /* Its spans are counted as lost, one by one. */
        }
        mine->is_taken = true;
        thread->root = mine->tree.root->number;
        thread->tid = (uint64_t)syscall(SYS_gettid);
        thread->start_ticks = lw_ticks_now(region->own->use_tsc);
        atomic_store(&thread->name_len, 0);
        atomic_store(&thread->end_ticks, 0);
        atomic_store(&thread->last_ticks, thread->start_ticks);
        atomic_store(&thread->current, mine->tree.root->number);
        atomic_store(&thread->generation, ++mine->generation);
        atomic_store_explicit(&thread->state, LW_THREAD_LIVE, memory_order_release);
        return thread;
    }
    lw_region_count_lost(region, LW_LOST_THREADS);
    return NULL;
}

void lw_region_end_thread(struct lw_region *region, struct lw_agent_thread *thread)
{
    bool is_shared = region->own->is_shared;

    atomic_store(&thread->end_ticks, lw_ticks_now(region->own->use_tsc));
    lw_region_slot(region, thread)->is_taken = false;
    if (is_shared)
        lw_region_park_ring(region, lw_region_slot_number(region, thread));
    /* In private memory nobody has a last look to take. */
    atomic_store_explicit(&thread->state, is_shared ? LW_THREAD_ENDED : LW_THREAD_READ,
                          memory_order_release);
}
