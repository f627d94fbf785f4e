/* Prints the memory of a Python process, as far as the sampler reads it, for unit tests:
 *
 *     record_image PID
 *
 * tools/record_image.py starts a program in every Python, stops it and calls this. The
 * lines are those that tests/unit/image.h reads:
 *
 *     pid N, base HEX, runtime HEX, code_type HEX, version HEX     where Python is
 *     piece ADDRESS BYTES                                          what was read, in hex
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "sampler/elf.h"
#include "sampler/os.h"
#include "sampler/python.h"
#include "sampler/target.h"

struct span {
    uint64_t start, end;
};

/* A lw_memory has no place for its user's own: there is one recording in the process. */
static struct recording {
    size_t (*read)(struct lw_memory *memory, const struct lw_memory_range *ranges,
                   size_t count);
    struct span *spans;
    size_t count, capacity;
} recording;

static size_t read_and_note(struct lw_memory *memory,
                            const struct lw_memory_range *ranges, size_t count)
{
    size_t got = recording.read(memory, ranges, count);

    if (!lw_grow(&recording.spans, &recording.capacity, recording.count + got,
                 sizeof(*recording.spans), NULL))
        abort();
    for (size_t i = 0; i < got; i++)
        recording.spans[recording.count++] =
            (struct span){ ranges[i].address, ranges[i].address + ranges[i].len };
    return got;
}

static int by_start(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

/* Spans that touch become one: a read may lie across two that were made before. */
static void join(void)
{
    size_t kept = 0;

    qsort(recording.spans, recording.count, sizeof(*recording.spans), by_start);
    for (size_t i = 0; i < recording.count; i++) {
        struct span *last = kept > 0 ? &recording.spans[kept - 1] : NULL;

        if (last && recording.spans[i].start <= last->end) {
            if (recording.spans[i].end > last->end)
                last->end = recording.spans[i].end;
        } else
            recording.spans[kept++] = recording.spans[i];
    }
    recording.count = kept;
}

static bool print_pieces(struct lw_memory *memory, struct lw_error *err)
{
    for (size_t i = 0; i < recording.count; i++) {
        const struct span *span = &recording.spans[i];
        size_t len = (size_t)(span->end - span->start);
        unsigned char *bytes = lw_alloc(len + 1, err);

        if (!bytes)
            return false;
        if (!lw_memory_get(memory, span->start, bytes, len)) {
            lw_free(bytes);
            return lw_fail(err, LW_ERR_IO,
                           "what was read at 0x%" PRIx64 " is gone: is it stopped?",
                           span->start);
        }
        printf("piece %" PRIx64 " ", span->start);
        for (size_t j = 0; j < len; j++)
            printf("%02x", bytes[j]);
        putchar('\n');
        lw_free(bytes);
    }
    return true;
}

/* Where the file begins that holds the _PyRuntime of TARGET. */
static uint64_t find_base(struct lw_target *target, struct lw_elf *elf)
{
    struct lw_os_images images;
    uint64_t base = 0;

    if (!lw_os_images(target->pid, &images, NULL))
        return 0;
    for (size_t i = 0; base == 0 && i < images.count; i++) {
        if (lw_elf_open(elf, &target->memory, images.images[i].base, NULL) &&
            lw_elf_symbol(elf, &target->memory, "_PyRuntime") == target->runtime)
            base = images.images[i].base;
    }
    lw_os_images_release(&images);
    return base;
}

/* Do all that the tests do with an image. */
static bool record(struct lw_target *target, struct lw_error *err)
{
    struct lw_elf elf;
    struct lw_python python;
    struct lw_py_layout layout;
    uint64_t base = find_base(target, &elf);

    if (!lw_python_find(&python, &target->memory, target->pid, err))
        return false;
    recording.read = target->memory.read;
    target->memory.read = read_and_note;
    if (!lw_elf_open(&elf, &target->memory, base, err))
        return false;
    printf("pid %d\nbase %" PRIx64 "\nruntime %" PRIx64 "\ncode_type %" PRIx64
           "\nversion %" PRIx32 "\n",
           (int)target->pid, base, lw_elf_symbol(&elf, &target->memory, "_PyRuntime"),
           lw_elf_symbol(&elf, &target->memory, "PyCode_Type"), python.version);
    /* Of one that is not there, the bytes that show it. */
    if (lw_elf_symbol(&elf, &target->memory, "no_such_symbol") != 0)
        return lw_fail(err, LW_ERR_FORMAT, "it has no_such_symbol");
    if (!lw_layout_find(&layout, &target->memory, python.runtime, python.version, err))
        return false;
    /* The second sample finds all that it needs in one read. */
    return (lw_target_sample(target, lw_clock_ns()) &&
            lw_target_sample(target, lw_clock_ns())) ||
           lw_fail(err, LW_ERR_IO, "process %d cannot be sampled", (int)target->pid);
}

int main(int argc, char **argv)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_target *target;
    uint64_t pid;
    bool done;

    if (argc != 2 || !lw_text_u64(argv[1], strlen(argv[1]), &pid)) {
        fprintf(stderr, "usage: record_image PID\n");
        return 2;
    }
    target = lw_target_open((pid_t)pid, -1, &err);
    done = target && record(target, &err);
    if (done) {
        target->memory.read = recording.read;
        join();
        done = print_pieces(&target->memory, &err);
    }
    lw_target_free(target);
    lw_free(recording.spans);
    if (done)
        return 0;
    fprintf(stderr, "record_image: %s\n", err.text);
    return 1;
}
