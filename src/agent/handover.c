/* The agent's only words to the recorder. No descriptor of ours stays open in the
 * watched program: it may number and close its own as it likes. */

#include "agent/handover.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool take(struct lw_agent_config *config, const char *key, size_t key_len,
                 const char *value, size_t len)
{
    char number[24];

    if (key_len == 6 && memcmp(key, "socket", 6) == 0) {
        if (len == 0 || len >= sizeof(config->socket))
            return false;
        memcpy(config->socket, value, len);
        return true;
    }
    if (key_len == 5 && memcmp(key, "calls", 5) == 0) {
        config->c_calls = len == 1 && value[0] == 'c';
        config->calls =
            config->c_calls || (len == 6 && memcmp(value, "python", 6) == 0);
        return true;
    }
    if (key_len == 8 && memcmp(key, "timeline", 8) == 0) {
        config->timeline = len == 1 && value[0] == '1';
        return true;
    }
    if (key_len == 6 && memcmp(key, "sample", 6) == 0) {
        config->sample = len == 1 && value[0] == '1';
        return true;
    }
    if (key_len == 3 && memcmp(key, "ops", 3) == 0) {
        if (len == 3 && memcmp(value, "all", 3) == 0)
            config->ops = LW_OPS_ALL;
        else if (len == 7 && memcmp(value, "windows", 7) == 0)
            config->ops = LW_OPS_WINDOWS;
        return true;
    }
    if (key_len == 5 && memcmp(key, "steps", 5) == 0) {
        config->steps = len == 1 && value[0] == '1';
        return true;
    }
    if (key_len == 11 && memcmp(key, "min_span_ns", 11) == 0) {
        if (len == 0 || len >= sizeof(number))
            return false;
        memcpy(number, value, len);
        number[len] = '\0';
        config->min_span_ns = strtoull(number, NULL, 10);
        return true;
    }
    return true; /* a newer program's word: not for us */
}

bool lw_agent_config_parse(struct lw_agent_config *config, const char *text)
{
    memset(config, 0, sizeof(*config));
    while (*text) {
        size_t len = strcspn(text, ",");
        const char *equals = memchr(text, '=', len);

        if (!equals || !take(config, text, (size_t)(equals - text), equals + 1,
                             len - (size_t)(equals + 1 - text))) {
            memset(config, 0, sizeof(*config));
            return false;
        }
        text += len + (text[len] == ',');
    }
    return config->socket[0] != '\0';
}

/* ---- whom we talk to ------------------------------------------------------------------ */

/* From where a process sees files, and as whom. */
struct view {
    uid_t user;
    dev_t root_device;
    ino_t root;
    ino_t mounts; /* the mount namespace; 0: /proc does not say */
};

/* An address whose recorder is gone. */
struct departed {
    atomic_bool is_known;
    char socket[sizeof(((struct lw_agent_config *)0)->socket)];
};

/* What a child learns its parent knows: all that are forked from one ancestor share the
 * page. But a child that has become another user, or looks at other files (chroot, a mount
 * namespace), learns nothing about the recorder, only about itself. */
struct family {
    struct departed departed;
    struct view view;
};

static struct family *family; /* mapped before the first fork; NULL: it cannot be */
static struct departed
    departed_here; /* for this process, and what it forks from now on */

static struct view view_of_files(void)
{
    struct view view = { .user = geteuid() };
    struct stat about;

    if (stat("/", &about) == 0) {
        view.root_device = about.st_dev;
        view.root = about.st_ino;
    }
    if (stat("/proc/self/ns/mnt", &about) == 0)
        view.mounts = about.st_ino;
    return view;
}

static bool is_as_the_family(struct view view)
{
    return view.user == family->view.user && view.root == family->view.root &&
           view.root_device == family->view.root_device &&
           view.mounts == family->view.mounts;
}

static bool has_departed(struct departed *departed, const char *socket_path)
{
    return atomic_load(&departed->is_known) &&
           strcmp(departed->socket, socket_path) == 0;
}

bool lw_handover_is_over(const char *socket_path)
{
    return has_departed(&departed_here, socket_path) ||
           (family && has_departed(&family->departed, socket_path));
}

static void note_departed(const char *socket_path)
{
    struct departed *departed = &departed_here;
    size_t len = strlen(socket_path);

    if (len >= sizeof(departed->socket))
        return;
    if (family && is_as_the_family(view_of_files()))
        departed = &family->departed;
    /* A reader that races with this sees no match and tries the address once more. */
    atomic_store(&departed->is_known, false);
    memcpy(departed->socket, socket_path, len + 1);
    atomic_store(&departed->is_known, true);
}

static void found_family(void)
{
    void *page;

    if (family)
        return;
    page = mmap(NULL, sizeof(*family), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    family = page;
    family->view = view_of_files();
}

static bool is_trusted(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* Is the folder of the socket a real one, of this user's or root's, where nobody else may
 * put a socket? */
static bool is_folder_private(const char *socket_path)
{
    const char *slash = strrchr(socket_path, '/');
    char folder[sizeof(((struct lw_agent_config *)0)->socket)];
    size_t len = slash ? (size_t)(slash - socket_path) : 0;
    struct stat about;

    if (len == 0 || len >= sizeof(folder))
        return false;
    memcpy(folder, socket_path, len);
    folder[len] = '\0';
    return lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) &&
           is_trusted(about.st_uid) && !(about.st_mode & (S_IWGRP | S_IWOTH));
}

/* The kernel's word on who listens; what the folder was when we looked may have changed. */
static bool is_listener_trusted(int s)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           is_trusted(peer.uid);
}

/* Connect S to the recorder; false: it is not there, or does not answer now. */
static bool reach(int s, const char *socket_path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    memcpy(address.sun_path, socket_path, strlen(socket_path));
    if (!is_folder_private(socket_path)) {
        note_departed(socket_path);
        errno = EACCES;
        return false;
    }
    if (connect(s, (struct sockaddr *)&address, sizeof(address)) != 0) {
        if (errno == ECONNREFUSED || errno == ENOENT)
            note_departed(socket_path);
        return false;
    }
    if (is_listener_trusted(s))
        return true;
    note_departed(socket_path);
    errno = EACCES;
    return false;
}

/* ---- the message --------------------------------------------------------------------- */

/* How many of FDS there are, up to the first that is not. */
static size_t count_fds(const int *fds)
{
    size_t count = 0;

    while (fds && count < LW_HELLO_FDS && fds[count] >= 0)
        count++;
    return count;
}

bool lw_handover_send(const char *socket_path, enum lw_hello_kind kind, const int *fds,
                      const char *text, size_t text_len, uint32_t argument_count)
{
    struct lw_agent_hello hello = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_AGENT_VERSION,
        .kind = kind,
        .argument_count = argument_count,
    };
    struct iovec parts[2] = { { &hello, sizeof(hello) },
                              { (void *)(uintptr_t)text, text_len } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(LW_HELLO_FDS * sizeof(int))];
    } control = { .bytes = { 0 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    size_t fd_count = count_fds(fds);
    bool sent;
    int s, error;

    found_family();
    if (strlen(socket_path) >= sizeof(((struct sockaddr_un *)0)->sun_path) ||
        lw_handover_is_over(socket_path))
        return false;
    if (text_len > LW_HELLO_TEXT_BYTES)
        parts[1].iov_len = LW_HELLO_TEXT_BYTES;
    hello.text_bytes = (uint32_t)parts[1].iov_len;

    s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return false;
    if (fd_count > 0) {
        struct cmsghdr *head;

        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
    }
    sent = reach(s, socket_path) && sendmsg(s, &message, MSG_NOSIGNAL) > 0;
    error = errno;
    close(s);
    errno = error;
    return sent;
}
