/* The graphics processors of the machine, as NVIDIA's management library tells of them.
 *
 * The library comes with the driver, so it is loaded where it is (libnvidia-ml.so.1) and
 * never linked. Without it, without a driver, or where a card does not tell, there is just
 * nothing. Calls may take milliseconds, the first one a second: not for a thread that has
 * something else to do. */
#ifndef LW_RECORDER_NVML_H
#define LW_RECORDER_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW_GPUS_MAX 64          /* a machine has 16 today */
#define LW_GPU_PROCESSES_MAX 64 /* of one card that are told of */

struct lw_gpu_process {
    uint64_t pid;          /* as the driver's own namespace has it */
    uint64_t memory_bytes; /* UINT64_MAX: not told */
    int64_t busy_percent;  /* -1: not told */
};

struct lw_gpu {
    int64_t busy_percent; /* of the time since the last few looks; -1: not told */
    uint64_t memory_used_bytes, memory_bytes; /* the latter 0: not told */
    struct lw_gpu_process processes[LW_GPU_PROCESSES_MAX];
    size_t process_count;
};

struct lw_nvml;

/* PATH of the library; NULL: the usual one. NULL: there is none, or it does not work. */
struct lw_nvml *lw_nvml_open(const char *path);
void lw_nvml_close(struct lw_nvml *nvml); /* NULL is fine */
size_t lw_nvml_count(const struct lw_nvml *nvml);
/* What card INDEX does now. False: it tells nothing. */
bool lw_nvml_read(struct lw_nvml *nvml, size_t index, struct lw_gpu *gpu);

#endif
