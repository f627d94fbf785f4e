/* Takes hellos without ever waiting for one. */

#include "recorder/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/trust.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5; glibc has no name for it before 2.39 */
#endif

#define SOCKET_NAME "agent"
#define FOLDER_PREFIX "lapwing-"
#define FOLDER_NAME_LEN (strlen(FOLDER_PREFIX) + LW_FILE_UNIQUE_LETTERS)
#define BACKLOG 1024           /* a large job's processes all come at once */
#define GUEST_NS 5000000000ull /* a peer that says nothing for so long is dropped */

/* The environment variable that carries the path parts its fields by commas. */
static bool path_is_usable(const char *folder)
{
    struct sockaddr_un address;

    return folder && folder[0] == '/' && !strchr(folder, ',') &&
           strlen(folder) + 1 + FOLDER_NAME_LEN + strlen("/" SOCKET_NAME) <
               sizeof(address.sun_path);
}

/* ---- the folder --------------------------------------------------------------------- */

/* Does nobody take what is sent to the socket of FOLDER? A recorder on a file system
 * without locks does, and one of a version that made none. */
static bool nobody_listens(const struct lw_folder *folder)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused;

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
             folder->fd, SOCKET_NAME);
    is_refused = s >= 0 &&
                 connect(s, (struct sockaddr *)&address, sizeof(address)) != 0 &&
                 errno == ECONNREFUSED;
    if (s >= 0)
        close(s);
    return is_refused;
}

/* Remove the folder NAME of PLACE if a recorder of ours left it behind when it was killed:
 * it has a socket, which is made once the folder is locked, no lock, and no listener. */
static void remove_left(const struct lw_folder *place, const char *name)
{
    struct lw_folder left;
    struct stat about;

    if (!lw_folder_open_in(&left, place, name, NULL))
        return;
    if (fstat(left.fd, &about) == 0 && about.st_uid == geteuid() &&
        fstatat(left.fd, SOCKET_NAME, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(about.st_mode) && flock(left.fd, LOCK_EX | LOCK_NB) == 0 &&
        nobody_listens(&left) && lw_folder_empty(&left, NULL))
        unlinkat(place->fd, name, AT_REMOVEDIR);
    lw_folder_close(&left);
}

static void remove_all_left(const struct lw_folder *place)
{
    DIR *entries = lw_folder_list(place);
    const struct dirent *entry;

    while (entries && (entry = readdir(entries)))
        if (strlen(entry->d_name) == FOLDER_NAME_LEN &&
            memcmp(entry->d_name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) == 0)
            remove_left(place, entry->d_name);
    if (entries)
        closedir(entries);
}

/* Agents look whose the folder is: not every file system says so. */
static bool is_private(const struct lw_folder *folder)
{
    struct stat about;

    return fstat(folder->fd, &about) == 0 && lw_trust_is_private_to(&about, geteuid());
}

/* A folder in PATH, locked for as long as we live. */
static bool make_folder_in(struct lw_listener *listener, const char *path,
                           struct lw_error *err)
{
    struct lw_folder place;
    bool done;

    if (!lw_folder_open(&place, path, err))
        return false;
    remove_all_left(&place);
    done = lw_folder_make_unique_in(&listener->folder, &place, FOLDER_PREFIX, err) &&
           (is_private(&listener->folder) ||
            lw_fail(err, LW_ERR_IO, "%s does not say whose its files are", path));
    if (done && flock(listener->folder.fd, LOCK_EX | LOCK_NB) != 0) {
        /* A file system without locks: nobody can take it for one that was left, either. */
    }
    if (!done && listener->folder.path) {
        unlinkat(place.fd, lw_text_basename(listener->folder.path), AT_REMOVEDIR);
        lw_folder_close(&listener->folder);
    }
    lw_folder_close(&place);
    return done;
}

static bool make_folder(struct lw_listener *listener, struct lw_error *err)
{
    const char *places[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };

    struct lw_error why = { LW_ERR_IO, "their paths are too long" };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (path_is_usable(places[i]) && make_folder_in(listener, places[i], &why))
            return true;
    return lw_fail(
        err, why.code,
        "cannot make a folder for the socket in $XDG_RUNTIME_DIR, $TMPDIR or "
        "/tmp: %s",
        why.text);
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
        !(listener->path = lw_path_join(listener->folder.path, SOCKET_NAME, err))) {
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
    /* With the links in it, and orders that nobody took. What cannot be removed stays. */
    if (listener->folder.path && lw_folder_empty(&listener->folder, NULL))
        rmdir(listener->folder.path);
    lw_folder_close(&listener->folder);
    lw_free(listener->path);
    memset(listener, 0, sizeof(*listener));
    listener->fd = listener->socket_fd = -1;
}

void lw_listener_show_run(struct lw_listener *listener, const struct lw_folder *folder)
{
    char whole[PATH_MAX], identity[LW_FOLDER_IDENTITY_BYTES];
    int in = listener->folder.fd;

    if (realpath(folder->path, whole) && lw_folder_identity(folder, identity, NULL) &&
        symlinkat(identity, in, LW_AGENT_RUN_IDENTITY) == 0 &&
        symlinkat(whole, in, LW_AGENT_RUN_LINK) != 0) {
        /* Then agents do without. */
    }
}

uint64_t lw_listener_missed(const struct lw_listener *listener)
{
    struct stat st;

    if (fstatat(listener->folder.fd, LW_AGENT_MISSED, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    return (uint64_t)st.st_size;
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
        came = true;
        /* Before another user's process can take a guest's place. */
        if (!lw_trust_peer(guest->fd, geteuid(), NULL)) {
            close(guest->fd);
            continue;
        }
        if (!wait_on(listener, guest->fd, EPOLLIN)) {
            close(guest->fd);
            break;
        }
        guest->since_ns = lw_clock_ns();
        listener->guest_count++;
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
    socklen_t len = sizeof(hello->pid_fd);

    if (!lw_trust_peer(fd, geteuid(), &hello->pid))
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &hello->pid_fd, &len) != 0)
        hello->pid_fd = hello->pid > 0 ? pidfd_open(hello->pid, 0) : -1;
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
