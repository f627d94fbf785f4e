/* The daemon that torch's own profiler (Kineto) asks for orders, when a job was started
 * with KINETO_USE_DAEMON: dynolog, or in its place we.
 *
 * Every few seconds a thread of such a job sends one datagram to a socket of a fixed name
 * and waits 90 ms for an answer: nothing to do, or the text of a window to take. We bind
 * that name only while somebody wants a window.
 *
 *     daemon     abstract "\0dynolog\0", or $KINETO_IPC_SOCKET_DIR/dynolog
 *     client     abstract "\0dynoconfigclient<uuid>\0", or that in the same folder
 *
 *     datagram   u64 payload bytes, char type[32], payload            native integers
 *     "req"      i32 kinds, i32 count, i64 job, i32 pids[count]       itself, then parents
 *                answer "req": the text; none: nothing to do
 *     "ctxt"     i32 GPU, i32 pid, i64 job                            says hello
 *                answer "ctxt": i32 how many of its job there are
 *
 * Anybody on the machine may send to that name, so every byte of it is input; who sent it
 * is known from the kernel alone (SO_PASSCRED). The protocol is the same from torch 2.0 to
 * 2.14. */
#ifndef LW_RECORDER_KINETO_DAEMON_H
#define LW_RECORDER_KINETO_DAEMON_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "recorder/theirs.h"

/* One datagram. Kineto sends at most eleven pids; what is longer than this is dropped. */
#define LW_KINETO_MESSAGE_BYTES 4096

enum lw_kineto_kind {
    LW_KINETO_REQUEST, /* asks what to do */
    LW_KINETO_CONTEXT, /* says that it is there */
};

struct lw_kineto_message {
    enum lw_kineto_kind kind;
    bool is_idle; /* REQUEST: would take a window now, as no profiler runs in it */
    pid_t pid;    /* from the kernel, as we see it; 0: not visible from here */
    struct lw_theirs sender;    /* likewise */
    struct sockaddr_un address; /* where an answer goes */
    socklen_t address_len;
};

struct lw_kineto_daemon {
    int fd;     /* readable when somebody asks; -1: not open */
    char *path; /* of the socket; owned, removed at close; NULL: an abstract name */
    struct lw_theirs theirs; /* with whose rights it was made */
    unsigned char bytes[LW_KINETO_MESSAGE_BYTES];
};

/* Take the daemon's name, in FOLDER, with THEIRS rights, or, if FOLDER is NULL, the
 * abstract one. A file that a daemon left there is replaced. Fails with a sentence if
 * another daemon has it. */
bool lw_kineto_daemon_open(struct lw_kineto_daemon *daemon, const char *folder,
                           const struct lw_theirs *theirs, struct lw_error *err)
    LW_MUST_CHECK;
void lw_kineto_daemon_close(struct lw_kineto_daemon *daemon); /* with fd -1 is fine */

/* The next message that is there; false: none now. What makes no sense is dropped. */
bool lw_kineto_daemon_next(struct lw_kineto_daemon *daemon,
                           struct lw_kineto_message *message);

/* Answer MESSAGE: a request with the LEN bytes at TEXT (0: nothing to do), a context with
 * a count of one, whatever TEXT is. False: it did not get there; who asked is gone, or
 * does not read. */
bool lw_kineto_daemon_answer(const struct lw_kineto_daemon *daemon,
                             const struct lw_kineto_message *message, const char *text,
                             size_t len) LW_MUST_CHECK;

/* The LEN bytes at BYTES, a datagram, but for who sent it and where the answer goes;
 * false: it is none of these. */
bool lw_kineto_message_parse(struct lw_kineto_message *message,
                             const unsigned char *bytes, size_t len) LW_MUST_CHECK;

#endif
