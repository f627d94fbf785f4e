/* Leaves orders where agents look for them; see window_order.h. */

#include "recorder/window_order.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/layout.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "recorder/facts.h"

#define SOCKET_WORD "socket="

/* ---- whom --------------------------------------------------------------------------- */

/* The folder of the recorder's SOCKET, which process PID named: found with the rights of
 * its user, who or root must have made it, and nobody else may write to it. */
static bool open_folder(struct lw_folder *folder, pid_t pid,
                        const struct lw_theirs *theirs, const char *socket,
                        struct lw_error *err)
{
    char *path = lw_copy_text(socket, (size_t)(lw_text_basename(socket) - socket), err);
    struct stat about;
    bool done = path && lw_theirs_open(folder, pid, theirs, path, err);

    if (done && (fstat(folder->fd, &about) != 0 ||
                 !lw_trust_is_private_to(&about, theirs->uid))) {
        lw_fail(err, LW_ERR_IO, "%s is another user's than process %d", path, (int)pid);
        lw_folder_close(folder);
        done = false;
    }
    lw_free(path);
    return done;
}

/* Connect to the recorder whose socket is NAME in FOLDER; -1: it is not there, or it is
 * somebody else's than THEIRS. Whoever calls acts as they do. */
static int reach(const struct lw_folder *folder, const char *name,
                 const struct lw_theirs *theirs)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 1 };
    int s, len = snprintf(address.sun_path, sizeof(address.sun_path),
                          "/proc/self/fd/%d/%s", folder->fd, name);

    if (len < 0 || (size_t)len >= sizeof(address.sun_path))
        return -1;
    s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(s, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        lw_trust_peer(s, theirs->uid, NULL))
        return s;
    close(s);
    return -1;
}

/* Is the recorder of process PID there? */
static bool is_reached(pid_t pid, const char *socket)
{
    struct lw_folder folder = LW_FOLDER_CLOSED;
    struct lw_trust_acting acting;
    struct lw_theirs theirs;
    int s = -1;

    if (lw_theirs_of(pid, &theirs, NULL) &&
        open_folder(&folder, pid, &theirs, socket, NULL) &&
        lw_theirs_begin(&acting, &theirs, NULL)) {
        s = reach(&folder, lw_text_basename(socket), &theirs);
        lw_trust_act_end(&acting);
    }
    lw_folder_close(&folder);
    if (s >= 0)
        close(s);
    return s >= 0;
}

/* Why an agent that was told CONFIG, and whose recorder is at SOCKET, takes no orders;
 * NULL: it does. */
static const char *refusal(pid_t pid, const char *config, const char *socket)
{
    if (!strstr(config, ",steps=1"))
        return "was started by 'lapwing run --no-steps', and windows begin with steps: "
               "start it without";
    if (!lw_kineto_client_sees(pid, socket))
        return "is recorded in a container of its own: run lapwing attach in there";
    return is_reached(pid, socket) ? NULL
                                   : "takes no orders any more: the lapwing run that "
                                     "started it has ended";
}

bool lw_order_find(pid_t pid, char **socket, const char **reason, struct lw_error *err)
{
    char *config;
    size_t len;

    *socket = NULL;
    *reason = NULL;
    if (!lw_facts_variable(pid, LW_AGENT_VARIABLE, &config, err))
        return false;
    if (!config || !lw_text_starts(config, SOCKET_WORD)) {
        lw_free(config);
        return true;
    }
    len = strcspn(config, ",") - strlen(SOCKET_WORD);
    *socket = lw_copy_text(config + strlen(SOCKET_WORD), len, err);
    if (*socket && (*reason = refusal(pid, config, *socket))) {
        lw_free(*socket);
        *socket = NULL;
    }
    lw_free(config);
    return *socket || *reason;
}

/* ---- the order ---------------------------------------------------------------------- */

#define ORDER_BYTES (sizeof(LW_AGENT_ORDER) + 16)

static void order_name(pid_t pid, char name[ORDER_BYTES])
{
    snprintf(name, ORDER_BYTES, LW_AGENT_ORDER "%d", (int)pid);
}

static bool add_order(struct lw_buf *out, const struct lw_kineto_window *window,
                      const struct lw_folder *folder, struct lw_error *err)
{
    static const struct {
        unsigned bit;
        const char *word; /* as --torch has them */
    } parts[] = {
        { LW_KINETO_SHAPES, "shapes" },   { LW_KINETO_MEMORY, "memory" },
        { LW_KINETO_STACK, "stack" },     { LW_KINETO_FLOPS, "flops" },
        { LW_KINETO_MODULES, "modules" },
    };

    char identity[LW_FOLDER_IDENTITY_BYTES];

    if (!lw_folder_identity(folder, identity, err))
        return false;
    lw_buf_addf(out,
                "folder=%s\nfolder_id=%s\niterations=%llu\nduration_ms=%llu\n"
                "start_ms=%llu\n",
                folder->path, identity, (unsigned long long)window->iterations,
                (unsigned long long)window->duration_ms,
                (unsigned long long)window->start_ms);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (window->what & parts[i].bit)
            lw_buf_addf(out, "%s=1\n", parts[i].word);
    return lw_buf_check(out, err);
}

/* Tell the recorder that there is an order for PID. */
static bool announce(pid_t pid, const struct lw_folder *folder, const char *socket,
                     const struct lw_theirs *theirs, struct lw_error *err)
{
    struct lw_agent_hello hello = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_AGENT_VERSION,
        .kind = LW_HELLO_ORDER,
    };
    char message[sizeof(hello) + 16];
    int s = reach(folder, lw_text_basename(socket), theirs);
    bool sent;

    hello.text_bytes = (uint32_t)snprintf(message + sizeof(hello), 16, "%d", (int)pid);
    memcpy(message, &hello, sizeof(hello));
    sent =
        s >= 0 && send(s, message, sizeof(hello) + hello.text_bytes, MSG_NOSIGNAL) > 0;
    if (s >= 0)
        close(s);
    return sent ||
           lw_fail(err, LW_ERR_IO,
                   "the lapwing run that records process %d does not answer", (int)pid);
}

bool lw_order_give(pid_t pid, const char *socket, const struct lw_kineto_window *window,
                   const struct lw_kineto_folder *place, struct lw_error *err)
{
    struct lw_folder folder;
    struct lw_trust_acting acting;
    char name[ORDER_BYTES];
    struct lw_buf text;
    bool done = false;

    order_name(pid, name);
    lw_buf_init(&text, 0);
    if (open_folder(&folder, pid, &place->theirs, socket, err)) {
        if (add_order(&text, window, &place->folder, err) &&
            lw_theirs_begin(&acting, &place->theirs, err)) {
            done = lw_folder_replace(&folder, name, text.bytes, text.len, err) &&
                   announce(pid, &folder, socket, &place->theirs, err);
            if (!done)
                unlinkat(folder.fd, name, 0);
            lw_trust_act_end(&acting);
        }
        lw_folder_close(&folder);
    }
    lw_buf_release(&text);
    return done;
}

/* ---- what becomes of it ------------------------------------------------------------- */

static bool has_file(const struct lw_kineto_folder *folder, const char *name)
{
    struct stat about;

    return fstatat(folder->folder.fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A sentence that a process has written: the first line of it, as far as it goes. */
static bool read_sentence(const struct lw_kineto_folder *folder, char *why, size_t size)
{
    struct lw_file_view view = { 0 };
    bool is_there = has_file(folder, "failed");

    snprintf(why, size, "took no window, and why cannot be read");
    if (is_there && lw_kineto_folder_read(folder, "failed", size - 1, &view, NULL)) {
        memcpy(why, view.bytes, view.len);
        why[view.len] = '\0';
        why[strcspn(why, "\n")] = '\0';
    }
    lw_file_close(&view);
    return is_there;
}

enum lw_order_state lw_order_look(const struct lw_kineto_folder *folder, char *why,
                                  size_t size)
{
    if (read_sentence(folder, why, size))
        return LW_ORDER_FAILED;
    if (has_file(folder, "begun"))
        return LW_ORDER_BEGUN;
    return has_file(folder, "busy") ? LW_ORDER_BUSY : LW_ORDER_NOT_BEGUN;
}

/* If the process is gone, so is its view of the files; its recorder removes what is left
 * in its folder. */
void lw_order_withdraw(pid_t pid, const char *socket,
                       const struct lw_kineto_folder *place)
{
    struct lw_folder folder;
    struct lw_trust_acting acting;
    char name[ORDER_BYTES];

    order_name(pid, name);
    if (!open_folder(&folder, pid, &place->theirs, socket, NULL))
        return;
    if (lw_theirs_begin(&acting, &place->theirs, NULL)) {
        unlinkat(folder.fd, name, 0);
        lw_trust_act_end(&acting);
    }
    lw_folder_close(&folder);
}
