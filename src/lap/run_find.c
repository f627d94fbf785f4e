#include "lap/run_find.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/trust.h"
#include "lap/run.h"

/* A beginning of digits alone is a date from here on; a shorter one is a number, which
 * means something else wherever a run and a number can stand side by side. */
#define DATE_DIGITS 8
#define STAMP "20261115-200731-" /* before the program in the name of a run */
#define SAID_MAX 3               /* names in the sentence about several */

/* By name: "RUNS/NAME", with the suffix it needs to be there. */

static bool find_named(const char *runs, const char *name, char **path,
                       struct lw_error *err)
{
    static const char *const suffixes[] = { "", LW_RUN_SUFFIX, LW_PACK_SUFFIX };
    struct lw_buf text = { 0 };

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
        lw_buf_reset(&text);
        lw_buf_addf(&text, "%s/%s%s", runs, name, suffixes[i]);
        if (!lw_buf_check(&text, err)) {
            lw_buf_release(&text);
            return false;
        }
        if (lw_file_exists(text.bytes)) {
            *path = text.bytes;
            return true;
        }
    }
    lw_buf_release(&text);
    return true;
}

/* By place */

static bool read_place(const char *word, uint64_t *place)
{
    return word[0] == '-' && lw_text_u64(word + 1, strlen(word + 1), place) && *place;
}

bool lw_run_is_place(const char *word)
{
    uint64_t place;

    return read_place(word, &place);
}

/* Is AT, as lstat() or stat() has it, a folder above which nobody looks for a project: of
 * another mount than BELOW, or one in which other users may write, as in /tmp? */
static bool is_end(const struct stat *at, const struct stat *below)
{
    return at->st_dev != below->st_dev ||
           (at->st_dev == below->st_dev && at->st_ino == below->st_ino) ||
           !lw_trust_is_private_to(at, geteuid());
}

static bool is_home(const struct stat *at)
{
    const char *home = getenv("HOME");
    struct stat about;

    return home && *home && stat(home, &about) == 0 && about.st_dev == at->st_dev &&
           about.st_ino == at->st_ino;
}

static bool count_runs(const char *runs, size_t *count, struct lw_error *err)
{
    struct lw_run_list list = { NULL, 0, 0 };
    struct lw_error why = { LW_OK, "" };
    struct stat about;
    bool done = true;

    *count = 0;
    if (lstat(runs, &about) == 0 && S_ISDIR(about.st_mode) &&
        lw_trust_is_private_to(&about, geteuid())) {
        done = lw_run_list_read(&list, runs, &why) || why.code != LW_ERR_NOMEM;
        *count = list.count;
        lw_run_list_release(&list);
    }
    return done || lw_fail(err, why.code, "%s", why.text);
}

bool lw_run_above(struct lw_buf *folder, size_t *count, struct lw_error *err)
{
    struct stat below, at;
    struct lw_buf runs;
    bool done = stat(".", &at) == 0, is_last = !done || is_home(&at);

    *count = 0;
    lw_buf_init(&runs, 0);
    for (done = true; done && !is_last && *count == 0;) {
        lw_buf_add_text(folder, folder->len ? "/.." : "..");
        lw_buf_reset(&runs);
        lw_buf_addf(&runs, "%.*s/%s", (int)folder->len,
                    folder->bytes ? folder->bytes : "", LW_RUNS_FOLDER);
        below = at;
        done = lw_buf_check(folder, err) && lw_buf_check(&runs, err);
        is_last = !done || stat(folder->bytes, &at) < 0 || is_end(&at, &below);
        done = done && (is_last || count_runs(runs.bytes, count, err));
        is_last = is_last || is_home(&at);
    }
    lw_buf_release(&runs);
    return done;
}

static bool fail_empty(const char *runs, struct lw_error *err)
{
    struct lw_buf above;
    size_t count = 0;

    lw_buf_init(&above, 0);
    if (strcmp(runs, LW_RUNS_FOLDER) != 0 || lw_run_above(&above, &count, err)) {
        if (count > 0)
            lw_fail(
                err, LW_ERR_USAGE,
                "there is no run in %s, but %s/%s has %zu: 'cd %s' first, or name a "
                "run by its path",
                runs, above.bytes, runs, count, above.bytes);
        else
            lw_fail(err, LW_ERR_USAGE,
                    "there is no run in %s yet: make one with `lapwing run`", runs);
    }
    lw_buf_release(&above);
    return false;
}

static bool find_place(const struct lw_run_list *list, uint64_t place, const char *runs,
                       const struct lw_run **run, struct lw_error *err)
{
    if (list->count == 0)
        return fail_empty(runs, err);
    if (place > list->count)
        return lw_fail(err, LW_ERR_USAGE, "there is no run -%llu: %s holds %zu",
                       (unsigned long long)place, runs, list->count);
    *run = &list->runs[list->count - place];
    return true;
}

/* By the beginning of the name */

static bool is_short_number(const char *word)
{
    return strspn(word, "0123456789") == strlen(word) && strlen(word) < DATE_DIGITS;
}

/* "3 runs begin with 2026: A, B and C; ..." */
static bool fail_several(const struct lw_run_list *list, const char *word, size_t count,
                         struct lw_error *err)
{
    struct lw_buf names;
    size_t said = 0;

    lw_buf_init(&names, 0);
    for (size_t i = list->count; i-- > 0 && said < SAID_MAX;)
        if (lw_text_starts(list->runs[i].name, word))
            lw_buf_addf(&names, "%s%s", said++ ? ", " : "", list->runs[i].name);
    if (lw_buf_check(&names, err))
        lw_fail(err, LW_ERR_USAGE,
                "%zu runs begin with '%s': %s%s; say more of the name", count, word,
                names.bytes, count > said ? " ..." : "");
    lw_buf_release(&names);
    return false;
}

static bool find_start(const struct lw_run_list *list, const char *word,
                       const struct lw_run **run, struct lw_error *err)
{
    size_t count = 0;

    if (!*word || is_short_number(word))
        return true;
    for (size_t i = 0; i < list->count; i++)
        if (lw_text_starts(list->runs[i].name, word)) {
            *run = &list->runs[i];
            count++;
        }
    if (count < 2)
        return true;
    *run = NULL;
    return fail_several(list, word, count, err);
}

/* By the program */

bool lw_run_is_program(const char *word)
{
    return lw_text_ends(word, ".py") || lw_text_ends(word, ".pyw") ||
           lw_text_ends(word, ".pyz");
}

/* Is TEXT the program of LEN bytes at WORD, which may stand without its suffix? */
static bool is_same_program(const char *text, const char *word, size_t len)
{
    return strncmp(text, word, len) == 0 &&
           (text[len] == '\0' || (text[len] == '.' && lw_run_is_program(text)));
}

/* A run is named after its program ("...-train", "...-train-2"); one that was started
 * through another, as torchrun, has it among the arguments. */
static bool is_of_program(const struct lw_run *run, const char *word)
{
    const char *base = lw_text_basename(word);
    const char *dot = lw_run_is_program(base) ? strrchr(base, '.') : NULL;
    size_t len = dot ? (size_t)(dot - base) : strlen(base);
    const char *name = run->name;

    if (len == 0)
        return false;
    if (strlen(name) > sizeof(STAMP) - 1 &&
        strspn(name, "0123456789-") >= sizeof(STAMP) - 1) {
        const char *rest = name + sizeof(STAMP) - 1;

        if (strncmp(rest, base, len) == 0 &&
            (!rest[len] ||
             (rest[len] == '-' && rest[len + 1] &&
              strspn(rest + len + 1, "0123456789") == strlen(rest + len + 1))))
            return true;
    }
    for (size_t i = 0; i < run->info.argument_count; i++) {
        const char *argument = lw_text_basename(run->info.arguments[i]);

        if (lw_run_is_program(argument) && is_same_program(argument, base, len))
            return true;
    }
    return false;
}

static void find_program(const struct lw_run_list *list, const char *word,
                         const struct lw_run **run)
{
    for (size_t i = list->count; i-- > 0 && !*run;)
        if (is_of_program(&list->runs[i], word))
            *run = &list->runs[i];
}

/* Any of them */

static bool find_listed(const char *word, const char *runs, unsigned by, char **path,
                        struct lw_error *err)
{
    bool is_latest = strcmp(word, "latest") == 0;
    const struct lw_run *run = NULL;
    struct lw_run_list list;
    uint64_t place = 1;
    bool done = lw_run_list_read(&list, runs, err);

    if (done && by & LW_RUN_BY_PLACE && (is_latest || read_place(word, &place)))
        done = find_place(&list, place, runs, &run, err);
    if (done && !run && by & LW_RUN_BY_START)
        done = find_start(&list, word, &run, err);
    if (done && !run && by & LW_RUN_BY_PROGRAM)
        find_program(&list, word, &run);
    if (done && run) {
        *path = lw_copy_text(run->path, strlen(run->path), err);
        done = *path != NULL;
    }
    lw_run_list_release(&list);
    return done;
}

bool lw_run_find(const char *word, const char *runs, unsigned by, char **path,
                 struct lw_error *err)
{
    bool is_by_place = strcmp(word, "latest") == 0 || lw_run_is_place(word);

    *path = NULL;
    if (!runs)
        runs = LW_RUNS_FOLDER;
    if (!*word)
        return true;
    if (by & LW_RUN_BY_NAME && !find_named(runs, word, path, err))
        return false;
    if (*path ||
        !(by & (is_by_place ? LW_RUN_BY_ALL : LW_RUN_BY_START | LW_RUN_BY_PROGRAM)))
        return true;
    return find_listed(word, runs, by, path, err);
}

bool lw_run_fail_missing(const char *word, const char *runs, struct lw_error *err)
{
    struct lw_run_list list;
    struct lw_nearest near;

    if (!runs)
        runs = LW_RUNS_FOLDER;
    if (!lw_run_list_read(&list, runs, err)) {
        lw_run_list_release(&list);
        return false;
    }
    lw_nearest_init(&near, word);
    for (size_t i = 0; i < list.count; i++)
        lw_nearest_offer(&near, list.runs[i].name);
    if (near.name)
        lw_fail(err, LW_ERR_USAGE,
                "there is no file %s, and no run of that name in %s; did you mean the "
                "run %s?",
                word, runs, near.name);
    else
        lw_fail(err, LW_ERR_USAGE, "there is no file %s, and no run of that name in %s",
                word, runs);
    lw_run_list_release(&list);
    return false;
}
