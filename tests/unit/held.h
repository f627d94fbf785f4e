/* Folders of tests, held by their descriptors. */
#ifndef LW_TEST_HELD_H
#define LW_TEST_HELD_H

#include <fcntl.h>
#include <unistd.h>

#include "base/folder.h"
#include "test.h"

#define HELD_AT_ONCE 16

/* The folder at PATH, open until many others have been asked for. Takes no memory, so that
 * tests may let allocations fail. */
static inline const struct lw_folder *held(const char *path)
{
    static struct slot {
        struct lw_folder folder;
        char path[300];
    } slots[HELD_AT_ONCE];
    static unsigned next;
    struct stat now, then;
    struct slot *slot;

    CHECK(stat(path, &now) == 0);
    for (unsigned i = 0; i < HELD_AT_ONCE; i++)
        if (slots[i].folder.path && strcmp(slots[i].path, path) == 0 &&
            fstat(slots[i].folder.fd, &then) == 0 && now.st_ino == then.st_ino)
            return &slots[i].folder;
    slot = &slots[next++ % HELD_AT_ONCE];
    if (slot->folder.path)
        close(slot->folder.fd);
    CHECK(strlen(path) < sizeof(slot->path));
    memcpy(slot->path, path, strlen(path) + 1);
    slot->folder.path = slot->path;
    slot->folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(slot->folder.fd >= 0);
    return &slot->folder;
}

#endif
