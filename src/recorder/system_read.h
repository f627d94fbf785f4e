/* Looks at processes and at the machine, and says what they use as points of counters:
 * a part of system.c with a file of its own, which knows nothing of threads or recordings.
 *
 * A name carries its unit ("rss [bytes]"). Those that begin with "machine " or
 * "container " are not about the process in whose series they lie. 100 % is one CPU.
 *
 * A rate is that of the time between two looks and stands at the first of them, so that
 * a point holds from its time to that of the next one of its name. One that says what
 * the one before it said is left out. */
#ifndef LW_RECORDER_SYSTEM_READ_H
#define LW_RECORDER_SYSTEM_READ_H

#include <sys/types.h>

#include "base/buf.h"
#include "recorder/nvml.h"
#include "recorder/proc_text.h"

#define LW_SYSTEM_NAME_BYTES 48
#define LW_SYSTEM_IO_COUNT 4

struct lw_system_point {
    uint32_t number; /* of the process in whose series it goes */
    uint64_t time_ns;
    double value;
    char name[LW_SYSTEM_NAME_BYTES];
};

struct lw_system_points {
    struct lw_system_point *list; /* owned */
    size_t count, capacity;
};

/* A counter, and what was last said of it. */
struct lw_system_series {
    double value;
    char name[LW_SYSTEM_NAME_BYTES];
};

/* Something that has counters: a process, or the machine. */
struct lw_system_subject {
    uint32_t number;
    struct lw_system_series *series; /* owned */
    size_t series_count, series_capacity;
};

struct lw_system_process {
    struct lw_system_subject subject;
    pid_t pid;
    int stat_fd, io_fd; /* -1: not open */
    bool is_met;        /* the figures below are those of the last look */
    uint64_t time_ns;
    uint64_t start_ticks;
    uint64_t cpu_ns, system_ns;
    uint64_t major_faults;
    bool has_io;
    uint64_t io[LW_SYSTEM_IO_COUNT]; /* bytes */
    uint64_t rss_bytes;              /* now */
    uint64_t next_pss_ns;            /* 0: not planned yet */
    bool is_kept;                    /* it is on the list of this look */
};

struct lw_system_machine {
    struct lw_system_subject subject;
    bool is_met;
    uint64_t time_ns;
    uint64_t user_ticks, system_ticks, switches;
    bool has_disks, has_network;
    struct lw_proc_traffic disks, network;
    pid_t limits_of; /* the process whose limits were looked for; 0: none yet */
    bool has_memory_limit, memory_is_v2;
    struct lw_buf memory_group; /* that has the limit, as a path */
};

struct lw_system_reader {
    const char *proc, *sys;              /* the folders; borrowed */
    const char *nvml_path;               /* NULL: the usual one; borrowed */
    bool is_real;                        /* proc is this machine's own */
    struct lw_system_process *processes; /* owned */
    size_t process_count, process_capacity;
    struct lw_system_machine machine;
    struct lw_nvml *nvml;
    bool has_asked_nvml;
    struct lw_gpu *gpu; /* owned: scratch */
    struct lw_buf text; /* scratch: a file of /proc */
    struct lw_buf path; /* scratch */
    struct lw_system_points *out;
};

struct lw_system_target {
    uint32_t number; /* of its series in the run; never used again */
    pid_t pid;
};

/* PROC and SYS: folders to look into instead of /proc and /sys, NVML: the library to load;
 * for tests; NULL: the real ones. */
bool lw_system_reader_init(struct lw_system_reader *reader, const char *proc,
                           const char *sys, const char *nvml, struct lw_error *err)
    LW_MUST_CHECK;
void lw_system_reader_release(struct lw_system_reader *reader);

/* Look at all TARGETS, the oldest first, and at the machine; append to OUT. What is gone,
 * hidden or not there is left out. False: no memory for all of it. */
bool lw_system_reader_look(struct lw_system_reader *reader,
                           const struct lw_system_target *targets, size_t count,
                           uint64_t now_ns, struct lw_system_points *out) LW_MUST_CHECK;

/* For the files that look: */

/* A point, unless the one before it says the same. False: no memory. */
bool lw_system_add(struct lw_system_reader *reader, struct lw_system_subject *subject,
                   const char *name, uint64_t time_ns, double value) LW_MUST_CHECK;
/* More since the last time, in a second; what is less began anew: 0. */
double lw_system_rate(uint64_t before, uint64_t now, uint64_t time_ns);
/* The same of nanoseconds, in percent. */
double lw_system_percent(uint64_t before_ns, uint64_t now_ns, uint64_t time_ns);
/* When this is read: later than the look began, on a busy machine. */
uint64_t lw_system_time(const struct lw_system_reader *reader, uint64_t look_ns);
/* The kernel's ticks, of which a second mostly has a hundred. */
uint64_t lw_system_ticks_ns(uint64_t ticks);

/* All that FD or the path holds, from its start, good until the next one is read. A text
 * IN_ONE is made as a whole by the first read, and a second one would make it again only
 * to say that it has ended. */
bool lw_system_read_fd(struct lw_system_reader *reader, int fd, bool in_one,
                       struct lw_piece *text) LW_MUST_CHECK;
bool lw_system_read_path(struct lw_system_reader *reader, bool in_one,
                         struct lw_piece *text, const char *format, ...) LW_PRINTF(4, 5)
    LW_MUST_CHECK;

/* False: no memory. */
bool lw_system_process_look(struct lw_system_reader *reader,
                            struct lw_system_process *process, uint64_t now_ns)
    LW_MUST_CHECK;
void lw_system_process_close(struct lw_system_process *process); /* its files */
/* Into the series of OWNER, whose container is the one that counts. */
bool lw_system_machine_look(struct lw_system_reader *reader,
                            const struct lw_system_target *owner, uint64_t now_ns)
    LW_MUST_CHECK;

#endif
