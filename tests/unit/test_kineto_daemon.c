/* The daemon that torch asks: its sockets are real, its datagrams as torch sends them, and
 * as nobody should. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "kineto_fixture.h"
#include "recorder/kineto_daemon.h"

struct pair {
    char folder[40];
    struct lw_kineto_daemon daemon;
    struct asker asker;
};

static void open_pair(struct pair *pair)
{
    make_folder(pair->folder);
    CHECK(lw_kineto_daemon_open(&pair->daemon, pair->folder, ourselves(), NULL));
    open_asker(&pair->asker, pair->folder);
}

static void close_pair(struct pair *pair)
{
    lw_kineto_daemon_close(&pair->daemon);
    close_asker(&pair->asker);
    CHECK(rmdir(pair->folder) == 0); /* neither leaves anything */
}

TEST(who_asks_is_known_from_the_kernel_and_gets_an_order)
{
    struct lw_kineto_message message;
    struct pair pair;
    char text[100];

    open_pair(&pair);
    CHECK(!lw_kineto_daemon_next(&pair.daemon, &message));
    CHECK(ask(&pair.asker, 3));
    CHECK(lw_kineto_daemon_next(&pair.daemon, &message));
    CHECK_EQ(message.kind, LW_KINETO_REQUEST);
    CHECK_EQ(message.pid, getpid());
    CHECK(message.is_idle);
    CHECK(lw_kineto_daemon_answer(&pair.daemon, &message, "A=1\n", 4));
    CHECK_EQ(take_answer(&pair.asker, 0, text, sizeof(text)), 4);
    CHECK_STR(text, "A=1\n");
    CHECK(!lw_kineto_daemon_next(&pair.daemon, &message));
    close_pair(&pair);
}

TEST(one_that_profiles_is_not_idle_and_nothing_to_do_is_an_empty_answer)
{
    struct lw_kineto_message message;
    struct pair pair;
    char text[100];

    open_pair(&pair);
    CHECK(ask(&pair.asker, 1));
    CHECK(lw_kineto_daemon_next(&pair.daemon, &message));
    CHECK(!message.is_idle);
    CHECK(lw_kineto_daemon_answer(&pair.daemon, &message, NULL, 0));
    CHECK_EQ(take_answer(&pair.asker, 0, text, sizeof(text)), 0);
    close_pair(&pair);
}

TEST(a_hello_is_answered_with_a_count)
{
    struct {
        int32_t gpu, pid;
        int64_t job;
    } hello = { 0, 1, 0 };
    struct lw_kineto_message message;
    struct pair pair;
    unsigned char bytes[128];
    char text[100];
    int32_t count;

    open_pair(&pair);
    CHECK(send_bytes(&pair.asker, bytes,
                     make_datagram(bytes, "ctxt", &hello, sizeof(hello))));
    CHECK(lw_kineto_daemon_next(&pair.daemon, &message));
    CHECK_EQ(message.kind, LW_KINETO_CONTEXT);
    CHECK_EQ(message.pid, getpid()); /* and not what it says of itself */
    CHECK(lw_kineto_daemon_answer(&pair.daemon, &message, "not for it", 10));
    CHECK_EQ(take_answer(&pair.asker, 0, text, sizeof(text)), 4);
    memcpy(&count, text, 4);
    CHECK_EQ(count, 1);
    close_pair(&pair);
}

TEST(a_request_cut_anywhere_is_none)
{
    struct lw_kineto_message message;
    unsigned char bytes[128];
    size_t len = make_request(bytes, 3);

    CHECK(lw_kineto_message_parse(&message, bytes, len));
    for (size_t cut = 0; cut < len; cut++)
        CHECK(!lw_kineto_message_parse(&message, bytes, cut));
    CHECK(!lw_kineto_message_parse(&message, bytes, len + 1));
}

TEST(a_request_whose_counts_lie_is_none)
{
    static const int32_t counts[] = { 0, 1, 3, -1, INT32_MIN, INT32_MAX, 0x40000002 };
    static const uint64_t sizes[] = { 0, 23, 25, UINT64_MAX, UINT64_MAX - 39 };
    struct lw_kineto_message message;
    unsigned char bytes[128];
    size_t len = make_request(bytes, 3);

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        memcpy(bytes + 44, &counts[i], 4);
        CHECK(!lw_kineto_message_parse(&message, bytes, len));
    }
    make_request(bytes, 3);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memcpy(bytes, &sizes[i], 8);
        CHECK(!lw_kineto_message_parse(&message, bytes, len));
    }
    make_request(bytes, 3);
    memset(bytes + 8, 'r', 32); /* a type without an end */
    CHECK(!lw_kineto_message_parse(&message, bytes, len));
}

static size_t open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Send LEN bytes with a descriptor of ours. */
static void send_with_descriptor(const struct asker *asker, void *bytes, size_t len)
{
    struct sockaddr_un daemon = socket_in(asker->folder, "dynolog");
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS } };
    struct iovec part = { bytes, len };
    struct msghdr message = {
        .msg_name = &daemon,
        .msg_namelen = sizeof(daemon),
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };

    memcpy(CMSG_DATA(&control.head), &asker->fd, sizeof(int));
    CHECK(sendmsg(asker->fd, &message, 0) == (ssize_t)len);
}

TEST(what_makes_no_sense_is_dropped_and_the_next_is_heard)
{
    struct lw_kineto_message message;
    unsigned char bytes[LW_KINETO_MESSAGE_BYTES + 100] = { 0 };
    struct pair pair;
    size_t len, before;

    open_pair(&pair);
    CHECK(send_bytes(&pair.asker, bytes, 0));
    CHECK(send_bytes(&pair.asker, bytes, 40));
    CHECK(send_bytes(&pair.asker, bytes, sizeof(bytes)));
    CHECK(send_bytes(&pair.asker, bytes, make_datagram(bytes, "quit", "", 0)));
    len = make_request(bytes, 3);
    before = open_descriptors();
    send_with_descriptor(&pair.asker, bytes, len);
    CHECK(lw_kineto_daemon_next(&pair.daemon, &message));
    CHECK_EQ(message.pid, getpid());
    CHECK_EQ(open_descriptors(), before);
    CHECK(!lw_kineto_daemon_next(&pair.daemon, &message));
    close_pair(&pair);
}

TEST(one_that_cannot_be_answered_is_no_harm)
{
    struct sockaddr_un to;
    struct lw_kineto_message message;
    unsigned char bytes[128];
    struct pair pair;
    size_t len = make_request(bytes, 3);
    int nameless = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    open_pair(&pair);
    to = socket_in(pair.folder, "dynolog");
    CHECK(sendto(nameless, bytes, len, 0, (struct sockaddr *)&to, sizeof(to)) ==
          (ssize_t)len);
    CHECK(lw_kineto_daemon_next(&pair.daemon, &message));
    CHECK(!lw_kineto_daemon_answer(&pair.daemon, &message, NULL, 0));
    close(nameless);
    close_pair(&pair);
}

TEST(a_daemon_that_is_there_is_not_driven_out)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_kineto_daemon second;
    char sentence[300];
    struct pair pair;

    open_pair(&pair);
    CHECK(!lw_kineto_daemon_open(&second, pair.folder, ourselves(), &err));
    snprintf(
        sentence, sizeof(sentence),
        "a daemon has the socket on which torch asks (%s/dynolog): stop it (dynolog, "
        "or another lapwing attach --torch), or ask it for the window",
        pair.folder);
    CHECK_STR(err.text, sentence);
    CHECK(ask(&pair.asker, 3)); /* the first still hears */
    close_pair(&pair);
}

TEST(the_socket_of_a_daemon_that_was_killed_is_replaced)
{
    struct sockaddr_un address;
    struct lw_kineto_daemon daemon;
    struct stat about;
    char folder[40];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    make_folder(folder);
    address = socket_in(folder, "dynolog");
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    close(fd);
    CHECK(lw_kineto_daemon_open(&daemon, folder, ourselves(), NULL));
    CHECK(stat(address.sun_path, &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0666); /* the job may be another user's */
    lw_kineto_daemon_close(&daemon);
    CHECK(rmdir(folder) == 0);
}

TEST(a_file_that_is_no_socket_is_left_alone)
{
    struct sockaddr_un address;
    struct lw_kineto_daemon daemon;
    char folder[40];

    make_folder(folder);
    address = socket_in(folder, "dynolog");
    CHECK(lw_file_replace(address.sun_path, "mine", 4, NULL));
    CHECK(!lw_kineto_daemon_open(&daemon, folder, ourselves(), NULL));
    CHECK(lw_file_exists(address.sun_path));
    unlink(address.sun_path);
    CHECK(rmdir(folder) == 0);
}

TEST(a_folder_that_is_too_long_or_not_there_is_a_sentence)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_kineto_daemon daemon;
    char folder[200];

    memset(folder, 'x', sizeof(folder));
    folder[0] = '/';
    folder[150] = '\0';
    CHECK(!lw_kineto_daemon_open(&daemon, folder, ourselves(), &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    CHECK(!lw_kineto_daemon_open(&daemon, "/nowhere/at/all", ourselves(), &err));
    CHECK_STR(err.text,
              "/nowhere/at/all/dynolog: cannot listen: No such file or directory");
}

/* Others on the machine may be using the name for a moment. */
static bool open_abstract(struct lw_kineto_daemon *daemon)
{
    for (int i = 0; i < 300; i++) {
        if (lw_kineto_daemon_open(daemon, NULL, ourselves(), NULL))
            return true;
        poll(NULL, 0, 100);
    }
    return false;
}

TEST(without_a_folder_the_name_is_that_of_dynolog)
{
    static const char name[] = "\0dynolog\0"; /* its last NUL counts */
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct lw_kineto_daemon daemon;
    unsigned char bytes[128];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, name, 9);
    CHECK(open_abstract(&daemon));
    CHECK(sendto(fd, bytes, make_request(bytes, 3), 0, (struct sockaddr *)&address,
                 sizeof(sa_family_t) + 9) > 0);
    close(fd);
    lw_kineto_daemon_close(&daemon);
}
