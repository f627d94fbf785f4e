/* Which code is the person's own: what lies under the project's root and is neither the
 * standard library, nor an installed package, nor in a virtualenv.
 *
 * The root is the folder of the repository that the run was started in, or that folder
 * itself. Files without a path (builtins, <frozen ...>, <string>) are nobody's. */
#ifndef LW_MODEL_MINE_H
#define LW_MODEL_MINE_H

#include "base/buf.h"
#include "model/profile.h"

struct lw_mine {
    char *folder;       /* the run was started in: relative names are meant from it */
    size_t root_len;    /* of `folder`, its first bytes: the root, without a slash */
    struct lw_buf path; /* the name at hand, made absolute */
};

/* For PROFILE, by its fact "cwd"; without one, the current folder is taken. */
bool lw_mine_init(struct lw_mine *mine, const struct lw_profile *profile,
                  struct lw_error *err) LW_MUST_CHECK;
void lw_mine_release(struct lw_mine *mine); /* zeroed is fine */

/* Is FILE, as the interpreter named it, the person's own? On a lack of memory *err is
 * filled and the answer is false. */
bool lw_mine_has(struct lw_mine *mine, const char *file, struct lw_error *err);

#endif
