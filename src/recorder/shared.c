/* Checks a watched process's shared memory once, then hands out places in it. */

#include "recorder/shared.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/alloc.h"

/* Far above what an agent asks for (its largest part, the nodes, is some hundred
 * megabytes of address space), and small enough that no sum below overflows. */
#define SHARED_BYTES_MAX (1ull << 40)
#define THREAD_SLOTS_MAX 65536u

#define PART_BYTES_FIRST (256u << 10) /* of a part, mapped at once */

#define ALIGNED(offset) ((offset) % 8 == 0)

/* COUNT things of SIZE bytes at OFFSET lie within the region, aligned for 64 bits. */
static bool part_fits(const struct lw_agent_header *header, uint64_t offset,
                      uint64_t count, uint64_t size)
{
    if (!ALIGNED(offset) || offset < sizeof(*header) || offset > header->region_bytes)
        return false;
    return count == 0 || size <= (header->region_bytes - offset) / count;
}

/* It can be mapped by itself. */
static bool is_mappable(uint64_t offset)
{
    return offset % LW_AGENT_ALIGN == 0;
}

static bool ring_is_sound(uint64_t ring_bytes, uint64_t records)
{
    return ring_bytes >= sizeof(struct lw_agent_ring) && ALIGNED(ring_bytes) &&
           records > 0 && (records & (records - 1)) == 0 &&
           records <= (ring_bytes - sizeof(struct lw_agent_ring)) /
                          sizeof(struct lw_agent_record);
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
                         uint64_t file_bytes, struct lw_error *err)
{
    uint64_t node_count = (uint64_t)header->block_count * header->block_nodes;

    if (header->magic != LW_AGENT_MAGIC)
        return lw_fail(err, LW_ERR_FORMAT, "its shared memory is not an agent's");
    if (header->version != LW_REGION_VERSION)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "its agent is of another version (%u, not %u) than this program",
                       header->version, LW_REGION_VERSION);
    if (header->header_bytes < sizeof(*header) ||
        header->thread_bytes != sizeof(struct lw_agent_thread) ||
        header->region_bytes != file_bytes || header->region_bytes > SHARED_BYTES_MAX)
        return lw_fail(err, LW_ERR_FORMAT, "the sizes in its shared memory are wrong");
    if (header->thread_slots == 0 || header->thread_slots > THREAD_SLOTS_MAX ||
        header->block_nodes == 0 || node_count == 0 || node_count >= UINT32_MAX)
        return lw_fail(err, LW_ERR_FORMAT, "the counts in its shared memory are wrong");
    if (!ring_is_sound(header->ring_bytes, header->ring_records))
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
    if (!is_mappable(header->nodes_offset) || !is_mappable(header->names_offset) ||
        !is_mappable(header->rings_offset))
        return lw_fail(err, LW_ERR_FORMAT,
                       "a part of its shared memory begins at a wrong place");
    if (!clock_is_known(header->clock))
        return lw_fail(err, LW_ERR_UNSUPPORTED, "its agent uses an unknown clock (%u)",
                       header->clock);

    shared->threads_offset = header->threads_offset;
    shared->blocks_offset = header->blocks_offset;
    shared->names_bytes = header->names_bytes;
    shared->ring_bytes = header->ring_bytes;
    shared->ring_records = header->ring_records;
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

/* Where the header, the threads and the owners of blocks end. */
static uint64_t head_end(const struct lw_agent_header *header)
{
    uint64_t threads =
        header->threads_offset + (uint64_t)header->thread_slots * header->thread_bytes;
    uint64_t blocks =
        header->blocks_offset + (uint64_t)header->block_count * sizeof(uint32_t);

    return threads > blocks ? threads : blocks;
}

static unsigned char *map(int fd, uint64_t offset, size_t len, struct lw_error *err)
{
    void *mapped =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

    if (mapped != MAP_FAILED)
        return mapped;
    lw_fail_errno(err, "cannot map its shared memory");
    return NULL;
}

/* Map the start of the part of MOST bytes at OFFSET. What is mapped behind its end is
 * never looked at. */
static bool open_part(struct lw_shared_part *part, int fd, uint64_t offset,
                      uint64_t most, struct lw_error *err)
{
    part->most = most;
    part->len = most > 0 && most < PART_BYTES_FIRST ? most : PART_BYTES_FIRST;
    part->bytes = map(fd, offset, part->len, err);
    return part->bytes;
}

static void tidy_part(struct lw_shared_part *part)
{
    for (unsigned i = 0; i < part->outgrown_count; i++)
        munmap(part->outgrown[i].bytes, part->outgrown[i].len);
    part->outgrown_count = 0;
}

/* Have the first END bytes of PART mapped. A descriptor a process would be too many, so
 * its file is not open any more: what is mapped already is mapped once more, larger. */
static bool reach(struct lw_shared_part *part, uint64_t end, struct lw_error *err)
{
    uint64_t len = part->len * 2;
    void *mapped;

    if (end <= part->len)
        return true;
    lw_assert(end <= part->most);
    if (len < end)
        len = end;
    if (len > part->most)
        len = part->most;
    mapped = part->outgrown_count < LW_SHARED_OUTGROWN
                 ? mremap(part->bytes, 0, (size_t)len, MREMAP_MAYMOVE)
                 : MAP_FAILED;
    if (mapped == MAP_FAILED)
        return lw_fail_errno(err, "cannot map more of its shared memory");
    part->outgrown[part->outgrown_count].bytes = part->bytes;
    part->outgrown[part->outgrown_count++].len = part->len;
    part->bytes = mapped;
    part->len = (size_t)len;
    return true;
}

/* Take over the region in FD, of FILE_BYTES, whose header is HEADER. */
static bool open_region(struct lw_shared *shared, int fd, uint64_t file_bytes,
                        const struct lw_agent_header *header, struct lw_error *err)
{
    struct lw_shared_parts *parts;

    if (!check_header(shared, header, file_bytes, err) ||
        !(shared->parts = parts = lw_zalloc(1, sizeof(*parts), err)))
        return false;
    shared->len = (size_t)head_end(header);
    shared->bytes = map(fd, 0, shared->len, err);
    return shared->bytes &&
           open_part(&parts->nodes, fd, header->nodes_offset,
                     (uint64_t)shared->node_count * sizeof(struct lw_agent_node),
                     err) &&
           open_part(&parts->names, fd, header->names_offset, header->names_bytes,
                     err) &&
           open_part(&parts->rings, fd, header->rings_offset,
                     header->thread_slots * header->ring_bytes, err);
}

bool lw_shared_open(struct lw_shared *shared, int fd, struct lw_error *err)
{
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
    struct lw_agent_header header; /* a copy, so that what is checked is what is used */
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    unsigned char *head;

    memset(shared, 0, sizeof(*shared));
    if (seals < 0 || (seals & needed) != needed)
        return lw_fail(err, LW_ERR_FORMAT,
                       "its shared memory is not sealed against shrinking");
    if (fstat(fd, &st) != 0)
        return lw_fail_errno(err, "cannot measure its shared memory");
    if (st.st_size < (off_t)sizeof(header))
        return lw_fail(err, LW_ERR_FORMAT, "its shared memory is too small");
    head = map(fd, 0, sizeof(header), err);
    if (!head)
        return false;
    memcpy(&header, head, sizeof(header));
    munmap(head, sizeof(header));
    if (open_region(shared, fd, (uint64_t)st.st_size, &header, err))
        return true;
    lw_shared_close(shared);
    return false;
}

void lw_shared_close(struct lw_shared *shared)
{
    struct lw_shared_parts *parts = shared->parts;

    if (parts) {
        struct lw_shared_part *all[] = { &parts->nodes, &parts->names, &parts->rings };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
            tidy_part(all[i]);
            if (all[i]->bytes)
                munmap(all[i]->bytes, all[i]->len);
        }
        lw_free(parts);
    }
    if (shared->bytes)
        munmap(shared->bytes, shared->len);
    memset(shared, 0, sizeof(*shared));
}

void lw_shared_tidy(const struct lw_shared *shared)
{
    tidy_part(&shared->parts->nodes);
    tidy_part(&shared->parts->names);
    tidy_part(&shared->parts->rings);
}

bool lw_shared_reach_node(const struct lw_shared *shared, uint32_t number,
                          struct lw_error *err)
{
    lw_assert(number < shared->node_count);
    return reach(&shared->parts->nodes,
                 ((uint64_t)number + 1) * sizeof(struct lw_agent_node), err);
}

bool lw_shared_reach_names(const struct lw_shared *shared, uint64_t bytes,
                           struct lw_error *err)
{
    return reach(&shared->parts->names, bytes, err);
}

bool lw_shared_reach_rings(const struct lw_shared *shared, uint32_t slots,
                           struct lw_error *err)
{
    return reach(&shared->parts->rings, slots * shared->ring_bytes, err);
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
    return (struct lw_agent_ring *)(void *)(shared->parts->rings.bytes +
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
    return shared->parts->names.bytes;
}
