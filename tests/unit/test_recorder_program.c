/* The program under `lapwing run`: how it is started, and what its environment, its
 * command line and its commit are made to say. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "recorder/commit.h"
#include "recorder/facts.h"
#include "recorder/inject.h"
#include "recorder/program.h"
#include "test.h"

extern char **environ;

/* ---- starting, ending --------------------------------------------------------------- */

static void wait_for_end(struct lw_program *program)
{
    while (!program->has_ended) {
        struct pollfd pollfd = { program->fd, POLLIN, 0 };

        CHECK(poll(&pollfd, 1, 10000) > 0);
        lw_program_signals(program);
    }
}

static int run_shell(const char *script)
{
    char *argv[] = { "sh", "-c", (char *)(uintptr_t)script, NULL };
    struct lw_program program;
    int code;

    CHECK(lw_program_init(&program, NULL));
    CHECK(lw_program_start(&program, argv, environ, NULL));
    wait_for_end(&program);
    code = lw_program_exit_code(&program);
    lw_program_release(&program);
    return code;
}

TEST(exit_codes_and_signals_are_the_programs_own)
{
    CHECK_EQ(run_shell("exit 0"), 0);
    CHECK_EQ(run_shell("exit 42"), 42);
    CHECK_EQ(run_shell("kill -SEGV $$"), 128 + SIGSEGV);
}

TEST(signals_sent_to_us_reach_the_program)
{
    char *argv[] = { "sh", "-c",
                     "trap 'exit 7' USR1; echo; while :; do sleep 0.01; done", NULL };
    struct lw_program program;

    CHECK(lw_program_init(&program, NULL));
    CHECK(lw_program_start(&program, argv, environ, NULL));
    usleep(200000);
    kill(getpid(), SIGUSR1);
    wait_for_end(&program);
    CHECK_EQ(lw_program_exit_code(&program), 7);
    lw_program_release(&program);
}

TEST(the_programs_signal_mask_is_what_ours_was)
{
    CHECK_EQ(run_shell("exec grep -q 'SigBlk:.0000000000000000' /proc/self/status"), 0);
}

/* A test may itself be run with signals ignored: in the background of a script. */
TEST(signals_we_ignore_are_not_ignored_by_the_program)
{
    char check[256], line[128], ignored[128] = "";
    FILE *status = fopen("/proc/self/status", "r");

    while (status && fgets(line, sizeof(line), status))
        if (sscanf(line, "SigIgn: %127s", ignored) == 1)
            break;
    fclose(status);
    snprintf(check, sizeof(check), "exec grep -q 'SigIgn:.%s' /proc/self/status",
             ignored);
    CHECK_EQ(run_shell(check), 0);
    CHECK_EQ(run_shell("kill -PIPE $$"), 128 + SIGPIPE);
}

static int failure_of(const char *name, struct lw_error *err)
{
    char *argv[] = { (char *)(uintptr_t)name, NULL };
    struct lw_program program;

    CHECK(lw_program_init(&program, err));
    CHECK(!lw_program_start(&program, argv, environ, err));
    lw_program_release(&program);
    return program.failure_code;
}

TEST(what_cannot_be_started_is_told_as_env_does)
{
    struct lw_error err;

    CHECK_EQ(failure_of("no-such-command-at-all", &err), 127);
    CHECK_STR(err.text, "no-such-command-at-all: no such command");
    CHECK_EQ(failure_of("/no/such/file", &err), 127);
    CHECK_EQ(failure_of("/etc/passwd", &err), 126);
    CHECK_EQ(failure_of("/tmp", &err), 126);
}

TEST(a_script_without_a_first_line_is_given_to_the_shell)
{
    char path[] = "/tmp/lapwing-script-XXXXXX";
    int fd = mkstemp(path);
    char *argv[] = { path, "3", NULL };
    struct lw_program program;

    CHECK(fd >= 0 && write(fd, "exit $1\n", 8) == 8 && fchmod(fd, 0700) == 0);
    close(fd);
    CHECK(lw_program_init(&program, NULL));
    CHECK(lw_program_start(&program, argv, environ, NULL));
    wait_for_end(&program);
    CHECK_EQ(lw_program_exit_code(&program), 3);
    lw_program_release(&program);
    unlink(path);
}

TEST(we_die_of_the_signal_that_killed_the_program)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct lw_program program = { .has_ended = true, .wait_status = SIGTERM };

        lw_program_die_alike(&program);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* ---- the way in --------------------------------------------------------------------- */

static const char *find_variable(char **environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment; environment++) {
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=')
            return *environment + len + 1;
    }
    return NULL;
}

static void check_python_path(const char *before, const char *after)
{
    char entry[100];
    char *environment[] = { "HOME=/h", entry, "LAPWING_AGENT=old", "Z=", NULL };
    struct lw_inject_options options = {
        .socket = "/s", .calls = true, .timeline = true, .ops = LW_OPS_ALL
    };
    char **made;

    snprintf(entry, sizeof(entry), "%s", before ? before : "UNRELATED=1");
    made = lw_inject_environment(environment, "/in", &options, NULL);
    CHECK(made);
    CHECK_STR(find_variable(made, "PYTHONPATH"), after);
    CHECK_STR(
        find_variable(made, "LAPWING_AGENT"),
        "socket=/s,ops=all,calls=python,timeline=1,min_span_ns=0,sample=0,steps=0");
    CHECK_STR(find_variable(made, "HOME"), "/h");
    CHECK_STR(find_variable(made, "Z"), "");
    lw_free(made);
}

TEST(our_folder_comes_first_on_the_python_path)
{
    check_python_path(NULL, "/in");
    check_python_path("PYTHONPATH=", "/in/.");
    check_python_path("PYTHONPATH=/a:/b", "/in/:/a:/b");
    check_python_path("PYTHONPATH=/a::/inn:", "/in/:/a::/inn:");
}

/* Of a run around this one, wherever a launcher has put it. */
TEST(our_folder_is_on_the_python_path_once)
{
    check_python_path("PYTHONPATH=/in", "/in");
    check_python_path("PYTHONPATH=/in/.", "/in/.");
    check_python_path("PYTHONPATH=/in/:/a", "/in/:/a");
    check_python_path("PYTHONPATH=src:/in", "/in/:src:");
    check_python_path("PYTHONPATH=src:/in/:/a:/in/:/a", "/in/:src:/a:/a");
}

static void touch(const char *folder, const char *name)
{
    char *path = lw_path_join(folder, name, NULL);
    char *slash = strrchr(path, '/');

    *slash = '\0';
    CHECK(lw_file_make_folders(path, NULL));
    *slash = '/';
    CHECK(lw_file_replace(path, "", 0, NULL));
    lw_free(path);
}

/* With the agent in FOLDER below a root, the program at PROGRAM finds it. */
static void check_found(const char *folder, const char *program)
{
    char root[] = "/tmp/lapwing-inject-XXXXXX", text[200];
    char *found, *there, *executable;

    CHECK(mkdtemp(root));
    executable = lw_path_join(root, program, NULL);
    touch(root, program);
    found = lw_inject_find_from(executable, NULL);
    CHECK(!found);
    snprintf(text, sizeof(text), "%s/sitecustomize.py", folder);
    touch(root, text);
    CHECK(!lw_inject_find_from(executable, NULL)); /* without the extension */
    snprintf(text, sizeof(text), "%s/_lapwing.abi3.so", folder);
    touch(root, text);
    found = lw_inject_find_from(executable, NULL);
    CHECK(found);
    there = lw_path_join(found, "_lapwing.abi3.so", NULL);
    CHECK(lw_file_exists(there));
    CHECK(lw_file_remove_folder(root, NULL));
    lw_free(there);
    lw_free(found);
    lw_free(executable);
}

TEST(the_agent_is_found_where_installers_put_it)
{
    unsetenv("LAPWING_HOME");
    check_found("lib/python3.12/site-packages/lapwing/_inject", "bin/lapwing");
    check_found("lib/python3/dist-packages/lapwing/_inject", "bin/lapwing");
    check_found("local/lib/python3.11/dist-packages/lapwing/_inject", "bin/lapwing");
    check_found("lapwing/_inject", "bin/lapwing");
    check_found("build/python", "build/lapwing");
}

TEST(options_that_shut_the_agent_out_are_found)
{
    CHECK_EQ(lw_inject_shut_out((char *[]){ "python3", "-I", "x.py", NULL }), 'I');
    CHECK_EQ(lw_inject_shut_out((char *[]){ "/usr/bin/python3.11", "-uS", "x", NULL }),
             'S');
    CHECK_EQ(lw_inject_shut_out(
                 (char *[]){ "nice", "python", "-W", "error", "-Esm", "x", NULL }),
             'E');
    CHECK_EQ(lw_inject_shut_out((char *[]){ "python3", "x.py", "-I", NULL }), 0);
    CHECK_EQ(lw_inject_shut_out((char *[]){ "python3", "-c", "-I", NULL }), 0);
    CHECK_EQ(lw_inject_shut_out((char *[]){ "python3", "-X", "-I", "x", NULL }), 0);
    CHECK_EQ(lw_inject_shut_out((char *[]){ "ls", "-I", NULL }), 0);
    CHECK_EQ(lw_inject_shut_out((char *[]){ "python-config", "-I", NULL }), 0);
}

/* ---- facts -------------------------------------------------------------------------- */

static const char *parameter(const struct lw_run_info *info, const char *key)
{
    for (size_t i = 0; i < info->parameter_count; i++) {
        if (strcmp(info->parameters[i].key, key) == 0)
            return info->parameters[i].value;
    }
    return NULL;
}

TEST(a_command_line_becomes_command_arguments_and_parameters)
{
    char *argv[] = {
        "/usr/bin/python3", "train.py", "--epochs", "3",  "--lr=0.1", "--fast",
        "model.size=big",   "a b",      "-v",       "--", "--last",   NULL
    };
    struct lw_run_info info;

    lw_run_info_init(&info);
    CHECK(lw_facts_describe(&info, argv, NULL));
    CHECK_STR(info.command,
              "train.py --epochs 3 --lr=0.1 --fast model.size=big 'a b' -v "
              "-- --last");
    CHECK_EQ(info.argument_count, 11);
    CHECK_STR(parameter(&info, "epochs"), "3");
    CHECK_STR(parameter(&info, "lr"), "0.1");
    CHECK_STR(parameter(&info, "fast"), "yes");
    CHECK_STR(parameter(&info, "model.size"), "big");
    CHECK_STR(parameter(&info, "last"), "yes");
    CHECK_EQ(info.parameter_count, 5);
    CHECK(lw_run_info_fact(&info, "cwd"));
    CHECK(info.start_ns > 0 && info.wall_start_ns > info.start_ns);
    lw_run_info_release(&info);
}

TEST(the_text_of_a_hello_is_taken_apart)
{
    static const char text[] = "/usr/bin/python3\0003.11.7\0python3\0x.py\0--n\0002";
    struct lw_hello_text hello;

    CHECK(lw_facts_read_hello(&hello, text, sizeof(text) - 1, NULL));
    CHECK_STR(hello.executable, "/usr/bin/python3");
    CHECK_STR(hello.python, "3.11.7");
    CHECK_STR(hello.command.bytes, "x.py --n 2");
    lw_buf_release(&hello.command);
    CHECK(lw_facts_read_hello(&hello, "", 0, NULL));
    CHECK_STR(hello.python, "");
    lw_buf_release(&hello.command);
    CHECK(lw_facts_read_hello(&hello, "only", 4, NULL));
    CHECK_STR(hello.executable, "only");
    lw_buf_release(&hello.command);
}

TEST(a_process_tells_its_rank_and_its_image)
{
    char *argv[] = { "sleep", "30", NULL };
    char *environment[] = { "XRANK=9", "RANK=5", "PATH=/bin:/usr/bin", NULL };
    struct lw_program program;
    uint64_t image;

    CHECK(lw_program_init(&program, NULL));
    CHECK(lw_program_start(&program, argv, environment, NULL));
    usleep(50000);
    CHECK_EQ(lw_facts_rank(program.pid), 5);
    image = lw_facts_image(program.pid);
    CHECK(image != 0);
    CHECK_EQ(image, lw_facts_image(program.pid));
    kill(program.pid, SIGKILL);
    wait_for_end(&program);
    CHECK_EQ(lw_facts_rank(0), (uint64_t)-1);
    CHECK_EQ(lw_facts_image(0), 0);
    lw_program_release(&program);
}

/* ---- commit ------------------------------------------------------------------------- */

static void ask_commit(struct lw_commit *commit)
{
    lw_commit_ask(commit);
    lw_commit_wait(commit, lw_clock_ns() + 20000000000);
}

TEST(the_commit_and_its_changes_are_asked_of_git)
{
    char folder[] = "/tmp/lapwing-git-XXXXXX", here[4096];
    struct lw_commit commit;
    uint64_t start_ns;

    CHECK(mkdtemp(folder) && getcwd(here, sizeof(here)) && chdir(folder) == 0);
    start_ns = lw_clock_ns();
    ask_commit(&commit);
    CHECK(!commit.is_known);                       /* no repository */
    CHECK(lw_clock_ns() - start_ns < 10000000000); /* and no waiting for one */
    lw_commit_release(&commit);

    CHECK_EQ(run_shell("git init -q . && git config user.email a@b && "
                       "git config user.name a && echo 1 > f && echo 1 > new && "
                       "git add f && git commit -q -m 1"),
             0);
    ask_commit(&commit);
    CHECK(commit.is_known && strlen(commit.id) == 40 && !commit.is_dirty);
    lw_commit_release(&commit);

    CHECK_EQ(run_shell("echo 2 > f"), 0);
    ask_commit(&commit);
    CHECK(commit.is_known && commit.is_dirty);
    lw_commit_release(&commit);
    CHECK_EQ(chdir(here), 0);
    CHECK(lw_file_remove_folder(folder, NULL));
}
