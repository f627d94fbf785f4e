/* A recorder that listens and takes nothing: hellos never wait, and are counted. */

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/handover.h"
#include "agent/missed.h"
#include "base/clock.h"
#include "base/file.h"

struct place {
    char folder[64];
    char socket[80];
    char missed[80];
};

static struct place make_place(void)
{
    struct place place;

    snprintf(place.folder, sizeof(place.folder), "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(place.folder));
    snprintf(place.socket, sizeof(place.socket), "%s/agent", place.folder);
    snprintf(place.missed, sizeof(place.missed), "%s/%s", place.folder,
             LW_AGENT_MISSED);
    return place;
}

/* -1: there is no such file. */
static long bytes_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 ? (long)st.st_size : -1;
}

TEST(a_hello_never_waits_for_a_recorder_that_takes_none)
{
    struct place place = make_place();
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int s = socket(AF_UNIX, SOCK_SEQPACKET, 0), sent = 0;
    uint64_t began_ns;

    memcpy(address.sun_path, place.socket, strlen(place.socket));
    CHECK_EQ(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(s, 3), 0);
    while (sent < 10 && lw_handover_send(place.socket, LW_HELLO_NOTE, NULL, "x", 1, 0))
        sent++;
    CHECK(sent > 0 && sent < 10);
    CHECK_EQ(errno, EAGAIN);
    began_ns = lw_clock_ns();
    for (int i = 0; i < 30; i++)
        CHECK(!lw_handover_send(place.socket, LW_HELLO_NOTE, NULL, "x", 1, 0));
    /* Each waited a second once. */
    CHECK(lw_clock_ns() - began_ns < 15000000000ull);
    close(s);
    CHECK(!lw_handover_send(place.socket, LW_HELLO_NOTE, NULL, "x", 1, 0));
    CHECK_EQ(errno, ECONNREFUSED);
    CHECK(lw_file_remove_folder(place.folder, NULL));
}

TEST(each_process_that_is_missed_is_one_byte)
{
    struct place place = make_place();

    for (int i = 0; i < 3; i++)
        lw_missed_note(place.socket);
    CHECK_EQ(bytes_of(place.missed), 3);
    lw_missed_note("");
    lw_missed_note("agent");
    lw_missed_note("/nonexistent/agent");
    CHECK(lw_file_remove_folder(place.folder, NULL));
}

TEST(nothing_is_written_into_what_somebody_else_put_there)
{
    struct place place = make_place(), other = make_place();
    char kept[80], linked[80];

    /* The file is a link, a second name of another file, or no file at all. */
    snprintf(kept, sizeof(kept), "%s/kept", other.folder);
    close(open(kept, O_WRONLY | O_CREAT, 0600));
    CHECK_EQ(symlink(kept, place.missed), 0);
    lw_missed_note(place.socket);
    CHECK_EQ(unlink(place.missed), 0);
    CHECK_EQ(link(kept, place.missed), 0);
    lw_missed_note(place.socket);
    CHECK_EQ(unlink(place.missed), 0);
    CHECK_EQ(mkfifo(place.missed, 0600), 0);
    lw_missed_note(place.socket);
    CHECK_EQ(unlink(place.missed), 0);
    CHECK_EQ(bytes_of(kept), 0);

    /* The folder is a link. */
    snprintf(linked, sizeof(linked), "%s/link", other.folder);
    CHECK_EQ(symlink(place.folder, linked), 0);
    snprintf(linked, sizeof(linked), "%s/link/agent", other.folder);
    lw_missed_note(linked);
    CHECK_EQ(bytes_of(place.missed), -1);

    /* Or another user's. */
    if (chown(place.folder, 65534, 65534) == 0) {
        lw_missed_note(place.socket);
        CHECK_EQ(bytes_of(place.missed), -1);
    }
    CHECK(lw_file_remove_folder(place.folder, NULL));
    CHECK(lw_file_remove_folder(other.folder, NULL));
}
