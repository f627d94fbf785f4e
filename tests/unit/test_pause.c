#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/os.h"
#include "sampler/pause.h"

/* What a child and we both see. */
struct shared {
    volatile uint64_t turns;   /* it is alive while this grows */
    volatile uint64_t signals; /* that it got */
    volatile int is_ready;
};

static struct shared *shared;

static void nap(long ns)
{
    const struct timespec time = { 0, ns };

    nanosleep(&time, NULL);
}

static void on_signal(int number)
{
    (void)number;
    shared->signals++;
}

static void spin(void)
{
    const struct sigaction action = { .sa_handler = on_signal };

    sigaction(SIGUSR1, &action, NULL);
    shared->is_ready = 1;
    for (;;)
        shared->turns++;
}

/* In D for a while: nothing stops a process that waits for its vfork. The child of that
 * does not return from here, so that it leaves the stack as it is. */
static void wait_in_kernel(void)
{
    shared->is_ready = 1;
    if (vfork() == 0) {
        nap(200000000);
        _exit(0);
    }
    spin();
}

static pid_t start(void (*body)(void))
{
    pid_t child;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    while (!shared->is_ready)
        nap(1000000);
    return child;
}

static void end(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) == child && !WIFSIGNALED(status))
        ;
    munmap(shared, sizeof(*shared));
}

static char state_of(pid_t pid)
{
    struct lw_os_process process;

    return lw_os_process(pid, &process, NULL) ? process.state : '\0';
}

/* Does it run? */
static bool goes_on(void)
{
    uint64_t before = shared->turns;

    for (int i = 0; i < 1000 && shared->turns == before; i++)
        nap(1000000);
    return shared->turns != before;
}

TEST(a_thread_stands_while_it_is_paused_and_runs_again_after)
{
    pid_t child = start(spin);
    struct lw_registers registers;
    struct lw_pause pause;
    uint64_t turns;

    lw_pause_init(&pause);
    for (int i = 0; i < 20; i++) {
        while (!lw_pause_stop(&pause, child, child)) { /* the machine was busy */
            while (lw_pause_settle(&pause))
                nap(1000000);
        }
        CHECK(lw_pause_has(&pause, child));
        turns = shared->turns;
        CHECK(lw_pause_registers(child, &registers));
        CHECK(registers.value[LW_REG_STACK] != 0 && registers.value[LW_REG_PC] != 0);
        nap(1000000);
        CHECK_EQ(shared->turns, turns);
        lw_pause_resume(&pause);
        CHECK(goes_on());
    }
    CHECK(!lw_pause_settle(&pause));
    CHECK(pause.stops >= 20);
    CHECK(pause.longest_ns > 0);
    lw_pause_release(&pause);
    end(child);
}

TEST(a_signal_that_comes_meanwhile_is_delivered_once)
{
    pid_t child = start(spin);
    struct lw_pause pause;
    unsigned stopped = 0;

    lw_pause_init(&pause);
    for (uint64_t i = 0; i < 200; i++) {
        /* Right before the stop, while it stands, and right after. */
        if (i % 3 == 0)
            kill(child, SIGUSR1);
        stopped += lw_pause_stop(&pause, child, child);
        if (i % 3 == 1)
            kill(child, SIGUSR1);
        if (i % 3 == 2)
            nap(100000);
        lw_pause_resume(&pause);
        if (i % 3 == 2)
            kill(child, SIGUSR1);
        while (lw_pause_settle(&pause))
            nap(100000);
        CHECK(goes_on());
        for (int n = 0; n < 1000 && shared->signals < i + 1; n++)
            nap(1000000);
        CHECK_EQ(shared->signals, i + 1);
    }
    CHECK(stopped > 20);
    lw_pause_release(&pause);
    end(child);
}

TEST(one_that_was_stopped_by_a_signal_stays_stopped)
{
    pid_t child = start(spin);
    struct lw_pause pause;
    unsigned stopped = 0;
    int status;

    lw_pause_init(&pause);
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    for (int i = 0; i < 10; i++) {
        stopped += lw_pause_stop(&pause, child, child);
        lw_pause_resume(&pause);
        while (lw_pause_settle(&pause))
            nap(100000);
        /* It stops again when it gets to it. */
        for (int n = 0; n < 1000 && state_of(child) != 'T'; n++)
            nap(1000000);
        CHECK_EQ(state_of(child), 'T');
    }
    CHECK(stopped > 0);
    kill(child, SIGCONT);
    CHECK(goes_on());
    lw_pause_release(&pause);
    end(child);
}

TEST(one_that_cannot_stop_in_time_is_missed_and_let_go_later)
{
    pid_t child = start(wait_in_kernel);
    struct lw_pause pause;

    lw_pause_init(&pause);
    for (int i = 0; i < 1000 && state_of(child) != 'D'; i++)
        nap(100000);
    CHECK_EQ(state_of(child), 'D');
    CHECK(!lw_pause_stop(&pause, child, child));
    CHECK(!lw_pause_has(&pause, child));
    lw_pause_resume(&pause);
    CHECK_EQ(pause.misses, 1);
    CHECK_EQ(pause.stops, 0);
    CHECK(lw_pause_settle(&pause));
    CHECK(!lw_pause_stop(&pause, child, child)); /* not twice */
    CHECK_EQ(pause.misses, 2);
    while (lw_pause_settle(&pause))
        nap(1000000);
    CHECK(goes_on());
    for (int i = 0; i < 100 && pause.stops == 0; i++) { /* and can be stopped again */
        if (lw_pause_stop(&pause, child, child))
            lw_pause_resume(&pause);
        while (lw_pause_settle(&pause))
            nap(1000000);
    }
    CHECK_EQ(pause.stops, 1);
    lw_pause_release(&pause);
    end(child);
}

TEST(one_that_is_killed_meanwhile_is_forgotten_and_its_end_is_the_parents_to_see)
{
    pid_t child = start(spin);
    struct lw_pause pause;
    int status = 0;

    lw_pause_init(&pause);
    while (!lw_pause_stop(&pause, child, child))
        nap(1000000);
    kill(child, SIGKILL);
    for (int i = 0; i < 1000 && state_of(child) != 'Z'; i++)
        nap(1000000);
    lw_pause_resume(&pause);
    CHECK(!lw_pause_settle(&pause));
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(!lw_pause_stop(&pause, child, child));
    CHECK_EQ(pause.refused, 0); /* it is gone, which is no refusal */
    lw_pause_release(&pause);
    munmap(shared, sizeof(*shared));
}

TEST(what_a_debugger_traces_is_refused_and_counted)
{
    pid_t child = start(spin), debugger = fork();
    struct lw_pause pause;
    int status;

    if (debugger == 0) {
        ptrace(PTRACE_SEIZE, child, NULL, NULL);
        shared->is_ready = 2;
        for (;;)
            nap(100000000);
    }
    while (shared->is_ready != 2)
        nap(1000000);
    lw_pause_init(&pause);
    CHECK(!lw_pause_stop(&pause, child, child));
    CHECK_EQ(pause.refused, 1);
    kill(debugger, SIGKILL);
    CHECK(waitpid(debugger, &status, 0) == debugger);
    while (!lw_pause_stop(&pause, child, child)) /* the debugger is gone */
        nap(1000000);
    CHECK_EQ(pause.refused, 1);
    lw_pause_resume(&pause);
    while (lw_pause_settle(&pause))
        nap(1000000);
    CHECK(goes_on());
    lw_pause_release(&pause);
    end(child);
}
