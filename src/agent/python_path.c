#include "agent/python_path.h"

#include <stdlib.h>
#include <string.h>

#include "agent/layout.h"

enum entry { ENTRY_OTHER, ENTRY_UNSET, ENTRY_EMPTY, ENTRY_FOLLOWED };

static enum entry kind_of(const char *entry, size_t len, const char *folder)
{
    size_t folder_len = strlen(folder);
    const char *rest = entry + folder_len;
    size_t rest_len;

    if (len < folder_len || memcmp(entry, folder, folder_len) != 0)
        return ENTRY_OTHER;
    rest_len = len - folder_len;
    if (rest_len == 0)
        return ENTRY_UNSET;
    if (rest_len == strlen(LW_AGENT_PATH_FOLLOWED) &&
        memcmp(rest, LW_AGENT_PATH_FOLLOWED, rest_len) == 0)
        return ENTRY_FOLLOWED;
    if (rest_len == strlen(LW_AGENT_PATH_EMPTY) &&
        memcmp(rest, LW_AGENT_PATH_EMPTY, rest_len) == 0)
        return ENTRY_EMPTY;
    return ENTRY_OTHER;
}

static size_t entry_len(const char *at, const char *end)
{
    const char *colon = memchr(at, ':', (size_t)(end - at));

    return (size_t)((colon ? colon : end) - at);
}

bool lw_python_path_has(const char *value, size_t len, const char *folder)
{
    const char *end = value + len;

    for (const char *at = value;; at++) {
        size_t here = entry_len(at, end);

        if (kind_of(at, here, folder) != ENTRY_OTHER)
            return true;
        at += here;
        if (at == end)
            return false;
    }
}

char *lw_python_path_with(const char *value, size_t len, const char *folder)
{
    const char *suffix = !value     ? ""
                         : len == 0 ? LW_AGENT_PATH_EMPTY
                                    : LW_AGENT_PATH_FOLLOWED;
    size_t folder_len = strlen(folder), suffix_len = strlen(suffix);
    char *path = malloc(folder_len + suffix_len + len + 2), *at = path;

    if (!path)
        return NULL;
    memcpy(at, folder, folder_len);
    at += folder_len;
    memcpy(at, suffix, suffix_len);
    at += suffix_len;
    if (len > 0) {
        *at++ = ':';
        memcpy(at, value, len);
        at += len;
    }
    *at = '\0';
    return path;
}

char *lw_python_path_without(const char *value, const char *folder, bool *is_unset)
{
    size_t len = strlen(value), kept = 0;
    const char *end = value + len;
    enum entry only = kind_of(value, len, folder);
    char *path = malloc(len + 1), *out = path;

    *is_unset = only == ENTRY_UNSET || only == ENTRY_FOLLOWED;
    if (!path)
        return NULL;
    for (const char *at = value;; at++) {
        size_t here = entry_len(at, end);
        enum entry kind = kind_of(at, here, folder);

        if (kind != ENTRY_FOLLOWED && kept++ > 0)
            *out++ = ':';
        if (kind == ENTRY_OTHER) {
            memcpy(out, at, here);
            out += here;
        }
        at += here;
        if (at == end)
            break;
    }
    *out = '\0';
    if (*is_unset) {
        free(path);
        return NULL;
    }
    return path;
}
