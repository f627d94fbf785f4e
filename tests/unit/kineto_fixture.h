/* A torch that asks its daemon, as far as sockets go: for tests of the daemon. Its sockets
 * lie in a folder, so that tests and real daemons do not meet. */
#ifndef KINETO_FIXTURE_H
#define KINETO_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "recorder/theirs.h"
#include "test.h"

struct asker {
    char folder[40]; /* of the sockets */
    int fd;
};

/* The user of the tests. */
static inline const struct lw_theirs *ourselves(void)
{
    static struct lw_theirs us;

    us = (struct lw_theirs){ getuid(), getgid() };
    return &us;
}

static inline struct sockaddr_un socket_in(const char *folder, const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, name);
    return address;
}

static inline void make_folder(char folder[static 40])
{
    snprintf(folder, 40, "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
}

/* One that asks the daemon in FOLDER. */
static inline void open_asker(struct asker *asker, const char *folder)
{
    struct sockaddr_un address;
    char name[64];

    snprintf(asker->folder, sizeof(asker->folder), "%s", folder);
    snprintf(name, sizeof(name), "dynoconfigclient-%d", (int)getpid());
    address = socket_in(folder, name);
    asker->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(bind(asker->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
}

static inline void close_asker(struct asker *asker)
{
    char name[64];
    struct sockaddr_un address;

    snprintf(name, sizeof(name), "dynoconfigclient-%d", (int)getpid());
    address = socket_in(asker->folder, name);
    unlink(address.sun_path);
    close(asker->fd);
}

/* A datagram of TYPE with the LEN bytes at PAYLOAD, at BYTES; how long it is. */
static inline size_t make_datagram(unsigned char *bytes, const char *type,
                                   const void *payload, size_t len)
{
    uint64_t payload_bytes = len;

    memset(bytes, 0, 40);
    memcpy(bytes, &payload_bytes, 8);
    memcpy(bytes + 8, type, strlen(type));
    memcpy(bytes + 40, payload, len);
    return 40 + len;
}

/* What torch 2.13 asks: KINDS is 3 when it is idle, 1 while it profiles. */
static inline size_t make_request(unsigned char *bytes, int32_t kinds)
{
    struct {
        int32_t kinds, count;
        int64_t job;
        int32_t pids[2];
    } request = { kinds, 2, 0, { (int32_t)getpid(), (int32_t)getppid() } };

    return make_datagram(bytes, "req", &request, sizeof(request));
}

static inline bool send_bytes(const struct asker *asker, const void *bytes, size_t len)
{
    struct sockaddr_un daemon = socket_in(asker->folder, "dynolog");

    return sendto(asker->fd, bytes, len, 0, (struct sockaddr *)&daemon,
                  sizeof(daemon)) == (ssize_t)len;
}

static inline bool ask(const struct asker *asker, int32_t kinds)
{
    unsigned char bytes[128];

    return send_bytes(asker, bytes, make_request(bytes, kinds));
}

/* The answer that is there, without its head, as text; -1: there is none. */
static inline ssize_t take_answer(const struct asker *asker, int flags, char *text,
                                  size_t size)
{
    unsigned char bytes[8192];
    ssize_t len = recv(asker->fd, bytes, sizeof(bytes), flags);
    uint64_t payload_bytes;

    if (len < 0)
        return -1;
    memcpy(&payload_bytes, bytes, 8);
    CHECK_EQ(payload_bytes, len - 40);
    CHECK(payload_bytes < size);
    memcpy(text, bytes + 40, payload_bytes);
    text[payload_bytes] = '\0';
    return (ssize_t)payload_bytes;
}

#endif
