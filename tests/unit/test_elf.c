/* Symbols of recorded programs and libraries, static and shared, and of what is none. */

#include "image.h"
#include "test.h"

#include <elf.h>

static struct image image;

static void open_image(const char *name, struct lw_memory *memory)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/tests/unit/images/%s.gz", getenv("SRCDIR"), name);
    CHECK(image_open(&image, path));
    lw_memory_image(memory, image.pieces, image.piece_count);
}

TEST(symbols_are_found_in_every_python)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct lw_memory memory;
        struct lw_elf elf;

        open_image(image_names[i], &memory);
        CHECK(lw_elf_open(&elf, &memory, image.base, NULL));
        CHECK_EQ(lw_elf_symbol(&elf, &memory, "_PyRuntime"), image.runtime);
        CHECK_EQ(lw_elf_symbol(&elf, &memory, "PyCode_Type"), image.code_type);
        CHECK_EQ(lw_elf_symbol(&elf, &memory, "no_such_symbol"), 0);
        image_release(&image);
    }
}

/* The image with its first LEN bytes at the base replaced. */
static void patch_base(const void *bytes, size_t at, size_t len)
{
    for (unsigned i = 0; i < image.piece_count; i++) {
        struct lw_memory_piece *piece = &image.pieces[i];

        if (piece->address == image.base && piece->len >= at + len)
            memcpy((char *)(uintptr_t)piece->bytes + at, bytes, len);
    }
}

static const char *refusal(size_t at, const void *bytes, size_t len)
{
    static struct lw_error err;
    struct lw_memory memory;
    struct lw_elf elf;

    open_image("3.12", &memory);
    patch_base(bytes, at, len);
    err = (struct lw_error){ LW_OK, "" };
    CHECK(!lw_elf_open(&elf, &memory, image.base, &err));
    image_release(&image);
    return err.text;
}

TEST(what_is_no_program_for_this_machine_is_said)
{
    const unsigned char bits32 = ELFCLASS32;
    const Elf64_Half machine = EM_RISCV, none = 0, many = 60000;

    CHECK_STR(refusal(0, "#!/b", 4), "not a program");
    CHECK_STR(refusal(EI_CLASS, &bits32, 1),
              "a program of 32 bits, which Lapwing cannot read");
    CHECK_STR(refusal(offsetof(Elf64_Ehdr, e_machine), &machine, 2),
              "a program for another kind of processor, which Lapwing cannot read");
    CHECK_STR(refusal(offsetof(Elf64_Ehdr, e_phnum), &none, 2),
              "its segments make no sense");
    CHECK_STR(refusal(offsetof(Elf64_Ehdr, e_phnum), &many, 2),
              "its segments make no sense");
}

TEST(a_program_that_is_not_there_is_said)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_memory memory;
    struct lw_elf elf;

    lw_memory_image(&memory, NULL, 0);
    CHECK(!lw_elf_open(&elf, &memory, 0x400000, &err));
    CHECK_STR(err.text, "its head cannot be read");
}
