/* What the tests of recordings share: a folder that goes away, a small recording with
 * one of everything, and a profile as text, so that two can be compared. */
#ifndef LW_LAP_FIXTURE_H
#define LW_LAP_FIXTURE_H

#include "held.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "lap/reader.h"
#include "lap/writer.h"

#define CHECK_DONE(call) \
    do { \
        struct lw_error fixture_err = { LW_OK, "" }; \
        bool fixture_done = call; \
        if (!fixture_done) \
            print_error("%s: %s\n", #call, fixture_err.text); \
        CHECK(fixture_done); \
    } while (0)
#define ERR (&fixture_err) /* inside CHECK_DONE */

/* A new empty folder; remove it with fixture_remove(). */
static inline char *fixture_folder(void)
{
    char *path = lw_copy_text("/tmp/lap-test-XXXXXX", 20, NULL);

    CHECK(path && mkdtemp(path));
    return path;
}

static inline void fixture_remove(char *folder)
{
    CHECK_DONE(lw_file_remove_folder(folder, ERR));
    lw_free(folder);
}

/* PATH/NAME, good until the next call. */
static inline const char *in_folder(const char *folder, const char *name)
{
    static char path[500];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

struct fixture_ids {
    lw_stack_id root, leaf;
    uint32_t main, worker;
};

static inline lw_stack_id fixture_push(struct lw_lap_writer *w, lw_stack_id parent,
                                       const char *name, uint32_t line)
{
    struct lw_frame frame = { .first_line = line, .kind = LW_FRAME_PYTHON };
    lw_frame_id id;
    lw_stack_id stack;

    CHECK_DONE(lw_lap_writer_string(w, name, strlen(name), &frame.name, ERR));
    CHECK_DONE(lw_lap_writer_string(w, "train.py", 8, &frame.file, ERR));
    CHECK_DONE(lw_lap_writer_frame(w, &frame, &id, ERR));
    CHECK_DONE(lw_lap_writer_push(w, parent, id, &stack, ERR));
    return stack;
}

static inline uint32_t fixture_thread(struct lw_lap_writer *w, const char *name,
                                      uint64_t tid)
{
    struct lw_thread thread = { .tid = tid, .start_ns = 1000 + tid };
    uint32_t number;

    CHECK_DONE(lw_lap_writer_string(w, name, strlen(name), &thread.name, ERR));
    CHECK_DONE(lw_lap_writer_thread(w, &thread, &number, ERR));
    return number;
}

/* Process, threads and two stacks. */
static inline struct fixture_ids fixture_begin(struct lw_lap_writer *w)
{
    struct fixture_ids ids;

    CHECK_DONE(lw_lap_writer_meta_u64(w, "pid", 4711, ERR));
    CHECK_DONE(lw_lap_writer_meta(w, "command", "train.py --epochs 3", ERR));
    CHECK_DONE(lw_lap_writer_meta(w, "python", "3.11.7", ERR));
    CHECK_DONE(lw_lap_writer_meta_u64(w, "start_ns", 1000, ERR));
    ids.main = fixture_thread(w, "MainThread", 4711);
    ids.worker = fixture_thread(w, "worker", 4712);
    ids.root = fixture_push(w, LW_NO_STACK, "main", 1);
    ids.leaf = fixture_push(w, ids.root, "forward", 10);
    return ids;
}

/* One of everything, ROUND making it a little different each time. */
static inline void fixture_round(struct lw_lap_writer *w, struct fixture_ids ids,
                                 uint64_t round)
{
    uint64_t now = 1000000 + round * 50000000;
    struct lw_call_row calls[] = { { ids.main, ids.root, 1, 100 + round },
                                   { ids.main, ids.leaf, 5, 7000 },
                                   { ids.worker, ids.leaf, 2, 300 } };
    struct lw_sample samples[] = {
        { now, 1000000, ids.main, ids.leaf, LW_STATE_CPU | LW_STATE_HAS_GIL, 1 },
        { now + 999000, 1000100, ids.worker, ids.root, LW_STATE_WAIT, 1 },
    };
    struct lw_span spans[] = { { now + 50, 40, ids.main, ids.leaf },
                               { now, 100 + round, ids.main, ids.root } };
    struct lw_counter_point point = { .time_ns = now, .value = 0.1 * (double)round };

    CHECK_DONE(lw_lap_writer_calls(w, calls, 3, now, now + 50000000, ERR));
    CHECK_DONE(lw_lap_writer_samples(w, samples, 2, ERR));
    CHECK_DONE(lw_lap_writer_spans(w, spans, 2, ERR));
    CHECK_DONE(lw_lap_writer_string(w, "rss [bytes]", 11, &point.name, ERR));
    CHECK_DONE(lw_lap_writer_counter(w, &point, ERR));
    CHECK_DONE(lw_lap_writer_loss(w, "ring full", "spans", 3, ERR));
}

/* ROUNDS flushes into FOLDER, as process NUMBER. */
static inline void fixture_write(const char *folder, uint32_t number, uint64_t rounds,
                                 const struct lw_lap_writer_options *options)
{
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), number, options, NULL);
    struct fixture_ids ids;

    CHECK(w);
    ids = fixture_begin(w);
    for (uint64_t i = 0; i < rounds; i++) {
        fixture_round(w, ids, i);
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
    }
    CHECK_DONE(lw_lap_writer_meta_u64(w, "exit_code", 0, ERR));
    CHECK_DONE(lw_lap_writer_close(w, ERR));
}

static inline struct lw_profile *fixture_load(const char *folder, unsigned want)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile = lw_lap_load(folder, want, &err);

    if (!profile)
        print_error("%s\n", err.text);
    CHECK(profile);
    return profile;
}

/* A profile as text, without facts, which differ from run to run. Frees the profile. */
static inline void dump_stack(struct lw_buf *out, const struct lw_profile *p,
                              lw_stack_id stack)
{
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(p->stacks, &count);

    for (; stack; stack = stacks[stack].parent) {
        const struct lw_frame *frame = lw_profile_frame(p, stacks[stack].frame);

        lw_buf_addf(out, " %s:%u", lw_profile_text(p, frame->name), frame->first_line);
    }
    lw_buf_add_char(out, '\n');
}

typedef unsigned long long ull;

static inline char *fixture_dump(struct lw_profile *p)
{
    struct lw_buf out = { 0 };

    for (size_t i = 0; i < p->process_count; i++)
        lw_buf_addf(&out, "process %llu %s %s exit %d\n", (ull)p->processes[i].pid,
                    lw_profile_text(p, p->processes[i].command),
                    lw_profile_text(p, p->processes[i].python),
                    p->processes[i].exit_code);
    for (size_t i = 0; i < p->thread_count; i++)
        lw_buf_addf(&out, "thread %llu %s of %u\n", (ull)p->threads[i].tid,
                    lw_profile_text(p, p->threads[i].name), p->threads[i].process);
    for (size_t i = 0; i < p->call_count; i++) {
        lw_buf_addf(&out, "calls %u: %llu %llu", p->calls[i].thread,
                    (ull)p->calls[i].calls, (ull)p->calls[i].self_ns);
        dump_stack(&out, p, p->calls[i].stack);
    }
    for (size_t i = 0; i < p->sample_count; i++) {
        lw_buf_addf(&out, "sample %u: %llu %llu %u", p->samples[i].thread,
                    (ull)p->samples[i].time_ns, (ull)p->samples[i].weight_ns,
                    p->samples[i].state);
        dump_stack(&out, p, p->samples[i].stack);
    }
    for (size_t i = 0; i < p->span_count; i++) {
        lw_buf_addf(&out, "span %u: %llu %llu", p->spans[i].thread,
                    (ull)p->spans[i].start_ns, (ull)p->spans[i].duration_ns);
        dump_stack(&out, p, p->spans[i].stack);
    }
    for (size_t i = 0; i < p->counter_count; i++)
        lw_buf_addf(&out, "%s %llu %g\n", lw_profile_text(p, p->counters[i].name),
                    (ull)p->counters[i].time_ns, p->counters[i].value);
    for (size_t i = 0; i < p->loss_count; i++)
        lw_buf_addf(&out, "loss %s: %llu %s\n", lw_profile_text(p, p->losses[i].cause),
                    (ull)p->losses[i].count, lw_profile_text(p, p->losses[i].unit));
    lw_buf_add(&out, "", 0);
    CHECK(!out.failure);
    lw_profile_free(p);
    return out.bytes;
}

/* The count of losses of UNIT whose cause holds CAUSE. */
static inline uint64_t fixture_loss(const struct lw_profile *p, const char *cause,
                                    const char *unit)
{
    uint64_t count = 0;

    for (size_t i = 0; i < p->loss_count; i++)
        if (strstr(lw_profile_text(p, p->losses[i].cause), cause) &&
            strcmp(lw_profile_text(p, p->losses[i].unit), unit) == 0)
            count += p->losses[i].count;
    return count;
}

#endif
