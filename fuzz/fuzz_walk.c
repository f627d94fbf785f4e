/* The sampler on the memory of every Python, with some of its words changed, also while
 * it is read: finding the interpreter, its layout and its threads' stacks.
 *
 * The input chooses one of the images of tests/unit/images, or none, and changes it:
 *
 *     u8 image, then changes of 16 bytes:
 *     u16 piece (its top bit: _PyRuntime)   u16 offset in it   u16 when: after so many
 *                       reads
 *     u8 width - 1   u8 kind: 0 the value itself, else a pointer to offset (value) of
 *                       piece (kind)
 *     u64 value
 *
 * Whatever is there, the sampler ends after so many reads, and a stack that it gives can
 * be shown. */

#include <stdint.h>

#include "../tests/unit/image.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define READS_MAX 100000u /* ranges; then the process is gone */
#define AFTER_MAX 1000u   /* and is not asked for ever */
#define CHANGES_MAX 64
#define RUNTIME_BYTES 1024 /* where 3.13 and later say how their structures look */

struct change {
    uint16_t piece, offset, when;
    uint8_t width, kind;
    uint64_t value;
};

static struct image images[IMAGE_COUNT];
static struct {
    const struct image *image;
    struct change changes[CHANGES_MAX];
    size_t change_count;
    unsigned reads;
} now;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        char path[256];

        snprintf(path, sizeof(path), "tests/unit/images/%s.gz", image_names[i]);
        if (!image_open(&images[i], path)) {
            fprintf(stderr, "fuzz_walk: cannot open %s; run it in the project\n", path);
            exit(1);
        }
    }
    return 0;
}

/* CHANGE in what was read as RANGE, as far as it lies there. */
static void apply(const struct change *change, const struct lw_memory_range *range)
{
    const struct image *image = now.image;
    const struct lw_memory_piece *piece =
        &image->pieces[change->piece % image->piece_count];
    uint64_t value = change->value;
    uint64_t address = change->piece & 0x8000
                           ? image->runtime + change->offset % RUNTIME_BYTES
                           : piece->address + change->offset % piece->len;

    if (change->kind > 0)
        value += image->pieces[change->kind % image->piece_count].address;
    for (unsigned i = 0; i <= change->width % 8u; i++, address++, value >>= 8) {
        if (address >= range->address && address - range->address < range->len)
            ((unsigned char *)range->bytes)[address - range->address] =
                (unsigned char)value;
    }
}

static size_t read_changed(struct lw_memory *memory,
                           const struct lw_memory_range *ranges, size_t count)
{
    struct lw_memory plain;

    lw_memory_image(&plain, memory->pieces, memory->piece_count);
    for (size_t i = 0; i < count; i++) {
        if (now.reads++ >= READS_MAX) {
            if (now.reads > READS_MAX + AFTER_MAX)
                abort();
            return i;
        }
        if (lw_memory_read(&plain, &ranges[i], 1) != 1)
            return i;
        for (size_t j = 0; j < now.change_count; j++) {
            if (now.reads > now.changes[j].when)
                apply(&now.changes[j], &ranges[i]);
        }
    }
    return count;
}

static void look_up(void)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_memory memory;
    struct lw_elf elf;

    lw_memory_image(&memory, now.image->pieces, now.image->piece_count);
    memory.read = read_changed;
    if (lw_elf_open(&elf, &memory, now.image->base, &err)) {
        lw_elf_symbol(&elf, &memory, "_PyRuntime");
        lw_elf_symbol(&elf, &memory, "no_such_symbol");
    } else if (err.code == LW_OK || !err.text[0])
        abort();
}

static void show(const struct lw_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        const struct lw_walk *walk = &target->threads[i].walk;

        for (size_t j = 0; target->threads[i].has_stack && j < walk->count; j++) {
            struct lw_position position;

            if (walk->frames[j].code == 0 ||
                walk->frames[j].code >= target->codes.count ||
                !target->codes.codes[walk->frames[j].code].name)
                abort();
            if (lw_target_position(target, &walk->frames[j], &position) !=
                (position.line >= 0))
                abort();
        }
    }
}

static void sample(void)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_target *target = image_target(now.image, read_changed, &err);

    if (!target) {
        if (err.code == LW_OK || !err.text[0])
            abort();
        return;
    }
    for (uint64_t i = 1; i <= 3; i++) {
        /* Every time code objects are looked at again. */
        if (!lw_target_sample(target, i * 2000000000u))
            break;
        show(target);
    }
    lw_target_free(target);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 1)
        return 0;
    now.image = &images[bytes[0] % IMAGE_COUNT];
    now.change_count = 0;
    for (size_t at = 1;
         at + sizeof(struct change) <= len && now.change_count < CHANGES_MAX;
         at += sizeof(struct change))
        memcpy(&now.changes[now.change_count++], bytes + at, sizeof(struct change));
    now.reads = 0;
    look_up();
    now.reads = 0;
    sample();
    return 0;
}
