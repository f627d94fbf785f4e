#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"
#include "sampler/os.h"

/* A process with a hundred thousand mappings has 20 MB of them. */
#define TEXT_LIMIT (256u << 20)
#define READ_BYTES 4096

#define PROC_PATH_BYTES 128

/* All of the small file PATH. Its bytes end in NUL. errno tells why not. */
static bool read_text(struct lw_buf *text, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;

    lw_buf_init(text, TEXT_LIMIT);
    if (fd < 0)
        return false;
    for (;;) {
        char *room = lw_buf_extend(text, READ_BYTES);

        if (!room)
            break;
        got = read(fd, room, READ_BYTES);
        text->len -= READ_BYTES - (got > 0 ? (size_t)got : 0);
        if (got <= 0)
            break;
    }
    close(fd);
    lw_buf_add(text, "", 1);
    if (got == 0 && lw_buf_check(text, NULL))
        return true;
    lw_buf_release(text);
    return false;
}

/* All of /proc/PID/NAME. */
static bool read_proc(struct lw_buf *text, pid_t pid, const char *name)
{
    char path[PROC_PATH_BYTES];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return read_text(text, path);
}

static bool fail_gone(pid_t pid, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_IO, "there is no process %d", (int)pid);
}

/* ---- a process ---------------------------------------------------------------------- */

#define PF_EXITING 0x4 /* of the kernel's include/linux/sched.h */

/* "PID (NAME) STATE PPID ...": the name may hold anything, also brackets. */
static bool parse_stat(const char *text, struct lw_os_process *process)
{
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    size_t name_len;
    int field = 4;
    char *next;

    if (!open || !close || close < open || strlen(close) < 4)
        return false;
    name_len = (size_t)(close - open - 1);
    if (name_len >= sizeof(process->name))
        name_len = sizeof(process->name) - 1;
    memcpy(process->name, open + 1, name_len);
    process->name[name_len] = '\0';
    process->state = close[2];
    for (const char *at = close + 3; *at && *at != '\n'; at = next, field++) {
        unsigned long long value = strtoull(at, &next, 10);

        if (next == at)
            return false;
        if (field == 4)
            process->parent = (pid_t)value;
        else if (field == 9)
            process->is_ending = process->state == 'Z' || (value & PF_EXITING);
        else if (field == 20)
            process->thread_count = (unsigned)value;
        else if (field == 22)
            process->start_time = value;
        else if (field == 28) {
            process->stack_start = value;
            return true;
        }
    }
    return false;
}

bool lw_os_process(pid_t pid, struct lw_os_process *process, struct lw_error *err)
{
    struct lw_buf text;
    bool done;

    memset(process, 0, sizeof(*process));
    if (pid <= 0 || !read_proc(&text, pid, "stat"))
        return fail_gone(pid, err);
    done = parse_stat(text.bytes, process);
    lw_buf_release(&text);
    return done || fail_gone(pid, err);
}

/* "KEY:\treal effective saved files". */
static bool parse_ids(const char *text, const char *key, unsigned *real,
                      unsigned *effective)
{
    const char *line = strstr(text, key);

    return line && sscanf(line + strlen(key), "%u %u", real, effective) == 2;
}

/* Not the owner of /proc/PID, which is root where a process must not be looked into. */
bool lw_os_owner(pid_t pid, struct lw_os_owner *owner, struct lw_error *err)
{
    unsigned uid, acting_uid, gid, acting_gid;
    struct lw_buf text;
    bool done;

    *owner = (struct lw_os_owner){ 0 };
    if (pid <= 0 || !read_proc(&text, pid, "status"))
        return fail_gone(pid, err);
    done = parse_ids(text.bytes, "\nUid:", &uid, &acting_uid) &&
           parse_ids(text.bytes, "\nGid:", &gid, &acting_gid);
    lw_buf_release(&text);
    if (!done)
        return fail_gone(pid, err);
    *owner = (struct lw_os_owner){ uid, acting_uid, gid, acting_gid };
    return true;
}

bool lw_os_lives(pid_t pid)
{
    struct lw_os_process process;

    return lw_os_process(pid, &process, NULL) && !process.is_ending;
}

/* ---- maps --------------------------------------------------------------------------- */

struct map_line {
    uint64_t start, end, offset;
    char *path; /* inside the line, NUL-terminated; "" for none */
};

/* "START-END rwxp OFFSET MAJOR:MINOR INODE   PATH\n"; returns the next line. */
static char *parse_map_line(char *line, struct map_line *map)
{
    char *end = strchr(line, '\n'), *at;

    if (!end)
        return NULL;
    *end = '\0';
    map->start = strtoull(line, &at, 16);
    map->end = *at == '-' ? strtoull(at + 1, &at, 16) : 0;
    for (int field = 0; field < 2 && *at; field++) { /* to behind the rights */
        while (*at == ' ')
            at++;
        while (field == 0 && *at && *at != ' ')
            at++;
    }
    map->offset = strtoull(at, &at, 16);
    for (int field = 0; field < 2; field++) { /* device and inode */
        while (*at == ' ')
            at++;
        while (*at && *at != ' ')
            at++;
    }
    while (*at == ' ')
        at++;
    map->path = at;
    return end + 1;
}

/* What the kernel appends to the path of a file that was removed or replaced. */
static void cut_deleted(char *path)
{
    static const char mark[] = " (deleted)";
    size_t len = strlen(path);

    if (lw_text_ends(path, mark))
        path[len - (sizeof(mark) - 1)] = '\0';
}

static bool add_map(struct lw_os_images *images, size_t *capacity,
                    const struct map_line *map, const char *program,
                    struct lw_error *err)
{
    struct lw_os_image *last =
        images->count ? &images->images[images->count - 1] : NULL;

    /* The kernel's own code, which it maps into every process, is one as well. */
    if (map->path[0] != '/' && strcmp(map->path, "[vdso]") != 0)
        return true;
    if (last && strcmp(last->path, map->path) == 0 && map->offset > 0) {
        last->end = map->end;
        return true;
    }
    if (map->offset > 0)
        return true; /* data of some file, not its beginning */
    if (!lw_grow(&images->images, capacity, images->count + 1, sizeof(*images->images),
                 err))
        return false;
    images->images[images->count++] = (struct lw_os_image){
        .base = map->start,
        .end = map->end,
        .path = map->path,
        .is_program = strcmp(map->path, program) == 0,
    };
    return true;
}

static void read_program_path(pid_t pid, char *path, size_t size)
{
    char link[PROC_PATH_BYTES];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    len = readlink(link, path, size - 1);
    path[len > 0 ? len : 0] = '\0';
    cut_deleted(path);
}

static bool fail_maps(pid_t pid, struct lw_error *err)
{
    struct lw_os_process process;

    if (errno == EACCES || errno == EPERM)
        return lw_os_explain_denied(pid, err);
    if (!lw_os_process(pid, &process, err))
        return false;
    if (process.state == 'Z')
        return lw_fail(err, LW_ERR_IO,
                       "process %d (%s) has ended; its parent %d has "
                       "not taken notice yet",
                       (int)pid, process.name, (int)process.parent);
    if (process.is_ending)
        return lw_fail(err, LW_ERR_IO, "process %d (%s) is ending", (int)pid,
                       process.name);
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "process %d (%s) has no memory of its own: it belongs to the kernel",
                   (int)pid, process.name);
}

bool lw_os_images(pid_t pid, struct lw_os_images *images, struct lw_error *err)
{
    struct lw_buf text;
    char program[4096];
    size_t capacity = 0;
    char *line;

    memset(images, 0, sizeof(*images));
    errno = 0;
    if (!read_proc(&text, pid, "maps"))
        return fail_maps(pid, err);
    if (text.len <= 1) {
        lw_buf_release(&text);
        return fail_maps(pid, err);
    }
    read_program_path(pid, program, sizeof(program));
    images->text = text.bytes; /* ours from here on */
    line = images->text;
    while (line && *line) {
        struct map_line map;

        line = parse_map_line(line, &map);
        if (!line)
            break;
        cut_deleted(map.path);
        if (!add_map(images, &capacity, &map, program, err)) {
            lw_os_images_release(images);
            return false;
        }
    }
    return true;
}

void lw_os_images_release(struct lw_os_images *images)
{
    lw_free(images->images);
    lw_free(images->text);
    memset(images, 0, sizeof(*images));
}

bool lw_os_some_address(pid_t pid, uint64_t *address, struct lw_error *err)
{
    struct lw_buf text;
    char *end = NULL;

    errno = 0;
    if (!read_proc(&text, pid, "maps"))
        return fail_maps(pid, err);
    *address = text.len > 1 ? strtoull(text.bytes, &end, 16) : 0;
    lw_buf_release(&text);
    return *address > 0 || fail_maps(pid, err);
}

/* ---- rights ------------------------------------------------------------------------- */

static int yama_scope(void)
{
    struct lw_buf text;
    int scope = -1;

    if (read_text(&text, "/proc/sys/kernel/yama/ptrace_scope")) {
        scope = text.len > 1 ? text.bytes[0] - '0' : -1;
        lw_buf_release(&text);
    }
    return scope;
}

/* The number after KEY in /proc/PID/status, read with BASE; -1: not there. */
static long long status_number(pid_t pid, const char *key, int base)
{
    struct lw_buf text;
    long long value = -1;
    const char *at;

    if (!read_proc(&text, pid, "status"))
        return -1;
    at = strstr(text.bytes, key);
    if (at)
        value = (long long)strtoull(at + strlen(key), NULL, base);
    lw_buf_release(&text);
    return value;
}

bool lw_os_explain_denied(pid_t pid, struct lw_error *err)
{
    long long owner = status_number(pid, "\nUid:", 10);
    int scope = yama_scope();

    if (owner < 0)
        return fail_gone(pid, err);
    if (owner != (long long)geteuid() && geteuid() != 0)
        return lw_fail(err, LW_ERR_IO,
                       "process %d belongs to another user (%lld); use sudo", (int)pid,
                       owner);
    if (scope == 3)
        return lw_fail(
            err, LW_ERR_IO,
            "process %d cannot be read: kernel.yama.ptrace_scope is 3, which "
            "only a restart of the machine changes; start it with `lapwing "
            "run` instead",
            (int)pid);
    if (scope > 0 && geteuid() != 0)
        return lw_fail(err, LW_ERR_IO,
                       "process %d cannot be read: kernel.yama.ptrace_scope is %d; use "
                       "sudo, or `sudo sysctl kernel.yama.ptrace_scope=0`, or start it "
                       "with `lapwing run`",
                       (int)pid, scope);
    return lw_fail(
        err, LW_ERR_IO,
        "process %d cannot be read: this container may not trace processes; "
        "start it with --cap-add SYS_PTRACE (Kubernetes: securityContext."
        "capabilities.add: [SYS_PTRACE]), or start the program with `lapwing "
        "run`",
        (int)pid);
}

/* ---- threads and children ----------------------------------------------------------- */

static bool add_id(pid_t **ids, size_t *capacity, size_t count, const char *text,
                   size_t len)
{
    uint64_t id;

    if (!lw_text_u64(text, len, &id) ||
        !lw_grow(ids, capacity, count + 1, sizeof(**ids), NULL))
        return false;
    (*ids)[count] = (pid_t)id;
    return true;
}

size_t lw_os_threads(pid_t pid, pid_t **ids, size_t *capacity)
{
    char path[PROC_PATH_BYTES];
    const struct dirent *entry;
    size_t count = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    folder = opendir(path);
    if (!folder)
        return 0;
    while ((entry = readdir(folder)) != NULL) {
        if (add_id(ids, capacity, count, entry->d_name, strlen(entry->d_name)))
            count++;
    }
    closedir(folder);
    return count;
}

/* A child belongs to the thread that made it. Adds those of thread TID to the COUNT that
 * are there, and returns how many there are then. */
static size_t add_children(pid_t pid, pid_t tid, pid_t **ids, size_t *capacity,
                           size_t count)
{
    struct lw_buf text;
    char name[64];

    snprintf(name, sizeof(name), "task/%d/children", (int)tid);
    if (!read_proc(&text, pid, name))
        return count;
    for (const char *at = text.bytes; *at; at += strspn(at, " \n")) {
        size_t len = strcspn(at, " \n");

        if (add_id(ids, capacity, count, at, len))
            count++;
        at += len;
    }
    lw_buf_release(&text);
    return count;
}

size_t lw_os_children(pid_t pid, pid_t **ids, size_t *capacity)
{
    pid_t *tids = NULL;
    size_t tid_capacity = 0, count = 0;
    size_t tid_count = lw_os_threads(pid, &tids, &tid_capacity);

    for (size_t i = 0; i < tid_count; i++)
        count = add_children(pid, tids[i], ids, capacity, count);
    lw_free(tids);
    return count;
}

size_t lw_os_main_children(pid_t pid, pid_t **ids, size_t *capacity)
{
    return add_children(pid, pid, ids, capacity, 0);
}

bool lw_os_thread_name(pid_t pid, pid_t tid, char *name, size_t size)
{
    struct lw_buf text;
    char file[64];
    size_t len;

    snprintf(file, sizeof(file), "task/%d/comm", (int)tid);
    if (!read_proc(&text, pid, file))
        return false;
    len = strcspn(text.bytes, "\n");
    if (len >= size)
        len = size - 1;
    memcpy(name, text.bytes, len);
    name[len] = '\0';
    lw_buf_release(&text);
    return true;
}

/* What a thread is in is told twice. /proc/.../syscall says "running", or else in which
 * call it sleeps; it takes the right to trace. /proc/.../stat says a letter to everybody,
 * among fifty numbers, which takes three times as long of a thread that runs. */
int lw_os_thread_open(pid_t pid, pid_t tid)
{
    char path[PROC_PATH_BYTES], byte;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &byte, 1, 0) == 1)
        return fd;
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* In stat the letter stands behind the name, which is at most 15 bytes (64 for workers of
 * the kernel) and in brackets; the text of syscall has none. */
char lw_os_thread_state(int fd)
{
    static const char running[] = "running";
    char text[128];
    ssize_t len = pread(fd, text, sizeof(text), 0);
    const char *close;

    if (len <= 0)
        return '\0';
    if ((size_t)len >= sizeof(running) - 1 &&
        memcmp(text, running, sizeof(running) - 1) == 0)
        return 'R';
    close = memrchr(text, ')', (size_t)len);
    if (!close)
        return 'S';
    return close + 2 < text + len ? close[2] : '\0';
}
