/* Suggestions are asked of the tables that there are: commands, views, the names that an
 * answer offers. Commands that our own package starts are nobody's to type. */

#include "cmd/guess.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyses/analysis.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/text.h"
#include "lap/run_find.h"
#include "readers/reader.h"

static const char *near_view(const char *word)
{
    struct lw_nearest near;

    lw_nearest_init(&near, word);
    for (size_t i = 0; i < lw_analysis_count; i++)
        lw_nearest_offer(&near, lw_analyses[i]->name);
    return near.name;
}

static const char *near_command(const char *word)
{
    struct lw_nearest near;

    lw_nearest_init(&near, word);
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            lw_nearest_offer(&near, lw_commands[i]->name);
    return near.name;
}

/* The words of other tools, and of other commands of our own. */
static const struct lw_habit words[] = {
    { "delete", "runs rm" },
    { "diff", "report --diff A B" },
    { "flame", "export -o x.svg" },
    { "flamegraph", "export -o x.svg" },
    { "list", "runs" },
    { "ls", "runs" },
    { "remove", "runs rm" },
    { "rm", "runs rm" },
    { "show", "report" },
    { "stats", "report functions" },
    { "view", "report" },
    { NULL, NULL },
};

static const char *instead_of(const char *word)
{
    for (const struct lw_habit *habit = words; habit->option; habit++)
        if (strcmp(habit->option, word) == 0)
            return habit->instead;
    return NULL;
}

/* Is WORD one with which people start Python? Other programs on PATH are not meant: rm and
 * ls would do something else than what was asked for. */
static bool starts_python(const char *word)
{
    static const char *const starters[] = {
        "accelerate", "composer",   "conda",   "deepspeed", "env",     "fabric",
        "hatch",      "horovodrun", "ipython", "ipython3",  "jupyter", "mpiexec",
        "mpirun",     "pdm",        "pipenv",  "pixi",      "poetry",  "pytest",
        "ray",        "rye",        "srun",    "torchrun",  "tox",     "uv",
    };

    if (lw_text_starts(word, "python") || lw_text_starts(word, "pypy") ||
        lw_text_ends(word, ".sh"))
        return true;
    for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
        if (strcmp(starters[i], word) == 0)
            return true;
    return false;
}

static bool is_script(const char *word)
{
    return strchr(word, '/') && !lw_file_is_folder(word) && access(word, X_OK) == 0;
}

/* Is WORD a program that a shell would find? */
static bool is_on_path(const char *word)
{
    const char *path = getenv("PATH");
    bool found = false;

    while (path && *path && !found && !strchr(word, '/')) {
        size_t len = strcspn(path, ":");
        struct lw_buf file;

        lw_buf_init(&file, 0);
        lw_buf_addf(&file, "%.*s/%s", (int)len, path, word);
        found = len && !file.failure && access(file.bytes, X_OK) == 0;
        lw_buf_release(&file);
        path += len + (path[len] == ':');
    }
    return found;
}

/* The command that takes such a WORD as its first: "run", "report", or NULL. */
static const char *command_for(const char *word)
{
    bool is_profile = false;

    if (lw_run_is_program(word))
        return "run";
    if (lw_analysis_find(word))
        return "report";
    if (lw_profile_has_suffix(word) ||
        (lw_profile_exists(word, LW_RUN_BY_NAME | LW_RUN_BY_PLACE, &is_profile, NULL) &&
         is_profile))
        return "report";
    return NULL;
}

void lw_guess_command(const char *word, struct lw_error *err)
{
    const char *before = command_for(word);
    const char *meant = word;

    if (!before && (meant = instead_of(word)))
        before = "";
    if (!before && (meant = near_command(word)))
        before = "";
    if (!before && (meant = near_view(word)))
        before = "report";
    if (!before && (is_script(word) || (starts_python(word) && is_on_path(word)))) {
        before = "run";
        meant = word;
    }
    if (before)
        lw_fail(err, LW_ERR_USAGE,
                "there is no command '%s'; did you mean 'lapwing %s%s%s'?", word,
                before, *before ? " " : "", meant);
    else
        lw_fail(err, LW_ERR_USAGE,
                "there is no command '%s'; 'lapwing --help' lists them", word);
}

void lw_guess_word(const char *view, const char *word, struct lw_error *err)
{
    const char *near = near_view(word);

    if (near)
        lw_fail(err, LW_ERR_USAGE,
                "%s takes no restrictions, and '%s' is neither a view, a run nor a "
                "file; did you mean the view '%s'?",
                view, word, near);
    else
        lw_fail(err, LW_ERR_USAGE,
                "%s takes no restrictions, and '%s' is neither a view, a run nor a "
                "file",
                view, word);
}

static const char *near_view_of(const struct lw_table_unmatched *un)
{
    return un->word ? near_view(un->word) : NULL;
}

bool lw_guess_check(const struct lw_table *table, bool has_view, struct lw_error *err)
{
    const struct lw_table_unmatched *un = &table->unmatched;
    /* Without a view the word may have been anything: the command line is wrong. */
    enum lw_error_code code = has_view ? LW_ERR_UNSUPPORTED : LW_ERR_USAGE;
    const char *near = near_view_of(un);

    if (!un->noun)
        return true;
    if (!un->word)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "no %s is left by all the restrictions together", un->noun);
    if (near)
        return lw_fail(err, code, "no %s matches '%s'; did you mean the view '%s'?",
                       un->noun, un->word, near);
    if (un->nearest)
        return lw_fail(err, code, "no %s matches '%s'; did you mean '%s'?", un->noun,
                       un->word, un->nearest);
    if (has_view)
        return lw_fail(err, code, "no %s matches '%s'", un->noun, un->word);
    return lw_fail(err, code,
                   "no %s matches '%s', and it is neither a view, a run nor a file; "
                   "'lapwing report --help' lists the views",
                   un->noun, un->word);
}

bool lw_guess_near(const struct lw_table *table, struct lw_error *err)
{
    return !(near_view_of(&table->unmatched) || table->unmatched.nearest) ||
           lw_guess_check(table, true, err);
}
