/* Binds the daemon's name, takes datagrams apart and answers them. */

#include "recorder/kineto_daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define DAEMON_NAME "dynolog"
#define TYPE_BYTES 32
#define NONSENSE_MAX 64    /* datagrams; then others have their turn */
#define KINDS_ACTIVITIES 2 /* the bit of `kinds` that asks for a window */

struct head {
    uint64_t payload_bytes;
    char type[TYPE_BYTES]; /* padded with NULs */
};

struct request {
    int32_t kinds;
    int32_t count;
    int64_t job;
    /* int32_t pids[count] */
};

struct context {
    int32_t gpu;
    int32_t pid;
    int64_t job;
};

_Static_assert(sizeof(struct head) == 40 && sizeof(struct request) == 16 &&
                   sizeof(struct context) == 16,
               "as Kineto lays them out");

/* ---- the socket --------------------------------------------------------------------- */

/* The name that has NULs at both ends, of which the last counts too. */
static socklen_t abstract_address(struct sockaddr_un *address)
{
    memcpy(address->sun_path + 1, DAEMON_NAME, sizeof(DAEMON_NAME));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       sizeof(DAEMON_NAME));
}

/* Is what lies at the path a socket that a daemon left behind when it was killed? */
static bool is_left_over(const struct sockaddr_un *address, socklen_t len)
{
    struct stat about;
    bool is_left = false;
    int fd;

    if (lstat(address->sun_path, &about) != 0 || !S_ISSOCK(about.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        is_left = connect(fd, (const struct sockaddr *)address, len) != 0 &&
                  errno == ECONNREFUSED;
        close(fd);
    }
    return is_left;
}

static bool bind_to(struct lw_kineto_daemon *daemon, const struct sockaddr_un *address,
                    socklen_t len, struct lw_error *err)
{
    const char *name = daemon->path ? daemon->path : "@" DAEMON_NAME;
    const struct sockaddr *to = (const struct sockaddr *)address;

    if (bind(daemon->fd, to, len) == 0)
        return true;
    if (errno != EADDRINUSE)
        return lw_fail_errno(err, "%s: cannot listen", name);
    if (daemon->path && is_left_over(address, len) && unlink(daemon->path) == 0 &&
        bind(daemon->fd, to, len) == 0)
        return true;
    return lw_fail(
        err, LW_ERR_IO,
        "a daemon has the socket on which torch asks (%s): stop it (dynolog, or another "
        "lapwing attach --torch), or ask it for the window",
        name);
}

static bool listen_at(struct lw_kineto_daemon *daemon, const char *folder,
                      struct lw_error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t len = sizeof(address);
    char *path = NULL;
    int yes = 1;

    if (!folder) {
        len = abstract_address(&address);
    } else {
        path = lw_path_join(folder, DAEMON_NAME, err);
        if (!path)
            return false;
        if (strlen(path) >= sizeof(address.sun_path)) {
            lw_fail(err, LW_ERR_LIMIT,
                    "%s: the path is too long for a socket (KINETO_IPC_SOCKET_DIR)",
                    path);
            lw_free(path);
            return false;
        }
        memcpy(address.sun_path, path, strlen(path));
    }
    daemon->path = path;
    daemon->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (daemon->fd < 0)
        lw_fail_errno(err, "cannot make a socket");
    /* The kernel says who sent what from before the first datagram on. */
    else if (setsockopt(daemon->fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0)
        lw_fail_errno(err, "cannot ask for the senders of a socket");
    /* The job's own user must be able to send, whoever we are; what others send is dropped
     * by what the kernel says of them. The file that bind() makes takes its mode from the
     * socket: to change it at its path would be to change whatever lies there by then. */
    else if (fchmod(daemon->fd, 0666) != 0)
        lw_fail_errno(err, "cannot let others send to a socket");
    else if (bind_to(daemon, &address, len, err))
        return true;
    lw_free(daemon->path); /* not ours to remove */
    daemon->path = NULL;
    lw_kineto_daemon_close(daemon);
    return false;
}

bool lw_kineto_daemon_open(struct lw_kineto_daemon *daemon, const char *folder,
                           const struct lw_theirs *theirs, struct lw_error *err)
{
    struct lw_trust_acting acting;
    mode_t mask;
    bool done;

    *daemon = (struct lw_kineto_daemon){ .fd = -1 };
    if (!lw_theirs_begin(&acting, theirs, err))
        return false;
    mask = umask(0);
    done = listen_at(daemon, folder, err);
    umask(mask);
    lw_trust_act_end(&acting);
    daemon->theirs = *theirs;
    return done;
}

void lw_kineto_daemon_close(struct lw_kineto_daemon *daemon)
{
    struct lw_trust_acting acting;

    if (daemon->fd >= 0)
        close(daemon->fd);
    if (daemon->path && lw_theirs_begin(&acting, &daemon->theirs, NULL)) {
        unlink(daemon->path);
        lw_trust_act_end(&acting);
    }
    lw_free(daemon->path);
    *daemon = (struct lw_kineto_daemon){ .fd = -1 };
}

/* ---- messages ----------------------------------------------------------------------- */

static bool parse_request(struct lw_kineto_message *message, const unsigned char *bytes,
                          size_t len)
{
    struct request request;

    if (len < sizeof(request) + sizeof(int32_t))
        return false;
    memcpy(&request, bytes, sizeof(request));
    if (request.count < 1 ||
        (uint32_t)request.count != (len - sizeof(request)) / sizeof(int32_t) ||
        (len - sizeof(request)) % sizeof(int32_t) != 0)
        return false;
    message->kind = LW_KINETO_REQUEST;
    message->is_idle = (request.kinds & KINDS_ACTIVITIES) != 0;
    return true;
}

bool lw_kineto_message_parse(struct lw_kineto_message *message,
                             const unsigned char *bytes, size_t len)
{
    struct head head;

    memset(message, 0, sizeof(*message));
    if (len < sizeof(head))
        return false;
    memcpy(&head, bytes, sizeof(head));
    if (head.payload_bytes != len - sizeof(head))
        return false;
    bytes += sizeof(head);
    len -= sizeof(head);
    if (strncmp(head.type, "ctxt", sizeof(head.type)) == 0) {
        message->kind = LW_KINETO_CONTEXT;
        return len == sizeof(struct context);
    }
    return strncmp(head.type, "req", sizeof(head.type)) == 0 &&
           parse_request(message, bytes, len);
}

/* Who sent it, as the kernel says; descriptors that came along are closed. */
static bool identify(struct msghdr *received, struct lw_kineto_message *message)
{
    bool known = false;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(received); part;
         part = CMSG_NXTHDR(received, part)) {
        struct ucred sender;

        if (part->cmsg_level != SOL_SOCKET)
            continue;
        if (part->cmsg_type == SCM_CREDENTIALS &&
            part->cmsg_len == CMSG_LEN(sizeof(sender))) {
            memcpy(&sender, CMSG_DATA(part), sizeof(sender));
            message->pid = sender.pid;
            message->sender = (struct lw_theirs){ sender.uid, sender.gid };
            known = true;
        } else if (part->cmsg_type == SCM_RIGHTS) {
            size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

            for (size_t i = 0; i < count; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
                close(fd);
            }
        }
    }
    return known;
}

bool lw_kineto_daemon_next(struct lw_kineto_daemon *daemon,
                           struct lw_kineto_message *message)
{
    for (int dropped = 0; dropped < NONSENSE_MAX; dropped++) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(4 * sizeof(int))];
        } control;
        struct sockaddr_un address;
        struct iovec part = { daemon->bytes, sizeof(daemon->bytes) };
        struct msghdr received = {
            .msg_name = &address,
            .msg_namelen = sizeof(address),
            .msg_iov = &part,
            .msg_iovlen = 1,
            .msg_control = control.bytes,
            .msg_controllen = sizeof(control.bytes),
        };
        ssize_t len = recvmsg(daemon->fd, &received, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        struct lw_kineto_message who = { 0 };

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return false;
        if (!identify(&received, &who) || (received.msg_flags & MSG_TRUNC) ||
            received.msg_namelen > sizeof(address) ||
            !lw_kineto_message_parse(message, daemon->bytes, (size_t)len))
            continue;
        message->pid = who.pid;
        message->sender = who.sender;
        message->address = address;
        message->address_len = received.msg_namelen;
        return true;
    }
    return false;
}

bool lw_kineto_daemon_answer(const struct lw_kineto_daemon *daemon,
                             const struct lw_kineto_message *message, const char *text,
                             size_t len)
{
    static const int32_t one = 1;
    bool is_request = message->kind == LW_KINETO_REQUEST;
    struct head head = { .payload_bytes = is_request ? len : sizeof(one) };
    struct iovec parts[] = {
        { &head, sizeof(head) },
        { is_request ? (void *)text : (void *)&one, head.payload_bytes },
    };
    struct msghdr sent = {
        .msg_name = (void *)&message->address,
        .msg_namelen = message->address_len,
        .msg_iov = parts,
        .msg_iovlen = head.payload_bytes ? 2 : 1,
    };

    struct lw_trust_acting acting;
    bool done;

    memcpy(head.type, is_request ? "req" : "ctxt", is_request ? 3 : 4);
    /* By now another socket may lie at the sender's path: one that they may send to. */
    if (!lw_theirs_begin(&acting, &message->sender, NULL))
        return false;
    done = sendmsg(daemon->fd, &sent, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    lw_trust_act_end(&acting);
    return done;
}
