/* What the recorder makes of a region: counts, times, threads, spans, losses. */

#include <pthread.h>

#include "base/alloc.h"
#include "recorder_agent.h"

TEST(counts_and_times_of_each_path_arrive_exactly)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_call_row row;
    uint64_t now;

    agent_open(&agent, 0);
    uint32_t outer = agent_name(&agent, LW_NAME_PYTHON, "outer");
    uint32_t inner = agent_name(&agent, LW_NAME_C, "inner");
    recording_open(&recording, &agent);
    now = agent.main->slot->start_ticks;

    for (int look = 0; look < 3; look++) {
        for (int i = 0; i < 100; i++) {
            lw_calls_enter(agent.main, outer, now += 10);
            lw_calls_enter(agent.main, inner, now += 20);
            lw_calls_leave(agent.main, now += 30);
            lw_calls_leave(agent.main, now += 40);
        }
        CHECK(recording_read(&recording));
    }
    profile = recording_close(&recording, now);

    row = calls_at(profile, "outer");
    CHECK_EQ(row.calls, 300);
    CHECK_EQ(row.self_ns, 300 * (20 + 40));
    row = calls_at(profile, "outer;inner");
    CHECK_EQ(row.calls, 300);
    CHECK_EQ(row.self_ns, 300 * 30);
    CHECK_EQ(profile->call_count, 2);
    CHECK_EQ(profile->thread_count, 1);
    CHECK_EQ(profile->threads[0].tid, agent.main->slot->tid);
    CHECK_EQ(profile->loss_count, 0);
    CHECK_EQ(profile->processes[0].exit_code, 0);
    lw_profile_free(profile);
    agent_close(&agent);
}

/* Of a process that was recorded without its agent, as far as memory allows it. */
static void check_late_agent(uint64_t fails_in)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_watched_facts facts = {
        .pid = (uint64_t)getpid(), .parent_pid = 1, .rank = -1, .command = "before"
    };
    uint64_t before_ns = lw_clock_ns(), now;

    snprintf(recording.folder, sizeof(recording.folder), "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(recording.folder));
    lw_calibration_init(&recording.calibration);
    recording.watched =
        lw_watched_open(held(recording.folder), 1, -1, -1, &facts, NULL);
    CHECK(recording.watched);
    CHECK(recording_read(&recording));
    agent_open(&agent, LW_AGENT_C_CALLS);
    uint32_t f = agent_name(&agent, LW_NAME_PYTHON, "f");
    facts.command = "after";
    lw_alloc_fail_in(fails_in);
    if (!lw_watched_join(recording.watched, agent.region.fd, &facts, NULL)) {
        lw_alloc_fail_in(0);
        CHECK(!recording.watched->shared.bytes);
        CHECK(recording_read(&recording));
        CHECK(lw_watched_join(recording.watched, agent.region.fd, &facts, NULL));
    }
    lw_alloc_fail_in(0);
    now = agent.main->slot->start_ticks;
    lw_calls_enter(agent.main, f, now + 10);
    lw_calls_leave(agent.main, now + 30);
    CHECK(recording_read(&recording));
    profile = recording_close(&recording, now + 40);

    CHECK_EQ(profile->process_count, 1);
    CHECK_EQ(profile->processes[0].parent_pid, getppid());
    CHECK_STR(lw_profile_text(profile, profile->processes[0].command), "after");
    CHECK(profile->processes[0].start_ns >= before_ns);
    CHECK(profile->processes[0].start_ns < now);
    CHECK(profile->has_c_calls);
    CHECK_EQ(calls_at(profile, "f").calls, 1);
    CHECK_EQ(calls_at(profile, "f").self_ns, 20);
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(an_agent_that_comes_late_joins_the_process_that_is_recorded_already)
{
    for (uint64_t n = 0; n < 8; n++)
        check_late_agent(n);
}

TEST(frames_keep_file_line_kind_and_variant)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    const struct lw_frame *frame;
    const struct lw_stack *stacks;
    struct lw_agent_name head = { .number = 1,
                                  .first_line = 42,
                                  .kind = LW_NAME_C,
                                  .variant = 3,
                                  .file_len = 5,
                                  .name_len = 4 };

    agent_open(&agent, LW_AGENT_C_CALLS);
    CHECK(lw_region_add_name(&agent.region, &head, "m\0dul", "f\xff;x"));
    recording_open(&recording, &agent);
    lw_calls_enter(agent.main, 1, agent.main->slot->start_ticks + 5);
    profile = recording_close(&recording, 0);

    CHECK_EQ(profile->call_count, 1);
    CHECK(profile->has_c_calls);
    stacks = lw_stacks_list(profile->stacks, &(size_t){ 0 });
    frame = lw_profile_frame(profile, stacks[profile->calls[0].stack].frame);
    CHECK_EQ(lw_strings_len(profile->strings, frame->file), 5);
    CHECK_BYTES(lw_profile_text(profile, frame->file), "m\0dul", 5);
    CHECK_STR(lw_profile_text(profile, frame->name), "f\xff;x");
    CHECK_EQ(frame->first_line, 42);
    CHECK_EQ(frame->kind, LW_FRAME_C);
    CHECK_EQ(frame->variant, 3);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(a_call_that_still_runs_at_the_end_has_its_time)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_call_row row;
    uint64_t start;

    agent_open(&agent, 0);
    uint32_t sleep = agent_name(&agent, LW_NAME_PYTHON, "sleep");
    recording_open(&recording, &agent);
    start = agent.main->slot->start_ticks;
    lw_calls_enter(agent.main, sleep, start + 1000);
    profile = recording_close(&recording, start + 1000 + 10000000000);

    row = calls_at(profile, "sleep");
    CHECK_EQ(row.calls, 1);
    CHECK_EQ(row.self_ns, 10000000000);
    CHECK_EQ(profile->threads[0].end_ns, start + 1000 + 10000000000);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(time_told_of_a_running_call_is_not_told_again_when_it_returns)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    uint64_t start, end;

    agent_open(&agent, 0);
    uint32_t sleep = agent_name(&agent, LW_NAME_PYTHON, "sleep");
    recording_open(&recording, &agent);
    start = lw_clock_ns();
    lw_calls_enter(agent.main, sleep, start);
    for (int i = 0; i < 5; i++) {
        usleep(2000);
        CHECK(recording_read(&recording));
    }
    end = lw_clock_ns();
    lw_calls_leave(agent.main, end);
    CHECK(recording_read(&recording));
    /* Again, from the same node, so that what was told ahead could be missing here. */
    lw_calls_enter(agent.main, sleep, end + 100);
    lw_calls_leave(agent.main, end + 300);
    profile = recording_close(&recording, end + 300);

    CHECK_EQ(calls_at(profile, "sleep").calls, 2);
    CHECK_EQ(calls_at(profile, "sleep").self_ns, end - start + 200);
    lw_profile_free(profile);
    agent_close(&agent);
}

/* ---- a counter that jumps -------------------------------------------------------------- */

/* An agent on a made counter of a tick a nanosecond, which is JUMP ahead of the system's
 * clock from some moment on. */
static uint64_t jump;

static uint64_t counter(void)
{
    return lw_clock_ns() + jump;
}

static void jumping_open(struct agent *agent, struct recording *recording)
{
    agent_open(agent, 0);
    agent->region.header->clock = LW_CLOCK_TSC;
    jump = 0;
    recording_open(recording, agent);
    recording->calibration.anchors[0].ns = lw_clock_ns();
    recording->calibration.anchors[0].ticks = recording->calibration.anchors[0].ns;
}

static bool jumping_read(struct recording *recording)
{
    struct lw_watched_look look = { .calibration = &recording->calibration };
    uint64_t now_ns = lw_clock_ns();
    double fill;

    lw_calibration_add_anchor(&recording->calibration,
                              (struct lw_anchor){ now_ns + jump, now_ns });
    look.end_ticks = counter();
    return lw_watched_read(recording->watched, &look, &fill, NULL);
}

/* One call of FUNCTION, in which the counter jumps BY. Returns how long it took. */
static uint64_t call(struct agent *agent, struct recording *recording,
                     uint32_t function, uint64_t by, int looks)
{
    uint64_t start_ns = counter() - jump, end_ns;

    lw_calls_enter(agent->main, function, start_ns + jump);
    for (int i = 0; i < looks; i++) {
        usleep(1000);
        if (i == looks / 2)
            jump += by;
        if (looks > 1)
            CHECK(jumping_read(recording));
    }
    end_ns = counter() - jump;
    lw_calls_leave(agent->main, end_ns + jump);
    CHECK(jumping_read(recording));
    return end_ns - start_ns;
}

/* The counter jumps while `waits` runs for several looks, and back within a call of
 * `busy` between two of them. */
static void check_jump(uint64_t by)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_watched_look look;
    uint64_t busy_ns = 0, waits_ns, struck_ns = 0, told_ns, now_ns;

    jumping_open(&agent, &recording);
    uint32_t busy = agent_name(&agent, LW_NAME_PYTHON, "busy");
    uint32_t waits = agent_name(&agent, LW_NAME_PYTHON, "waits");
    for (int i = 0; i < 5; i++)
        busy_ns += call(&agent, &recording, busy, 0, 1);
    waits_ns = call(&agent, &recording, waits, by, 9);
    CHECK_EQ(recording.calibration.jump_count, 1);
    for (int i = 0; i < 5; i++) {
        uint64_t took_ns = call(&agent, &recording, busy, i == 2 ? -by : 0, 1);

        busy_ns += took_ns;
        struck_ns += i == 2 ? took_ns : 0;
    }
    CHECK_EQ(recording.calibration.jump_count, 2);
    now_ns = lw_clock_ns();
    look = (struct lw_watched_look){ .calibration = &recording.calibration,
                                     .is_last = true,
                                     .end_ticks = now_ns + jump };
    CHECK(lw_watched_close(recording.watched, &look, 0, NULL));
    profile = lw_lap_load(recording.folder, LW_WANT_ALL, NULL);
    CHECK(profile);
    CHECK(lw_file_remove_folder(recording.folder, NULL));

    CHECK_EQ(calls_at(profile, "busy").calls, 10);
    CHECK_EQ(calls_at(profile, "waits").calls, 1);
    told_ns = calls_at(profile, "waits").self_ns;
    CHECK(told_ns > waits_ns - 1000 && told_ns < waits_ns + 1000);
    told_ns = calls_at(profile, "busy").self_ns;
    CHECK(told_ns > busy_ns - struck_ns - 1000 && told_ns < busy_ns + 1000);
    CHECK(profile->threads[0].end_ns > now_ns - 1000 &&
          profile->threads[0].end_ns < now_ns + 1000);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(a_counter_that_jumps_ahead_costs_no_more_than_a_look)
{
    check_jump(10000000000000);
}

TEST(a_counter_that_falls_back_costs_no_more_than_a_look)
{
    check_jump(-20000000000ull);
}

TEST(a_running_call_is_in_the_file_before_it_returns)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    uint64_t start, looked;

    agent_open(&agent, 0);
    uint32_t sleep = agent_name(&agent, LW_NAME_PYTHON, "sleep");
    recording_open(&recording, &agent);
    start = lw_clock_ns();
    lw_calls_enter(agent.main, sleep, start);
    CHECK(recording_read(&recording));
    usleep(20000);
    looked = lw_clock_ns();
    CHECK(recording_read(&recording));
    profile = lw_lap_load(recording.folder, LW_WANT_ALL, NULL);
    CHECK(profile);
    CHECK(calls_at(profile, "sleep").self_ns >= looked - start);
    lw_profile_free(profile);
    lw_profile_free(recording_close(&recording, 0));
    agent_close(&agent);
}

/* The agent adds the time to the node before it stamps the event: seen in between, the
 * time must not count twice, be it ever so long. */
TEST(an_event_caught_half_stored_is_not_told_twice)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_node *node;
    uint64_t start;

    agent_open(&agent, 0);
    uint32_t sleep = agent_name(&agent, LW_NAME_PYTHON, "sleep");
    recording_open(&recording, &agent);
    start = lw_clock_ns() - 5000000000;
    lw_calls_enter(agent.main, sleep, start);
    CHECK(recording_read(&recording));
    CHECK(recording_read(&recording));
    node = lw_region_node(&agent.region, lw_calls_current(agent.main));
    atomic_store(&node->self_ticks, 6000000000);
    CHECK(recording_read(&recording));
    profile = recording_close(&recording, start + 6000000000);
    CHECK_EQ(calls_at(profile, "sleep").self_ns, 6000000000);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(deep_stacks_are_found_from_their_leaf)
{
    enum { DEPTH = 20000 };
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    const struct lw_stack *stacks;
    size_t deepest = 0;
    uint64_t now;

    agent_open(&agent, 0);
    uint32_t down = agent_name(&agent, LW_NAME_PYTHON, "down");
    recording_open(&recording, &agent);
    now = agent.main->slot->start_ticks;
    for (int i = 0; i < DEPTH; i++)
        lw_calls_enter(agent.main, down, ++now);
    profile = recording_close(&recording, now + 1);

    CHECK_EQ(profile->call_count, DEPTH);
    stacks = lw_stacks_list(profile->stacks, &(size_t){ 0 });
    for (size_t i = 0; i < profile->call_count; i++) {
        size_t depth = 0;

        if (i % 1000 != 0 && i + 1 != profile->call_count)
            continue;
        for (lw_stack_id s = profile->calls[i].stack; s; s = stacks[s].parent)
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    CHECK_EQ(deepest, DEPTH);
    lw_profile_free(profile);
    agent_close(&agent);
}

struct work {
    struct agent *agent;
    uint32_t function;
    int calls;
    uint64_t ahead; /* of the clock are the events, in ticks */
};

static void *work_in_thread(void *argument)
{
    struct work *work = argument;
    struct lw_calls_thread *thread = lw_calls_thread_new(&work->agent->region, 0);

    for (int i = 0; i < work->calls; i++) {
        lw_calls_enter(thread, work->function, work->ahead + lw_clock_ns());
        lw_calls_leave(thread, work->ahead + lw_clock_ns());
    }
    memcpy(thread->slot->name, "worker", 6);
    atomic_store(&thread->slot->name_len, 6);
    lw_calls_thread_free(thread, true);
    return NULL;
}

static void run_thread(struct work *work)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, work_in_thread, work), 0);
    pthread_join(thread, NULL);
}

TEST(a_slot_used_again_is_another_thread_with_its_own_share)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    uint64_t seen[8] = { 0 };

    agent_open(&agent, 0);
    struct work work = { &agent, agent_name(&agent, LW_NAME_PYTHON, "f"), 10, 0 };
    recording_open(&recording, &agent);
    run_thread(&work);
    CHECK(recording_read(&recording)); /* its last look: the slot is free again */
    work.calls = 25;
    run_thread(&work);
    CHECK_EQ(atomic_load(&agent.region.threads[1].generation), 2);
    CHECK_EQ(atomic_load(&agent.region.threads[2].state), LW_THREAD_FREE);
    profile = recording_close(&recording, 0);

    CHECK_EQ(profile->thread_count, 3);
    for (size_t i = 0; i < profile->call_count; i++)
        seen[profile->calls[i].thread] += profile->calls[i].calls;
    CHECK_EQ(seen[0], 0);
    CHECK_EQ(seen[1], 10);
    CHECK_EQ(seen[2], 25);
    CHECK_STR(lw_profile_text(profile, profile->threads[1].name), "worker");
    CHECK_STR(lw_profile_text(profile, profile->threads[2].name), "worker");
    CHECK(profile->threads[1].end_ns > profile->threads[1].start_ns);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(a_slot_that_is_being_taken_is_left_alone)
{
    struct agent agent;
    struct recording recording;

    agent_open(&agent, 0);
    recording_open(&recording, &agent);
    atomic_store(&agent.region.threads[1].state, LW_THREAD_ENDED);
    CHECK(recording_read(&recording));
    CHECK_EQ(atomic_load(&agent.region.threads[1].state), LW_THREAD_ENDED);
    lw_profile_free(recording_close(&recording, 0));
    agent_close(&agent);
}

/* Fill AGENT's name log until less than LEFT bytes are free. */
static void fill_names(struct agent *agent, uint64_t left)
{
    static char text[4000];

    memset(text, 'x', sizeof(text) - 1);
    while (agent->region.own->names_bytes - agent->region.own->names_used >= left)
        agent_name(agent, LW_NAME_PYTHON, text);
}

TEST(a_name_too_long_for_what_is_left_of_the_log_costs_itself_only)
{
    static const char text[4000];
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_name head = { .kind = LW_NAME_PYTHON, .name_len = sizeof(text) };
    struct lw_agent_record values[] = {
        { .kind = LW_RECORD_COUNTER, .ticks = 5, .generation = 1 },
    };
    uint64_t now;

    agent_open(&agent, 0);
    fill_names(&agent, 5000);
    agent_name(&agent, LW_NAME_PYTHON, "before");
    fill_names(&agent, 4100);
    head.number = ++agent.name_count;
    while (lw_region_add_name(&agent.region, &head, "", text))
        head.number = ++agent.name_count;
    uint32_t after = agent_name(&agent, LW_NAME_PYTHON, "after");
    recording_open(&recording, &agent);
    now = agent.main->slot->start_ticks;
    lw_calls_enter(agent.main, after, ++now);
    lw_calls_enter(agent.main, head.number, ++now);
    values[0].id = head.number;
    lw_calls_add_record(agent.main, &values[0]);
    profile = recording_close(&recording, now);
    CHECK_EQ(calls_at(profile, "after").calls, 1);
    CHECK_EQ(calls_at(profile, "after;(unknown)").calls, 1);
    CHECK_EQ(lost(profile, "name log full"), 1);
    CHECK_EQ(lost(profile, "made no sense in shared memory"), 0);
    lw_profile_free(profile);
    agent_close(&agent);
}

/* What the agent itself has counted of FUNCTION, in all threads. */
static uint64_t self_of(const struct agent *agent, uint32_t function)
{
    uint64_t sum = 0;

    for (uint32_t i = 1; i < 16 * agent->region.header->block_nodes; i++) {
        struct lw_agent_node *node = lw_region_node(&agent->region, i);

        if (atomic_load(&node->function) == function)
            sum += atomic_load(&node->self_ticks);
    }
    return sum;
}

/* The events lie ahead of the clock, so that no running call is told: a thread that is
 * put aside between its clock and its node looks like one in a long call. */
TEST(calls_made_while_we_look_are_counted_exactly)
{
    const uint64_t hour_ns = 3600 * UINT64_C(1000000000);
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    pthread_t threads[2];
    struct work works[2];

    agent_open(&agent, 0);
    recording_open(&recording, &agent);
    works[0] = (struct work){ .calls = 300000,
                              .function = agent_name(&agent, LW_NAME_PYTHON, "f") };
    works[1] = (struct work){ .calls = 200000,
                              .function = agent_name(&agent, LW_NAME_PYTHON, "g") };
    for (int i = 0; i < 2; i++) {
        works[i].agent = &agent;
        works[i].ahead = hour_ns;
        CHECK_EQ(pthread_create(&threads[i], NULL, work_in_thread, &works[i]), 0);
    }
    for (int i = 0; i < 50; i++)
        CHECK(recording_read(&recording));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    profile = recording_close(&recording, 0);
    CHECK_EQ(calls_at(profile, "f").calls, 300000);
    CHECK_EQ(calls_at(profile, "g").calls, 200000);
    CHECK_EQ(calls_at(profile, "f").self_ns, self_of(&agent, works[0].function));
    CHECK_EQ(calls_at(profile, "g").self_ns, self_of(&agent, works[1].function));
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(spans_marks_and_counters_come_out_of_the_ring)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_record record = { 0 };
    double loss = 0.25;
    uint64_t start;

    agent_open(&agent, LW_AGENT_TIMELINE);
    uint32_t train = agent_name(&agent, LW_NAME_PYTHON, "train");
    uint32_t epoch = agent_name(&agent, LW_NAME_MARK, "epoch 1");
    uint32_t value = agent_name(&agent, LW_NAME_COUNTER, "loss");
    recording_open(&recording, &agent);
    start = agent.main->slot->start_ticks;
    lw_calls_enter(agent.main, train, start + 100);
    record = (struct lw_agent_record){ .kind = LW_RECORD_MARK,
                                       .id = epoch,
                                       .ticks = start + 200,
                                       .value = 50,
                                       .node = lw_calls_current(agent.main) };
    lw_calls_add_record(agent.main, &record);
    record = (struct lw_agent_record){ .kind = LW_RECORD_COUNTER,
                                       .id = value,
                                       .ticks = start + 300 };
    memcpy(&record.value, &loss, sizeof(loss));
    lw_calls_add_record(agent.main, &record);
    record = (struct lw_agent_record){ .kind = LW_RECORD_SPAN,
                                       .id = lw_calls_current(agent.main),
                                       .ticks = start + 100,
                                       .value = 1000 };
    lw_calls_add_record(agent.main, &record);
    profile = recording_close(&recording, 0);

    CHECK_EQ(profile->span_count, 2);
    CHECK_STR(stack_text(profile, profile->spans[0].stack), "train;epoch 1");
    CHECK_EQ(profile->spans[0].start_ns, start + 200);
    CHECK_EQ(profile->spans[0].duration_ns, 50);
    CHECK_STR(stack_text(profile, profile->spans[1].stack), "train");
    CHECK_EQ(profile->spans[1].duration_ns, 1000);
    CHECK_EQ(profile->counter_count, 1);
    CHECK_NEAR(profile->counters[0].value, 0.25);
    CHECK_STR(lw_profile_text(profile, profile->counters[0].name), "loss");
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(an_op_keeps_its_number_and_the_line_that_asked_for_it)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    const struct lw_origin *row;
    uint64_t start;

    agent_open(&agent, 0);
    uint32_t forward = agent_name(&agent, LW_NAME_PYTHON, "Net.forward");
    uint32_t op = agent_name(&agent, LW_NAME_OP, "aten::mm");
    recording_open(&recording, &agent);
    start = agent.main->slot->start_ticks;
    for (uint32_t i = 0; i < 2; i++) {
        struct lw_agent_record mark = { .kind = LW_RECORD_MARK,
                                        .id = op,
                                        .ticks = start + 100 * (i + 1),
                                        .value = 50,
                                        .node = lw_calls_current(agent.main) };
        struct lw_agent_record told = {
            .kind = i ? LW_RECORD_BACKWARD : LW_RECORD_FORWARD,
            .id = i ? 0 : forward,
            .ticks = mark.ticks,
            .value = 0xffffffffffull << LW_ORIGIN_LINE_BITS | (i ? 0 : 0xfffffe),
            .node = 3,
        };

        lw_calls_add_record(agent.main, &mark);
        CHECK(recording_read(&recording)); /* between the two */
        lw_calls_add_record(agent.main, &told);
    }
    profile = recording_close(&recording, 0);

    CHECK_EQ(profile->span_count, 2);
    CHECK_EQ(profile->origin_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        row = &profile->origins[i];
        CHECK_EQ(row->start_ns, profile->spans[i].start_ns);
        CHECK_EQ(row->thread, profile->spans[i].thread);
        CHECK_EQ(row->sequence, 0xffffffffffull);
        CHECK_EQ(row->forward_thread, 3);
        CHECK_EQ(row->is_backward, i);
    }
    row = &profile->origins[0];
    CHECK_STR(lw_profile_text(profile, lw_profile_frame(profile, row->function)->name),
              "Net.forward");
    CHECK_EQ(row->line, 0xfffffe);
    CHECK_EQ(profile->origins[1].function, 0);
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(a_full_ring_is_emptied_and_what_it_dropped_is_said)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_record record = { .kind = LW_RECORD_SPAN, .value = 1 };
    uint64_t capacity;
    struct lw_watched_look look;
    double fill;

    agent_open(&agent, 0);
    uint32_t f = agent_name(&agent, LW_NAME_PYTHON, "f");
    recording_open(&recording, &agent);
    capacity = agent.region.ring_mask + 1;
    lw_calls_enter(agent.main, f, agent.main->slot->start_ticks + 1);
    record.id = lw_calls_current(agent.main);
    for (uint64_t i = 0; i < capacity + 77; i++) {
        record.ticks = agent.main->slot->start_ticks + i;
        lw_calls_add_record(agent.main, &record);
    }
    look = recording_look(&recording);
    CHECK(lw_watched_read(recording.watched, &look, &fill, NULL));
    CHECK_NEAR(fill, 1.0);
    for (uint64_t i = 0; i < capacity; i++)
        lw_calls_add_record(agent.main, &record);
    profile = recording_close(&recording, 0);
    CHECK_EQ(profile->span_count, 2 * capacity);
    CHECK_EQ(lost(profile, "ring full"), 77);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(running_out_of_memory_only_delays)
{
    for (uint64_t n = 1; n < 60; n++) {
        struct agent agent;
        struct recording recording;
        struct lw_profile *profile;
        uint64_t now;

        agent_open(&agent, 0);
        uint32_t f = agent_name(&agent, LW_NAME_PYTHON, "f");
        uint32_t g = agent_name(&agent, LW_NAME_PYTHON, "g");
        recording_open(&recording, &agent);
        now = agent.main->slot->start_ticks;
        for (int look = 0; look < 3; look++) {
            lw_calls_enter(agent.main, f, now += 10);
            lw_calls_enter(agent.main, look == 1 ? f : g, now += 10);
            lw_calls_leave(agent.main, now += 10);
            lw_calls_leave(agent.main, now += 10);
            lw_alloc_fail_in(n);
            if (!recording_read(&recording)) {
                /* That is what this is about. */
            }
            lw_alloc_fail_in(0);
        }
        profile = recording_close(&recording, now);
        CHECK_EQ(calls_at(profile, "f").calls, 3);
        CHECK_EQ(calls_at(profile, "f;g").calls, 2);
        CHECK_EQ(calls_at(profile, "f;f").calls, 1);
        CHECK_EQ(calls_at(profile, "f").self_ns, 60);
        CHECK_EQ(profile->thread_count, 1);
        lw_profile_free(profile);
        agent_close(&agent);
    }
}
