/* The few functions of libnvidia-ml that are needed, by name. All return 0 when they have
 * answered. Names with _v2, _v3 are those with the present layout of their records. */

#include "recorder/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"

#define NOT_TOLD UINT64_MAX
#define NOT_FOUND 6 /* what they return when there is nothing to list */
/* The driver notes new figures up to once a second only: four looks. */
#define QUIET_LOOKS 4

typedef struct nvml_device *device_handle; /* opaque */

struct utilization {
    unsigned gpu, memory; /* percent */
};

struct memory_info {
    unsigned long long total, free, used; /* bytes */
};

struct process_info {
    unsigned pid;
    unsigned long long used_memory; /* bytes; all ones: not told */
    unsigned instance, compute_instance;
};

struct process_busy {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder; /* percent */
};

struct lw_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*get_count)(unsigned *count);
    int (*get_handle)(unsigned index, device_handle *device);
    int (*get_utilization)(device_handle device, struct utilization *utilization);
    int (*get_memory)(device_handle device, struct memory_info *memory);
    int (*get_compute)(device_handle device, unsigned *count,
                       struct process_info *list);
    int (*get_graphics)(device_handle device, unsigned *count,
                        struct process_info *list);
    int (*get_busy)(device_handle device, struct process_busy *list, unsigned *count,
                    unsigned long long since_us);
    device_handle devices[LW_GPUS_MAX];
    unsigned long long seen_us[LW_GPUS_MAX]; /* time of the last process_busy */
    unsigned quiet_looks[LW_GPUS_MAX];       /* in a row without one */
    size_t count;
};

/* POSIX makes a pointer from dlsym() a function's; ISO C has no words for it. */
static void find(const struct lw_nvml *nvml, const char *name, void *function)
{
    void *symbol = dlsym(nvml->library, name);

    memcpy(function, &symbol, sizeof(symbol));
}

static void find_functions(struct lw_nvml *nvml)
{
    find(nvml, "nvmlInit_v2", &nvml->init);
    find(nvml, "nvmlShutdown", &nvml->shutdown);
    find(nvml, "nvmlDeviceGetCount_v2", &nvml->get_count);
    find(nvml, "nvmlDeviceGetHandleByIndex_v2", &nvml->get_handle);
    find(nvml, "nvmlDeviceGetUtilizationRates", &nvml->get_utilization);
    find(nvml, "nvmlDeviceGetMemoryInfo", &nvml->get_memory);
    find(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml->get_compute);
    find(nvml, "nvmlDeviceGetGraphicsRunningProcesses_v3", &nvml->get_graphics);
    find(nvml, "nvmlDeviceGetProcessUtilization", &nvml->get_busy);
}

static bool start(struct lw_nvml *nvml)
{
    unsigned count = 0;

    if (!nvml->init || !nvml->shutdown || !nvml->get_count || !nvml->get_handle ||
        nvml->init() != 0)
        return false;
    if (nvml->get_count(&count) != 0)
        count = 0;
    for (unsigned i = 0; i < count && nvml->count < LW_GPUS_MAX; i++)
        if (nvml->get_handle(i, &nvml->devices[nvml->count]) == 0)
            nvml->count++;
    if (nvml->count > 0)
        return true;
    nvml->shutdown();
    return false;
}

struct lw_nvml *lw_nvml_open(const char *path)
{
    struct lw_nvml *nvml = lw_zalloc(1, sizeof(*nvml), NULL);

    if (!nvml)
        return NULL;
    nvml->library = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library) {
        find_functions(nvml);
        if (start(nvml))
            return nvml;
        dlclose(nvml->library);
    }
    lw_free(nvml);
    return NULL;
}

void lw_nvml_close(struct lw_nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
    lw_free(nvml);
}

size_t lw_nvml_count(const struct lw_nvml *nvml)
{
    return nvml ? nvml->count : 0;
}

/* The place of PID in the list, which may be a new one; NULL: the list is full. */
static struct lw_gpu_process *meet(struct lw_gpu *gpu, uint64_t pid)
{
    for (size_t i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].pid == pid)
            return &gpu->processes[i];
    if (gpu->process_count == LW_GPU_PROCESSES_MAX)
        return NULL;
    gpu->processes[gpu->process_count] = (struct lw_gpu_process){ pid, NOT_TOLD, -1 };
    return &gpu->processes[gpu->process_count++];
}

/* A process may be listed once for each kind of context it has: the larger counts, since
 * the driver gives the process's whole memory in both. */
static void read_memory(struct lw_gpu *gpu, device_handle device,
                        int (*get)(device_handle, unsigned *, struct process_info *))
{
    struct process_info list[LW_GPU_PROCESSES_MAX];
    unsigned count = LW_GPU_PROCESSES_MAX;

    if (!get || get(device, &count, list) != 0)
        return;
    for (unsigned i = 0; i < count && i < LW_GPU_PROCESSES_MAX; i++) {
        struct lw_gpu_process *process = meet(gpu, list[i].pid);

        if (process && list[i].used_memory != NOT_TOLD &&
            (process->memory_bytes == NOT_TOLD ||
             list[i].used_memory > process->memory_bytes))
            process->memory_bytes = list[i].used_memory;
    }
}

/* The driver keeps a few busy figures of each process: the newest counts. A process that
 * has none while others have, or for a second, is idle. */
static void read_busy(struct lw_nvml *nvml, size_t index, struct lw_gpu *gpu)
{
    struct process_busy list[LW_GPU_PROCESSES_MAX];
    unsigned long long newest[LW_GPU_PROCESSES_MAX] = { 0 };
    unsigned long long since_us = nvml->seen_us[index];
    unsigned count = LW_GPU_PROCESSES_MAX;
    int code = nvml->get_busy
                   ? nvml->get_busy(nvml->devices[index], list, &count, since_us)
                   : -1;

    if (code != 0 && code != NOT_FOUND)
        return;
    nvml->quiet_looks[index]++;
    for (unsigned i = 0; code == 0 && i < count && i < LW_GPU_PROCESSES_MAX; i++) {
        struct lw_gpu_process *process =
            list[i].time_us > since_us ? meet(gpu, list[i].pid) : NULL;
        size_t place = process ? (size_t)(process - gpu->processes) : 0;

        if (!process || list[i].time_us < newest[place])
            continue;
        newest[place] = list[i].time_us;
        process->busy_percent = list[i].sm;
        nvml->quiet_looks[index] = 0;
        if (list[i].time_us > nvml->seen_us[index])
            nvml->seen_us[index] = list[i].time_us;
    }
    if (nvml->quiet_looks[index] > 0 && nvml->quiet_looks[index] < QUIET_LOOKS)
        return;
    for (size_t i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].busy_percent < 0)
            gpu->processes[i].busy_percent = 0;
}

bool lw_nvml_read(struct lw_nvml *nvml, size_t index, struct lw_gpu *gpu)
{
    device_handle device = nvml->devices[index];
    struct utilization utilization;
    struct memory_info memory;

    gpu->busy_percent = -1;
    gpu->memory_used_bytes = gpu->memory_bytes = 0;
    gpu->process_count = 0;
    if (nvml->get_utilization && nvml->get_utilization(device, &utilization) == 0)
        gpu->busy_percent = utilization.gpu;
    if (nvml->get_memory && nvml->get_memory(device, &memory) == 0) {
        gpu->memory_used_bytes = memory.used;
        gpu->memory_bytes = memory.total;
    }
    read_memory(gpu, device, nvml->get_compute);
    read_memory(gpu, device, nvml->get_graphics);
    read_busy(nvml, index, gpu);
    return gpu->busy_percent >= 0 || gpu->memory_bytes > 0 || gpu->process_count > 0;
}
