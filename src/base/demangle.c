#include "base/demangle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* The C++ libraries that have a demangler: GNU's, and LLVM's. */
static const char *const libraries[] = { "libstdc++.so.6", "libc++abi.so.1" };

static char *(*demangle)(const char *name, char *buffer, size_t *len, int *status);

/* The library stays until the program ends. */
static void load(void)
{
    for (size_t i = 0; !demangle && i < sizeof(libraries) / sizeof(*libraries); i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);

        if (library)
            demangle = (char *(*)(const char *, char *, size_t *, int *))dlsym(
                library, "__cxa_demangle");
    }
}

void lw_demangle(struct lw_buf *out, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char *text = NULL;
    int status;

    if (lw_text_starts(name, "_Z")) {
        pthread_once(&once, load);
        if (demangle)
            text = demangle(name, NULL, NULL, &status);
    }
    lw_buf_add(out, text ? text : name, strlen(text ? text : name));
    free(text);
}
