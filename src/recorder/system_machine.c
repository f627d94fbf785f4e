/* What the machine uses, and the container we are in: /proc/stat, meminfo, diskstats and
 * net/dev, and the limits of control groups. */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "recorder/system_read.h"

struct devices {
    struct lw_system_reader *reader;
    const char *folder; /* of /sys */
};

/* Hardware has a device behind it; partitions, loops, bridges and the like have none. */
static bool is_hardware(void *context, struct lw_piece name)
{
    struct devices *devices = context;
    struct lw_buf *path = &devices->reader->path;

    lw_buf_reset(path);
    lw_buf_addf(path, "%s/%s/", devices->reader->sys, devices->folder);
    lw_buf_add(path, name.bytes, name.len);
    lw_buf_add_text(path, "/device");
    return !path->failure && lw_file_exists(path->bytes);
}

/* "cpu  user nice system idle iowait irq softirq steal guest guest_nice", in ticks; the
 * guests are in user and nice already. */
static bool look_at_cpu(struct lw_system_reader *reader, uint64_t now_ns)
{
    struct lw_system_machine *machine = &reader->machine;
    struct lw_system_subject *subject = &machine->subject;
    uint64_t before_ns = machine->time_ns, time_ns = now_ns - before_ns;
    uint64_t ticks[7], user, system, switches;
    bool had = machine->is_met && time_ns > 0;
    double user_percent, system_percent;
    struct lw_piece text, value;

    machine->is_met = false;
    if (!lw_system_read_path(reader, true, &text, "%s/stat", reader->proc) ||
        !lw_piece_find(text, "cpu ", &value))
        return true;
    for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++)
        if (!lw_piece_number(value, i, &ticks[i]))
            return true;
    if (!lw_piece_find(text, "ctxt ", &value) || !lw_piece_number(value, 0, &switches))
        return true;
    user = ticks[0] + ticks[1];
    system = ticks[2] + ticks[5] + ticks[6];
    user_percent = lw_system_percent(lw_system_ticks_ns(machine->user_ticks),
                                     lw_system_ticks_ns(user), time_ns);
    system_percent = lw_system_percent(lw_system_ticks_ns(machine->system_ticks),
                                       lw_system_ticks_ns(system), time_ns);
    if (had &&
        (!lw_system_add(reader, subject, "machine cpu [%]", before_ns,
                        user_percent + system_percent) ||
         !lw_system_add(reader, subject, "machine cpu user [%]", before_ns,
                        user_percent) ||
         !lw_system_add(reader, subject, "machine cpu system [%]", before_ns,
                        system_percent) ||
         !lw_system_add(reader, subject, "machine context switches [1/s]", before_ns,
                        lw_system_rate(machine->switches, switches, time_ns))))
        return false;
    machine->user_ticks = user;
    machine->system_ticks = system;
    machine->switches = switches;
    machine->is_met = true;
    return lw_system_add(reader, subject, "machine cpus", now_ns,
                         (double)sysconf(_SC_NPROCESSORS_ONLN));
}

static bool look_at_memory(struct lw_system_reader *reader, uint64_t now_ns)
{
    static const char *const keys[] = { "MemTotal:", "MemAvailable:", "SwapTotal:",
                                        "SwapFree:" };
    struct lw_system_subject *subject = &reader->machine.subject;
    uint64_t kilobytes[4];
    struct lw_piece text, value;

    if (!lw_system_read_path(reader, true, &text, "%s/meminfo", reader->proc))
        return true;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!lw_piece_find(text, keys[i], &value) ||
            !lw_piece_number(value, 0, &kilobytes[i]))
            return true;
    return lw_system_add(reader, subject, "machine memory [bytes]", now_ns,
                         (double)(kilobytes[0] * 1024)) &&
           lw_system_add(reader, subject, "machine memory used [bytes]", now_ns,
                         (double)((kilobytes[0] - kilobytes[1]) * 1024)) &&
           lw_system_add(reader, subject, "machine swap used [bytes]", now_ns,
                         (double)((kilobytes[2] - kilobytes[3]) * 1024));
}

static bool add_traffic(struct lw_system_reader *reader,
                        const struct lw_proc_traffic *before,
                        const struct lw_proc_traffic *now, uint64_t now_ns,
                        const char *in_name, const char *out_name)
{
    struct lw_system_machine *machine = &reader->machine;
    uint64_t time_ns = now_ns - machine->time_ns;

    return time_ns == 0 ||
           (lw_system_add(reader, &machine->subject, in_name, machine->time_ns,
                          lw_system_rate(before->in_bytes, now->in_bytes, time_ns)) &&
            lw_system_add(reader, &machine->subject, out_name, machine->time_ns,
                          lw_system_rate(before->out_bytes, now->out_bytes, time_ns)));
}

static bool look_at_traffic(struct lw_system_reader *reader, uint64_t now_ns)
{
    struct lw_system_machine *machine = &reader->machine;
    struct devices disks = { reader, "block" }, cards = { reader, "class/net" };
    bool had_disks = machine->has_disks, had_network = machine->has_network;
    struct lw_proc_traffic now;
    struct lw_piece text;

    machine->has_disks =
        lw_system_read_path(reader, false, &text, "%s/diskstats", reader->proc);
    if (machine->has_disks) {
        lw_proc_disks_read(&now, text, is_hardware, &disks);
        if (had_disks &&
            !add_traffic(reader, &machine->disks, &now, now_ns,
                         "machine disk read [bytes/s]", "machine disk write [bytes/s]"))
            return false;
        machine->disks = now;
    }
    machine->has_network =
        lw_system_read_path(reader, false, &text, "%s/net/dev", reader->proc);
    if (machine->has_network) {
        lw_proc_network_read(&now, text, is_hardware, &cards);
        if (had_network && !add_traffic(reader, &machine->network, &now, now_ns,
                                        "machine network in [bytes/s]",
                                        "machine network out [bytes/s]"))
            return false;
        machine->network = now;
    }
    return true;
}

/* ---- the container ------------------------------------------------------------------ */

#define NO_LIMIT (1ull << 60) /* version 1 says a number near 2^63 for "none" */

/* A number in file NAME of control group GROUP below FOLDER of /sys/fs/cgroup. */
static bool read_group(struct lw_system_reader *reader, const char *folder,
                       const char *group, const char *name, size_t word,
                       uint64_t *number)
{
    struct lw_piece text;

    return lw_system_read_path(reader, true, &text, "%s/fs/cgroup%s%s/%s", reader->sys,
                               folder, group, name) &&
           lw_piece_number(text, word, number);
}

/* The limit of a group; of CPU time in percent. */
static bool read_limit(struct lw_system_reader *reader, bool of_memory, bool is_v2,
                       const char *group, double *limit)
{
    uint64_t number, period;

    if (of_memory) {
        if (!read_group(reader, is_v2 ? "" : "/memory", group,
                        is_v2 ? "memory.max" : "memory.limit_in_bytes", 0, &number) ||
            number >= NO_LIMIT)
            return false;
        *limit = (double)number;
        return true;
    }
    if (is_v2 ? !read_group(reader, "", group, "cpu.max", 0, &number) ||
                    !read_group(reader, "", group, "cpu.max", 1, &period)
              : !read_group(reader, "/cpu", group, "cpu.cfs_quota_us", 0, &number) ||
                    !read_group(reader, "/cpu", group, "cpu.cfs_period_us", 0, &period))
        return false;
    *limit = (double)number / (double)period * 100;
    return period > 0;
}

/* Of the group of process PID and those above it, put the one with the tightest limit in
 * GROUP. A container may not see all groups above it, or see its own as the root. */
static bool find_limit(struct lw_system_reader *reader, pid_t pid, bool of_memory,
                       struct lw_buf *group, double *limit, bool *is_v2)
{
    struct lw_piece text, place;
    struct lw_buf path;
    bool found = false;

    if (!lw_system_read_path(reader, true, &text, "%s/%d/cgroup", reader->proc,
                             (int)pid) ||
        !lw_proc_cgroup_find(text, of_memory ? "memory" : "cpu", &place, is_v2))
        return false;
    lw_buf_init(&path, 0);
    lw_buf_add(&path, place.bytes, place.len);
    while (!path.failure) {
        double here;

        while (path.len > 0 && path.bytes[path.len - 1] == '/')
            path.bytes[--path.len] = '\0';
        if (read_limit(reader, of_memory, *is_v2, path.len ? path.bytes : "", &here) &&
            (!found || here < *limit)) {
            *limit = here;
            found = true;
            lw_buf_reset(group);
            lw_buf_add(group, path.bytes, path.len);
        }
        if (path.len == 0)
            break;
        while (path.len > 0 && path.bytes[path.len - 1] != '/')
            path.bytes[--path.len] = '\0';
    }
    lw_buf_release(&path);
    return found && !group->failure;
}

/* What the group with the limit uses. The files that it has cached count as its own too,
 * but are given back before anything fails, so they are left out, as they are for the
 * machine. */
static bool read_used(struct lw_system_reader *reader, uint64_t *bytes)
{
    static const char *const keys[2][2] = { { "total_active_file ",
                                              "total_inactive_file " },
                                            { "active_file ", "inactive_file " } };
    const struct lw_system_machine *machine = &reader->machine;
    const char *folder = machine->memory_is_v2 ? "" : "/memory";
    const char *group = machine->memory_group.len ? machine->memory_group.bytes : "";
    const char *name =
        machine->memory_is_v2 ? "memory.current" : "memory.usage_in_bytes";
    struct lw_piece text, value;
    uint64_t cached_bytes;

    if (!read_group(reader, folder, group, name, 0, bytes))
        return false;
    if (!lw_system_read_path(reader, true, &text, "%s/fs/cgroup%s%s/memory.stat",
                             reader->sys, folder, group))
        return true;
    for (size_t i = 0; i < 2; i++)
        if (lw_piece_find(text, keys[machine->memory_is_v2][i], &value) &&
            lw_piece_number(value, 0, &cached_bytes))
            *bytes -= cached_bytes < *bytes ? cached_bytes : *bytes;
    return true;
}

/* Limits are said once: they hardly ever change. */
static bool look_at_container(struct lw_system_reader *reader, pid_t pid,
                              uint64_t now_ns)
{
    struct lw_system_machine *machine = &reader->machine;
    struct lw_system_subject *subject = &machine->subject;
    struct lw_buf *group = &machine->memory_group;
    uint64_t used_bytes;
    double limit;
    bool is_v2;

    if (machine->limits_of != pid) {
        machine->limits_of = pid;
        if (find_limit(reader, pid, false, group, &limit, &is_v2) &&
            !lw_system_add(reader, subject, "container cpu limit [%]", now_ns, limit))
            return false;
        machine->has_memory_limit =
            find_limit(reader, pid, true, group, &limit, &machine->memory_is_v2);
        if (machine->has_memory_limit &&
            !lw_system_add(reader, subject, "container memory limit [bytes]", now_ns,
                           limit))
            return false;
    }
    return !machine->has_memory_limit || !read_used(reader, &used_bytes) ||
           lw_system_add(reader, subject, "container memory used [bytes]", now_ns,
                         (double)used_bytes);
}

bool lw_system_machine_look(struct lw_system_reader *reader,
                            const struct lw_system_target *owner, uint64_t now_ns)
{
    struct lw_system_machine *machine = &reader->machine;
    bool done;

    now_ns = lw_system_time(reader, now_ns);
    if (machine->subject.number != owner->number) { /* another series: say it all */
        machine->subject.number = owner->number;
        machine->subject.series_count = 0;
        machine->limits_of = 0;
    }
    done = look_at_cpu(reader, now_ns) && look_at_memory(reader, now_ns) &&
           look_at_traffic(reader, now_ns) &&
           look_at_container(reader, owner->pid, now_ns);
    machine->time_ns = now_ns;
    return done;
}
