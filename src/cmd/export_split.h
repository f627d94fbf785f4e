/* lapwing export --split: one file for each step of a trace. */
#ifndef LW_CMD_EXPORT_SPLIT_H
#define LW_CMD_EXPORT_SPLIT_H

#include "model/profile.h"

/* Write PROFILE, which is all or a part of what was read, to PATH. */
typedef bool lw_export_write(const void *how, const struct lw_profile *profile,
                             const char *path, struct lw_error *err);

/* Write each step of PROFILE's trace to a file of its own, named after PATH, in which
 * ".step7" is put before the last SUFFIX_LEN bytes. That there are no steps is
 * LW_ERR_UNSUPPORTED. If one fails, those before it are there. */
bool lw_export_split_steps(const struct lw_profile *profile, const char *path,
                           size_t suffix_len, lw_export_write *write, const void *how,
                           struct lw_error *err) LW_MUST_CHECK;

#endif
