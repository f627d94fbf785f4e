/* A window in running processes, from who asks to whose trace is whole. Those who ask are
 * this process, or forks of it, through real sockets; only torch is missing. */

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/text.h"
#include "kineto_fixture.h"
#include "recorder/kineto_daemon_job.h"

#define MS 1000000ull

struct scene {
    char folder[40];
    struct asker asker;
    struct lw_kineto_job job;
    char said[2000]; /* each on a line */
};

static void note(void *to, const char *text)
{
    struct scene *scene = to;
    size_t len = strlen(scene->said);

    snprintf(scene->said + len, sizeof(scene->said) - len, "%s\n", text);
}

/* A job that has nobody in it yet, and waits for none of Kineto's seconds. */
static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    make_folder(scene->folder);
    lw_kineto_job_init(&scene->job);
    scene->job.window.duration_ms = 1;
    scene->job.tick_ns = MS;
    scene->job.say = note;
    scene->job.say_to = scene;
}

static void close_scene(struct scene *scene)
{
    lw_kineto_job_release(&scene->job);
    if (scene->asker.fd > 0)
        close_asker(&scene->asker);
    CHECK(rmdir(scene->folder) == 0);
}

/* The same with this process as the only one. */
static struct lw_kineto_process *open_own(struct scene *scene)
{
    bool added;

    open_scene(scene);
    open_asker(&scene->asker, scene->folder);
    CHECK(lw_kineto_job_add(&scene->job, getpid(), &added, NULL));
    CHECK(added);
    CHECK(lw_kineto_job_open(&scene->job, NULL));
    return &scene->job.processes[0];
}

/* What comes back when this process asks. */
static void ask_job(struct scene *scene, int32_t kinds, char *answer, size_t size)
{
    CHECK(ask(&scene->asker, kinds));
    lw_kineto_job_work(&scene->job);
    CHECK(take_answer(&scene->asker, MSG_DONTWAIT, answer, size) >= 0);
}

/* The file that ORDER names; caller frees. */
static char *ordered_file(const char *order)
{
    const char *file = strstr(order, "ACTIVITIES_LOG_FILE=");

    CHECK(file != NULL);
    file += strlen("ACTIVITIES_LOG_FILE=");
    return lw_copy_text(file, strcspn(file, "\n"), NULL);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(an_order_says_where_to_how_long_and_what)
{
    struct lw_kineto_window window = {
        .what = LW_KINETO_SHAPES | LW_KINETO_STACK,
        .duration_ms = 1500,
        .warmup_s = 5,
        .start_ms = 1794800000000,
    };
    struct lw_buf out;

    lw_buf_init(&out, 0);
    lw_kineto_window_add_order(&out, &window, "/tmp/x/trace.pt.trace.json");
    CHECK_STR(out.bytes, "ACTIVITIES_LOG_FILE=/tmp/x/trace.pt.trace.json\n"
                         "PROFILE_START_TIME=1794800000000\n"
                         "ACTIVITIES_DURATION_MSECS=1500\n"
                         "ACTIVITIES_WARMUP_PERIOD_SECS=5\n"
                         "PROFILE_REPORT_INPUT_SHAPES=true\n"
                         "PROFILE_PROFILE_MEMORY=false\n"
                         "PROFILE_WITH_STACK=true\n"
                         "PROFILE_WITH_FLOPS=false\n"
                         "PROFILE_WITH_MODULES=false\n");
    lw_buf_reset(&out);
    window = (struct lw_kineto_window){ .what = LW_KINETO_MEMORY, .iterations = 3 };
    lw_kineto_window_add_order(&out, &window, "/tmp/x/trace.pt.trace.json");
    CHECK(strstr(out.bytes, "PROFILE_START_ITERATION=0\nACTIVITIES_ITERATIONS=3\n"));
    CHECK(strstr(out.bytes, "PROFILE_PROFILE_MEMORY=true\n"));
    CHECK(!strstr(out.bytes, "ACTIVITIES_DURATION"));
    lw_buf_release(&out);
}

TEST(a_process_that_asks_gets_one_order_and_is_done_when_its_trace_is_whole)
{
    struct scene scene;
    struct lw_kineto_process *process = open_own(&scene);
    char order[2000], again[100], part[300];
    char *file;

    ask_job(&scene, 3, order, sizeof(order));
    CHECK_EQ(process->state, LW_KINETO_ORDERED);
    file = ordered_file(order);
    ask_job(&scene, 1, again, sizeof(again)); /* it is at it: no second order */
    CHECK_STR(again, "");

    snprintf(part, sizeof(part), "%s.tmp", file);
    write_text(part, "{\"traceEvents\": [");
    CHECK(lw_kineto_job_work(&scene.job));
    CHECK(lw_kineto_job_is_ordered(&scene.job, 0));
    write_text(part, "{\"traceEvents\": []}\n");
    CHECK(rename(part, file) == 0);
    CHECK(lw_kineto_job_work(&scene.job)); /* may have grown just now */
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK_EQ(process->state, LW_KINETO_DONE);
    CHECK_STR(process->trace, lw_text_basename(file));
    CHECK(!lw_kineto_job_is_ordered(&scene.job, 0));
    close_scene(&scene);
    CHECK(!lw_file_exists(file)); /* and its folder */
    lw_free(file);
}

TEST(a_trace_that_is_written_in_place_is_waited_for)
{
    struct scene scene;
    struct lw_kineto_process *process = open_own(&scene);
    char order[2000];
    char *file;

    ask_job(&scene, 3, order, sizeof(order));
    file = ordered_file(order);
    write_text(file, "{\"traceEvents\": [\n{}");
    CHECK(lw_kineto_job_work(&scene.job)); /* ends like one, but grows */
    write_text(file, "{\"traceEvents\": [\n{},\n");
    CHECK(lw_kineto_job_work(&scene.job));
    CHECK(lw_kineto_job_work(&scene.job)); /* grows no more, but has no end */
    write_text(file, "{\"traceEvents\": [\n{},\n{}\n]}\n");
    CHECK(lw_kineto_job_work(&scene.job));
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK_EQ(process->state, LW_KINETO_DONE);
    close_scene(&scene);
    lw_free(file);
}

TEST(one_with_a_profiler_of_its_own_gets_its_order_when_that_is_over)
{
    struct scene scene;
    struct lw_kineto_process *process = open_own(&scene);
    char answer[2000];

    ask_job(&scene, 1, answer, sizeof(answer));
    CHECK_STR(answer, "");
    CHECK(strstr(scene.said, "has a profiler of its own running"));
    ask_job(&scene, 3, answer, sizeof(answer));
    CHECK_EQ(process->state, LW_KINETO_ORDERED);
    process->has_order = false; /* nobody will follow it */
    close_scene(&scene);
}

TEST(one_that_is_busy_for_too_long_is_given_up)
{
    struct scene scene;
    struct lw_kineto_process *process = open_own(&scene);
    char answer[100], sentence[200];

    scene.job.busy_ns = 0;
    ask_job(&scene, 1, answer, sizeof(answer));
    CHECK(!lw_kineto_job_work(&scene.job));
    snprintf(sentence, sizeof(sentence),
             "process %d has had a profiler of its own running for 0 s: try again when "
             "that is over",
             (int)getpid());
    CHECK_STR(process->why.text, sentence);
    close_scene(&scene);
}

TEST(one_that_does_not_ask_is_given_up)
{
    struct scene scene;
    struct lw_kineto_process *process = open_own(&scene);

    CHECK(lw_kineto_job_work(&scene.job));
    scene.job.silence_ns = 0;
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK(strstr(process->why.text, "has not asked for 0 s"));
    close_scene(&scene);
}

TEST(an_order_that_comes_to_nothing_is_given_once_more_and_then_given_up)
{
    struct scene scene;
    struct lw_kineto_process *process = open_own(&scene);
    char answer[2000];

    for (int i = 0; i < 2; i++) {
        ask_job(&scene, 3, answer, sizeof(answer));
        CHECK_EQ(process->state, LW_KINETO_ORDERED);
        usleep(20000); /* more than a window of 1 ms and a few ticks take */
        ask_job(&scene, 3, answer, sizeof(answer));
        CHECK_STR(answer, "");
    }
    CHECK_EQ(process->state, LW_KINETO_FAILED);
    CHECK(strstr(process->why.text, "took its order, but no window"));
    CHECK(strstr(scene.said, "did not begin in time; it gets another order"));
    CHECK(!lw_kineto_job_is_ordered(&scene.job, 0));
    close_scene(&scene);
}

TEST(without_steps_there_are_no_iterations_but_the_order_stands)
{
    struct scene scene;
    struct lw_kineto_process *process;
    char order[2000], folder[100];

    process = open_own(&scene);
    scene.job.window.iterations = 3;
    scene.job.step_ns = 0;
    ask_job(&scene, 3, order, sizeof(order));
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK(strstr(process->why.text, "has made no step of a torch optimizer in 0 s"));
    CHECK(lw_kineto_job_is_ordered(&scene.job, 0));
    snprintf(folder, sizeof(folder), "%s", process->folder.folder.path);
    close_scene(&scene);
    CHECK(rmdir(folder) == 0); /* was left: it may be written to */
}

/* A process of its own that asks until it has an order, which it hands over through the
 * pipe, and then sleeps. */
static pid_t start_asker(const char *folder, int ready_fd, int order_fd)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct asker asker;
        char order[2000];
        ssize_t len = 0;

        open_asker(&asker, folder);
        if (write(ready_fd, "", 1) != 1)
            _exit(1);
        while (len <= 0) {
            usleep(5000);
            if (ask(&asker, 3))
                len = take_answer(&asker, 0, order, sizeof(order));
        }
        if (write(order_fd, order, (size_t)len + 1) != len + 1)
            _exit(1);
        close_asker(&asker);
        for (;;)
            pause();
    }
    return pid;
}

/* The value of KEY in ORDER. */
static unsigned long long number_of(const char *order, const char *key)
{
    const char *at = strstr(order, key);

    CHECK(at != NULL);
    return strtoull(at + strlen(key), NULL, 10);
}

TEST(several_processes_begin_at_one_time_and_each_has_its_own_file)
{
    struct scene scene;
    pid_t pids[2];
    int ready[2], orders[2][2];
    char order[2][2000], byte;
    char *files[2];
    bool added;

    open_scene(&scene);
    CHECK(pipe(ready) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pipe(orders[i]) == 0);
        pids[i] = start_asker(scene.folder, ready[1], orders[i][1]);
        CHECK(pids[i] > 0);
        CHECK(read(ready[0], &byte, 1) == 1);
        CHECK(lw_kineto_job_add(&scene.job, pids[i], &added, NULL));
        CHECK(added);
    }
    CHECK(lw_kineto_job_open(&scene.job, NULL));
    while (scene.job.processes[0].state == LW_KINETO_WAITING ||
           scene.job.processes[1].state == LW_KINETO_WAITING) {
        CHECK(lw_kineto_job_work(&scene.job));
        usleep(1000);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(scene.job.processes[i].state, LW_KINETO_ORDERED);
        CHECK(read(orders[i][0], order[i], sizeof(order[i])) > 0);
        files[i] = ordered_file(order[i]);
    }
    CHECK_EQ(number_of(order[0], "PROFILE_START_TIME="),
             number_of(order[1], "PROFILE_START_TIME="));
    CHECK(number_of(order[0], "PROFILE_START_TIME=") > 0);
    CHECK(strcmp(files[0], files[1]) != 0);

    write_text(files[0], "{}"); /* one is done, one is killed */
    CHECK(lw_kineto_job_work(&scene.job));
    kill(pids[1], SIGKILL);
    waitpid(pids[1], NULL, 0);
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK_EQ(scene.job.processes[0].state, LW_KINETO_DONE);
    CHECK_EQ(scene.job.processes[1].state, LW_KINETO_FAILED);
    CHECK(strstr(scene.job.processes[1].why.text, "ended before its window was over"));
    kill(pids[0], SIGKILL);
    waitpid(pids[0], NULL, 0);
    close_scene(&scene);
    for (int i = 0; i < 2; i++) {
        CHECK(!lw_file_exists(files[i]));
        lw_free(files[i]);
        close(orders[i][0]);
        close(orders[i][1]);
    }
    close(ready[0]);
    close(ready[1]);
}

TEST(a_trace_that_was_whole_when_its_process_ended_counts)
{
    struct scene scene;
    int ready[2], orders[2];
    char order[2000], byte;
    char *file;
    bool added;
    pid_t pid;

    open_scene(&scene);
    CHECK(pipe(ready) == 0 && pipe(orders) == 0);
    pid = start_asker(scene.folder, ready[1], orders[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(lw_kineto_job_add(&scene.job, pid, &added, NULL) && added);
    CHECK(lw_kineto_job_open(&scene.job, NULL));
    while (scene.job.processes[0].state == LW_KINETO_WAITING) {
        CHECK(lw_kineto_job_work(&scene.job));
        usleep(1000);
    }
    CHECK(read(orders[0], order, sizeof(order)) > 0);
    file = ordered_file(order);
    write_text(file, "{}");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK_EQ(scene.job.processes[0].state, LW_KINETO_DONE);
    close_scene(&scene);
    lw_free(file);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(orders[i]);
    }
}

TEST(who_only_inherited_a_socket_does_not_ask)
{
    struct scene scene;
    bool added;
    pid_t pid;

    open_own(&scene);
    pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    CHECK(lw_kineto_job_add(&scene.job, pid, &added, NULL));
    CHECK(!added);
    CHECK(lw_kineto_job_add(&scene.job, getpid(), &added, NULL));
    CHECK(!added); /* it is there already */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close_scene(&scene);
}

TEST(a_process_that_does_not_ask_is_told_why)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_kineto_job job;
    char sentence[200];
    bool added;

    lw_kineto_job_init(&job);
    CHECK(lw_kineto_job_add(&job, getpid(), &added, &err));
    CHECK(!added);
    CHECK(!lw_kineto_client_explain(getpid(), &err));
    snprintf(sentence, sizeof(sentence),
             "process %d has not imported torch (yet); without --torch, lapwing attach "
             "samples it",
             (int)getpid());
    CHECK_STR(err.text, sentence);
    CHECK(!lw_kineto_job_add(&job, 0x7ffffff0, &added, &err));
    lw_kineto_job_release(&job);
}
