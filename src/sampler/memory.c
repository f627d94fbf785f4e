#include "sampler/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sampler/os.h"

/* Ranges handed to the kernel at once: enough for a few threads, and their array still
 * fits the kernel's own stack (UIO_FASTIOV is 8, larger ones are allocated there). */
#define RANGES_AT_ONCE 256

/* ---- live --------------------------------------------------------------------------- */

/* How many of RANGES the first BYTES fill. */
static size_t whole_ranges(const struct lw_memory_range *ranges, size_t count,
                           size_t bytes)
{
    size_t whole = 0;

    while (whole < count && bytes >= ranges[whole].len)
        bytes -= ranges[whole++].len;
    return whole;
}

static size_t read_process(struct lw_memory *memory,
                           const struct lw_memory_range *ranges, size_t count)
{
    struct iovec here[RANGES_AT_ONCE], there[RANGES_AT_ONCE];
    size_t done = 0;

    while (done < count) {
        size_t part = count - done < RANGES_AT_ONCE ? count - done : RANGES_AT_ONCE;
        size_t whole;
        ssize_t got;

        for (size_t i = 0; i < part; i++) {
            const struct lw_memory_range *range = &ranges[done + i];

            here[i] = (struct iovec){ range->bytes, range->len };
            there[i] = (struct iovec){ (void *)(uintptr_t)range->address, range->len };
        }
        memory->calls++;
        got = process_vm_readv(memory->pid, here, part, there, part, 0);
        if (got <= 0)
            return done;
        whole = whole_ranges(ranges + done, part, (size_t)got);
        done += whole;
        if (whole < part)
            return done;
    }
    return done;
}

static size_t read_descriptor(struct lw_memory *memory,
                              const struct lw_memory_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct lw_memory_range *range = &ranges[i];

        memory->calls++;
        if (pread(memory->fd, range->bytes, range->len, (off_t)range->address) !=
            (ssize_t)range->len)
            return i;
    }
    return count;
}

bool lw_memory_open(struct lw_memory *memory, pid_t pid, int mem_fd,
                    struct lw_error *err)
{
    uint64_t somewhere;
    char byte;
    struct lw_memory_range probe = { 0, &byte, 1 };

    *memory = (struct lw_memory){ .read = read_process, .pid = pid, .fd = mem_fd };
    if (!lw_os_some_address(pid, &somewhere, err))
        return false;
    probe.address = somewhere;
    if (read_process(memory, &probe, 1) == 1)
        return true;
    if (errno == ESRCH)
        return lw_fail(err, LW_ERR_IO, "process %d has ended", (int)pid);
    if (mem_fd >= 0 && read_descriptor(memory, &probe, 1) == 1) {
        memory->read = read_descriptor;
        return true;
    }
    return lw_os_explain_denied(pid, err);
}

bool lw_memory_is_through_descriptor(const struct lw_memory *memory)
{
    return memory->read == read_descriptor;
}

/* ---- an image ----------------------------------------------------------------------- */

static bool copy_from_image(const struct lw_memory *memory,
                            const struct lw_memory_range *range)
{
    size_t low = 0, high = memory->piece_count;

    while (low < high) { /* the first piece that ends behind the address */
        size_t middle = low + (high - low) / 2;
        const struct lw_memory_piece *piece = &memory->pieces[middle];

        if (piece->address + piece->len <= range->address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == memory->piece_count || memory->pieces[low].address > range->address ||
        memory->pieces[low].len - (range->address - memory->pieces[low].address) <
            range->len)
        return false;
    memcpy(range->bytes,
           (const char *)memory->pieces[low].bytes +
               (range->address - memory->pieces[low].address),
           range->len);
    return true;
}

static size_t read_image(struct lw_memory *memory, const struct lw_memory_range *ranges,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!copy_from_image(memory, &ranges[i]))
            return i;
    }
    return count;
}

void lw_memory_image(struct lw_memory *memory, const struct lw_memory_piece *pieces,
                     size_t count)
{
    *memory = (struct lw_memory){
        .read = read_image, .fd = -1, .pieces = pieces, .piece_count = count
    };
}

/* ---- both --------------------------------------------------------------------------- */

size_t lw_memory_read(struct lw_memory *memory, const struct lw_memory_range *ranges,
                      size_t count)
{
    return memory->read(memory, ranges, count);
}

bool lw_memory_get(struct lw_memory *memory, uint64_t address, void *bytes, size_t len)
{
    struct lw_memory_range range = { address, bytes, len };

    return memory->read(memory, &range, 1) == 1;
}

bool lw_memory_u64(struct lw_memory *memory, uint64_t address, uint64_t *value)
{
    return lw_memory_get(memory, address, value, sizeof(*value));
}
