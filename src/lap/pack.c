/* A run as one file: tar, so that every system can open it without us.
 *
 *     +--------+---------+--------+---------+-- - --+-------------+
 *     | header | run.json| header | segment |       | 1,024 zeros |
 *     +--------+---------+--------+---------+-- - --+-------------+
 *       512      each padded with zeros to 512
 *
 * Read back are also archives that tar itself made of a run's folder. */

#include "lap/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "lap/chunk.h"
#include "lap/traces.h"

#define BLOCK 512u
#define NAME_BYTES 100
#define SIZE_AT 124
#define CHECKSUM_AT 148
#define TYPE_AT 156
#define MAGIC_AT 257 /* "ustar" and NUL, or a space where GNU wrote it */

/* The sum of all bytes of a header, its own eight taken as spaces. */
static unsigned checksum(const unsigned char *header)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < BLOCK; i++)
        sum += i >= CHECKSUM_AT && i < CHECKSUM_AT + 8 ? ' ' : header[i];
    return sum;
}

/* A field of LEN bytes: octal digits, or, for what does not fit, a first byte 0x80 and
 * then a big-endian number. */
static bool get_number(const unsigned char *field, size_t len, uint64_t *value)
{
    size_t i = 0;

    *value = 0;
    if (field[0] & 0x80) {
        for (i = 1; i < len; i++) {
            if (*value >> 56)
                return false;
            *value = *value << 8 | field[i];
        }
        return field[0] == 0x80;
    }
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        *value = *value << 3 | (uint64_t)(field[i] - '0');
    return i == len || field[i] == '\0' || field[i] == ' ';
}

static bool is_header(const unsigned char *header)
{
    uint64_t sum;

    return memcmp(header + MAGIC_AT, "ustar", 5) == 0 &&
           get_number(header + CHECKSUM_AT, 8, &sum) && sum == checksum(header);
}

/* The name as the run has it, or NULL: not a file of one. */
static const char *run_file_name(const unsigned char *header, char *name)
{
    const char *base;
    uint32_t process, segment;

    if (header[TYPE_AT] != '0' && header[TYPE_AT] != '\0')
        return NULL;
    memcpy(name, header, NAME_BYTES);
    name[NAME_BYTES] = '\0';
    base = lw_text_basename(name);
    if ((size_t)(base - name) >= strlen(LW_TRACES_FOLDER "/")) {
        const char *trace = base - strlen(LW_TRACES_FOLDER "/");

        if (lw_trace_is_name(trace))
            return trace;
    }
    if (strcmp(base, "run.json") != 0 &&
        !lw_segment_parse_name(base, &process, &segment))
        return NULL;
    return base;
}

bool lw_pack_is_pack(const void *bytes, size_t len)
{
    const unsigned char *header = bytes;
    char name[NAME_BYTES + 1];

    if (len < BLOCK || !is_header(header))
        return false;
    /* Ours begins with run.json; tar's own with the folder. */
    return run_file_name(header, name) ||
           (header[TYPE_AT] == '5' &&
            memmem(header, NAME_BYTES, LW_RUN_SUFFIX "/", strlen(LW_RUN_SUFFIX) + 1));
}

bool lw_pack_list(struct lw_run *run, struct lw_error *err)
{
    const unsigned char *bytes = run->pack.bytes;
    size_t len = run->pack.len, at = 0;

    while (len - at >= BLOCK && is_header(bytes + at)) {
        char name[NAME_BYTES + 1];
        const char *base = run_file_name(bytes + at, name);
        uint64_t size;

        if (!get_number(bytes + at + SIZE_AT, 12, &size))
            break;
        at += BLOCK;
        if (size > len - at)
            size = len - at;
        if (base) {
            struct lw_run_file file = { .bytes = size, .offset = at };

            file.name = lw_arena_copy(&run->names, base, strlen(base), err);
            if (!file.name || !lw_grow(&run->files, &run->file_capacity,
                                       run->file_count + 1, sizeof(file), err))
                return false;
            run->files[run->file_count++] = file;
        }
        size += BLOCK - 1;
        size -= size % BLOCK;
        if (size > len - at)
            break;
        at += size;
    }
    return true;
}

static void put_octal(unsigned char *field, size_t len, uint64_t value)
{
    field[--len] = '\0';
    while (len) {
        field[--len] = (unsigned char)('0' + (value & 7));
        value >>= 3;
    }
}

static bool make_header(unsigned char *header, const struct lw_run *run,
                        const struct lw_run_file *file, uint64_t size,
                        struct lw_error *err)
{
    memset(header, 0, BLOCK);
    if (snprintf((char *)header, NAME_BYTES, "%s" LW_RUN_SUFFIX "/%s", run->name,
                 file->name) >= NAME_BYTES)
        snprintf((char *)header, NAME_BYTES, "run" LW_RUN_SUFFIX "/%s", file->name);
    if (size >> 33) /* eleven octal digits */
        return lw_fail(err, LW_ERR_LIMIT, "%s/%s is larger than 8 GB", run->path,
                       file->name);
    put_octal(header + 100, 8, 0600); /* mode */
    put_octal(header + 108, 8, 0);    /* owner and group: whoever unpacks */
    put_octal(header + 116, 8, 0);
    put_octal(header + SIZE_AT, 12, size);
    put_octal(header + 136, 12, run->info.wall_start_ns / 1000000000);
    header[TYPE_AT] = '0';
    memcpy(header + MAGIC_AT, "ustar\00000", 8);
    put_octal(header + CHECKSUM_AT, 7, checksum(header));
    header[CHECKSUM_AT + 7] = ' ';
    return true;
}

static bool is_segment(const struct lw_run_file *file)
{
    uint32_t process, segment;

    return lw_segment_parse_name(file->name, &process, &segment);
}

/* A segment that the recorder has just made has no head yet. */
static bool is_about_to_come(const struct lw_run *run, const struct lw_run_file *file,
                             const struct lw_file_view *view)
{
    return run->info.state == LW_RUN_RUNNING && is_segment(file) && view->len == 0;
}

/* What is sent to somebody is what its name says, not a file that was put in its place. */
static bool check_content(const struct lw_run *run, const struct lw_run_file *file,
                          const struct lw_file_view *view, struct lw_error *err)
{
    struct lw_segment_head head;
    struct lw_error why = { LW_OK, "" };

    if (!is_segment(file) || lw_segment_head_get(&head, view->bytes, view->len, &why) ||
        why.code == LW_ERR_UNSUPPORTED) /* a later version's */
        return true;
    return lw_fail(err, LW_ERR_FORMAT,
                   "%s/%s is not a segment of a run: take it out of the folder to pack "
                   "the others",
                   run->path, file->name);
}

static bool write_file(int fd, const struct lw_run *run, const struct lw_run_file *file,
                       const char *path, struct lw_error *err)
{
    static const unsigned char zeros[BLOCK];
    unsigned char header[BLOCK];
    struct lw_file_view view;
    bool done;

    if (!lw_run_view(run, file, &view, err))
        return false;
    if (is_about_to_come(run, file, &view)) {
        lw_file_close(&view);
        return true;
    }
    done = check_content(run, file, &view, err) &&
           make_header(header, run, file, view.len, err);
    if (done) {
        done = lw_file_write_fd(fd, header, BLOCK) &&
               lw_file_write_fd(fd, view.bytes, view.len) &&
               lw_file_write_fd(fd, zeros, (BLOCK - view.len % BLOCK) % BLOCK);
        if (!done)
            lw_fail_errno(err, "cannot write %s", path);
    }
    lw_file_close(&view);
    return done;
}

static bool write_files(int fd, const struct lw_run *run, const char *path,
                        struct lw_error *err)
{
    static const unsigned char end[2 * BLOCK];

    /* run.json first, so that its beginning tells what the file is. */
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < run->file_count; i++)
            if ((strcmp(run->files[i].name, "run.json") != 0) == others &&
                !write_file(fd, run, &run->files[i], path, err))
                return false;
    if (!lw_file_write_fd(fd, end, sizeof(end)) || fsync(fd) < 0)
        return lw_fail_errno(err, "cannot write %s", path);
    return true;
}

bool lw_run_pack(const struct lw_run *run, const char *path, struct lw_error *err)
{
    struct lw_buf names = { 0 };
    const char *temporary;
    size_t temporary_at;
    bool done = false;
    int fd = -1;

    /* "PATH NUL PATH.XXXXXX" */
    if (path)
        lw_buf_add_text(&names, path);
    else
        lw_buf_addf(&names, "%s" LW_PACK_SUFFIX, run->name);
    lw_buf_add_char(&names, '\0');
    temporary_at = names.len;
    lw_buf_addf(&names, "%s.XXXXXX", names.bytes ? names.bytes : "");
    if (!lw_buf_check(&names, err))
        goto out;
    path = names.bytes;
    temporary = names.bytes + temporary_at;

    fd = mkostemp(names.bytes + temporary_at, O_CLOEXEC); /* 0600 */
    if (fd < 0) {
        lw_fail_errno(err, "cannot write %s", path);
        goto out;
    }
    done = write_files(fd, run, path, err);
    if (close(fd) < 0 && done)
        done = lw_fail_errno(err, "cannot write %s", path);
    if (done && rename(temporary, path) < 0)
        done = lw_fail_errno(err, "cannot write %s", path);
    if (!done)
        unlink(temporary);
out:
    lw_buf_release(&names);
    return done;
}
