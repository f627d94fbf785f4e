/* The list of writers, and finding one. */

#include "writers/writer.h"

#include <string.h>

#include "base/text.h"

const struct lw_writer *const lw_writers[] = {
#define LW_WRITER(name) &lw_writer_##name,
#include "writers/writers.def"
#undef LW_WRITER
};
const size_t lw_writer_count = sizeof(lw_writers) / sizeof(lw_writers[0]);

const struct lw_writer *lw_writer_find(const char *name)
{
    for (size_t i = 0; i < lw_writer_count; i++)
        if (strcmp(lw_writers[i]->name, name) == 0)
            return lw_writers[i];
    return NULL;
}

/* The length of the longest of the SUFFIXES that PATH ends in, with a name before it;
 * 0: none. */
static size_t suffix_len(const char *path, const char *suffixes)
{
    size_t path_len = strlen(lw_text_basename(path));
    size_t longest = 0;

    while (*suffixes) {
        size_t len = strcspn(suffixes, " ");

        if (len > longest && path_len > len &&
            memcmp(path + strlen(path) - len, suffixes, len) == 0)
            longest = len;
        suffixes += len + (suffixes[len] == ' ');
    }
    return longest;
}

const struct lw_writer *lw_writer_for_path(const char *path)
{
    const struct lw_writer *found = NULL;
    size_t longest = 0;

    for (size_t i = 0; i < lw_writer_count; i++) {
        size_t len = suffix_len(path, lw_writers[i]->suffixes);

        if (len > longest) {
            longest = len;
            found = lw_writers[i];
        }
    }
    return found;
}

size_t lw_writer_suffix_len(const struct lw_writer *writer, const char *path)
{
    size_t len = suffix_len(path, writer->suffixes);
    const char *name = lw_text_basename(path);
    const char *point = strrchr(name, '.');

    if (len)
        return len;
    return point && point > name ? strlen(point) : 0;
}
