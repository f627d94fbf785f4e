/* Leaves orders where agents look for them; see window_order.h. */

#include "recorder/window_order.h"

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

/* Connect to the recorder at PATH; -1: it is not there. */
static int reach(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 1 };
    int s;

    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    memcpy(address.sun_path, path, strlen(path));
    s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(s, (struct sockaddr *)&address, sizeof(address)) == 0)
        return s;
    close(s);
    return -1;
}

/* Why an agent that was told CONFIG, and whose recorder is at SOCKET, takes no orders;
 * NULL: it does. */
static const char *refusal(pid_t pid, const char *config, const char *socket)
{
    int s;

    if (!strstr(config, ",steps=1"))
        return "was started by 'lapwing run --no-steps', and windows begin with steps: "
               "start it without";
    if (!lw_kineto_client_sees(pid, socket))
        return "is recorded in a container of its own: run lapwing attach in there";
    s = reach(socket);
    if (s < 0)
        return "takes no orders any more: the lapwing run that started it has ended";
    close(s);
    return NULL;
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

static char *order_path(pid_t pid, const char *socket, struct lw_error *err)
{
    char name[32];
    char *folder =
        lw_copy_text(socket, (size_t)(lw_text_basename(socket) - socket), err);
    char *path;

    snprintf(name, sizeof(name), LW_AGENT_ORDER "%d", (int)pid);
    path = folder ? lw_path_join(folder, name, err) : NULL;
    lw_free(folder);
    return path;
}

static void add_order(struct lw_buf *out, const struct lw_kineto_window *window,
                      const char *folder)
{
    static const struct {
        unsigned bit;
        const char *word; /* as --torch has them */
    } parts[] = {
        { LW_KINETO_SHAPES, "shapes" },   { LW_KINETO_MEMORY, "memory" },
        { LW_KINETO_STACK, "stack" },     { LW_KINETO_FLOPS, "flops" },
        { LW_KINETO_MODULES, "modules" },
    };

    lw_buf_addf(out, "folder=%s\niterations=%llu\nduration_ms=%llu\nstart_ms=%llu\n",
                folder, (unsigned long long)window->iterations,
                (unsigned long long)window->duration_ms,
                (unsigned long long)window->start_ms);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (window->what & parts[i].bit)
            lw_buf_addf(out, "%s=1\n", parts[i].word);
}

/* Write the LEN bytes at TEXT to PATH; if we are root, it is to be the recorder's user's. */
static bool leave(const char *path, const char *socket, const char *text, size_t len,
                  struct lw_error *err)
{
    struct stat about;

    return lw_file_replace(path, text, len, err) &&
           ((stat(socket, &about) == 0 &&
             (about.st_uid == geteuid() ||
              chown(path, about.st_uid, about.st_gid) == 0)) ||
            lw_fail_errno(err, "%s: cannot be given to the user of the job", path));
}

/* Tell the recorder that there is an order for PID. */
static bool announce(pid_t pid, const char *socket, struct lw_error *err)
{
    struct lw_agent_hello hello = {
        .magic = LW_AGENT_MAGIC,
        .version = LW_AGENT_VERSION,
        .kind = LW_HELLO_ORDER,
    };
    char message[sizeof(hello) + 16];
    int s = reach(socket);
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
                   const struct lw_kineto_folder *folder, struct lw_error *err)
{
    char *path = order_path(pid, socket, err);
    struct lw_buf text;
    bool done;

    lw_buf_init(&text, 0);
    add_order(&text, window, folder->inside);
    done = path && lw_buf_check(&text, err) &&
           leave(path, socket, text.bytes, text.len, err) && announce(pid, socket, err);
    if (path && !done)
        unlink(path);
    lw_buf_release(&text);
    lw_free(path);
    return done;
}

/* ---- what becomes of it ------------------------------------------------------------- */

static bool has_file(const struct lw_kineto_folder *folder, const char *name)
{
    char *path = lw_path_join(folder->path, name, NULL);
    bool is_there = path && lw_file_exists(path);

    lw_free(path);
    return is_there;
}

/* A sentence that a process has written: the first line of it, as far as it goes. */
static bool read_sentence(const struct lw_kineto_folder *folder, char *why, size_t size)
{
    char *path = lw_path_join(folder->path, "failed", NULL);
    struct lw_file_view view = { 0 };
    bool is_there = path && lw_file_read(&view, path, size - 1, NULL);

    if (is_there) {
        memcpy(why, view.bytes, view.len);
        why[view.len] = '\0';
        why[strcspn(why, "\n")] = '\0';
    }
    lw_file_close(&view);
    lw_free(path);
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

void lw_order_withdraw(pid_t pid, const char *socket)
{
    char *path = order_path(pid, socket, NULL);

    if (path)
        unlink(path);
    lw_free(path);
}
