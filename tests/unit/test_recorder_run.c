/* The whole recorder with real processes: they say hello, work, and die. */

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "agent/handover.h"
#include "agent/ticks.h"
#include "recorder/recorder.h"
#include "recorder/window_order.h"
#include "recorder_agent.h"

static struct lw_recorder recorder;
static char folder[64];

static void open_recorder(uint64_t max_bytes)
{
    struct lw_recorder_options options = { .path = folder, .max_bytes = max_bytes };
    struct lw_error err;

    snprintf(folder, sizeof(folder), "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(folder));
    if (!lw_recorder_open(&recorder, &options, &err))
        print_error("%s\n", err.text);
    CHECK(recorder.fd >= 0);
    CHECK(lw_run_save(&recorder.run, NULL));
}

/* Let the recorder work for so long, or until nobody is left of at least COUNT. */
static void work(unsigned ms, uint32_t count)
{
    uint64_t end_ns = lw_clock_ns() + ms * 1000000ull;

    while (lw_clock_ns() < end_ns) {
        struct pollfd pollfd = { recorder.fd, POLLIN, 0 };

        if (poll(&pollfd, 1, 10) > 0)
            lw_recorder_work(&recorder);
        if (count > 0 && recorder.last_number >= count && recorder.process_count == 0)
            return;
    }
}

static struct lw_profile *close_recorder(void)
{
    struct lw_profile *profile;
    struct lw_error err;

    CHECK(lw_recorder_finish(&recorder, &err));
    lw_recorder_release(&recorder);
    profile = lw_lap_load(folder, LW_WANT_ALL, &err);
    if (!profile)
        print_error("%s\n", err.text);
    CHECK(profile);
    CHECK(lw_file_remove_folder(folder, NULL));
    return profile;
}

static bool hand_over(const struct lw_region *region, const char *text, size_t len,
                      uint32_t arguments)
{
    const int fds[LW_HELLO_FDS] = { region->fd, -1 };

    return lw_handover_send(recorder.listener.path, LW_HELLO_REGION, fds, text, len,
                            arguments);
}

/* In a process of its own: hand over a region and make calls for ever, each counted in
 * *COUNTER after it was made. */
static void call_for_ever(volatile uint64_t *counter, uint64_t most)
{
    static const char hello[] = "/bin/python3\0003.11.7\0python3\0work.py";
    bool use_tsc = lw_ticks_tsc_is_trusted(LW_TICKS_CLOCKSOURCE);
    struct lw_region_options options = { .flags = LW_AGENT_CALLS,
                                         .shared = true,
                                         .use_tsc = use_tsc };
    struct agent agent = { 0 };
    uint32_t f, g;

    if (!lw_region_create(&agent.region, &options) ||
        !hand_over(&agent.region, hello, sizeof(hello), 2))
        _exit(1);
    agent.main = lw_calls_thread_new(&agent.region, 0);
    f = agent_name(&agent, LW_NAME_PYTHON, "f");
    g = agent_name(&agent, LW_NAME_PYTHON, "g");
    for (uint64_t i = 1; i <= most; i++) {
        lw_calls_enter(agent.main, f, lw_ticks_now(use_tsc));
        lw_calls_enter(agent.main, g, lw_ticks_now(use_tsc));
        lw_calls_leave(agent.main, lw_ticks_now(use_tsc));
        lw_calls_leave(agent.main, lw_ticks_now(use_tsc));
        *counter = i;
    }
    _exit(0);
}

static volatile uint64_t *make_counter(void)
{
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    return page;
}

static pid_t start_calls(volatile uint64_t *counter, uint64_t most)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        call_for_ever(counter, most);
    return pid;
}

TEST(nothing_is_lost_of_a_process_killed_at_any_moment)
{
    volatile uint64_t *counter = make_counter();

    for (unsigned round = 0; round < 12; round++) {
        struct lw_profile *profile;
        uint64_t made;
        pid_t pid;

        *counter = 0;
        open_recorder(0);
        pid = start_calls(counter, UINT64_MAX);
        while (*counter == 0)
            work(1, 0);
        work(round * 13 % 120, 0);
        kill(pid, SIGKILL);
        made = *counter;
        waitpid(pid, NULL, 0);
        made = *counter > made ? *counter : made;
        work(2000, 1);
        CHECK_EQ(recorder.process_count, 0);
        profile = close_recorder();
        CHECK(calls_at(profile, "f;g").calls >= made);
        CHECK(calls_at(profile, "f;g").calls <= made + 1);
        CHECK_EQ(profile->processes[0].pid, pid);
        /* Linux 6.15 tells it of any process; before, only a parent knew. */
        CHECK(profile->processes[0].exit_code == 128 + SIGKILL ||
              profile->processes[0].exit_code == -1);
        CHECK_STR(lw_profile_text(profile, profile->processes[0].command), "work.py");
        CHECK_STR(lw_profile_text(profile, profile->processes[0].python), "3.11.7");
        lw_profile_free(profile);
    }
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(what_is_on_disk_is_never_far_behind)
{
    volatile uint64_t *counter = make_counter();
    pid_t pid;

    open_recorder(0);
    pid = start_calls(counter, UINT64_MAX);
    while (*counter == 0)
        work(1, 0);
    for (int i = 0; i < 5; i++) {
        struct lw_profile *profile;
        uint64_t before = *counter;

        work(110, 0);
        profile = lw_lap_load(folder, LW_WANT_ALL, NULL); /* as after our own death */
        CHECK(profile);
        CHECK(calls_at(profile, "f;g").calls >= before);
        lw_profile_free(profile);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    lw_profile_free(close_recorder());
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(self_times_add_up_to_the_time_that_passed)
{
    volatile uint64_t *counter = make_counter();
    struct lw_profile *profile;
    uint64_t passed, told = 0;
    pid_t pid;

    open_recorder(0);
    pid = start_calls(counter, UINT64_MAX);
    work(400, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    work(2000, 1);
    profile = close_recorder();
    for (size_t i = 0; i < profile->call_count; i++)
        told += profile->calls[i].self_ns;
    passed = profile->threads[0].end_ns - profile->threads[0].start_ns;
    CHECK(told <= passed + passed / 1000);
    CHECK(told >= passed / 2); /* the rest was between two calls of f */
    lw_profile_free(profile);
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(a_process_gone_before_we_looked_is_read_all_the_same)
{
    volatile uint64_t *counter = make_counter();
    struct lw_profile *profile;
    pid_t pid;

    open_recorder(0);
    pid = start_calls(counter, 1000);
    waitpid(pid, NULL, 0);
    work(1000, 1);
    profile = close_recorder();
    CHECK_EQ(calls_at(profile, "f;g").calls, 1000);
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(processes_that_still_run_are_said)
{
    volatile uint64_t *counter = make_counter();
    struct lw_profile *profile;
    pid_t pids[2];

    open_recorder(0);
    for (int i = 0; i < 2; i++)
        pids[i] = start_calls(counter, UINT64_MAX);
    while (recorder.process_count < 2)
        work(10, 0);
    profile = close_recorder();
    CHECK_EQ(lost(profile, "still running when the recording ended"), 2);
    CHECK_EQ(profile->process_count, 2);
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    lw_profile_free(profile);
    munmap((void *)(uintptr_t)counter, 4096);
}

static int connect_to_recorder(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    memcpy(address.sun_path, recorder.listener.path, strlen(recorder.listener.path));
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

TEST(peers_that_make_no_sense_are_shown_the_door)
{
    struct lw_agent_hello hello = { .magic = LW_AGENT_MAGIC,
                                    .version = LW_AGENT_VERSION,
                                    .kind = LW_HELLO_REGION };
    static char large[40000];
    struct lw_profile *profile;
    int fds[7];

    open_recorder(0);
    for (int i = 0; i < 7; i++)
        fds[i] = connect_to_recorder();
    CHECK(send(fds[0], "x", 1, 0) > 0);
    CHECK(send(fds[1], large, sizeof(large), 0) > 0);
    hello.magic++;
    CHECK(send(fds[2], &hello, sizeof(hello), 0) > 0);
    hello.magic--;
    hello.text_bytes = 7;
    CHECK(send(fds[3], &hello, sizeof(hello), 0) > 0);
    hello.text_bytes = 0;
    CHECK(send(fds[4], &hello, sizeof(hello), 0) > 0); /* without a region */
    hello.kind = 99;
    CHECK(send(fds[5], &hello, sizeof(hello), 0) > 0);
    work(120, 0); /* fds[6] stays silent */
    CHECK_EQ(recorder.last_number, 0);
    CHECK_EQ(recorder.listener.guest_count, 1);
    for (int i = 0; i < 7; i++)
        close(fds[i]);
    work(120, 0);
    CHECK_EQ(recorder.listener.guest_count, 0);
    profile = close_recorder();
    CHECK_EQ(profile->loss_count, 1);
    CHECK_EQ(lost(profile, "could not be recorded: it handed over no memory"), 1);
    lw_profile_free(profile);
}

TEST(a_full_house_of_silent_guests_still_lets_the_next_one_in)
{
    volatile uint64_t *counter = make_counter();
    struct lw_profile *profile;
    int fds[LW_LISTENER_GUESTS + 5];
    pid_t pid;

    open_recorder(0);
    for (int i = 0; i < LW_LISTENER_GUESTS + 5; i++)
        fds[i] = connect_to_recorder();
    pid = start_calls(counter, 10);
    waitpid(pid, NULL, 0);
    work(120, 0);
    CHECK_EQ(recorder.listener.guest_count, LW_LISTENER_GUESTS);
    for (int i = 0; i < LW_LISTENER_GUESTS + 5; i++)
        close(fds[i]);
    work(1000, 1);
    profile = close_recorder();
    CHECK_EQ(calls_at(profile, "f;g").calls, 10);
    lw_profile_free(profile);
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(sentences_of_processes_are_kept_for_the_report)
{
    struct lw_profile *profile;

    open_recorder(0);
    for (int i = 0; i < 3; i++)
        CHECK(lw_handover_send(recorder.listener.path, LW_HELLO_REFUSED, NULL,
                               "Python 3.8 is too old", 21, 0));
    CHECK(lw_handover_send(recorder.listener.path, LW_HELLO_NOTE, NULL, "one", 3, 0));
    CHECK(lw_handover_send(recorder.listener.path, LW_HELLO_NOTE, NULL, "two", 3, 0));
    work(100, 0);
    CHECK_EQ(recorder.refused_count, 3);
    profile = close_recorder();
    CHECK_EQ(lost(profile, "Python 3.8 is too old"), 3);
    CHECK_STR(lw_profile_fact(profile, "note"), "one; two");
    lw_profile_free(profile);
}

TEST(an_order_reaches_the_process_that_it_is_for)
{
    struct lw_kineto_folder place;
    struct lw_kineto_window window = { .iterations = 1 };
    struct agent agent;

    CHECK(lw_kineto_folder_make(getpid(), &place, NULL));
    open_recorder(0);
    agent_open(&agent, 0);
    CHECK(hand_over(&agent.region, "", 0, 0));
    CHECK(lw_order_give(getppid(), recorder.listener.path, &window, &place, NULL));
    work(120, 0);
    CHECK_EQ(atomic_load(&agent.region.header->orders), 0);
    CHECK(lw_order_give(getpid(), recorder.listener.path, &window, &place, NULL));
    work(120, 0);
    CHECK_EQ(atomic_load(&agent.region.header->orders), 1);
    lw_profile_free(close_recorder()); /* with the orders that nobody took */
    lw_kineto_folder_remove(&place);
    agent_close(&agent);
}

TEST(a_process_that_says_hello_again_has_replaced_itself)
{
    struct agent agents[2];
    struct lw_profile *profile;

    open_recorder(0);
    for (int i = 0; i < 2; i++) {
        agent_open(&agents[i], 0);
        uint32_t f = agent_name(&agents[i], LW_NAME_PYTHON, i ? "new" : "old");

        lw_calls_enter(agents[i].main, f, lw_clock_ns());
        CHECK(hand_over(&agents[i].region, "", 0, 0));
        work(120, 0);
    }
    CHECK_EQ(recorder.process_count, 1);
    profile = close_recorder();
    CHECK_EQ(profile->process_count, 2);
    CHECK_EQ(profile->processes[0].end_ns, agents[1].region.header->start_ticks);
    CHECK(calls_at(profile, "old").self_ns < 130000000 * 2);
    CHECK_EQ(calls_at(profile, "new").calls, 1);
    lw_profile_free(profile);
    agent_close(&agents[0]);
    agent_close(&agents[1]);
}

TEST(the_api_ends_a_recording_by_its_state_and_a_knock)
{
    struct agent agent;
    struct lw_profile *profile;
    struct pollfd pollfd;

    open_recorder(0);
    recorder.asked_by = getpid();
    agent_open(&agent, 0);
    CHECK(hand_over(&agent.region, "", 0, 0));
    work(20, 0);
    CHECK(!recorder.is_over);
    atomic_store(&agent.region.header->state, LW_AGENT_FINISHED);
    close(connect_to_recorder());
    pollfd = (struct pollfd){ recorder.fd, POLLIN, 0 };
    CHECK(poll(&pollfd, 1, 20) > 0);
    lw_recorder_work(&recorder);
    CHECK(recorder.is_over);
    profile = close_recorder();
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
    agent_close(&agent);
}

/* A limit on the size of files stands in for a full disk. */
TEST(a_disk_that_is_full_for_a_while_costs_no_call)
{
    volatile uint64_t *counter = make_counter();
    struct rlimit unlimited, limit;
    struct lw_profile *profile;
    uint64_t made;
    pid_t pid;

    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, SIG_IGN);
    open_recorder(0);
    pid = start_calls(counter, UINT64_MAX);
    work(150, 0);
    limit = (struct rlimit){ 300, unlimited.rlim_max };
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    work(300, 0);
    CHECK(recorder.trouble.code != LW_OK);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    made = *counter;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    work(2000, 1);
    profile = close_recorder();
    CHECK(calls_at(profile, "f;g").calls >= made);
    lw_profile_free(profile);
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(a_process_that_comes_while_the_disk_is_full_is_recorded_when_there_is_room)
{
    volatile uint64_t *counter = make_counter();
    struct rlimit unlimited, limit;
    struct lw_profile *profile;
    pid_t pid;

    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, SIG_IGN);
    open_recorder(0);
    pid = start_calls(counter, 5000);
    waitpid(pid, NULL, 0);
    limit = (struct rlimit){ 10, unlimited.rlim_max };
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    work(150, 0);
    CHECK_EQ(recorder.last_number, 0);
    CHECK_EQ(recorder.late_count, 1);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    work(1000, 1);
    profile = close_recorder();
    CHECK_EQ(calls_at(profile, "f;g").calls, 5000);
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
    munmap((void *)(uintptr_t)counter, 4096);
}

TEST(the_socket_and_its_folder_are_gone_at_the_end)
{
    char *path;

    open_recorder(0);
    path = strdup(recorder.listener.folder.path);
    CHECK(lw_file_is_folder(path));
    lw_profile_free(close_recorder());
    CHECK(!lw_file_exists(path));
    free(path);
}
