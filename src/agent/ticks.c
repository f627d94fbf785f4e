/* Which clock is of use, and the one where the counter is not; see ticks.h. */

#include "agent/ticks.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static bool tsc_is_invariant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#else
    return false;
#endif
}

/* A guest's kernel keeps time by the TSC too where it says kvm-clock or hyperv: both are
 * the TSC with a factor and an offset from the host. */
static bool is_made_of_tsc(const char *clocksource)
{
    static const char *const names[] = { "tsc", "kvm-clock",
                                         "hyperv_clocksource_tsc_page" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(clocksource, names[i]) == 0)
            return true;
    }
    return false;
}

bool lw_ticks_tsc_is_trusted(const char *path)
{
    int fd = tsc_is_invariant() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char name[64];
    ssize_t len = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);

    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return false;
    name[len] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return is_made_of_tsc(name);
}

uint64_t lw_ticks_monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
