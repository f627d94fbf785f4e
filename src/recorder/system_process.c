/* What one process uses: /proc/PID/stat, io and smaps_rollup. */

#include <fcntl.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "recorder/system_read.h"

#define S_NS 1000000000ull

/* The kernel walks all pages of a process to tell its part of those that are shared:
 * measured 30 ms a GB. So it is asked for at most so often, and at most this share of
 * the time. */
#define PSS_FIRST_NS S_NS
#define PSS_EVERY_NS (5 * S_NS)
#define PSS_SHARE 0.002
#define PSS_RSS_MOST (64ull << 30) /* 2 s of walking: never */

static const struct {
    const char *key, *name;
} io_rows[LW_SYSTEM_IO_COUNT] = {
    { "rchar:", "read [bytes/s]" }, /* also from memory, pipes and sockets */
    { "wchar:", "write [bytes/s]" },
    { "read_bytes:", "disk read [bytes/s]" },
    { "write_bytes:", "disk write [bytes/s]" },
};

/* File NAME of a process, by *FD, which is opened if it is not open yet. It stays open,
 * which halves the time of a look, as long as descriptors are plentiful. */
static bool read_of(struct lw_system_reader *reader,
                    const struct lw_system_process *process, const char *name, int *fd,
                    struct lw_piece *text)
{
    bool done;

    if (*fd < 0) {
        lw_buf_reset(&reader->path);
        lw_buf_addf(&reader->path, "%s/%d/%s", reader->proc, (int)process->pid, name);
        if (reader->path.failure)
            return false;
        *fd = open(reader->path.bytes, O_RDONLY | O_CLOEXEC);
    }
    done = *fd >= 0 && lw_system_read_fd(reader, *fd, true, text);
    if (*fd >= 0 && lw_file_is_scarce(*fd)) {
        close(*fd);
        *fd = -1;
    }
    return done;
}

/* To the nanosecond where the kernel has a clock for it; else ticks, mostly 10 ms. */
static uint64_t cpu_time_ns(const struct lw_system_reader *reader,
                            const struct lw_system_process *process, uint64_t ticks_ns)
{
    struct timespec time;
    clockid_t clock;

    if (!reader->is_real || clock_getcpuclockid(process->pid, &clock) != 0 ||
        clock_gettime(clock, &time) != 0)
        return ticks_ns;
    return (uint64_t)time.tv_sec * S_NS + (uint64_t)time.tv_nsec;
}

static bool look_at_cpu(struct lw_system_reader *reader,
                        struct lw_system_process *process,
                        const struct lw_proc_stat *stat, uint64_t now_ns)
{
    struct lw_system_subject *subject = &process->subject;
    uint64_t before_ns = process->time_ns, time_ns = now_ns - before_ns;
    uint64_t system_ns = lw_system_ticks_ns(stat->system_ticks);
    uint64_t cpu_ns =
        cpu_time_ns(reader, process, lw_system_ticks_ns(stat->user_ticks) + system_ns);
    double all = lw_system_percent(process->cpu_ns, cpu_ns, time_ns);
    double system =
        fmin(lw_system_percent(process->system_ns, system_ns, time_ns), all);
    double faults = lw_system_rate(process->major_faults, stat->major_faults, time_ns);
    bool has_rates = process->is_met && time_ns > 0;

    process->cpu_ns = cpu_ns;
    process->system_ns = system_ns;
    process->major_faults = stat->major_faults;
    return !has_rates ||
           (lw_system_add(reader, subject, "cpu [%]", before_ns, all) &&
            lw_system_add(reader, subject, "cpu user [%]", before_ns, all - system) &&
            lw_system_add(reader, subject, "cpu system [%]", before_ns, system) &&
            lw_system_add(reader, subject, "major faults [1/s]", before_ns, faults));
}

static bool look_at_io(struct lw_system_reader *reader,
                       struct lw_system_process *process, uint64_t now_ns)
{
    uint64_t time_ns = now_ns - process->time_ns;
    bool had_io = process->has_io && time_ns > 0;
    struct lw_piece text, value;

    process->has_io = read_of(reader, process, "io", &process->io_fd, &text);
    for (size_t i = 0; process->has_io && i < LW_SYSTEM_IO_COUNT; i++) {
        uint64_t before = process->io[i];

        if (!lw_piece_find(text, io_rows[i].key, &value) ||
            !lw_piece_number(value, 0, &process->io[i]))
            process->has_io = false;
        else if (had_io &&
                 !lw_system_add(reader, &process->subject, io_rows[i].name,
                                process->time_ns,
                                lw_system_rate(before, process->io[i], time_ns)))
            return false;
    }
    return true;
}

static bool look_at_pss(struct lw_system_reader *reader,
                        struct lw_system_process *process, uint64_t now_ns)
{
    uint64_t start_ns = lw_clock_ns(), rest_ns, kilobytes;
    struct lw_piece text, value;
    bool is_there;

    if (process->next_pss_ns == 0)
        process->next_pss_ns = now_ns + PSS_FIRST_NS;
    if (now_ns < process->next_pss_ns || process->rss_bytes > PSS_RSS_MOST)
        return true;
    is_there = lw_system_read_path(reader, true, &text, "%s/%d/smaps_rollup",
                                   reader->proc, (int)process->pid) &&
               lw_piece_find(text, "Pss:", &value) &&
               lw_piece_number(value, 0, &kilobytes);
    rest_ns = (uint64_t)((double)(lw_clock_ns() - start_ns) / PSS_SHARE);
    process->next_pss_ns = now_ns + (rest_ns > PSS_EVERY_NS ? rest_ns : PSS_EVERY_NS);
    return !is_there || lw_system_add(reader, &process->subject, "pss [bytes]", now_ns,
                                      (double)(kilobytes * 1024));
}

void lw_system_process_close(struct lw_system_process *process)
{
    if (process->stat_fd >= 0)
        close(process->stat_fd);
    if (process->io_fd >= 0)
        close(process->io_fd);
    process->stat_fd = process->io_fd = -1;
}

bool lw_system_process_look(struct lw_system_reader *reader,
                            struct lw_system_process *process, uint64_t now_ns)
{
    struct lw_system_subject *subject = &process->subject;
    struct lw_proc_stat stat;
    struct lw_piece text;
    bool done;

    now_ns = lw_system_time(reader, now_ns);
    if (!read_of(reader, process, "stat", &process->stat_fd, &text) ||
        !lw_proc_stat_read(&stat, text) ||
        (process->is_met && stat.start_ticks != process->start_ticks))
        return true; /* gone, hidden, or already another one */
    process->start_ticks = stat.start_ticks;
    process->rss_bytes = stat.rss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    if (process->rss_bytes == 0)
        return true; /* a zombie */
    done = look_at_cpu(reader, process, &stat, now_ns) &&
           look_at_io(reader, process, now_ns) &&
           lw_system_add(reader, subject, "rss [bytes]", now_ns,
                         (double)process->rss_bytes) &&
           lw_system_add(reader, subject, "threads", now_ns, (double)stat.threads) &&
           look_at_pss(reader, process, now_ns);
    process->is_met = true;
    process->time_ns = now_ns;
    return done;
}
