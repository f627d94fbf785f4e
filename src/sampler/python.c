#include "sampler/python.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sampler/elf.h"
#include "sampler/os.h"

/* "…python3.9…" or "…cpython-39-…": 9; -1: the path says nothing. */
static int minor_in(const char *path)
{
    static const char *const marks[] = { "python3.", "cpython-3" };

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *at = strstr(path, marks[i]);

        if (at) {
            char *end;
            long minor = strtol(at + strlen(marks[i]), &end, 10);

            if (end != at + strlen(marks[i]) && minor > 0 && minor < 100)
                return (int)minor;
        }
    }
    return -1;
}

/* 3.9 and 3.10 do not say which they are; the files they have mapped do. */
static uint32_t version_by_paths(const struct lw_os_images *images,
                                 const struct lw_os_image *python)
{
    int minor = minor_in(lw_text_basename(python->path));

    for (size_t i = 0; minor < 0 && i < images->count; i++)
        minor = minor_in(lw_text_basename(images->images[i].path));
    for (size_t i = 0; minor < 0 && i < images->count; i++)
        minor = minor_in(images->images[i].path);
    return minor < 0 ? 0 : 0x030000f0u | (uint32_t)minor << 16;
}

static bool try_image(struct lw_python *python, struct lw_memory *memory,
                      const struct lw_os_images *images,
                      const struct lw_os_image *image, struct lw_error *err)
{
    struct lw_elf elf;
    uint64_t version, address;

    if (!lw_elf_open(&elf, memory, image->base, err))
        return false;
    python->runtime = lw_elf_symbol(&elf, memory, "_PyRuntime");
    if (!python->runtime)
        return lw_fail(err, LW_ERR_UNSUPPORTED, "it has no _PyRuntime");
    python->code_type = lw_elf_symbol(&elf, memory, "PyCode_Type");
    address = lw_elf_symbol(&elf, memory, "Py_Version");
    if (address && lw_memory_u64(memory, address, &version))
        python->version = (uint32_t)version;
    else
        python->version = version_by_paths(images, image);
    return true;
}

/* A shared libpython first: its program is called python as well, and is empty. Then
 * whatever else might hold an interpreter. */
static bool is_candidate(const struct lw_os_image *image, int round)
{
    const char *name = lw_text_basename(image->path);

    switch (round) {
    case 0: return lw_text_starts(name, "libpython");
    case 1: return image->is_program;
    case 2: return strstr(name, "python") != NULL && !lw_text_ends(name, ".so");
    default: return strstr(name, ".so") == NULL;
    }
}

bool lw_python_find(struct lw_python *python, struct lw_memory *memory, pid_t pid,
                    struct lw_error *err)
{
    struct lw_os_images images;
    struct lw_error why = { LW_OK, "" }, of_program = { LW_OK, "" };
    const char *program = NULL;
    bool found = false;

    memset(python, 0, sizeof(*python));
    if (!lw_os_images(pid, &images, err))
        return false;
    for (int round = 0; !found && round < 4; round++) {
        for (size_t i = 0; !found && i < images.count; i++) {
            const struct lw_os_image *image = &images.images[i];

            if (!is_candidate(image, round))
                continue;
            found = try_image(python, memory, &images, image, &why);
            if (image->is_program && !found) {
                of_program = why;
                program = image->path;
            }
        }
    }
    if (!found && of_program.code == LW_ERR_UNSUPPORTED &&
        strstr(of_program.text, "_PyRuntime") == NULL)
        lw_fail(err, LW_ERR_UNSUPPORTED, "process %d runs %s: %s", (int)pid,
                program ? program : "a program", of_program.text);
    else if (!found)
        lw_fail(err, LW_ERR_UNSUPPORTED, "process %d runs %s, which is not Python",
                (int)pid, program ? program : "a program that cannot be seen");
    lw_os_images_release(&images);
    return found;
}
