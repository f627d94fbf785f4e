/* Any bytes as a folder of files: pieces that a byte 0x1e parts, each a name, a newline and
 * what is in it. Names are made harmless; most end as those of traces do. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "readers/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define FILES_MAX 8

static char folder[64];

static void make_folder(void)
{
    if (folder[0])
        return;
    snprintf(folder, sizeof(folder), "/dev/shm/fuzz-folder-XXXXXX");
    if (!mkdtemp(folder))
        abort();
}

static void empty_folder(void)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char path[512];

    while (dir && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(dir);
}

static void write_file(const uint8_t *bytes, size_t len)
{
    const uint8_t *line = memchr(bytes, '\n', len);
    size_t name_len = line ? (size_t)(line - bytes) : 0;
    char path[256], name[64];
    FILE *file;

    if (!line || name_len == 0 || name_len >= sizeof(name))
        return;
    for (size_t i = 0; i < name_len; i++)
        name[i] =
            (char)((bytes[i] >= '-' && bytes[i] <= 'z' && bytes[i] != '/') ? bytes[i]
                                                                           : '_');
    name[name_len] = '\0';
    if (name[0] == '.')
        name[0] = '_';
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file)
        abort();
    fwrite(line + 1, 1, len - name_len - 1, file);
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile;
    bool exists;

    make_folder();
    for (int i = 0; i < FILES_MAX && len > 0; i++) {
        const uint8_t *end = memchr(bytes, 0x1e, len);
        size_t piece = end ? (size_t)(end - bytes) : len;

        write_file(bytes, piece);
        bytes += piece + (end != NULL);
        len -= piece + (end != NULL);
    }
    if (!lw_profile_exists(folder, &exists, NULL))
        abort();
    profile = lw_profile_open(folder, LW_WANT_TRACE | LW_WANT_ALL, &err);
    if (!profile && (err.code == LW_OK || !err.text[0]))
        abort();
    lw_profile_free(profile);
    empty_folder();
    return 0;
}
