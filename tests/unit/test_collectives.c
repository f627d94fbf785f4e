#include "analyses/clocks.h"
#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

#define US 1000ull

/* A job whose ranks have one thread and one stream each. */
struct job {
    struct lw_builder *builder;
    struct lw_trace *trace;
    uint64_t correlation;
};

static struct job make_job(void)
{
    struct job job = { .builder = lw_builder_new(NULL) };

    CHECK(job.builder != NULL);
    job.trace = lw_builder_trace(job.builder, NULL);
    CHECK(job.trace != NULL);
    return job;
}

static lw_string_id text_id(struct job *job, const char *text)
{
    lw_string_id id = 0;

    CHECK(lw_builder_string(job->builder, text, strlen(text), &id, NULL));
    return id;
}

static uint32_t add_track(struct job *job, uint32_t rank, bool is_device)
{
    struct lw_track track = { .rank = rank, .is_device = is_device, .device = -1 };
    struct lw_trace *t = job->trace;

    CHECK(lw_grow(&t->tracks, &t->track_capacity, t->track_count + 1, sizeof(track),
                  NULL));
    t->tracks[t->track_count] = track;
    return (uint32_t)t->track_count++;
}

/* Its thread is track 2 * rank, its stream the next. */
static uint32_t add_rank(struct job *job, int64_t world_size)
{
    struct lw_trace *t = job->trace;
    uint32_t index = (uint32_t)t->rank_count;
    struct lw_trace_rank rank = { .rank = index, .world_size = world_size };

    CHECK(lw_grow(&t->ranks, &t->rank_capacity, t->rank_count + 1, sizeof(rank), NULL));
    t->ranks[t->rank_count++] = rank;
    CHECK_EQ(add_track(job, index, false), 2 * index);
    CHECK_EQ(add_track(job, index, true), 2 * index + 1);
    return index;
}

static struct lw_event *add_event(struct job *job, uint32_t track,
                                  enum lw_event_kind kind, const char *name,
                                  uint64_t start_ns, uint64_t duration_ns)
{
    struct lw_trace *t = job->trace;
    struct lw_event event = { .start_ns = start_ns,
                              .duration_ns = duration_ns,
                              .track = track,
                              .name = text_id(job, name),
                              .parent = LW_NONE,
                              .detail = LW_NONE,
                              .kind = (uint8_t)kind };

    CHECK(lw_grow(&t->events, &t->event_capacity, t->event_count + 1, sizeof(event),
                  NULL));
    t->events[t->event_count] = event;
    return &t->events[t->event_count++];
}

static void add_step(struct job *job, uint32_t rank, const char *name,
                     uint64_t start_us, uint64_t end_us)
{
    add_event(job, 2 * rank, LW_EVENT_RANGE, name, start_us * US,
              (end_us - start_us) * US);
}

/* A kernel that was launched LAUNCH_US on the host, within RANGE (NULL: in none). */
static struct lw_event *add_kernel(struct job *job, uint32_t rank, const char *range,
                                   uint64_t launch_us, uint64_t start_us,
                                   uint64_t end_us, const char *name)
{
    uint64_t correlation = ++job->correlation;
    struct lw_event *event;

    if (range)
        add_event(job, 2 * rank, LW_EVENT_RANGE, range, launch_us * US, 5 * US);
    add_event(job, 2 * rank, LW_EVENT_RUNTIME, "cudaLaunchKernel", (launch_us + 1) * US,
              US)
        ->correlation = correlation;
    event = add_event(job, 2 * rank + 1, LW_EVENT_KERNEL, name, start_us * US,
                      (end_us - start_us) * US);
    event->correlation = correlation;
    return event;
}

/* Have EVENT, a kernel, carry a collective of GROUP. */
static void tell(struct job *job, struct lw_event *event, const char *name,
                 const char *group, const char *ranks, int64_t size, int64_t elements)
{
    struct lw_trace *t = job->trace;
    struct lw_collective told = { .name = text_id(job, name),
                                  .dtype = text_id(job, "Float"),
                                  .group = text_id(job, group),
                                  .ranks = text_id(job, ranks),
                                  .in_count = elements,
                                  .out_count = elements,
                                  .group_size = size };
    struct lw_work_detail work = { .device = 0, .stream = 7, .bytes = -1 };

    work.collective = (uint32_t)t->collective_count;
    event->detail = (uint32_t)t->work_count;
    CHECK(lw_grow(&t->collectives, &t->collective_capacity, t->collective_count + 1,
                  sizeof(told), NULL));
    t->collectives[t->collective_count++] = told;
    CHECK(lw_grow(&t->works, &t->work_capacity, t->work_count + 1, sizeof(work), NULL));
    t->works[t->work_count++] = work;
}

static struct lw_profile *finish(struct job *job)
{
    struct lw_profile *profile = lw_builder_finish(job->builder, NULL);

    CHECK(profile != NULL);
    return profile;
}

#define ALL_REDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"

TEST(one_kind_has_many_names)
{
    CHECK_EQ(lw_collective_kind_of("allreduce"), LW_COLLECTIVE_ALL_REDUCE);
    CHECK_EQ(lw_collective_kind_of("nccl:all_reduce"), LW_COLLECTIVE_ALL_REDUCE);
    CHECK_EQ(lw_collective_kind_of(ALL_REDUCE), LW_COLLECTIVE_ALL_REDUCE);
    CHECK_EQ(lw_collective_kind_of("_allgather_base"), LW_COLLECTIVE_ALL_GATHER);
    CHECK_EQ(lw_collective_kind_of("nccl:_all_gather_base"), LW_COLLECTIVE_ALL_GATHER);
    CHECK_EQ(lw_collective_kind_of("_reduce_scatter_base"),
             LW_COLLECTIVE_REDUCE_SCATTER);
    CHECK_EQ(lw_collective_kind_of("all_to_allv"), LW_COLLECTIVE_ALL_TO_ALL);
    CHECK_EQ(lw_collective_kind_of("nccl:reduce"), LW_COLLECTIVE_REDUCE);
    CHECK_EQ(lw_collective_kind_of("nccl:send 0->1"), LW_COLLECTIVE_SEND_RECV);
    CHECK_EQ(lw_collective_kind_of("ncclDevKernel_Generic(ncclDevKernelArgsStorage)"),
             LW_COLLECTIVE_OTHER);
    CHECK_EQ(lw_collective_kind_of("f(allreduce)"), LW_COLLECTIVE_OTHER);
    CHECK_EQ(lw_collective_kind_of(""), LW_COLLECTIVE_OTHER);
}

TEST(a_send_and_a_receive_say_the_same_two_ranks)
{
    int64_t source = -1, sink = -1;

    CHECK(lw_collective_pair("nccl:send 3->0", &source, &sink));
    CHECK_EQ(source, 3);
    CHECK_EQ(sink, 0);
    CHECK(lw_collective_pair("nccl:recv 0<-3", &source, &sink));
    CHECK_EQ(source, 3);
    CHECK_EQ(sink, 0);
    CHECK(!lw_collective_pair("nccl:send", &source, &sink));
    CHECK(!lw_collective_pair("nccl:send 3-", &source, &sink));
    CHECK(!lw_collective_pair("nccl:send x->y", &source, &sink));
    CHECK(!lw_collective_pair("nccl:recv 0<3", &source, &sink));
}

TEST(bytes_are_those_of_tensors_whose_type_is_known)
{
    lw_element_bytes *size = lw_collective_element_bytes;

    CHECK_EQ(lw_collective_tensor_bytes("[[64,3],[]]", "[\"float\",\"\"]", size), 768);
    CHECK_EQ(
        lw_collective_tensor_bytes("[[2],[5]]", "[\"c10::Half\",\"long int\"]", size),
        44);
    CHECK_EQ(lw_collective_tensor_bytes("[[]]", "[\"double\"]", size), 8);
    CHECK_EQ(lw_collective_tensor_bytes("[[[2],[3,4]]]", "[\"float\"]", size), 56);
    CHECK_EQ(lw_collective_tensor_bytes("[[0]]", "[\"float\"]", size), 0);
    CHECK(lw_collective_tensor_bytes("[[64]]", "[\"Scalar\"]", size) == -1);
    CHECK(lw_collective_tensor_bytes("[[-1]]", "[\"float\"]", size) == -1);
    CHECK(lw_collective_tensor_bytes("", "", size) == -1);
    CHECK(lw_collective_tensor_bytes("[[64", "[\"float", size) == -1);
    CHECK(lw_collective_tensor_bytes("[[9223372036854775807,2]]", "[\"bool\"]", size) ==
          -1);
    CHECK(lw_collective_bytes(INT64_MAX, 2) == -1);
    CHECK_EQ(lw_collective_element_bytes("c10::Float8_e4m3fn", 18), 1);
}

TEST(what_the_last_to_come_takes_is_the_transfer_and_the_rest_is_waiting)
{
    struct job job = make_job();
    struct lw_collectives all;
    struct lw_profile *profile;
    const struct lw_collective_match *match;

    for (uint32_t i = 0; i < 3; i++) {
        struct lw_event *kernel;

        add_rank(&job, 3);
        kernel =
            add_kernel(&job, i, "nccl:all_reduce", 100, 200 + 100 * i, 500, ALL_REDUCE);
        tell(&job, kernel, "allreduce", "0", "[0, 1, 2]", 3, 250000);
    }
    profile = finish(&job);
    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.match_count, 1);
    match = &all.matches[0];
    CHECK_EQ(match->count, 3);
    CHECK_EQ(match->size, 3);
    CHECK_EQ(match->transfer_ns, 100 * US);
    CHECK_EQ(match->longest_ns, 300 * US);
    CHECK_EQ(match->wait_ns, 300 * US);
    CHECK_EQ(all.parts[match->last].rank, 2);
    CHECK_EQ(match->bytes, 1000000);
    CHECK(lw_collective_bandwidth(match) == 1e10);
    CHECK(lw_collective_bus_bandwidth(&all, match) > 1.333e10 &&
          lw_collective_bus_bandwidth(&all, match) < 1.334e10);
    CHECK_EQ(all.ungrouped_count, 0);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

/* Rank 0 saw one more before the first step, and rank 1 the end of step 2. */
TEST(collectives_are_counted_within_their_steps_and_back_from_the_first)
{
    struct job job = make_job();
    struct lw_collectives all;
    struct lw_profile *profile;
    size_t pairs = 0;

    for (uint32_t i = 0; i < 2; i++) {
        add_rank(&job, 2);
        add_step(&job, i, "ProfilerStep#1", 1000, 2000);
        add_step(&job, i, "ProfilerStep#2", 2000, 3000);
        if (i == 0)
            add_kernel(&job, i, "nccl:all_reduce", 100, 110, 120, ALL_REDUCE);
        add_kernel(&job, i, "nccl:all_reduce", 300, 310, 350 + i, ALL_REDUCE);
        add_kernel(&job, i, "nccl:all_reduce", 1100, 1110, 1200, ALL_REDUCE);
        add_kernel(&job, i, "nccl:all_reduce", 2100, 2110, 2200, ALL_REDUCE);
        if (i == 1)
            add_kernel(&job, i, "nccl:all_reduce", 2300, 2310, 2400, ALL_REDUCE);
    }
    profile = finish(&job);
    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.part_count, 8);
    CHECK_EQ(all.match_count, 5);
    for (size_t i = 0; i < all.match_count; i++) {
        const struct lw_collective_match *match = &all.matches[i];

        pairs += match->count == 2;
        if (match->count == 2)
            CHECK(match->wait_ns <= US); /* the right ones */
    }
    CHECK_EQ(pairs, 3);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

TEST(groups_of_one_name_are_told_apart_by_their_ranks)
{
    static const char *const groups[] = { "[0, 1]", "[0, 1]", "[2, 3]", "[2, 3]" };
    struct job job = make_job();
    struct lw_collectives all;
    struct lw_profile *profile;

    for (uint32_t i = 0; i < 4; i++) {
        add_rank(&job, 4);
        tell(&job, add_kernel(&job, i, NULL, 100, 200, 300, "ncclDevKernel_Generic"),
             "_allgather_base", "tp", groups[i], 2, 10);
    }
    profile = finish(&job);
    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.match_count, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(all.matches[i].count, 2);
        CHECK_EQ(all.matches[i].size, 2);
        CHECK_EQ(all.parts[all.matches[i].first].kind, LW_COLLECTIVE_ALL_GATHER);
    }
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

TEST(a_send_meets_the_receive_of_the_same_pair)
{
    struct job job = make_job();
    struct lw_collectives all;
    struct lw_profile *profile;
    const char *kernel = "ncclDevKernel_SendRecv(ncclDevComm*)";

    for (uint32_t i = 0; i < 3; i++)
        add_rank(&job, 3);
    add_kernel(&job, 0, "nccl:send 0->1", 100, 200, 300, kernel);
    add_kernel(&job, 1, "nccl:recv 1<-0", 100, 250, 300, kernel);
    add_kernel(&job, 1, "nccl:send 1->2", 400, 500, 600, kernel);
    add_kernel(&job, 2, "nccl:recv 2<-1", 100, 150, 600, kernel);
    profile = finish(&job);
    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.match_count, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(all.matches[i].count, 2);
        CHECK_EQ(all.matches[i].size, 2);
    }
    CHECK_EQ(all.matches[0].transfer_ns, 50 * US);
    CHECK_EQ(all.matches[1].transfer_ns, 100 * US);
    CHECK_EQ(all.matches[1].wait_ns, 350 * US);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

TEST(of_gloo_the_range_on_the_host_is_all_there_is)
{
    struct job job = make_job();
    struct lw_collectives all;
    struct lw_profile *profile;

    for (uint32_t i = 0; i < 2; i++) {
        add_rank(&job, 2);
        add_event(&job, 2 * i, LW_EVENT_RANGE, "gloo:all_reduce", 100 * US,
                  (50 + 50 * i) * US);
        add_event(&job, 2 * i, LW_EVENT_RANGE, "nccl:all_reduce", 300 * US, 5 * US);
    }
    profile = finish(&job);
    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.match_count, 1);
    CHECK_EQ(all.matches[0].transfer_ns, 50 * US);
    CHECK_EQ(all.matches[0].wait_ns, 50 * US);
    CHECK_EQ(all.ungrouped_count, 2);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

TEST(how_many_take_part_is_not_known_of_one_rank_that_does_not_say)
{
    struct job job = make_job();
    struct lw_collectives all;
    struct lw_profile *profile;

    add_rank(&job, -1);
    add_kernel(&job, 0, NULL, 100, 200, 300, ALL_REDUCE);
    profile = finish(&job);
    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.match_count, 1);
    CHECK_EQ(all.matches[0].size, 0);
    CHECK(lw_collective_bandwidth(&all.matches[0]) < 0);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

/* Clocks */

/* COUNT collectives of ranks 0 and 1 in a group of their own, and of 1 and 2: each rank's
 * clock is AHEAD_US, and its ends are JITTER_US apart by turns. */
static struct lw_profile *make_clocks(const uint64_t ahead_us[3], uint64_t jitter_us)
{
    struct job job = make_job();

    for (uint32_t i = 0; i < 3; i++)
        add_rank(&job, 3);
    for (uint32_t n = 0; n < 9; n++)
        for (uint32_t pair = 0; pair < 2; pair++)
            for (uint32_t i = pair; i < pair + 2; i++) {
                uint64_t at_us = 1000 * (n + 1) + 300 * pair + ahead_us[i];
                uint64_t end_us = at_us + 200 + (i ? jitter_us * (n % 3) : jitter_us);

                tell(&job,
                     add_kernel(&job, i, NULL, at_us - 50, at_us, end_us, ALL_REDUCE),
                     "allreduce", pair ? "1" : "0", pair ? "[1, 2]" : "[0, 1]", 2, 10);
            }
    return finish(&job);
}

TEST(clocks_that_are_apart_are_found_through_ranks_between)
{
    const uint64_t ahead_us[] = { 0, 5000, 7000 };
    struct lw_profile *profile = make_clocks(ahead_us, 2);
    struct lw_collectives all;
    struct lw_clock *clocks;

    CHECK(lw_collectives_init(&all, profile, NULL));
    CHECK_EQ(all.match_count, 18);
    clocks = lw_clocks_new(&all, NULL);
    CHECK(clocks != NULL);
    CHECK_EQ(clocks[0].offset_ns, 0);
    CHECK_EQ(clocks[0].count, 0);
    CHECK(clocks[1].offset_ns == -5000 * (int64_t)US);
    CHECK_EQ(clocks[1].spread_ns, 2 * US);
    CHECK_EQ(clocks[1].count, 9);
    CHECK(clocks[2].offset_ns == -7000 * (int64_t)US);
    CHECK(lw_clock_time(&clocks[2], 8000 * US) == (int64_t)(1000 * US));
    lw_free(clocks);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

TEST(ends_some_microseconds_apart_are_no_other_clock)
{
    const uint64_t ahead_us[] = { 0, 4, 0 };
    struct lw_profile *profile = make_clocks(ahead_us, 3);
    struct lw_collectives all;
    struct lw_clock *clocks;

    CHECK(lw_collectives_init(&all, profile, NULL));
    clocks = lw_clocks_new(&all, NULL);
    CHECK(clocks != NULL);
    CHECK(clocks[1].measured_ns == -4 * (int64_t)US);
    CHECK_EQ(clocks[1].offset_ns, 0);
    lw_free(clocks);
    lw_collectives_release(&all);
    lw_profile_free(profile);
}

TEST(memory_that_runs_out_is_said)
{
    const uint64_t ahead_us[] = { 0, 0, 0 };
    struct lw_profile *profile = make_clocks(ahead_us, 0);
    struct lw_collectives all;
    struct lw_error err = { 0 };
    bool done = false;

    for (uint64_t n = 1; !done; n++) {
        struct lw_clock *clocks = NULL;

        lw_alloc_fail_in(n);
        done = lw_collectives_init(&all, profile, &err);
        if (done)
            clocks = lw_clocks_new(&all, &err);
        done = clocks != NULL;
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        lw_free(clocks);
        lw_collectives_release(&all);
        CHECK(n < 1000);
    }
    lw_profile_free(profile);
}
