/* Which clock the agent believes in, and how it compares times of one that may jump. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/calls.h"
#include "agent/ticks.h"
#include "test.h"

static bool is_trusted_with(const char *clocksource)
{
    char path[] = "/tmp/lapwing-clock-XXXXXX";
    int fd = mkstemp(path);
    bool is_trusted;

    CHECK(fd >= 0 && write(fd, clocksource, strlen(clocksource)) >= 0);
    close(fd);
    is_trusted = lw_ticks_tsc_is_trusted(path);
    unlink(path);
    return is_trusted;
}

TEST(the_counter_is_used_only_where_the_kernel_keeps_time_by_it)
{
    CHECK(!is_trusted_with("hpet\n"));
    CHECK(!is_trusted_with("acpi_pm\n"));
    CHECK(!is_trusted_with("xen\n"));
    CHECK(!is_trusted_with("tsc-early\n")); /* the kernel has not made up its mind */
    CHECK(!is_trusted_with("jiffies\n"));
    CHECK(!is_trusted_with(""));
    CHECK(!lw_ticks_tsc_is_trusted("/no/such/file"));
#ifdef __x86_64__
    if (is_trusted_with("tsc\n")) { /* else the processor itself has no such counter */
        CHECK(is_trusted_with("kvm-clock\n"));
        CHECK(is_trusted_with("hyperv_clocksource_tsc_page\n"));
    }
#else
    CHECK(!is_trusted_with("tsc\n"));
#endif
}

TEST(what_began_before_the_recording_is_told_from_a_counter_that_started_again)
{
    const struct lw_calls_thread thread = { .first_ticks = 1000000 };

    CHECK(lw_calls_is_older(&thread, 900000, 1100000));
    CHECK(!lw_calls_is_older(&thread, 1000000, 1100000));
    CHECK(!lw_calls_is_older(&thread, 1050000, 1100000));
    CHECK(!lw_calls_is_older(&thread, 3, 5)); /* it started again before the span */
    CHECK(!lw_calls_is_older(&thread, 1050000, 5)); /* and in it */
    CHECK(lw_calls_is_older(&thread, 900000, 5));
}
