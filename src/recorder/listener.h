/* The socket on which agents say hello, in a folder only this user can enter.
 *
 * A peer sends one message (struct lw_agent_hello, agent/layout.h) and goes. Nothing
 * here waits for a peer: one that connects and stays silent is dropped after a while,
 * and at most LW_LISTENER_GUESTS such are held at a time. */
#ifndef LW_RECORDER_LISTENER_H
#define LW_RECORDER_LISTENER_H

#include <sys/types.h>

#include "agent/layout.h"
#include "base/folder.h"

#define LW_LISTENER_GUESTS 64

struct lw_guest {
    int fd;
    uint64_t since_ns;
};

struct lw_listener {
    struct lw_folder folder; /* locked; removed at close with all that is in it */
    char *path;              /* of the socket in it; owned */
    int fd;                  /* readable when somebody comes or speaks; -1: not open */
    int socket_fd;
    struct lw_guest guests[LW_LISTENER_GUESTS]; /* came, but have not said a word */
    size_t guest_count;
    size_t guest_most;  /* fewer where descriptors are few: a hello needs some, too */
    uint64_t cut_count; /* hellos whose descriptors found no room among ours: lost */
    char message[sizeof(struct lw_agent_hello) + LW_HELLO_TEXT_BYTES + 1];
};

/* One hello. The text is borrowed until the next one is taken. */
struct lw_hello {
    uint32_t kind;    /* enum lw_hello_kind */
    pid_t pid;        /* of the peer, from the kernel; 0: not visible from here */
    int region_fd;    /* caller closes; -1: none came */
    int memory_fd;    /* likewise: to read its memory through */
    int pid_fd;       /* caller closes; -1: the peer is gone already */
    const char *text; /* NUL-terminated strings, one behind the other */
    size_t text_len;  /* without the last NUL */
};

/* Close the descriptors that are still there. */
void lw_hello_close(struct lw_hello *hello);

/* Makes a private folder in $XDG_RUNTIME_DIR, $TMPDIR or /tmp, whichever is first
 * there, can be written and leaves room for a socket's path. Folders of this user's
 * recorders that were killed are removed there: they are the ones that nobody locks. */
bool lw_listener_open(struct lw_listener *listener, struct lw_error *err) LW_MUST_CHECK;
void lw_listener_close(struct lw_listener *listener); /* zeroed with fd -1 is fine */

/* Let agents find the run's FOLDER: as LW_AGENT_RUN_LINK beside the socket. Where that
 * cannot be, they do without. */
void lw_listener_show_run(struct lw_listener *listener, const struct lw_folder *folder);

/* How many processes have noted that they were not recorded, because we took no more hellos
 * just then (LW_AGENT_MISSED). */
uint64_t lw_listener_missed(const struct lw_listener *listener);

/* Let in who is waiting. True if anybody came. */
bool lw_listener_accept(struct lw_listener *listener);
/* The next hello that is there; false: none now. What makes no sense, or comes from
 * another user, is dropped; one that came without its descriptors is counted. */
bool lw_listener_next(struct lw_listener *listener, struct lw_hello *hello);

#endif
