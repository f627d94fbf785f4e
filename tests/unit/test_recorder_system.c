/* What processes and the machine use, read from a /proc of our own making. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "held.h"
#include "lap/reader.h"
#include "lap_fixture.h"
#include "recorder/system.h"
#include "test.h"

#define S_NS 1000000000ull
#define NO_NVML "/nowhere/libnvidia-ml.so.1"

/* ---- words and lines ---------------------------------------------------------------- */

static struct lw_piece piece(const char *text)
{
    return (struct lw_piece){ text, strlen(text) };
}

TEST(words_and_lines_are_found_or_not)
{
    struct lw_piece text = piece("cpu  10 20\ncpu0 1\nctxt 7\n"), value;
    uint64_t number = 0;

    CHECK(lw_piece_find(text, "cpu ", &value));
    CHECK(lw_piece_number(value, 1, &number));
    CHECK_EQ(number, 20);
    CHECK(!lw_piece_number(value, 2, &number));
    CHECK(lw_piece_find(text, "ctxt ", &value));
    CHECK(!lw_piece_find(text, "intr", &value));
    CHECK(!lw_piece_number(piece("12x"), 0, &number));
    CHECK(!lw_piece_number(piece(""), 0, &number));
}

TEST(a_programs_name_may_hold_anything)
{
    struct lw_proc_stat stat;

    CHECK(lw_proc_stat_read(
        &stat, piece("42 (a) b (c)) S 1 1 1 0 -1 4194304 900 0 17 0 250 50 0 0 20 0 "
                     "3 0 5000 1000000 2560 18446744073709551615\n")));
    CHECK_EQ(stat.major_faults, 17);
    CHECK_EQ(stat.user_ticks, 250);
    CHECK_EQ(stat.system_ticks, 50);
    CHECK_EQ(stat.threads, 3);
    CHECK_EQ(stat.start_ticks, 5000);
    CHECK_EQ(stat.rss_pages, 2560);
    CHECK(!lw_proc_stat_read(&stat, piece("42 (a) S 1 1")));
    CHECK(!lw_proc_stat_read(&stat, piece("")));
}

TEST(limits_are_those_of_version_1_where_both_are)
{
    struct lw_piece path;
    bool is_v2;

    CHECK(lw_proc_cgroup_find(piece("4:memory:/a\n2:cpu,cpuacct:/b\n0::/c\n"), "memory",
                              &path, &is_v2));
    CHECK(!is_v2 && path.len == 2 && memcmp(path.bytes, "/a", 2) == 0);
    CHECK(lw_proc_cgroup_find(piece("4:memory:/a\n2:cpuacct,cpu:/b\n"), "cpu", &path,
                              &is_v2));
    CHECK(!is_v2 && memcmp(path.bytes, "/b", 2) == 0);
    CHECK(lw_proc_cgroup_find(piece("0::/c\n"), "memory", &path, &is_v2));
    CHECK(is_v2 && memcmp(path.bytes, "/c", 2) == 0);
    CHECK(!lw_proc_cgroup_find(piece("4:pids:/a\n"), "memory", &path, &is_v2));
    CHECK(!lw_proc_cgroup_find(piece("nonsense"), "memory", &path, &is_v2));
}

/* ---- a /proc of our own ------------------------------------------------------------- */

struct world {
    char *folder; /* owned */
    struct lw_buf proc, sys;
    struct lw_system_reader reader;
    struct lw_system_points points;
};

static void put(const struct world *world, const char *name, const char *text)
{
    char *path = lw_path_join(world->folder, name, NULL);
    char *slash = strrchr(path, '/');
    int fd;

    *slash = '\0';
    CHECK(lw_file_make_folders(path, NULL));
    *slash = '/';
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); /* in place: it may be open */
    CHECK(fd >= 0 && lw_file_write_fd(fd, text, strlen(text)));
    close(fd);
    lw_free(path);
}

static void put_process(const struct world *world, unsigned pid, unsigned user_ticks,
                        unsigned system_ticks, unsigned pages, unsigned long written)
{
    char name[64], text[256];

    snprintf(name, sizeof(name), "proc/%u/stat", pid);
    snprintf(text, sizeof(text),
             "%u (python3) S 1 1 1 0 -1 0 0 0 0 0 %u %u 0 0 20 0 3 0 5000 0 %u 0\n",
             pid, user_ticks, system_ticks, pages);
    put(world, name, text);
    snprintf(name, sizeof(name), "proc/%u/io", pid);
    snprintf(text, sizeof(text),
             "rchar: 100\nwchar: %lu\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: "
             "%lu\ncancelled_write_bytes: 0\n",
             written, written / 2);
    put(world, name, text);
}

static void start_world(struct world *world, const char *nvml)
{
    memset(world, 0, sizeof(*world));
    world->folder = fixture_folder();
    lw_buf_init(&world->proc, 0);
    lw_buf_init(&world->sys, 0);
    lw_buf_addf(&world->proc, "%s/proc", world->folder);
    lw_buf_addf(&world->sys, "%s/sys", world->folder);
    CHECK(lw_system_reader_init(&world->reader, world->proc.bytes, world->sys.bytes,
                                nvml, NULL));
}

static void end_world(struct world *world)
{
    lw_system_reader_release(&world->reader);
    lw_free(world->points.list);
    lw_buf_release(&world->proc);
    lw_buf_release(&world->sys);
    fixture_remove(world->folder);
}

/* A look at one process; what was seen before is forgotten. */
static void look(struct world *world, uint32_t number, pid_t pid, uint64_t now_ns)
{
    struct lw_system_target target = { number, pid };

    world->points.count = 0;
    CHECK(lw_system_reader_look(&world->reader, &target, 1, now_ns, &world->points));
}

static const struct lw_system_point *find(const struct world *world, const char *name)
{
    for (size_t i = 0; i < world->points.count; i++)
        if (strcmp(world->points.list[i].name, name) == 0)
            return &world->points.list[i];
    return NULL;
}

static double value_of(const struct world *world, const char *name)
{
    const struct lw_system_point *point = find(world, name);

    if (!point)
        fail_msg("no point '%s'", name);
    return point->value;
}

TEST(rates_are_of_the_time_between_two_looks)
{
    long second = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
    struct world world;

    start_world(&world, NO_NVML);
    put_process(&world, 42, 100, 50, 1000, 1000);
    look(&world, 1, 42, 10 * S_NS);
    CHECK(!find(&world, "cpu [%]")); /* one look makes no rate */
    CHECK_NEAR(value_of(&world, "rss [bytes]"), 1000.0 * (double)page);
    CHECK_NEAR(value_of(&world, "threads"), 3);
    CHECK_EQ(find(&world, "threads")->time_ns, 10 * S_NS);

    /* In half a second: a quarter of one as user, a tenth in the kernel, 5,000 bytes. */
    put_process(&world, 42, 100 + (unsigned)second / 4, 50 + (unsigned)second / 10,
                1001, 6000);
    look(&world, 1, 42, 10 * S_NS + S_NS / 2);
    CHECK_NEAR(value_of(&world, "cpu user [%]"), 50);
    CHECK_NEAR(value_of(&world, "cpu system [%]"), 20);
    CHECK_NEAR(value_of(&world, "cpu [%]"), 70);
    CHECK_EQ(find(&world, "cpu [%]")->time_ns, 10 * S_NS); /* it holds from there */
    CHECK_NEAR(value_of(&world, "write [bytes/s]"), 10000);
    CHECK_NEAR(value_of(&world, "disk write [bytes/s]"), 5000);
    CHECK_NEAR(value_of(&world, "read [bytes/s]"), 0);
    CHECK_NEAR(value_of(&world, "rss [bytes]"), 1001.0 * (double)page);
    CHECK(!find(&world, "threads")); /* as before */
    end_world(&world);
}

TEST(what_is_gone_hidden_or_another_process_is_left_out)
{
    struct world world;

    start_world(&world, NO_NVML);
    look(&world, 1, 42, S_NS);
    CHECK_EQ(world.points.count, 0);
    put_process(&world, 42, 1, 1, 1000, 1);
    look(&world, 1, 42, 2 * S_NS);
    CHECK(find(&world, "rss [bytes]"));
    put(&world, "proc/42/stat",
        "42 (python3) S 1 1 1 0 -1 0 0 0 0 0 9 9 0 0 20 0 3 0 7777 0 5 0\n");
    look(&world, 1, 42, 3 * S_NS); /* its pid is used again */
    CHECK(!find(&world, "rss [bytes]"));
    put(&world, "proc/42/stat", "garbage");
    look(&world, 2, 42, 4 * S_NS);
    CHECK_EQ(world.points.count, 0);
    end_world(&world);
}

TEST(the_machine_is_told_with_the_oldest_process)
{
    long second = sysconf(_SC_CLK_TCK);
    char text[200];
    struct world world;

    start_world(&world, NO_NVML);
    put_process(&world, 42, 1, 1, 1000, 1);
    put(&world, "proc/stat", "cpu  100 0 100 5000 0 0 0 0 0 0\nintr 1 2\nctxt 1000\n");
    put(&world, "proc/meminfo",
        "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 10 kB\n"
        "SwapFree: 7 kB\n");
    put(&world, "proc/diskstats",
        " 254 0 vda 1 0 10 1 1 0 20 0 0 0 0\n 254 1 vda1 1 0 10 1 1 0 20 0 0 0 0\n");
    put(&world, "proc/net/dev",
        "Inter-| Receive\n face |bytes\n    lo: 99 1 0 0 0 0 0 0 99 1 0 0 0 0 0 0\n"
        "  eth0: 1000 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n");
    put(&world, "sys/block/vda/device/x", "");
    look(&world, 3, 42, S_NS);
    CHECK_NEAR(value_of(&world, "machine memory [bytes]"), 1000 * 1024);
    CHECK_NEAR(value_of(&world, "machine memory used [bytes]"), 600 * 1024);
    CHECK_NEAR(value_of(&world, "machine swap used [bytes]"), 3 * 1024);
    CHECK_EQ(find(&world, "machine memory [bytes]")->number, 3);

    snprintf(text, sizeof(text), "cpu  %ld 0 %ld 5000 0 0 0 0 0 0\nctxt 1300\n",
             100 + second, 100 + second / 2);
    put(&world, "proc/stat", text);
    put(&world, "proc/diskstats",
        " 254 0 vda 1 0 12 1 1 0 30 0 0 0 0\n 254 1 vda1 1 0 99 1 1 0 99 0 0 0 0\n");
    put(&world, "proc/net/dev",
        "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
        "  eth0:3000 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n");
    look(&world, 3, 42, 2 * S_NS);
    CHECK_NEAR(value_of(&world, "machine cpu user [%]"), 100);
    CHECK_NEAR(value_of(&world, "machine cpu [%]"), 150);
    CHECK_NEAR(value_of(&world, "machine context switches [1/s]"), 300);
    CHECK_NEAR(value_of(&world, "machine disk read [bytes/s]"), 1024);
    CHECK_NEAR(value_of(&world, "machine disk write [bytes/s]"), 5120);
    CHECK_NEAR(value_of(&world, "machine network in [bytes/s]"), 2000);
    CHECK_NEAR(value_of(&world, "machine network out [bytes/s]"), 400);
    CHECK(!find(&world, "machine memory [bytes]"));

    look(&world, 4, 42, 3 * S_NS); /* another process is the oldest now: said again */
    CHECK_EQ(find(&world, "machine memory [bytes]")->number, 4);
    end_world(&world);
}

TEST(the_tightest_limit_of_the_container_is_told)
{
    struct world world;

    start_world(&world, NO_NVML);
    put_process(&world, 42, 1, 1, 1000, 1);
    put(&world, "proc/42/cgroup", "0::/pod/job/leaf\n");
    put(&world, "sys/fs/cgroup/pod/memory.max", "9000\n");
    put(&world, "sys/fs/cgroup/pod/job/memory.max", "8000\n");
    put(&world, "sys/fs/cgroup/pod/job/memory.current", "5123\n");
    put(&world, "sys/fs/cgroup/pod/job/memory.stat",
        "anon 123\nfile 5000\nactive_anon 7\ninactive_file 2000\nactive_file 3000\n");
    put(&world, "sys/fs/cgroup/pod/job/leaf/memory.max", "max\n");
    put(&world, "sys/fs/cgroup/pod/job/leaf/cpu.max", "max 100000\n");
    put(&world, "sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
    look(&world, 1, 42, S_NS);
    CHECK_NEAR(value_of(&world, "container memory limit [bytes]"), 8000);
    CHECK_NEAR(value_of(&world, "container memory used [bytes]"), 123);
    CHECK_NEAR(value_of(&world, "container cpu limit [%]"), 150);
    end_world(&world);

    start_world(&world, NO_NVML); /* version 1, and its own group is the root */
    put_process(&world, 42, 1, 1, 1000, 1);
    put(&world, "proc/42/cgroup", "4:memory:/not/seen\n2:cpu,cpuacct:/not/seen\n");
    put(&world, "sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
    put(&world, "sys/fs/cgroup/memory/memory.usage_in_bytes", "90\n");
    put(&world, "sys/fs/cgroup/memory/memory.stat",
        "active_file 1\ninactive_file 1\ntotal_inactive_file 20\n");
    put(&world, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put(&world, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    look(&world, 1, 42, S_NS);
    CHECK_NEAR(value_of(&world, "container memory limit [bytes]"), 7000);
    CHECK_NEAR(value_of(&world, "container memory used [bytes]"), 70);
    CHECK(!find(&world, "container cpu limit [%]"));
    end_world(&world);

    start_world(&world, NO_NVML);
    put_process(&world, 42, 1, 1, 1000, 1);
    put(&world, "proc/42/cgroup", "4:memory:/\n");
    put(&world, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    look(&world, 1, 42, S_NS);
    CHECK(!find(&world, "container memory limit [bytes]"));
    end_world(&world);
}

TEST(shared_pages_are_asked_for_now_and_then)
{
    struct world world;

    start_world(&world, NO_NVML);
    put_process(&world, 42, 1, 1, 1000, 1);
    put(&world, "proc/42/smaps_rollup",
        "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 4000 kB\nPss: 2500 kB\n");
    look(&world, 1, 42, 10 * S_NS);
    CHECK(!find(&world, "pss [bytes]"));
    look(&world, 1, 42, 12 * S_NS);
    CHECK_NEAR(value_of(&world, "pss [bytes]"), 2500 * 1024);
    put(&world, "proc/42/smaps_rollup", "Pss: 2600 kB\n");
    look(&world, 1, 42, 13 * S_NS);
    CHECK(!find(&world, "pss [bytes]"));
    look(&world, 1, 42, 60 * S_NS);
    CHECK_NEAR(value_of(&world, "pss [bytes]"), 2600 * 1024);
    end_world(&world);
}

/* ---- graphics processors ------------------------------------------------------------ */

TEST(cards_tell_what_they_can)
{
    struct world world;

    start_world(&world, getenv("NVML_STAND_IN"));
    put_process(&world, 4242, 1, 1, 1000, 1);
    look(&world, 1, 4242, S_NS);
    CHECK_NEAR(value_of(&world, "machine gpu 0 [%]"), 73);
    CHECK_NEAR(value_of(&world, "machine gpu 0 memory [bytes]"), 8.0 * (1 << 30));
    CHECK_NEAR(value_of(&world, "machine gpu 0 memory used [bytes]"), 3.0 * (1 << 30));
    CHECK(!find(&world, "machine gpu 1 [%]"));
    CHECK_NEAR(value_of(&world, "machine gpu 1 memory used [bytes]"), 2.0 * (1 << 30));
    CHECK_NEAR(value_of(&world, "gpu 0 memory [bytes]"), 1 << 30);
    CHECK_NEAR(value_of(&world, "gpu 0 [%]"), 70); /* the newer figure */
    CHECK(!find(&world, "gpu 1 memory [bytes]"));
    for (unsigned i = 0; i < 3; i++) {
        look(&world, 1, 4242, (2 + i) * S_NS);
        CHECK(!find(&world, "gpu 0 [%]")); /* the driver has not noted a new one yet */
    }
    look(&world, 1, 4242, 9 * S_NS);
    CHECK_NEAR(value_of(&world, "gpu 0 [%]"), 0);
    end_world(&world);
}

TEST(a_library_that_is_none_is_no_card)
{
    CHECK(lw_nvml_open(NO_NVML) == NULL);
    CHECK(lw_nvml_open("libm.so.6") == NULL);
    lw_nvml_close(NULL);
}

/* ---- memory ------------------------------------------------------------------------- */

TEST(without_memory_a_look_says_so_and_the_next_one_goes_on)
{
    struct world world;
    unsigned failures = 0;

    start_world(&world, NO_NVML);
    put_process(&world, 42, 1, 1, 1000, 1);
    put(&world, "proc/meminfo",
        "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 10 kB\nSwapFree: 7 kB\n");
    for (uint32_t n = 1; n < 40; n++) { /* each of another number, so all is new */
        struct lw_system_target target = { n, 42 };

        lw_alloc_fail_in(n);
        failures +=
            !lw_system_reader_look(&world.reader, &target, 1, n * S_NS, &world.points);
    }
    lw_alloc_fail_in(0);
    CHECK(failures > 0);
    look(&world, 100, 42, 100 * S_NS);
    CHECK(find(&world, "rss [bytes]"));
    CHECK(find(&world, "machine memory [bytes]"));
    end_world(&world);
}

/* ---- the thread --------------------------------------------------------------------- */

static bool has_counter(const struct lw_profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->counter_count; i++)
        if (strcmp(lw_profile_text(profile, profile->counters[i].name), name) == 0)
            return true;
    return false;
}

TEST(what_the_thread_sees_of_us_is_in_the_recording)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *writer = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct lw_system *system = lw_system_new(NULL);
    struct lw_system_guest guest = { { 1, getpid() }, writer };
    uint64_t end_ns = lw_clock_ns() + S_NS;
    struct lw_profile *profile;

    CHECK(writer && system);
    while (lw_clock_ns() < end_ns) {
        lw_system_look(system, &guest, 1);
        usleep(20000);
    }
    lw_system_look(system, NULL, 0); /* nobody is there: what is left has no place */
    lw_system_free(system);
    CHECK(lw_lap_writer_close(writer, NULL));
    profile = lw_lap_load(folder, LW_WANT_COUNTERS, NULL);
    CHECK(profile != NULL);
    CHECK(has_counter(profile, "rss [bytes]"));
    CHECK(has_counter(profile, "cpu [%]"));
    CHECK(has_counter(profile, "machine memory [bytes]"));
    lw_profile_free(profile);
    fixture_remove(folder);
}
