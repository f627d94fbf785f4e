/* Any bytes as what somebody says on the recorder's socket: as they are, and as the text
 * of a hello whose head is right, which is then taken apart (recorder/listener.c,
 * facts.c). The first byte says how many descriptors come along. */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/facts.h"
#include "recorder/listener.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { FDS_MAX = 5 };

static struct lw_listener listener = { .fd = -1, .socket_fd = -1 };
static int null_fd;

static void close_listener(void)
{
    lw_listener_close(&listener);
}

static void begin(void)
{
    if (listener.fd >= 0)
        return;
    if (!lw_listener_open(&listener, NULL))
        abort();
    atexit(close_listener);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void say(const void *bytes, size_t len, size_t fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control = { .bytes = { 0 } };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct iovec part = { (void *)(uintptr_t)bytes, len };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, listener.path, strlen(listener.path));
    if (s < 0 || connect(s, (struct sockaddr *)&address, sizeof(address)) != 0) {
        perror(listener.path);
        abort();
    }
    if (fd_count > 0) {
        struct cmsghdr *head;

        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        for (size_t i = 0; i < fd_count; i++)
            memcpy(CMSG_DATA(head) + i * sizeof(int), &null_fd, sizeof(int));
    }
    if (sendmsg(s, &message, MSG_NOSIGNAL) < 0) {
        /* Longer than a socket takes at once: nobody hears it. */
    }
    close(s);
}

static size_t open_fds(void)
{
    size_t count = 0;

    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void hear(void)
{
    struct lw_hello hello;

    lw_listener_accept(&listener);
    while (lw_listener_next(&listener, &hello)) {
        struct lw_error err = { LW_OK, "" };
        struct lw_hello_text text;

        if (strlen(hello.text) > hello.text_len || hello.pid != getpid())
            abort();
        if (!lw_facts_read_hello(&text, hello.text, hello.text_len, &err) &&
            !err.text[0])
            abort();
        lw_buf_release(&text.command);
        lw_hello_close(&hello);
    }
    if (listener.guest_count != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char message[sizeof(struct lw_agent_hello) + LW_HELLO_TEXT_BYTES];
    struct lw_agent_hello head = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_AGENT_VERSION,
    };
    size_t fds, before;

    if (len < 2 || len - 2 > LW_HELLO_TEXT_BYTES)
        return 0;
    begin();
    before = open_fds();
    fds = bytes[0] % (FDS_MAX + 1);
    say(bytes + 1, len - 1, fds);
    hear();
    head.kind = bytes[1];
    head.text_bytes = (uint32_t)(len - 2);
    memcpy(message, &head, sizeof(head));
    memcpy(message + sizeof(head), bytes + 2, len - 2);
    say(message, sizeof(head) + len - 2, fds);
    hear();
    if (open_fds() != before) /* whatever was sent along */
        abort();
    return 0;
}
