/* Takes hellos without ever waiting for one. */

#include "recorder/listener.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5; glibc has no name for it before 2.39 */
#endif

#define SOCKET_NAME "agent"
#define FOLDER_PATTERN "lapwing-XXXXXX"
#define BACKLOG 1024           /* a large job's processes all come at once */
#define GUEST_NS 5000000000ull /* a peer that says nothing for so long is dropped */

/* The environment variable that carries the path parts its fields by commas. */
static bool path_is_usable(const char *folder)
{
    struct sockaddr_un address;

    return folder && folder[0] == '/' && !strchr(folder, ',') &&
           strlen(folder) + strlen("/" FOLDER_PATTERN "/" SOCKET_NAME) <
               sizeof(address.sun_path);
}

static bool make_folder(struct lw_listener *listener, struct lw_error *err)
{
    const char *places[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (!path_is_usable(places[i]))
            continue;
        lw_free(listener->folder);
        listener->folder = lw_path_join(places[i], FOLDER_PATTERN, err);
        if (!listener->folder)
            return false;
        if (mkdtemp(listener->folder)) /* with mode 0700 */
            return true;
    }
    lw_fail_errno(err, "cannot make a folder for the socket in $XDG_RUNTIME_DIR, "
                       "$TMPDIR or /tmp");
    lw_free(listener->folder);
    listener->folder = NULL;
    return false;
}

static bool wait_on(struct lw_listener *listener, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events };

    return epoll_ctl(listener->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool lw_listener_open(struct lw_listener *listener, struct lw_error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    memset(listener, 0, sizeof(*listener));
    listener->fd = listener->socket_fd = -1;
    listener->guest_most = LW_LISTENER_GUESTS;
    while (listener->guest_most > 4 && lw_file_is_scarce(8 * (int)listener->guest_most))
        listener->guest_most /= 2;
    if (!make_folder(listener, err) ||
        !(listener->path = lw_path_join(listener->folder, SOCKET_NAME, err))) {
        lw_listener_close(listener);
        return false;
    }
    memcpy(address.sun_path, listener->path, strlen(listener->path));
    listener->fd = epoll_create1(EPOLL_CLOEXEC);
    listener->socket_fd =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Waited on by change only: a full house of silent guests, with more at the door,
     * must not keep us awake. */
    if (listener->fd < 0 || listener->socket_fd < 0 ||
        bind(listener->socket_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener->socket_fd, BACKLOG) != 0 ||
        !wait_on(listener, listener->socket_fd, EPOLLIN | EPOLLET)) {
        lw_fail_errno(err, "%s: cannot listen", listener->path);
        lw_listener_close(listener);
        return false;
    }
    return true;
}

void lw_listener_close(struct lw_listener *listener)
{
    for (size_t i = 0; i < listener->guest_count; i++)
        close(listener->guests[i].fd);
    if (listener->socket_fd >= 0)
        close(listener->socket_fd);
    if (listener->fd >= 0)
        close(listener->fd);
    /* With the link in it, and orders that nobody took. */
    if (listener->folder && !lw_file_remove_folder(listener->folder, NULL)) {
        /* Somebody has put there what we may not remove. */
    }
    lw_free(listener->path);
    lw_free(listener->folder);
    memset(listener, 0, sizeof(*listener));
    listener->fd = listener->socket_fd = -1;
}

void lw_listener_show_run(struct lw_listener *listener, const char *path)
{
    char whole[PATH_MAX];
    char *link = lw_path_join(listener->folder, LW_AGENT_RUN_LINK, NULL);

    if (link && realpath(path, whole) && symlink(whole, link) != 0) {
        /* Then agents do without. */
    }
    lw_free(link);
}

uint64_t lw_listener_missed(const struct lw_listener *listener)
{
    char *path = lw_path_join(listener->folder, LW_AGENT_MISSED, NULL);
    struct stat st;
    uint64_t count = 0;

    if (path && lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        count = (uint64_t)st.st_size;
    lw_free(path);
    return count;
}

bool lw_listener_accept(struct lw_listener *listener)
{
    struct epoll_event events[LW_LISTENER_GUESTS + 1];
    bool came = false;

    /* Only to have them noticed: everybody is asked anyway. */
    epoll_wait(listener->fd, events, LW_LISTENER_GUESTS + 1, 0);
    while (listener->guest_count < listener->guest_most) {
        struct lw_guest *guest = &listener->guests[listener->guest_count];

        guest->fd =
            accept4(listener->socket_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (guest->fd < 0)
            break;
        if (!wait_on(listener, guest->fd, EPOLLIN)) {
            close(guest->fd);
            break;
        }
        guest->since_ns = lw_clock_ns();
        listener->guest_count++;
        came = true;
    }
    return came;
}

void lw_hello_close(struct lw_hello *hello)
{
    int *fds[] = { &hello->region_fd, &hello->memory_fd, &hello->pid_fd };

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* The descriptors that came along; one too many is closed. */
static void take_descriptors(struct msghdr *message, struct lw_hello *hello)
{
    int *places[LW_HELLO_FDS] = { &hello->region_fd, &hello->memory_fd };
    size_t taken = 0;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
         part = CMSG_NXTHDR(message, part)) {
        size_t count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            if (taken < LW_HELLO_FDS)
                *places[taken++] = fd;
            else
                close(fd);
        }
    }
}

/* The kernel's word on who the peer is; false: not somebody we listen to. */
static bool identify(int fd, struct lw_hello *hello)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
        (peer.uid != geteuid() && peer.uid != 0))
        return false;
    hello->pid = peer.pid;
    len = sizeof(hello->pid_fd);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &hello->pid_fd, &len) != 0)
        hello->pid_fd = peer.pid > 0 ? pidfd_open(peer.pid, 0) : -1;
    return true;
}

/* What recvmsg() left in `message`, LEN bytes of it, as a hello. */
static bool parse(struct lw_listener *listener, size_t len, struct lw_hello *hello)
{
    struct lw_agent_hello head;

    if (len < sizeof(head))
        return false;
    memcpy(&head, listener->message, sizeof(head));
    if (head.magic != LW_AGENT_MAGIC || head.version != LW_AGENT_VERSION ||
        head.text_bytes != len - sizeof(head))
        return false;
    listener->message[len] = '\0';
    hello->kind = head.kind;
    hello->text = listener->message + sizeof(head);
    hello->text_len = head.text_bytes;
    if (hello->text_len > 0 && hello->text[hello->text_len - 1] == '\0')
        hello->text_len--;
    return true;
}

enum heard { HEARD_NOTHING, HEARD_HELLO, HEARD_NONSENSE };

static enum heard hear(struct lw_listener *listener, const struct lw_guest *guest,
                       struct lw_hello *hello)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = { listener->message, sizeof(listener->message) - 1 };
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t len = recvmsg(guest->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    memset(hello, 0, sizeof(*hello));
    hello->region_fd = hello->memory_fd = hello->pid_fd = -1;
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return lw_clock_ns() - guest->since_ns < GUEST_NS ? HEARD_NOTHING
                                                          : HEARD_NONSENSE;
    if (len <= 0)
        return HEARD_NONSENSE;
    take_descriptors(&message, hello);
    if ((message.msg_flags & MSG_CTRUNC) && parse(listener, (size_t)len, hello) &&
        identify(guest->fd, hello))
        listener->cut_count++;
    else if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
             parse(listener, (size_t)len, hello) && identify(guest->fd, hello))
        return HEARD_HELLO;
    lw_hello_close(hello);
    return HEARD_NONSENSE;
}

bool lw_listener_next(struct lw_listener *listener, struct lw_hello *hello)
{
    size_t i = 0;

    while (i < listener->guest_count) {
        struct lw_guest *guest = &listener->guests[i];
        enum heard heard = hear(listener, guest, hello);

        if (heard == HEARD_NOTHING) {
            i++;
            continue;
        }
        close(guest->fd);
        listener->guest_count--;
        memmove(guest, guest + 1, (listener->guest_count - i) * sizeof(*guest));
        if (heard == HEARD_HELLO)
            return true;
    }
    return false;
}
