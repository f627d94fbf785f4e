/* What the looks at processes and at the machine share: points, files, the list of
 * processes; and the graphics processors. */

#include "recorder/system_read.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define S_NS 1000000000ull
#define TEXT_MOST (1u << 20) /* of a file; /proc/stat has 100 KB where 256 CPUs are */

/* ---- points ------------------------------------------------------------------------- */

/* The series of that name, which may be a new one; NULL: no memory. */
static struct lw_system_series *find_series(struct lw_system_subject *subject,
                                            const char *name)
{
    struct lw_system_series *series;

    for (size_t i = 0; i < subject->series_count; i++)
        if (strcmp(subject->series[i].name, name) == 0)
            return &subject->series[i];
    if (!lw_grow(&subject->series, &subject->series_capacity, subject->series_count + 1,
                 sizeof(*subject->series), NULL))
        return NULL;
    series = &subject->series[subject->series_count++];
    series->value = NAN; /* equal to nothing */
    snprintf(series->name, sizeof(series->name), "%s", name);
    return series;
}

bool lw_system_add(struct lw_system_reader *reader, struct lw_system_subject *subject,
                   const char *name, uint64_t time_ns, double value)
{
    struct lw_system_points *out = reader->out;
    struct lw_system_series *series = find_series(subject, name);
    struct lw_system_point *point;

    if (!series)
        return false;
    if (series->value == value)
        return true;
    if (!lw_grow(&out->list, &out->capacity, out->count + 1, sizeof(*out->list), NULL))
        return false;
    series->value = value;
    point = &out->list[out->count++];
    point->number = subject->number;
    point->time_ns = time_ns;
    point->value = value;
    memcpy(point->name, series->name, sizeof(point->name));
    return true;
}

static void release_subject(struct lw_system_subject *subject)
{
    lw_free(subject->series);
    memset(subject, 0, sizeof(*subject));
}

double lw_system_rate(uint64_t before, uint64_t now, uint64_t time_ns)
{
    return now > before ? (double)(now - before) * 1e9 / (double)time_ns : 0;
}

double lw_system_percent(uint64_t before_ns, uint64_t now_ns, uint64_t time_ns)
{
    return lw_system_rate(before_ns, now_ns, time_ns) / 1e7;
}

uint64_t lw_system_time(const struct lw_system_reader *reader, uint64_t look_ns)
{
    return reader->is_real ? lw_clock_ns() : look_ns;
}

uint64_t lw_system_ticks_ns(uint64_t ticks)
{
    long second = sysconf(_SC_CLK_TCK);

    return ticks * (S_NS / (uint64_t)(second > 0 ? second : 100));
}

/* ---- files -------------------------------------------------------------------------- */

bool lw_system_read_fd(struct lw_system_reader *reader, int fd, bool in_one,
                       struct lw_piece *text)
{
    struct lw_buf *out = &reader->text;
    char piece[8192];
    ssize_t got;

    lw_buf_reset(out);
    do {
        got = pread(fd, piece, sizeof(piece), (off_t)out->len);
        if (got > 0)
            lw_buf_add(out, piece, (size_t)got);
    } while (got > 0 && !out->failure && !(in_one && (size_t)got < sizeof(piece)));
    *text = (struct lw_piece){ out->bytes, out->len };
    return got >= 0 && out->len > 0 && !out->failure;
}

bool lw_system_read_path(struct lw_system_reader *reader, bool in_one,
                         struct lw_piece *text, const char *format, ...)
{
    bool done = false;
    va_list args;
    int fd;

    lw_buf_reset(&reader->path);
    va_start(args, format);
    lw_buf_addv(&reader->path, format, args);
    va_end(args);
    if (reader->path.failure)
        return false;
    fd = open(reader->path.bytes, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        done = lw_system_read_fd(reader, fd, in_one, text);
        close(fd);
    }
    return done;
}

/* ---- processes ---------------------------------------------------------------------- */

/* The process of that number, which may be a new one; NULL: no memory. */
static struct lw_system_process *find_process(struct lw_system_reader *reader,
                                              const struct lw_system_target *target)
{
    struct lw_system_process *process;

    for (size_t i = 0; i < reader->process_count; i++)
        if (reader->processes[i].subject.number == target->number)
            return &reader->processes[i];
    if (!lw_grow(&reader->processes, &reader->process_capacity,
                 reader->process_count + 1, sizeof(*process), NULL))
        return NULL;
    process = &reader->processes[reader->process_count++];
    memset(process, 0, sizeof(*process));
    process->subject.number = target->number;
    process->pid = target->pid;
    process->stat_fd = process->io_fd = -1;
    return process;
}

static void drop_others(struct lw_system_reader *reader)
{
    size_t kept = 0;

    for (size_t i = 0; i < reader->process_count; i++) {
        struct lw_system_process *process = &reader->processes[i];

        if (process->is_kept) {
            process->is_kept = false;
            reader->processes[kept++] = *process;
        } else {
            lw_system_process_close(process);
            release_subject(&process->subject);
        }
    }
    reader->process_count = kept;
}

/* ---- graphics processors ------------------------------------------------------------ */

/* A counter of card INDEX: "gpu 0 memory [bytes]". */
static bool add_gpu(struct lw_system_reader *reader, struct lw_system_subject *subject,
                    const char *before, size_t index, const char *after,
                    uint64_t time_ns, double value)
{
    char name[LW_SYSTEM_NAME_BYTES];

    snprintf(name, sizeof(name), "%sgpu %u%s", before, (unsigned)index, after);
    return lw_system_add(reader, subject, name, time_ns, value);
}

static bool look_at_gpus(struct lw_system_reader *reader, uint64_t now_ns)
{
    struct lw_system_subject *machine = &reader->machine.subject;
    struct lw_gpu *gpu = reader->gpu;

    if (!reader->has_asked_nvml) {
        reader->has_asked_nvml = true;
        reader->nvml = lw_nvml_open(reader->nvml_path);
    }
    for (size_t i = 0; i < lw_nvml_count(reader->nvml); i++) {
        if (!lw_nvml_read(reader->nvml, i, gpu))
            continue;
        if ((gpu->busy_percent >= 0 && !add_gpu(reader, machine, "machine ", i, " [%]",
                                                now_ns, (double)gpu->busy_percent)) ||
            (gpu->memory_bytes > 0 &&
             (!add_gpu(reader, machine, "machine ", i, " memory [bytes]", now_ns,
                       (double)gpu->memory_bytes) ||
              !add_gpu(reader, machine, "machine ", i, " memory used [bytes]", now_ns,
                       (double)gpu->memory_used_bytes))))
            return false;
        for (size_t p = 0; p < reader->process_count; p++) {
            struct lw_system_process *process = &reader->processes[p];

            for (size_t k = 0; k < gpu->process_count; k++) {
                const struct lw_gpu_process *used = &gpu->processes[k];

                if (used->pid != (uint64_t)process->pid)
                    continue;
                if ((used->memory_bytes != UINT64_MAX &&
                     !add_gpu(reader, &process->subject, "", i, " memory [bytes]",
                              now_ns, (double)used->memory_bytes)) ||
                    (used->busy_percent >= 0 &&
                     !add_gpu(reader, &process->subject, "", i, " [%]", now_ns,
                              (double)used->busy_percent)))
                    return false;
            }
        }
    }
    return true;
}

/* ---- the look ----------------------------------------------------------------------- */

bool lw_system_reader_init(struct lw_system_reader *reader, const char *proc,
                           const char *sys, const char *nvml, struct lw_error *err)
{
    memset(reader, 0, sizeof(*reader));
    lw_buf_init(&reader->text, TEXT_MOST);
    lw_buf_init(&reader->path, 0);
    lw_buf_init(&reader->machine.memory_group, 0);
    reader->is_real = !proc;
    reader->proc = proc ? proc : "/proc";
    reader->sys = sys ? sys : "/sys";
    reader->nvml_path = nvml;
    reader->gpu = lw_zalloc(1, sizeof(*reader->gpu), err);
    return reader->gpu != NULL;
}

void lw_system_reader_release(struct lw_system_reader *reader)
{
    for (size_t i = 0; i < reader->process_count; i++)
        reader->processes[i].is_kept = false;
    drop_others(reader);
    lw_free(reader->processes);
    release_subject(&reader->machine.subject);
    lw_buf_release(&reader->machine.memory_group);
    lw_nvml_close(reader->nvml);
    lw_free(reader->gpu);
    lw_buf_release(&reader->text);
    lw_buf_release(&reader->path);
    memset(reader, 0, sizeof(*reader));
}

bool lw_system_reader_look(struct lw_system_reader *reader,
                           const struct lw_system_target *targets, size_t count,
                           uint64_t now_ns, struct lw_system_points *out)
{
    bool done = true;

    reader->out = out;
    for (size_t i = 0; done && i < count; i++) {
        struct lw_system_process *process = find_process(reader, &targets[i]);

        done = process != NULL;
        if (process)
            process->is_kept = true;
    }
    if (done)
        drop_others(reader);
    if (!done || count == 0)
        return done;
    for (size_t i = 0; done && i < reader->process_count; i++)
        done = lw_system_process_look(reader, &reader->processes[i], now_ns);
    return done && lw_system_machine_look(reader, &targets[0], now_ns) &&
           look_at_gpus(reader, now_ns);
}
