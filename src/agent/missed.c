/* A byte a process, at the end of a file beside the recorder's socket: appending is one
 * step for the kernel, so nobody has to take turns. Only where the folder and the file
 * are our own user's: else somebody made them to have us write where they cannot. */

#include "agent/missed.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/layout.h"

enum { LONGEST_FOLDER = 108 }; /* the socket in it fits an address of its family */

static bool is_ours(int fd, mode_t type)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type &&
           st.st_uid == geteuid() && (type != S_IFREG || st.st_nlink == 1);
}

void lw_missed_note(const char *socket_path)
{
    const char *end = strrchr(socket_path, '/');
    char path[LONGEST_FOLDER];
    int folder, file;

    if (!end || (size_t)(end - socket_path) >= sizeof(path))
        return;
    memcpy(path, socket_path, (size_t)(end - socket_path));
    path[end - socket_path] = '\0';
    folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    file = is_ours(folder, S_IFDIR) ? openat(folder, LW_AGENT_MISSED,
                                             O_WRONLY | O_CREAT | O_APPEND |
                                                 O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                                             0600)
                                    : -1;
    if (file >= 0 && is_ours(file, S_IFREG) && write(file, "", 1) != 1) {
        /* No room for a byte: then nobody hears of it. */
    }
    if (file >= 0)
        close(file);
    close(folder);
}
