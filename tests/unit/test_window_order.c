/* Orders to processes that are recorded: who takes them, what is left for them, and what
 * becomes of it. The recorder is a socket; the processes are real, but have no torch. */

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/layout.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "kineto_fixture.h"
#include "recorder/kineto_daemon_job.h"
#include "recorder/window_order.h"

#define MS 1000000ull
#define NOBODY 65534 /* any user but root and ourselves */

/* ---- who takes them ------------------------------------------------------------------ */

static int listen_in(const char *folder)
{
    struct sockaddr_un address = socket_in(folder, "agent");
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, 8) == 0);
    return fd;
}

static void remove_socket(const char *folder, int fd)
{
    struct sockaddr_un address = socket_in(folder, "agent");

    close(fd);
    unlink(address.sun_path);
}

/* A process that waits, and was started with VARIABLE alone. */
static pid_t start_with(char *variable)
{
    char *argv[] = { "sleep", "60", NULL }, *environment[] = { variable, NULL };
    pid_t pid = fork();

    if (pid == 0) {
        execve("/bin/sleep", argv, environment);
        _exit(1);
    }
    /* Its name is the new one before its environment is. */
    for (bool is_there = false; !is_there;) {
        char path[40], seen[100] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
        file = fopen(path, "r");
        is_there = file && fread(seen, 1, sizeof(seen) - 1, file) > 0 &&
                   strcmp(seen, variable) == 0;
        if (file)
            fclose(file);
        if (!is_there)
            usleep(1000);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Why a process that was started with VARIABLE takes no orders; "": it is not known. */
static void check_refused(char *variable, const char *why)
{
    pid_t pid = start_with(variable);
    const char *reason;
    char *socket;

    CHECK(lw_order_find(pid, &socket, &reason, NULL));
    CHECK(socket == NULL);
    CHECK_STR(reason ? reason : "", why);
    end(pid);
}

TEST(a_process_takes_orders_while_somebody_records_its_steps)
{
    char folder[40], variable[100];
    const char *reason;
    char *socket;
    pid_t pid;
    int fd;

    make_folder(folder);
    fd = listen_in(folder);
    snprintf(variable, sizeof(variable),
             "LAPWING_AGENT=socket=%s/agent,ops=off,steps=1", folder);
    pid = start_with(variable);
    CHECK(lw_order_find(pid, &socket, &reason, NULL));
    CHECK(socket && strncmp(socket, folder, strlen(folder)) == 0);
    CHECK(reason == NULL);
    lw_free(socket);
    end(pid);

    check_refused("HOME=/", "");
    check_refused("LAPWING_AGENT=nonsense", "");
    variable[strlen(variable) - 1] = '0';
    check_refused(variable,
                  "was started by 'lapwing run --no-steps', and windows begin "
                  "with steps: start it without");
    variable[strlen(variable) - 1] = '1';
    close(fd);
    check_refused(variable, "takes no orders any more: the lapwing run that started it "
                            "has ended");
    remove_socket(folder, -1);
    CHECK(rmdir(folder) == 0);
}

/* ---- what is left for them ---------------------------------------------------------- */

static void read_text(const char *folder, const char *name, char *text, size_t size)
{
    char *path = lw_path_join(folder, name, NULL);
    struct lw_file_view view = { 0 };

    CHECK(lw_file_read(&view, path, size - 1, NULL));
    memcpy(text, view.bytes, view.len);
    text[view.len] = '\0';
    lw_file_close(&view);
    lw_free(path);
}

TEST(an_order_is_a_file_and_a_word_to_the_recorder)
{
    struct lw_kineto_window window = { .what = LW_KINETO_SHAPES | LW_KINETO_MEMORY,
                                       .iterations = 3,
                                       .start_ms = 12 };
    struct lw_kineto_folder place;
    struct lw_agent_hello hello;
    char folder[40], socket[60], name[40], text[300], expected[300], message[100];
    char identity[LW_FOLDER_IDENTITY_BYTES];
    int fd, guest, len;

    CHECK(lw_kineto_folder_make(getpid(), &place, NULL));
    CHECK(lw_folder_identity(&place.folder, identity, NULL));
    make_folder(folder);
    fd = listen_in(folder);
    snprintf(socket, sizeof(socket), "%s/agent", folder);
    CHECK(lw_order_give(getpid(), socket, &window, &place, NULL));
    snprintf(name, sizeof(name), "order-%d", (int)getpid());
    read_text(folder, name, text, sizeof(text));
    snprintf(expected, sizeof(expected),
             "folder=%s\nfolder_id=%s\niterations=3\nduration_ms=0\nstart_ms=12\n"
             "shapes=1\nmemory=1\n",
             place.folder.path, identity);
    CHECK_STR(text, expected);
    guest = accept(fd, NULL, NULL);
    len = snprintf(name, sizeof(name), "%d", (int)getpid());
    CHECK_EQ(recv(guest, message, sizeof(message), 0), sizeof(hello) + (size_t)len);
    memcpy(&hello, message, sizeof(hello));
    CHECK_EQ(hello.kind, LW_HELLO_ORDER);
    CHECK_EQ(hello.text_bytes, len);
    CHECK(memcmp(message + sizeof(hello), name, (size_t)len) == 0);
    close(guest);

    lw_order_withdraw(getpid(), socket, &place);
    lw_kineto_folder_remove(&place);
    remove_socket(folder, fd);
    CHECK(rmdir(folder) == 0); /* nothing is left */
}

TEST(without_a_recorder_there_is_no_order)
{
    struct lw_kineto_window window = { .duration_ms = 1 };
    struct lw_kineto_folder place;
    struct lw_error err;
    char folder[40], socket[60];

    CHECK(lw_kineto_folder_make(getpid(), &place, NULL));
    make_folder(folder);
    remove_socket(folder, listen_in(folder));
    snprintf(socket, sizeof(socket), "%s/agent", folder);
    CHECK(!lw_order_give(getpid(), socket, &window, &place, &err));
    lw_kineto_folder_remove(&place);
    CHECK(rmdir(folder) == 0);
}

/* ---- as root, of another user's process ---------------------------------------------- */

/* A process of user NOBODY that waits, and a folder of theirs; false: we are not root. */
static bool start_theirs(char folder[static 40], pid_t *pid)
{
    if (geteuid() != 0) {
        fprintf(stderr, "not root: nobody else can be played\n");
        return false;
    }
    make_folder(folder);
    CHECK(chown(folder, NOBODY, NOBODY) == 0);
    *pid = fork();
    if (*pid == 0) {
        if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(1);
        prctl(PR_SET_DUMPABLE, 1);
        for (;;)
            pause();
    }
    for (struct lw_theirs theirs = { 0 }; theirs.uid != NOBODY;)
        if (!lw_theirs_of(*pid, &theirs, NULL))
            usleep(1000); /* between its two calls it is of both */
    return true;
}

/* A socket in FOLDER that NOBODY listens on. */
static pid_t listen_as_theirs(const char *folder)
{
    int ready[2];
    pid_t pid;
    char byte;

    CHECK(pipe(ready) == 0);
    pid = fork();
    if (pid == 0) {
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(1);
        listen_in(folder);
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static bool is_theirs(const char *path)
{
    struct stat about;

    return lstat(path, &about) == 0 && about.st_uid == NOBODY;
}

TEST(a_link_where_an_order_goes_leads_root_nowhere)
{
    struct lw_kineto_window window = { .iterations = 1 };
    struct lw_kineto_folder place;
    char folder[40], ours[40], socket[60], secret[80], name[100], text[40];
    pid_t pid, listener;

    if (!start_theirs(folder, &pid))
        return;
    make_folder(ours); /* root's, 0700 */
    snprintf(secret, sizeof(secret), "%s/secret", ours);
    CHECK(lw_file_replace(secret, "root's", 6, NULL));
    listener = listen_as_theirs(folder);
    snprintf(socket, sizeof(socket), "%s/agent", folder);
    snprintf(name, sizeof(name), "%s/order-%d", folder, (int)pid);
    CHECK(symlink(secret, name) == 0);
    CHECK(lchown(name, NOBODY, NOBODY) == 0);

    CHECK(lw_kineto_folder_make(pid, &place, NULL));
    CHECK(is_theirs(place.folder.path));
    CHECK(lw_order_give(pid, socket, &window, &place, NULL));
    read_text(ours, "secret", text, sizeof(text));
    CHECK_STR(text, "root's");
    CHECK(!is_theirs(secret));
    CHECK(is_theirs(name)); /* the order, in place of the link */
    lw_order_withdraw(pid, socket, &place);
    CHECK(!lw_file_exists(name));

    lw_kineto_folder_remove(&place);
    end(listener);
    end(pid);
    CHECK(lw_file_remove_folder(folder, NULL));
    CHECK(lw_file_remove_folder(ours, NULL));
}

TEST(a_folder_that_is_a_link_to_ones_of_root_takes_no_order)
{
    struct lw_kineto_window window = { .iterations = 1 };
    struct lw_kineto_folder place;
    struct lw_error err = { LW_OK, "" };
    char folder[40], ours[40], link[60], socket[80], name[80];
    pid_t pid;
    int fd;

    if (!start_theirs(folder, &pid))
        return;
    make_folder(ours);
    fd = listen_in(ours);
    snprintf(link, sizeof(link), "%s/link", folder);
    snprintf(socket, sizeof(socket), "%s/agent", link);
    snprintf(name, sizeof(name), "%s/order-%d", ours, (int)pid);
    CHECK(symlink(ours, link) == 0);

    CHECK(lw_kineto_folder_make(pid, &place, NULL));
    CHECK(!lw_order_give(pid, socket, &window, &place, &err));
    CHECK(strstr(err.text, "Permission denied"));
    CHECK(!lw_file_exists(name));
    /* Where it may be entered, it is still not one in which that user could put things. */
    CHECK(chmod(ours, 0777) == 0);
    CHECK(!lw_order_give(pid, socket, &window, &place, &err));
    CHECK(strstr(err.text, "is another user's"));
    CHECK(!lw_file_exists(name));

    lw_kineto_folder_remove(&place);
    end(pid);
    remove_socket(ours, fd);
    CHECK(lw_file_remove_folder(folder, NULL));
    CHECK(rmdir(ours) == 0);
}

TEST(what_is_put_in_place_of_a_trace_is_not_read_by_root)
{
    struct lw_kineto_folder place;
    struct lw_file_view view;
    struct lw_error err = { LW_OK, "" };
    char folder[40], secret[80], name[120];
    pid_t pid;

    if (!start_theirs(folder, &pid))
        return;
    snprintf(secret, sizeof(secret), "%s/secret", folder);
    CHECK(lw_file_replace(secret, "{}", 2, NULL)); /* root's, 0600 */
    CHECK(lw_kineto_folder_make(pid, &place, NULL));
    snprintf(name, sizeof(name), "%s/trace.json", place.folder.path);
    CHECK(symlink(secret, name) == 0);
    CHECK(!lw_kineto_folder_read(&place, "trace.json", 0, &view, &err));
    CHECK(strstr(err.text, "is a link, not a file"));
    CHECK(unlink(name) == 0);
    CHECK(link(secret, name) == 0);
    CHECK(!lw_kineto_folder_read(&place, "trace.json", 0, &view, &err));
    CHECK(strstr(err.text, "Permission denied"));
    CHECK(unlink(name) == 0);
    CHECK(mkfifo(name, 0666) == 0);
    CHECK(!lw_kineto_folder_read(&place, "trace.json", 0, &view, &err));
    CHECK(strstr(err.text, "is a pipe, not a file"));

    lw_kineto_folder_remove(&place);
    end(pid);
    CHECK(lw_file_remove_folder(folder, NULL));
}

/* ---- what becomes of it ------------------------------------------------------------- */

struct scene {
    struct lw_kineto_job job;
    char said[1000];
};

static void note(void *to, const char *text)
{
    struct scene *scene = to;
    size_t len = strlen(scene->said);

    snprintf(scene->said + len, sizeof(scene->said) - len, "%s\n", text);
}

/* A job of COUNT recorded processes, all of which are this one; their orders are given. */
static void open_scene(struct scene *scene, size_t count)
{
    struct lw_kineto_job *job = &scene->job;

    memset(scene, 0, sizeof(*scene));
    lw_kineto_job_init(job);
    job->say = note;
    job->say_to = scene;
    job->late_ns = job->step_ns = 3600 * 1000 * MS;
    CHECK(
        lw_grow(&job->processes, &job->capacity, count, sizeof(*job->processes), NULL));
    for (size_t i = 0; i < count; i++) {
        struct lw_kineto_process *process = &job->processes[job->count++];

        *process = (struct lw_kineto_process){ .pid = getpid(), .pid_fd = -1 };
        process->since_ns = lw_clock_ns();
        process->recorder = lw_copy_text("/nowhere/agent", 14, NULL);
        CHECK(lw_kineto_folder_make(getpid(), &process->folder, NULL));
    }
}

static void put(const struct lw_kineto_process *process, const char *name,
                const char *text)
{
    char *path = lw_path_join(process->folder.folder.path, name, NULL);

    CHECK(lw_file_replace(path, text, strlen(text), NULL));
    lw_free(path);
}

TEST(a_recorded_process_is_done_when_its_trace_is_there)
{
    struct scene scene;
    struct lw_kineto_process *process;

    open_scene(&scene, 1);
    process = &scene.job.processes[0];
    CHECK(lw_kineto_job_work(&scene.job));
    CHECK_EQ(process->state, LW_KINETO_WAITING);
    put(process, "busy", "");
    CHECK(lw_kineto_job_work(&scene.job));
    CHECK(strstr(scene.said, "has a profiler of its own running"));
    put(process, "begun", "");
    CHECK(lw_kineto_job_work(&scene.job));
    CHECK_EQ(process->state, LW_KINETO_ORDERED);
    CHECK(strstr(scene.said, "is in its window"));
    put(process, "trace.pt.trace.json", "{}");
    CHECK(lw_kineto_job_work(&scene.job)); /* whole if it does not grow any more */
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK_EQ(process->state, LW_KINETO_DONE);
    CHECK(process->trace != NULL);
    lw_kineto_job_release(&scene.job);
}

TEST(who_makes_no_step_is_left_out_when_the_others_are_done)
{
    struct scene scene;
    struct lw_kineto_job *job = &scene.job;

    open_scene(&scene, 2);
    put(&job->processes[0], "begun", "");
    put(&job->processes[0], "trace.pt.trace.json", "{}");
    CHECK(lw_kineto_job_work(job) && lw_kineto_job_work(job) &&
          lw_kineto_job_work(job));
    CHECK_EQ(job->processes[0].state, LW_KINETO_DONE);
    CHECK_EQ(job->processes[1].state, LW_KINETO_WAITING);
    job->late_ns = 0;
    CHECK(!lw_kineto_job_work(job));
    CHECK_EQ(job->processes[1].state, LW_KINETO_LEFT_OUT);
    lw_kineto_job_release(job);
}

TEST(where_one_is_enough_the_first_that_begins_is_it)
{
    struct scene scene;
    struct lw_kineto_job *job = &scene.job;

    open_scene(&scene, 2);
    job->is_for_one = true;
    put(&job->processes[1], "begun", "");
    CHECK(lw_kineto_job_work(job) && lw_kineto_job_work(job));
    CHECK_EQ(job->processes[0].state, LW_KINETO_LEFT_OUT);
    CHECK_EQ(job->processes[1].state, LW_KINETO_ORDERED);
    lw_kineto_job_release(job);
}

TEST(what_a_process_says_of_its_failure_is_passed_on)
{
    struct scene scene;
    char sentence[100];

    open_scene(&scene, 1);
    put(&scene.job.processes[0], "begun", "");
    put(&scene.job.processes[0], "failed", "took no window: out of luck\nand more");
    CHECK(!lw_kineto_job_work(&scene.job));
    snprintf(sentence, sizeof(sentence), "process %d took no window: out of luck",
             (int)getpid());
    CHECK_STR(scene.job.processes[0].why.text, sentence);
    lw_kineto_job_release(&scene.job);
}

TEST(a_process_without_steps_is_given_up)
{
    struct scene scene;

    open_scene(&scene, 1);
    scene.job.step_ns = 0;
    CHECK(!lw_kineto_job_work(&scene.job));
    CHECK(strstr(scene.job.processes[0].why.text, "has begun no step in 0 s"));
    lw_kineto_job_release(&scene.job);
}
