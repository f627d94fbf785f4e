/* A library that looks like NVIDIA's to recorder/nvml.c: two cards, of which the second
 * tells little. Its figures are known to test_recorder_system.c. */

#include <string.h>

typedef struct stand_in_device *device_handle;

struct utilization {
    unsigned gpu, memory;
};

struct memory_info {
    unsigned long long total, free, used;
};

struct process_info {
    unsigned pid;
    unsigned long long used_memory;
    unsigned instance, compute_instance;
};

struct process_busy {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

#define NOT_SUPPORTED 3
#define NOT_FOUND 6

static int has_begun;
static char cards[2];

static int number_of(device_handle device)
{
    return (char *)device == &cards[1];
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    has_begun = 1;
    return 0;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
    has_begun = 0;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return has_begun ? 0 : 1;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_handle *device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_handle *device)
{
    *device = (device_handle)(void *)&cards[index];
    return 0;
}

int nvmlDeviceGetUtilizationRates(device_handle device, struct utilization *rates);
int nvmlDeviceGetUtilizationRates(device_handle device, struct utilization *rates)
{
    if (number_of(device) == 1)
        return NOT_SUPPORTED;
    *rates = (struct utilization){ 73, 20 };
    return 0;
}

int nvmlDeviceGetMemoryInfo(device_handle device, struct memory_info *memory);
int nvmlDeviceGetMemoryInfo(device_handle device, struct memory_info *memory)
{
    unsigned long long total = 8ull << 30,
                       used = (unsigned long long)(3 - number_of(device)) << 30;

    *memory = (struct memory_info){ total, total - used, used };
    return 0;
}

/* Process 4242 has memory on the first card, 77 does not tell. */
int nvmlDeviceGetComputeRunningProcesses_v3(device_handle device, unsigned *count,
                                            struct process_info *list);
int nvmlDeviceGetComputeRunningProcesses_v3(device_handle device, unsigned *count,
                                            struct process_info *list)
{
    if (number_of(device) == 1)
        return NOT_SUPPORTED;
    list[0] = (struct process_info){ .pid = 4242, .used_memory = 1ull << 30 };
    list[1] = (struct process_info){ .pid = 77, .used_memory = ~0ull };
    *count = 2;
    return 0;
}

/* Figures that are new at the first look only, the older one last. */
int nvmlDeviceGetProcessUtilization(device_handle device, struct process_busy *list,
                                    unsigned *count, unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(device_handle device, struct process_busy *list,
                                    unsigned *count, unsigned long long since_us)
{
    if (number_of(device) == 1 || since_us >= 2000)
        return NOT_FOUND;
    list[0] = (struct process_busy){ .pid = 4242, .time_us = 2000, .sm = 70 };
    list[1] = (struct process_busy){ .pid = 4242, .time_us = 1000, .sm = 5 };
    *count = 2;
    return 0;
}
