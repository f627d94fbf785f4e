#include "analyses/trace_steps.h"
#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

#define US 1000ull

/* A rank with one thread and one stream. */
struct job {
    struct lw_builder *builder;
    struct lw_trace *trace;
    uint64_t correlation;
};

enum { HOST, STREAM };

static struct job make_job(void)
{
    struct job job = { .builder = lw_builder_new(NULL) };
    struct lw_trace_rank rank = { .rank = 0, .world_size = 1 };
    struct lw_track tracks[] = { { .device = -1 }, { .is_device = true } };

    CHECK(job.builder != NULL);
    job.trace = lw_builder_trace(job.builder, NULL);
    CHECK(job.trace != NULL);
    CHECK(lw_grow(&job.trace->ranks, &job.trace->rank_capacity, 1, sizeof(rank), NULL));
    job.trace->ranks[job.trace->rank_count++] = rank;
    CHECK(lw_grow(&job.trace->tracks, &job.trace->track_capacity, 2, sizeof(tracks[0]),
                  NULL));
    memcpy(job.trace->tracks, tracks, sizeof(tracks));
    job.trace->track_count = 2;
    return job;
}

static lw_string_id text_id(struct job *job, const char *text)
{
    lw_string_id id = 0;

    CHECK(lw_builder_string(job->builder, text, strlen(text), &id, NULL));
    return id;
}

static struct lw_event *add_event(struct job *job, uint32_t track,
                                  enum lw_event_kind kind, const char *category,
                                  const char *name, uint64_t start_us, uint64_t end_us)
{
    struct lw_trace *t = job->trace;
    struct lw_event event = { .start_ns = start_us * US,
                              .duration_ns = (end_us - start_us) * US,
                              .track = track,
                              .name = text_id(job, name),
                              .category = text_id(job, category),
                              .parent = LW_NONE,
                              .detail = LW_NONE,
                              .kind = (uint8_t)kind };

    CHECK(lw_grow(&t->events, &t->event_capacity, t->event_count + 1, sizeof(event),
                  NULL));
    t->events[t->event_count] = event;
    return &t->events[t->event_count++];
}

static void add_step(struct job *job, const char *name, uint64_t start_us,
                     uint64_t end_us)
{
    add_event(job, HOST, LW_EVENT_RANGE, "user_annotation", name, start_us, end_us);
}

/* A kernel, and the call of 10 us that launched it. */
static void add_kernel(struct job *job, uint64_t launch_us, uint64_t start_us,
                       uint64_t end_us)
{
    uint64_t correlation = ++job->correlation;

    add_event(job, HOST, LW_EVENT_RUNTIME, "cuda_runtime", "cudaLaunchKernel",
              launch_us, launch_us + 10)
        ->correlation = correlation;
    add_event(job, STREAM, LW_EVENT_KERNEL, "kernel", "k", start_us, end_us)
        ->correlation = correlation;
}

static struct lw_profile *finish(struct job *job)
{
    struct lw_profile *profile = lw_builder_finish(job->builder, NULL);

    CHECK(profile != NULL);
    return profile;
}

static struct lw_trace_steps steps_of(const struct lw_profile *profile,
                                      enum lw_compat compat)
{
    struct lw_trace_steps steps;

    CHECK(lw_trace_steps_init(&steps, profile, 0, compat, NULL));
    return steps;
}

TEST(a_step_ends_with_what_it_launched_and_the_next_begins_there)
{
    struct job job = make_job();
    struct lw_trace_steps steps;
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#5", 100, 200);
    add_step(&job, "ProfilerStep#6", 200, 300);
    add_kernel(&job, 120, 150, 260);
    add_kernel(&job, 220, 260, 290);
    profile = finish(&job);
    steps = steps_of(profile, LW_COMPAT_NONE);
    CHECK(steps.is_marked);
    CHECK_EQ(steps.count, 2);
    CHECK_EQ(steps.left_out, 0);
    CHECK_EQ(steps.list[0].number, 5);
    CHECK_EQ(steps.list[0].start_ns, 100 * US);
    CHECK_EQ(steps.list[0].end_ns, 260 * US);
    CHECK_EQ(steps.list[0].work_count, 1);
    CHECK_EQ(steps.list[1].start_ns, 260 * US);
    CHECK_EQ(steps.list[1].end_ns, 300 * US);
    CHECK_EQ(steps.list[1].host_start_ns, 200 * US);
    lw_trace_steps_release(&steps);
    lw_profile_free(profile);
}

TEST(a_first_step_begins_when_the_work_from_before_it_is_done)
{
    struct job job = make_job();
    struct lw_trace_steps steps;
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#1", 100, 400);
    add_kernel(&job, 20, 50, 180); /* of no step */
    add_kernel(&job, 120, 200, 300);
    add_kernel(&job, 50, 320, 330); /* likewise, but later than the step's first */
    profile = finish(&job);
    steps = steps_of(profile, LW_COMPAT_NONE);
    CHECK_EQ(steps.count, 1);
    CHECK_EQ(steps.list[0].start_ns, 180 * US);
    CHECK_EQ(steps.list[0].end_ns, 400 * US);
    lw_trace_steps_release(&steps);
    lw_profile_free(profile);
}

TEST(last_steps_whose_work_is_not_there_are_left_out)
{
    struct job job = make_job();
    struct lw_trace_steps steps;
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#1", 0, 100);
    add_step(&job, "ProfilerStep#2", 100, 200);
    add_step(&job, "ProfilerStep#3", 200, 300); /* launches two of five */
    add_step(&job, "ProfilerStep#4", 300, 400); /* and this one nothing */
    for (uint64_t i = 0; i < 5; i++) {
        add_kernel(&job, i * 10, 50 + i, 51 + i);
        add_kernel(&job, 100 + i * 10, 150 + i, 151 + i);
    }
    add_kernel(&job, 210, 250, 251);
    add_kernel(&job, 220, 252, 253);
    profile = finish(&job);
    steps = steps_of(profile, LW_COMPAT_NONE);
    CHECK_EQ(steps.count, 2);
    CHECK_EQ(steps.left_out, 2);
    CHECK_EQ(steps.list[3].number, 4);
    lw_trace_steps_release(&steps);
    lw_profile_free(profile);
}

TEST(steps_that_launch_nothing_stay_where_the_host_had_them)
{
    struct job job = make_job();
    struct lw_trace_steps steps;
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#2", 110, 200);
    add_step(&job, "ProfilerStep#1", 0, 100);
    profile = finish(&job);
    steps = steps_of(profile, LW_COMPAT_NONE);
    CHECK_EQ(steps.count, 2);
    CHECK_EQ(steps.list[0].number, 1);
    CHECK_EQ(steps.list[0].end_ns, 100 * US);
    CHECK_EQ(steps.list[1].start_ns, 110 * US);
    CHECK(lw_trace_steps_at(&steps, 50 * US) == &steps.list[0]);
    CHECK(lw_trace_steps_at(&steps, 105 * US) == NULL);
    CHECK(lw_trace_steps_at(&steps, 110 * US) == &steps.list[1]);
    CHECK(lw_trace_steps_at(&steps, 200 * US) == NULL);
    lw_trace_steps_release(&steps);
    lw_profile_free(profile);
}

TEST(a_trace_without_steps_is_one)
{
    struct job job = make_job();
    struct lw_trace_steps steps;
    struct lw_profile *profile;

    add_event(&job, HOST, LW_EVENT_OP, "cpu_op", "aten::mm", 10, 60);
    add_kernel(&job, 20, 50, 90);
    add_event(&job, HOST, LW_EVENT_OTHER, "Trace", "PyTorch Profiler (0)", 0, 1000);
    profile = finish(&job);
    steps = steps_of(profile, LW_COMPAT_NONE);
    CHECK(!steps.is_marked);
    CHECK_EQ(steps.count, 1);
    CHECK_EQ(steps.list[0].number, -1);
    CHECK_EQ(steps.list[0].start_ns, 10 * US);
    CHECK_EQ(steps.list[0].end_ns, 90 * US);
    lw_trace_steps_release(&steps);
    lw_profile_free(profile);
}

TEST(the_plugin_wants_the_whole_call_in_the_step_and_knows_no_driver)
{
    struct job job = make_job();
    struct lw_trace_steps own, tb;
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#1", 0, 100);
    add_kernel(&job, 20, 50, 90);
    add_kernel(&job, 95, 110, 150); /* the call ends after the step */
    add_event(&job, HOST, LW_EVENT_RUNTIME, "cuda_driver", "cuLaunchKernel", 60, 65)
        ->correlation = 100;
    add_event(&job, STREAM, LW_EVENT_KERNEL, "kernel", "k", 160, 170)->correlation =
        100;
    profile = finish(&job);
    own = steps_of(profile, LW_COMPAT_NONE);
    tb = steps_of(profile, LW_COMPAT_TB);
    CHECK_EQ(own.list[0].work_count, 3);
    CHECK_EQ(own.list[0].end_ns, 170 * US);
    CHECK_EQ(tb.list[0].work_count, 1);
    CHECK_EQ(tb.list[0].end_ns, 100 * US);
    lw_trace_steps_release(&own);
    lw_trace_steps_release(&tb);
    lw_profile_free(profile);
}

TEST(the_plugin_takes_a_step_that_the_device_saw_for_another)
{
    struct job job = make_job();
    struct lw_trace_steps own, tb;
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#1", 0, 100);
    add_kernel(&job, 20, 50, 120);
    add_event(&job, STREAM, LW_EVENT_DEVICE_RANGE, "gpu_user_annotation",
              "ProfilerStep#1", 50, 120);
    profile = finish(&job);
    own = steps_of(profile, LW_COMPAT_NONE);
    tb = steps_of(profile, LW_COMPAT_TB);
    CHECK_EQ(own.count, 1);
    CHECK_EQ(tb.count + tb.left_out, 2);
    lw_trace_steps_release(&own);
    lw_trace_steps_release(&tb);
    lw_profile_free(profile);
}

TEST(running_out_of_memory_is_told)
{
    struct job job = make_job();
    struct lw_profile *profile;

    add_step(&job, "ProfilerStep#1", 0, 100);
    add_kernel(&job, 20, 50, 120);
    profile = finish(&job);
    for (int compat = LW_COMPAT_NONE; compat <= LW_COMPAT_TB; compat++)
        for (uint64_t n = 1;; n++) {
            struct lw_error err = { LW_OK, "" };
            struct lw_trace_steps steps;
            bool done;

            lw_alloc_fail_in(n);
            done =
                lw_trace_steps_init(&steps, profile, 0, (enum lw_compat)compat, &err);
            lw_alloc_fail_in(0);
            lw_trace_steps_release(&steps);
            if (done)
                break;
            CHECK_EQ(err.code, LW_ERR_NOMEM);
        }
    lw_profile_free(profile);
}
