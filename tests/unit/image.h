/* Recorded memory of a Python process, and the stacks it had as it saw them itself:
 * tests/unit/images, made by tools/record_image.py, which says what its lines are. */
#ifndef LW_TEST_IMAGE_H
#define LW_TEST_IMAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/inflate.h"
#include "sampler/elf.h"
#include "sampler/target.h"

#define IMAGE_PIECES 1024
#define IMAGE_FRAMES 1024
#define IMAGE_THREADS 8

struct image_frame {
    char name[64];
    unsigned first_line, line;
};

struct image_thread {
    unsigned long tid;
    unsigned first, count; /* of `frames` */
};

struct image {
    int pid;
    uint64_t base, runtime, code_type;
    uint32_t version;
    unsigned empty; /* threads without frames */
    struct image_thread threads[IMAGE_THREADS];
    struct image_frame frames[IMAGE_FRAMES];
    struct lw_memory_piece pieces[IMAGE_PIECES];
    unsigned thread_count, frame_count, piece_count;
    char *text; /* in which the pieces' bytes lie, too */
};

static const char *const image_names[] = { "3.9",  "3.10", "3.11", "3.12",
                                           "3.13", "3.14", "3.15" };
#define IMAGE_COUNT (sizeof(image_names) / sizeof(image_names[0]))

static inline int image_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* "piece ADDRESS BYTES": the bytes take the place of their digits. */
static inline bool image_piece(struct image *image, char *line)
{
    char *at;
    uint64_t address = strtoull(line + strlen("piece "), &at, 16);
    unsigned char *bytes = (unsigned char *)++at;
    size_t len = strlen(at) / 2;

    if (image->piece_count == IMAGE_PIECES)
        return false;
    for (size_t i = 0; i < len; i++)
        bytes[i] =
            (unsigned char)(image_digit(at[2 * i]) * 16 + image_digit(at[2 * i + 1]));
    image->pieces[image->piece_count++] =
        (struct lw_memory_piece){ address, bytes, len };
    return true;
}

static inline bool image_line(struct image *image, char *line)
{
    struct image_thread *thread = &image->threads[image->thread_count];
    struct image_frame *frame = &image->frames[image->frame_count];

    if (strncmp(line, "piece ", 6) == 0)
        return image_piece(image, line);
    if (image->thread_count < IMAGE_THREADS &&
        sscanf(line, "thread %lu %u", &thread->tid, &thread->count) == 2) {
        thread->first = image->frame_count;
        image->thread_count++;
        return true;
    }
    if (image->frame_count < IMAGE_FRAMES &&
        sscanf(line, "frame %63s %u %u", frame->name, &frame->first_line,
               &frame->line) == 3) {
        image->frame_count++;
        return true;
    }
    return sscanf(line, "empty %u", &image->empty) == 1 ||
           sscanf(line, "pid %d", &image->pid) == 1 ||
           sscanf(line, "base %lx", &image->base) == 1 ||
           sscanf(line, "runtime %lx", &image->runtime) == 1 ||
           sscanf(line, "code_type %lx", &image->code_type) == 1 ||
           sscanf(line, "version %x", &image->version) == 1;
}

/* The image in the file PATH; the caller releases it. */
static inline bool image_open(struct image *image, const char *path)
{
    struct lw_file_view view = { 0 };
    struct lw_buf text;
    bool done;

    memset(image, 0, sizeof(*image));
    lw_buf_init(&text, 0);
    done = lw_file_open(&view, path, NULL) &&
           lw_inflate(view.bytes, view.len, &text, NULL);
    lw_file_close(&view);
    if (!done)
        return false;
    image->text = lw_copy_text(text.bytes, text.len, NULL);
    lw_buf_release(&text);
    for (char *line = image->text, *end; done && line && *line; line = end + 1) {
        end = strchr(line, '\n');
        if (!end)
            return false;
        *end = '\0';
        done = image_line(image, line);
    }
    return done && image->text;
}

static inline void image_release(struct image *image)
{
    lw_free(image->text);
}

/* A target that is the image, with READ in place of plain reading unless it is NULL. Its
 * pid is used by Pythons that do not tell a thread's number. */
static inline struct lw_target *image_target(
    const struct image *image,
    size_t (*read)(struct lw_memory *memory, const struct lw_memory_range *ranges,
                   size_t count),
    struct lw_error *err)
{
    struct lw_target *target = lw_zalloc(1, sizeof(*target), err);
    const struct lw_py_layout *layout = &target->layout;
    uint64_t address;

    lw_memory_image(&target->memory, image->pieces, image->piece_count);
    if (read)
        target->memory.read = read;
    target->pid = image->pid;
    target->runtime = image->runtime;
    lw_code_cache_init(&target->codes, layout, image->code_type);
    if (!lw_layout_find(&target->layout, &target->memory, image->runtime,
                        image->version, err)) {
        lw_target_free(target);
        return NULL;
    }
    if (lw_memory_u64(&target->memory,
                      image->runtime + layout->runtime_interpreters_head, &address) &&
        address) {
        target->interpreters[target->interpreter_count++] = address;
        if (layout->interpreter_gil != LW_NO_FIELD &&
            !lw_memory_u64(&target->memory, address + layout->interpreter_gil,
                           &target->gil[0]))
            target->gil[0] = 0;
        if (layout->runtime_gil != LW_NO_FIELD)
            target->gil[0] = image->runtime + layout->runtime_gil;
    }
    return target;
}

#endif
