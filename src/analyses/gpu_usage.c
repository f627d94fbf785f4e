/* Kernels are collected rank by rank and lie there by device and start, which for one
 * stream of one device they did already. */

#include "analyses/gpu_usage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/tb_events.h"
#include "analyses/tensor_cores.h"
#include "base/alloc.h"

struct adding {
    struct lw_gpu_usages *usages;
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    uint32_t rank;
    uint64_t start_ns, end_ns;
    enum lw_compat compat;
    uint8_t *on_tensor_cores; /* owned: of each string, 1 no, 2 yes; 0: not asked */
    size_t first_gpu;         /* of the rank, in the trace */
};

/* ---- the kernels -------------------------------------------------------------------- */

static const struct lw_work_detail *detail_of(const struct lw_trace *trace,
                                              const struct lw_gpu_kernel *kernel)
{
    uint32_t detail = trace->events[kernel->event].detail;

    return detail == LW_NONE ? NULL : &trace->works[detail];
}

/* The plugin wants the kernel itself to say where it ran. */
static bool add_kernel(struct adding *a, const struct lw_track *track, uint32_t index,
                       struct lw_error *err)
{
    const struct lw_event *event = &a->trace->events[index];
    bool as_tb = a->compat == LW_COMPAT_TB;
    struct lw_gpu_kernel kernel = { event->start_ns, lw_event_end_ns(event), index,
                                    as_tb ? -1 : track->device };
    struct lw_gpu_usages *usages = a->usages;

    if (event->detail != LW_NONE && a->trace->works[event->detail].device >= 0)
        kernel.device = a->trace->works[event->detail].device;
    if (as_tb) {
        struct lw_interval span = lw_tb_span(event);

        if (kernel.device < 0)
            return true;
        kernel.start_ns = span.start_ns;
        kernel.end_ns = span.end_ns;
    }
    if (!lw_grow(&usages->kernels, &usages->kernel_capacity, usages->kernel_count + 1,
                 sizeof(kernel), err))
        return false;
    usages->kernels[usages->kernel_count++] = kernel;
    return true;
}

static int compare_kernels(const void *a, const void *b)
{
    const struct lw_gpu_kernel *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool collect(struct adding *a, struct lw_error *err)
{
    struct lw_gpu_usages *usages = a->usages;
    size_t first = usages->kernel_count;
    bool is_sorted = true;

    for (size_t t = 0; t < a->trace->track_count; t++) {
        const struct lw_track *track = &a->trace->tracks[t];

        if (track->rank != a->rank || !track->is_device)
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (a->trace->events[i].kind == LW_EVENT_KERNEL &&
                !add_kernel(a, track, i, err))
                return false;
    }
    for (size_t i = first + 1; i < usages->kernel_count && is_sorted; i++)
        is_sorted = compare_kernels(&usages->kernels[i - 1], &usages->kernels[i]) <= 0;
    if (!is_sorted)
        qsort(usages->kernels + first, usages->kernel_count - first,
              sizeof(*usages->kernels), compare_kernels);
    return true;
}

/* ---- SM efficiency ------------------------------------------------------------------ */

/* A kernel's start or end. */
struct endpoint {
    uint64_t ns;
    double blocks; /* for each multiprocessor */
};

static int compare_endpoints(const void *a, const void *b)
{
    const struct endpoint *x = a, *y = b;

    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Starts and ends of the COUNT kernels, each in order of time; how many of each. */
static size_t find_endpoints(const struct lw_gpu_kernel *kernels, size_t count,
                             const struct lw_trace *trace, struct endpoint *starts,
                             struct endpoint *ends)
{
    size_t told = 0;
    bool is_sorted = true;

    for (size_t i = 0; i < count; i++) {
        const struct lw_work_detail *detail = detail_of(trace, &kernels[i]);

        if (!detail || !(detail->blocks_per_sm > 0))
            continue;
        starts[told] = (struct endpoint){ kernels[i].start_ns, detail->blocks_per_sm };
        ends[told] = (struct endpoint){ kernels[i].end_ns, detail->blocks_per_sm };
        is_sorted &= told == 0 || ends[told - 1].ns <= ends[told].ns;
        told++;
    }
    if (!is_sorted)
        qsort(ends, told, sizeof(*ends), compare_endpoints);
    return told;
}

/* Go through them in order of time; of one moment the starts come first. */
static size_t sweep(const struct endpoint *starts, const struct endpoint *ends,
                    size_t told, struct lw_sm_range *ranges)
{
    size_t count = 0, start = 0, end = 0;
    uint64_t last_ns = 0;
    double blocks = 0;

    while (end < told) {
        bool is_start = start < told && starts[start].ns <= ends[end].ns;
        const struct endpoint *now = is_start ? &starts[start++] : &ends[end++];

        if (now->ns > last_ns && blocks > 0)
            ranges[count++] =
                (struct lw_sm_range){ last_ns, now->ns, blocks < 1 ? blocks : 1 };
        last_ns = now->ns;
        blocks += is_start ? now->blocks : -now->blocks;
    }
    return count;
}

bool lw_gpu_sm_ranges(const struct lw_gpu_usages *usages,
                      const struct lw_gpu_usage *usage, const struct lw_trace *trace,
                      struct lw_sm_range **ranges, size_t *count, struct lw_error *err)
{
    const struct lw_gpu_kernel *kernels = usages->kernels + usage->first;
    struct endpoint *starts = lw_alloc(2 * usage->count * sizeof(*starts) + 1, err);
    struct endpoint *ends = starts ? starts + usage->count : NULL;
    size_t told;

    *ranges = NULL;
    *count = 0;
    if (!starts)
        return false;
    told = find_endpoints(kernels, usage->count, trace, starts, ends);
    if (told > 0)
        *ranges = lw_alloc(2 * told * sizeof(**ranges), err);
    if (*ranges)
        *count = sweep(starts, ends, told, *ranges);
    lw_free(starts);
    return told == 0 || *ranges;
}

static double clipped_ns(const struct adding *a, uint64_t start_ns, uint64_t end_ns)
{
    if (start_ns < a->start_ns)
        start_ns = a->start_ns;
    if (end_ns > a->end_ns)
        end_ns = a->end_ns;
    return end_ns > start_ns ? (double)(end_ns - start_ns) : 0;
}

static bool find_efficiency(struct adding *a, struct lw_gpu_usage *usage,
                            struct lw_error *err)
{
    struct lw_sm_range *ranges;
    double sum = 0;
    bool is_told = false;
    size_t count;

    if (!lw_gpu_sm_ranges(a->usages, usage, a->trace, &ranges, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        double ns = clipped_ns(a, ranges[i].start_ns, ranges[i].end_ns);

        is_told |= ns > 0;
        sum += ranges[i].efficiency * ns;
    }
    usage->sm_share = is_told ? sum / (double)(a->end_ns - a->start_ns) : NAN;
    lw_free(ranges);
    return true;
}

/* ---- the other numbers -------------------------------------------------------------- */

static bool uses_tensor_cores(struct adding *a, lw_string_id name)
{
    uint8_t *known = &a->on_tensor_cores[name];

    if (!*known)
        *known =
            1 + lw_tensor_core_kernel(lw_profile_text(a->profile, name), a->compat);
    return *known == 2;
}

static void find_shares(struct adding *a, struct lw_gpu_usage *usage)
{
    const struct lw_gpu_kernel *kernels = a->usages->kernels + usage->first;
    double busy = 0, sum = 0, tensor = 0, told = 0, occupied = 0;
    uint64_t latest_ns = 0;

    for (size_t i = 0; i < usage->count; i++) {
        const struct lw_gpu_kernel *kernel = &kernels[i];
        const struct lw_work_detail *detail = detail_of(a->trace, kernel);
        double ns = clipped_ns(a, kernel->start_ns, kernel->end_ns);

        if (kernel->end_ns > latest_ns) {
            busy += clipped_ns(
                a, kernel->start_ns > latest_ns ? kernel->start_ns : latest_ns,
                kernel->end_ns);
            latest_ns = kernel->end_ns;
        }
        sum += ns;
        if (uses_tensor_cores(a, a->trace->events[kernel->event].name))
            tensor += ns;
        if (detail && detail->occupancy >= 0) {
            told += ns;
            occupied += ns * detail->occupancy / 100;
        }
    }
    usage->busy_share = busy / (double)(a->end_ns - a->start_ns);
    usage->occupancy_share = told > 0 ? occupied / told : NAN;
    usage->tensor_share = sum > 0 ? tensor / sum : NAN;
}

/* A machine has fewer GPUs than this; a file can say anything. */
#define MOST_GPUS 256

/* Those of a rank lie together, as its file lists them. */
static const struct lw_trace_gpu *find_gpu(const struct adding *a, int32_t device)
{
    for (size_t i = a->first_gpu;
         i < a->trace->gpu_count && a->trace->gpus[i].rank == a->rank &&
         i - a->first_gpu < MOST_GPUS;
         i++)
        if (a->trace->gpus[i].id == device)
            return &a->trace->gpus[i];
    return NULL;
}

static bool add_usage(struct adding *a, size_t first, size_t end, struct lw_error *err)
{
    struct lw_gpu_usages *usages = a->usages;
    int32_t device = usages->kernels[first].device;
    struct lw_gpu_usage usage = { .rank = a->rank,
                                  .device = device,
                                  .gpu = find_gpu(a, device),
                                  .first = first,
                                  .count = end - first };

    find_shares(a, &usage);
    if (!find_efficiency(a, &usage, err) ||
        !lw_grow(&usages->list, &usages->capacity, usages->count + 1, sizeof(usage),
                 err))
        return false;
    usages->list[usages->count++] = usage;
    return true;
}

bool lw_gpu_usages_add(struct lw_gpu_usages *usages, const struct lw_profile *profile,
                       uint32_t rank, uint64_t start_ns, uint64_t end_ns,
                       enum lw_compat compat, struct lw_error *err)
{
    struct adding a = { .usages = usages,
                        .profile = profile,
                        .trace = profile->trace,
                        .rank = rank,
                        .start_ns = start_ns,
                        .end_ns = end_ns,
                        .compat = compat };
    size_t first = usages->kernel_count;
    bool done;

    while (a.first_gpu < a.trace->gpu_count && a.trace->gpus[a.first_gpu].rank != rank)
        a.first_gpu++;
    a.on_tensor_cores = lw_zalloc(lw_strings_count(profile->strings), 1, err);
    done = a.on_tensor_cores && collect(&a, err);
    for (size_t end = first; done && end < usages->kernel_count; first = end) {
        while (end < usages->kernel_count &&
               usages->kernels[end].device == usages->kernels[first].device)
            end++;
        done = add_usage(&a, first, end, err);
    }
    lw_free(a.on_tensor_cores);
    return done;
}

void lw_gpu_usages_release(struct lw_gpu_usages *usages)
{
    lw_free(usages->kernels);
    lw_free(usages->list);
    memset(usages, 0, sizeof(*usages));
}
