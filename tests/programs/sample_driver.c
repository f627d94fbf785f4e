/* Samples one process and prints what was seen, as tests of the sampler want it:
 *
 *     sample_driver [--lines] [--pause] [--native] PID RATE SECONDS [SAMPLES]
 *
 * It says "sampling" on standard error when it does, and ends after SECONDS, after SAMPLES,
 * or when the process does. The first line of output is JSON: what was counted, and to
 * how many samples of equal weight these come. Each line after it is a distinct stack of a thread in
 * a state, parted by tabs:
 *
 *     COUNT  WEIGHT_NS  TID  STATE  FILE:FIRST_LINE:NAME;...
 *
 * STATE is the number of enum lw_sample_state. With --lines a frame is
 * FILE:FIRST_LINE:NAME:LINE. One of machine code is <FILE:NAME>. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "sampler/sampler.h"

/* Seldom: at 20,000 samples a second the sampler has a core, and a look takes it away. */
#define LOOK_NS 50000000

struct args {
    bool with_lines, pause, native;
    uint64_t pid, samples;
    double rate, seconds;
};

static bool parse(int argc, char **argv, struct args *args)
{
    int at = 1;

    *args = (struct args){ .samples = UINT64_MAX };
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--lines") == 0)
            args->with_lines = true;
        else if (strcmp(argv[at], "--pause") == 0)
            args->pause = true;
        else if (strcmp(argv[at], "--native") == 0)
            args->native = true;
        else
            return false;
    }
    return argc - at >= 3 && argc - at <= 4 &&
           lw_text_u64(argv[at], strlen(argv[at]), &args->pid) &&
           lw_text_double(argv[at + 1], strlen(argv[at + 1]), &args->rate) &&
           lw_text_double(argv[at + 2], strlen(argv[at + 2]), &args->seconds) &&
           args->rate > 0 &&
           (argc - at == 3 ||
            lw_text_u64(argv[at + 3], strlen(argv[at + 3]), &args->samples));
}

/* ---- printing ----------------------------------------------------------------------- */

static void add_frame(struct lw_buf *out, const struct lw_sample_log *log,
                      const struct lw_frame *frame, bool with_lines)
{
    const char *name = lw_strings_text(log->strings, frame->name);

    if (frame->kind == LW_FRAME_NOTE) {
        lw_buf_add_text(out, name);
        return;
    }
    if (frame->kind == LW_FRAME_NATIVE) {
        lw_buf_addf(out, "<%s:%s>",
                    lw_text_basename(lw_strings_text(log->strings, frame->file)), name);
        return;
    }
    lw_buf_addf(out, "%s:%" PRIu32 ":%s",
                lw_text_basename(lw_strings_text(log->strings, frame->file)),
                frame->first_line, name);
    if (with_lines)
        lw_buf_addf(out, ":%" PRIu32, frame->line);
}

static void add_stack(struct lw_buf *out, const struct lw_sample_log *log,
                      lw_stack_id stack, bool with_lines)
{
    size_t count, depth = 0, capacity = 0;
    const struct lw_frame *frames = lw_stacks_frames(log->stacks, &count);
    const struct lw_stack *stacks = lw_stacks_list(log->stacks, &count);
    lw_frame_id *path = NULL;

    for (; stack != LW_NO_STACK; stack = stacks[stack].parent) {
        if (!lw_grow(&path, &capacity, depth + 1, sizeof(*path), NULL))
            abort();
        path[depth++] = stacks[stack].frame;
    }
    while (depth-- > 0) {
        add_frame(out, log, &frames[path[depth]], with_lines);
        if (depth > 0)
            lw_buf_add_char(out, ';');
    }
    lw_free(path);
}

static int by_meaning(const void *left, const void *right)
{
    const struct lw_sample *a = left, *b = right;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return (int)a->state - (int)b->state;
}

/* Samples that mean the same become one line. */
static void print_stacks(struct lw_sample_log *log, bool with_lines)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    qsort(log->samples, log->sample_count, sizeof(*log->samples), by_meaning);
    for (size_t i = 0, next; i < log->sample_count; i = next) {
        const struct lw_sample *sample = &log->samples[i];
        uint64_t weight_ns = 0;

        for (next = i;
             next < log->sample_count && by_meaning(sample, &log->samples[next]) == 0;
             next++)
            weight_ns += log->samples[next].weight_ns;
        lw_buf_addf(&out, "%zu\t%" PRIu64 "\t%" PRIu64 "\t%u\t", next - i, weight_ns,
                    log->threads[sample->thread].tid, sample->state);
        add_stack(&out, log, sample->stack, with_lines);
        lw_buf_add_char(&out, '\n');
    }
    if (lw_buf_check(&out, NULL))
        fwrite(out.bytes, 1, out.len, stdout);
    lw_buf_release(&out);
}

/* Kish's effective sample size. */
static double effective_samples(const struct lw_sample_log *log)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < log->sample_count; i++) {
        double weight = (double)log->samples[i].weight_ns;

        sum += weight;
        squares += weight * weight;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void print_counts(const struct lw_sampler_counts *of_sampler,
                         const struct lw_sampled_counts *counts, bool has_ended,
                         double effective, double cpu)
{
    printf("{\"samples\": %" PRIu64 ", \"stacks\": %" PRIu64 ", \"moving\": %" PRIu64
           ", \"unreadable\": %" PRIu64 ", \"dropped\": %" PRIu64
           ", \"system_calls\": %" PRIu64 ", \"taken\": %" PRIu64 ", \"late\": %" PRIu64
           ", \"missed\": %" PRIu64 ", \"interrupted\": %" PRIu64
           ", \"effective_samples\": %.1f, \"cpu_seconds\": %.6f, \"has_ended\": %s",
           counts->samples, counts->stacks, counts->moving, counts->unreadable,
           counts->dropped, counts->system_calls, of_sampler->taken, of_sampler->late,
           of_sampler->missed, of_sampler->interrupted, effective, cpu,
           has_ended ? "true" : "false");
    printf(", \"stops\": %" PRIu64 ", \"stop_misses\": %" PRIu64
           ", \"stop_refusals\": %" PRIu64 ", \"longest_stop_ns\": %" PRIu64
           ", \"merged\": %" PRIu64 ", \"mismatched\": %" PRIu64
           ", \"uncaught\": %" PRIu64 ", \"cut\": %" PRIu64 "}\n",
           of_sampler->stops, of_sampler->stop_misses, of_sampler->stop_refusals,
           of_sampler->longest_stop_ns, counts->merged, counts->mismatched,
           counts->uncaught, counts->cut);
}

/* ---- sampling ----------------------------------------------------------------------- */

static void wait_for_enough(struct lw_sampler *sampler, struct lw_sampled *sampled,
                            const struct args *args)
{
    uint64_t end_ns = lw_clock_ns() + (uint64_t)(args->seconds * 1e9);
    struct timespec nap = { 0, LOOK_NS };

    while (lw_clock_ns() < end_ns && lw_sampled_lives(sampler, sampled) &&
           lw_sampled_counts(sampler, sampled).samples < args->samples)
        nanosleep(&nap, NULL);
}

static bool run(const struct args *args, struct lw_error *err)
{
    struct lw_sampler_options options = { .rate = args->rate,
                                          .pause = args->pause,
                                          .native = args->native };
    struct lw_target *target = lw_target_open((pid_t)args->pid, -1, err);
    struct lw_sampler *sampler = target ? lw_sampler_start(&options, err) : NULL;
    struct lw_sampler_counts of_sampler;
    struct lw_sampled_counts counts;
    struct lw_sample_log *log;
    struct lw_sampled *sampled;
    double cpu = cpu_seconds();
    bool has_ended;

    if (!sampler) {
        lw_target_free(target);
        return false;
    }
    sampled = lw_sampler_add(sampler, target, err);
    if (sampled) {
        fprintf(stderr, "sampling\n");
        wait_for_enough(sampler, sampled, args);
        cpu = cpu_seconds() - cpu;
        of_sampler = lw_sampler_counts(sampler);
        counts = lw_sampled_counts(sampler, sampled);
        has_ended = !lw_sampled_lives(sampler, sampled);
        log = lw_sampled_lock(sampler, sampled);
        print_counts(&of_sampler, &counts, has_ended, effective_samples(log), cpu);
        print_stacks(log, args->with_lines);
        lw_sampled_unlock(sampler);
    }
    lw_sampler_stop(sampler);
    return sampled != NULL;
}

int main(int argc, char **argv)
{
    struct lw_error err = { LW_OK, "" };
    struct args args;

    if (!parse(argc, argv, &args)) {
        fprintf(stderr, "usage: sample_driver [--lines] [--pause] [--native] PID RATE "
                        "SECONDS [SAMPLES]\n");
        return 2;
    }
    if (run(&args, &err))
        return 0;
    fprintf(stderr, "sample_driver: %s\n", err.text);
    return 1;
}
