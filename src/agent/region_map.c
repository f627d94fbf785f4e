/* Mapping a region piece by piece; see the head of agent/region.h.
 *
 * Nodes, names and rings are three parts of one file. In each, the pieces come into use
 * in the order in which they lie there, so a page that is mapped is never far from the
 * one that is wanted: the last page of the chunk before, the page of the log that is
 * being written, the first page of the ring that nobody had yet.
 *
 *     nodes   [chunk 0][chunk 1]              from the last page of chunk 1
 *     names   [first window] ... [window]     from the last page of the window
 *     rings   [r0][r1][p                      p: the first page of r2, kept for that
 */

#include <string.h>
#include <sys/mman.h>

#include "agent/region.h"

enum {
    CHUNK_NODES = LW_REGION_CHUNK_BLOCKS * LW_REGION_BLOCK_NODES,
    CHUNK_BYTES = CHUNK_NODES * sizeof(struct lw_agent_node),
    WINDOW_BYTES = 256 << 10, /* some 2,000 names */
};

/* What is mapped at AT, a page of the shared file, and what follows there, BYTES of it,
 * once more and elsewhere; NULL: there is no room. */
static unsigned char *map_again(unsigned char *at, size_t bytes)
{
    void *mapped = mremap(at, 0, bytes, MREMAP_MAYMOVE);

    return mapped == MAP_FAILED ? NULL : mapped;
}

static unsigned char *map_file(const struct lw_region *region, uint64_t offset,
                               size_t bytes)
{
    int flags = region->own->is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE,
                        region->fd, region->own->is_shared ? (off_t)offset : 0);

    return mapped == MAP_FAILED ? NULL : mapped;
}

static void unmap(void *at, size_t bytes)
{
    if (at && bytes > 0)
        munmap(at, bytes);
}

/* The ring that nobody had yet is mapped at RING, and the page behind it. */
static void meet_ring(struct lw_region_own *own, unsigned char *ring)
{
    struct lw_region_slot *slot = &own->slots[own->rings_met++];

    slot->ring = ring;
    slot->ring_is_whole = true;
    own->next_ring = ring + own->ring_bytes;
}

bool lw_region_map_parts(struct lw_region *region, const struct lw_agent_header *head)
{
    struct lw_region_own *own = region->own;
    unsigned char *chunk = map_file(region, head->nodes_offset, CHUNK_BYTES), *ring;

    atomic_store(&own->chunks[0], (struct lw_agent_node *)(void *)chunk);
    if (!own->is_shared)
        return chunk;
    own->names_first = map_file(region, head->names_offset, WINDOW_BYTES);
    own->names_first_bytes = own->names_first ? WINDOW_BYTES : 0;
    own->names_window = own->names_first;
    own->names_window_bytes = own->names_first_bytes;
    ring = map_file(region, head->rings_offset, own->ring_bytes + own->page_bytes);
    if (ring)
        meet_ring(own, ring);
    return chunk && own->names_first && ring;
}

static void unmap_window(struct lw_region_own *own)
{
    if (own->names_window != own->names_first)
        unmap(own->names_window, own->names_window_bytes);
}

void lw_region_unmap_parts(struct lw_region *region)
{
    struct lw_region_own *own = region->own;

    for (uint32_t i = 0; i < LW_REGION_CHUNKS; i++)
        unmap(atomic_load(&own->chunks[i]), CHUNK_BYTES);
    unmap_window(own);
    unmap(own->names_first, own->names_first_bytes);
    for (uint32_t i = 0; i < own->rings_met; i++)
        unmap(own->slots[i].ring,
              own->slots[i].ring_is_whole ? own->ring_bytes : own->page_bytes);
    unmap(own->next_ring, own->page_bytes);
}

/* ---- nodes -------------------------------------------------------------------------- */

static unsigned char *map_chunk(struct lw_region *region, uint32_t chunk)
{
    struct lw_region_own *own = region->own;
    size_t page = own->page_bytes;
    unsigned char *before, *mapped;

    if (!own->is_shared)
        return map_file(region, 0, CHUNK_BYTES);
    before = (unsigned char *)atomic_load(&own->chunks[chunk - 1]);
    mapped = map_again(before + CHUNK_BYTES - page, page + CHUNK_BYTES);
    if (!mapped)
        return NULL;
    unmap(mapped, page);
    return mapped + page;
}

/* Threads need no lock to get here, so two may map the same chunk; the later one gives
 * its own back. */
bool lw_region_reach_chunk(struct lw_region *region, uint32_t chunk)
{
    struct lw_region_own *own = region->own;

    if (atomic_load_explicit(&own->chunks[chunk], memory_order_acquire))
        return true;
    for (uint32_t i = 1; i <= chunk; i++) {
        struct lw_agent_node *none = NULL, *mapped;

        if (atomic_load_explicit(&own->chunks[i], memory_order_acquire))
            continue;
        mapped = (struct lw_agent_node *)(void *)map_chunk(region, i);
        if (!mapped)
            return false;
        if (!atomic_compare_exchange_strong(&own->chunks[i], &none, mapped))
            unmap(mapped, CHUNK_BYTES);
    }
    return true;
}

struct lw_agent_node *lw_region_node(const struct lw_region *region, uint32_t number)
{
    struct lw_agent_node *chunk = atomic_load_explicit(
        &region->own->chunks[number / CHUNK_NODES], memory_order_acquire);

    return chunk + number % CHUNK_NODES;
}

/* ---- rings -------------------------------------------------------------------------- */

bool lw_region_reach_ring(struct lw_region *region, uint32_t slot)
{
    struct lw_region_own *own = region->own;
    struct lw_region_slot *mine = &own->slots[slot];
    unsigned char *mapped;

    while (own->rings_met <= slot) {
        unsigned char *page = own->next_ring;

        mapped = map_again(page, own->ring_bytes + own->page_bytes);
        if (!mapped)
            return false;
        unmap(page, own->page_bytes);
        meet_ring(own, mapped);
        if (own->rings_met <=
            slot) /* the thread there goes without: there was no room */
            lw_region_park_ring(region, own->rings_met - 1);
    }
    if (mine->ring_is_whole)
        return true;
    mapped = map_again(mine->ring, own->ring_bytes);
    if (!mapped)
        return false;
    unmap(mine->ring, own->page_bytes);
    mine->ring = mapped;
    mine->ring_is_whole = true;
    return true;
}

void lw_region_park_ring(struct lw_region *region, uint32_t slot)
{
    struct lw_region_own *own = region->own;
    struct lw_region_slot *mine = &own->slots[slot];

    if (!mine->ring_is_whole)
        return;
    unmap(mine->ring + own->page_bytes, own->ring_bytes - own->page_bytes);
    mine->ring_is_whole = false;
}

/* ---- names -------------------------------------------------------------------------- */

/* Have the window over the next BYTES of the log. */
static bool move_window(struct lw_region_own *own, size_t bytes)
{
    uint64_t end = own->names_window_at + own->names_window_bytes;
    uint64_t at, offset;
    size_t wanted;
    unsigned char *mapped;

    if (own->names_used + bytes <= end)
        return true;
    /* The page that the log ends in, or the last of the window if it ends there. */
    at = own->names_used < end ? own->names_used : end - 1;
    offset = (at - own->names_window_at) / own->page_bytes * own->page_bytes;
    at = own->names_window_at + offset;
    wanted = (size_t)(own->names_used - at) + bytes;
    wanted = (wanted / WINDOW_BYTES + 1) * WINDOW_BYTES;
    mapped = map_again(own->names_window + offset, wanted);
    if (!mapped)
        return false;
    unmap_window(own);
    own->names_window = mapped;
    own->names_window_at = at;
    own->names_window_bytes = wanted;
    return true;
}

bool lw_region_add_name(struct lw_region *region, const struct lw_agent_name *head,
                        const char *file, const char *name)
{
    struct lw_region_own *own = region->own;
    struct lw_agent_name record = *head;
    uint64_t bytes = sizeof(record) + (uint64_t)record.file_len + record.name_len;
    unsigned char *at;

    bytes = (bytes + 7) / 8 * 8;
    if (bytes > own->names_bytes - own->names_used ||
        !move_window(own, (size_t)bytes)) {
        own->names_lost++;
        lw_region_count_lost(region, LW_LOST_NAMES);
        return false;
    }
    record.record_bytes = (uint32_t)bytes;
    at = own->names_window + (own->names_used - own->names_window_at);
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), file, record.file_len);
    memcpy(at + sizeof(record) + record.file_len, name, record.name_len);
    own->names_used += bytes;
    atomic_store_explicit(&region->header->names_used, own->names_used,
                          memory_order_release);
    return true;
}

bool lw_region_copy_names(struct lw_region *region, const struct lw_region *from)
{
    struct lw_region_own *own = region->own;
    size_t bytes = (size_t)from->own->names_used;
    bool fits = bytes <= from->own->names_first_bytes;
    unsigned char *source = from->own->names_first;

    if (!move_window(own, bytes))
        return false;
    if (!fits && !(source = map_again(source, bytes)))
        return false;
    memcpy(own->names_window, source, bytes);
    if (!fits)
        unmap(source, bytes);
    own->names_used = bytes;
    own->names_lost = from->own->names_lost; /* they are missing here too */
    atomic_fetch_add(&region->header->lost[LW_LOST_NAMES], own->names_lost);
    atomic_store_explicit(&region->header->names_used, bytes, memory_order_release);
    return true;
}
