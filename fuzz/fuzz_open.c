/* Any bytes as a file or a pipe that a person names: which reader is asked, and what is
 * said of a file that none knows. What the readers do with it is for their own targets. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "readers/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define PIPE_BYTES 65536 /* what a pipe holds before a write waits */

/* A descriptor to read the bytes from: of a file, or of a pipe. */
static int offer(const uint8_t *bytes, size_t len, bool as_pipe)
{
    int ends[2];

    if (!as_pipe) {
        ends[0] = memfd_create("fuzz", MFD_CLOEXEC);
        if (ends[0] < 0 || !lw_file_write_fd(ends[0], bytes, len))
            abort();
        return ends[0];
    }
    if (pipe(ends) < 0 || !lw_file_write_fd(ends[1], bytes, len))
        abort();
    close(ends[1]);
    return ends[0];
}

static void open_profile(const char *name)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile =
        lw_profile_open(name, LW_WANT_ALL | LW_WANT_TRACE, &err);

    if (!profile && (err.code == LW_OK || !err.text[0]))
        abort();
    lw_profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    bool as_pipe = len % 2 && len <= PIPE_BYTES;
    int fd = offer(bytes, len, as_pipe);
    bool exists = false, is_torch;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!lw_profile_exists(path, &exists, NULL))
        abort();
    if (lw_profile_reader(path, &is_torch) && !exists)
        abort();
    open_profile(path);
    close(fd);

    if (len < 4) { /* names that are no file's */
        open_profile("/proc/self/fd");
        open_profile("there is no such file.prof");
        if (!lw_profile_exists("there is no such run", &exists, NULL) || exists)
            abort();
        lw_profile_has_suffix("x.prof");
        lw_profile_has_suffix("x");
    }
    return 0;
}
