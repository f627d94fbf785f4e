/* Why a Python was entered by no agent, from what the kernel keeps of how it started. */

#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/layout.h"
#include "recorder/facts.h"
#include "recorder/kept_out.h"

static pid_t start(char *const *environment)
{
    char *words[] = { "sleep", "60", NULL };
    pid_t pid = fork();

    if (pid == 0) {
        execve("/bin/sleep", words, environment);
        _exit(1);
    }
    return pid;
}

/* Until it is that program, and not a copy of us. */
static void await(pid_t pid)
{
    for (int i = 0; i < 5000; i++) {
        char **words = lw_facts_command_line(pid, NULL);
        bool is_there = words && words[0] && strcmp(words[0], "sleep") == 0;

        free(words);
        if (is_there)
            return;
        usleep(1000);
    }
    CHECK(!"started");
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

TEST(a_process_without_our_variables_was_started_with_an_environment_of_its_own)
{
    char *environment[] = { "HOME=/h", NULL };
    pid_t pid = start(environment);

    await(pid);
    CHECK(strstr(lw_kept_out(pid, "/folder"), "an environment of its own"));
    end(pid);
}

TEST(a_process_with_an_empty_environment_is_seen_to_have_none)
{
    char *environment[] = { NULL };
    pid_t pid = start(environment);

    await(pid);
    CHECK(strstr(lw_kept_out(pid, "/folder"), "an environment of its own"));
    end(pid);
}

TEST(nothing_is_said_of_a_process_that_has_ended_or_cannot_be_looked_at)
{
    char *environment[] = { "HOME=/h", NULL };
    pid_t pid = start(environment);
    siginfo_t info;

    await(pid);
    kill(pid, SIGKILL);
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0); /* a zombie */
    CHECK(lw_kept_out(pid, "/folder") == NULL);
    waitpid(pid, NULL, 0);
    CHECK(lw_kept_out(pid, "/folder") == NULL);
}
