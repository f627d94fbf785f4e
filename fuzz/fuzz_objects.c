/* Python's objects in memory that is the input, for every Python's layout: values, the
 * variables of a frame, coroutines, names of threads and tasks.
 *
 * The first byte chooses the Python, the rest is what lies from BASE on. A pointer that
 * leads elsewhere is led back into it, so that nearly every one leads somewhere. */

#include <stdint.h>

#include "sampler/awaits.h"
#include "sampler/locals.h"
#include "sampler/repr.h"
#include "sampler/tasks.h"

#include "../tests/unit/image.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define BASE 0x10000u
#define READS_MAX 5000u  /* then the process is gone */
#define RANGE_MAX 65536u /* more is not there at once: time is for other inputs */

static struct lw_py_layout layouts[IMAGE_COUNT];
static const uint8_t *input;
static size_t input_len;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        static struct image image;
        struct lw_memory memory;
        char path[256];

        snprintf(path, sizeof(path), "tests/unit/images/%s.gz", image_names[i]);
        if (!image_open(&image, path))
            abort();
        lw_memory_image(&memory, image.pieces, image.piece_count);
        if (!lw_layout_find(&layouts[i], &memory, image.runtime, image.version, NULL))
            abort();
        image_release(&image);
    }
    return 0;
}

static size_t read_input(struct lw_memory *memory, const struct lw_memory_range *ranges,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *out = ranges[i].bytes;

        if (memory->calls++ > READS_MAX || ranges[i].len > RANGE_MAX)
            return i;
        for (size_t j = 0; j < ranges[i].len; j++)
            out[j] = input[(ranges[i].address - BASE + j) % input_len];
    }
    return count;
}

static void show(void *context, const struct lw_local *local)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    lw_repr_add(context, local->value, 50, &out);
    lw_buf_release(&out);
}

/* All that may be asked of what lies at ADDRESS. */
static void look(struct lw_target *target, uint64_t address)
{
    struct lw_objects objects = { &target->memory, &target->layout };
    struct lw_walk_frame frame = { .address = address };
    struct lw_py_code code = { .address = address };
    struct lw_code_cache codes = { .codes = &code };
    struct lw_local value = { .value = address };

    show(&objects, &value);
    lw_objects_attribute(&objects, address, "_name");
    lw_await_look(&objects, &target->codes, address, 1);
    if (lw_locals_list(&objects, &codes, &frame, show, &objects)) {
        /* It holds together by chance. */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lw_target target = { .memory = { .read = read_input, .fd = -1 },
                                .interpreters = { BASE },
                                .interpreter_count = 1 };
    struct lw_tasks tasks;

    if (len < 64)
        return 0;
    target.layout = layouts[bytes[0] % IMAGE_COUNT];
    input = bytes + 1;
    input_len = len - 1;
    lw_code_cache_init(&target.codes, &target.layout, BASE);
    for (uint64_t address = BASE; address < BASE + 64; address += 16)
        look(&target, address);
    lw_target_name_threads(&target, true);
    if (lw_tasks_read(&tasks, &target, 1, NULL))
        lw_tasks_release(&tasks);
    lw_code_cache_release(&target.codes);
    return 0;
}
