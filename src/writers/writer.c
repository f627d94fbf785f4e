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

/* Does PATH end in one of the SUFFIXES, and have a name before it? */
static bool has_suffix(const char *path, const char *suffixes)
{
    size_t path_len = strlen(lw_text_basename(path));

    while (*suffixes) {
        size_t len = strcspn(suffixes, " ");

        if (path_len > len && memcmp(path + strlen(path) - len, suffixes, len) == 0)
            return true;
        suffixes += len + (suffixes[len] == ' ');
    }
    return false;
}

const struct lw_writer *lw_writer_for_path(const char *path)
{
    for (size_t i = 0; i < lw_writer_count; i++)
        if (has_suffix(path, lw_writers[i]->suffixes))
            return lw_writers[i];
    return NULL;
}
