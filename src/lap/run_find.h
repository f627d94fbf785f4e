/* Which run a person means by a word.
 *
 *     20261115-200731-train    its name, with or without the suffix
 *     latest, -1, -2 ...       the latest, the one before it ...
 *     20261115-2               the beginning of one name only
 *     train.py, train          the latest run of that program
 *
 * They are tried in this order, so what a longer-lived name means never changes because a
 * program happens to be called the same. */
#ifndef LW_LAP_RUN_FIND_H
#define LW_LAP_RUN_FIND_H

#include "base/buf.h"
#include "base/error.h"

enum lw_run_naming {
    LW_RUN_BY_NAME = 1,
    LW_RUN_BY_PLACE = 2, /* latest, -1, -2 */
    LW_RUN_BY_START = 4,
    LW_RUN_BY_PROGRAM = 8,
    LW_RUN_BY_ALL = 15,
};

/* Put in *PATH where the run lies that WORD means by one of BY (enum lw_run_naming), in
 * RUNS (NULL: LW_RUNS_FOLDER); the caller frees it. NULL there: none is meant. Fails
 * without memory, and with LW_ERR_USAGE for a word that means several runs ("2026") or a
 * place where there is none (-9). */
bool lw_run_find(const char *word, const char *runs, unsigned by, char **path,
                 struct lw_error *err) LW_MUST_CHECK;

/* Is WORD -1, -2 ...? */
bool lw_run_is_place(const char *word);
/* Does WORD end as a Python program does? A file of that name is no profile. */
bool lw_run_is_program(const char *word);

/* The nearest folder above this one whose LW_RUNS_FOLDER holds runs, for a person who went
 * into a subfolder: append its name ("../..") to FOLDER and put in *COUNT how many; 0: there
 * is none. Only folders in which no other user may write are looked at, and none above the
 * home folder or the mount. Fails only without memory. */
bool lw_run_above(struct lw_buf *folder, size_t *count, struct lw_error *err)
    LW_MUST_CHECK;

/* There is no run WORD: say so, with the name in RUNS that may have been meant. */
bool lw_run_fail_missing(const char *word, const char *runs, struct lw_error *err);

#endif
