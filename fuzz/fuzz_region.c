/* Any bytes as the memory that a process shares with the recorder, which looks at it
 * twice: the agent goes on meanwhile, or lies. Header, tree, names, ring and thread slots
 * are read by recorder/{shared,watched,trees,name_log,ring}.c.
 *
 *     flags (1 byte)   RAW_HEADER: the bytes are the region from its start, header and
 *                      all; else the header fits them, and they are what it describes
 *     cut (2 bytes)    so many are there at the second look only
 *     the rest         struct start, then the parts in the order of agent/layout.h
 *
 * fuzz/corpus_region.py makes the seeds. */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/layout.h"
#include "base/file.h"
#include "recorder/watched.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define RAW_HEADER 1u

enum {
    SLOTS = 4,
    BLOCKS = 4,
    BLOCK_NODES = 16,
    NAMES_BYTES = 1024,
    RING_RECORDS = 8,
    HEAD_BYTES = 3,
};

/* What changes in a header that is sound. */
struct start {
    uint32_t blocks_used;
    uint32_t state;
    uint32_t names_used;
    uint32_t clock;
    uint64_t lost[2];
    uint64_t start_ticks;
};

static struct lw_agent_header sound_header(void)
{
    struct lw_agent_header header = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_REGION_VERSION,
        .header_bytes = sizeof(header),
        .thread_slots = SLOTS,
        .thread_bytes = sizeof(struct lw_agent_thread),
        .block_count = BLOCKS,
        .block_nodes = BLOCK_NODES,
        .names_bytes = NAMES_BYTES,
        .ring_bytes = sizeof(struct lw_agent_ring) +
                      RING_RECORDS * sizeof(struct lw_agent_record),
        .ring_records = RING_RECORDS,
        .flags = LW_AGENT_CALLS | LW_AGENT_TIMELINE,
        .pid = 1,
        .start_ns = 1000,
    };

    header.threads_offset = sizeof(header);
    header.blocks_offset = header.threads_offset + SLOTS * header.thread_bytes;
    header.nodes_offset = LW_AGENT_ALIGN; /* the head is small */
    header.names_offset = 2 * LW_AGENT_ALIGN;
    header.rings_offset = 3 * LW_AGENT_ALIGN;
    header.region_bytes = 4 * LW_AGENT_ALIGN;
    return header;
}

/* Put up to SIZE of the LEN BYTES at PLACE; how many. */
static size_t put(uint8_t *place, size_t size, const uint8_t *bytes, size_t len)
{
    size_t put = len < size ? len : size;

    memcpy(place, bytes, put);
    return put;
}

/* The parts, one behind the other in BYTES. */
static void fill_parts(uint8_t *region, const struct lw_agent_header *header,
                       const uint8_t *bytes, size_t len)
{
    const struct {
        uint64_t offset, size;
    } parts[] = {
        { header->threads_offset, SLOTS * sizeof(struct lw_agent_thread) },
        { header->blocks_offset, BLOCKS * sizeof(uint32_t) },
        { header->nodes_offset, BLOCKS * BLOCK_NODES * sizeof(struct lw_agent_node) },
        { header->names_offset, NAMES_BYTES },
        { header->rings_offset, SLOTS * header->ring_bytes },
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t taken = put(region + parts[i].offset, parts[i].size, bytes, len);

        bytes += taken;
        len -= taken;
    }
}

static void fill(uint8_t *region, size_t size, unsigned flags, const uint8_t *bytes,
                 size_t len)
{
    struct lw_agent_header header = sound_header();
    struct start start = { 0 };

    if (flags & RAW_HEADER) {
        put(region, size, bytes, len);
        return;
    }
    memcpy(&start, bytes, len < sizeof(start) ? len : sizeof(start));
    header.clock = start.clock;
    header.start_ticks = start.start_ticks;
    memcpy(region, &header, sizeof(header));
    {
        struct lw_agent_header *there = (struct lw_agent_header *)(void *)region;

        atomic_store(&there->blocks_used, start.blocks_used);
        atomic_store(&there->state, start.state);
        atomic_store(&there->names_used, start.names_used);
        for (size_t i = 0; i < sizeof(start.lost) / sizeof(start.lost[0]); i++)
            atomic_store(&there->lost[i], start.lost[i]);
    }
    if (len > sizeof(start))
        fill_parts(region, &header, bytes + sizeof(start), len - sizeof(start));
}

static int memory_file(size_t size)
{
    int fd = memfd_create("region", MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        abort();
    return fd;
}

static void look(struct lw_watched *watched, struct lw_calibration *calibration)
{
    struct lw_watched_look look = { .calibration = calibration };
    double ring_fill = 0;

    if (!lw_watched_read(watched, &look, &ring_fill, NULL)) {
        /* Fine too: it has said why. */
    }
    if (!(ring_fill >= 0 && ring_fill <= 1))
        abort();
}

static void read_region(uint8_t *region, size_t size, int fd, unsigned flags,
                        const uint8_t *bytes, size_t len, size_t cut)
{
    static char folder[64];
    struct lw_watched_facts facts = { .pid = 1, .rank = -1 };
    struct lw_error err = { LW_OK, "" };
    struct lw_calibration calibration;
    struct lw_watched *watched;

    snprintf(folder, sizeof(folder), "/dev/shm/fuzz-region-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    fill(region, size, flags, bytes, len - cut);
    lw_calibration_init(&calibration);
    lw_calibration_look(&calibration);
    watched = lw_watched_open(folder, 1, fd, -1, &facts, &err);
    if (!watched && !err.text[0])
        abort();
    if (watched) {
        struct lw_watched_look last = { .calibration = &calibration, .is_last = true };

        look(watched, &calibration);
        fill(region, size, flags, bytes, len);
        look(watched, &calibration);
        if (!lw_watched_close(watched, &last, 0, &err) && !err.text[0])
            abort();
    }
    if (!lw_file_remove_folder(folder, NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    size_t size = sound_header().region_bytes, cut;
    uint8_t *region;
    unsigned flags;
    int fd;

    if (len < HEAD_BYTES)
        return 0;
    flags = bytes[0];
    cut = (size_t)(bytes[1] | bytes[2] << 8);
    bytes += HEAD_BYTES;
    len -= HEAD_BYTES;
    fd = memory_file(size);
    region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED)
        abort();
    read_region(region, size, fd, flags, bytes, len, cut <= len ? cut : 0);
    munmap(region, size);
    close(fd);
    return 0;
}
