/* Finds the folder to inject and makes the environment that names it. */

#include "recorder/inject.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/layout.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"

/* ---- the folder ------------------------------------------------------------------- */

/* The extension is named _lapwing.abi3.so, or as a build for one Python names it. */
static bool holds_agent(const char *folder)
{
    char *site = lw_path_join(folder, "sitecustomize.py", NULL);
    DIR *entries = site && lw_file_exists(site) ? opendir(folder) : NULL;
    const struct dirent *entry;
    bool found = false;

    lw_free(site);
    if (!entries)
        return false;
    while (!found && (entry = readdir(entries)))
        found = lw_text_starts(entry->d_name, "_lapwing.") &&
                lw_text_ends(entry->d_name, ".so");
    closedir(entries);
    return found;
}

/* FOLDER/REST if it holds the agent, else NULL. Caller frees. */
static char *try_folder(const char *folder, const char *rest)
{
    char *path = lw_path_join(folder, rest, NULL);

    if (path && holds_agent(path))
        return path;
    lw_free(path);
    return NULL;
}

/* site-packages or dist-packages of any Python in BASE/LIB. */
static char *try_packages(const char *base, const char *lib)
{
    char *folder = lw_path_join(base, lib, NULL);
    DIR *entries = folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    char *found = NULL;

    while (entries && !found && (entry = readdir(entries))) {
        char *python;

        if (!lw_text_starts(entry->d_name, "python3"))
            continue;
        python = lw_path_join(folder, entry->d_name, NULL);
        if (python && !(found = try_folder(python, "site-packages/lapwing/_inject")))
            found = try_folder(python, "dist-packages/lapwing/_inject");
        lw_free(python);
    }
    if (entries)
        closedir(entries);
    lw_free(folder);
    return found;
}

char *lw_inject_find_from(const char *executable, struct lw_error *err)
{
    static const char *const libs[] = { "lib", "lib64", "local/lib" };
    const char *home = getenv("LAPWING_HOME");
    const char *name = lw_text_basename(executable);
    char *here = NULL, *above = NULL, *found = NULL, *slash;

    if (home && (found = try_folder(home, "_inject")))
        return found;
    here = lw_copy_text(executable, (size_t)(name - executable), err);
    /* Not "bin/..": Python makes such entries plain, and would not know ours again. */
    above = here ? lw_copy_text(here, strlen(here), err) : NULL;
    if (!above)
        goto out;
    for (int i = 0; i < 2; i++) { /* the slash at the end, and the one before */
        slash = strrchr(above, '/');
        if (slash)
            *slash = '\0';
    }
    /* A build folder holds the program and python/; an installation has it in bin/. */
    found = try_folder(here, "python");
    for (size_t i = 0; !found && i < sizeof(libs) / sizeof(libs[0]); i++)
        found = try_packages(above, libs[i]);
    if (!found)
        found = try_folder(above, "lapwing/_inject"); /* pip install --target */
    if (!found)
        lw_fail(err, LW_ERR_IO,
                "the folder lapwing/_inject with the agent is nowhere near %s; set "
                "LAPWING_HOME to the folder that holds _inject",
                executable);
out:
    lw_free(here);
    lw_free(above);
    return found;
}

char *lw_inject_find(struct lw_error *err)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (len < 0) {
        lw_fail_errno(err, "/proc/self/exe: cannot read where this program is");
        return NULL;
    }
    path[len] = '\0';
    return lw_inject_find_from(path, err);
}

/* ---- the environment --------------------------------------------------------------- */

#define PATH_VARIABLE "PYTHONPATH"

static const char *value_of(const char *entry, const char *name)
{
    size_t len = strlen(name);

    return strncmp(entry, name, len) == 0 && entry[len] == '=' ? entry + len + 1 : NULL;
}

/* How FOLDER's entry of LEN bytes at ENTRY is spelled (agent/layout.h); NULL: it is
 * another one. */
static const char *spelling_of(const char *entry, size_t len, const char *folder)
{
    static const char *const spellings[] = { "", LW_AGENT_PATH_FOLLOWED,
                                             LW_AGENT_PATH_EMPTY };
    size_t folder_len = strlen(folder);

    if (len < folder_len || memcmp(entry, folder, folder_len) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        if (strlen(spellings[i]) == len - folder_len &&
            memcmp(entry + folder_len, spellings[i], len - folder_len) == 0)
            return spellings[i];
    }
    return NULL;
}

bool lw_inject_is_entry(const char *entry, size_t len, const char *folder)
{
    return spelling_of(entry, len, folder) != NULL;
}

/* The program's own PYTHONPATH, which PATH is, or was before a run around this one put the
 * same FOLDER into it. NULL: it has none. OWN is where it is put together. */
static const char *own_python_path(struct lw_buf *own, const char *path,
                                   const char *folder)
{
    const char *spelling = path ? spelling_of(path, strlen(path), folder) : NULL;
    size_t kept = 0;

    if (!path || (spelling && strcmp(spelling, LW_AGENT_PATH_EMPTY) != 0))
        return NULL;
    for (const char *end; path; path = *end ? end + 1 : NULL) {
        end = strchrnul(path, ':');
        spelling = spelling_of(path, (size_t)(end - path), folder);
        if (spelling && strcmp(spelling, LW_AGENT_PATH_FOLLOWED) == 0)
            continue;
        if (kept++ > 0)
            lw_buf_add_char(own, ':');
        if (!spelling)
            lw_buf_add(own, path, (size_t)(end - path));
    }
    lw_buf_add_char(own, '\0');
    return own->bytes ? own->bytes : "";
}

/* FOLDER, and then what PATH holds already. An empty entry there means the current folder
 * to Python, so each is kept. */
static void add_python_path(struct lw_buf *out, const char *folder, const char *path)
{
    struct lw_buf own;
    const char *value;

    lw_buf_init(&own, 0);
    value = own_python_path(&own, path, folder);
    lw_buf_addf(out, PATH_VARIABLE "=%s", folder);
    if (value && *value)
        lw_buf_addf(out, LW_AGENT_PATH_FOLLOWED ":%s", value);
    else if (value)
        lw_buf_add_text(out, LW_AGENT_PATH_EMPTY);
    lw_buf_add_char(out, '\0');
    if (own.failure != LW_OK)
        out->failure = own.failure;
    lw_buf_release(&own);
}

static const char *calls_word(const struct lw_inject_options *options)
{
    if (!options->calls)
        return "off";
    return options->c_calls ? "c" : "python";
}

static const char *const ops_words[] = {
    [LW_OPS_OFF] = "off",
    [LW_OPS_WINDOWS] = "windows",
    [LW_OPS_ALL] = "all",
};

static void add_agent(struct lw_buf *out, const struct lw_inject_options *options)
{
    lw_buf_addf(out, LW_AGENT_VARIABLE "=socket=%s,ops=%s,", options->socket,
                ops_words[options->ops]);
    lw_buf_addf(out, "calls=%s,timeline=%d,min_span_ns=%llu,sample=%d,steps=%d",
                calls_word(options), options->timeline,
                (unsigned long long)options->min_span_ns, options->sample,
                options->steps);
    if (options->torch)
        lw_buf_addf(out, ",torch=%s", options->torch);
    lw_buf_add_char(out, '\0');
}

char **lw_inject_environment(char *const *environment, const char *folder,
                             const struct lw_inject_options *options,
                             struct lw_error *err)
{
    const char *python_path = NULL;
    struct lw_buf text; /* all entries, each with its NUL */
    char **copy = NULL;
    size_t count = 2, head;

    lw_buf_init(&text, 0);
    for (size_t i = 0; environment[i]; i++) {
        const char *path = value_of(environment[i], PATH_VARIABLE);

        if (path) {
            python_path = path;
        } else if (!value_of(environment[i], LW_AGENT_VARIABLE)) {
            lw_buf_add(&text, environment[i], strlen(environment[i]) + 1);
            count++;
        }
    }
    add_python_path(&text, folder, python_path);
    add_agent(&text, options);
    head = (count + 1) * sizeof(*copy);
    if (lw_buf_check(&text, err) && (copy = lw_alloc(head + text.len, err))) {
        char *at = (char *)copy + head;

        memcpy(at, text.bytes, text.len);
        for (size_t i = 0; i < count; i++) {
            copy[i] = at;
            at += strlen(at) + 1;
        }
        copy[count] = NULL;
    }
    lw_buf_release(&text);
    return copy;
}

/* ---- what keeps us out ------------------------------------------------------------- */

static bool is_python(const char *word)
{
    const char *name = lw_text_basename(word);

    if (!lw_text_starts(name, "python"))
        return false;
    return name[6 + strspn(name + 6, "0123456789.t")] == '\0';
}

/* One word of Python's options, "-uI" say. *STOPS: the options end with it, because it
 * names what to run (-c, -m), or takes the next word (-W, -X) and so on. */
static char look_at_option(const char *word, bool *takes_next, bool *stops)
{
    char found = 0;

    *takes_next = *stops = false;
    for (const char *c = word + 1; *c; c++) {
        if (strchr("ISE", *c)) {
            found = *c;
        } else if (strchr("cm", *c)) {
            *stops = true;
            break;
        } else if (strchr("WX", *c)) {
            *takes_next = c[1] == '\0';
            break;
        }
    }
    return found;
}

char lw_inject_shut_out(char *const *argv)
{
    size_t i = 0;

    while (argv[i] && !is_python(argv[i]))
        i++;
    if (!argv[i])
        return 0;
    for (i++; argv[i] && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        bool takes_next, stops;
        char found;

        if (argv[i][1] == '-') /* --check-hash-based-pycs and the like */
            continue;
        found = look_at_option(argv[i], &takes_next, &stops);
        if (found)
            return found;
        if (stops)
            break;
        if (takes_next && argv[i + 1])
            i++;
    }
    return 0;
}
