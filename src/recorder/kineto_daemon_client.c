/* Finds a job's socket in /proc, makes a folder for its trace, writes its orders. */

#include "recorder/kineto_daemon_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "recorder/facts.h"
#include "recorder/proc_text.h"
#include "recorder/window_order.h"
#include "sampler/os.h"
#include "sampler/target.h"

#define CLIENT_NAME "dynoconfigclient"
#define UNIX_BYTES (64u << 20) /* of /proc/net/unix: half a million sockets */
#define ORDER_FOLDER_VARIABLE "KINETO_ONDEMAND_TRACE_DIR"
#define ORDER_FOLDER "/tmp" /* since August 2026 Kineto writes nowhere else unasked */

/* ---- who asks ----------------------------------------------------------------------- */

bool lw_kineto_client_sees(pid_t pid, const char *path)
{
    char place[32];
    char *inside;
    struct stat ours, theirs;
    bool same;

    snprintf(place, sizeof(place), "/proc/%d/root", (int)pid);
    inside = lw_path_join(place, path + strspn(path, "/"), NULL);
    same = inside && stat(path, &ours) == 0 && stat(inside, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
    lw_free(inside);
    return same;
}

/* Does process PID, whose descriptors FOLDER lists, hold the socket INODE? */
static bool holds_socket(DIR *folder, uint64_t inode)
{
    char wanted[40], target[40];
    const struct dirent *entry;

    snprintf(wanted, sizeof(wanted), "socket:[%llu]", (unsigned long long)inode);
    rewinddir(folder);
    while ((entry = readdir(folder))) {
        ssize_t len =
            readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

        if (len <= 0)
            continue;
        target[len] = '\0';
        if (strcmp(target, wanted) == 0)
            return true;
    }
    return false;
}

/* A line of /proc/net/unix: "address: references protocol flags type state inode name".
 * False: it is not the socket of one who asks. */
static bool parse_socket(struct lw_piece line, uint64_t *inode, struct lw_piece *folder)
{
    struct lw_piece name;
    const char *slash;

    if (!lw_piece_number(line, 6, inode) || !lw_piece_word(line, 7, &name))
        return false;
    name.len = (size_t)(line.bytes + line.len - name.bytes); /* it may hold spaces */
    slash = memrchr(name.bytes, '/', name.len);
    *folder = (struct lw_piece){ name.bytes, slash ? (size_t)(slash - name.bytes) : 0 };
    if (slash) {
        name.len -= folder->len + 1;
        name.bytes = slash + 1;
    } else if (name.len > 0 && name.bytes[0] == '@') {
        name.bytes++;
        name.len--;
    }
    return name.len > strlen(CLIENT_NAME) &&
           memcmp(name.bytes, CLIENT_NAME, strlen(CLIENT_NAME)) == 0;
}

bool lw_kineto_client_find(pid_t pid, struct lw_kineto_client *client,
                           struct lw_error *err)
{
    struct lw_file_view view = { 0 };
    struct lw_os_process process;
    struct lw_piece rest, line, folder;
    char path[32];
    DIR *descriptors;
    uint64_t inode;
    bool done = true;

    *client = (struct lw_kineto_client){ 0 };
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    descriptors = opendir(path);
    if (!descriptors)
        return lw_os_process(pid, &process, err) && lw_os_explain_denied(pid, err);
    /* Of its own network namespace, since names of sockets belong to one. */
    snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
    if (lw_file_read(&view, path, UNIX_BYTES, err)) {
        rest = (struct lw_piece){ (const char *)view.bytes, view.len };
        while (client->inode == 0 && lw_piece_line(&rest, &line)) {
            if (!parse_socket(line, &inode, &folder) ||
                !holds_socket(descriptors, inode))
                continue;
            client->inode = inode;
            if (folder.len > 0)
                done = (client->folder = lw_copy_text(folder.bytes, folder.len, err)) !=
                       NULL;
        }
    } else {
        done = false;
    }
    lw_file_close(&view);
    closedir(descriptors);
    return done;
}

void lw_kineto_client_release(struct lw_kineto_client *client)
{
    lw_free(client->folder);
    *client = (struct lw_kineto_client){ 0 };
}

static bool in_our_network(pid_t pid)
{
    char path[40];
    struct stat ours, theirs;

    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    return stat("/proc/self/ns/net", &ours) != 0 || stat(path, &theirs) != 0 ||
           (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino);
}

bool lw_kineto_client_is_near(pid_t pid, const struct lw_kineto_client *client,
                              struct lw_error *err)
{
    if (!client->folder)
        return in_our_network(pid) ||
               lw_fail(err, LW_ERR_UNSUPPORTED,
                       "process %d is in a container with a network of its own: run "
                       "lapwing attach in there",
                       (int)pid);
    if (client->folder[0] != '/')
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "process %d looks for its daemon in %s: KINETO_IPC_SOCKET_DIR has "
            "to be a whole path",
            (int)pid, client->folder);
    return lw_kineto_client_sees(pid, client->folder) ||
           lw_fail(err, LW_ERR_UNSUPPORTED,
                   "process %d looks for its daemon in a folder %s that cannot be seen "
                   "from here: run lapwing attach in its container",
                   (int)pid, client->folder);
}

bool lw_kineto_client_has_torch(pid_t pid)
{
    struct lw_os_images images = { 0 };
    bool found = false;

    if (!lw_os_images(pid, &images, NULL))
        return false;
    for (size_t i = 0; !found && i < images.count; i++)
        found = lw_text_starts(lw_text_basename(images.images[i].path), "libtorch");
    lw_os_images_release(&images);
    return found;
}

#define TORCH_LIBRARY "libtorch_cpu.so"
#define VERSION_BYTES 65536u /* of torch/version.py, which has some hundred */

/* Is TEXT, which begins with a version, one below 2.7? */
static bool is_below_2_7(const char *text)
{
    uint64_t major, minor;
    size_t len = strspn(text, "0123456789"), minor_len;

    if (!lw_text_u64(text, len, &major) || text[len] != '.')
        return false;
    text += len + 1;
    minor_len = strspn(text, "0123456789");
    return lw_text_u64(text, minor_len, &minor) &&
           (major < 2 || (major == 2 && minor < 7));
}

/* The same of the torch whose library process PID has loaded from PATH: a distribution's
 * has its version behind its name, any other a file two folders up. */
static bool is_old_torch(pid_t pid, const char *path)
{
    static const char key[] = "__version__ = '";
    const char *name = lw_text_basename(path), *found;
    struct lw_file_view view = { 0 };
    struct lw_folder folder = LW_FOLDER_CLOSED;
    struct lw_theirs theirs;
    struct lw_buf place;
    bool is_old = false;

    if (lw_text_starts(name, TORCH_LIBRARY "."))
        return is_below_2_7(name + strlen(TORCH_LIBRARY "."));
    lw_buf_init(&place, 0);
    lw_buf_addf(&place, "%.*s..", (int)(name - path), path);
    if (lw_buf_check(&place, NULL) && lw_theirs_of(pid, &theirs, NULL) &&
        lw_theirs_open(&folder, pid, &theirs, place.bytes, NULL) &&
        lw_folder_read(&view, &folder, "version.py", VERSION_BYTES, NULL)) {
        found = memmem(view.bytes, view.len, key, strlen(key));
        is_old = found &&
                 memchr(found + strlen(key), '\'',
                        view.len - strlen(key) -
                            (size_t)(found - (const char *)view.bytes)) &&
                 is_below_2_7(found + strlen(key));
    }
    lw_file_close(&view);
    lw_folder_close(&folder);
    lw_buf_release(&place);
    return is_old;
}

bool lw_kineto_client_crashes_with_stacks(pid_t pid)
{
    struct lw_target *target = lw_target_open(pid, -1, NULL);
    bool is_new_python =
        target && (target->layout.major > 3 || target->layout.minor >= 13);
    struct lw_os_images images = { 0 };
    bool found = false;

    lw_target_free(target);
    if (!is_new_python || !lw_os_images(pid, &images, NULL))
        return false;
    for (size_t i = 0; !found && i < images.count; i++)
        if (lw_text_starts(lw_text_basename(images.images[i].path), TORCH_LIBRARY))
            found = is_old_torch(pid, images.images[i].path);
    lw_os_images_release(&images);
    return found;
}

bool lw_kineto_client_explain(pid_t pid, struct lw_error *err)
{
    char *variable = NULL, *recorder = NULL;
    const char *reason;
    bool is_asked;

    if (!lw_kineto_client_has_torch(pid))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "process %d has not imported torch (yet); without --torch, "
                       "lapwing attach samples it",
                       (int)pid);
    if (!lw_order_find(pid, &recorder, &reason, err))
        return false;
    lw_free(recorder);
    if (reason)
        return lw_fail(err, LW_ERR_UNSUPPORTED, "process %d %s", (int)pid, reason);
    if (!lw_facts_variable(pid, "KINETO_USE_DAEMON", &variable, err))
        return false;
    is_asked = variable != NULL;
    lw_free(variable);
    if (is_asked)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "process %d was started with KINETO_USE_DAEMON, but its torch asks "
            "no daemon: it is older than 2.0, or built without Kineto",
            (int)pid);
    return lw_fail(
        err, LW_ERR_UNSUPPORTED,
        "process %d takes no orders: start it by 'lapwing run', or with "
        "KINETO_USE_DAEMON=1 in its environment; without --torch, lapwing attach "
        "samples it as it is",
        (int)pid);
}

/* ---- where it writes ---------------------------------------------------------------- */

/* Where process PID lets its traces be written; caller frees. */
static char *allowed_place(pid_t pid, struct lw_error *err)
{
    char *place;

    if (!lw_facts_variable(pid, ORDER_FOLDER_VARIABLE, &place, err))
        return NULL;
    /* An order is lines of KEY=VALUE, with comments, and has no quotes. */
    if (place && place[0] == '/' && !strpbrk(place, "\n=# "))
        return place;
    lw_free(place);
    return lw_copy_text(ORDER_FOLDER, strlen(ORDER_FOLDER), err);
}

bool lw_kineto_folder_make(pid_t pid, struct lw_kineto_folder *folder,
                           struct lw_error *err)
{
    char *place = allowed_place(pid, err);
    struct lw_trust_acting acting;
    bool done = false;

    *folder = (struct lw_kineto_folder){ 0 };
    if (place && lw_theirs_of(pid, &folder->theirs, err) &&
        lw_theirs_open(&folder->place, pid, &folder->theirs, place, err) &&
        lw_theirs_begin(&acting, &folder->theirs, err)) {
        done =
            lw_folder_make_unique_in(&folder->folder, &folder->place, "lapwing-", err);
        lw_trust_act_end(&acting);
        if (!done)
            lw_error_prefix(err, "no place for the trace of process %d", (int)pid);
    }
    lw_free(place);
    if (!done)
        lw_kineto_folder_release(folder);
    return done;
}

bool lw_kineto_folder_read(const struct lw_kineto_folder *folder, const char *name,
                           size_t limit, struct lw_file_view *view,
                           struct lw_error *err)
{
    struct lw_trust_acting acting;
    bool done;

    *view = (struct lw_file_view){ 0 };
    if (!lw_theirs_begin(&acting, &folder->theirs, err))
        return false;
    done = limit ? lw_folder_read(view, &folder->folder, name, limit, err)
                 : lw_folder_map(view, &folder->folder, name, err);
    lw_trust_act_end(&acting);
    return done;
}

void lw_kineto_folder_remove(struct lw_kineto_folder *folder)
{
    struct lw_trust_acting acting;

    if (folder->folder.path && lw_theirs_begin(&acting, &folder->theirs, NULL)) {
        /* Its process may have put there what cannot be removed: then it stays. */
        if (lw_folder_empty(&folder->folder, NULL))
            unlinkat(folder->place.fd, lw_text_basename(folder->folder.path),
                     AT_REMOVEDIR);
        lw_trust_act_end(&acting);
    }
    lw_kineto_folder_release(folder);
}

void lw_kineto_folder_release(struct lw_kineto_folder *folder)
{
    lw_folder_close(&folder->folder);
    lw_folder_close(&folder->place);
    *folder = (struct lw_kineto_folder){ 0 };
}

/* ---- what it is told ---------------------------------------------------------------- */

void lw_kineto_window_add_order(struct lw_buf *out,
                                const struct lw_kineto_window *window, const char *file)
{
    static const struct {
        unsigned bit;
        const char *key;
    } parts[] = {
        { LW_KINETO_SHAPES, "PROFILE_REPORT_INPUT_SHAPES" },
        { LW_KINETO_MEMORY, "PROFILE_PROFILE_MEMORY" },
        { LW_KINETO_STACK, "PROFILE_WITH_STACK" },
        { LW_KINETO_FLOPS, "PROFILE_WITH_FLOPS" },
        { LW_KINETO_MODULES, "PROFILE_WITH_MODULES" },
    };

    lw_buf_addf(out, "ACTIVITIES_LOG_FILE=%s\n", file);
    if (window->iterations > 0) {
        /* Iteration 0 has passed, so it is the next one. */
        lw_buf_addf(out,
                    "PROFILE_START_ITERATION=0\n"
                    "ACTIVITIES_ITERATIONS=%llu\n"
                    "ACTIVITIES_WARMUP_ITERATIONS=%d\n",
                    (unsigned long long)window->iterations, window->warmup_s > 0);
    } else {
        lw_buf_addf(out,
                    "PROFILE_START_TIME=%llu\n"
                    "ACTIVITIES_DURATION_MSECS=%llu\n"
                    "ACTIVITIES_WARMUP_PERIOD_SECS=%llu\n",
                    (unsigned long long)window->start_ms,
                    (unsigned long long)window->duration_ms,
                    (unsigned long long)window->warmup_s);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        lw_buf_addf(out, "%s=%s\n", parts[i].key,
                    window->what & parts[i].bit ? "true" : "false");
}
