/* To preload: every thread but the first that opens the file $KINETO_CONFIG is held there
 * until there is a file $SLOW_UNTIL, or for 20 s. So Kineto's thread is late for its wait,
 * for as long as a test wants it to be. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

FILE *fopen64(const char *path, const char *mode)
{
    FILE *(*original)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen64");
    const char *config = getenv("KINETO_CONFIG");
    const char *until = getenv("SLOW_UNTIL");

    if (config && until && strcmp(path, config) == 0 && gettid() != getpid())
        for (int i = 0; i < 20000 && access(until, F_OK) != 0; i++)
            usleep(1000);
    return original(path, mode);
}
