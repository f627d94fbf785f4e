/* Command lines, parameters and ranks. */

#include "recorder/facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "sampler/os.h"

#define COMMAND_BYTES 400 /* of a command line for a person: some lines of a terminal */
#define ENVIRON_BYTES \
    (4u << 20) /* of another process's environment; the kernel allows
                                    about this much */

/* ---- command lines ----------------------------------------------------------------- */

static void add_word(struct lw_buf *out, const char *word)
{
    bool plain = *word && !word[strcspn(word, " \t\n'\"\\")];

    if (out->len > 0)
        lw_buf_add_char(out, ' ');
    if (plain) {
        lw_buf_add_text(out, word);
        return;
    }
    lw_buf_add_char(out, '\'');
    lw_buf_add_text(out, word);
    lw_buf_add_char(out, '\'');
}

void lw_facts_add_command(struct lw_buf *out, char *const *argv)
{
    size_t first = 0;

    if (argv[0] && argv[1] && lw_text_starts(lw_text_basename(argv[0]), "python"))
        first = 1;
    for (size_t i = first; argv[i] && out->len < COMMAND_BYTES; i++)
        add_word(out, i == 0 ? lw_text_basename(argv[0]) : argv[i]);
    if (out->len > COMMAND_BYTES && out->failure == LW_OK) {
        out->len = COMMAND_BYTES;
        lw_buf_add_text(out, "...");
    }
}

/* ---- a run ------------------------------------------------------------------------- */

static bool set_parameter(struct lw_run_info *info, const char *key, size_t key_len,
                          const char *value, struct lw_error *err)
{
    char *name = lw_copy_text(key, key_len, err);
    bool done = name && lw_run_info_set_parameter(info, name, value, err);

    lw_free(name);
    return done;
}

/* --lr=3, --lr 3 and --fast; lr=3 as Hydra takes it. Python's own options, before the
 * script or -m module, are none of the program's. */
static bool add_parameters(struct lw_run_info *info, char *const *argv,
                           struct lw_error *err)
{
    for (size_t i = 1; argv[0] && argv[i]; i++) {
        const char *word = argv[i];
        size_t dashes = strspn(word, "-");
        const char *key = word + dashes;
        const char *equals = strchr(key, '=');
        bool takes_next =
            argv[i + 1] && argv[i + 1][0] != '-' && !strchr(argv[i + 1], '=');

        if (i == 1 && strcmp(word, "-c") == 0 && argv[i + 1]) {
            i++; /* Python text */
            continue;
        }
        if (*key == '\0' || dashes > 2 || equals == key)
            continue;
        if (equals && strcspn(key, "/ \t\n") >= (size_t)(equals - key)) {
            if (!set_parameter(info, key, (size_t)(equals - key), equals + 1, err))
                return false;
        } else if (dashes == 2) {
            if (!lw_run_info_set_parameter(info, key, takes_next ? argv[i + 1] : "yes",
                                           err))
                return false;
            i += takes_next;
        }
    }
    return true;
}

bool lw_facts_describe(struct lw_run_info *info, char *const *argv,
                       struct lw_error *err)
{
    struct lw_buf command;
    struct utsname host;
    char cwd[4096]; /* PATH_MAX; a longer one is left out */
    bool done;

    lw_buf_init(&command, 0);
    lw_facts_add_command(&command, argv);
    done = lw_buf_check(&command, err) &&
           lw_run_info_set_command(info, command.bytes ? command.bytes : "", err) &&
           add_parameters(info, argv, err);
    for (size_t i = 0; done && argv[i]; i++)
        done = lw_run_info_add_argument(info, argv[i], err);
    if (done && getcwd(cwd, sizeof(cwd)))
        done = lw_run_info_set_fact(info, "cwd", cwd, err);
    if (done && uname(&host) == 0)
        done = lw_run_info_set_fact(info, "host", host.nodename, err);
    info->rank = lw_facts_rank(getpid());
    info->start_ns = lw_clock_ns();
    info->wall_start_ns = lw_clock_wall_ns();
    lw_buf_release(&command);
    return done;
}

/* ---- a process --------------------------------------------------------------------- */

/* The value of NAME in the LEN bytes at TEXT, an environment: *VALUE_LEN bytes; NULL: it
 * is not there. */
static const char *find_variable(const char *text, size_t len, const char *name,
                                 size_t *value_len)
{
    size_t name_len = strlen(name);
    const char *end = text + len;

    while (text < end) {
        size_t entry = strnlen(text, (size_t)(end - text));

        if (entry > name_len && memcmp(text, name, name_len) == 0 &&
            text[name_len] == '=') {
            *value_len = entry - name_len - 1;
            return text + name_len + 1;
        }
        text += entry + 1;
    }
    return NULL;
}

static bool read_environment(pid_t pid, struct lw_file_view *view)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    return lw_file_read(view, path, ENVIRON_BYTES, NULL);
}

bool lw_facts_variable(pid_t pid, const char *name, char **value, struct lw_error *err)
{
    struct lw_file_view view;
    const char *found;
    size_t len = 0;
    bool done = true;

    *value = NULL;
    if (!read_environment(pid, &view))
        return true;
    found = find_variable((const char *)view.bytes, view.len, name, &len);
    if (found)
        done = (*value = lw_copy_text(found, len, err)) != NULL;
    lw_file_close(&view);
    return done;
}

bool lw_facts_sees_variables(pid_t pid, const char *const *names, char **values)
{
    struct lw_file_view view;
    bool done = read_environment(pid, &view);

    for (size_t i = 0; names[i]; i++)
        values[i] = NULL;
    if (!done)
        return false;
    for (size_t i = 0; done && names[i]; i++) {
        size_t len = 0;
        const char *found =
            find_variable((const char *)view.bytes, view.len, names[i], &len);

        done = !found || (values[i] = lw_copy_text(found, len, NULL));
    }
    /* A process that is ending has none any more. */
    done = done && (view.len > 0 || lw_facts_image(pid) != 0);
    lw_file_close(&view);
    return done;
}

static int64_t find_number(const char *text, size_t len, const char *name)
{
    size_t value_len = 0;
    const char *value = find_variable(text, len, name, &value_len);
    uint64_t number;

    return value && lw_text_u64(value, value_len, &number) && number <= INT32_MAX
               ? (int64_t)number
               : -1;
}

int64_t lw_facts_rank(pid_t pid)
{
    /* torchrun; Open MPI; MPICH and Intel MPI; Slurm (srun python ...). */
    static const char *const names[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         "SLURM_PROCID" };
    struct lw_file_view view;
    int64_t rank = -1;

    if (!read_environment(pid, &view))
        return -1;
    for (size_t i = 0; rank < 0 && i < sizeof(names) / sizeof(names[0]); i++)
        rank = find_number((const char *)view.bytes, view.len, names[i]);
    lw_file_close(&view);
    return rank;
}

uint64_t lw_facts_image(pid_t pid)
{
    struct lw_os_process process;

    return lw_os_process(pid, &process, NULL) ? process.stack_start : 0;
}

/* The first version of struct pidfd_info (linux/pidfd.h), which headers older than the
 * kernel lack. */
struct process_info {
    uint64_t mask;
    uint64_t control_group;
    uint32_t ids[11];
    int32_t wait_status;
};
#define GET_PROCESS_INFO _IOWR(0xff, 11, struct process_info)
#define INFO_HAS_EXIT 8u

int lw_facts_exit_code(int pid_fd)
{
    struct process_info info = { .mask = INFO_HAS_EXIT };

    if (ioctl(pid_fd, GET_PROCESS_INFO, &info) != 0 || !(info.mask & INFO_HAS_EXIT))
        return -1;
    return WIFSIGNALED(info.wait_status) ? 128 + WTERMSIG(info.wait_status)
                                         : WEXITSTATUS(info.wait_status);
}

/* The LEN bytes at TEXT, strings with their NULs, as a list up to NULL; one piece of
 * memory, caller frees. A last string without its NUL counts too. */
static char **split(const char *text, size_t len, struct lw_error *err)
{
    size_t count = 0, head;
    char **words, *copy;

    for (size_t i = 0; i < len; i++)
        count += text[i] == '\0' || i + 1 == len;
    head = (count + 1) * sizeof(*words);
    words = lw_alloc(head + len + 1, err);
    if (!words)
        return NULL;
    copy = (char *)words + head;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    for (size_t i = 0; i < count; i++) {
        words[i] = copy;
        copy += strlen(copy) + 1;
    }
    words[count] = NULL;
    return words;
}

char **lw_facts_command_line(pid_t pid, struct lw_error *err)
{
    struct lw_file_view view = { 0 };
    char path[64];
    char **words;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    if (!lw_file_read(&view, path, ENVIRON_BYTES, NULL))
        view.len = 0;
    words = split((const char *)view.bytes, view.len, err);
    lw_file_close(&view);
    return words;
}

bool lw_facts_read_hello(struct lw_hello_text *hello, const char *text, size_t len,
                         struct lw_error *err)
{
    char **words = split(text, len, err);
    size_t count = 0;
    bool done;

    lw_buf_init(&hello->command, 0);
    if (!words)
        return false;
    while (words[count])
        count++;
    /* The text is NUL-terminated, and so the words are there too, at the same places. */
    hello->executable = count > 0 ? text : "";
    hello->python = count > 1 ? text + (words[1] - words[0]) : "";
    if (count > 2)
        lw_facts_add_command(&hello->command, words + 2);
    done = lw_buf_check(&hello->command, err);
    lw_free(words);
    return done;
}

bool lw_facts_add_command_of(struct lw_buf *out, pid_t pid, struct lw_error *err)
{
    char **words = lw_facts_command_line(pid, err);

    if (!words)
        return false;
    if (words[0])
        lw_facts_add_command(out, words);
    lw_free(words);
    return lw_buf_check(out, err);
}
