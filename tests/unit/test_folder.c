/* Folders by descriptor, and whom we trust: links, pipes and other users' things. */

#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/trust.h"

#define NOBODY 65534 /* any user but root and ourselves */

static char place[64];

static struct lw_folder open_place(void)
{
    struct lw_folder folder;

    snprintf(place, sizeof(place), "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(place) != NULL);
    CHECK(lw_folder_open(&folder, place, NULL));
    return folder;
}

static void close_place(struct lw_folder *folder)
{
    lw_folder_close(folder);
    CHECK(lw_file_remove_folder(place, NULL));
}

static void check_refused(const struct lw_folder *folder, const char *name,
                          const char *why)
{
    struct lw_file_view view;
    struct lw_error err = { LW_OK, "" };

    CHECK(!lw_folder_read(&view, folder, name, 0, &err));
    CHECK(strstr(err.text, why));
    CHECK(!lw_folder_map(&view, folder, name, &err));
    CHECK(strstr(err.text, why));
}

TEST(only_regular_files_are_read_and_no_way_leads_out)
{
    struct lw_folder folder = open_place(), inner;
    struct lw_file_view view;

    CHECK(lw_folder_make_in(&inner, &folder, "inner", NULL));
    CHECK(lw_folder_replace(&inner, "file", "text", 4, NULL));
    CHECK(lw_folder_read(&view, &folder, "inner/file", 0, NULL));
    CHECK_EQ(view.len, 4);
    lw_file_close(&view);

    CHECK(symlinkat("inner/file", folder.fd, "link") == 0);
    CHECK(symlinkat("inner", folder.fd, "way") == 0);
    CHECK(mkfifoat(folder.fd, "pipe", 0600) == 0);
    check_refused(&folder, "link", "is a link, not a file");
    check_refused(&folder, "way/file", "cannot open");
    check_refused(&folder, "pipe", "is a pipe, not a file");
    check_refused(&folder, "inner", "is a folder, not a file");
    check_refused(&folder, "inner/../inner/file", "cannot open");
    check_refused(&folder, "/etc/passwd", "cannot open");
    lw_folder_close(&inner);
    CHECK(!lw_folder_open_in(&inner, &folder, "way", NULL));
    close_place(&folder);
}

TEST(a_link_is_replaced_and_what_it_leads_to_stays)
{
    struct lw_folder folder = open_place();
    struct lw_file_view view;

    CHECK(lw_folder_replace(&folder, "precious", "old", 3, NULL));
    CHECK(symlinkat("precious", folder.fd, "link") == 0);
    CHECK(lw_folder_replace(&folder, "link", "new", 3, NULL));
    CHECK(lw_folder_read(&view, &folder, "precious", 0, NULL));
    CHECK_BYTES(view.bytes, "old", 3);
    lw_file_close(&view);
    CHECK(lw_folder_read(&view, &folder, "link", 0, NULL));
    CHECK_BYTES(view.bytes, "new", 3);
    lw_file_close(&view);
    close_place(&folder);
}

TEST(a_folder_that_was_moved_is_still_the_one_that_is_written_to)
{
    struct lw_folder folder = open_place(), inner;
    struct lw_file_view view;

    CHECK(lw_folder_make_unique_in(&inner, &folder, "run-", NULL));
    CHECK(renameat(folder.fd, strrchr(inner.path, '/') + 1, folder.fd, "moved") == 0);
    CHECK(symlink("/", inner.path) == 0);
    CHECK(lw_folder_replace(&inner, "file", "text", 4, NULL));
    CHECK(lw_folder_read(&view, &folder, "moved/file", 0, NULL));
    lw_file_close(&view);
    CHECK(lw_folder_empty(&inner, NULL));
    check_refused(&folder, "moved/file", "No such file");
    lw_folder_close(&inner);
    close_place(&folder);
}

TEST(another_users_link_in_a_folder_for_all_is_not_followed_to_write)
{
    struct lw_folder folder = open_place();
    struct lw_file_view view;
    struct lw_error err = { LW_OK, "" };
    char link[100];

    if (geteuid() != 0) { /* nobody else can be played */
        close_place(&folder);
        return;
    }
    snprintf(link, sizeof(link), "%s/out.svg", place);
    CHECK(lw_folder_replace(&folder, "precious", "old", 3, NULL));
    CHECK(symlinkat("precious", folder.fd, "out.svg") == 0);
    CHECK(fchownat(folder.fd, "out.svg", NOBODY, NOBODY, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(fchmod(folder.fd, 01777) == 0);
    CHECK(!lw_file_replace(link, "new", 3, &err));
    CHECK(strstr(err.text, "a link that another user left"));
    CHECK(lw_folder_read(&view, &folder, "precious", 0, NULL));
    CHECK_BYTES(view.bytes, "old", 3);
    lw_file_close(&view);
    /* One of our own is, and one in a folder that is not for all. */
    CHECK(fchownat(folder.fd, "out.svg", 0, 0, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(lw_file_replace(link, "new", 3, &err));
    CHECK(fchownat(folder.fd, "out.svg", NOBODY, NOBODY, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(fchmod(folder.fd, 0755) == 0);
    CHECK(lw_file_replace(link, "new", 3, &err));
    close_place(&folder);
}

TEST(acting_as_another_user_root_gets_no_further_than_they_do)
{
    struct lw_folder folder = open_place(); /* root's, 0700 */
    struct lw_trust_acting acting;
    struct stat about;
    char file[100];

    if (geteuid() != 0) { /* nobody else can be played */
        close_place(&folder);
        return;
    }
    snprintf(file, sizeof(file), "%s/file", place);
    CHECK(lw_trust_act_as(&acting, NOBODY, NOBODY, NULL));
    CHECK(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
    lw_trust_act_end(&acting);
    CHECK(fchmod(folder.fd, 0777) == 0);
    CHECK(lw_trust_act_as(&acting, NOBODY, NOBODY, NULL));
    CHECK(lw_folder_replace(&folder, "file", "", 0, NULL));
    lw_trust_act_end(&acting);
    CHECK(stat(file, &about) == 0);
    CHECK_EQ(about.st_uid, NOBODY);
    CHECK_EQ(about.st_gid, NOBODY);
    CHECK(chown(file, 0, 0) == 0); /* we are root again */
    close_place(&folder);
}

TEST(source_is_opened_by_what_it_is_behind_links_too)
{
    struct lw_folder folder = open_place();
    struct stat about;
    char path[100];
    int fd;

    CHECK(lw_folder_replace(&folder, "a.py", "x", 1, NULL));
    CHECK(lw_folder_replace(&folder, "shadow", "x", 1, NULL));
    CHECK(symlinkat("a.py", folder.fd, "good.py") == 0);
    CHECK(symlinkat("shadow", folder.fd, "bad.py") == 0);
    CHECK(mkfifoat(folder.fd, "pipe.py", 0600) == 0);
    snprintf(path, sizeof(path), "%s/good.py", place);
    fd = lw_trust_open_source(path, &about);
    CHECK(fd >= 0);
    close(fd);
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[] = { "shadow", "bad.py", "pipe.py", "none.py" };

        snprintf(path, sizeof(path), "%s/%s", place, names[i]);
        CHECK(lw_trust_open_source(path, &about) < 0);
    }
    close_place(&folder);
}
