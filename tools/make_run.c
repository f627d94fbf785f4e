/* Writes a synthetic run with the real writer, for benchmarks and tests:
 *
 *     make_run --samples 3000000 OUT.lap     stacks of a sampler at 1,000 Hz
 *     make_run --calls 10000000 OUT.lap      each call as a span, and call rows
 *     make_run --deep 10000 OUT.lap          one stack that deep, with calls
 *     make_run --frames 10000000 OUT.lap     that many functions, each called once
 *     make_run --rounds 600 OUT.lap          flushes of a few rows, as a quiet program
 *     make_run --steps 1000000 OUT.lap       the phases of a training, 6 spans a step
 *
 * Several may be given at once. The same arguments give the same rows. Before these,
 * --small makes a program of a few functions; with them, --segment BYTES makes segments
 * of that size, --thin thins all that can be, and --pack FILE packs the run. */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "lap/run.h"
#include "lap/thin.h"
#include "lap/writer.h"

#define THREADS 4
#define FUNCTIONS 400 /* of a middle-sized program */
#define STACKS 3000
#define FEW 6 /* of both, when small */
#define DEPTH 40
#define BATCH 50000 /* rows between two flushes: 50 ms of a busy program */

struct shape {
    uint64_t samples, calls, deep, frames, rounds, steps;
    uint64_t segment_bytes;
    const char *pack;
    bool small, thin;
};

struct maker {
    struct lw_lap_writer *writer;
    uint64_t random; /* state of a xorshift generator */
    uint64_t now_ns;
    uint64_t functions, stack_count; /* in use of the arrays below */
    lw_frame_id frames[FUNCTIONS];
    lw_stack_id stacks[STACKS];
    uint32_t threads[THREADS];
};

static uint64_t next_random(struct maker *m)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random;
}

static bool add_frame(struct maker *m, uint64_t n, lw_frame_id *id,
                      struct lw_error *err)
{
    struct lw_frame frame = { .first_line = (uint32_t)(n % 5000 + 1) };
    char text[64];
    int len = snprintf(text, sizeof(text), "function_%llu", (unsigned long long)n);

    if (!lw_lap_writer_string(m->writer, text, (size_t)len, &frame.name, err))
        return false;
    len = snprintf(text, sizeof(text), "/home/user/project/module_%llu.py",
                   (unsigned long long)(n / 50));
    return lw_lap_writer_string(m->writer, text, (size_t)len, &frame.file, err) &&
           lw_lap_writer_frame(m->writer, &frame, id, err);
}

/* Threads, functions and a tree of stacks; each new stack is a child of a recent one,
 * as in a program that goes deeper and comes back. */
static bool begin(struct maker *m, struct lw_error *err)
{
    uint32_t depths[STACKS] = { 0 };

    if (!lw_lap_writer_meta_u64(m->writer, "pid", 12345, err) ||
        !lw_lap_writer_meta(m->writer, "command", "make_run", err) ||
        !lw_lap_writer_meta(m->writer, "python", "3.11.7", err) ||
        !lw_lap_writer_meta_u64(m->writer, "start_ns", m->now_ns, err))
        return false;
    for (unsigned i = 0; i < THREADS; i++) {
        struct lw_thread thread = { .tid = 12345 + i, .start_ns = m->now_ns };
        const char *name = i ? "worker" : "MainThread";

        if (!lw_lap_writer_string(m->writer, name, strlen(name), &thread.name, err) ||
            !lw_lap_writer_thread(m->writer, &thread, &m->threads[i], err))
            return false;
    }
    for (uint64_t i = 0; i < m->functions; i++)
        if (!add_frame(m, i, &m->frames[i], err))
            return false;
    for (uint64_t i = 0; i < m->stack_count; i++) {
        uint64_t parent = i ? i - 1 - next_random(m) % (i < 8 ? i : 8) : 0;

        if (i && depths[parent] >= DEPTH)
            parent = 0;
        depths[i] = i ? depths[parent] + 1 : 1;
        if (!lw_lap_writer_push(m->writer, i ? m->stacks[parent] : LW_NO_STACK,
                                m->frames[next_random(m) % m->functions], &m->stacks[i],
                                err))
            return false;
    }
    return lw_lap_writer_flush(m->writer, err);
}

static bool make_samples(struct maker *m, uint64_t count, struct lw_error *err)
{
    uint64_t place[THREADS] = { 0 };

    for (uint64_t i = 0; i < count; i++) {
        unsigned thread = (unsigned)(i % THREADS);
        struct lw_sample sample = { .thread = m->threads[thread] };

        if (next_random(m) % 3 == 0) /* it moved since the last time */
            place[thread] = next_random(m) % m->stack_count;
        if (thread == 0)
            m->now_ns += 900000 + next_random(m) % 200000;
        sample.time_ns = m->now_ns + thread * 3000;
        sample.weight_ns = 1000000 + next_random(m) % 1000;
        sample.stack = m->stacks[place[thread]];
        sample.state = thread ? LW_STATE_WAIT : LW_STATE_CPU | LW_STATE_HAS_GIL;
        if (!lw_lap_writer_samples(m->writer, &sample, 1, err) ||
            (i % (THREADS * 50) == 0 && !lw_lap_writer_flush(m->writer, err)))
            return false;
    }
    return true;
}

static bool make_calls(struct maker *m, uint64_t count, struct lw_error *err)
{
    uint64_t flushed_ns = m->now_ns;

    for (uint64_t i = 0; i < count; i++) {
        struct lw_span span = { .start_ns = m->now_ns,
                                .duration_ns = 100 + next_random(m) % 4000,
                                .thread = m->threads[0],
                                .stack = m->stacks[next_random(m) % m->stack_count] };
        struct lw_call_row row = { span.thread, span.stack, 1, span.duration_ns };

        m->now_ns += span.duration_ns + 50;
        if (!lw_lap_writer_spans(m->writer, &span, 1, err) ||
            !lw_lap_writer_calls(m->writer, &row, 1, flushed_ns, m->now_ns, err))
            return false;
        if (i % BATCH == BATCH - 1) {
            if (!lw_lap_writer_flush(m->writer, err))
                return false;
            flushed_ns = m->now_ns;
        }
    }
    return true;
}

static bool make_deep(struct maker *m, uint64_t depth, struct lw_error *err)
{
    lw_stack_id stack = LW_NO_STACK;

    for (uint64_t i = 0; i < depth; i++) {
        struct lw_call_row row = { m->threads[0], 0, 1, 1000 };

        if (!lw_lap_writer_push(m->writer, stack, m->frames[0], &stack, err))
            return false;
        row.stack = stack;
        if (!lw_lap_writer_calls(m->writer, &row, 1, m->now_ns, m->now_ns + 1000, err))
            return false;
    }
    m->now_ns += 1000 * depth;
    return lw_lap_writer_flush(m->writer, err);
}

static bool make_frames(struct maker *m, uint64_t count, struct lw_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        struct lw_call_row row = { m->threads[0], 0, 1, 10 };
        lw_frame_id frame;

        if (!add_frame(m, FUNCTIONS + i, &frame, err) ||
            !lw_lap_writer_push(m->writer, LW_NO_STACK, frame, &row.stack, err) ||
            !lw_lap_writer_calls(m->writer, &row, 1, m->now_ns, m->now_ns + 10, err) ||
            (i % BATCH == BATCH - 1 && !lw_lap_writer_flush(m->writer, err)))
            return false;
        m->now_ns += 10;
    }
    return true;
}

static bool make_counter(struct maker *m, double value, struct lw_error *err)
{
    struct lw_counter_point point = { .time_ns = m->now_ns, .value = value };

    return lw_lap_writer_string(m->writer, "rss [bytes]", 11, &point.name, err) &&
           lw_lap_writer_counter(m->writer, &point, err);
}

static bool make_rounds(struct maker *m, uint64_t count, struct lw_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!make_samples(m, THREADS * 10, err))
            return false;
        for (unsigned n = 0; n < 30; n++) {
            struct lw_call_row row = { m->threads[0],
                                       m->stacks[next_random(m) % m->stack_count],
                                       1 + next_random(m) % 100,
                                       next_random(m) % 100000 };

            if (!lw_lap_writer_calls(m->writer, &row, 1, m->now_ns, m->now_ns, err))
                return false;
        }
        if (!lw_lap_writer_loss(m->writer, "ring full", "spans", i, err) ||
            !make_counter(m, (double)i, err) || !lw_lap_writer_flush(m->writer, err))
            return false;
    }
    return true;
}

/* A loader's batches of about 1 ms, each with an update; an epoch ends after a thousand. */
static bool make_steps(struct maker *m, uint64_t count, struct lw_error *err)
{
    static const char *const phases[] = { "data", "zero_grad", "forward",
                                          "loss", "backward",  "optimizer" };
    enum { PHASES = sizeof(phases) / sizeof(phases[0]), EPOCH = 1000 };
    lw_stack_id stacks[PHASES];

    for (size_t i = 0; count > 0 && i < PHASES; i++) {
        struct lw_frame frame = { .kind = LW_FRAME_PHASE };
        lw_frame_id id;

        if (!lw_lap_writer_string(m->writer, phases[i], strlen(phases[i]), &frame.name,
                                  err) ||
            !lw_lap_writer_frame(m->writer, &frame, &id, err) ||
            !lw_lap_writer_push(m->writer, LW_NO_STACK, id, &stacks[i], err))
            return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        size_t spans = i % EPOCH == EPOCH - 1 ? PHASES + 1 : PHASES;

        for (size_t p = 0; p < spans; p++) {
            struct lw_span span = { .start_ns = m->now_ns,
                                    .duration_ns = 50000 + next_random(m) % 200000,
                                    .thread = m->threads[0],
                                    .stack = stacks[p % PHASES] };

            if (!lw_lap_writer_spans(m->writer, &span, 1, err))
                return false;
            m->now_ns += span.duration_ns + 1000;
        }
        if (i % BATCH == BATCH - 1 && !lw_lap_writer_flush(m->writer, err))
            return false;
    }
    return true;
}

static bool make_rows(struct maker *m, const struct shape *shape, struct lw_error *err)
{
    return begin(m, err) && make_samples(m, shape->samples, err) &&
           make_calls(m, shape->calls, err) && make_deep(m, shape->deep, err) &&
           make_frames(m, shape->frames, err) && make_rounds(m, shape->rounds, err) &&
           make_steps(m, shape->steps, err) &&
           lw_lap_writer_meta_u64(m->writer, "end_ns", m->now_ns, err) &&
           lw_lap_writer_meta_u64(m->writer, "exit_code", 0, err);
}

static bool pack(const char *run_path, const char *path, struct lw_error *err)
{
    struct lw_run run;
    bool done = lw_run_open(&run, run_path, NULL, err) && lw_run_pack(&run, path, err);

    lw_run_close(&run);
    return done;
}

static bool make(const struct shape *shape, const char *path, struct lw_error *err)
{
    struct maker m = { .random = 88172645463325252ull, .now_ns = 1000000000 };
    struct lw_lap_writer_options options = { .segment_bytes = shape->segment_bytes };
    struct lw_run run;
    uint64_t bytes;
    bool done = lw_run_create(&run, path, NULL, "make_run", err);

    m.functions = shape->small ? FEW : FUNCTIONS;
    m.stack_count = shape->small ? FEW : STACKS;
    run.info.start_ns = m.now_ns;
    run.info.wall_start_ns = lw_clock_wall_ns();
    done = done && lw_run_info_set_command(&run.info, "make_run", err) &&
           lw_run_save(&run, err) &&
           (m.writer = lw_lap_writer_open(&run.folder, 1, &options, err)) &&
           make_rows(&m, shape, err);
    if (!lw_lap_writer_close(m.writer, done ? err : NULL))
        done = false;
    run.info.state = LW_RUN_FINISHED;
    run.info.exit_code = 0;
    run.info.end_ns = m.now_ns;
    done = done && lw_run_save(&run, err) &&
           (!shape->thin || lw_lap_thin(&run.folder, 1, &bytes, err)) &&
           (!shape->pack || pack(run.path, shape->pack, err));
    lw_run_close(&run);
    return done;
}

/* The field that an option with a number fills. */
static uint64_t *number_field(struct shape *shape, int letter)
{
    switch (letter) {
    case 's': return &shape->samples;
    case 'c': return &shape->calls;
    case 'd': return &shape->deep;
    case 'f': return &shape->frames;
    case 'r': return &shape->rounds;
    case 'e': return &shape->steps;
    case 'b': return &shape->segment_bytes;
    default: return NULL;
    }
}

int main(int argc, char **argv)
{
    const struct option options[] = {
        { "samples", required_argument, NULL, 's' },
        { "calls", required_argument, NULL, 'c' },
        { "deep", required_argument, NULL, 'd' },
        { "frames", required_argument, NULL, 'f' },
        { "rounds", required_argument, NULL, 'r' },
        { "steps", required_argument, NULL, 'e' },
        { "segment", required_argument, NULL, 'b' },
        { "pack", required_argument, NULL, 'p' },
        { "small", no_argument, NULL, 'm' },
        { "thin", no_argument, NULL, 't' },
        { NULL, 0, NULL, 0 },
    };
    struct lw_error err = { LW_OK, "" };
    struct shape shape = { 0 };
    bool usage = false;
    int letter;

    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint64_t *number = number_field(&shape, letter);

        if (letter == 'm')
            shape.small = true;
        else if (letter == 't')
            shape.thin = true;
        else if (letter == 'p')
            shape.pack = optarg;
        else if (!number || !lw_text_u64(optarg, strlen(optarg), number))
            usage = true;
    }
    if (usage || optind != argc - 1) {
        fprintf(stderr,
                "usage: make_run [--small] [--samples N] [--calls N] [--deep N] "
                "[--frames N] [--rounds N] [--steps N] [--segment BYTES] [--thin] "
                "[--pack FILE] OUT.lap\n");
        return 2;
    }
    if (make(&shape, argv[optind], &err))
        return 0;
    fprintf(stderr, "make_run: %s\n", err.text);
    return 1;
}
