#include "cmd/run_python.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "recorder/program.h"

#define PYTHON "python3"

const char *lw_run_python_lapwing(void)
{
    unsigned long path = getauxval(AT_EXECFN); /* what execve() was given */

    return path ? (const char *)path : NULL;
}

/* FOLDER/bin/python3 if it is one that can be run, and (WITH_CONFIG) FOLDER says itself
 * that it is a virtualenv; caller frees. NULL: no, or no memory. */
static char *python_in(const char *folder, bool with_config, struct lw_error *err)
{
    char *python = lw_path_join(folder, "bin/" PYTHON, err);
    char *config = python ? lw_path_join(folder, "pyvenv.cfg", err) : NULL;

    if (!config || access(python, X_OK) != 0 ||
        (with_config && !lw_file_exists(config))) {
        lw_free(python);
        python = NULL;
    }
    lw_free(config);
    return python;
}

/* The folder that holds the bin in which LAPWING lies; caller frees. */
static char *folder_above_bin(const char *lapwing, struct lw_error *err)
{
    const char *name = lw_text_basename(lapwing);
    size_t len = (size_t)(name - lapwing);

    while (len > 1 && lapwing[len - 1] == '/')
        len--;
    if (len < 4 || strncmp(lapwing + len - 4, "/bin", 4) != 0)
        return lw_copy_text("", 0, err);
    return lw_copy_text(lapwing, len == 4 ? 1 : len - 4, err);
}

/* Where PATH's python3 is the same, it is called as it always was. */
static bool take(struct lw_run_python *python, char *path, const char *why,
                 struct lw_error *err)
{
    char *usual = lw_program_find(PYTHON, NULL);

    python->why = why;
    python->word = path;
    if (usual && strcmp(usual, path) == 0) {
        python->word = lw_copy_text(PYTHON, strlen(PYTHON), err);
        lw_free(path);
    }
    lw_free(usual);
    return python->word != NULL;
}

bool lw_run_python_choose(struct lw_run_python *python, const char *lapwing,
                          struct lw_error *err)
{
    const char *active = getenv("VIRTUAL_ENV");
    struct lw_error why = { LW_OK, "" };
    char *path = active && *active ? python_in(active, false, &why) : NULL;
    char *folder = NULL;

    if (path)
        return take(python, path, "the active virtualenv", err);
    if (lapwing && why.code == LW_OK)
        folder = folder_above_bin(lapwing, &why);
    if (folder && *folder)
        path = python_in(folder, true, &why);
    lw_free(folder);
    if (path)
        return take(python, path, "the virtualenv that this lapwing is in", err);
    if (why.code != LW_OK)
        return lw_fail(err, why.code, "%s", why.text);
    python->why = PYTHON " on PATH";
    python->word = lw_copy_text(PYTHON, strlen(PYTHON), err);
    return python->word != NULL;
}

void lw_run_python_release(struct lw_run_python *python)
{
    lw_free(python->word);
    python->word = NULL;
}
