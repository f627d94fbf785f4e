/* Checks a watched process's shared memory once, then hands out places in it. */

#include "recorder/shared.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Far above what an agent asks for (its largest part, the nodes, is some hundred
 * megabytes of address space), and small enough that no sum below overflows. */
#define SHARED_BYTES_MAX (1ull << 40)
#define THREAD_SLOTS_MAX 65536u

#define ALIGNED(offset) ((offset) % 8 == 0)

/* COUNT things of SIZE bytes at OFFSET lie within the region, aligned for 64 bits. */
static bool part_fits(const struct lw_agent_header *header, uint64_t offset,
                      uint64_t count, uint64_t size)
{
    if (!ALIGNED(offset) || offset < sizeof(*header) || offset > header->region_bytes)
        return false;
    return count == 0 || size <= (header->region_bytes - offset) / count;
}

static bool ring_capacity(uint64_t ring_bytes, uint64_t *records)
{
    if (ring_bytes < sizeof(struct lw_agent_ring) || !ALIGNED(ring_bytes))
        return false;
    *records =
        (ring_bytes - sizeof(struct lw_agent_ring)) / sizeof(struct lw_agent_record);
    return *records > 0 && (*records & (*records - 1)) == 0;
}

static bool clock_is_known(uint32_t clock)
{
#ifdef __x86_64__
    if (clock == LW_CLOCK_TSC)
        return true;
#endif
    return clock == LW_CLOCK_MONOTONIC_NS;
}

static bool check_header(struct lw_shared *shared, const struct lw_agent_header *header,
                         struct lw_error *err)
{
    uint64_t node_count = (uint64_t)header->block_count * header->block_nodes;

    if (header->magic != LW_AGENT_MAGIC)
        return lw_fail(err, LW_ERR_FORMAT, "its shared memory is not an agent's");
    if (header->version != LW_AGENT_VERSION)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "its agent is of another version (%u, not %u) than this program",
                       header->version, LW_AGENT_VERSION);
    if (header->header_bytes < sizeof(*header) ||
        header->thread_bytes != sizeof(struct lw_agent_thread) ||
        header->region_bytes != shared->len || header->region_bytes > SHARED_BYTES_MAX)
        return lw_fail(err, LW_ERR_FORMAT, "the sizes in its shared memory are wrong");
    if (header->thread_slots == 0 || header->thread_slots > THREAD_SLOTS_MAX ||
        header->block_nodes == 0 || node_count == 0 || node_count >= UINT32_MAX)
        return lw_fail(err, LW_ERR_FORMAT, "the counts in its shared memory are wrong");
    if (!ring_capacity(header->ring_bytes, &shared->ring_records))
        return lw_fail(err, LW_ERR_FORMAT,
                       "the size of the rings in its shared memory is wrong");
    if (!part_fits(header, header->threads_offset, header->thread_slots,
                   header->thread_bytes) ||
        !part_fits(header, header->blocks_offset, header->block_count,
                   sizeof(uint32_t)) ||
        !part_fits(header, header->nodes_offset, node_count,
                   sizeof(struct lw_agent_node)) ||
        !part_fits(header, header->names_offset, header->names_bytes, 1) ||
        !part_fits(header, header->rings_offset, header->thread_slots,
                   header->ring_bytes))
        return lw_fail(err, LW_ERR_FORMAT, "a part of its shared memory lies outside");
    if (!clock_is_known(header->clock))
        return lw_fail(err, LW_ERR_UNSUPPORTED, "its agent uses an unknown clock (%u)",
                       header->clock);

    shared->threads_offset = header->threads_offset;
    shared->blocks_offset = header->blocks_offset;
    shared->nodes_offset = header->nodes_offset;
    shared->names_offset = header->names_offset;
    shared->names_bytes = header->names_bytes;
    shared->rings_offset = header->rings_offset;
    shared->ring_bytes = header->ring_bytes;
    shared->thread_slots = header->thread_slots;
    shared->block_count = header->block_count;
    shared->block_nodes = header->block_nodes;
    shared->node_count = (uint32_t)node_count;
    shared->clock = header->clock;
    shared->flags = header->flags;
    shared->start_ticks = header->start_ticks;
    shared->start_ns = header->start_ns;
    shared->parent_pid = header->parent_pid;
    return true;
}

bool lw_shared_open(struct lw_shared *shared, int fd, struct lw_error *err)
{
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
    struct lw_agent_header header; /* a copy, so that what is checked is what is used */
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *mapping;

    memset(shared, 0, sizeof(*shared));
    if (seals < 0 || (seals & needed) != needed)
        return lw_fail(err, LW_ERR_FORMAT,
                       "its shared memory is not sealed against shrinking");
    if (fstat(fd, &st) != 0)
        return lw_fail_errno(err, "cannot measure its shared memory");
    if (st.st_size < (off_t)sizeof(header))
        return lw_fail(err, LW_ERR_FORMAT, "its shared memory is too small");
    mapping = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return lw_fail_errno(err, "cannot map its shared memory");

    shared->bytes = mapping;
    shared->len = (size_t)st.st_size;
    memcpy(&header, mapping, sizeof(header));
    if (!check_header(shared, &header, err)) {
        lw_shared_close(shared);
        return false;
    }
    return true;
}

void lw_shared_close(struct lw_shared *shared)
{
    if (shared->bytes)
        munmap(shared->bytes, shared->len);
    memset(shared, 0, sizeof(*shared));
}

struct lw_agent_thread *lw_shared_thread(const struct lw_shared *shared, uint32_t slot)
{
    lw_assert(slot < shared->thread_slots);
    return (struct lw_agent_thread *)(void *)(shared->bytes + shared->threads_offset) +
           slot;
}

uint32_t lw_shared_slots_used(const struct lw_shared *shared, uint32_t known)
{
    while (known < shared->thread_slots &&
           atomic_load_explicit(&lw_shared_thread(shared, known)->state,
                                memory_order_acquire) != LW_THREAD_FREE)
        known++;
    return known;
}

struct lw_agent_ring *lw_shared_ring(const struct lw_shared *shared, uint32_t slot)
{
    lw_assert(slot < shared->thread_slots);
    return (struct lw_agent_ring *)(void *)(shared->bytes + shared->rings_offset +
                                            slot * shared->ring_bytes);
}

struct lw_agent_record *lw_shared_record(struct lw_agent_ring *ring,
                                         const struct lw_shared *shared, uint64_t n)
{
    return (struct lw_agent_record *)(void *)(ring + 1) +
           (n & (shared->ring_records - 1));
}

uint32_t lw_shared_blocks_used(const struct lw_shared *shared)
{
    uint32_t used = atomic_load_explicit(&lw_shared_header(shared)->blocks_used,
                                         memory_order_acquire);

    return used < shared->block_count ? used : shared->block_count;
}

uint32_t lw_shared_block_owner(const struct lw_shared *shared, uint32_t block)
{
    const _Atomic uint32_t *owners =
        (const _Atomic uint32_t *)(const void *)(shared->bytes + shared->blocks_offset);
    uint32_t owner;

    lw_assert(block < shared->block_count);
    owner = atomic_load_explicit(&owners[block], memory_order_acquire);
    return owner != 0 && owner <= shared->thread_slots ? owner - 1 : LW_NO_SLOT;
}

uint64_t lw_shared_names_used(const struct lw_shared *shared)
{
    uint64_t used = atomic_load_explicit(&lw_shared_header(shared)->names_used,
                                         memory_order_acquire);

    return used < shared->names_bytes ? used : shared->names_bytes;
}

const unsigned char *lw_shared_names(const struct lw_shared *shared)
{
    return shared->bytes + shared->names_offset;
}
