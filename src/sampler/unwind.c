#include "sampler/unwind.h"

#include "base/alloc.h"

/* How often to look what is mapped, and how soon after an unknown address was met. */
#define LIST_NS 1000000000ull
#define LIST_SOON_NS 100000000ull
/* Instructions whose rules are kept: some 4 MB. */
#define KNOWN_MAX 16384u
/* The longest record is that of an interpreter's loop, with a few KB. */
#define SCRATCH_BYTES 65536u
#define DEPTH_MAX 2048u

bool lw_unwinder_init(struct lw_unwinder *unwinder, struct lw_memory *memory, pid_t pid,
                      struct lw_error *err)
{
    *unwinder = (struct lw_unwinder){ .memory = memory, .pid = pid };
    lw_map_init(&unwinder->by_pc);
    unwinder->scratch = lw_alloc(SCRATCH_BYTES, err);
    return unwinder->scratch != NULL;
}

void lw_unwinder_release(struct lw_unwinder *unwinder)
{
    lw_os_images_release(&unwinder->images);
    lw_map_release(&unwinder->by_pc);
    lw_free(unwinder->modules);
    lw_free(unwinder->known);
    lw_free(unwinder->scratch);
    memset(unwinder, 0, sizeof(*unwinder));
}

/* ---- what is mapped ----------------------------------------------------------------- */

static bool has_same_images(const struct lw_os_images *a, const struct lw_os_images *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (a->images[i].base != b->images[i].base ||
            a->images[i].end != b->images[i].end ||
            strcmp(a->images[i].path, b->images[i].path) != 0)
            return false;
    }
    return true;
}

static void forget_known(struct lw_unwinder *unwinder)
{
    unwinder->known_count = 0;
    lw_map_reset(&unwinder->by_pc);
}

void lw_unwinder_refresh(struct lw_unwinder *unwinder, uint64_t now_ns)
{
    uint64_t every = unwinder->has_met_unknown ? LIST_SOON_NS : LIST_NS;
    struct lw_unwind_module *modules;
    struct lw_os_images images;

    if (unwinder->listed_ns && now_ns - unwinder->listed_ns < every)
        return;
    unwinder->listed_ns = now_ns;
    unwinder->has_met_unknown = false;
    if (!lw_os_images(unwinder->pid, &images, NULL))
        return;
    modules = has_same_images(&images, &unwinder->images)
                  ? NULL
                  : lw_zalloc(images.count, sizeof(*modules), NULL);
    if (!modules) {
        lw_os_images_release(&images);
        return;
    }
    lw_os_images_release(&unwinder->images);
    lw_free(unwinder->modules);
    unwinder->images = images;
    unwinder->modules = modules;
    unwinder->generation++;
    forget_known(unwinder);
}

size_t lw_unwinder_image(struct lw_unwinder *unwinder, uint64_t address)
{
    const struct lw_os_image *images = unwinder->images.images;
    size_t low = 0, high = unwinder->images.count;

    while (low < high) { /* the first that ends behind the address */
        size_t middle = low + (high - low) / 2;

        if (images[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < unwinder->images.count && images[low].base <= address)
        return low;
    unwinder->has_met_unknown = true;
    return SIZE_MAX;
}

const struct lw_elf *lw_unwinder_elf(struct lw_unwinder *unwinder, size_t image)
{
    struct lw_unwind_module *module = &unwinder->modules[image];

    if (!module->is_opened) {
        module->is_opened = true;
        /* One that exports nothing may still have rules. */
        if (!lw_elf_open(&module->elf, unwinder->memory,
                         unwinder->images.images[image].base, NULL))
            module->elf.symbols = 0;
    }
    return &module->elf;
}

/* ---- rules -------------------------------------------------------------------------- */

static bool is_known(const void *owner, uint32_t number, const void *key)
{
    const struct lw_unwinder *unwinder = owner;

    return unwinder->known[number - 1].pc == *(const uint64_t *)key;
}

static bool find_row(struct lw_unwinder *unwinder, uint64_t pc,
                     struct lw_unwind_row *row)
{
    size_t image = lw_unwinder_image(unwinder, pc);
    const struct lw_elf *elf =
        image == SIZE_MAX ? NULL : lw_unwinder_elf(unwinder, image);

    return elf && elf->eh_frame_header &&
           lw_unwind_row_find(row, unwinder->memory, elf->eh_frame_header, pc,
                              unwinder->scratch, SCRATCH_BYTES);
}

const struct lw_unwind_row *lw_unwinder_row(struct lw_unwinder *unwinder, uint64_t pc)
{
    uint64_t hash = lw_hash_u64(pc);
    uint32_t number = lw_map_find(&unwinder->by_pc, hash, is_known, unwinder, &pc);
    struct lw_unwind_known *known;

    if (!number) {
        if (unwinder->known_count >= KNOWN_MAX)
            forget_known(unwinder);
        if (!lw_grow(&unwinder->known, &unwinder->known_capacity,
                     unwinder->known_count + 1, sizeof(*unwinder->known), NULL) ||
            !lw_map_add(&unwinder->by_pc, hash, (uint32_t)unwinder->known_count + 1,
                        NULL))
            return NULL;
        known = &unwinder->known[unwinder->known_count++];
        *known = (struct lw_unwind_known){ .pc = pc };
        known->has_row = find_row(unwinder, pc, &known->row);
        number = (uint32_t)unwinder->known_count;
    }
    known = &unwinder->known[number - 1];
    return known->has_row ? &known->row : NULL;
}

/* ---- frame pointers ----------------------------------------------------------------- */

/* A function without a rule may have kept the caller's frame pointer and the return
 * address where its own frame pointer points; that is believed if they make sense. */
static enum lw_unwind_step step_by_frame(struct lw_unwinder *unwinder,
                                         const struct lw_stack_copy *stack,
                                         struct lw_registers *registers)
{
    uint64_t frame = registers->value[LW_REG_FRAME], next, pc;
    size_t image;
    const struct lw_elf *elf;

    if (!lw_registers_has(registers, LW_REG_FRAME))
        return LW_STEP_NEEDS_REGISTER;
    if (frame < registers->value[LW_REG_STACK] || frame % 8 != 0 ||
        !lw_stack_copy_word(stack, frame, &next) ||
        !lw_stack_copy_word(stack, frame + 8, &pc))
        return LW_STEP_LOST;
    image = lw_unwinder_image(unwinder, pc);
    elf = image == SIZE_MAX ? NULL : lw_unwinder_elf(unwinder, image);
    if (!elf || pc < elf->code_start || pc >= elf->code_end ||
        (next != 0 && next <= frame))
        return LW_STEP_LOST;
    registers->known = 0;
    lw_registers_set(registers, LW_REG_FRAME, next);
    lw_registers_set(registers, LW_REG_STACK, frame + 16);
    lw_registers_set(registers, LW_REG_PC, pc);
    return LW_STEP_DONE;
}

/* ---- all of it ---------------------------------------------------------------------- */

bool lw_unwinder_run(struct lw_unwinder *unwinder, struct lw_registers registers,
                     const struct lw_stack_copy *stack, struct lw_unwound *out)
{
    bool is_return = false; /* the address is where a call goes on */

    out->count = 0;
    for (;;) {
        uint64_t pc = registers.value[LW_REG_PC] - (is_return ? 1 : 0);
        const struct lw_unwind_row *row;
        enum lw_unwind_step step;

        if (out->count == DEPTH_MAX) {
            out->end = LW_UNWIND_CUT;
            return true;
        }
        row = lw_unwinder_row(unwinder, pc);
        if (!lw_grow(&out->addresses, &out->capacity, out->count + 1,
                     sizeof(*out->addresses), NULL))
            return false;
        out->addresses[out->count++] = pc;
        is_return = !row || !row->is_signal;
        step = row ? lw_unwind_row_step(row, stack, &registers)
                   : step_by_frame(unwinder, stack, &registers);
        if (step == LW_STEP_DONE)
            continue;
        out->end = step == LW_STEP_ROOT             ? LW_UNWIND_WHOLE
                   : step == LW_STEP_CUT            ? LW_UNWIND_CUT
                   : step == LW_STEP_NEEDS_REGISTER ? LW_UNWIND_NEEDS_REGISTER
                                                    : LW_UNWIND_LOST;
        return true;
    }
}
