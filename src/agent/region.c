/* Making a region and parcelling it out. Nothing here is on the path of a call: that
 * path (agent/calls.h) touches only nodes and its own thread slot. */

#include "agent/region.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/ticks.h"

/* Fixed sizes, so that the memory a watched process can lose to us is known: 64 MB of
 * nodes (2 million call paths) and 32 MB of names at the very most, and 8 MB of ring a
 * thread for a timeline or every op; all of it sparse until used. */
enum {
    THREAD_SLOTS = 512,
    BLOCK_NODES = 256,
    BLOCKS = 8192,
    RESERVED_BLOCKS = 64,
    NAMES_BYTES = 32 << 20,
    RING_RECORDS = 1 << 12, /* a quarter of it: 50 ms of 20,000 phases a second */
    TIMELINE_RING_RECORDS = 1 << 18, /* 50 ms of 5 million calls a second */
    OPS_RING_RECORDS = 1 << 15,      /* a step of 28,000 tiny ops in 50 ms, and which
                                        lines asked for them */
    PAGE = 4096,
};

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static uint64_t ring_records_for(uint32_t flags)
{
    if (flags & (LW_AGENT_TIMELINE | LW_AGENT_ALL_OPS))
        return TIMELINE_RING_RECORDS;
    return flags & LW_AGENT_OPS ? OPS_RING_RECORDS : RING_RECORDS;
}

bool lw_region_create(struct lw_region *region, const struct lw_region_options *options)
{
    uint64_t ring_records = ring_records_for(options->flags);
    struct lw_agent_header head = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_AGENT_VERSION,
        .header_bytes = sizeof(head),
        .thread_slots = THREAD_SLOTS,
        .thread_bytes = sizeof(struct lw_agent_thread),
        .block_count = BLOCKS,
        .block_nodes = BLOCK_NODES,
        .names_bytes = options->shared ? NAMES_BYTES : 0,
        .ring_bytes = sizeof(struct lw_agent_ring) +
                      ring_records * sizeof(struct lw_agent_record),
        .clock = options->use_tsc ? LW_CLOCK_TSC : LW_CLOCK_MONOTONIC_NS,
        .flags = options->flags,
        .pid = (uint64_t)getpid(),
        .parent_pid = (uint64_t)getppid(),
    };
    unsigned char *base;
    int fd = -1;

    memset(region, 0, sizeof(*region));
    region->fd = -1;
    head.threads_offset = round_up(sizeof(head), PAGE);
    head.blocks_offset =
        head.threads_offset + THREAD_SLOTS * sizeof(struct lw_agent_thread);
    head.nodes_offset = round_up(head.blocks_offset + BLOCKS * sizeof(uint32_t), PAGE);
    head.names_offset = head.nodes_offset +
                        (uint64_t)BLOCKS * BLOCK_NODES * sizeof(struct lw_agent_node);
    head.rings_offset = head.names_offset + head.names_bytes;
    head.region_bytes = head.rings_offset;
    if (options->shared)
        head.region_bytes =
            round_up(head.rings_offset + THREAD_SLOTS * head.ring_bytes, PAGE);

    if (options->shared) {
        fd = (int)syscall(SYS_memfd_create, "lapwing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
            return false;
        if (ftruncate(fd, (off_t)head.region_bytes) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
            close(fd);
            return false;
        }
    }
    base = mmap(NULL, head.region_bytes, PROT_READ | PROT_WRITE,
                options->shared ? MAP_SHARED | MAP_NORESERVE
                                : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                fd, 0);
    if (base == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return false;
    }

    head.start_ticks = lw_ticks_now(options->use_tsc);
    head.start_ns = lw_ticks_monotonic_ns();
    atomic_store(&head.state, LW_AGENT_RUNNING);
    memcpy(base, &head, sizeof(head));
    region->header = (struct lw_agent_header *)base;
    region->threads = (struct lw_agent_thread *)(base + head.threads_offset);
    region->block_owners = (_Atomic uint32_t *)(base + head.blocks_offset);
    region->nodes = (struct lw_agent_node *)(base + head.nodes_offset);
    region->names = base + head.names_offset;
    region->rings = base + head.rings_offset;
    region->ring_mask = ring_records - 1;
    region->mapped_bytes = head.region_bytes;
    region->fd = fd;
    return true;
}

void lw_region_release(struct lw_region *region)
{
    if (region->header)
        munmap(region->header, region->mapped_bytes);
    if (region->fd >= 0)
        close(region->fd);
    memset(region, 0, sizeof(*region));
    region->fd = -1;
}

bool lw_region_take_block(struct lw_region *region, struct lw_agent_thread *thread,
                          bool reserve)
{
    uint32_t limit = reserve ? BLOCKS : BLOCKS - RESERVED_BLOCKS;
    uint32_t block =
        atomic_load_explicit(&region->header->blocks_used, memory_order_relaxed);

    do {
        if (block >= limit)
            return false;
    } while (
        !atomic_compare_exchange_weak(&region->header->blocks_used, &block, block + 1));
    atomic_store_explicit(&region->block_owners[block],
                          (uint32_t)(thread - region->threads) + 1,
                          memory_order_release);
    thread->free_node = block * BLOCK_NODES;
    thread->free_end = thread->free_node + BLOCK_NODES;
    if (thread->free_node == 0)
        thread->free_node = 1; /* node 0 stands for "none" */
    return true;
}

bool lw_region_is_reserve(const struct lw_region *region, uint32_t node)
{
    return node / region->header->block_nodes >= BLOCKS - RESERVED_BLOCKS;
}

static uint32_t make_node(struct lw_region *region, struct lw_agent_thread *thread,
                          uint32_t parent, uint32_t function)
{
    uint32_t number = thread->free_node++;
    struct lw_agent_node *node = &region->nodes[number];

    node->parent = parent ? parent : number;
    atomic_store_explicit(&node->function, function, memory_order_release);
    return number;
}

/* A thread's first three nodes: its root, and where calls go when nodes run out, made
 * now so that it can always be done. */
static bool make_root(struct lw_region *region, struct lw_agent_thread *thread)
{
    if (!lw_region_take_block(region, thread, false))
        return false;
    thread->root = make_node(region, thread, 0, LW_FUNCTION_ROOT);
    thread->overflow = make_node(region, thread, thread->root, LW_FUNCTION_MORE);
    make_node(region, thread, thread->overflow, LW_FUNCTION_UNKNOWN);
    return true;
}

struct lw_agent_thread *lw_region_take_thread(struct lw_region *region)
{
    for (uint32_t i = 0; i < region->header->thread_slots; i++) {
        struct lw_agent_thread *thread = &region->threads[i];
        uint32_t state = atomic_load_explicit(&thread->state, memory_order_acquire);

        if (state != LW_THREAD_FREE && state != LW_THREAD_READ)
            continue;
        if (!atomic_compare_exchange_strong(&thread->state, &state, LW_THREAD_TAKEN))
            continue;
        if (thread->root == 0 && !make_root(region, thread)) {
            atomic_store(&thread->state, LW_THREAD_FREE);
            break;
        }
        thread->tid = (uint64_t)syscall(SYS_gettid);
        thread->start_ticks = lw_ticks_now(region->header->clock == LW_CLOCK_TSC);
        thread->depth = 0;
        atomic_store(&thread->name_len, 0);
        atomic_store(&thread->end_ticks, 0);
        atomic_store(&thread->last_ticks, thread->start_ticks);
        atomic_store(&thread->current, thread->root);
        atomic_fetch_add(&thread->generation, 1);
        atomic_store_explicit(&thread->state, LW_THREAD_LIVE, memory_order_release);
        return thread;
    }
    lw_region_count_lost(region, LW_LOST_THREADS);
    return NULL;
}

void lw_region_end_thread(struct lw_region *region, struct lw_agent_thread *thread)
{
    bool use_tsc = region->header->clock == LW_CLOCK_TSC;

    bool is_shared = region->header->names_bytes != 0;

    atomic_store(&thread->end_ticks, lw_ticks_now(use_tsc));
    /* In private memory nobody has a last look to take. */
    atomic_store_explicit(&thread->state, is_shared ? LW_THREAD_ENDED : LW_THREAD_READ,
                          memory_order_release);
}

bool lw_region_add_name(struct lw_region *region, const struct lw_agent_name *head,
                        const char *file, const char *name)
{
    struct lw_agent_header *header = region->header;
    uint64_t used = atomic_load_explicit(&header->names_used, memory_order_relaxed);
    struct lw_agent_name record = *head;
    unsigned char *at = region->names + used;

    record.record_bytes = (uint32_t)round_up(
        sizeof(record) + (uint64_t)record.file_len + record.name_len, 8);
    if (record.record_bytes > header->names_bytes - used) {
        lw_region_count_lost(region, LW_LOST_NAMES);
        return false;
    }
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), file, record.file_len);
    memcpy(at + sizeof(record) + record.file_len, name, record.name_len);
    atomic_store_explicit(&header->names_used, used + record.record_bytes,
                          memory_order_release);
    return true;
}
