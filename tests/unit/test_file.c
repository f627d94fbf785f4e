#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

/* A folder of its own for each test, entered, and removed at the end. */
static char folder[64];

static void enter_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    CHECK(chdir(folder) == 0);
}

static void leave_folder(void)
{
    struct lw_error err;

    CHECK(chdir("/") == 0);
    CHECK(lw_file_remove_folder(folder, &err));
    CHECK(!lw_file_exists(folder));
}

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2; /* . and .. */
}

static void check_content(const char *path, const char *text)
{
    struct lw_file_view view;
    struct lw_error err;

    CHECK(lw_file_open(&view, path, &err));
    CHECK_EQ(view.len, strlen(text));
    CHECK_BYTES(view.bytes, text, view.len);
    lw_file_close(&view);
}

TEST(a_file_is_replaced_whole_and_private)
{
    struct lw_error err;
    struct stat about;

    enter_folder();
    CHECK(lw_file_replace("out", "first", 5, &err));
    check_content("out", "first");
    CHECK(lw_file_replace("out", "second", 6, &err));
    check_content("out", "second");
    CHECK(stat("out", &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0600);
    CHECK_EQ(count_entries("."), 1); /* no temporary file stays */
    leave_folder();
}

TEST(a_file_written_in_pieces_appears_at_the_end_or_not_at_all)
{
    struct lw_file_out out;
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_replace("out", "old", 3, &err));
    CHECK(lw_file_out_open(&out, "out", &err));
    CHECK(lw_file_out_write(&out, "ne", 2, &err));
    lw_file_out_abandon(&out);
    check_content("out", "old");
    CHECK(lw_file_out_open(&out, "out", &err));
    CHECK(lw_file_out_write(&out, "ne", 2, &err));
    check_content("out", "old");
    CHECK(lw_file_out_write(&out, "wer", 3, &err));
    CHECK(lw_file_out_end(&out, &err));
    check_content("out", "newer");
    CHECK_EQ(count_entries("."), 1);
    CHECK(lw_file_out_open(&out, "/dev/full", &err));
    CHECK(!lw_file_out_write(&out, "gone", 4, &err));
    CHECK_STR(err.text, "cannot write /dev/full: No space left on device");
    leave_folder();
}

TEST(a_link_stays_a_link_and_its_target_is_replaced)
{
    struct lw_error err;
    struct stat about;

    enter_folder();
    CHECK(lw_file_replace("target", "old", 3, &err));
    CHECK(symlink("target", "link") == 0);
    CHECK(lw_file_replace("link", "new", 3, &err));
    CHECK(lstat("link", &about) == 0 && S_ISLNK(about.st_mode));
    check_content("target", "new");
    leave_folder();
}

TEST(a_device_is_written_to_and_not_replaced)
{
    struct lw_error err;
    struct stat about;

    CHECK(lw_file_replace("/dev/null", "gone", 4, &err));
    CHECK(stat("/dev/null", &about) == 0 && S_ISCHR(about.st_mode));
    CHECK(!lw_file_replace("/dev/full", "gone", 4, &err));
    CHECK_STR(err.text, "cannot write /dev/full: No space left on device");
}

TEST(a_failed_write_leaves_the_old_file_and_nothing_else)
{
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_replace("out", "old", 3, &err));
    lw_alloc_fail_in(1);
    CHECK(!lw_file_replace("out", "new", 3, &err));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    CHECK(mkdir("taken", 0700) == 0);
    CHECK(!lw_file_replace("taken", "new", 3, &err));
    CHECK_STR(err.text, "cannot write taken: it is a folder");
    CHECK(!lw_file_replace("no/such/folder", "new", 3, &err));
    CHECK_EQ(err.code, LW_ERR_IO);
    check_content("out", "old");
    CHECK_EQ(count_entries("."), 2);
    leave_folder();
}

TEST(a_disk_that_fills_up_leaves_the_old_file_and_no_temporary_one)
{
    struct rlimit old, small = { 1000, 1000 };
    char bytes[2000] = "new";
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_replace("out", "old", 3, &err));
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(!lw_file_replace("out", bytes, sizeof(bytes), &err));
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK_STR(err.text, "cannot write out: File too large");
    check_content("out", "old");
    CHECK_EQ(count_entries("."), 1);
    leave_folder();
}

TEST(an_empty_file_has_bytes_that_are_not_null)
{
    struct lw_file_view view;
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_replace("empty", "", 0, &err));
    CHECK(lw_file_open(&view, "empty", &err));
    CHECK(view.bytes != NULL);
    CHECK_EQ(view.len, 0);
    lw_file_close(&view);
    lw_file_close(&view); /* zeroed is fine */
    CHECK(lw_file_read(&view, "empty", 0, &err));
    CHECK(view.bytes != NULL);
    lw_file_close(&view);
    leave_folder();
}

TEST(files_that_say_they_are_empty_are_read_to_their_end)
{
    struct lw_file_view view;
    struct lw_error err;

    CHECK(lw_file_open(&view, "/proc/self/status", &err));
    CHECK(view.len > 100);
    CHECK_BYTES(view.bytes, "Name:", 5);
    lw_file_close(&view);
}

TEST(a_file_larger_than_the_limit_is_refused)
{
    struct lw_file_view view;
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_replace("f", "12345678", 8, &err));
    CHECK(lw_file_read(&view, "f", 8, &err));
    lw_file_close(&view);
    CHECK(!lw_file_read(&view, "f", 7, &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    CHECK(!lw_file_read(&view, "/dev/zero", 100000, &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    leave_folder();
}

TEST(what_cannot_be_read_says_why)
{
    struct lw_file_view view;
    struct lw_error err;

    CHECK(!lw_file_open(&view, "/no/such/file", &err));
    CHECK_STR(err.text, "cannot open /no/such/file: No such file or directory");
    CHECK(!lw_file_open(&view, "/tmp", &err));
    CHECK_STR(err.text, "/tmp is a folder, not a file");
    lw_alloc_fail_in(1);
    CHECK(!lw_file_read(&view, "/proc/self/status", 0, &err));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    lw_file_close(&view);
}

TEST(folders_are_made_with_all_above_them)
{
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_make_folders("a/b//c/", &err));
    CHECK(lw_file_is_folder("a/b/c"));
    CHECK(lw_file_make_folders("a/b/c", &err)); /* again */
    CHECK(lw_file_make_folders(".", &err));
    CHECK(lw_file_make_folders("/", &err));
    CHECK(lw_file_replace("a/file", "", 0, &err));
    CHECK(!lw_file_make_folders("a/file", &err));
    CHECK_STR(err.text, "cannot make the folder a/file: Not a directory");
    CHECK(!lw_file_make_folders("a/file/below", &err));
    CHECK(!lw_file_make_folders("", &err));
    lw_alloc_fail_in(1);
    CHECK(!lw_file_make_folders("x", &err));
    leave_folder();
}

TEST(removing_a_folder_never_follows_a_link)
{
    struct lw_error err;

    enter_folder();
    CHECK(lw_file_make_folders("outside", &err));
    CHECK(lw_file_replace("outside/precious", "!", 1, &err));
    CHECK(lw_file_make_folders("run/deep/deeper", &err));
    CHECK(lw_file_replace("run/deep/f", "x", 1, &err));
    CHECK(lw_file_replace("run/g", "x", 1, &err));
    CHECK(symlink("../outside", "run/link") == 0);
    CHECK(symlink("../../outside", "run/deep/link") == 0);
    CHECK(symlink("nowhere", "run/dangling") == 0);

    CHECK(symlink("outside", "alias") == 0);
    CHECK(!lw_file_remove_folder("alias", &err));
    CHECK(lw_file_remove_folder("run", &err));
    CHECK(!lw_file_exists("run"));
    check_content("outside/precious", "!");

    CHECK(!lw_file_remove_folder("run", &err));
    CHECK_STR(err.text, "cannot remove run: No such file or directory");
    CHECK(!lw_file_remove_folder("outside/precious", &err));
    leave_folder();
}

/* "d/d/d", so many deep. */
static void nest(char *path, size_t depth)
{
    memset(path, '/', 2 * depth);
    for (size_t i = 0; i < depth; i++)
        path[2 * i] = 'd';
    path[2 * depth - 1] = '\0';
}

TEST(a_folder_with_many_levels_is_removed_or_refused_in_a_sentence)
{
    struct lw_error err;
    char path[200];

    enter_folder();
    nest(path, 20);
    CHECK(lw_file_make_folders(path, &err));
    CHECK(lw_file_remove_folder("d", &err));
    nest(path, 80);
    CHECK(lw_file_make_folders(path, &err));
    CHECK(!lw_file_remove_folder("d", &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);

    for (size_t depth = 80; depth > 20; depth--) { /* shallow enough again */
        nest(path, depth);
        CHECK(rmdir(path) == 0);
    }
    leave_folder();
}

TEST(paths_are_joined_with_one_slash)
{
    char *path = lw_path_join("a", "b", NULL);

    CHECK_STR(path, "a/b");
    lw_free(path);
    path = lw_path_join("/", "b", NULL);
    CHECK_STR(path, "/b");
    lw_free(path);
    path = lw_path_join("", "b", NULL);
    CHECK_STR(path, "b");
    lw_free(path);
    lw_alloc_fail_in(1);
    CHECK(lw_path_join("a", "b", NULL) == NULL);
}

TEST(writing_waits_for_a_pipe_that_is_full)
{
    int ends[2];
    char *bytes = lw_zalloc(1, 300000, NULL), got[4096];
    size_t total = 0;
    pid_t child;
    ssize_t n;

    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    child = fork();
    if (child == 0)
        _exit(lw_file_write_fd(ends[1], bytes, 300000) ? 0 : 1);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, 0);
    while ((n = read(ends[0], got, sizeof(got))) > 0)
        total += (size_t)n;
    CHECK_EQ(total, 300000);
    close(ends[0]);
    lw_free(bytes);
}

/* In a process of its own, for a limit cannot be raised again. */
TEST(descriptors_are_scarce_from_half_of_the_limit_on_which_can_be_raised)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct rlimit limit = { 40, 200 };
        bool done = setrlimit(RLIMIT_NOFILE, &limit) == 0 && !lw_file_is_scarce(19) &&
                    lw_file_is_scarce(20) && !lw_file_is_scarce(-1);

        lw_file_raise_limit();
        done = done && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 200 &&
               limit.rlim_max == 200 && !lw_file_is_scarce(20) &&
               lw_file_is_scarce(100);
        _exit(done ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}
