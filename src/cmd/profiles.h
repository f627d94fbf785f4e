/* The profiles that a person named, opened and added up. */

#ifndef LW_CMD_PROFILES_H
#define LW_CMD_PROFILES_H

#include "base/buf.h"
#include "model/profile.h"

/* The COUNT profiles at NAMES as one (none: the latest run), which the caller frees.
 * Several are added in the order in which pstats.Stats(A, B, C) adds them, A and then
 * from the last to the second, since that decides the last digits of sums and the order
 * of a listing. WANT is enum lw_want. A line for each is appended to HEAD (see below;
 * NULL: not wanted), parted by newlines. NULL: failed. */
struct lw_profile *lw_profiles_open(char *const *names, size_t count, unsigned want,
                                    struct lw_buf *head, struct lw_error *err);

/* Append "lapwing report " and the words that open again the COUNT profiles at NAMES, which
 * became PROFILE: what a hint writes before a view. A run is called by its own name, since
 * -2 and "train.py" soon mean another; the latest, if it was asked for as that (or nothing
 * was named), by none. PROFILE may be NULL where NAMES are files. */
void lw_profiles_add_report(struct lw_buf *out, char *const *names, size_t count,
                            const struct lw_profile *profile);

/* What the second of the two profiles at NAMES has more than the first, which the caller
 * frees (model/merge.h). NULL: failed. */
struct lw_profile *lw_profiles_open_diff(char *const *names, unsigned want,
                                         struct lw_error *err);

/* Append "Sun Nov 15 20:07:31 2026    out.prof", as pstats heads its report of a file; a
 * run has the time at which it began. NAME is what the person called it (NULL: the
 * latest run); nothing is appended for standard input. */
void lw_profiles_add_head(struct lw_buf *head, const char *name,
                          const struct lw_profile *profile);

#endif
