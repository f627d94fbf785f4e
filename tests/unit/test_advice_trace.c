/* What the host did while a GPU waited for it (analyses/late_host.h), of traces drawn by
 * hand; and the words of a finding. Times are in us. */

#include "analyses/late_host.h"
#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

#define US 1000ull

/* Tracks of the trace. */
enum { MAIN, AUTOGRAD, DEVICE, TRACKS };

struct drawing {
    struct lw_builder *builder;
    struct lw_trace *trace;
    struct lw_profile *profile;
    struct lw_query query;
    struct lw_advice advice;
    struct lw_advice_trace steps;
    struct lw_late_host late;
};

static void begin(struct drawing *d)
{
    struct lw_trace_rank rank = { .rank = -1, .world_size = -1 };

    memset(d, 0, sizeof(*d));
    d->builder = lw_builder_new(NULL);
    d->trace = lw_builder_trace(d->builder, NULL);
    CHECK(d->trace != NULL);
    CHECK(lw_grow(&d->trace->ranks, &d->trace->rank_capacity, 1, sizeof(rank), NULL));
    d->trace->ranks[d->trace->rank_count++] = rank;
    CHECK(lw_grow(&d->trace->tracks, &d->trace->track_capacity, TRACKS,
                  sizeof(*d->trace->tracks), NULL));
    for (int i = 0; i < TRACKS; i++)
        d->trace->tracks[d->trace->track_count++] = (struct lw_track){
            .is_device = i == DEVICE, .device = i == DEVICE ? 0 : -1, .number = i
        };
}

static void add(struct drawing *d, uint32_t track, enum lw_event_kind kind,
                const char *name, uint64_t start, uint64_t end, uint64_t correlation)
{
    struct lw_event event = { .start_ns = start * US,
                              .duration_ns = (end - start) * US,
                              .correlation = correlation,
                              .track = track,
                              .parent = LW_NONE,
                              .detail = LW_NONE,
                              .kind = (uint8_t)kind };

    CHECK(lw_builder_string(d->builder, name, strlen(name), &event.name, NULL));
    CHECK(lw_grow(&d->trace->events, &d->trace->event_capacity,
                  d->trace->event_count + 1, sizeof(event), NULL));
    d->trace->events[d->trace->event_count++] = event;
}

/* A launch of 10 us on TRACK, and what it launched. */
static void launch(struct drawing *d, uint32_t track, uint64_t at, uint64_t start,
                   uint64_t end)
{
    uint64_t correlation = d->trace->event_count + 1;

    add(d, track, LW_EVENT_RUNTIME, "cudaLaunchKernel", at, at + 10, correlation);
    add(d, DEVICE, LW_EVENT_KERNEL, "kernel", start, end, correlation);
}

static void step(struct drawing *d, uint64_t start, uint64_t end)
{
    add(d, MAIN, LW_EVENT_RANGE, "ProfilerStep#1", start, end, 0);
}

static void op(struct drawing *d, uint32_t track, uint64_t start, uint64_t end)
{
    add(d, track, LW_EVENT_OP, "aten::cat", start, end, 0);
}

/* What is found must be released by end(), if anything was. */
static bool find(struct drawing *d, struct lw_error *err)
{
    bool done = lw_advice_trace_init(&d->steps, &d->advice, err) &&
                lw_late_host_init(&d->late, &d->steps, err);

    if (!done) {
        lw_late_host_release(&d->late);
        lw_advice_trace_release(&d->steps);
    }
    return done;
}

static void finish(struct drawing *d)
{
    d->profile = lw_builder_finish(d->builder, NULL);
    CHECK(d->profile != NULL);
    lw_query_init(&d->query);
    d->advice = (struct lw_advice){ .profile = d->profile,
                                    .query = &d->query,
                                    .trace = d->profile->trace };
}

static uint64_t us_of(const struct drawing *d, enum lw_late_cause cause)
{
    return d->late.ns[cause] / US;
}

static uint64_t us_of_all(const struct drawing *d)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < LW_LATE_CAUSES; i++)
        all += us_of(d, (enum lw_late_cause)i);
    return all;
}

static void end(struct drawing *d)
{
    lw_late_host_release(&d->late);
    lw_advice_trace_release(&d->steps);
    lw_query_release(&d->query);
    lw_profile_free(d->profile);
}

/* The GPU waits from 100 to 280: for a batch until 200, for nothing that the trace shows
 * until 250, then for an op. */
static void draw_a_loader(struct drawing *d)
{
    begin(d);
    step(d, 0, 400);
    launch(d, MAIN, 5, 20, 100);
    add(d, MAIN, LW_EVENT_RANGE, "enumerate(DataLoader)#_Iter.__next__", 90, 200, 0);
    op(d, MAIN, 120, 180);
    op(d, MAIN, 250, 300);
    launch(d, MAIN, 260, 280, 290);
    finish(d);
}

TEST(each_moment_of_a_gap_belongs_to_what_the_host_was_in)
{
    struct drawing d;

    draw_a_loader(&d);
    CHECK(find(&d, NULL));
    CHECK_EQ(us_of(&d, LW_LATE_LOADER), 100);
    CHECK_EQ(us_of(&d, LW_LATE_PYTHON), 50);
    CHECK_EQ(us_of(&d, LW_LATE_OPS), 30);
    CHECK_EQ(us_of_all(&d), 180);
    end(&d);
}

TEST(where_one_thread_shows_nothing_the_other_is_asked)
{
    struct drawing d;

    begin(&d);
    step(&d, 0, 400);
    launch(&d, MAIN, 5, 20, 100);
    op(&d, MAIN, 110, 200); /* autograd's thread is not at work yet */
    op(&d, AUTOGRAD, 250, 290);
    launch(&d, AUTOGRAD, 280, 300, 310);
    finish(&d);
    CHECK(find(&d, NULL));
    CHECK_EQ(us_of(&d, LW_LATE_OPS), 90 + 50);
    CHECK_EQ(us_of(&d, LW_LATE_PYTHON), 10 + 50);
    CHECK_EQ(us_of_all(&d), 200);
    end(&d);
}

TEST(what_lies_outside_of_steps_does_not_count)
{
    struct drawing d;

    begin(&d);
    launch(&d, MAIN, 5, 20, 100);
    launch(&d, MAIN, 300, 320, 330); /* 220 us of waiting before the step */
    step(&d, 310, 600);
    launch(&d, MAIN, 400, 420, 500);
    finish(&d);
    CHECK(find(&d, NULL));
    CHECK_EQ(us_of_all(&d), 420 - 330);
    end(&d);
}

TEST(one_long_op_is_not_many_small_ones)
{
    struct drawing d;

    begin(&d);
    step(&d, 0, 2000);
    launch(&d, MAIN, 5, 20, 600);
    op(&d, MAIN, 40, 700); /* most of it before the gap */
    op(&d, MAIN, 700, 720);
    launch(&d, MAIN, 705, 720, 730);
    finish(&d);
    CHECK(find(&d, NULL));
    CHECK_EQ(us_of(&d, LW_LATE_LONG), 100);
    CHECK_EQ(us_of(&d, LW_LATE_OPS), 20);
    end(&d);
}

TEST(calls_for_memory_and_waits_are_told_from_launches)
{
    struct drawing d;

    begin(&d);
    step(&d, 0, 400);
    launch(&d, MAIN, 5, 20, 100);
    add(&d, MAIN, LW_EVENT_RUNTIME, "cudaDeviceSynchronize", 50, 110, 0);
    op(&d, MAIN, 110, 200);
    add(&d, MAIN, LW_EVENT_RUNTIME, "cudaMalloc", 120, 180, 0);
    launch(&d, MAIN, 185, 200, 300);
    finish(&d);
    CHECK(find(&d, NULL));
    CHECK_EQ(us_of(&d, LW_LATE_WAIT), 10);
    CHECK_EQ(us_of(&d, LW_LATE_MEMORY), 60);
    CHECK_EQ(us_of(&d, LW_LATE_OPS), 30);
    end(&d);
}

TEST(work_that_was_launched_in_time_is_nobodys_fault)
{
    struct drawing d;

    begin(&d);
    step(&d, 0, 400);
    launch(&d, MAIN, 5, 20, 100);
    launch(&d, MAIN, 30, 150, 200); /* in the queue when the gap began */
    finish(&d);
    CHECK(find(&d, NULL));
    CHECK_EQ(us_of_all(&d), 0);
    end(&d);
}

TEST(a_place_is_a_file_and_a_line)
{
    struct lw_advice advice = { 0 };
    struct lw_advice_words words;
    const char *texts[] = { "train.py(30): log", "nn.Module: Net_0", "f(x): g", "" };

    lw_arena_init(&advice.arena);
    lw_advice_words_init(&words, NULL);
    for (size_t i = 4; i-- > 0;) /* the one that is a place last */
        CHECK(lw_advice_words_place(&words, &advice, texts[i], strlen(texts[i]), NULL));
    CHECK_STR(words.finding.file, "train.py");
    CHECK_EQ(words.finding.line, 30);
    lw_advice_words_release(&words);
    lw_arena_release(&advice.arena);
}

TEST(running_out_of_memory_is_told)
{
    struct drawing d;
    bool done = false;

    draw_a_loader(&d);
    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };

        lw_alloc_fail_in(n);
        done = find(&d, &err);
        lw_alloc_fail_in(0);
        if (!done)
            CHECK_EQ(err.code, LW_ERR_NOMEM);
    }
    CHECK_EQ(us_of_all(&d), 180);
    end(&d);
}
